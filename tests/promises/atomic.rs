//! Promise 4: a training step is atomic, and no error is swallowed.

use super::support::{Custom, on_threads, watched};
use dl::nd::{Nd, ndarray::Ix1, ops::*};
use dl::{
    Chunk, Differentiable, Error, Groups, Layer, Memory, Optimizer, OptimizerExt, Result, Sgd, Slot, Snapshot, Weight,
};
use futures::FutureExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

fn weights() -> Vec<Weight<f64>> {
    (1..=5).map(|i| Weight::new(i as f64 / 3.0)).collect()
}

fn bits(weights: &[Weight<f64>]) -> Vec<u64> {
    weights.iter().map(|w| w.value().to_bits()).collect()
}

fn product(weights: &[Weight<f64>]) -> Layer<f64> {
    weights.iter().fold(Layer::constant(1.0), |product, w| product * w)
}

/// A step with this loss must fail and change nothing, and the next step must succeed.
fn refused(weights: &[Weight<f64>], loss: Layer<f64>) -> Error {
    let before = bits(weights);
    let sgd = Sgd::new(0.1).momentum(0.9);
    let error = loss.train(&sgd).wait().expect_err("this step must fail");
    assert_eq!(bits(weights), before);
    product(weights).train(&sgd).wait().unwrap();
    assert_ne!(bits(weights), before);
    error
}

#[test]
fn step_with_error_in_forward_changes_nothing() {
    let weights = weights();
    let loss = Custom(|_| Err(Error::shape("[2] and [3] do not fit"))).of(&product(&weights));
    assert!(refused(&weights, loss + product(&weights)).is_shape());
}

#[test]
fn step_with_panic_in_forward_changes_nothing() {
    let weights = weights();
    let error = refused(&weights, Custom(|x| panic!("user code gives up at {x}")).of(&product(&weights)));
    assert!(error.is_panic() && error.to_string().contains("user code gives up"), "{error}");
    assert!(error.to_string().contains("atomic.rs"), "{error}");
}

#[test]
fn step_with_panic_in_body_changes_nothing() {
    let weights = weights();
    let loss = Layer::<f64>::dynamic(|| async { panic!("no way out") });
    let error = refused(&weights, loss * product(&weights));
    assert!(error.is_panic() && error.to_string().contains("no way out"), "{error}");
}

/// x · y, which may declare that it accumulates. Its `accumulate` must not be called: steps of
/// plain numbers do not accumulate.
#[derive(Clone)]
struct Unable {
    says_that_it_can: bool,
}

impl dl::Primitive for Unable {
    type Operands = (Layer<f64>, Layer<f64>);
    type Output = f64;

    fn name(&self) -> &'static str {
        "unable"
    }

    fn value(&self, (x, y): (&f64, &f64)) -> Result<f64> {
        Ok(x * y)
    }

    fn pullback(&self, at: &dl::At<'_, Self>) -> dl::Deltas<Self> {
        let times = |x: &Layer<f64>| Some(Layer::apply_built_in(Unable { ..*self }, (at.delta.clone(), x.clone())));
        (times(&at.operands.1), times(&at.operands.0))
    }
}

impl dl::BuiltIn for Unable {
    const ACCUMULATES: bool = true;

    fn can_accumulate(&self, _: (&f64, &f64), _: &f64) -> bool {
        self.says_that_it_can
    }

    fn accumulate(&self, _: (&f64, &f64), _: f64, _: &mut f64) {
        panic!("`accumulate` must not be called");
    }
}

#[test]
fn scalar_step_does_not_call_accumulate_of_user_operation() {
    for says_that_it_can in [false, true] {
        let weights = [2.0, 3.0].map(Weight::new);
        let product = Layer::apply_built_in(Unable { says_that_it_can }, (weights[0].layer(), weights[1].layer()));
        product.train(&Sgd::new(0.5)).wait().unwrap();
        assert_eq!(weights.map(|w| w.value()), [0.5, 2.0]);
    }
}

