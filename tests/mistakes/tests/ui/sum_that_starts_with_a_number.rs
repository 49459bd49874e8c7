use dl::prelude::*;

fn total(xs: &[Layer<f64>]) -> Layer<f64> {
    let mut sum = 0.0;
    for x in xs {
        sum = sum + x;
    }
    sum
}

fn squares(xs: &[Layer<f64>]) -> Layer<f64> {
    let mut sum = 0.0;
    for x in xs {
        sum += x * x;
    }
    sum
}

fn main() {}
