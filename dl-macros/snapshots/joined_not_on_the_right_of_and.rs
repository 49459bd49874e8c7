// fn f(x: Do<bool>, y: Do<bool>, z: Layer<f32>) -> Layer<f32> {
//     if !x && !y { z } else { z * 2.0 }
// }
fn f(x: Do<bool>, y: Do<bool>, z: Layer<f32>) -> Layer<f32> {
    #[allow(unused_variables)]
    let branches = {
        static BRANCHES: [::dl::bang::Branch; 1] = [
            ::dl::bang::Branch::new("!x && !y", &["z", "z * 2.0"]),
        ];
        &BRANCHES
    };
    if ({
        let start = ::dl::bang::place(&x).start();
        let value = start.await?;
        value
    }
        && {
            let start = ::dl::bang::place(&y).start();
            let value = start.await?;
            value
        }) && ::dl::bang::yes(&branches[0]) || ::dl::bang::no(&branches[0])
    {
        z
    } else {
        z * 2.0
    }
}

