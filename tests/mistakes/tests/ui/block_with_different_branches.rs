use dl::prelude::*;

fn main() {
    let x = Layer::constant(1.0);
    let _: Layer<f64> = direct! { if !x > 0.0 { x } else { 0.0 } };
}
