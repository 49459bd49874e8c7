use dl::prelude::*;

struct Batch(f64);

fn main() {
    let x = Layer::constant(1.0);
    let batch = Batch(2.0);
    let _: Layer<f64> = direct! { x * !x * batch.0 };
}
