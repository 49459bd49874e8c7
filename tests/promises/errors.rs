//! Promise 9: an error has the place where the user code created the operation.

use super::support::Custom;
use dl::nd::{Element, Nd, ndarray::Ix1, ops::*};
use dl::{Adam, Along, At, Chunk, Deltas, Differentiable, Error, Layer, Optimizer, Primitive, Result, Sgd, Weight};
use std::marker::PhantomData;

#[test]
fn error_has_place_in_user_code() {
    let x = Weight::new(1.0).layer();
    let bad = Custom(|_| Err(Error::shape("[2, 3] and [4, 5] do not fit"))).of(&x); // this line
    let line = line!() - 1;
    let y = (bad * 2.0).tanh();
    let error = y.predict().wait().unwrap_err();
    let place = error.place().expect("a place");
    assert!(place.file().ends_with("errors.rs"));
    assert_eq!(place.line(), line);
    assert_eq!(error.op(), Some("custom"));
    assert_eq!(
        error.to_string(),
        format!("custom: [2, 3] and [4, 5] do not fit (at {}:{line}:{})", place.file(), place.column())
    );
}

#[test]
fn error_in_body_has_place_in_user_code() {
    let y = Layer::<f64>::dynamic(|| async {
        Ok(Custom(|_| Err(Error::shape("no"))).of(&Layer::constant(1.0))) // this line
    });
    let error = (y + 1.0).predict().wait().unwrap_err();
    assert_eq!(error.place().unwrap().line(), line!() - 3);
}

#[test]
fn user_error_keeps_its_message() {
    let y = Layer::<f64>::dynamic(|| async { Err(Error::other("1,5".parse::<f64>().unwrap_err())) });
    let error = y.predict().wait().unwrap_err();
    assert!(error.to_string().contains("invalid float literal"), "{error}");
}

#[test]
fn shape_error_has_operation_shapes_and_place() {
    let (x, w) = (Weight::new(Nd::from([[1.0_f32, 2.0, 3.0]])), Weight::new(Nd::from([[1.0_f32, 2.0]])));
    let y = x.matmul(&w).relu(); // this line
    let line = line!() - 1;
    let error = y.train(&Sgd::new(0.1)).wait().unwrap_err();
    assert!(error.is_shape());
    assert_eq!((error.op(), error.place().unwrap().line()), (Some("matmul"), line));
    let text = error.to_string();
    assert!(text.contains("[1, 3]") && text.contains("[1, 2]"), "{text}");
}

/// (x, y) ↦ x, with a pullback that returns the delta of x for y, too.
struct Careless<A>(PhantomData<A>);

impl<A: Element> Primitive for Careless<A> {
    type Operands = (Layer<Nd<A, Ix1>>, Layer<Nd<A, Ix1>>);
    type Output = Nd<A, Ix1>;

    fn name(&self) -> &'static str {
        "careless"
    }

    fn value(&self, (x, _): (&Nd<A, Ix1>, &Nd<A, Ix1>)) -> Result<Nd<A, Ix1>> {
        Ok(x.clone())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(at.delta.clone()), Some(at.delta.clone()))
    }
}

#[test]
fn pullback_with_wrong_shape_reports_its_operation() {
    fn check<A: Element>() {
        let vector = |length| Nd::<A, Ix1>::full([length], A::from(0.5).unwrap());
        let (x, w) = (Weight::new(vector(2)), Weight::new(vector(3)));
        for y in [w.layer(), w.exp()] {
            let (line, careless) = (line!(), Layer::apply(Careless(PhantomData), (x.layer(), y)));
            // alone, and in a sum with another delta
            for loss in [careless.sum(), w.sum() + careless.sum() + w.sum()] {
                let direction = Layer::constant(vector(3));
                let pullback =
                    "the pullback to operand 1: careless: a derivative of shape [2] for a tensor of shape [3]";
                // by transposition of the pullback
                let pushforward = "the pushforward: careless: a derivative of shape [3] for a tensor of shape [2]";
                for (failed, text) in [
                    (loss.train(&Sgd::new(0.1)).wait().err(), pullback),
                    (loss.train(&Adam::new(0.1)).wait().err(), pullback),
                    (loss.gradient(&w).predict().wait().err(), pullback),
                    (loss.first_non_finite().wait().err(), pullback),
                    (loss.jvp(&w, &direction).predict().wait().err(), pushforward),
                ] {
                    let error = failed.expect("a wrong shape");
                    assert!(error.is_shape() && error.to_string().starts_with(text), "{error}");
                    assert_eq!((error.op(), error.place().unwrap().line()), (Some("careless"), line), "{error}");
                }
            }
        }
        assert_eq!((x.value(), w.value()), (vector(2), vector(3)));
    }
    check::<f32>();
    check::<f64>();
}

