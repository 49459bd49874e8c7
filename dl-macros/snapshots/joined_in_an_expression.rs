// fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
//     if !x > !y { x } else { y }
// }
fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
    #[allow(unused_variables)]
    let branches = {
        static BRANCHES: [::dl::bang::Branch; 1] = [
            ::dl::bang::Branch::new("!x > !y", &["x", "y"]),
        ];
        &BRANCHES
    };
    let extracted_0_1;
    if ({
        let start_0 = ::dl::bang::place(&x).start();
        let start_1 = ::dl::bang::place(&y).start();
        let (first, result_1) = ::dl::bang::join((start_0, start_1)).await?;
        extracted_0_1 = result_1;
        first
    } > extracted_0_1) && ::dl::bang::yes(&branches[0]) || ::dl::bang::no(&branches[0])
    {
        x
    } else {
        y
    }
}

