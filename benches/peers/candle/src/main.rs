//! candle. The gradient of its `max_pool2d` is scaled by the share of maxima in the window, so that
//! the loss of w6 differs after a step.

use candle_core::{DType, Device, Result, Shape, Tensor, Var};
use candle_nn::ops::sigmoid;
use candle_nn::{Optimizer, SGD, loss::cross_entropy};
use common::{Bench, Node, Numbers, PRODUCTS, SAMPLES, WEIGHTS, coarse_labels, fine_labels, tree};
use std::hint::black_box;

const RATE: f64 = 0.01;

fn main() {
    let bench = Bench::from_arguments();
    // a backward calls itself for every operation of a chain
    let thread = std::thread::Builder::new().stack_size(2 << 30).spawn(|| workloads(bench)).expect("a thread");
    thread.join().expect("it ends");
}

fn workloads(mut bench: Bench) {
    bench.run("w1", |bench| {
        for columns in [1, 2, 4] {
            for skip in [false, true] {
                paper(bench, columns, skip).expect("it succeeds");
            }
        }
    });
    bench.run("w2", |bench| scalars(bench).expect("it succeeds"));
    bench.run("w3", |bench| pointwise(bench).expect("it succeeds"));
    bench.run("w4", |bench| products(bench).expect("it succeeds"));
    bench.run("w5", |bench| mlp(bench).expect("it succeeds"));
    bench.run("w6", |bench| conv(bench).expect("it succeeds"));
    bench.run("w7", |bench| tree_lstm(bench).expect("it succeeds"));
    bench.run("w8", |bench| prediction(bench).expect("it succeeds"));
}

struct Dense {
    weight: Var,
    bias: Var,
}

impl Dense {
    fn new(numbers: &mut Numbers, inputs: usize, outputs: usize) -> Result<Self> {
        Ok(Dense {
            weight: var(numbers.weight(inputs, outputs), (inputs, outputs))?,
            bias: var(vec![0.0; outputs], outputs)?,
        })
    }

    fn of(&self, x: &Tensor) -> Result<Tensor> {
        x.matmul(&self.weight)?.broadcast_add(&self.bias)
    }

    fn vars(&self) -> [Var; 2] {
        [self.weight.clone(), self.bias.clone()]
    }
}

fn tensor(numbers: Vec<f32>, shape: impl Into<Shape>) -> Result<Tensor> {
    Tensor::from_vec(numbers, shape.into(), &Device::Cpu)
}

fn var(numbers: Vec<f32>, shape: impl Into<Shape>) -> Result<Var> {
    Var::from_tensor(&tensor(numbers, shape)?)
}

fn indices(labels: Vec<usize>) -> Result<Tensor> {
    let count = labels.len();
    Tensor::from_vec(labels.into_iter().map(|label| label as u32).collect(), count, &Device::Cpu)
}

fn value(scalar: &Tensor) -> Result<f64> {
    scalar.to_dtype(DType::F64)?.to_scalar()
}

struct Net {
    columns: Vec<[Dense; 2]>,
    coarse: Dense,
    fine: Vec<[Dense; 3]>,
}

impl Net {
    fn new(numbers: &mut Numbers, columns: usize) -> Result<Self> {
        let mut dense = |inputs, outputs| Dense::new(numbers, inputs, outputs);
        let columns = (0..columns).map(|_| Ok([dense(3072, 64)?, dense(64, 64)?])).collect::<Result<_>>()?;
        let coarse = dense(64, 20)?;
        let fine = (0..20).map(|_| Ok([dense(64, 64)?, dense(64, 64)?, dense(64, 5)?])).collect::<Result<_>>()?;
        Ok(Net { columns, coarse, fine })
    }

    fn vars(&self) -> Vec<Var> {
        let all = self.columns.iter().flatten().chain([&self.coarse]).chain(self.fine.iter().flatten());
        all.flat_map(Dense::vars).collect()
    }

