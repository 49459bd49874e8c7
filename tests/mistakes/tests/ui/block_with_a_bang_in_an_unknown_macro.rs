#![allow(unused_macros)]

use dl::prelude::*;

macro_rules! doubled {
    ($e:expr) => {
        $e + $e
    };
}

fn main() {
    let x = Layer::constant(1.0);
    let _: Layer<f64> = direct! { x * doubled!(!x) };
}
