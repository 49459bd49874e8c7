use dl::nd::init;
use dl::nn::{Linear, Sequential};

struct Twice;

fn main() {
    let linear = Linear::<f64>::new(2, 2, &mut init::rng(1)).unwrap();
    let net: Sequential = Sequential::new().then(linear);
    let net: Sequential = Sequential::new().then(Twice);
}
