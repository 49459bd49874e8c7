//! Pointwise operations on tensors. Functions and derivatives come from the operation tables of
//! `dl-core`; small tensors are computed at once, large ones become lazy expressions.

use crate::device::common_place;
use crate::fusion::{self, is_small, should_defer};
use crate::ops::add_n::sum_present;
use crate::ops::broadcast::{broadcast_to, repeats_rows, sum_to};
use crate::ops::immediate_rule::ImmediateRule;
use crate::tensor::{Element, Expr, Nd, Rank, broadcast_shape, check_size, common_len};
use dl_core::{
    Along, At, Binary, BlockOp, BuiltIn, CotangentSink, Differentiable, Immediate, Layer, Pointwise, PointwiseOp,
    Primitive, Result, Term, Unary,
};
use std::marker::PhantomData;

impl<A: Element, D: Rank> Pointwise for Nd<A, D> {
    #[track_caller]
    fn unary(op: Unary, x: &Layer<Self>) -> Layer<Self> {
        map(MapKind::Unary(op), x)
    }

    #[track_caller]
    fn binary(op: Binary, a: &Layer<Self>, b: &Layer<Self>) -> Layer<Self> {
        Layer::apply_built_in(BinaryOp { op, types: PhantomData }, (a.clone(), b.clone()))
    }

    #[track_caller]
    fn with_number(op: Binary, x: &Layer<Self>, number: f64, left: bool) -> Layer<Self> {
        map(MapKind::WithNumber { op, number, left }, x)
    }
}

macro_rules! methods {
    (@example $Op:ident $name:ident) => {
        concat!(
            "\n```\nuse dl_core::{Differentiable, Unary};\nuse dl_nd::{Nd, PointwiseOps};\nlet y = Nd::from([1.0_f64]).",
            stringify!($name),
            "().predict().wait()?;\nassert_eq!(y[0], Unary::",
            stringify!($Op),
            ".value(1.0));\n# dl_core::Result::Ok(())\n```"
        )
    };
    ($($(#[doc = $doc:literal])+ $Op:ident $name:ident;)*) => {
        /// The pointwise operations of one operand, for plain tensors and every other
        /// [`Differentiable`] with a tensor value. Layers and weights have inherent methods of the
        /// same names.
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

/// A rough estimate, in nanoseconds, of an operation with `len` output elements. The cost of a
/// deferred operation is counted by the kernel that computes it later.
fn cost<A: Element, D: Rank>(len: f64, each: f64, operands: &[&Nd<A, D>]) -> f64 {
    200.0
        + match should_defer(len as usize) {
            true => fusion::nanoseconds_until_deferred(len as usize, operands),
            false => len * fusion::vector_nanoseconds(each),
        }
}

/// A pointwise operation on one tensor.
#[derive(Clone, Copy)]
enum MapKind {
    Unary(Unary),
    WithNumber { op: Binary, number: f64, left: bool },
}

#[derive(Clone)]
struct MapOp<A, D> {
    kind: MapKind,
    types: PhantomData<(A, D)>,
}

#[track_caller]
fn map<A: Element, D: Rank>(kind: MapKind, x: &Layer<Nd<A, D>>) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(MapOp { kind, types: PhantomData }, (x.clone(),))
}

impl<A: Element, D: Rank> Primitive for MapOp<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        match self.kind {
            MapKind::Unary(op) => op.name(),
            MapKind::WithNumber { op, .. } => op.name(),
        }
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let small = if should_defer(x.len()) { None } else { x.0.as_slice() };
        Ok(match (self.kind, small) {
            (MapKind::Unary(op), Some(elements)) => Nd::from_elements(x.dim(), fusion::unary(op, elements)),
            (MapKind::Unary(op), None) => Expr::Unary(op, x.clone()).of_shape(x.dim()),
            (MapKind::WithNumber { op, number, left }, Some(elements)) => {
                Nd::from_elements(x.dim(), fusion::with_number(op, elements, A::of(number), left))
            }
            (MapKind::WithNumber { op, number, left }, None) => {
                Expr::WithNumber { op, number: A::of(number), left, x: x.clone() }.of_shape(x.dim())
            }
        })
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let [x, y, d] = [&at.operands.0, at.output, at.delta].map(|layer| Term(layer.clone()));
        let number = |number| Term(Layer::constant(Nd::single(A::of(number))));
        let delta = match self.kind {
            MapKind::Unary(op) => op.pullback(&x, &y, &d),
            MapKind::WithNumber { op, number: n, left: true } => op.pullback_right(&number(n), &x, &y, &d),
            MapKind::WithNumber { op, number: n, left: false } => op.pullback_left(&x, &number(n), &y, &d),
        };
        (delta.map(|delta| delta.0),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        self.pullback(&along.at(along.tangents.0.as_ref()?)).0
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        let each = match self.kind {
            MapKind::Unary(op) => op.cost(),
            MapKind::WithNumber { op, .. } => op.cost(),
        };
        cost(x.len() as f64, each, &[x])
    }
}

impl<A: Element, D: Rank> BuiltIn for MapOp<A, D> {
    const IS_PURE: bool = true;

    fn is_by_rows(&self, _: &[bool], _: (&Nd<A, D>,), _: &Nd<A, D>) -> bool {
        true
    }

    fn block_op(&self, _: (&Nd<A, D>,), value: &Nd<A, D>) -> Option<BlockOp> {
        let op = match self.kind {
            MapKind::Unary(op) => PointwiseOp::Unary(op),
            MapKind::WithNumber { op, number, left } => PointwiseOp::WithNumber { op, number, left },
        };
        (is_small(value)).then_some(BlockOp::Pointwise(op))
    }

    fn immediate_pullback(&self, at: &Immediate<'_, Self>, sink: &mut CotangentSink<'_>) -> bool {
        let (x, y, d) = (at.values.0, at.value, at.delta);
        let Some(rule) = ImmediateRule::of_small(&[x, y, d]) else { return false };
        let (x, y, d) = (rule.of(x), rule.of(y), rule.of(d));
        let delta = match self.kind {
            MapKind::Unary(op) => ImmediateRule::unary(op, [x, y, d]),
            MapKind::WithNumber { op, number, left: true } => {
                ImmediateRule::binary(op, [rule.of_number(A::of(number)), x, y, d], (false, true)).1
            }
            MapKind::WithNumber { op, number, left: false } => {
                ImmediateRule::binary(op, [x, rule.of_number(A::of(number)), y, d], (true, false)).0
            }
        };
        rule.add(0, delta, at.delta, sink);
        true
    }
}

#[derive(Clone)]
struct BinaryOp<A, D> {
    op: Binary,
    types: PhantomData<(A, D)>,
}

/// The value of a pointwise operation on two tensors, which broadcast.
pub(crate) fn binary<A: Element, D: Rank>(op: Binary, a: &Nd<A, D>, b: &Nd<A, D>) -> Result<Nd<A, D>> {
    if a.shape() == b.shape()
        && !should_defer(a.len())
        && let (Some(left), Some(right)) = (a.0.as_slice(), b.0.as_slice())
    {
        return Ok(Nd::from_elements(a.dim(), fusion::binary(op, left, right)));
    }
    common_place([(a.0.device(), a.len()), (b.0.device(), b.len())])?;
    let shape: D = broadcast_shape(a.shape(), b.shape())?;
    check_size::<A>(shape.slice())?;
    if !should_defer(shape.size())
        && let (Some(left), Some(right)) = (a.0.as_slice(), b.0.as_slice())
    {
        let elements = fusion::broadcast(op, (left, a.shape()), (right, b.shape()), shape.slice());
        return Ok(Nd::from_elements(shape, elements));
    }
    Ok(Expr::Binary(op, a.clone(), b.clone()).of_shape(shape))
}

impl<A: Element, D: Rank> Primitive for BinaryOp<A, D> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<A, D>>);
    type Output = Nd<A, D>;

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

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        let [a, b, y] = [&along.operands.0, &along.operands.1, along.output].map(|layer| Term(layer.clone()));
        // broadcast to the shape of the value, so that the tangent has this shape as well
        let whole = |tangent: &Option<Layer<Nd<A, D>>>, from: &Nd<A, D>| {
            let tangent = tangent.as_ref()?;
            let same = from.shape() == along.value.shape();
            Some(Term(if same { tangent.clone() } else { broadcast_to(tangent, along.value.dim()) }))
        };
        let (left, right) = (whole(&along.tangents.0, along.values.0), whole(&along.tangents.1, along.values.1));
        let left = left.and_then(|d| self.op.pullback_left(&a, &b, &y, &d));
        let right = right.and_then(|d| self.op.pullback_right(&a, &b, &y, &d));
        sum_present([left, right].map(|tangent| tangent.map(|tangent| tangent.0)))
    }

    fn cost(&self, (a, b): (&Nd<A, D>, &Nd<A, D>)) -> f64 {
        cost(common_len(&[a.shape(), b.shape()]), self.op.cost(), &[a, b])
    }
}

