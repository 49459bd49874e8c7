use dl::nn::Linear;
use dl::prelude::*;

fn main() -> dl::Result<()> {
    let net = Linear::<f32>::new(2, 2, &mut dl::nd::init::rng(1))?;
    let loss = net.of(&Nd::from([[1.0, 2.0]])).square().sum();
    let slopes = loss.gradients(&net);
    println!("{:?}", slopes.weight.predict().wait()?);
    Ok(())
}
