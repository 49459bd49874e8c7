use dl::prelude::*;

fn main() -> dl::Result<()> {
    let w = Weight::new(1.0);
    let loss = 2.0 * &w;
    loss.train(&Sgd::new(0.1)).wait()?;
    Ok(())
}
