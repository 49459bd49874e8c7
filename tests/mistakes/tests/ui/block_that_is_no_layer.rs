use dl::prelude::*;

fn main() {
    let x = Layer::constant(1.0);
    let v: f64 = direct! { !x + 1.0 };
    println!("{v}");
}