type Row = Nd<f64, Ix1>;

/// x · y, element by element, with declared cost 0. It may panic in `accumulate`.
#[derive(Clone)]
struct Brittle {
    breaks: bool,
    added: Arc<AtomicUsize>,
}

impl dl::Primitive for Brittle {
    type Operands = (Layer<Row>, Layer<Row>);
    type Output = Row;

    fn name(&self) -> &'static str {
        "brittle"
    }

    fn value(&self, (x, y): (&Row, &Row)) -> Result<Row> {
        Ok((&x.view() * &y.view()).into())
    }

    fn cost(&self, _: (&Row, &Row)) -> f64 {
        0.0
    }

    fn pullback(&self, at: &dl::At<'_, Self>) -> dl::Deltas<Self> {
        let times = |x: &Layer<Row>| Some(Layer::apply_built_in(self.clone(), (at.delta.clone(), x.clone())));
        (times(&at.operands.1), times(&at.operands.0))
    }
}

impl dl::BuiltIn for Brittle {
    const ACCUMULATES: bool = true;

    fn can_accumulate(&self, _: (&Row, &Row), _: &Row) -> bool {
        true
    }

    fn accumulate(&self, (x, y): (&Row, &Row), factor: f64, to: &mut Row) {
        self.added.fetch_add(1, SeqCst);
        assert!(!self.breaks, "this term breaks");
        *to = (&to.view() + &(factor * &x.view() * y.view())).into();
    }
}

/// The delta of a weight with several uses is a sum. Terms of user operations must be accumulated
/// without the state lock, unlike those of built-in operations: after a panic under the lock, the
/// pass would run them again.
#[test]
fn panic_in_accumulate_changes_nothing_and_is_not_retried() {
    for threads in [1, 2] {
        watched(move || {
            on_threads(threads, || {
                let w = Weight::new(Nd::from([0.5, 2.0]));
                let loss = |breaks, added: &Arc<AtomicUsize>| {
                    let times = Brittle { breaks, added: added.clone() };
                    let ones = Layer::constant(Nd::from([1.0, 1.0]));
                    (0..3).fold(ones, |y, _| Layer::apply_built_in(times.clone(), (y, w.layer()))).sum()
                };
                let added = Arc::default();
                let error = loss(true, &added).train(&Sgd::new(0.1)).wait().expect_err("this step must fail");
                assert!(error.is_panic() && error.to_string().contains("this term breaks"), "{error}");
                assert_eq!(w.value(), Nd::from([0.5, 2.0]));
                assert_eq!(added.load(SeqCst), 1, "it must not run again");
                loss(false, &added).train(&Sgd::new(0.1)).wait().unwrap();
                assert_eq!(added.load(SeqCst), 1 + 2);
                let moved = w.value().view().to_owned() - Nd::from([0.425, 0.8]).view();
                assert!(moved.iter().all(|moved| moved.abs() < 1e-12), "{moved}");
            });
        });
    }
}

/// x ↦ x; its delta fails, or its rule panics.
struct Backward(fn(f64) -> Result<f64>, bool);

impl dl::Primitive for Backward {
    type Operands = (Layer<f64>,);
    type Output = f64;
    fn name(&self) -> &'static str {
        "backward"
    }
    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        Ok(*x)
    }
    fn pullback(&self, at: &dl::At<'_, Self>) -> (Option<Layer<f64>>,) {
        assert!(!self.1, "this rule panics");
        (Some(Custom(self.0).of(at.delta)),)
    }
}

#[test]
fn step_with_failing_delta_changes_no_weight() {
    let weights = weights();
    let faulty = |op| Layer::apply(op, (product(&weights[1..]),)) * &weights[0];
    assert!(refused(&weights, faulty(Backward(|_| Err(Error::invalid("no delta")), false))).is_invalid());
    assert!(refused(&weights, faulty(Backward(|_| panic!("in the delta"), false))).is_panic());
    assert!(refused(&weights, faulty(Backward(Ok, true))).is_panic());
}

