//! Microbenchmarks of single operations and modules: `cargo bench --bench parts`, or
//! `cargo bench --bench parts -- product` to filter by name.
//!
//! Every figure is the time of a pass: building, evaluating and dropping the layers. Whole
//! workloads and other libraries are measured by the benchmark `figures`, the overhead of nodes by
//! `executor`.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dl::nd::HasRank;
use dl::nd::init::{rng, uniform};
use dl::nd::ndarray::IntoDimension;
use dl::nn::{GruCell, Linear};
use dl::prelude::*;
use dl::{Data, Elementary, Fused, Native, Unary, Unfused, simd};
use std::hint::black_box;

/// Uniform random numbers between −1 and 1.
fn numbers<const N: usize, D: HasRank<N>>(shape: [usize; N]) -> Nd<f32, D>
where
    [usize; N]: IntoDimension<Dim = D>,
{
    uniform(shape, -1.0, 1.0, &mut rng(1))
}

fn weight<const N: usize, D: HasRank<N>>(shape: [usize; N]) -> Weight<Nd<f32, D>>
where
    [usize; N]: IntoDimension<Dim = D>,
{
    Weight::new(numbers(shape))
}

type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// Builds a layer and predicts it.
fn predict<T: Data>(group: &mut Group<'_>, name: impl Into<String>, build: impl Fn() -> Layer<T>) {
    group.bench_function(BenchmarkId::new(name, "predict"), |bencher| {
        bencher.iter(|| black_box(build().predict().wait().expect("it succeeds")));
    });
}

/// Builds a layer and takes a training step.
fn train<T: Data>(group: &mut Group<'_>, name: impl Into<String>, build: impl Fn() -> Layer<T>) {
    let sgd = Sgd::new(1e-6);
    group.bench_function(BenchmarkId::new(name, "train"), |bencher| {
        bencher.iter(|| black_box(build().train(&sgd).wait().expect("it succeeds")));
    });
}

fn products(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("product");
    for [m, k, n] in [[16, 64, 64], [64, 64, 64], [16, 3072, 64], [256, 256, 256], [1024, 1024, 1024]] {
        let (a, b): (Nd, Nd) = (numbers([m, k]), numbers([k, n]));
        group.throughput(Throughput::Elements((2 * m * k * n) as u64));
        predict(&mut group, format!("{m}x{k}x{n}"), || a.matmul(&b));
    }
    let (a, b): (Nd, Nd) = (numbers([256, 256]), numbers([256, 256]));
    group.throughput(Throughput::Elements(2 * 256 * 256 * 256));
    predict(&mut group, "256x256x256, the left one transposed", || a.t().matmul(&b));
}

fn pointwise(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pointwise");
    // 2¹¹ elements fit into the L1 cache and are computed eagerly; 2¹⁵ fit into L2, 2²⁰ do not, and
    // both are fused
    for len in [1 << 11, 1 << 15, 1 << 20] {
        let [a, b, c, d] = [(); 4].map(|()| weight::<1, Ix1>([len]));
        group.throughput(Throughput::Elements(len as u64));
        for op in [Unary::Relu, Unary::Exp, Unary::Ln, Unary::Tanh, Unary::Sigmoid, Unary::Erf] {
            predict(&mut group, format!("{} of {len}", op.name()), || {
                <Nd<f32, Ix1> as dl::Pointwise>::unary(op, &a.layer())
            });
        }
        let chain = || ((&a * &b + &c * &d).tanh() * (-&a).exp()).sum();
        predict(&mut group, format!("eight operations and a sum of {len}"), chain);
        group.bench_function(
            BenchmarkId::new(format!("eight operations and a sum of {len}"), "value_and_gradients"),
            |bencher| {
                let both = || Do::predict(chain().value_and_gradients(&(&a, &b, &c, &d))).wait().expect("it succeeds");
                bencher.iter(|| black_box(both()));
            },
        );
    }
    let (x, bias) = (weight::<2, Ix2>([128, 512]), weight::<1, Ix1>([512]));
    group.throughput(Throughput::Elements(128 * 512));
    train(&mut group, "a bias for each row of 128x512", || (&x + &bias).relu().sum());
}

