use dl::data::{Dataset, InMemory, Loader};
use dl::nn::Linear;
use dl::prelude::*;

fn main() -> dl::Result<()> {
    let net = Linear::<f32>::new(2, 2, &mut dl::nd::init::rng(1))?;
    let features = Nd::<f32>::from([[0.0, 1.0], [1.0, 0.0]]);
    let data = InMemory(features).zip(InMemory(vec![0_usize, 1]))?;
    let loader = Loader::new(data, 2);
    for (x, y) in loader.epoch(0)? {
        net.of(&x).cross_entropy(&y).train(&Sgd::new(0.1)).wait()?;
    }
    Ok(())
}
