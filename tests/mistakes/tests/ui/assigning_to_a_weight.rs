use dl::prelude::*;

fn main() {
    let mut w = Weight::new(1.0_f32);
    w -= 0.1;
    w = 2.0;
}
