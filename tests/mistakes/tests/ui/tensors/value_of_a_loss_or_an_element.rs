use dl::prelude::*;

fn printed(loss: &Layer<f32>) {
    println!("{}", loss.item());
}

fn halved(x: &NdLayer) -> NdLayer {
    x.map(|element| element * 0.5)
}

#[differentiable]
fn positive(x: &NdLayer<Ix1>) -> Layer<f32> {
    let mut sum = Layer::constant(0.0);
    for element in !x {
        sum = sum + element;
    }
    sum
}

#[differentiable]
fn chosen(scores: &NdLayer<Ix1>, experts: &[Weight<f32>]) -> Layer<f32> {
    let best: usize = !scores.argmax(0);
    experts[best].layer()
}

fn main() {}
