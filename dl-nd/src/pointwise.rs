//! Pointwise operations on tensors: the rules are those of the tables in `dl-core`; here are the loops.

use crate::broadcast::{broadcast_shape, broadcast_to, sum_to};
use crate::element::{Element, Rank};
use crate::nd::Nd;
use crate::sum::sum_of;
use dl_core::{
    Along, At, Binary, BinaryLoop, Differentiable, Layer, Pointwise, Primitive, Result, Term, Unary, UnaryLoop, buffers,
};
use ndarray::{Array, ArrayView, ArrayView1};
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
    ($(#[doc = $doc:literal] $Op:ident $name:ident;)*) => {
        /// The pointwise operations of one operand, for plain tensors and whatever else has a tensor as its data. Layers and weights have them as
        /// methods of their own.
        ///
        /// ```
        /// use dl_core::Differentiable;
        /// use dl_nd::{Nd, PointwiseOps};
        /// assert_eq!(Nd::from([-1.0, 4.0]).relu().sqrt().predict().wait()?, Nd::from([0.0, 2.0]));
        /// # dl_core::Result::Ok(())
        /// ```
        pub trait PointwiseOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
            $(#[doc = $doc] #[track_caller] fn $name(&self) -> Layer<Nd<A, D>> {
                Nd::unary(Unary::$Op, &self.layer())
            })*
        }
    };
}

dl_core::unary_operations!(methods);

impl<X, A: Element, D: Rank> PointwiseOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

/// A rough estimate of the time that an operation on so many elements takes, in nanoseconds.
fn cost(len: usize, each: f64) -> f64 {
    200.0 + len as f64 * each
}

struct UnaryOp<A, D> {
    op: Unary,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for UnaryOp<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        struct Map<'a, A, D>(&'a Nd<A, D>);

        impl<A: Element, D: Rank> UnaryLoop<A> for Map<'_, A, D> {
            type Output = Nd<A, D>;

            fn run(self, value: impl Fn(A) -> A) -> Nd<A, D> {
                map(self.0.view(), value).into()
            }
        }

        Ok(self.op.each(Map(x)))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let [x, y, d] = [&at.operands.0, at.output, at.delta].map(|layer| Term(layer.clone()));
        (self.op.pullback(&x, &y, &d).map(|delta| delta.0),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        self.pullback(&along.at(along.tangents.0.as_ref()?)).0
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        cost(x.len(), self.op.cost())
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

    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let number = A::of(self.number);
        Ok(self.op.each(Map { x: &x.0.view(), number, left: self.left }).into())
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

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        self.pullback(&along.at(along.tangents.0.as_ref()?)).0
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        cost(x.len(), self.op.cost())
    }
}

struct BinaryOp<A, D> {
    op: Binary,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for BinaryOp<A, D> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<A, D>>);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn value(&self, (a, b): (&Nd<A, D>, &Nd<A, D>)) -> Result<Nd<A, D>> {
        if a.shape() == b.shape() {
            return Ok(self.op.each(Zip { a: a.view(), b: b.view() }).into());
        }
        let shape: D = broadcast_shape(a.shape(), b.shape())?;
        let value = match (a.len(), b.len()) {
            (_, 1) if a.shape() == shape.slice() => {
                self.op.each(Map { x: &a.view(), number: *b.0.first().expect("one element"), left: false })
            }
            (1, _) if b.shape() == shape.slice() => {
                self.op.each(Map { x: &b.view(), number: *a.0.first().expect("one element"), left: true })
            }
            _ => self.op.each(Zip {
                a: a.0.broadcast(shape.clone()).expect("the shapes go together"),
                b: b.0.broadcast(shape).expect("the shapes go together"),
            }),
        };
        Ok(value.into())
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
        cost(a.len().max(b.len()), self.op.cost())
    }
}

/// The loop over one tensor, into a buffer that the pass may have at hand.
fn map<A: Element, D: Rank>(x: ArrayView<'_, A, D>, value: impl Fn(A) -> A) -> Array<A, D> {
    let Some(slice) = x.as_slice() else { return x.mapv(value) };
    let mut elements = buffers::take(slice.len());
    elements.extend(slice.iter().map(|&x| value(x)));
    Array::from_shape_vec(x.raw_dim(), elements).expect("one element each")
}

/// The loop over a tensor and a number, which stands on the left when `left`.
struct Map<'a, A, D> {
    x: &'a ArrayView<'a, A, D>,
    number: A,
    left: bool,
}

impl<A: Element, D: Rank> BinaryLoop<A> for Map<'_, A, D> {
    type Output = Array<A, D>;

    fn run(self, value: impl Fn(A, A) -> A) -> Array<A, D> {
        let number = self.number;
        let x = self.x.view();
        if self.left { map(x, |x| value(number, x)) } else { map(x, |x| value(x, number)) }
    }
}

/// The loop over two tensors of the same shape, one or both of which may be repeated along some axes.
struct Zip<'a, A, D> {
    a: ArrayView<'a, A, D>,
    b: ArrayView<'a, A, D>,
}

impl<A: Element, D: Rank> BinaryLoop<A> for Zip<'_, A, D> {
    type Output = Array<A, D>;

    fn run(self, value: impl Fn(A, A) -> A) -> Array<A, D> {
        let Zip { a, b } = self;
        let shape = a.raw_dim();
        if let (Some(a), Some(b)) = (a.as_slice(), b.as_slice()) {
            let mut elements = buffers::take(a.len());
            elements.extend(a.iter().zip(b).map(|(&a, &b)| value(a, b)));
            return Array::from_shape_vec(shape, elements).expect("one element each");
        }
        if a.ndim() == 0 || a.strides() == b.strides() {
            return ndarray::Zip::from(&a).and(&b).map_collect(|&a, &b| value(a, b));
        }
        // row by row; within a row an operand is mostly either contiguous or a single number
        let mut elements = buffers::take(a.len());
        for (a, b) in a.rows().into_iter().zip(b.rows()) {
            match (Row::of(&a), Row::of(&b)) {
                (Row::Slice(a), Row::Slice(b)) => elements.extend(a.iter().zip(b).map(|(&a, &b)| value(a, b))),
                (Row::Slice(a), Row::Number(b)) => elements.extend(a.iter().map(|&a| value(a, b))),
                (Row::Number(a), Row::Slice(b)) => elements.extend(b.iter().map(|&b| value(a, b))),
                _ => elements.extend(a.iter().zip(&b).map(|(&a, &b)| value(a, b))),
            }
        }
        Array::from_shape_vec(shape, elements).expect("one element each")
    }
}

enum Row<'a, A> {
    Slice(&'a [A]),
    Number(A),
    Strided,
}

impl<'a, A: Element> Row<'a, A> {
    fn of(row: &ArrayView1<'a, A>) -> Self {
        match (row.to_slice(), row.strides(), row.first()) {
            (Some(slice), ..) => Row::Slice(slice),
            (None, [0], Some(&number)) => Row::Number(number),
            _ => Row::Strided,
        }
    }
}