#[test]
fn with_rule_of_wrong_shape_reports_its_line() {
    let (x, w) = (Nd::from([1.0, 2.0]), Weight::new(Nd::from([1.0, 2.0, 3.0])));
    let ruled = dl::with_rule((x.layer(), w.layer()), |(x, _)| x.clone(), |_, _, d| (None, Some(d.clone()))); // this line
    let line = line!() - 1;
    let error = ruled.sum().train(&Sgd::new(0.1)).wait().unwrap_err();
    assert_eq!((error.op(), error.place().unwrap().line()), (Some("with_rule"), line), "{error}");
    assert!(
        error.to_string().starts_with("the pullback to operand 1: with_rule: a derivative of shape [2]"),
        "{error}"
    );
}

/// The same with a pushforward that returns the tangent of y.
struct Hasty;

impl Primitive for Hasty {
    type Operands = (Layer<Nd<f64, Ix1>>, Layer<Nd<f64, Ix1>>);
    type Output = Nd<f64, Ix1>;

    fn name(&self) -> &'static str {
        "hasty"
    }

    fn value(&self, (x, _): (&Nd<f64, Ix1>, &Nd<f64, Ix1>)) -> Result<Nd<f64, Ix1>> {
        Ok(x.clone())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(at.delta.clone()), None)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<f64, Ix1>>> {
        along.tangents.1.clone()
    }
}

#[test]
fn pushforward_with_wrong_shape_reports_its_operation() {
    let (x, w) = (Nd::from([1.0, 2.0]), Weight::new(Nd::from([1.0, 2.0, 3.0])));
    let (line, hasty) = (line!(), Layer::apply(Hasty, (x.layer(), w.layer())));
    let error = hasty.sum().jvp(&w, &Layer::constant(Nd::from([1.0; 3]))).predict().wait().unwrap_err();
    assert_eq!((error.op(), error.place().unwrap().line()), (Some("hasty"), line), "{error}");
    assert!(error.to_string().starts_with("the pushforward: hasty: a derivative of shape [3]"), "{error}");
}

/// x ↦ [0, 0], with a pullback whose product is not transposed. A step accumulates such a product
/// into its weight.
struct Untransposed;

impl Primitive for Untransposed {
    type Operands = (Layer<Nd>,);
    type Output = Nd;

    fn name(&self) -> &'static str {
        "untransposed"
    }

    fn value(&self, _: (&Nd,)) -> Result<Nd> {
        Ok(Nd::full([1, 2], 0.0))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(Nd::from([[1.0], [1.0], [1.0]]).matmul(at.delta)),) // this line
    }
}

const LINE_OF_PRODUCT: u32 = line!() - 4;

#[test]
fn product_of_wrong_shape_from_pullback_is_reported_in_rule() {
    let w = Weight::new(Nd::full([2, 3], 1.0));
    let loss = Layer::apply(Untransposed, (w.layer(),)).sum();
    for error in [loss.train(&Sgd::new(0.1)).wait(), loss.train(&Adam::new(0.1)).wait()].map(Result::unwrap_err) {
        assert!(error.is_shape() && error.op() == Some("matmul"), "{error}");
        assert_eq!(error.place().unwrap().line(), LINE_OF_PRODUCT, "{error}");
        assert!(error.to_string().contains("a derivative of shape [3, 2] for a tensor of shape [2, 3]"), "{error}");
    }
    assert_eq!(w.value(), Nd::full([2, 3], 1.0));
}

/// An optimizer that panics in its step or before it.
#[derive(Clone)]
struct Fragile {
    in_step: bool,
}

impl Optimizer for Fragile {
    fn begin<'o>(&'o self, _: &dl::Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        assert!(self.in_step, "no beginning");
        Ok(None)
    }

    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        panic!("no step")
    }
}

#[test]
fn panic_of_optimizer_names_it() {
    let (w, v) = (Weight::new(1.0), Weight::new(Nd::from([1.0_f32])));
    for (in_step, text) in [(true, "no step"), (false, "no beginning")] {
        for error in [
            (&w * 2.0).train(&Fragile { in_step }).wait().map(|_| ()),
            v.sum().train(&Fragile { in_step }).wait().map(|_| ()),
        ] {
            let error = error.unwrap_err();
            assert!(error.is_panic(), "{error}");
            let shown = error.to_string();
            assert!(shown.starts_with("optimizer Fragile: ") && shown.contains(text), "{error}");
        }
    }
}
