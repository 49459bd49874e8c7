//! The state of a pass: mode, seed, snapshot, buffers, counters.

use crate::support::{on_threads, watched};
use dl::prelude::*;
use dl::record::Recorder;
use dl::{At, Counters, Deltas, Primitive, Result};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

/// A number between 0 and 1 as a function of a seed.
struct Uniform;

impl Primitive for Uniform {
    type Operands = (Layer<Seed>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "uniform"
    }

    fn value(&self, (seed,): (&Seed,)) -> Result<f64> {
        Ok((seed.get() >> 11) as f64 / (1_u64 << 53) as f64)
    }

    fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
        (None,)
    }

    fn cost(&self, _: (&Seed,)) -> f64 {
        1e6
    }
}

fn uniform() -> Layer<f64> {
    Layer::apply(Uniform, (Seed::draw(),))
}

/// Draws a number per iteration, and branches on it.
#[differentiable]
fn walk(x: &Layer<f64>, steps: usize) -> Layer<f64> {
    let mut x = x.clone();
    for _ in 0..steps {
        let toss = !uniform();
        x = if toss < 0.5 { x * 0.5 + toss } else { x * uniform() };
    }
    x
}

#[test]
fn draws_depend_only_on_seed() {
    let w = Weight::new(1.0);
    let program = || {
        let walks: Layer<f64> = (0..8).map(|i| walk(&(&w * f64::from(i)), 5)).sum();
        walks + uniform() * 10.0
    };
    let expected = program().predict().seed(3).wait().unwrap();
    for threads in [1, 2, 3, 8] {
        for _ in 0..10 {
            let value = on_threads(threads, || program().predict().seed(3).wait().unwrap());
            assert_eq!(value.to_bits(), expected.to_bits(), "{threads} threads");
        }
    }
    assert_ne!(program().predict().seed(4).wait().unwrap(), expected);
    // the same layer; draws do not depend on the layers created in between
    let layer = program();
    let first = layer.predict().seed(5).wait().unwrap();
    let _others: Vec<Layer<f64>> = (0..10).map(|_| uniform()).collect();
    assert_eq!(layer.predict().seed(5).wait().unwrap(), first);
}

#[test]
fn draw_without_seed_is_error_with_advice() {
    let x = uniform();
    let error = x.predict().wait().unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("`.seed("), "{error}");
    assert!(error.place().is_some_and(|place| place.file().ends_with("state.rs")), "{error}");
}

/// The mode in the body of a dynamic node and in the kernel below it.
fn modes() -> Layer<f64> {
    struct InAKernel;

    impl Primitive for InAKernel {
        type Operands = (Layer<f64>,);
        type Output = f64;

        fn name(&self) -> &'static str {
            "mode"
        }

        fn value(&self, (x,): (&f64,)) -> Result<f64> {
            Ok(x + if Mode::current() == Some(Mode::Train) { 10.0 } else { 0.0 })
        }

        fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
            (Some(at.delta.clone()),)
        }
    }

    Layer::dynamic(|| async {
        let in_a_body = if Mode::current() == Some(Mode::Train) { 1.0 } else { 0.0 };
        Ok(Layer::apply(InAKernel, (Layer::constant(in_a_body),)))
    })
}

#[test]
fn mode_is_inherited_unless_overridden() {
    let (x, sgd) = (modes(), Sgd::new(0.1));
    assert_eq!(x.predict().wait().unwrap(), 0.0);
    assert_eq!(x.train(&sgd).wait().unwrap(), 11.0);
    assert_eq!(x.predict().mode(Mode::Train).wait().unwrap(), 11.0);
    assert_eq!(x.train(&sgd).mode(Mode::Evaluate).wait().unwrap(), 0.0);
    // a nested pass inherits the settings that it does not override
    let inner = modes();
    let outer = Layer::dynamic(move || {
        let inner = inner.clone();
        async move {
            let (awaited, waited) = (inner.predict().await?, inner.predict().wait()?);
            Ok(Layer::constant(awaited * 100.0 + waited))
        }
    });
    assert_eq!(outer.predict().mode(Mode::Train).wait().unwrap(), 1111.0);
    assert_eq!(outer.predict().wait().unwrap(), 0.0);
    assert_eq!(Mode::current(), None);
}

