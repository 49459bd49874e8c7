// fn f(xs: &[Layer<f32>], x: Layer<f32>) -> Layer<f32> {
//     if xs.iter().any(|x| !x.ready() || !x.is_empty()) { x } else { x * 2.0 }
// }
fn f(xs: &[Layer<f32>], x: Layer<f32>) -> Layer<f32> {
    if xs.iter().any(|x| ::dl::bang::not_in_a_closure(x.ready()).not() || !x.is_empty())
    {
        x
    } else {
        x * 2.0
    }
}

// fn f(x: &Layer<f32>, flag: bool) -> bool {
//     !flag && !x
// }
fn f(x: &Layer<f32>, flag: bool) -> bool {
    !flag && ::dl::bang::not_in_a_plain_function(x).not()
}

