//! Every operation on tensors (`dl::nd::operations`), value and gradient: `cargo bench --bench
//! operations`. Words after `--` select names. Beside PyTorch: `benches/peers/run.sh operations`.
//!
//! Prints `name,value or gradient,nanoseconds`: the median time of a pass. The gradient is that of
//! the sum of all results in the first operand, and is computed together with that sum.
//! `peers/python/operations.py` has the same rows, in the same order: with `--turns`, it asks for
//! each measurement with a line `name,value or gradient`, and measures its own in between.

use dl::nd::init::{rng, uniform};
use dl::nd::ndarray::{IntoDimension, s};
use dl::nd::operations::Operation;
use dl::nd::{Element, HasRank, PadMode, Rank, cosine_similarity, one_hot};
use dl::prelude::*;
use dl::{Binary, Data, Do, Pointwise, Unary};
use std::hint::black_box;
use std::io::{Lines, StdinLock, stdin};
use std::iter::Peekable;
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
    type Number: Element;

    fn total(&self) -> Option<Layer<Self::Number>>;
}

impl Total for Layer<f32> {
    type Number = f32;

    fn total(&self) -> Option<Layer<f32>> {
        Some(self.clone())
    }
}

macro_rules! totals {
    ($($A:ty: $Number:ty, |$x:ident| $total:expr;)*) => {$(
        impl<D: Rank> Total for Layer<Nd<$A, D>> {
            type Number = $Number;

            fn total(&self) -> Option<Layer<$Number>> {
                let $x = self;
                $total
            }
        }
    )*};
}

totals! {
    f32: f32, |x| Some(x.sum());
    f64: f64, |x| Some(x.sum());
    bool: f32, |_x| None;
    usize: f32, |_x| None;
}

struct Rows {
    quick: bool,
    words: Vec<String>,
    /// The measurements that the other program asks for, in the order of the rows.
    asked: Option<Peekable<Lines<StdinLock<'static>>>>,
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
        self.measure(name, "value", || op(x).predict().wait().expect("a value"));
        let known = Operation::all().into_iter().find(|known| name.split(' ').next() == Some(known.name));
        if known.expect("an operation of the catalog").gradient && op(x).total().is_some() {
            self.measure(name, "gradient", || {
                let total = op(x).total().expect("numbers");
                Do::predict(total.value_and_gradient(x)).wait().expect("a gradient")
            });
        }
    }

    /// Measures once, or each time when it is asked to.
    fn measure<T>(&mut self, name: &str, kind: &str, mut call: impl FnMut() -> T) {
        let row = format!("{name},{kind}");
        let mut print = || println!("{row},{:.0}", nanoseconds(self.quick, &mut call));
        let Some(asked) = &mut self.asked else { return print() };
        let mut count = 0;
        while asked.next_if(|line| line.as_ref().is_ok_and(|line| *line == row)).is_some() {
            print();
            count += 1;
        }
        assert!(count > 0, "the other program has {:?} here, and not {row}", asked.peek());
    }
}

/// Uniform random numbers.
fn weight<const N: usize, D: HasRank<N>>(shape: [usize; N], low: f64, high: f64) -> Weight<Nd<f32, D>>
where
    [usize; N]: IntoDimension<Dim = D>,
{
    Weight::new(uniform(shape, low, high, &mut rng(1)))
}

