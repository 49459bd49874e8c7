use dl::prelude::*;

fn main() -> dl::Result<()> {
    let w = Weight::new(2.0_f64);
    (&w * 2.0).graph().wait()?.save("path.svg")?;
    Ok(())
}
