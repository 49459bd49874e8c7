//! Deltas that a training step computes during the backward walk. Their values, errors and number of
//! evaluations must be those of lazily evaluated deltas.

use dl_core::{At, BuiltIn, Deltas, Differentiable, Error, Layer, Primitive, Result, Weight};
use dl_optim::Sgd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts of kernel executions, and whether the delta kernel fails.
#[derive(Clone, Default)]
struct Seen {
    products: Arc<AtomicUsize>,
    deltas: Arc<AtomicUsize>,
    fails: bool,
}

/// A product. Its kernel may run during the backward walk; its rule builds one delta node for both
/// operands.
#[derive(Clone)]
struct Product(Seen);

impl Primitive for Product {
    type Operands = (Layer<f64>, Layer<f64>);
    type Output = f64;

    fn name(&self) -> &'static str {
        "product"
    }

    fn value(&self, (a, b): (&f64, &f64)) -> Result<f64> {
        self.0.products.fetch_add(1, Relaxed);
        Ok(a * b)
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let delta = Layer::apply_built_in(Delta(self.0.clone()), (at.delta.clone(),));
        let times = |x: &Layer<f64>| Some(self.0.product(&delta, x));
        (times(&at.operands.1), times(&at.operands.0))
    }

    fn cost(&self, _: (&f64, &f64)) -> f64 {
        1.0
    }
}

impl BuiltIn for Product {
    const IS_PURE: bool = true;
}

/// The identity, or an error.
#[derive(Clone)]
struct Delta(Seen);

impl Primitive for Delta {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "delta"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        self.0.deltas.fetch_add(1, Relaxed);
        if self.0.fails { Err(Error::invalid("it was to fail")) } else { Ok(*x) }
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(at.delta.clone()),)
    }

    fn cost(&self, _: (&f64,)) -> f64 {
        1.0
    }
}

impl BuiltIn for Delta {
    const IS_PURE: bool = true;
}

impl Seen {
    fn product(&self, a: &Layer<f64>, b: &Layer<f64>) -> Layer<f64> {
        Layer::apply_built_in(Product(self.clone()), (a.clone(), b.clone()))
    }

    fn counts(&self) -> (usize, usize) {
        (self.products.swap(0, Relaxed), self.deltas.swap(0, Relaxed))
    }
}

fn on<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool").install(work)
}

#[test]
fn deltas_are_computed_once_and_only_for_trained_weights() {
    for threads in [1, 2] {
        on(threads, || {
            let (seen, sgd) = (Seen::default(), Sgd::new(0.5));
            let (a, b) = (Weight::new(3.0), Weight::new(5.0));
            let both = seen.product(&a.layer(), &b.layer());
            assert_eq!(both.train(&sgd).wait()?, 15.0);
            assert_eq!((a.value(), b.value()), (0.5, 3.5));
            // products: forward, and a delta for each weight; the common delta is computed once
            assert_eq!(seen.counts(), (3, 1), "{threads} threads");

            let one = seen.product(&a.layer(), &Layer::constant(5.0));
            one.train(&sgd).wait()?;
            assert_eq!(seen.counts(), (2, 1), "no delta for a constant, {threads} threads");

            let twice = seen.product(&both, &both);
            twice.train(&sgd).wait()?;
            // products: 2 forward, 2 for the operands of the upper one, 1 for each weight at the lower
            // one
            assert_eq!(seen.counts(), (6, 2), "{threads} threads");
            // (a·b)² with a = −2 and b = 3.5
            assert_eq!((a.value(), b.value()), (22.5, -10.5), "{threads} threads");
            Ok::<_, Error>(())
        })
        .expect("it succeeds");
    }
}

/// `(a + b)² / 2`. Its rule builds a sum that both deltas use and that is released last, so that the
/// next node is allocated at its address.
#[derive(Clone)]
struct HalfTheSquare;

impl Primitive for HalfTheSquare {
    type Operands = (Layer<f64>, Layer<f64>);
    type Output = f64;

    fn name(&self) -> &'static str {
        "half the square"
    }

    fn value(&self, (a, b): (&f64, &f64)) -> Result<f64> {
        Ok((a + b).powi(2) / 2.0)
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let sum = &at.operands.0 + &at.operands.1;
        (Some(at.delta * &sum), Some(at.delta * &sum))
    }

    fn cost(&self, _: (&f64, &f64)) -> f64 {
        1.0
    }
}

impl BuiltIn for HalfTheSquare {
    const IS_PURE: bool = true;
}

#[test]
fn delta_sum_is_not_confused_with_freed_node_at_same_address() -> Result<()> {
    on(1, || {
        let half_the_square = |x: &Layer<f64>| Layer::apply_built_in(HalfTheSquare, (x.clone(), x.clone()));
        let a = Weight::new(1.0);
        // 8 · a⁴; the inner one receives two deltas of 4
        half_the_square(&half_the_square(&a.layer())).train(&Sgd::new(1.0)).wait()?;
        assert_eq!(a.value(), 1.0 - 32.0);
        Ok(())
    })
}

#[test]
fn backward_without_step_leaves_deltas_lazy() -> Result<()> {
    on(1, || {
        let seen = Seen::default();
        let a = Weight::new(3.0);
        let product = seen.product(&a.layer(), &a.layer());
        let effects = product.backward().wait()?;
        assert_eq!(seen.counts(), (1, 0));
        effects.step(&Sgd::new(0.5)).wait()?;
        assert_eq!((seen.counts(), a.value()), ((2, 1), 0.0));
        Ok(())
    })
}

#[test]
fn error_in_delta_is_independent_of_thread_count_and_changes_nothing() {
    let errors = [1, 2].map(|threads| {
        on(threads, || {
            let seen = Seen { fails: true, ..Seen::default() };
            let (a, b) = (Weight::new(3.0), Weight::new(5.0));
            let below = seen.product(&a.layer(), &b.layer());
            let error = seen.product(&below, &b.layer()).train(&Sgd::new(0.5)).wait().unwrap_err();
            assert_eq!((a.value(), b.value()), (3.0, 5.0));
            error.to_string()
        })
    });
    assert_eq!(errors[0], errors[1]);
    assert!(errors[0].contains("delta") && errors[0].contains("it was to fail") && errors[0].contains("eager.rs"));
}

#[test]
fn long_chain_is_walked_without_recursion() -> Result<()> {
    on(1, || {
        let seen = Seen::default();
        let a = Weight::new(1.0);
        let one = Layer::constant(1.0);
        let chain = (0..100_000).fold(a.layer(), |x, _| seen.product(&x, &one));
        chain.train(&Sgd::new(0.5)).wait()?;
        assert_eq!(a.value(), 0.5);
        Ok(())
    })
}