impl<A: Element, D: Rank> BuiltIn for BinaryOp<A, D> {
    const IS_PURE: bool = true;

    /// An operand without rows is repeated for each.
    fn is_by_rows(&self, has_rows: &[bool], (a, b): (&Nd<A, D>, &Nd<A, D>), value: &Nd<A, D>) -> bool {
        let rows = |has_rows: bool| if has_rows { value.shape()[0] } else { 1 };
        let fits = |(x, &has_rows): (&&Nd<A, D>, &bool)| {
            x.shape().len() == value.shape().len() && x.shape()[0] == rows(has_rows)
        };
        [a, b].iter().zip(has_rows).all(fits)
    }

    fn block_op(&self, (a, b): (&Nd<A, D>, &Nd<A, D>), value: &Nd<A, D>) -> Option<BlockOp> {
        let fits = |x: &Nd<A, D>| x.len() == value.len() || x.len() > 1 && repeats_rows(x.shape(), value.shape());
        let one_is_whole = a.len() == value.len() || b.len() == value.len();
        (fits(a) && fits(b) && one_is_whole && is_small(value))
            .then_some(BlockOp::Pointwise(PointwiseOp::Binary(self.op)))
    }

    fn immediate_pullback(&self, at: &Immediate<'_, Self>, sink: &mut CotangentSink<'_>) -> bool {
        let ((a, b), y, d) = (at.values, at.value, at.delta);
        let Some(rule) = ImmediateRule::of_small(&[a, b, y, d]) else { return false };
        let terms = [rule.of(a), rule.of(b), rule.of(y), rule.of(d)];
        let (left, right) = ImmediateRule::binary(self.op, terms, (sink.wants(0), sink.wants(1)));
        rule.add(0, left, at.delta, sink);
        rule.add(1, right, at.delta, sink);
        true
    }
}
