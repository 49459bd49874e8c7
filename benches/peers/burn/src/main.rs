//! burn, on its CPU backends; the library name selects one: `burn-flex…` or `burn-ndarray…`.

use burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::module::{conv2d, linear, max_pool2d};
use burn::tensor::ops::{ConvOptions, MaxPoolOptions};
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use common::{Bench, Node, Numbers, PRODUCTS, SAMPLES, WEIGHTS, coarse_labels, fine_labels, tree};

const RATE: f32 = 0.01;

fn main() {
    let bench = Bench::from_arguments();
    let plain = match &bench.library {
        name if name.starts_with("burn-flex") => Device::flex(),
        name if name.starts_with("burn-ndarray") => Device::ndarray(),
        other => panic!("`{other}` is not a backend; expected burn-flex, burn-ndarray"),
    };
    // the backward pass of 10,000 operations may recurse
    let thread = std::thread::Builder::new().stack_size(2 << 30).spawn(|| workloads(bench, plain)).expect("a thread");
    thread.join().expect("it ends");
}

fn workloads(mut bench: Bench, plain: Device) {
    let device = &plain.clone().autodiff();
    bench.run("w1", |bench| {
        for columns in [1, 2, 4] {
            for skip in [false, true] {
                paper(bench, columns, skip, device);
            }
        }
    });
    bench.run("w2", |bench| scalars(bench, device));
    bench.run("w3", |bench| pointwise(bench, device));
    bench.run("w4", |bench| products(bench, &plain));
    bench.run("w5", |bench| mlp(bench, device));
    bench.run("w6", |bench| conv(bench, device));
    bench.run("w7", |bench| tree_lstm(bench, device));
    bench.run("w8", |bench| prediction(bench, &plain));
}

/// A trainable tensor. A step takes it out of the option, so that its buffer can be reused.
struct Weight<const D: usize>(Option<Tensor<D>>);

impl<const D: usize> Weight<D> {
    fn new(numbers: Vec<f32>, shape: [usize; D], device: &Device) -> Self {
        let weight = tensor(numbers, shape, device);
        Weight(Some(if device.is_autodiff() { weight.require_grad() } else { weight }))
    }

    fn tensor(&self) -> Tensor<D> {
        self.0.clone().expect("it is there between two steps")
    }

    fn step(&mut self, gradients: &mut Gradients) {
        let weight = self.0.take().expect("it is there between two steps");
        self.0 = Some(match weight.grad_remove(gradients) {
            None => weight,
            Some(delta) => Tensor::from_inner(weight.inner() - delta.mul_scalar(RATE)).require_grad(),
        });
    }
}

struct Dense(Weight<2>, Weight<1>);

impl Dense {
    fn new(numbers: &mut Numbers, inputs: usize, outputs: usize, device: &Device) -> Self {
        let weight = Weight::new(numbers.weight(inputs, outputs), [inputs, outputs], device);
        Dense(weight, Weight::new(vec![0.0; outputs], [outputs], device))
    }

    fn of(&self, x: Tensor<2>) -> Tensor<2> {
        linear(x, self.0.tensor(), Some(self.1.tensor()))
    }

    fn step(&mut self, gradients: &mut Gradients) {
        self.0.step(gradients);
        self.1.step(gradients);
    }
}

fn tensor<const D: usize>(numbers: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(numbers, shape), device)
}

fn indices(labels: Vec<usize>, device: &Device) -> Tensor<1, Int> {
    let count = labels.len();
    let labels: Vec<i64> = labels.into_iter().map(|label| label as i64).collect();
    Tensor::from_data(TensorData::new(labels, [count]), device)
}

fn value(scalar: Tensor<1>) -> f64 {
    scalar.into_data().iter::<f64>().next().expect("a number")
}

fn cross_entropy(device: &Device) -> CrossEntropyLoss {
    CrossEntropyLossConfig::new().init(device)
}

struct Net {
    columns: Vec<[Dense; 2]>,
    coarse: Dense,
    fine: Vec<[Dense; 3]>,
}

