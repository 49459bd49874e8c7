use dl::nn::Conv2d;

fn main() -> dl::Result<()> {
    Conv2d::<f32>::new(3, 8, 3, 1, &mut dl::nd::init::rng(1))?;
    Ok(())
}
