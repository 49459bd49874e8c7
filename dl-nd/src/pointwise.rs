//! Pointwise operations on tensors: the rules are those of the tables in `dl-core`; here are the
//! loops.

use crate::broadcast::{broadcast_shape, broadcast_to, common_len, sum_to};
use crate::element::{Element, Rank};
use crate::formula::{self, Operation, is_worth_writing_down};
use crate::nd::{Nd, check_size};
use crate::program;
use crate::reading::Reading;
use crate::sum::sum_of;
use dl_core::{Along, At, Binary, Differentiable, Layer, Now, Pointwise, Primitive, Result, Sums, Term, Unary};
use ndarray::Array;
use std::marker::PhantomData;

impl<A: Element, D: Rank> Pointwise for Nd<A, D> {
    #[track_caller]
    fn unary(op: Unary, x: &Layer<Self>) -> Layer<Self> {
        Layer::apply(UnaryOp { op, types: PhantomData }, (x.clone(),))
    }

    #[track_caller]
    fn binary(op: Binary, a: &Layer<Self>, b: &Layer<Self>) -> Layer<Self> {
        Layer::apply(BinaryOp { op, types: PhantomData }, (a.clone(), b.clone()))
    }

    #[track_caller]
    fn with_number(op: Binary, x: &Layer<Self>, number: f64, left: bool) -> Layer<Self> {
        Layer::apply(NumberOp { op, number, left, types: PhantomData }, (x.clone(),))
    }
}

macro_rules! methods {
    (@example $Op:ident $name:ident) => {
        concat!(
            "\n```\nuse dl_core::{Differentiable, Unary};\nuse dl_nd::{Nd, PointwiseOps};\nlet y = Nd::from([0.5_f64]).",
            stringify!($name),
            "().predict().wait()?;\nassert_eq!(y[0], Unary::",
            stringify!($Op),
            ".value(0.5));\n# dl_core::Result::Ok(())\n```"
        )
    };
    ($($(#[doc = $doc:literal])+ $Op:ident $name:ident;)*) => {
        /// The pointwise operations of one operand, for plain tensors and whatever else has a
        /// tensor as its data. Layers and weights have them as methods of their own.
        ///
        /// ```
        /// use dl_core::Differentiable;
        /// use dl_nd::{Nd, PointwiseOps};
        /// assert_eq!(Nd::from([-1.0, 4.0]).relu().sqrt().predict().wait()?, Nd::from([0.0, 2.0]));
        /// # dl_core::Result::Ok(())
        /// ```
        pub trait PointwiseOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
            $($(#[doc = $doc])+ #[doc = methods!(@example $Op $name)] #[track_caller] fn $name(&self) -> Layer<Nd<A, D>> {
                Nd::unary(Unary::$Op, &self.layer())
            })*
        }
    };
}

dl_core::unary_operations!(methods);

impl<X, A: Element, D: Rank> PointwiseOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

/// A rough estimate of the time in nanoseconds that an operation takes whose result has so many
/// elements. What is written down is computed later, and counted there.
fn cost<A: Element, D: Rank>(len: f64, each: f64, operands: &[&Nd<A, D>]) -> f64 {
    200.0
        + match is_worth_writing_down(len as usize) {
            true => formula::nanoseconds_before(len as usize, operands),
            false => len * program::nanoseconds(each),
        }
}

struct UnaryOp<A, D> {
    op: Unary,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for UnaryOp<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;
    const IS_PLAIN: bool = true;

    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let small = if is_worth_writing_down(x.len()) { None } else { x.0.as_slice() };
        Ok(match small {
            Some(elements) => tensor(x.dim(), program::unary(self.op, elements)),
            None => Operation::Unary(self.op, x.clone()).of_shape(x.dim()),
        })
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let [x, y, d] = [&at.operands.0, at.output, at.delta].map(|layer| Term(layer.clone()));
        (self.op.pullback(&x, &y, &d).map(|delta| delta.0),)
    }

    fn pull_back_now(&self, at: &Now<'_, Self>, sums: &mut Sums<'_>) -> bool {
        let (x, y, d) = (at.values.0, at.value, at.delta);
        let Some(reading) = Reading::of_small(&[x, y, d]) else { return false };
        let delta = Reading::unary(self.op, [reading.of(x), reading.of(y), reading.of(d)]);
        reading.add(0, delta, at.delta, sums);
        true
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        self.pullback(&along.at(along.tangents.0.as_ref()?)).0
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        cost(x.len() as f64, self.op.cost(), &[x])
    }
}