impl Net {
    fn new(numbers: &mut Numbers, columns: usize, device: &Device) -> Self {
        let mut dense = |inputs, outputs| Dense::new(numbers, inputs, outputs, device);
        Net {
            columns: (0..columns).map(|_| [dense(3072, 64), dense(64, 64)]).collect(),
            coarse: dense(64, 20),
            fine: (0..20).map(|_| [dense(64, 64), dense(64, 64), dense(64, 5)]).collect(),
        }
    }

    fn features(&self, images: &Tensor<2>) -> Tensor<2> {
        let columns = self.columns.iter().map(|[first, second]| relu(second.of(relu(first.of(images.clone())))));
        columns.reduce(|sum, column| sum + column).expect("there is a column")
    }

    fn fine(&self, class: usize, features: &Tensor<2>) -> Tensor<2> {
        let [first, second, last] = &self.fine[class];
        last.of(relu(second.of(relu(first.of(features.clone())))))
    }
}

fn images(numbers: &mut Numbers, device: &Device) -> Vec<Tensor<2>> {
    (0..20).map(|_| tensor(numbers.uniform(16 * 3072, 1.0), [16, 3072], device)).collect()
}

fn paper(bench: &mut Bench, columns: usize, skip: bool, device: &Device) {
    let mut numbers = Numbers::new(1);
    let images = images(&mut numbers, device);
    let mut net = Net::new(&mut numbers, columns, device);
    let fine: Vec<_> = (0..20).map(|batch| indices(fine_labels(batch), device)).collect();
    let coarse: Vec<_> = (0..20).map(|batch| indices(coarse_labels(batch), device)).collect();
    let error = cross_entropy(device);
    let mut turns = (0..20).cycle();
    bench.training("w1", &format!("cols={columns};{}", if skip { "skip" } else { "noskip" }), || {
        let batch = turns.next().expect("a cycle does not end");
        let features = net.features(&images[batch]);
        let wanted = if skip { batch..batch + 1 } else { 0..20 };
        let mut loss = error.forward(net.coarse.of(features.clone()), coarse[batch].clone());
        for class in wanted.clone() {
            loss = loss + error.forward(net.fine(class, &features), fine[batch].clone());
        }
        drop(features);
        let mut gradients = loss.backward();
        net.columns.iter_mut().flatten().for_each(|dense| dense.step(&mut gradients));
        net.coarse.step(&mut gradients);
        net.fine[wanted].iter_mut().flatten().for_each(|dense| dense.step(&mut gradients));
        value(loss)
    });
}

fn scalars(bench: &mut Bench, device: &Device) {
    let scalar = |value: f32| Weight::<1>::new(vec![value], [1], device);
    let mut weights = WEIGHTS.map(scalar);
    let mut samples = SAMPLES.into_iter().cycle();
    bench.training("w2a", "guessNextNumber", || {
        let ([x0, x1, x2], answer) = samples.next().expect("a cycle does not end");
        let [w0, w1, w2, bias] = [0, 1, 2, 3].map(|at: usize| weights[at].tensor());
        let guess = w0.mul_scalar(x0) + w1.mul_scalar(x1) + w2.mul_scalar(x2) + bias;
        let difference = guess.sub_scalar(answer);
        let loss = difference.clone() * difference;
        let mut gradients = loss.backward();
        weights.iter_mut().for_each(|weight| weight.step(&mut gradients));
        value(loss)
    });
    let chain = || {
        let [x, w] = [1.0, 1.00001].map(|value| scalar(value).tensor());
        let y = (0..10_000).fold(x.clone(), |y, _| y * w.clone());
        let gradients = y.backward();
        [value(y), value(x.grad(&gradients).expect("used")), value(w.grad(&gradients).expect("used"))]
    };
    bench.check("w2b", "chain10000", &chain());
    bench.operations("w2b", "chain10000", 10_000, chain);
    let diamonds = || {
        let x = scalar(-0.5).tensor();
        let y = (0..1_000).fold(x.clone(), |y, _| y.clone() * y.clone() + y);
        let gradients = y.backward();
        [value(y), value(x.grad(&gradients).expect("used"))]
    };
    bench.check("w2c", "diamond1000", &diamonds());
    bench.operations("w2c", "diamond1000", 2_000, diamonds);
}

