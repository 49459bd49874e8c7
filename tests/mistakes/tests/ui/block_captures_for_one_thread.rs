use dl::prelude::*;

use std::rc::Rc;

fn main() {
    let x = Layer::constant(1.0);
    let scale = Rc::new(2.0);
    let _: Layer<f64> = direct! { x * !x * *scale };
}
