// fn f(x: Layer<f32>) -> Layer<f32> {
//     let r = &x;
//     let y = x * 2.0;
//     y + r
// }
#[track_caller]
fn f(x: Layer<f32>) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || -> Layer<f32> {
            let r = &x;
            let y = ::dl::bang::operand(&x).duplicate() * 2.0;
            y + r
        })
}

