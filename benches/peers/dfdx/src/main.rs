//! dfdx. Shapes are types, so tensors cannot be sliced, and convolutions need a nightly compiler:
//! w6 is omitted.

use common::{Bench, Node, Numbers, SAMPLES, WEIGHTS, coarse_labels, fine_labels, tree};
use dfdx::losses::cross_entropy_with_logits_loss as cross_entropy;
use dfdx::optim::{Sgd, SgdConfig};
use dfdx::prelude::*;
use std::hint::black_box;

const RATE: f64 = 0.01;

type Matrix<const I: usize, const O: usize> = Tensor<Rank2<I, O>, f32, Cpu>;
type Taped<const I: usize, const O: usize> = Tensor<Rank2<I, O>, f32, Cpu, Tape>;
type Tape = OwnedTape<f32, Cpu>;
type Scalar = Tensor<Rank0, f32, Cpu>;
type Dense<const I: usize, const O: usize> = modules::Linear<I, O, f32, Cpu>;
type Column = ((Dense<3072, 64>, ReLU), (Dense<64, 64>, ReLU));
type Fine = ((Dense<64, 64>, ReLU), (Dense<64, 64>, ReLU), Dense<64, 5>);

fn main() {
    let bench = Bench::from_arguments();
    let thread = std::thread::Builder::new().stack_size(2 << 30).spawn(|| workloads(bench)).expect("a thread");
    thread.join().expect("it ends");
}

fn workloads(mut bench: Bench) {
    let device = &Cpu::default();
    bench.run("w1", |bench| {
        for columns in [1, 2, 4] {
            for skip in [false, true] {
                paper(bench, columns, skip, device);
            }
        }
    });
    bench.run("w2", |bench| scalars(bench, device));
    bench.run("w3", |bench| pointwise(bench, device));
    bench.run("w4", |bench| {
        product::<64, 64, 64>(bench, device);
        product::<256, 256, 256>(bench, device);
        product::<1024, 1024, 1024>(bench, device);
        product::<16, 3072, 64>(bench, device);
    });
    bench.run("w5", |bench| mlp(bench, device));
    bench.run("w7", |bench| tree_lstm(bench, device));
    bench.run("w8", |bench| prediction(bench, device));
}

fn dense<const I: usize, const O: usize>(numbers: &mut Numbers, device: &Cpu) -> Dense<I, O> {
    dense_of(numbers.weight(I, O), device)
}

/// Weights are stored as `[outputs, inputs]`, like those of the library's layers.
fn dense_of<const I: usize, const O: usize>(weight: Vec<f32>, device: &Cpu) -> Dense<I, O> {
    let weight: Matrix<I, O> = device.tensor(weight);
    let weight = weight.permute::<Rank2<O, I>, Axes2<1, 0>>();
    Dense { weight: device.tensor(weight.as_vec()), bias: device.zeros() }
}

fn sgd<M>(module: &M) -> Sgd<M, f32, Cpu> {
    Sgd::new(module, SgdConfig { lr: RATE, momentum: None, weight_decay: None })
}

fn one_hot<const B: usize, const C: usize>(labels: &[usize], device: &Cpu) -> Matrix<B, C> {
    let mut hot = vec![0.0; B * C];
    labels.iter().enumerate().for_each(|(sample, label)| hot[sample * C + label] = 1.0);
    device.tensor(hot)
}

struct Net {
    columns: Vec<Column>,
    coarse: Dense<64, 20>,
    fine: Vec<Fine>,
}

impl Net {
    fn new(numbers: &mut Numbers, columns: usize, device: &Cpu) -> Self {
        // members of a tuple are evaluated in their order
        let columns = (0..columns).map(|_| ((dense(numbers, device), ReLU), (dense(numbers, device), ReLU))).collect();
        let coarse = dense(numbers, device);
        let fine = |_| ((dense(numbers, device), ReLU), (dense(numbers, device), ReLU), dense(numbers, device));
        Net { columns, coarse, fine: (0..20).map(fine).collect() }
    }
}

