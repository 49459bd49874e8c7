use dl::prelude::*;

#[allow(unused_macros)]
macro_rules! log {
    ($($arg:tt)*) => {
        println!($($arg)*)
    };
}

struct Net;

#[differentiable]
impl Net {
    fn of(&self, x: &Layer<f64>) -> Layer<f64> {
        let v = !x;
        log!("{self}: {v}");
        x * v
    }
}

fn main() {}
