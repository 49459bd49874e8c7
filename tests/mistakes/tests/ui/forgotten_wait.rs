#![deny(unused_must_use)]

use dl::prelude::*;

fn main() {
    let w = Weight::new(1.0);
    let loss = &w * &w;
    loss.train(&Sgd::new(0.1));
    loss.predict();
    &w * 2.0;
}
