//! A panic in any kernel of a compiled call.

use super::{plans, tensor};
use dl::prelude::*;
use dl::{Along, At, BlockOp, BuiltIn, Deltas, Part, Primitive, Result, Sgd};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use test_support::on_threads;

const NEVER: usize = usize::MAX;

/// The number of the kernel that panics.
#[derive(Clone)]
struct Fuse(Arc<AtomicUsize>);

impl Fuse {
    fn new() -> Fuse {
        Fuse(Arc::new(AtomicUsize::new(NEVER)))
    }
}

impl PartialEq for Fuse {
    fn eq(&self, other: &Fuse) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Fuse {}

impl Hash for Fuse {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// The identity as an operation of the library, with a kernel that panics while the fuse has its
/// number. Its delta has another number.
#[derive(Clone)]
struct Fragile {
    number: usize,
    fuse: Fuse,
    /// Whether it takes part in blocks, with a range outside of the operand.
    breaks_blocks: bool,
}

impl Fragile {
    fn of(x: NdLayer, number: usize, fuse: &Fuse) -> NdLayer {
        Layer::apply_built_in(Fragile { number, fuse: fuse.clone(), breaks_blocks: false }, (x,))
    }
}

impl Primitive for Fragile {
    type Operands = (NdLayer,);
    type Output = Nd;

    fn name(&self) -> &'static str {
        "fragile"
    }

    fn value(&self, (x,): (&Nd,)) -> Result<Nd> {
        assert_ne!(self.fuse.0.load(Relaxed), self.number, "kernel {} panics", self.number);
        Ok(x.clone())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(Fragile::of(at.delta.clone(), self.number + DELTAS, &self.fuse)),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<NdLayer> {
        along.tangents.0.clone()
    }

    fn cost(&self, (x,): (&Nd,)) -> f64 {
        x.len() as f64
    }
}

impl BuiltIn for Fragile {
    const IS_PURE: bool = true;

    fn is_by_rows(&self, _: &[bool], _: (&Nd,), _: &Nd) -> bool {
        true
    }

