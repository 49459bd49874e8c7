// fn square(x: &Layer<f32>, y: f32) -> Layer<f32> {
//     let difference = x - y;
//     difference * difference
// }
#[track_caller]
fn square(x: &Layer<f32>, y: f32) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "square")
        .run(move || -> Layer<f32> {
            let difference = x - y;
            ::dl::bang::operand(&difference).duplicate() * difference
        })
}