struct NumberOp<A, D> {
    op: Binary,
    number: f64,
    left: bool,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for NumberOp<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;
    const IS_PLAIN: bool = true;

    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let Self { op, number, left, .. } = *self;
        let number = A::of(number);
        let small = if is_worth_writing_down(x.len()) { None } else { x.0.as_slice() };
        Ok(match small {
            Some(elements) => tensor(x.dim(), program::with_number(op, elements, number, left)),
            None => Operation::WithNumber { op, number, left, x: x.clone() }.of_shape(x.dim()),
        })
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let number = Layer::constant(Nd::single(A::of(self.number)));
        let [x, number, y, d] = [&at.operands.0, &number, at.output, at.delta].map(|layer| Term(layer.clone()));
        let delta = if self.left {
            self.op.pullback_right(&number, &x, &y, &d)
        } else {
            self.op.pullback_left(&x, &number, &y, &d)
        };
        (delta.map(|delta| delta.0),)
    }

    fn pull_back_now(&self, at: &Now<'_, Self>, sums: &mut Sums<'_>) -> bool {
        let (x, y, d) = (at.values.0, at.value, at.delta);
        let Some(reading) = Reading::of_small(&[x, y, d]) else { return false };
        let (x, y, d, number) = (reading.of(x), reading.of(y), reading.of(d), reading.of_number(A::of(self.number)));
        let (left, right) = match self.left {
            true => Reading::binary(self.op, [number, x, y, d], (false, true)),
            false => Reading::binary(self.op, [x, number, y, d], (true, false)),
        };
        reading.add(0, left.or(right), at.delta, sums);
        true
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        self.pullback(&along.at(along.tangents.0.as_ref()?)).0
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        cost(x.len() as f64, self.op.cost(), &[x])
    }
}

struct BinaryOp<A, D> {
    op: Binary,
    types: PhantomData<(A, D)>,
}

/// The value of an operation on two tensors, which broadcast.
pub(crate) fn binary<A: Element, D: Rank>(op: Binary, a: &Nd<A, D>, b: &Nd<A, D>) -> Result<Nd<A, D>> {
    if a.shape() == b.shape()
        && !is_worth_writing_down(a.len())
        && let (Some(left), Some(right)) = (a.0.as_slice(), b.0.as_slice())
    {
        return Ok(tensor(a.dim(), program::binary(op, left, right)));
    }
    let shape: D = broadcast_shape(a.shape(), b.shape())?;
    check_size::<A>(shape.slice())?;
    if !is_worth_writing_down(shape.size())
        && let (Some(left), Some(right)) = (a.0.as_slice(), b.0.as_slice())
    {
        let elements = program::broadcast(op, (left, a.shape()), (right, b.shape()), shape.slice());
        return Ok(tensor(shape, elements));
    }
    Ok(Operation::Binary(op, a.clone(), b.clone()).of_shape(shape))
}

impl<A: Element, D: Rank> Primitive for BinaryOp<A, D> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<A, D>>);
    type Output = Nd<A, D>;
    const IS_PLAIN: bool = true;

    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn value(&self, (a, b): (&Nd<A, D>, &Nd<A, D>)) -> Result<Nd<A, D>> {
        binary(self.op, a, b)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nd<A, D>>>) {
        let (a, b) = at.operands;
        let [a, b, y, d] = [a, b, at.output, at.delta].map(|layer| Term(layer.clone()));
        let shape = at.value.shape();
        (
            self.op.pullback_left(&a, &b, &y, &d).map(|delta| sum_to(delta.0, shape, at.values.0.dim())),
            self.op.pullback_right(&a, &b, &y, &d).map(|delta| sum_to(delta.0, shape, at.values.1.dim())),
        )
    }

    fn pull_back_now(&self, at: &Now<'_, Self>, sums: &mut Sums<'_>) -> bool {
        let ((a, b), y, d) = (at.values, at.value, at.delta);
        let Some(reading) = Reading::of_small(&[a, b, y, d]) else { return false };
        let terms = [reading.of(a), reading.of(b), reading.of(y), reading.of(d)];
        let (left, right) = Reading::binary(self.op, terms, (sums.wants(0), sums.wants(1)));
        reading.add(0, left, at.delta, sums);
        reading.add(1, right, at.delta, sums);
        true
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        let [a, b, y] = [&along.operands.0, &along.operands.1, along.output].map(|layer| Term(layer.clone()));
        // in the shape of the value, so that its derivative is, too
        let whole = |tangent: &Option<Layer<Nd<A, D>>>, from: &Nd<A, D>| {
            let tangent = tangent.as_ref()?;
            let same = from.shape() == along.value.shape();
            Some(Term(if same { tangent.clone() } else { broadcast_to(tangent, along.value.dim()) }))
        };
        let (left, right) = (whole(&along.tangents.0, along.values.0), whole(&along.tangents.1, along.values.1));
        let left = left.and_then(|d| self.op.pullback_left(&a, &b, &y, &d));
        let right = right.and_then(|d| self.op.pullback_right(&a, &b, &y, &d));
        sum_of([left, right].map(|tangent| tangent.map(|tangent| tangent.0)))
    }

    fn cost(&self, (a, b): (&Nd<A, D>, &Nd<A, D>)) -> f64 {
        cost(common_len(&[a.shape(), b.shape()]), self.op.cost(), &[a, b])
    }
}

/// The tensor of these elements.
pub(crate) fn tensor<A: Element, D: Rank>(shape: D, elements: Vec<A>) -> Nd<A, D> {
    Array::from_shape_vec(shape, elements).expect("one element each").into()
}