/// Indices below `count`, in no order along any axis.
fn indices<const N: usize, D: HasRank<N>>(shape: [usize; N], count: usize) -> Nd<usize, D>
where
    [usize; N]: IntoDimension<Dim = D>,
{
    let len: usize = shape.iter().product();
    Nd::from_vec(shape, (0..len).map(|i| ((i * 2_654_435_761) >> 12) % count).collect()).expect("one each")
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
    let asked = std::env::args().any(|word| word == "--turns").then(|| stdin().lines().peekable());
    let mut rows = Rows { quick, words, asked, names: Vec::new() };
    pointwise(&mut rows);
    reductions_and_products(&mut rows);
    movement(&mut rows);
    networks(&mut rows);
    if let Some(line) = rows.asked.as_mut().and_then(Iterator::next) {
        panic!("no row {line:?}");
    }
    let has_row = |name| rows.names.iter().any(|row| row.split(' ').next() == Some(name));
    // conversions of the type only, and an operation that PyTorch does not have
    let left_out = ["to_dyn", "to_rank", "to_tensor", "dense"];
    let missing = Operation::all().into_iter().filter(|known| !has_row(known.name) && !left_out.contains(&known.name));
    assert_eq!(missing.map(|known| known.name).collect::<Vec<_>>(), [""; 0], "operations without a row");
}