/// Fails or panics at the k-th weight.
#[derive(Clone)]
struct FailsAt {
    k: usize,
    seen: Arc<AtomicUsize>,
    panics: bool,
    memory: Memory,
}

impl Optimizer for FailsAt {
    fn slots(&self) -> &[Slot] {
        const { &[Slot::zeros("state")] }
    }
    fn memory(&self) -> Option<&Memory> {
        Some(&self.memory)
    }
    fn step(&self, chunk: Chunk<'_>, _: u64) -> Result<()> {
        let Chunk::F64 { values, deltas, slots } = chunk else { unreachable!() };
        slots[0][0] += 1.0;
        values[0] -= deltas[0] * slots[0][0];
        if self.seen.fetch_add(1, SeqCst) == self.k {
            assert!(!self.panics, "the optimizer panics");
            return Err(Error::invalid("the optimizer gives up"));
        }
        Ok(())
    }
}

#[test]
fn step_with_optimizer_failing_at_any_weight_changes_nothing() {
    for panics in [false, true] {
        for k in 0..5 {
            let (tried, never) = (weights(), weights());
            let optimizer = FailsAt { k, seen: Arc::default(), panics, memory: Memory::new() };
            let before = bits(&tried);
            let error = product(&tried).train(&optimizer).wait().unwrap_err();
            assert_eq!(error.is_panic(), panics);
            assert_eq!(bits(&tried), before);
            assert!(optimizer.memory.is_empty(), "the optimizer state must not change");
            // the next step is not affected by the failed one
            product(&tried).train(&FailsAt { k: 99, ..optimizer }).wait().unwrap();
            let fresh = FailsAt { k: 99, seen: Arc::default(), panics, memory: Memory::new() };
            product(&never).train(&fresh).wait().unwrap();
            assert_eq!(bits(&tried), bits(&never));
        }
    }
}

#[test]
fn step_refused_by_guard_changes_nothing() {
    let weights = weights();
    let before = bits(&weights);
    let zero = Weight::new(0.0);
    let loss = product(&weights) * (&zero / &zero);
    let error = loss.train(&Sgd::new(0.1).refuse_non_finite()).wait().unwrap_err();
    assert!(error.is_not_finite(), "{error}");
    assert_eq!(bits(&weights), before);
}

#[test]
fn dropped_step_changes_nothing() {
    let weights = weights();
    let before = bits(&weights);
    let never = Layer::<f64>::dynamic(std::future::pending);
    let mut step = (product(&weights) * never).train(&Sgd::new(0.1)).run();
    assert!((&mut step).now_or_never().is_none(), "the step must be pending");
    drop(step);
    assert_eq!(bits(&weights), before);
    product(&weights).train(&Sgd::new(0.1)).wait().unwrap();
    assert_ne!(bits(&weights), before);
}

#[test]
fn weight_used_many_times_is_updated_once() {
    let w = Weight::new(3.0);
    let y = &w + &w + &w * 2.0;
    y.train(&Sgd::new(1.0)).wait().unwrap();
    assert_eq!(w.value(), -1.0);
}

/// Two concurrent steps of one tape: when one ends, the other continues.
#[test]
fn concurrent_steps_of_one_tape_both_succeed() {
    let (v, w) = (Weight::new(1.0), Weight::new(1.0));
    let tape = (&v * &w).forward().wait().unwrap();
    let delta = |milliseconds| {
        dl::Do::from_fn(move || async move {
            std::thread::sleep(std::time::Duration::from_millis(milliseconds));
            Ok(1.0)
        })
    };
    let (slow, fast) = (tape.backward(delta(60)), tape.backward(delta(1)));
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| slow.step(&Sgd::new(0.1)).wait());
        fast.step(&Sgd::new(0.1)).wait().unwrap();
        slow.join().unwrap().unwrap();
    });
    assert_eq!((v.value(), w.value()), (0.8, 0.8));
}

