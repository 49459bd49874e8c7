use dl::nn::{Linear, Sequential};
use dl::prelude::*;

fn main() -> dl::Result<()> {
    let mut rng = dl::nd::init::rng(1);
    let net = Sequential::<Ix2, f32>::new()
        .then(Linear::new(4, 8, &mut rng)?)
        .then(|x: NdLayer| x.relu())
        .then(Linear::new(8, 2, &mut rng)?);
    net.of(&Nd::from([[1.0, 0.0, 0.0, 1.0]])).predict().wait()?;
    Ok(())
}