    fn features(&self, images: &Tensor) -> Result<Tensor> {
        let mut columns = self.columns.iter().map(|[first, second]| second.of(&first.of(images)?.relu()?)?.relu());
        let first = columns.next().expect("there is a column")?;
        columns.try_fold(first, |sum, column| sum + column?)
    }

    fn fine(&self, class: usize, features: &Tensor) -> Result<Tensor> {
        let [first, second, last] = &self.fine[class];
        last.of(&second.of(&first.of(features)?.relu()?)?.relu()?)
    }
}

fn images(numbers: &mut Numbers) -> Result<Vec<Tensor>> {
    (0..20).map(|_| tensor(numbers.uniform(16 * 3072, 1.0), (16, 3072))).collect()
}

fn paper(bench: &mut Bench, columns: usize, skip: bool) -> Result<()> {
    let mut numbers = Numbers::new(1);
    let images = images(&mut numbers)?;
    let net = Net::new(&mut numbers, columns)?;
    let fine = (0..20).map(|batch| indices(fine_labels(batch))).collect::<Result<Vec<_>>>()?;
    let coarse = (0..20).map(|batch| indices(coarse_labels(batch))).collect::<Result<Vec<_>>>()?;
    let mut sgd = SGD::new(net.vars(), RATE)?;
    let mut turns = (0..20).cycle();
    let mut step = || {
        let batch = turns.next().expect("a cycle does not end");
        let features = net.features(&images[batch])?;
        let mut loss = cross_entropy(&net.coarse.of(&features)?, &coarse[batch])?;
        for class in if skip { batch..batch + 1 } else { 0..20 } {
            loss = (loss + cross_entropy(&net.fine(class, &features)?, &fine[batch])?)?;
        }
        sgd.backward_step(&loss)?;
        value(&loss)
    };
    let variant = format!("cols={columns};{}", if skip { "skip" } else { "noskip" });
    bench.training("w1", &variant, || step().expect("it succeeds"));
    Ok(())
}

fn scalars(bench: &mut Bench) -> Result<()> {
    let weights = WEIGHTS.map(|weight| var(vec![weight], ()).expect("a number"));
    let mut sgd = SGD::new(weights.to_vec(), RATE)?;
    let mut samples = SAMPLES.into_iter().cycle();
    let mut step = || {
        let ([x0, x1, x2], answer) = black_box(samples.next().expect("a cycle does not end"));
        let [w0, w1, w2, bias] = &weights;
        let product = |w: &Var, x: f32| w.affine(f64::from(x), 0.0);
        let guess = (((product(w0, x0)? + product(w1, x1)?)? + product(w2, x2)?)? + bias.as_tensor())?;
        let difference = (guess - f64::from(answer))?;
        let loss = (&difference * &difference)?;
        sgd.backward_step(&loss)?;
        value(&loss)
    };
    bench.training("w2a", "guessNextNumber", || step().expect("it succeeds"));
    let chain = || -> Result<[f64; 3]> {
        let (x, w) = (var(vec![1.0], ())?, var(vec![1.00001], ())?);
        let mut y = x.as_tensor().clone();
        for _ in 0..10_000 {
            y = (&y * w.as_tensor())?;
        }
        let gradients = y.backward()?;
        let of = |v: &Var| value(gradients.get(v).expect("it is used"));
        Ok([value(&y)?, of(&x)?, of(&w)?])
    };
    bench.check("w2b", "chain10000", &chain()?);
    bench.operations("w2b", "chain10000", 10_000, || chain().expect("it succeeds"));
    let diamonds = || -> Result<[f64; 2]> {
        let x = var(vec![-0.5], ())?;
        let mut y = x.as_tensor().clone();
        for _ in 0..1_000 {
            y = ((&y * &y)? + y)?;
        }
        let gradients = y.backward()?;
        Ok([value(&y)?, value(gradients.get(&x).expect("it is used"))?])
    };
    bench.check("w2c", "diamond1000", &diamonds()?);
    bench.operations("w2c", "diamond1000", 2_000, || diamonds().expect("it succeeds"));
    Ok(())
}