/// Two weights are always updated by the same step, so they are equal in every snapshot.
#[test]
fn snapshot_during_training_is_consistent() {
    watched("a snapshot during training", || {
        let (a, b) = (Weight::new(0.0), Weight::new(Nd::from([0.0, 0.0])));
        let step = (&a + b.sum()).train(&Sgd::new(-1.0));
        let done = Arc::new(AtomicBool::new(false));
        let trainer = std::thread::spawn({
            let done = done.clone();
            move || {
                while !done.load(SeqCst) {
                    step.wait().unwrap();
                }
            }
        });
        let apart = &a - b.sum() / 2.0;
        let mut seen = Vec::new();
        for _ in 0..300 {
            let snapshot = Snapshot::take();
            let before = a.predict().on(&snapshot).wait().unwrap();
            assert_eq!(apart.predict().on(&snapshot).wait().unwrap(), 0.0);
            std::thread::yield_now();
            assert_eq!(a.predict().on(&snapshot).wait().unwrap(), before);
            seen.push(before);
        }
        done.store(true, SeqCst);
        trainer.join().unwrap();
        assert!(seen.is_sorted());
    });
}

#[test]
fn buffer_is_written_only_by_successful_step() {
    for threads in [1, 2] {
        on_threads(threads, || {
            let (w, steps, mean) = (Weight::new(2.0), Buffer::new(0.0), Buffer::new(Nd::from([1.0, 1.0])));
            let counted = (&w * &w).updating(&steps, steps.layer() + 1.0);
            let loss = counted.updating(&mean, mean.layer() * 0.5);
            loss.predict().wait().unwrap();
            assert!((loss.clone() + failing()).train(&Sgd::new(0.1)).wait().is_err());
            let not_finite = (loss.clone() + (&w - 2.0).sqrt()).train(&Sgd::new(0.1).refuse_non_finite());
            assert!(not_finite.wait().unwrap_err().is_not_finite());
            assert_eq!((steps.value(), mean.value(), w.value()), (0.0, Nd::from([1.0, 1.0]), 2.0));
            for _ in 0..2 {
                loss.train(&Sgd::new(0.0)).wait().unwrap();
            }
            assert_eq!((steps.value(), mean.value()), (2.0, Nd::from([0.25, 0.25])));
            // no gradient flows to the new value of a buffer
            let through = w.layer().updating(&steps, w.exp());
            through.train(&Sgd::new(1.0)).wait().unwrap();
            assert_eq!((w.value(), steps.value()), (1.0, 2.0_f64.exp()));
        });
    }
}

fn failing() -> Layer<f64> {
    Layer::from(Do::<f64>::fail(Error::invalid("no")))
}

#[test]
fn buffer_with_two_updates_is_error_with_both_places() {
    let (w, b) = (Weight::new(1.0), Buffer::new(0.0));
    let twice = w.layer().updating(&b, 1.0) + w.layer().updating(&b, 2.0);
    let error = twice.train(&Sgd::new(0.1)).wait().unwrap_err();
    assert_eq!(error.to_string().matches("state.rs").count(), 2, "{error}");
    assert_eq!((w.value(), b.value()), (1.0, 0.0));
}

#[test]
fn failures_of_parallel_operations_are_all_reported() {
    let fails = |what: &'static str| Layer::from(Do::<f64>::fail(Error::invalid(what)));
    let parts = (fails("first") + 1.0) * fails("second") + fails("third");
    for threads in [1, 4] {
        let error = on_threads(threads, || parts.predict().wait().unwrap_err());
        assert!(error.to_string().contains("first"), "{error}");
        let others: Vec<String> = error.others().iter().map(Error::to_string).collect();
        assert_eq!(others.len(), 2, "{others:?}");
        assert!(others[0].contains("second") && others[1].contains("third"), "{others:?}");
    }
}