/// Each elementary function on 4,096 numbers: in a loop vectorised for this processor, in a loop
/// for the baseline instruction set, one number at a time, and by the standard library or `libm`.
fn elementary(criterion: &mut Criterion) {
    macro_rules! measure {
        ($group:ident, $T:ident, $($name:ident $theirs:expr;)*) => {$(
            let x: Vec<$T> = (0..4096).map(|i| 0.001 * (i + 1) as $T).collect();
            let mut y = x.clone();
            let mut measure = |what, of: fn(&[$T], &mut [$T])| {
                let id = BenchmarkId::new(concat!(stringify!($name), " of ", stringify!($T)), what);
                $group.bench_function(id, |bencher| bencher.iter(|| of(black_box(&x), black_box(&mut y))));
            };
            measure("vectors", |x, y| simd::vectorized(
                #[inline(always)]
                || {
                    for (y, &x) in y.iter_mut().zip(x) {
                        *y = Fused::$name(x);
                    }
                },
            ));
            measure("baseline", |x, y| y.iter_mut().zip(x).for_each(|(y, &x)| *y = Unfused::$name(x)));
            measure("one by one", |x, y| y.iter_mut().zip(x).for_each(|(y, &x)| *y = Native::$name(x)));
            measure("theirs", |x, y| y.iter_mut().zip(x).for_each(|(y, &x)| *y = $theirs(x)));
        )*};
    }

    let mut group = criterion.benchmark_group("elementary");
    group.throughput(Throughput::Elements(4096));
    measure! { group, f32,
        exp f32::exp; exp_m1 f32::exp_m1; ln f32::ln; ln_1p f32::ln_1p; tanh f32::tanh;
        logistic (|x: f32| 1.0 / (1.0 + (-x).exp())); erf libm::erff; erfc libm::erfcf;
    }
    measure! { group, f64,
        exp f64::exp; exp_m1 f64::exp_m1; ln f64::ln; ln_1p f64::ln_1p; tanh f64::tanh;
        logistic (|x: f64| 1.0 / (1.0 + (-x).exp())); erf libm::erf; erfc libm::erfc;
    }
}

fn reductions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reduction");
    let x = weight::<2, Ix2>([512, 512]);
    let labels = Nd::from((0..512).map(|row| row * 7 % 512).collect::<Vec<usize>>());
    group.throughput(Throughput::Elements(512 * 512));
    predict(&mut group, "sum", || x.sum());
    predict(&mut group, "sum_axis(0)", || x.sum_axis(0));
    predict(&mut group, "sum_axis(1)", || x.sum_axis(1));
    predict(&mut group, "amax_axis(1)", || x.amax_axis(1));
    predict(&mut group, "softmax(1)", || x.softmax(1));
    train(&mut group, "cross_entropy", || x.cross_entropy(&labels));
}

fn convolutions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("convolution");
    let images: Nd<f32, Ix4> = numbers([32, 32, 16, 16]);
    let filters = weight::<4, Ix4>([64, 32, 3, 3]);
    let maps = || images.conv2d(&filters, Conv::new().padding(1));
    predict(&mut group, "32 images 32x16x16, 64 filters 3x3", maps);
    train(&mut group, "32 images 32x16x16, 64 filters 3x3", || maps().sum());
    predict(&mut group, "max_pool2d(2) of 32x32x16x16", || images.max_pool2d(Pool::new(2)));
}

fn modules(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("module");
    let rng = &mut rng(1);
    let linear = Linear::new(512, 512, rng).expect("a layer has units");
    let small = Linear::new(64, 64, rng).expect("a layer has units");
    let gru = GruCell::new(64, 64, rng).expect("a cell has units");
    let (images, row): (Nd, Nd) = (numbers([128, 512]), numbers([16, 64]));
    train(&mut group, "Linear 512 to 512, batch 128, relu", || linear.of(&images).relu().sum());
    train(&mut group, "Linear 64 to 64, batch 16, relu", || small.of(&row).relu().sum());
    train(&mut group, "twenty steps of a GruCell 64, batch 16", || {
        (0..20).fold(Layer::constant(row.clone()), |state, _| gru.of(&row, state)).sum()
    });
}

fn decisions(criterion: &mut Criterion) {
    #[differentiable]
    fn shorter(x: &NdLayer, experts: &[Linear]) -> NdLayer {
        let score = x.sum();
        if !score > 0.0 { experts[0].of(x) } else { experts[1].of(x) }
    }

    let mut group = criterion.benchmark_group("decision");
    let rng = &mut rng(1);
    let experts = [(); 2].map(|()| Linear::new(64, 64, rng).expect("a layer has units"));
    let row = Layer::constant(numbers::<2, Ix2>([1, 64]));
    train(&mut group, "one of two experts 64 to 64", || shorter(&row, &experts).sum());
}

criterion_group!(parts, products, pointwise, elementary, reductions, convolutions, modules, decisions);
criterion_main!(parts);