fn images(numbers: &mut Numbers, device: &Cpu) -> Vec<Matrix<16, 3072>> {
    (0..20).map(|_| device.tensor(numbers.uniform(16 * 3072, 1.0))).collect()
}

fn paper(bench: &mut Bench, columns: usize, skip: bool, device: &Cpu) {
    let mut numbers = Numbers::new(1);
    let images = images(&mut numbers, device);
    let mut net = Net::new(&mut numbers, columns, device);
    let fine: Vec<Matrix<16, 5>> = (0..20).map(|batch| one_hot(&fine_labels(batch), device)).collect();
    let coarse: Vec<Matrix<16, 20>> = (0..20).map(|batch| one_hot(&coarse_labels(batch), device)).collect();
    let mut column_steps: Vec<_> = net.columns.iter().map(sgd).collect();
    let mut coarse_step = sgd(&net.coarse);
    let mut fine_steps: Vec<_> = net.fine.iter().map(sgd).collect();
    let mut turns = (0..20).cycle();
    bench.training("w1", &format!("cols={columns};{}", if skip { "skip" } else { "noskip" }), || {
        let batch = turns.next().expect("a cycle does not end");
        let columns = net.columns.iter().map(|column| column.forward(images[batch].leaky_trace()));
        let features = columns.reduce(|sum, column| sum + column).expect("there is a column");
        let (features, tape) = features.split_tape();
        let mut loss = cross_entropy(net.coarse.forward(features.clone().put_tape(tape)), coarse[batch].clone());
        let wanted = if skip { batch..batch + 1 } else { 0..20 };
        for net in &net.fine[wanted.clone()] {
            loss = loss + cross_entropy(net.forward(features.leaky_trace()), fine[batch].clone());
        }
        let value = loss.array().into();
        let gradients = loss.backward();
        for (column, step) in net.columns.iter_mut().zip(&mut column_steps) {
            step.update(column, &gradients).expect("all is used");
        }
        coarse_step.update(&mut net.coarse, &gradients).expect("all is used");
        for (fine, step) in net.fine[wanted.clone()].iter_mut().zip(&mut fine_steps[wanted]) {
            step.update(fine, &gradients).expect("all is used");
        }
        value
    });
}

fn scalars(bench: &mut Bench, device: &Cpu) {
    let scalar = |value: f32| -> Scalar { device.tensor(black_box(value)) };
    let mut weights = WEIGHTS.map(scalar);
    let mut samples = SAMPLES.into_iter().cycle();
    bench.training("w2a", "guessNextNumber", || {
        let ([x0, x1, x2], answer) = black_box(samples.next().expect("a cycle does not end"));
        let [w0, w1, w2, bias] = &weights;
        let guess = w0.leaky_trace() * x0 + w1.leaky_trace() * x1 + w2.leaky_trace() * x2 + bias.clone();
        let loss = (guess - answer).square();
        let value = loss.array().into();
        let gradients = loss.backward();
        for weight in &mut weights {
            let delta = gradients.get(weight);
            weight.axpy(1.0, &delta, -RATE);
        }
        value
    });
    let chain = || {
        let [x, w] = [1.0, 1.00001].map(scalar);
        let y = (0..10_000).fold(x.leaky_trace(), |y, _| y * w.clone());
        let value = y.array();
        let gradients = y.backward();
        [value, gradients.get(&x).array(), gradients.get(&w).array()].map(f64::from)
    };
    bench.check("w2b", "chain10000", &chain());
    bench.operations("w2b", "chain10000", 10_000, chain);
    let diamonds = || {
        let x = scalar(-0.5);
        let y = (0..1_000).fold(x.leaky_trace(), |y, _| {
            // `y * y` with one tensor on both sides is refused
            let (before, tape) = y.split_tape();
            before.clone().put_tape(tape).square() + before
        });
        let value = y.array();
        let gradients = y.backward();
        [value, gradients.get(&x).array()].map(f64::from)
    };
    bench.check("w2c", "diamond1000", &diamonds());
    bench.operations("w2c", "diamond1000", 2_000, diamonds);
}

