// fn f(x: &Chain) -> Layer<f32> {
//     let mut z = x.clone();
//     while let Some(next) = !z.next() {
//         z = next;
//     }
//     z.value()
// }
fn f(x: &Chain) -> Layer<f32> {
    #[allow(unused_variables)]
    let branches = {
        static BRANCHES: [::dl::bang::Branch; 1] = [
            ::dl::bang::Branch::new(
                "let Some(next) = !z.next()",
                &["another round", "end"],
            ),
        ];
        &BRANCHES
    };
    let mut z = x.clone();
    {
        while let Some(next) = {
            let start = ::dl::bang::value(z.next()).start();
            let value = start.await?;
            value
        } {
            ::dl::bang::took(&branches[0], 0);
            z = next;
        }
        ::dl::bang::took(&branches[0], 1);
    }
    z.value()
}