/// A training step in the body of a dynamic node.
#[test]
fn step_in_body_of_running_pass_succeeds() {
    let w = Weight::new(1.0_f64);
    let held = w.clone();
    let y = Layer::dynamic(move || {
        let w = held.clone();
        async move {
            let tape = (&w * 2.0).forward().await?;
            tape.backward(dl::Do::now(1.0)).step(&Sgd::new(0.1)).await?;
            Ok(w.layer())
        }
    });
    y.train(&Sgd::new(0.1)).wait().unwrap();
    assert!((w.value() - 0.7).abs() < 1e-12);
}

/// User code that panics in unusual places, on the waiting thread and on a worker.
#[test]
fn panic_in_name_cost_or_destructor_is_error() {
    struct Nameless;

    impl dl::Primitive for Nameless {
        type Operands = (Layer<f64>,);
        type Output = f64;
        fn name(&self) -> &'static str {
            panic!("no name")
        }
        fn value(&self, _: (&f64,)) -> Result<f64> {
            Err(Error::invalid("no value"))
        }
        fn pullback(&self, _: &dl::At<'_, Self>) -> (Option<Layer<f64>>,) {
            (None,)
        }
        fn cost(&self, _: (&f64,)) -> f64 {
            panic!("no cost")
        }
    }

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "a destructor panics");
        }
    }

    let weights = weights();
    assert!(refused(&weights, Layer::apply(Nameless, (product(&weights),))).is_panic());
    let awaited = Layer::apply(Nameless, (Layer::constant(1.0),)).predict().run();
    assert!(futures::executor::block_on(awaited).unwrap_err().is_panic());
    let y = Layer::<f64>::dynamic(|| async {
        let _bomb = Bomb;
        Ok(Layer::constant(1.0))
    });
    assert!(refused(&weights, y * product(&weights)).is_panic());
}

/// Tensors, which gradient descent updates in place, and a loss.
fn tensors() -> ([Weight<Nd>; 2], Layer<f32>) {
    let weights = [Weight::new(Nd::full([40, 30], 0.5)), Weight::new(Nd::full([30, 20], 0.25))];
    let loss = Nd::<f32>::full([8, 40], 1.0).matmul(&weights[0]).matmul(&weights[1]).sum();
    (weights, loss)
}

/// An optimizer that fails.
struct Refuses;

impl Optimizer for Refuses {
    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        Err(Error::invalid("this optimizer gives up"))
    }
}

#[test]
fn failed_step_changes_no_tensor_in_place() {
    for fails in [0, 1] {
        let (weights, loss) = tensors();
        let before = weights.each_ref().map(|w| w.value());
        let optimizer = Groups::new(Sgd::new(0.1)).with([&weights[fails]], Refuses);
        let error = loss.train(&optimizer).wait().unwrap_err();
        assert!(error.to_string().contains("gives up"), "{error}");
        assert_eq!(weights.each_ref().map(|w| w.value()), before);
        loss.train(&Sgd::new(0.1)).wait().unwrap();
        assert!(weights.iter().zip(&before).all(|(w, before)| w.value() != *before));
    }
}

#[test]
fn nan_learning_rate_changes_no_tensor() {
    let (weights, loss) = tensors();
    let before = weights.each_ref().map(|w| w.value());
    assert!(loss.train(&Sgd::new(f64::NAN)).wait().unwrap_err().is_invalid());
    assert_eq!(weights.each_ref().map(|w| w.value()), before);
}

#[test]
fn snapshot_is_unaffected_by_in_place_step() {
    let (weights, loss) = tensors();
    let before = weights.each_ref().map(|w| w.value());
    let value = loss.predict().wait().unwrap();
    let snapshot = Snapshot::take();
    loss.train(&Sgd::new(0.1)).wait().unwrap();
    assert_ne!(loss.predict().wait().unwrap(), value);
    assert_eq!(loss.predict().on(&snapshot).wait().unwrap(), value);
    for (w, before) in weights.iter().zip(before) {
        assert_eq!(w.layer().predict().on(&snapshot).wait().unwrap(), before);
    }
}
