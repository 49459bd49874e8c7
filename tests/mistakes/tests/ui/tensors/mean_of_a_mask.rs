use dl::prelude::*;

fn accuracy(predicted: &Layer<Nd<usize, Ix1>>, labels: &Nd<usize, Ix1>) -> Layer<f32> {
    predicted.equal(labels).mean()
}

fn main() {}
