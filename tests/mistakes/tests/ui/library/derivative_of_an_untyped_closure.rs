use dl::prelude::*;

fn main() -> dl::Result<()> {
    let slope = derivative(|x| x * x);
    println!("{}", slope(Layer::constant(3.0)).predict().wait()?);
    Ok(())
}
