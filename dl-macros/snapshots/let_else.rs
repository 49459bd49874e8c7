// fn f(x: Do<Option<f32>>, y: Layer<f32>) -> Layer<f32> {
//     let Some(a) = !x else {
//         return y * !y;
//     };
//     y * a
// }
fn f(x: Do<Option<f32>>, y: Layer<f32>) -> Layer<f32> {
    #[allow(unused_variables)]
    let branches = {
        static BRANCHES: [::dl::bang::Branch; 1] = [
            ::dl::bang::Branch::new("let Some(a) = !x", &["Some(a)", "return y * !y"]),
        ];
        &BRANCHES
    };
    let Some(a) = ({
        let start = ::dl::bang::place(&x).start();
        let value = start.await?;
        value
    }) else {
        ::dl::bang::took(&branches[0], 1);
        {
            let returned: Layer<f32> = ::dl::bang::operand(&y).duplicate()
                * {
                    let start = ::dl::bang::place(&y).start();
                    let value = start.await?;
                    value
                };
            return ::core::result::Result::Ok(returned);
        };
    };
    ::dl::bang::took(&branches[0], 0);
    y * a
}