#[test]
fn backward_peak_memory_does_not_exceed_residuals() {
    let (layers, rows, columns) = (20, 500, 64);
    let x: Nd<f32> = Nd::full([rows, columns], 0.5);
    let weights: Vec<NdWeight<Ix2>> = (0..layers).map(|_| Weight::new(Nd::full([columns, columns], 0.01))).collect();
    for threads in [1, 2] {
        let y = weights.iter().fold(Layer::constant(x.clone()), |y, w| y.matmul(w));
        // gradient descent would defer the products (its deltas) to the commit, and keep their
        // operands
        let step = || y.mean().train(&Adam::new(0.0)).counted().wait().unwrap().1.bytes_peak;
        // while the system suspends a thread, its product keeps its operands, and the other thread
        // goes on: the least of several steps
        let bytes = (0..5).map(|_| on_threads(threads, step)).min().unwrap();
        // plus the activation deltas, and the deltas of the weights, which are as large as two or
        // three of them
        assert!(bytes <= (layers + 3) * rows * columns * size_of::<f32>(), "{bytes} bytes on {threads} threads");
    }
}

#[test]
fn buffers_of_released_values_are_reused() {
    let x = Nd::from_vec([3000], vec![0.5_f64; 3000]).unwrap();
    let deep = |depth| (0..depth).fold(Layer::constant(x.clone()), |y, _| y.tanh() + 0.25);
    let (_, shallow): (_, Counters) = deep(10).predict().counted().wait().unwrap();
    let (_, deeper) = deep(1_000).predict().counted().wait().unwrap();
    assert_eq!(deeper.bytes_peak, shallow.bytes_peak);
    assert!(deeper.bytes_peak <= 3 * 24_000, "{deeper:?}");
    assert!(deeper.reused_buffers >= 1_990, "{deeper:?}");
    assert_eq!((deeper.nodes, deeper.evaluations), (2_000, 2_000));
}

/// x; its kernel waits for another one.
struct Together(Arc<Barrier>);

impl Primitive for Together {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "together"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        self.0.wait();
        Ok(*x)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (Some(at.delta.clone()),)
    }

    fn cost(&self, _: (&f64,)) -> f64 {
        1e6
    }
}

#[test]
fn parallel_width_is_number_of_working_threads() {
    watched("two kernels at a barrier", || {
        let meeting = Arc::new(Barrier::new(2));
        let met: Layer<f64> = (0..2).map(|_| Layer::apply(Together(meeting.clone()), (Layer::constant(1.0),))).sum();
        let (_, counters) = on_threads(2, || met.predict().counted().wait().unwrap());
        assert_eq!(counters.parallel_width, 2);
        let (_, alone) = on_threads(2, || Layer::constant(1.0).predict().counted().wait().unwrap());
        assert_eq!(alone.parallel_width, 0);
        // inline kernels count as work
        let small = Layer::constant(Nd::from([0.5_f32, 1.0])).tanh().exp();
        let (_, small) = on_threads(2, || small.predict().counted().wait().unwrap());
        assert_eq!((small.parallel_width, small.evaluations), (1, 2));
    });
}

#[test]
fn inline_and_queued_kernels_have_same_counters() {
    watched("inline and queued kernels", || {
        let deep = || {
            let x = Layer::constant(Nd::from([0.5_f32; 100]));
            // each value is an operand of one operation twice, and of the next one
            (0..50).fold(x, |y, _| (&y * &y + &y).tanh()).sum()
        };
        for train in [false, true] {
            let counted = |recorder: Option<&Recorder>| {
                on_threads(1, || {
                    let w = Weight::new(1.0_f32);
                    let run = if train { (deep() * &w).train(&Sgd::new(0.1)) } else { deep().predict() }.counted();
                    recorder.map_or(run.clone(), |recorder| run.recorded(recorder)).wait().unwrap()
                })
            };
            // in a recorded pass no kernel runs inline
            let ((value, counters), (recorded, other)) = (counted(None), counted(Some(&Recorder::new())));
            assert_eq!(value.to_bits(), recorded.to_bits());
            assert_eq!((counters.nodes, counters.evaluations), (other.nodes, other.evaluations));
            assert_eq!(counters.bytes_peak, other.bytes_peak);
        }
        let (_, counters) = on_threads(1, || deep().predict().counted().wait().unwrap());
        assert!(counters.bytes_peak <= 4 * 100 * size_of::<f32>(), "{} bytes", counters.bytes_peak);
    });
}

