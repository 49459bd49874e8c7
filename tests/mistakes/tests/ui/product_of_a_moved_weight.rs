use dl::prelude::*;

fn main() -> dl::Result<()> {
    let w = Weight::new(3.0);
    let loss = w * w;
    loss.train(&Sgd::new(0.1)).wait()?;
    Ok(())
}