fn pointwise(bench: &mut Bench, device: &Cpu) {
    let mut numbers = Numbers::new(3);
    let operands: [Tensor<Rank1<1_048_576>, f32, Cpu>; 4] =
        [(); 4].map(|()| device.tensor(numbers.uniform(1 << 20, 1.0)));
    let evaluate = || {
        let [a, b, c, d] = operands.clone();
        let sum = ((a.leaky_trace() * b + c.leaky_trace() * d).tanh() * (-a.leaky_trace()).exp()).sum();
        let value = sum.array();
        (value, sum.backward())
    };
    let (value, gradients) = evaluate();
    bench.check("w3", "elementwise1M", &[value, gradients.get(&operands[0]).sum().array()].map(f64::from));
    bench.milliseconds("w3", "elementwise1M", || drop(evaluate()));
}

fn product<const M: usize, const K: usize, const N: usize>(bench: &mut Bench, device: &Cpu) {
    let mut numbers = Numbers::new(4);
    let a: Matrix<M, K> = device.tensor(numbers.uniform(M * K, 1.0));
    let b: Matrix<K, N> = device.tensor(numbers.uniform(K * N, 1.0));
    let variant = format!("{M}x{K}x{N}");
    bench.check("w4", &variant, &[a.clone().matmul(b.clone()).sum::<Rank0, _>().array().into()]);
    bench.products(&variant, [M, K, N], 1, || drop(a.clone().matmul(b.clone())));
}

fn mlp(bench: &mut Bench, device: &Cpu) {
    let mut numbers = Numbers::new(5);
    let images: Vec<Matrix<128, 784>> = (0..4).map(|_| device.tensor(numbers.uniform(128 * 784, 1.0))).collect();
    let labels: Matrix<128, 10> = one_hot(&common::labels(128), device);
    let first: Dense<784, 512> = dense(&mut numbers, device);
    let second: Dense<512, 512> = dense(&mut numbers, device);
    let last: Dense<512, 10> = dense(&mut numbers, device);
    let mut net = ((first, ReLU), (second, ReLU), last);
    let mut step = sgd(&net);
    let mut turns = images.iter().cycle();
    bench.training("w5", "mlp", || {
        let images = turns.next().expect("a cycle does not end");
        let loss = cross_entropy(net.forward(images.leaky_trace()), labels.clone());
        let value = loss.array().into();
        let gradients = loss.backward();
        step.update(&mut net, &gradients).expect("all is used");
        value
    });
}

/// The three gates are separate layers, with the same numbers.
fn gates(weight: &[f32], device: &Cpu) -> [Dense<64, 64>; 3] {
    [0, 1, 2].map(|gate| {
        let rows = weight.chunks(3 * 64).flat_map(|row| row[gate * 64..][..64].to_vec());
        dense_of(rows.collect(), device)
    })
}

