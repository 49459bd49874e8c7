use dl::prelude::*;

fn main() {
    let x = Layer::constant(1.0);
    let v: f64 = x.predict();
    println!("{v}");
}