fn pointwise(bench: &mut Bench) -> Result<()> {
    let mut numbers = Numbers::new(3);
    let operands = (0..4).map(|_| var(numbers.uniform(1 << 20, 1.0), 1 << 20)).collect::<Result<Vec<_>>>()?;
    let [a, b, c, d] = [0, 1, 2, 3].map(|at: usize| operands[at].as_tensor());
    let evaluate = || -> Result<_> {
        let sum = (((a * b)? + (c * d)?)?.tanh()? * a.neg()?.exp()?)?.sum_all()?;
        let gradients = sum.backward()?;
        Ok((sum, gradients))
    };
    let (sum, gradients) = evaluate()?;
    let by_a = gradients.get(a).expect("it is used").sum_all()?;
    bench.check("w3", "elementwise1M", &[value(&sum)?, value(&by_a)?]);
    bench.milliseconds("w3", "elementwise1M", || drop(evaluate().expect("it succeeds")));
    Ok(())
}

fn products(bench: &mut Bench) -> Result<()> {
    for shape in PRODUCTS {
        let [m, k, n] = shape;
        let mut numbers = Numbers::new(4);
        let (a, b) = (tensor(numbers.uniform(m * k, 1.0), (m, k))?, tensor(numbers.uniform(k * n, 1.0), (k, n))?);
        let variant = format!("{m}x{k}x{n}");
        bench.check("w4", &variant, &[value(&a.matmul(&b)?.sum_all()?)?]);
        bench.products(&variant, shape, 1, || drop(a.matmul(&b).expect("it succeeds")));
    }
    Ok(())
}

fn mlp(bench: &mut Bench) -> Result<()> {
    let mut numbers = Numbers::new(5);
    let images = (0..4).map(|_| tensor(numbers.uniform(128 * 784, 1.0), (128, 784))).collect::<Result<Vec<_>>>()?;
    let labels = indices(common::labels(128))?;
    let [first, second, last] = [(784, 512), (512, 512), (512, 10)]
        .map(|(inputs, outputs)| Dense::new(&mut numbers, inputs, outputs).expect("a layer"));
    let mut sgd = SGD::new([&first, &second, &last].into_iter().flat_map(Dense::vars).collect(), RATE)?;
    let mut turns = images.iter().cycle();
    let mut step = || {
        let images = turns.next().expect("a cycle does not end");
        let loss = cross_entropy(&last.of(&second.of(&first.of(images)?.relu()?)?.relu()?)?, &labels)?;
        sgd.backward_step(&loss)?;
        value(&loss)
    };
    bench.training("w5", "mlp", || step().expect("it succeeds"));
    Ok(())
}

fn conv(bench: &mut Bench) -> Result<()> {
    let mut numbers = Numbers::new(6);
    let images =
        (0..4).map(|_| tensor(numbers.uniform(32 * 3 * 1024, 1.0), (32, 3, 32, 32))).collect::<Result<Vec<_>>>()?;
    let labels = indices(common::labels(32))?;
    let mut filters = |inputs: usize, outputs: usize| -> Result<[Var; 2]> {
        let weight = numbers.uniform(outputs * inputs * 9, 1.0 / (inputs as f32 * 9.0).sqrt());
        Ok([var(weight, (outputs, inputs, 3, 3))?, var(vec![0.0; outputs], (1, outputs, 1, 1))?])
    };
    let layers = [filters(3, 32)?, filters(32, 64)?];
    let dense = Dense::new(&mut numbers, 4096, 10)?;
    let mut sgd = SGD::new(layers.iter().flatten().cloned().chain(dense.vars()).collect(), RATE)?;
    let mut turns = images.iter().cycle();
    let mut step = || {
        let mut features = turns.next().expect("a cycle does not end").clone();
        for [weight, bias] in &layers {
            features = features.conv2d(weight, 1, 1, 1, 1)?.broadcast_add(bias)?.relu()?.max_pool2d(2)?;
        }
        let loss = cross_entropy(&dense.of(&features.flatten_from(1)?)?, &labels)?;
        sgd.backward_step(&loss)?;
        value(&loss)
    };
    bench.training("w6", "conv", || step().expect("it succeeds"));
    Ok(())
}

