// fn f(x: Layer<f32>) -> Layer<f32> {
//     let no = |b: bool| !b;
//     fn not(b: bool) -> bool {
//         !b
//     }
//     if no(!x > 0.0) { x } else { x * 2.0 }
// }
fn f(x: Layer<f32>) -> Layer<f32> {
    #[allow(unused_variables)]
    let branches = {
        static BRANCHES: [::dl::bang::Branch; 1] = [
            ::dl::bang::Branch::new("no(!x > 0.0)", &["x", "x * 2.0"]),
        ];
        &BRANCHES
    };
    let no = |b: bool| !b;
    fn not(b: bool) -> bool {
        !b
    }
    if (no(
        {
            let start = ::dl::bang::place(&x).start();
            let value = start.await?;
            value
        } > 0.0,
    )) && ::dl::bang::yes(&branches[0]) || ::dl::bang::no(&branches[0])
    {
        x
    } else {
        x * 2.0
    }
}

