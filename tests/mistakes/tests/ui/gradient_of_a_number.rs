use dl::prelude::*;

fn main() {
    let w = Weight::new(1.0_f64);
    let layers: usize = 3;
    let _ = (&w * 2.0).gradients(&layers);
    let x = 3.0_f64;
    let _ = (&w * x).gradient(&x);
}
