use dl::prelude::*;

fn main() {
    let _ = Weight::new([1.0_f32, 2.0]);
}
