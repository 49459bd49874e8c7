// fn f(x: Layer<f32>, y: Layer<f32>, c: bool) -> Layer<f32> {
//     if c { x * y } else { x + x }
// }
#[track_caller]
fn f(x: Layer<f32>, y: Layer<f32>, c: bool) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || -> Layer<f32> {
            if c { x * y } else { ::dl::bang::operand(&x).duplicate() + x }
        })
}

