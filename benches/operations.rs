//! Every operation on tensors (`dl::nd::operations`), value and gradient: `cargo bench --bench
//! operations`. Words after `--` select names. Beside PyTorch: `benches/peers/run.sh operations`.
//!
//! Prints `name,value or gradient,nanoseconds`: the median time of a pass. The gradient is that of
//! the sum of all results in the first operand, and is computed together with that sum.
//! `peers/python/operations.py` has the same rows.

use dl::nd::init::{rng, uniform};
use dl::nd::ndarray::{IntoDimension, s};
use dl::nd::operations::Operation;
use dl::nd::{HasRank, Rank};
use dl::prelude::*;
use dl::{Binary, Data, Do, Pointwise, Unary};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The median time of a call, in nanoseconds.
fn nanoseconds<T>(quick: bool, mut call: impl FnMut() -> T) -> f64 {
    let mut times = Vec::new();
    let start = Instant::now();
    let enough = Duration::from_millis(if quick { 1 } else { 150 });
    while times.len() < 5 || start.elapsed() < enough && times.len() < 10_000 {
        let start = Instant::now();
        black_box(call());
        times.push(start.elapsed().as_secs_f64() * 1e9);
    }
    // the first calls allocate
    times.drain(..2);
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The sum of the results, if they have a gradient.
trait Total {
    fn total(&self) -> Option<Layer<f32>>;
}

impl Total for Layer<f32> {
    fn total(&self) -> Option<Layer<f32>> {
        Some(self.clone())
    }
}

impl<D: Rank> Total for Layer<Nd<f32, D>> {
    fn total(&self) -> Option<Layer<f32>> {
        Some(self.sum())
    }
}

macro_rules! without_gradient {
    ($($A:ty),*) => {$(
        impl<D: Rank> Total for Layer<Nd<$A, D>> {
            fn total(&self) -> Option<Layer<f32>> {
                None
            }
        }
    )*};
}

without_gradient!(bool, usize, f64);

struct Rows {
    quick: bool,
    words: Vec<String>,
    names: Vec<&'static str>,
}

impl Rows {
    /// Measures an operation, unless it is not selected. The first word of the name is that of the
    /// catalog.
    fn row<X, T: Data>(&mut self, name: &'static str, x: &X, op: impl Fn(&X) -> Layer<T>)
    where
        X: Differentiable + Variables<Gradients = Layer<X::Delta>>,
        Layer<T>: Total,
    {
        self.names.push(name);
        if !self.words.is_empty() && !self.words.iter().any(|word| name.contains(word.as_str())) {
            return;
        }
        let value = nanoseconds(self.quick, || op(x).predict().wait().expect("a value"));
        println!("{name},value,{value:.0}");
        let has_gradient =
            Operation::all().iter().any(|known| name.split(' ').next() == Some(known.name) && known.gradient);
        if has_gradient && op(x).total().is_some() {
            let gradient = || {
                let total = op(x).total().expect("numbers");
                Do::predict(total.value_and_gradient(x)).wait().expect("a gradient")
            };
            println!("{name},gradient,{:.0}", nanoseconds(self.quick, gradient));
        }
    }
}

/// Uniform random numbers.
fn weight<const N: usize, D: HasRank<N>>(shape: [usize; N], low: f64, high: f64) -> Weight<Nd<f32, D>>
where
    [usize; N]: IntoDimension<Dim = D>,
{
    Weight::new(uniform(shape, low, high, &mut rng(1)))
}

/// Indices below `count`, in no order.
fn indices<const N: usize, D: HasRank<N>>(shape: [usize; N], count: usize) -> Nd<usize, D>
where
    [usize; N]: IntoDimension<Dim = D>,
{
    let len: usize = shape.iter().product();
    Nd::from_vec(shape, (0..len).map(|i| i * 7919 % count).collect()).expect("one each")
}

/// Rows of methods with the same arguments.
macro_rules! methods {
    ($rows:ident, $x:expr, $($name:ident)*: $arguments:tt) => {
        $($rows.row(stringify!($name), $x, |x| x.$name $arguments);)*
    };
}

const SIDE: usize = 2048;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let quick = std::env::args().any(|word| word == "--quick");
    let mut rows = Rows { quick, words, names: Vec::new() };
    pointwise(&mut rows);
    reductions_and_products(&mut rows);
    movement(&mut rows);
    networks(&mut rows);
    let has_row = |name| rows.names.iter().any(|row| row.split(' ').next() == Some(name));
    // conversions of the type only, and an operation that PyTorch does not have
    let left_out = ["to_dyn", "to_rank", "dense"];
    let missing = Operation::all().into_iter().filter(|known| !has_row(known.name) && !left_out.contains(&known.name));
    assert_eq!(missing.map(|known| known.name).collect::<Vec<_>>(), [""; 0], "operations without a row");
}

fn pointwise(rows: &mut Rows) {
    let x = weight([SIDE, SIDE], -1.0, 1.0);
    let (p, q) = (weight([SIDE, SIDE], 0.5, 2.0), uniform([SIDE, SIDE], 0.5, 2.0, &mut rng(2)));
    for &op in Unary::ALL.iter().filter(|op| op.torch().is_some()) {
        let positive = matches!(op, Unary::Ln | Unary::Log1p | Unary::Sqrt | Unary::Rsqrt | Unary::Recip);
        rows.row(op.name(), if positive { &p } else { &x }, |x| Nd::unary(op, &x.layer()));
    }
    for &op in Binary::ALL.iter().filter(|op| op.torch().is_some()) {
        match op {
            Binary::LeakyRelu | Binary::Elu => rows.row(op.name(), &x, |x| Nd::with_number(op, &x.layer(), 0.1, false)),
            _ => rows.row(op.name(), &p, |x| Nd::binary(op, &x.layer(), &Layer::constant(q.clone()))),
        }
    }
    for (name, b) in [("pow 2", 2.0), ("pow 3", 3.0), ("pow -1", -1.0), ("pow 0.5", 0.5), ("pow 2.5", 2.5)] {
        rows.row(name, &p, |x| Nd::with_number(Binary::Pow, &x.layer(), b, false));
    }
    rows.row("clamp", &x, |x| x.clamp(-0.5, 0.5));
    let mask = x.greater(0.0).predict().wait().expect("a mask");
    let other = p.less(&q).predict().wait().expect("a mask");
    rows.row("where_", &x, |x| where_(&mask, x, &q));
    rows.row("where_ number", &x, |x| where_(&mask, x, 0.0));
    methods!(rows, &p, less less_equal greater greater_equal equal not_equal: (&q));
    rows.row("less number", &p, |x| x.less(1.0));
    rows.row("logical_not", &x, |_| mask.logical_not());
    rows.row("logical_and", &x, |_| mask.logical_and(&other));
    rows.row("logical_or", &x, |_| mask.logical_or(&other));
    rows.row("cast", &x, |x| x.cast::<f64>());
    rows.row("to_floats", &x, |_| mask.to_floats::<f32>());
}

fn reductions_and_products(rows: &mut Rows) {
    let x = weight([SIDE, SIDE], 0.5, 1.5);
    macro_rules! reductions {
        ($($all:literal $first:literal $last:literal $name:ident $axis:ident;)*) => {$(
            rows.row($all, &x, |x| x.$name());
            rows.row($first, &x, |x| x.$axis(0));
            rows.row($last, &x, |x| x.$axis(1));
        )*};
    }
    reductions! {
        "sum" "sum 0" "sum 1" sum sum_axis; "mean" "mean 0" "mean 1" mean mean_axis;
        "prod" "prod 0" "prod 1" prod prod_axis; "amax" "amax 0" "amax 1" amax amax_axis;
        "amin" "amin 0" "amin 1" amin amin_axis; "norm" "norm 0" "norm 1" norm norm_axis;
        "logsumexp" "logsumexp 0" "logsumexp 1" logsumexp logsumexp_axis;
    }
    rows.row("norm_p", &x, |x| x.norm_p(3.0));
    rows.row("var 1", &x, |x| x.var_axis(1, 1));
    rows.row("std 1", &x, |x| x.std_axis(1, 1));
    rows.row("argmax 0", &x, |x| x.argmax(0));
    rows.row("argmax 1", &x, |x| x.argmax(1));
    rows.row("argmin 1", &x, |x| x.argmin(1));
    rows.row("cumsum 0", &x, |x| x.cumsum(0));
    rows.row("cumsum 1", &x, |x| x.cumsum(1));
    let (a, b) = (weight([512, 512], -1.0, 1.0), uniform([512, 512], -1.0, 1.0, &mut rng(2)));
    rows.row("matmul", &a, |a| a.matmul(&b));
    for (name, shape) in [("matmul 4x4", [20_000, 4, 4]), ("matmul 32x32", [500, 32, 32])] {
        let (a, b) = (weight(shape, -1.0, 1.0), uniform(shape, -1.0, 1.0, &mut rng(2)));
        rows.row(name, &a, |a| a.matmul(&b));
    }
    let bias = uniform([512], -1.0, 1.0, &mut rng(3));
    methods!(rows, &a, linear linear_relu: (&b, &bias));
    let (u, v) = (weight([1 << 20], -1.0, 1.0), uniform([1 << 20], -1.0, 1.0, &mut rng(2)));
    rows.row("dot", &u, |u| u.dot(&v));
    let (u, v) = (weight([SIDE], -1.0, 1.0), uniform([SIDE], -1.0, 1.0, &mut rng(2)));
    rows.row("outer", &u, |u| u.outer(&v));
    rows.row("einsum", &a, |a| einsum("ik,kj->ij", [a.layer().to_dyn(), Layer::constant(b.clone().into_dyn())]));
}

fn movement(rows: &mut Rows) {
    let x = weight([SIDE, SIDE], -1.0, 1.0);
    rows.row("reshape", &x, |x| x.reshape([SIDE / 2, 2 * SIDE]));
    methods!(rows, &x, flatten flatten_rows t: ());
    rows.row("transpose", &x, |x| x.transpose(0, 1));
    rows.row("permute", &x, |x| x.permute([1, 0]));
    rows.row("squeeze", &weight([1, SIDE, SIDE], -1.0, 1.0), |x| x.squeeze(0));
    rows.row("unsqueeze", &x, |x| x.unsqueeze(0));
    rows.row("expand", &weight([1, SIDE], -1.0, 1.0), |x| x.expand([SIDE, SIDE]));
    rows.row("lift", &x, |x| x.lift::<Ix3>());
    rows.row("slice", &x, |x| x.slice(s![1.., ..;2]));
    rows.row("slice_axis", &x, |x| x.slice_axis(0, 1..));
    rows.row("row", &x, |x| x.row(1));
    rows.row("at", &x, |x| x.at([1, 0]));
    rows.row("split", &x, |x| x.split(0, &[SIDE / 2, SIDE / 2]).swap_remove(1));
    rows.row("chunk", &x, |x| x.chunk(1, 2).swap_remove(1));
    rows.row("flip", &x, |x| x.flip(1));
    rows.row("pad", &x, |x| x.pad(&[(1, 1), (1, 1)], 0.0));
    rows.row("concat", &x, |x| concat(1, [x, x]));
    rows.row("stack", &x, |x| stack(0, [x, x]));
    rows.row("roll", &x, |x| x.roll(1, 5));
    methods!(rows, &x, tril triu diagonal: (0));
    rows.row("diag", &weight([SIDE], -1.0, 1.0), |x| x.diag(0));
    let (list, table): (Nd<usize, Ix1>, Nd<usize, Ix2>) = (indices([SIDE], SIDE), indices([SIDE, SIDE], SIDE));
    rows.row("index_select 0", &x, |x| x.index_select(0, &list));
    rows.row("index_select 1", &x, |x| x.index_select(1, &list));
    rows.row("gather 0", &x, |x| x.gather(0, &table));
    rows.row("gather 1", &x, |x| x.gather(1, &table));
    let source = uniform([SIDE, SIDE], -1.0, 1.0, &mut rng(2));
    rows.row("scatter_add 0", &x, |x| x.scatter_add(0, &table, &source));
    rows.row("scatter_add 1", &x, |x| x.scatter_add(1, &table, &source));
    let (vectors, ids): (_, Nd<usize, Ix1>) = (weight([10_000, 64], -1.0, 1.0), indices([65_536], 10_000));
    rows.row("embedding", &vectors, |x| IndexOps::embedding(x, &ids));
    let vectors = weight([1_000, 64], -1.0, 1.0);
    rows.row("embedding 200 times", &vectors, |x| {
        (0..200).map(|i| IndexOps::embedding(x, [i * 7 % 1_000]).sum()).sum::<Layer<f32>>()
    });
}

fn networks(rows: &mut Rows) {
    let x1 = weight([16, 32, 1024], -1.0, 1.0);
    let x2 = weight([16, 32, 32, 32], -1.0, 1.0);
    let x3 = weight([4, 16, 16, 16, 16], -1.0, 1.0);
    let rng = &mut rng(2);
    let (w1, w2, w3) = (
        uniform([32, 32, 3], -0.1, 0.1, rng),
        uniform([32, 32, 3, 3], -0.1, 0.1, rng),
        uniform([16, 16, 3, 3, 3], -0.1, 0.1, rng),
    );
    methods!(rows, &x1, conv1d conv_transpose1d: (&w1, Conv::new().padding(1)));
    methods!(rows, &x2, conv2d conv_transpose2d: (&w2, Conv::new().padding(1)));
    methods!(rows, &x3, conv3d conv_transpose3d: (&w3, Conv::new().padding(1)));
    methods!(rows, &x1, max_pool1d avg_pool1d: (Pool::new(2)));
    methods!(rows, &x2, max_pool2d avg_pool2d: (Pool::new(2)));
    methods!(rows, &x3, max_pool3d avg_pool3d: (Pool::new(2)));
    rows.row("adaptive_avg_pool1d", &x1, |x| x.adaptive_avg_pool1d([7]));
    rows.row("adaptive_avg_pool2d", &x2, |x| x.adaptive_avg_pool2d([7, 7]));
    rows.row("adaptive_avg_pool3d", &x3, |x| x.adaptive_avg_pool3d([7, 7, 7]));
    rows.row("upsample_linear", &x1, |x| x.upsample_linear([2048], false));
    rows.row("upsample_bilinear", &x2, |x| x.upsample_bilinear([64, 64], false));
    rows.row("upsample_trilinear", &x3, |x| x.upsample_trilinear([32, 32, 32], false));
    rows.row("batch_norm", &x2, |x| x.batch_norm(1e-5));
    rows.row("group_norm", &x2, |x| x.group_norm(4, 1e-5));
    let x = weight([SIDE, SIDE], -1.0, 1.0);
    methods!(rows, &x, layer_norm rms_norm: (1, 1e-5));
    rows.row("dropout", &x, |x| x.dropout(0.5));
    rows.row("softmax 0", &x, |x| x.softmax(0));
    rows.row("softmax 1", &x, |x| x.softmax(1));
    rows.row("log_softmax 0", &x, |x| x.log_softmax(0));
    rows.row("log_softmax 1", &x, |x| x.log_softmax(1));
    let (q, k) = (weight([8, 8, 256, 64], -1.0, 1.0), uniform([8, 8, 256, 64], -1.0, 1.0, rng));
    rows.row("scaled_dot_product_attention", &q, |q| scaled_dot_product_attention(q, &k, &k));
    let (labels, y): (Nd<usize, Ix1>, _) = (indices([SIDE], SIDE), uniform([SIDE, SIDE], 0.0, 1.0, rng));
    methods!(rows, &x, cross_entropy nll: (&labels));
    methods!(rows, &x, mse l1 bce_with_logits kl_div: (&y));
    rows.row("huber", &x, |x| x.huber(&y, 1.0));
    // 32 inputs of 200 time steps, each with 40 labels of 63 classes
    let transcripts: Vec<Vec<usize>> =
        (0..32).map(|input| (0..40).map(|i| 1 + (i * 7 + input * 3) % 63).collect()).collect();
    rows.row("ctc", &weight([32, 200, 64], -2.0, 0.0), |x| x.ctc(&transcripts));
}
