// fn f(x: Layer<bool>, y: Layer<bool>, z: Layer<f32>) -> Layer<f32> {
//     match (!x, !y) {
//         (true, false) => z,
//         _ => -z,
//     }
// }
fn f(x: Layer<bool>, y: Layer<bool>, z: Layer<f32>) -> Layer<f32> {
    #[allow(unused_variables)]
    let branches = {
        static BRANCHES: [::dl::bang::Branch; 1] = [
            ::dl::bang::Branch::new("(!x, !y)", &["(true, false) => z", "_ => -z"]),
        ];
        &BRANCHES
    };
    let extracted_0_1;
    match (
        {
            let start_0 = ::dl::bang::place(&x).start();
            let start_1 = ::dl::bang::place(&y).start();
            let (first, result_1) = ::dl::bang::join((start_0, start_1)).await?;
            extracted_0_1 = result_1;
            first
        },
        extracted_0_1,
    ) {
        (true, false) => {
            ::dl::bang::took(&branches[0], 0);
            z
        }
        _ => {
            ::dl::bang::took(&branches[0], 1);
            -z
        }
    }
}