fn tree_lstm(bench: &mut Bench) -> Result<()> {
    const HIDDEN: usize = 64;
    let mut numbers = Numbers::new(7);
    let words = numbers.uniform(16 * HIDDEN, 1.0);
    let words = words.chunks(HIDDEN).map(|word| tensor(word.to_vec(), (1, HIDDEN))).collect::<Result<Vec<_>>>()?;
    let leaf = Dense::new(&mut numbers, HIDDEN, 3 * HIDDEN)?;
    let inner = var(numbers.weight(HIDDEN, 3 * HIDDEN), (HIDDEN, 3 * HIDDEN))?;
    let forget = Dense::new(&mut numbers, HIDDEN, HIDDEN)?;
    let output = Dense::new(&mut numbers, HIDDEN, 5)?;
    let trees: Vec<Vec<Node>> = (1..=64).map(|seed| tree(seed, 16)).collect();
    let labels = (0..5).map(|label| indices(vec![label])).collect::<Result<Vec<_>>>()?;
    let vars = [&leaf, &forget, &output].into_iter().flat_map(Dense::vars).chain([inner.clone()]).collect();
    let mut sgd = SGD::new(vars, RATE)?;
    let mut turns = trees.iter().cycle().zip(labels.iter().cycle());
    let mut step = || {
        let (tree, label) = turns.next().expect("a cycle does not end");
        let mut states: Vec<(Tensor, Tensor)> = Vec::new();
        for node in tree {
            let (gates, remembered) = match *node {
                Node::Leaf(word) => (leaf.of(&words[word])?, None),
                Node::Inner(left, right) => {
                    let [(hl, cl), (hr, cr)] = [&states[left], &states[right]];
                    let gates = (hl + hr)?.matmul(&inner)?.broadcast_add(&leaf.bias)?;
                    let remembered = ((sigmoid(&forget.of(hl)?)? * cl)? + (sigmoid(&forget.of(hr)?)? * cr)?)?;
                    (gates, Some(remembered))
                }
            };
            let gates = gates.chunk(3, 1)?;
            let mut cell = (sigmoid(&gates[0])? * gates[2].tanh()?)?;
            if let Some(remembered) = remembered {
                cell = (cell + remembered)?;
            }
            states.push(((sigmoid(&gates[1])? * cell.tanh()?)?, cell));
        }
        let loss = cross_entropy(&output.of(&states.last().expect("the root").0)?, label)?;
        sgd.backward_step(&loss)?;
        value(&loss)
    };
    bench.training("w7", "treelstm", || step().expect("it succeeds"));
    Ok(())
}

fn prediction(bench: &mut Bench) -> Result<()> {
    let mut numbers = Numbers::new(1);
    let batches = images(&mut numbers)?;
    let net = Net::new(&mut numbers, 1)?;
    let single = batches.iter().map(|batch| batch.chunk(16, 0)).collect::<Result<Vec<_>>>()?.concat();
    for (variant, inputs) in [("batch=1", single), ("batch=16", batches)] {
        let classify = |images: &Tensor| -> Result<(f64, f64)> {
            let features = net.features(images)?;
            let class = net.coarse.of(&features)?.sum(0)?.argmax(0)?.to_scalar::<u32>()?;
            let logits = net.fine(class as usize, &features)?.flatten_all()?.to_vec1::<f32>()?;
            Ok((class.into(), logits.into_iter().map(f64::from).sum()))
        };
        let outcomes = inputs[..20].iter().map(classify).collect::<Result<Vec<_>>>()?;
        let sums = outcomes.iter().fold([0.0; 2], |sums, outcome| [sums[0] + outcome.0, sums[1] + outcome.1]);
        bench.check("w8", variant, &sums);
        let mut turns = inputs.iter().cycle();
        bench.latency("w8", variant, || {
            black_box(classify(turns.next().expect("a cycle does not end")).expect("it succeeds"));
        });
    }
    Ok(())
}