/// Weights are discovered as one of the first nodes of a pass, which are stamped only when they are
/// found again, or later; as operands of different operations; and with or without the stamp of
/// another pass.
#[test]
fn weight_used_repeatedly_is_one_node_of_pass() {
    for n in [1, 7, 8, 9, 20] {
        let weights: Vec<Weight<f64>> = (0..n).map(|i| Weight::new(f64::from(i))).collect();
        let squares = || weights.iter().map(|w| w * w).collect::<Vec<_>>();
        let squares = std::thread::scope(|scope| scope.spawn(squares).join().unwrap());
        let terms = squares.iter().zip(&weights).map(|(square, w)| square + w);
        let y = terms.reduce(|sum, term| sum + term).unwrap();
        let values = || weights.iter().map(Weight::value).collect::<Vec<_>>();
        let (sum, nodes): (f64, _) = (values().iter().map(|w| w * w + w).sum(), 4 * n as usize - 1);
        let counted = |y: &Layer<f64>| y.predict().counted().wait().map(|(value, counters)| (value, counters.nodes));
        assert_eq!(counted(&y).unwrap(), (sum, nodes));
        let inner = y.clone();
        let inside = Layer::dynamic(move || {
            let found = counted(&inner);
            async move { found.map(|(value, nodes)| Layer::constant(value * 1e3 + nodes as f64)) }
        });
        assert_eq!((&y + inside).predict().wait().unwrap(), sum * 1001.0 + nodes as f64);
        let stepped: Vec<f64> = values().iter().map(|w| w - 0.5 * (2.0 * w + 1.0)).collect();
        y.train(&Sgd::new(0.5)).wait().unwrap();
        assert_eq!(values(), stepped);
    }
}

/// The sum of three numbers.
struct Sum3;

impl Primitive for Sum3 {
    type Operands = (Layer<f64>, Layer<f64>, Layer<f64>);
    type Output = f64;

    fn name(&self) -> &'static str {
        "sum of three"
    }

    fn value(&self, (x, y, z): (&f64, &f64, &f64)) -> Result<f64> {
        Ok(x + y + z)
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(at.delta.clone()), Some(at.delta.clone()), Some(at.delta.clone()))
    }
}

#[test]
fn weight_of_operation_with_many_operands_is_one_node() {
    let weights = [1.0, 2.0, 3.0].map(Weight::new);
    let [x, y, z] = weights.each_ref().map(Weight::layer);
    let sum = || Layer::apply(Sum3, (x.clone(), y.clone(), z.clone()));
    for threads in [1, 2] {
        // the root is a weight, and so is the result of the body
        let inside = y.clone();
        let body = Layer::dynamic(move || std::future::ready(Ok(inside.clone())));
        let (value, counters) = on_threads(threads, || (sum() + sum() + body).predict().counted().wait().unwrap());
        assert_eq!((value, counters.nodes), (14.0, 3 + 1 + 2 + 2));
        assert_eq!(
            on_threads(threads, || Do::predict((z.clone(), sum(), z.clone())).counted().wait().unwrap()).1.nodes,
            4
        );
    }
    sum().train(&Sgd::new(1.0)).wait().unwrap();
    assert_eq!(weights.map(|w| w.value()), [0.0, 1.0, 2.0]);
}

/// A live nested pass takes the stamp of a weight that the outer pass has discovered, and discovers
/// again.
#[test]
fn weight_stamped_by_nested_pass_is_one_node() {
    let w = Weight::new(3.0_f64);
    let (inside, held) = (w.clone(), Arc::new(std::sync::Mutex::new(None)));
    let theirs = held.clone();
    let body = Layer::dynamic(move || {
        let tape = (&inside * &inside + &inside).forward().wait();
        *theirs.lock().unwrap() = Some(tape.expect("the pass must succeed"));
        let again = &inside * 5.0 + &inside;
        async { Ok(again) }
    });
    let (value, counters) = (&w * 2.0 + body).predict().counted().wait().unwrap();
    assert_eq!((value, counters.nodes), (24.0, 1 + 1 + 1 + 2 + 1));
    assert_eq!(held.lock().unwrap().take().map(|tape| *tape.data()), Some(12.0));
}

