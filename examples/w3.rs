//! scratch
use dl::prelude::*;
use std::time::Instant;
fn main() -> dl::Result<()> {
    let n = 1 << 20;
    let t: Vec<NdWeight<dl::nd::ndarray::Ix1>> = (0..4)
        .map(|k| {
            Weight::new(Nd::from((0..n).map(|i| ((i * 7 + k * 13) % 1000) as f32 / 500.0 - 1.0).collect::<Vec<f32>>()))
        })
        .collect();
    let [a, b, c, d] = &t[..] else { unreachable!() };
    let y = || ((a * b + c * d).tanh() * (-a.layer()).exp()).sum();
    let mut times = Vec::new();
    for _ in 0..60 {
        let start = Instant::now();
        let (y, g) = Do::predict(y().value_and_gradients(&(a, b, c, d))).wait()?;
        std::hint::black_box((&y, &g));
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    println!("median {:.3} ms, min {:.3}", times[30], times[0]);
    Ok(())
}
