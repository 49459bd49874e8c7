// fn f(x: Layer<f32>, y: Layer<f32>, n: u8) -> Layer<f32> {
//     match n {
//         0 if !x < !y => g(!x + !y),
//         _ => y,
//     }
// }
fn f(x: Layer<f32>, y: Layer<f32>, n: u8) -> Layer<f32> {
    #[allow(unused_variables)]
    let branches = {
        static BRANCHES: [::dl::bang::Branch; 1] = [
            ::dl::bang::Branch::new("n", &["0 if !x < !y => g(!x + !y)", "_ => y"]),
        ];
        &BRANCHES
    };
    match n {
        0 if {
            let extracted_0_1;
            ({
                let start_0 = ::dl::bang::place(&x).start();
                let start_1 = ::dl::bang::place(&y).start();
                let (first, result_1) = ::dl::bang::join((start_0, start_1)).await?;
                extracted_0_1 = result_1;
                first
            }) < extracted_0_1
        } => {
            ::dl::bang::took(&branches[0], 0);
            let extracted_1_1;
            g(
                {
                    let start_0 = ::dl::bang::place(&x).start();
                    let start_1 = ::dl::bang::place(&y).start();
                    let (first, result_1) = ::dl::bang::join((start_0, start_1)).await?;
                    extracted_1_1 = result_1;
                    first
                } + extracted_1_1,
            )
        }
        _ => {
            ::dl::bang::took(&branches[0], 1);
            y
        }
    }
}