#[test]
fn error_in_inline_kernel_has_place_of_operation() {
    let (a, b) = (Layer::constant(Nd::from([1.0_f32, 2.0])), Layer::constant(Nd::from([1.0_f32, 2.0, 3.0])));
    for threads in [1, 2] {
        let line = line!() + 1;
        let sum = &a.exp() + &b.exp();
        let error = on_threads(threads, || sum.tanh().predict().wait().unwrap_err());
        assert_eq!(error.place().map(|place| place.line()), Some(line), "{error}");
    }
}

#[test]
fn gradient_inherits_mode_of_pass() {
    let w = Weight::new(1.0);
    let by_mode = Layer::dynamic({
        let w = w.clone();
        move || {
            let w = w.clone();
            async move { Ok(if Mode::current() == Some(Mode::Train) { &w * 10.0 } else { &w * 2.0 }) }
        }
    });
    let slope = by_mode.gradient(&w);
    assert_eq!(slope.predict().wait().unwrap(), 2.0);
    assert_eq!(slope.predict().mode(Mode::Train).wait().unwrap(), 10.0);
}

#[test]
fn nested_passes_inherit_snapshot() {
    let w = Weight::new(3.0);
    let before = Snapshot::take();
    w.set(5.0);
    let square = &w * &w;
    // in a prediction, a gradient is a nested pass
    assert_eq!(square.gradient(&w).predict().on(&before).wait().unwrap(), 6.0);
    let outer = Layer::dynamic(move || {
        let inner = square.clone();
        async move {
            let (awaited, waited): (f64, f64) = (inner.predict().await?, inner.predict().wait()?);
            Ok(Layer::constant(awaited + waited))
        }
    });
    assert_eq!(outer.predict().on(&before).wait().unwrap(), 18.0);
}

#[test]
fn buffer_update_before_long_loop_of_bangs_is_not_lost() {
    let (w, seen) = (Weight::new(3.0), Buffer::new(0.0));
    let loss = Layer::dynamic({
        let (w, seen) = (w.clone(), seen.clone());
        move || {
            let (w, seen) = (w.clone(), seen.clone());
            async move {
                w.layer().updating(&seen, &w * 2.0).extract().await?;
                for i in 0..1000 {
                    Layer::constant(f64::from(i)).sin().extract().await?;
                }
                Ok(w.layer())
            }
        }
    });
    loss.train(&Sgd::new(1.0)).wait().unwrap();
    assert_eq!((w.value(), seen.value()), (2.0, 6.0));
}

/// x; the kernel may create a layer with a random seed, which is not used.
struct Draws(bool);

impl Primitive for Draws {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "draws"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        if self.0 {
            drop(Seed::draw());
        }
        Ok(*x)
    }

    fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
        (None,)
    }

    fn cost(&self, _: (&f64,)) -> f64 {
        1.0
    }
}

#[test]
fn layers_created_in_kernel_do_not_affect_draws() {
    let run = |draws: bool| {
        on_threads(1, || {
            let program = Layer::dynamic(move || async move {
                Layer::apply(Draws(draws), (Layer::constant(1.0),)).extract().await?;
                Ok(uniform())
            });
            program.predict().seed(3).wait().unwrap()
        })
    };
    assert_eq!(run(true), run(false));
}

/// x; the kernel sets a weight.
struct SetsWeight(Weight<f64>);

impl Primitive for SetsWeight {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "sets weight"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        self.0.set(self.0.value() + 1.0);
        Ok(*x)
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(at.delta.clone()),)
    }
}

/// In a prediction, a gradient is a nested pass. It must read the same weights as the outer one.
#[test]
fn gradient_reads_same_weights_as_outer_pass() {
    for derivative_first in [false, true] {
        let w = Weight::new(2.0);
        let y = Layer::apply(SetsWeight(w.clone()), (w.layer(),)) * &w;
        let slope = y.gradient(&w);
        let (y, slope) = match derivative_first {
            false => Do::predict((y, slope)).wait().unwrap(),
            true => Do::predict((slope, y)).map(|(slope, y)| (y, slope)).wait().unwrap(),
        };
        assert_eq!(slope * slope, 4.0 * y, "both use the same value of w");
    }
}