fn pointwise(rows: &mut Rows) {
    let x = weight([SIDE, SIDE], -1.0, 1.0);
    let (p, q) = (weight([SIDE, SIDE], 0.5, 2.0), uniform([SIDE, SIDE], 0.5, 2.0, &mut rng(2)));
    let above_one = weight([SIDE, SIDE], 1.0, 2.0);
    for &op in Unary::ALL.iter().filter(|op| op.torch().is_some()) {
        let x = match op {
            Unary::Ln | Unary::Log1p | Unary::Sqrt | Unary::Rsqrt | Unary::Recip | Unary::Entr => &p,
            Unary::Acosh => &above_one,
            _ => &x,
        };
        rows.row(op.name(), x, |x| Nd::unary(op, &x.layer()));
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
    let (x, other) = (weight([SIDE, SIDE], 0.5, 1.5), uniform([SIDE, SIDE], 0.5, 1.5, &mut rng(2)));
    macro_rules! reductions {
        ($($all:literal $first:literal $last:literal $name:ident $axis:ident;)*) => {$(
            rows.row($all, &x, |x| x.$name());
            rows.row($first, &x, |x| x.$axis(0));
            rows.row($last, &x, |x| x.$axis(1));
        )*};
    }
    reductions! {
        "sum" "sum 0" "sum 1" sum sum_axis; "mean" "mean 0" "mean 1" mean mean_axis;
        "amax" "amax 0" "amax 1" amax amax_axis;
        "amin" "amin 0" "amin 1" amin amin_axis; "norm" "norm 0" "norm 1" norm norm_axis;
        "logsumexp" "logsumexp 0" "logsumexp 1" logsumexp logsumexp_axis;
    }
    // a product that is neither 0 nor infinite
    let near_one = weight([SIDE, SIDE], 0.999, 1.001);
    rows.row("prod", &near_one, |x| x.prod());
    rows.row("prod 0", &near_one, |x| x.prod_axis(0));
    rows.row("prod 1", &near_one, |x| x.prod_axis(1));
    rows.row("norm_p", &x, |x| x.norm_p(3.0));
    rows.row("var 1", &x, |x| x.var_axis(1, 1));
    rows.row("std 1", &x, |x| x.std_axis(1, 1));
    rows.row("argmax 0", &x, |x| x.argmax(0));
    rows.row("argmax 1", &x, |x| x.argmax(1));
    rows.row("argmin 1", &x, |x| x.argmin(1));
    macro_rules! by_axis {
        ($($first:literal $last:literal |$x:ident, $axis:ident| $op:expr;)*) => {$(
            rows.row($first, &x, |$x| { let $axis = 0; $op });
            rows.row($last, &x, |$x| { let $axis = 1; $op });
        )*};
    }
    by_axis! {
        "cumsum 0" "cumsum 1" |x, axis| x.cumsum(axis);
        "cumprod 0" "cumprod 1" |x, axis| x.cumprod(axis);
        "logcumsumexp 0" "logcumsumexp 1" |x, axis| x.logcumsumexp(axis);
        "cummax 0" "cummax 1" |x, axis| x.cummax(axis).0;
        "cummin 0" "cummin 1" |x, axis| x.cummin(axis).0;
        "sort 0" "sort 1" |x, axis| x.sort(axis, false).0;
        "argsort 0" "argsort 1" |x, axis| x.argsort(axis, false);
        "topk 0" "topk 1" |x, axis| x.topk(axis, 10).0;
        "max_with_indices 0" "max_with_indices 1" |x, axis| x.max_with_indices(axis).0;
        "min_with_indices 0" "min_with_indices 1" |x, axis| x.min_with_indices(axis).0;
        "cosine_similarity 0" "cosine_similarity 1" |x, axis| cosine_similarity(x, &other, axis);
    }
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
    rows.row("item", &weight([1, 1], -1.0, 1.0), |x| x.item());
    rows.row("split", &x, |x| x.split(0, &[SIDE / 2, SIDE / 2]).swap_remove(1));
    rows.row("chunk", &x, |x| x.chunk(1, 2).swap_remove(1));
    rows.row("flip", &x, |x| x.flip(1));
    rows.row("pad", &x, |x| x.pad(&[(1, 1), (1, 1)], 0.0));
    rows.row("pad_with", &x, |x| x.pad_with(&[(1, 1), (1, 1)], PadMode::Reflect));
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
    let mask = x.greater(0.0).predict().wait().expect("a mask");
    rows.row("masked_select", &x, |x| x.masked_select(&mask));
    let (vectors, ids): (_, Nd<usize, Ix1>) = (weight([10_000, 64], -1.0, 1.0), indices([65_536], 10_000));
    rows.row("embedding", &vectors, |x| IndexOps::embedding(x, &ids));
    rows.row("embedding_padded", &vectors, |x| IndexOps::embedding_padded(x, &ids, 0));
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
    methods!(rows, &x1, max_pool1d avg_pool1d: (Pool::new(2)));
    methods!(rows, &x1, adaptive_max_pool1d adaptive_avg_pool1d: ([7]));
    methods!(rows, &x1, upsample_nearest1d: ([2048]));
    methods!(rows, &x1, upsample_linear: ([2048], false));
    methods!(rows, &x2, conv2d conv_transpose2d: (&w2, Conv::new().padding(1)));
    methods!(rows, &x2, max_pool2d avg_pool2d: (Pool::new(2)));
    methods!(rows, &x2, adaptive_max_pool2d adaptive_avg_pool2d: ([7, 7]));
    methods!(rows, &x2, upsample_nearest2d: ([64, 64]));
    methods!(rows, &x2, upsample_bilinear upsample_bicubic: ([64, 64], false));
    methods!(rows, &x3, conv3d conv_transpose3d: (&w3, Conv::new().padding(1)));
    methods!(rows, &x3, max_pool3d avg_pool3d: (Pool::new(2)));
    methods!(rows, &x3, adaptive_max_pool3d adaptive_avg_pool3d: ([7, 7, 7]));
    methods!(rows, &x3, upsample_nearest3d: ([32, 32, 32]));
    methods!(rows, &x3, upsample_trilinear: ([32, 32, 32], false));
    rows.row("batch_norm", &x2, |x| x.batch_norm(1e-5));
    rows.row("group_norm", &x2, |x| x.group_norm(4, 1e-5));
    let (scale, shift) = (uniform([32], 0.5, 1.5, rng), uniform([32], -1.0, 1.0, rng));
    methods!(rows, &x2, affine: (&scale, &shift));
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
    rows.row("one_hot", &x, |_| {
        Layer::constant(one_hot::<f32>((0..SIDE).map(|i| i * 7919 % SIDE), SIDE).expect("labels"))
    });
    let (x, w) = (weight([64], -1.0, 1.0), uniform([64, 64], -0.1, 0.1, rng));
    rows.row("jacobian", &x, |x| x.matmul(&w).tanh().jacobian(x));
    rows.row("hessian", &x, |x| x.matmul(&w).tanh().square().sum().hessian(x));
}
