use dl::nn::Linear;
use dl::prelude::*;

fn main() -> dl::Result<()> {
    let net = Linear::<f32>::new(2, 2, &mut dl::nd::init::rng(1))?;
    let loss = net.of(&Nd::from([[1.0, 2.0]])).square().sum();
    let groups = Groups::of(&net).path("bias", Sgd::new(0.01));
    loss.train(&groups).wait()?;
    loss.train(&Lbfgs::new()).wait()?;
    let rate: f32 = 0.1;
    loss.train(&Sgd::new(rate)).wait()?;
    Ok(())
}
