// fn f(&self, x: &Layer<f32>) -> Layer<f32> {
//     println!("{self:?} {}", ! x,);
//     panic!("{self}")
// }
fn f(&self, x: &Layer<f32>) -> Layer<f32> {
    println!(
        "{self_:?} {}", { let start = ::dl::bang::place(& x).start(); let value = start.
        await ?; value }, self_ = this
    );
    panic!("{self_}", self_ = this)
}