fn tree_lstm(bench: &mut Bench, device: &Cpu) {
    type State = Matrix<1, 64>;
    let mut numbers = Numbers::new(7);
    let words = numbers.uniform(16 * 64, 1.0);
    let words: Vec<State> = words.chunks(64).map(|word| device.tensor(word.to_vec())).collect();
    let mut leaf = gates(&numbers.weight(64, 192), device);
    let mut inner = gates(&numbers.weight(64, 192), device);
    let mut forget: Dense<64, 64> = dense(&mut numbers, device);
    let mut output: Dense<64, 5> = dense(&mut numbers, device);
    let trees: Vec<Vec<Node>> = (1..=64).map(|seed| tree(seed, 16)).collect();
    let labels: Vec<Matrix<1, 5>> = (0..5).map(|label| one_hot(&[label], device)).collect();
    let mut turns = trees.iter().cycle().zip(labels.iter().cycle());
    bench.training("w7", "treelstm", || {
        let (tree, label) = turns.next().expect("a cycle does not end");
        let mut states: Vec<(State, State)> = Vec::new();
        let mut tape = Tape::default();
        // the inner weights, and the bias shared with the leaves
        let of_children = |gate: usize, hidden: Taped<1, 64>| {
            let weight = inner[gate].weight.retaped::<Tape>().permute::<Rank2<64, 64>, Axes2<1, 0>>();
            let bias = leaf[gate].bias.retaped::<Tape>();
            hidden.matmul(weight) + bias.broadcast_like::<Rank2<1, 64>, _>(&Rank2::<1, 64>::default())
        };
        for node in tree {
            let (input, out, new, remembered) = match *node {
                Node::Leaf(word) => {
                    let [input, out, new] = [0, 1, 2].map(|gate: usize| leaf[gate].forward(words[word].leaky_trace()));
                    (input, out, new, None)
                }
                Node::Inner(left, right) => {
                    let [(hl, cl), (hr, cr)] = [&states[left], &states[right]];
                    let (sum, sum_tape) = (hl.leaky_trace() + hr.clone()).split_tape();
                    let remembered = forget.forward(hl.leaky_trace()).sigmoid() * cl.clone()
                        + forget.forward(hr.leaky_trace()).sigmoid() * cr.clone();
                    let input = of_children(0, sum.clone().put_tape(sum_tape));
                    (input, of_children(1, sum.leaky_trace()), of_children(2, sum.leaky_trace()), Some(remembered))
                }
            };
            let mut cell = input.sigmoid() * new.tanh();
            if let Some(remembered) = remembered {
                cell = cell + remembered;
            }
            let (cell, cell_tape) = cell.split_tape();
            let (hidden, node_tape) = (out.sigmoid() * cell.clone().put_tape(cell_tape).tanh()).split_tape();
            tape = dfdx::tensor::Merge::merge(tape, node_tape);
            states.push((hidden, cell));
        }
        let loss = cross_entropy(output.forward(states.pop().expect("the root").0.put_tape(tape)), label.clone());
        let value = loss.array().into();
        let gradients = loss.backward();
        let step = |dense: &mut Dense<64, 64>, bias: bool| {
            let delta = gradients.get(&dense.weight);
            dense.weight.axpy(1.0, &delta, -RATE);
            if bias {
                let delta = gradients.get(&dense.bias);
                dense.bias.axpy(1.0, &delta, -RATE);
            }
        };
        leaf.iter_mut().for_each(|dense| step(dense, true));
        inner.iter_mut().for_each(|dense| step(dense, false));
        step(&mut forget, true);
        let delta = gradients.get(&output.weight);
        output.weight.axpy(1.0, &delta, -RATE);
        let delta = gradients.get(&output.bias);
        output.bias.axpy(1.0, &delta, -RATE);
        value
    });
}

fn prediction(bench: &mut Bench, device: &Cpu) {
    let mut numbers = Numbers::new(1);
    let batches = images(&mut numbers, device);
    let net = Net::new(&mut numbers, 1, device);
    let single: Vec<Matrix<1, 3072>> = batches
        .iter()
        .flat_map(|batch| batch.as_vec().chunks(3072).map(|image| device.tensor(image.to_vec())).collect::<Vec<_>>())
        .collect();
    latency(bench, "batch=1", &net, &single);
    latency(bench, "batch=16", &net, &batches);
}

fn latency<const B: usize>(bench: &mut Bench, variant: &str, net: &Net, inputs: &[Matrix<B, 3072>]) {
    let classify = |images: &Matrix<B, 3072>| {
        let features = net.columns[0].forward(images.clone());
        let scores = net.coarse.forward(features.clone()).sum::<Rank1<20>, _>().array();
        let class = (0..20).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).expect("there are classes");
        (class as f64, net.fine[class].forward(features).as_vec())
    };
    let outcomes: Vec<_> = inputs[..20].iter().map(classify).collect();
    let classes = outcomes.iter().map(|outcome| outcome.0).sum();
    let logits = outcomes.iter().flat_map(|outcome| &outcome.1).map(|&logit| f64::from(logit)).sum();
    bench.check("w8", variant, &[classes, logits]);
    let mut turns = inputs.iter().cycle();
    bench.latency("w8", variant, || {
        black_box(classify(turns.next().expect("a cycle does not end")));
    });
}