fn pointwise(bench: &mut Bench, device: &Device) {
    let mut numbers = Numbers::new(3);
    let operands = [(); 4].map(|()| Weight::<1>::new(numbers.uniform(1 << 20, 1.0), [1 << 20], device).tensor());
    let evaluate = || {
        let [a, b, c, d] = operands.clone();
        let sum = ((a.clone() * b + c * d).tanh() * (-a).exp()).sum();
        let gradients = sum.backward();
        let by = [0, 1, 2, 3].map(|at: usize| operands[at].grad(&gradients).expect("used"));
        (value(sum), by)
    };
    let (sum, [by_a, ..]) = evaluate();
    bench.check("w3", "elementwise1M", &[sum, value(by_a.sum())]);
    bench.milliseconds("w3", "elementwise1M", || drop(evaluate()));
}

fn products(bench: &mut Bench, device: &Device) {
    for shape in PRODUCTS {
        let [m, k, n] = shape;
        let mut numbers = Numbers::new(4);
        let a: Tensor<2> = tensor(numbers.uniform(m * k, 1.0), [m, k], device);
        let b: Tensor<2> = tensor(numbers.uniform(k * n, 1.0), [k, n], device);
        let variant = format!("{m}x{k}x{n}");
        bench.check("w4", &variant, &[value(a.clone().matmul(b.clone()).sum())]);
        bench.products(&variant, shape, 1, || {
            let product = a.clone().matmul(b.clone());
            let _ = device.sync();
            drop(product);
        });
    }
}

fn mlp(bench: &mut Bench, device: &Device) {
    let mut numbers = Numbers::new(5);
    let images: Vec<Tensor<2>> = (0..4).map(|_| tensor(numbers.uniform(128 * 784, 1.0), [128, 784], device)).collect();
    let labels = indices(common::labels(128), device);
    let mut layers =
        [(784, 512), (512, 512), (512, 10)].map(|(inputs, outputs)| Dense::new(&mut numbers, inputs, outputs, device));
    let error = cross_entropy(device);
    let mut turns = images.iter().cycle();
    bench.training("w5", "mlp", || {
        let images = turns.next().expect("a cycle does not end").clone();
        let logits = layers[2].of(relu(layers[1].of(relu(layers[0].of(images)))));
        let loss = error.forward(logits, labels.clone());
        let mut gradients = loss.backward();
        layers.iter_mut().for_each(|dense| dense.step(&mut gradients));
        value(loss)
    });
}

fn conv(bench: &mut Bench, device: &Device) {
    let mut numbers = Numbers::new(6);
    let images: Vec<Tensor<4>> =
        (0..4).map(|_| tensor(numbers.uniform(32 * 3 * 1024, 1.0), [32, 3, 32, 32], device)).collect();
    let labels = indices(common::labels(32), device);
    let mut filters = |inputs: usize, outputs: usize| {
        let bound = 1.0 / (inputs as f32 * 9.0).sqrt();
        let weight = Weight::<4>::new(numbers.uniform(outputs * inputs * 9, bound), [outputs, inputs, 3, 3], device);
        (weight, Weight::<1>::new(vec![0.0; outputs], [outputs], device))
    };
    let mut layers = [filters(3, 32), filters(32, 64)];
    let mut dense = Dense::new(&mut numbers, 4096, 10, device);
    let error = cross_entropy(device);
    let padded = ConvOptions { stride: [1, 1], padding: [(1, 1), (1, 1)], dilation: [1, 1], groups: 1 };
    let halved = MaxPoolOptions { stride: [2, 2], ..MaxPoolOptions::<2>::new([2, 2]) };
    let mut turns = images.iter().cycle();
    bench.training("w6", "conv", || {
        let mut features = turns.next().expect("a cycle does not end").clone();
        for (weight, bias) in &layers {
            features = relu(conv2d(features, weight.tensor(), Some(bias.tensor()), padded.clone()));
            features = max_pool2d(features, halved.clone());
        }
        let loss = error.forward(dense.of(features.flatten(1, 3)), labels.clone());
        let mut gradients = loss.backward();
        for (weight, bias) in &mut layers {
            weight.step(&mut gradients);
            bias.step(&mut gradients);
        }
        dense.step(&mut gradients);
        value(loss)
    });
}

