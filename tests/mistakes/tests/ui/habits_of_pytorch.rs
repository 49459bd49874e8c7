use dl::prelude::*;
use dl::schedule::StepDecay;

fn axes(x: &NdLayer) {
    let _ = x.sum(1);
    let _ = x.reshape(4, 1);
    let _ = x.permute(1, 0);
    let _ = x.permute([1, 0, 2]);
}

fn values(x: &Layer<f64>, tensor: &NdLayer) {
    println!("{x}");
    let _ = tensor.value();
    let _ = tensor.shape();
}

fn steps(w: &Weight<f64>) -> dl::Result<()> {
    let sgd = Sgd::new([w.clone()], 0.1);
    let adam = Adam::new(0.001, (0.9, 0.999));
    let loss = w.square()?;
    loss.train(&adam)?;
    adam.zero_grad();
    adam.step();
    let schedule = StepDecay::new(0.1, 30, 0.1);
    schedule.step();
    Ok(())
}

fn main() {}
