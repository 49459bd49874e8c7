//! Random functions without decisions: compiled ones equal ordinary ones, bit for bit.

use super::tensor;
use dl::nd::init::rng;
use dl::nd::{Item, Rank};
use dl::prelude::*;
use dl::{Adam, Data};
use rand::Rng;
use test_support::on_threads;

/// Builds the function that these bytes describe, from two tensors of one shape and a square
/// matrix.
fn build(x: &NdLayer, y: &NdLayer, w: &NdLayer, code: &[u8]) -> NdLayer {
    let mut stack = vec![x.clone(), y.clone()];
    for pair in code.chunks_exact(2) {
        let operand = |shift: u8| stack[(pair[1] >> shift) as usize % stack.len()].clone();
        let (a, b) = (operand(0), operand(4));
        stack.push(match pair[0] % 20 {
            0 => a + b,
            1 => a - b,
            2 => a * b,
            3 => a / (b.square() + 1.0),
            4 => a.tanh(),
            5 => a.sigmoid() * b,
            6 => a.relu(),
            7 => (a * 0.3).exp(),
            8 => (a.square() + 0.5).ln(),
            9 => a.matmul(w),
            10 => a.matmul(w.transpose(0, 1)).matmul(w),
            11 => a.softmax(1),
            12 => a.log_softmax(0),
            13 => max(&a, &b),
            14 => a.sum_axis(0).lift::<dl::nd::ndarray::Ix2>() * b,
            15 => a.layer_norm(1, 1e-5),
            16 => a.gelu() - b,
            17 => dl::nd::concat(1, [a.clone(), b]).slice(dl::nd::ndarray::s![.., ..4]) + a,
            18 => 0.5 - a.abs(),
            _ => a.clone() * a.mean() + b,
        });
    }
    stack.pop().expect("there are two from the start")
}

#[differentiable(compiled)]
fn random_function(x: &NdLayer, y: &NdLayer, w: &NdLayer, code: &[u8]) -> NdLayer {
    build(x, y, w, code)
}

fn bits<D: Rank>(tensor: &Nd<f32, D>) -> Vec<u32>
where
    f32: Item,
    Nd<f32, D>: Data,
{
    tensor.view().iter().map(|x| x.to_bits()).collect()
}

#[test]
fn random_functions_equal_ordinary_ones() {
    let programs = std::env::var("COMPILED_PROGRAMS").map_or(300, |programs| programs.parse().expect("a number"));
    let mut random = rng(11);
    for program in 0..programs {
        let length = 2 * random.random_range(1..14);
        let code: Vec<u8> = (0..length).map(|_| random.random()).collect();
        let rows = random.random_range(1..4);
        let each = [true, false].map(|is_compiled| {
            let [x, y] = [1, 2].map(|seed| Weight::new(tensor([rows, 4], program + seed)));
            let w = Weight::new(tensor([4, 4], program));
            let threads = if program % 2 == 0 { 1 } else { 3 };
            let train = || {
                let mut losses = Vec::new();
                for _ in 0..2 {
                    let layers = (&x.layer(), &y.layer(), &w.layer());
                    let result = match is_compiled {
                        true => random_function(layers.0, layers.1, layers.2, &code),
                        false => build(layers.0, layers.1, layers.2, &code),
                    };
                    let loss = result.square().mean();
                    let gradient = loss.gradient(&x).predict().wait();
                    losses.push(gradient.map_err(|error| error.to_string()).map(|gradient| bits(&gradient)));
                    losses.push(
                        loss.train(&Adam::new(0.1))
                            .wait()
                            .map_err(|error| error.to_string())
                            .map(|loss| vec![loss.to_bits()]),
                    );
                }
                losses
            };
            let losses = on_threads(threads, train);
            (losses, [x, y, w].map(|weight| bits(&weight.value())))
        });
        assert_eq!(each[0], each[1], "program {program}: {code:?}, {rows} rows");
    }
}
