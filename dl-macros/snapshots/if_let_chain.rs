// fn f(x: Do<Option<f32>>, y: Layer<f32>) -> Layer<f32> {
//     if let Some(a) = !x && a > !y { y * a } else { y }
// }
fn f(x: Do<Option<f32>>, y: Layer<f32>) -> Layer<f32> {
    #[allow(unused_variables)]
    let branches = {
        static BRANCHES: [::dl::bang::Branch; 1] = [
            ::dl::bang::Branch::new("let Some(a) = !x && a > !y", &["y * a", "y"]),
        ];
        &BRANCHES
    };
    if let Some(a) = {
        let start = ::dl::bang::place(&x).start();
        let value = start.await?;
        value
    }
        && a
            > {
                let start = ::dl::bang::place(&y).start();
                let value = start.await?;
                value
            }
    {
        ::dl::bang::took(&branches[0], 0);
        y * a
    } else {
        ::dl::bang::took(&branches[0], 1);
        y
    }
}

