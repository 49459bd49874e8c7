//! Random functions without decisions: compiled ones equal ordinary ones, bit for bit.

use dl::Adam;
use dl::nd::init::{rng, uniform};
use dl::nd::ndarray::{Ix2, s};
use dl::nd::{Element, INFER, Rank, RunningStats};
use dl::prelude::*;
use rand::Rng;
use test_support::on_threads;

type Matrix<A> = NdLayer<Ix2, A>;

/// Builds the function that these bytes describe, from two tensors of one shape, a square
/// matrix, and running statistics.
fn build<A: Element>(
    [x, y, w]: [&Matrix<A>; 3],
    stats: [&RunningStats<A>; 2],
    code: &[u8],
    x_rows: usize,
) -> Matrix<A> {
    let number = A::of;
    let mut stack = vec![x.clone(), y.clone()];
    for pair in code.chunks_exact(2) {
        let operand = |shift: u8| stack[(pair[1] >> shift) as usize % stack.len()].clone();
        let (a, b) = (operand(0), operand(4));
        stack.push(match pair[0] % 33 {
            0 => a + b,
            1 => a - b,
            2 => a * b,
            3 => a / (b.square() + number(1.0)),
            4 => a.tanh(),
            5 => a.sigmoid() * b,
            6 => a.relu(),
            7 => (a * number(0.3)).exp(),
            8 => (a.square() + number(0.5)).ln(),
            9 => a.matmul(w),
            10 => a.matmul(w.transpose(0, 1)).matmul(w),
            11 => a.softmax(1),
            12 => a.log_softmax(0),
            13 => max(&a, &b),
            14 => a.sum_axis(0).lift::<Ix2>() * b,
            15 => a.layer_norm(1, 1e-5),
            16 => a.gelu() - b,
            17 => dl::nd::concat(1, [a.clone(), b]).slice(s![.., ..4]) + a,
            18 => Layer::constant(number(0.5)) - a.abs(),
            19 => a.linear(w, w.row(0)),
            20 => {
                let parts = a.linear_relu(w, w.row(1) + number(0.25)).chunk(1, 2);
                dl::nd::concat(1, [parts[1].sigmoid(), &parts[0] * &parts[1]]) + b
            }
            21 => a.reshape([4, INFER]).reshape([INFER, 4]) - b,
            22 => a.to_dyn().tanh().matmul(w.to_dyn()).to_rank::<Ix2>(),
            23 => a * w.row(2).lift::<Ix2>(),
            24 => dl::nd::concat(0, [a, b]).slice_axis(0, ..x_rows),
            25 => dl::nd::concat(1, [a.row(0).unsqueeze(0), b.row(-1).unsqueeze(0)]).chunk(1, 2)[1].clone() + a,
            26 => a.clone() * a.mean() + b,
            27 => a.dropout(0.5),
            28 => a.dropout(0.25) * b.dropout(0.75) + a,
            29 => a.matmul(w).tanh().dropout(0.1).matmul(w),
            30 => (a + b.tanh()).batch_norm_with(stats[0], 1e-5),
            31 => a.updating(&stats[1].mean, b.row(0)),
            _ => a.dropout(1.0) - b.tanh(),
        });
    }
    stack.pop().expect("there are two from the start")
}

#[differentiable(compiled)]
fn random_function<A: Element>(
    operands: [&Matrix<A>; 3],
    stats: [&RunningStats<A>; 2],
    code: &[u8],
    rows: usize,
) -> Matrix<A> {
    build(operands, stats, code, rows)
}

/// Each element in full precision, with the sign of a zero.
fn bits<A: Element, D: Rank>(tensor: &Nd<A, D>) -> Vec<String> {
    tensor.view().iter().map(|x| format!("{x:?}")).collect()
}

/// The gradients and the losses of two steps, and the weights and the buffers after them.
type Trained = (Vec<Result<Vec<String>, String>>, [Vec<String>; 3], [[Vec<String>; 2]; 2]);

fn train<A: Element>(code: &[u8], rows: usize, seed: u64, is_compiled: bool) -> Trained {
    let weight = |shape, seed| Weight::new(uniform::<A, _>(shape, -1.0, 1.0, &mut rng(seed)));
    let [x, y, w] = [weight([rows, 4], seed + 1), weight([rows, 4], seed + 2), weight([4, 4], seed)];
    let function = if is_compiled { random_function::<A> } else { build::<A> };
    let stats = [RunningStats::<A>::new(4), RunningStats::new(4)];
    let mut found = Vec::new();
    for step in 0..2 {
        // random layers before and after the call, in some programs
        let input = |x: &NdWeight<Ix2, A>| if seed.is_multiple_of(3) { x.dropout(0.2) } else { x.layer() };
        let output = function([&input(&x), &input(&y), &w.layer()], stats.each_ref(), code, rows);
        let output = if seed.is_multiple_of(2) { output.dropout(0.3) } else { output };
        let loss = output.square().mean();
        let mut add = |of: dl::Result<Vec<String>>| found.push(of.map_err(|error| super::first(&error)));
        for mode in [Mode::Evaluate, Mode::Train, Mode::Evaluate] {
            add(loss.predict().mode(mode).seed(step).wait().map(|loss| bits(&Nd::from([loss]))));
            add(loss.gradient(&x).predict().mode(mode).seed(step).wait().map(|gradient| bits(&gradient)));
        }
        add(loss.predict().wait().map(|loss| bits(&Nd::from([loss]))));
        add(loss.train(&Adam::new(0.1)).wait().map(|loss| bits(&Nd::from([loss])))); // without a seed
        let mode = if seed.is_multiple_of(5) { Mode::Evaluate } else { Mode::Train };
        add(loss.train(&Adam::new(0.1)).mode(mode).seed(seed + step).wait().map(|loss| bits(&Nd::from([loss]))));
    }
    let buffers = stats.map(|stats| [bits(&stats.mean.value()), bits(&stats.variance.value())]);
    (found, [x, y, w].map(|weight| bits(&weight.value())), buffers)
}

/// The environment variable `COMPILED_PROGRAMS` sets another number of functions.
#[test]
fn random_functions_equal_ordinary_ones() {
    let programs = std::env::var("COMPILED_PROGRAMS").map_or(300, |programs| programs.parse().expect("a number"));
    let mut random = rng(11);
    for program in 0..programs {
        let length = 2 * random.random_range(1..14);
        let code: Vec<u8> = (0..length).map(|_| random.random()).collect();
        let rows = random.random_range(1..5);
        let threads = [1, 2, 3, 8][program as usize % 4];
        for train in [train::<f32>, train::<f64>] {
            let [compiled, ordinary] =
                [true, false].map(|is_compiled| on_threads(threads, || train(&code, rows, program, is_compiled)));
            assert_eq!(compiled, ordinary, "program {program}: {code:?}, {rows} rows, {threads} threads");
        }
    }
}