    fn block_op(&self, (x,): (&Nd,), _: &Nd) -> Option<BlockOp> {
        let outside = Part { start: x.len() + 1, len: 1, stride: 1, runs: 1 };
        self.breaks_blocks.then(|| BlockOp::AddParts([outside].into_iter().collect()))
    }
}

const KERNELS: usize = 6;
const DELTAS: usize = 100;

fn ordinary_network(x: &NdLayer, w: &NdWeight, fuse: &Fuse) -> NdLayer {
    let fragile = |x: NdLayer, number| Fragile::of(x, number, fuse);
    let a = fragile(x.matmul(w), 0);
    let b = fragile((&a * 0.5).tanh(), 1);
    let c = fragile(a.sigmoid() * &b, 2);
    let d = fragile(c.dropout(0.25), 3);
    let e = fragile(d.matmul(w) + b, 4);
    fragile(e.softmax(1), 5)
}

#[differentiable(compiled)]
fn network(x: &NdLayer, w: &NdWeight, fuse: &Fuse) -> NdLayer {
    ordinary_network(x, w, fuse)
}

#[test]
fn panic_in_any_kernel_leaves_weights_unchanged() {
    for threads in [1, 2, 3, 8] {
        on_threads(threads, || {
            for size in [3, 40] {
                panics_at_each_kernel(size);
            }
        });
    }
}

fn panics_at_each_kernel(size: usize) {
    let fuse = Fuse::new();
    let x = tensor([2, size], 1).into_layer();
    let weights = [1, 2].map(|_| Weight::new(tensor([size, size], 2)));
    let train = |version: usize, step: usize| {
        let network = [network, ordinary_network][version];
        let loss = network(&x, &weights[version], &fuse).square().sum();
        loss.train(&Sgd::new(0.1)).seed(step as u64).wait()
    };
    for (step, number) in (0..KERNELS).chain(DELTAS..DELTAS + KERNELS).enumerate() {
        // before there is a plan, a schedule or a backward, and after
        for _ in 0..2 {
            let before = weights[0].value();
            fuse.0.store(number, Relaxed);
            let [compiled, ordinary] = [0, 1].map(|version| train(version, step).unwrap_err());
            let lines = |error: &Error| error.to_string().lines().take(2).map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(lines(&compiled), lines(&ordinary));
            assert!(compiled.to_string().contains(&format!("kernel {number} panics")), "{compiled}");
            let place = |error: &Error| error.place().map(|place| (place.file(), place.line()));
            assert_eq!(place(&compiled), place(&ordinary));
            assert_eq!(weights[0].value(), before);
            fuse.0.store(NEVER, Relaxed);
            let [compiled, ordinary] = [0, 1].map(|version| train(version, step).unwrap());
            assert_eq!(compiled.to_bits(), ordinary.to_bits());
            assert_eq!(weights[0].value(), weights[1].value());
        }
    }
}

/// Without random numbers, so that calls can run as a group.
fn ordinary_member(x: &NdLayer, w: &NdWeight, fuse: &Fuse) -> NdLayer {
    let fragile = |x: NdLayer, number| Fragile::of(x, number, fuse);
    let a = fragile(x.matmul(w), 0);
    let b = fragile((&a * 0.5).tanh(), 1);
    fragile((a.sigmoid() * &b).matmul(w) + b, 2)
}

#[differentiable(compiled(grouped))]
fn member(x: &NdLayer, w: &NdWeight, fuse: &Fuse) -> NdLayer {
    ordinary_member(x, w, fuse)
}

#[test]
fn panic_in_any_kernel_of_a_group_leaves_weights_unchanged() {
    let (size, kernels) = (5, 3);
    for threads in [1, 2, 3, 8] {
        on_threads(threads, || {
            let fuse = Fuse::new();
            let inputs: [NdLayer; 4] = std::array::from_fn(|i| tensor([1, size], 10 + i as u64).into_layer());
            let w = Weight::new(tensor([size, size], 2));
            let train = |network: fn(&NdLayer, &NdWeight, &Fuse) -> NdLayer, rate| {
                let of_one = |x: &NdLayer| network(x, &w, &fuse).square().sum();
                let loss = inputs.iter().map(of_one).fold(Layer::constant(0.0), |sum, loss| sum + loss);
                loss.train(&Sgd::new(rate)).wait()
            };
            for number in (0..kernels).chain(DELTAS..DELTAS + kernels) {
                // before there is a schedule or a backward of the group, and after
                for _ in 0..2 {
                    let before = w.value();
                    fuse.0.store(number, Relaxed);
                    let [grouped, ordinary] = [member, ordinary_member].map(|network| train(network, 0.1).unwrap_err());
                    let lines =
                        |error: &Error| error.to_string().lines().take(2).map(str::to_owned).collect::<Vec<_>>();
                    assert_eq!(lines(&grouped), lines(&ordinary));
                    assert!(grouped.to_string().contains(&format!("kernel {number} panics")), "{grouped}");
                    let place = |error: &Error| error.place().map(|place| (place.file(), place.line()));
                    assert_eq!(place(&grouped), place(&ordinary));
                    assert_eq!(w.value(), before);
                    fuse.0.store(NEVER, Relaxed);
                    let expected = train(ordinary_member, 0.0).unwrap();
                    assert!((train(member, 0.1).unwrap() - expected).abs() < 1e-4 * expected.abs());
                    assert_ne!(w.value(), before);
                }
            }
        });
    }
    assert!(plans("member").grouped() > 0);
}

/// The kernel of a block panics: its operations run one by one.
#[test]
fn panic_in_a_block_runs_its_operations_one_by_one() {
    #[differentiable(compiled)]
    fn with_block(x: &NdLayer, w: &NdWeight, fuse: &Fuse) -> NdLayer {
        let broken = Fragile { number: 0, fuse: fuse.clone(), breaks_blocks: true };
        let y = Layer::apply_built_in(broken, ((x * w).tanh(),));
        (y * 2.0).sigmoid()
    }
    let (x, w, fuse) = (tensor([2, 3], 1).into_layer(), Weight::new(tensor([2, 3], 2)), Fuse::new());
    let expected = ((&x * &w).tanh() * 2.0).sigmoid().predict().wait().unwrap();
    for _ in 0..3 {
        assert_eq!(with_block(&x, &w, &fuse).predict().wait().unwrap(), expected);
    }
    fuse.0.store(0, Relaxed);
    let error = with_block(&x, &w, &fuse).sum().train(&Sgd::new(0.1)).wait().unwrap_err();
    assert!(error.to_string().contains("kernel 0 panics"), "{error}");
    assert!(error.place().is_some_and(|place| place.file().ends_with("panics.rs")), "{error}");
    assert_eq!(w.value(), tensor([2, 3], 2));
}
