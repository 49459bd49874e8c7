use dl::nn::Linear;
use dl::prelude::*;

fn main() -> dl::Result<()> {
    let net = Linear::<f32>::new(2, 2, &mut dl::nd::init::rng(1))?;
    for weight in net.parameters() {
        weight.freeze();
    }
    Ok(())
}
