use dl::nn::Linear;
use dl::prelude::*;

fn main() -> dl::Result<()> {
    let net = Linear::<f32>::new(2, 2, &mut dl::nd::init::rng(1))?;
    let y = net.of(&Nd::from([[1.0, 2.0]])).softmax(1).predict().wait()?;
    println!("{}", y[0][1]);
    Ok(())
}
