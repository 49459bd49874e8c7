//! Deltas that a training step computes on its way back: the same, as often, and with the same
//! errors, as if they were computed later.

use dl_core::{At, Deltas, Differentiable, Error, Layer, Primitive, Result, Weight};
use dl_optim::Sgd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How often kernels have run, and whether a delta is to fail.
#[derive(Clone, Default)]
struct Seen {
    products: Arc<AtomicUsize>,
    deltas: Arc<AtomicUsize>,
    fails: bool,
}

/// A product, as an operation that may run on the way back. Its rule writes down one delta for both
/// operands.
struct Product(Seen);

impl Primitive for Product {
    type Operands = (Layer<f64>, Layer<f64>);
    type Output = f64;
    const IS_PLAIN: bool = true;

    fn name(&self) -> &'static str {
        "product"
    }

    fn value(&self, (a, b): (&f64, &f64)) -> Result<f64> {
        self.0.products.fetch_add(1, Relaxed);
        Ok(a * b)
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let delta = Layer::apply(Delta(self.0.clone()), (at.delta.clone(),));
        let times = |x: &Layer<f64>| Some(self.0.product(&delta, x));
        (times(&at.operands.1), times(&at.operands.0))
    }

    fn cost(&self, _: (&f64, &f64)) -> f64 {
        1.0
    }
}

/// Its operand, or an error.
struct Delta(Seen);

impl Primitive for Delta {
    type Operands = (Layer<f64>,);
    type Output = f64;
    const IS_PLAIN: bool = true;

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

impl Seen {
    fn product(&self, a: &Layer<f64>, b: &Layer<f64>) -> Layer<f64> {
        Layer::apply(Product(self.clone()), (a.clone(), b.clone()))
    }

    fn counts(&self) -> (usize, usize) {
        (self.products.swap(0, Relaxed), self.deltas.swap(0, Relaxed))
    }
}

fn on<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool").install(work)
}

#[test]
fn each_delta_is_computed_once_and_only_where_somebody_trains() {
    for threads in [1, 2] {
        on(threads, || {
            let (seen, sgd) = (Seen::default(), Sgd::new(0.5));
            let (a, b) = (Weight::new(3.0), Weight::new(5.0));
            let both = seen.product(&a.layer(), &b.layer());
            assert_eq!(both.train(&sgd).wait()?, 15.0);
            assert_eq!((a.value(), b.value()), (0.5, 3.5));
            // forward, and a delta for each weight; what both are made of once
            assert_eq!(seen.counts(), (3, 1), "{threads} threads");

            let one = seen.product(&a.layer(), &Layer::constant(5.0));
            one.train(&sgd).wait()?;
            assert_eq!(seen.counts(), (2, 1), "nobody trains on a constant, {threads} threads");

            let twice = seen.product(&both, &both);
            twice.train(&sgd).wait()?;
            // forward 2; at the upper one two for the same operand, at the lower one one for each
            // weight
            assert_eq!(seen.counts(), (6, 2), "{threads} threads");
            // (a·b)² at −2 and 3.5
            assert_eq!((a.value(), b.value()), (22.5, -10.5), "{threads} threads");
            Ok::<_, Error>(())
        })
        .expect("it succeeds");
    }
}

/// `(a + b)² / 2`. Its rule writes down a sum for both operands, which goes last of all: what is
/// written down next lies in its place.
struct HalfTheSquare;

impl Primitive for HalfTheSquare {
    type Operands = (Layer<f64>, Layer<f64>);
    type Output = f64;
    const IS_PLAIN: bool = true;

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

#[test]
fn a_sum_of_deltas_is_not_taken_for_what_has_lain_at_its_place() -> Result<()> {
    on(1, || {
        let half_the_square = |x: &Layer<f64>| Layer::apply(HalfTheSquare, (x.clone(), x.clone()));
        let a = Weight::new(1.0);
        // 8 · a⁴; two deltas of 4 arrive at the inner one
        half_the_square(&half_the_square(&a.layer())).train(&Sgd::new(1.0)).wait()?;
        assert_eq!(a.value(), 1.0 - 32.0);
        Ok(())
    })
}

#[test]
fn what_nobody_asks_for_at_once_stays_lazy() -> Result<()> {
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
fn an_error_is_the_same_on_every_number_of_threads_and_nothing_changes() {
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
fn a_long_chain_is_walked_without_recursion() -> Result<()> {
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
