// fn f(x: Layer<f32>) -> Layer<f32> {
//     let y = 'found: loop {
//         for i in 0..3 {
//             if !x > 1.0 {
//                 break 'found 2.0 * x * i as f32;
//             }
//             continue;
//         }
//     };
//     y + x
// }
fn f(x: Layer<f32>) -> Layer<f32> {
    #[allow(unused_variables)]
    let branches = {
        static BRANCHES: [::dl::bang::Branch; 1] = [
            ::dl::bang::Branch::new(
                "!x > 1.0",
                &["break 'found 2.0 * x * i as f32", "nothing"],
            ),
        ];
        &BRANCHES
    };
    let y = 'found: loop {
        for i in 0..3 {
            if ({
                let start = ::dl::bang::place(&x).start();
                let value = start.await?;
                value
            } > 1.0) && ::dl::bang::yes(&branches[0]) || ::dl::bang::no(&branches[0])
            {
                break 'found 2.0 * ::dl::bang::operand(&x).duplicate() * i as f32;
            }
            continue;
        }
    };
    y + x
}