fn tree_lstm(bench: &mut Bench, device: &Device) {
    const HIDDEN: usize = 64;
    let mut numbers = Numbers::new(7);
    let words = numbers.uniform(16 * HIDDEN, 1.0);
    let words: Vec<Tensor<2>> = words.chunks(HIDDEN).map(|word| tensor(word.to_vec(), [1, HIDDEN], device)).collect();
    let mut leaf = Dense::new(&mut numbers, HIDDEN, 3 * HIDDEN, device);
    let mut inner = Weight::<2>::new(numbers.weight(HIDDEN, 3 * HIDDEN), [HIDDEN, 3 * HIDDEN], device);
    let mut forget = Dense::new(&mut numbers, HIDDEN, HIDDEN, device);
    let mut output = Dense::new(&mut numbers, HIDDEN, 5, device);
    let trees: Vec<Vec<Node>> = (1..=64).map(|seed| tree(seed, 16)).collect();
    let labels: Vec<_> = (0..5).map(|label| indices(vec![label], device)).collect();
    let error = cross_entropy(device);
    let mut turns = trees.iter().cycle().zip(labels.iter().cycle());
    bench.training("w7", "treelstm", || {
        let (tree, label) = turns.next().expect("a cycle does not end");
        let mut states: Vec<(Tensor<2>, Tensor<2>)> = Vec::new();
        for node in tree {
            let (gates, remembered) = match *node {
                Node::Leaf(word) => (leaf.of(words[word].clone()), None),
                Node::Inner(left, right) => {
                    let [(hl, cl), (hr, cr)] = [states[left].clone(), states[right].clone()];
                    let gates = linear(hl.clone() + hr.clone(), inner.tensor(), Some(leaf.1.tensor()));
                    (gates, Some(sigmoid(forget.of(hl)) * cl + sigmoid(forget.of(hr)) * cr))
                }
            };
            let [input, out, new]: [Tensor<2>; 3] = gates.chunk(3, 1).try_into().expect("three gates");
            let mut cell = sigmoid(input) * new.tanh();
            if let Some(remembered) = remembered {
                cell = cell + remembered;
            }
            states.push((sigmoid(out) * cell.clone().tanh(), cell));
        }
        let loss = error.forward(output.of(states.pop().expect("the root").0), label.clone());
        drop(states);
        let mut gradients = loss.backward();
        leaf.step(&mut gradients);
        inner.step(&mut gradients);
        forget.step(&mut gradients);
        output.step(&mut gradients);
        value(loss)
    });
}

fn prediction(bench: &mut Bench, device: &Device) {
    let mut numbers = Numbers::new(1);
    let batches = images(&mut numbers, device);
    let net = Net::new(&mut numbers, 1, device);
    let single = batches.iter().flat_map(|batch| batch.clone().chunk(16, 0)).collect();
    for (variant, inputs) in [("batch=1", single), ("batch=16", batches)] {
        let classify = |images: &Tensor<2>| {
            let features = net.features(images);
            let scores: Vec<f32> = net.coarse.of(features.clone()).sum_dim(0).into_data().iter::<f32>().collect();
            let class = (0..20).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).expect("there are classes");
            let logits: Vec<f64> = net.fine(class, &features).into_data().iter::<f64>().collect();
            (class as f64, logits)
        };
        let outcomes: Vec<_> = inputs[..20].iter().map(classify).collect();
        let classes = outcomes.iter().map(|outcome| outcome.0).sum();
        bench.check("w8", variant, &[classes, outcomes.iter().flat_map(|outcome| &outcome.1).sum()]);
        let mut turns = inputs.iter().cycle();
        bench.latency("w8", variant, || drop(classify(turns.next().expect("a cycle does not end"))));
    }
}
