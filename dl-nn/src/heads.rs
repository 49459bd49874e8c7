//! The axes of attention heads: split off the last axis, and joined to it again.

use dl_core::{Along, At, BuiltIn, Deltas, Error, Layer, Primitive, Result};
use dl_nd::ndarray::{Ix2, Ix3, Ix5};
use dl_nd::{Element, Nd, NdLayer, ops::*};
use std::marker::PhantomData;

/// `[batch, length, groups · each · depth] → [batch, groups, each, length, depth]`, without a copy.
#[track_caller]
pub(crate) fn split_heads<A: Element>(x: NdLayer<Ix3, A>, heads: [usize; 2]) -> NdLayer<Ix5, A> {
    Layer::apply_built_in(SplitHeads { heads, element: PhantomData }, (x,))
}

/// `[batch, groups, each, length, depth] → [batch, length, groups · each · depth]`.
#[track_caller]
pub(crate) fn join_heads<A: Element>(x: NdLayer<Ix5, A>) -> NdLayer<Ix3, A> {
    Layer::apply_built_in(JoinHeads(PhantomData), (x,))
}

/// `[heads · depth, width] → [heads, depth, width]`, without a copy. The shape of a weight is read when
/// the operation runs, so that a compiled function has one plan for all widths.
#[track_caller]
pub(crate) fn split_rows<A: Element>(weight: NdLayer<Ix2, A>, heads: usize) -> NdLayer<Ix3, A> {
    Layer::apply_built_in(SplitRows { heads, element: PhantomData }, (weight,))
}

#[derive(Clone)]
struct SplitRows<A> {
    heads: usize,
    element: PhantomData<A>,
}

impl<A: Element> Primitive for SplitRows<A> {
    type Operands = (NdLayer<Ix2, A>,);
    type Output = Nd<A, Ix3>;

    fn name(&self) -> &'static str {
        "split_heads"
    }

    fn value(&self, (x,): (&Nd<A, Ix2>,)) -> Result<Nd<A, Ix3>> {
        let (heads, &[rows, width]) = (self.heads, x.shape()) else { unreachable!("two axes") };
        if heads == 0 || !rows.is_multiple_of(heads) {
            return Err(not_divisible(heads, rows));
        }
        let array = x.clone().into_shared().into_shape_clone([heads, rows / heads, width]);
        Ok(array.expect("as many elements").into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let &[rows, width] = at.values.0.shape() else { unreachable!("two axes") };
        (Some(at.delta.reshape([rows, width])),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<NdLayer<Ix3, A>> {
        Some(split_rows(along.tangents.0.clone()?, self.heads))
    }

    fn cost(&self, _: (&Nd<A, Ix2>,)) -> f64 {
        200.0
    }
}

impl<A: Element> BuiltIn for SplitRows<A> {
    const IS_PURE: bool = true;
}

fn not_divisible(heads: usize, width: usize) -> Error {
    Error::shape(format!("{heads} heads do not divide a width of {width}"))
}

#[derive(Clone)]
struct SplitHeads<A> {
    heads: [usize; 2],
    element: PhantomData<A>,
}

impl<A: Element> Primitive for SplitHeads<A> {
    type Operands = (NdLayer<Ix3, A>,);
    type Output = Nd<A, Ix5>;

    fn name(&self) -> &'static str {
        "split_heads"
    }

    fn value(&self, (x,): (&Nd<A, Ix3>,)) -> Result<Nd<A, Ix5>> {
        let ([groups, each], &[batch, length, width]) = (self.heads, x.shape()) else { unreachable!("three axes") };
        let heads = groups.saturating_mul(each);
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(not_divisible(heads, width));
        }
        let array = x.clone().into_shared().into_shape_clone([batch, length, groups, each, width / heads]);
        Ok(array.expect("as many elements").permuted_axes([0, 2, 3, 1, 4]).into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(join_heads(at.delta.clone())),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<NdLayer<Ix5, A>> {
        Some(split_heads(along.tangents.0.clone()?, self.heads))
    }

    fn cost(&self, _: (&Nd<A, Ix3>,)) -> f64 {
        200.0
    }
}

impl<A: Element> BuiltIn for SplitHeads<A> {
    const IS_PURE: bool = true;
}

#[derive(Clone)]
struct JoinHeads<A>(PhantomData<A>);

impl<A: Element> Primitive for JoinHeads<A> {
    type Operands = (NdLayer<Ix5, A>,);
    type Output = Nd<A, Ix3>;

    fn name(&self) -> &'static str {
        "join_heads"
    }

    fn value(&self, (x,): (&Nd<A, Ix5>,)) -> Result<Nd<A, Ix3>> {
        let &[batch, groups, each, length, depth] = x.shape() else { unreachable!("five axes") };
        let array = x.clone().into_shared().permuted_axes([0, 3, 1, 2, 4]);
        Ok(array.into_shape_clone([batch, length, groups * each * depth]).expect("as many elements").into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let &[_, groups, each, ..] = at.values.0.shape() else { unreachable!("five axes") };
        (Some(split_heads(at.delta.clone(), [groups, each])),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<NdLayer<Ix3, A>> {
        Some(join_heads(along.tangents.0.clone()?))
    }

    fn cost(&self, (x,): (&Nd<A, Ix5>,)) -> f64 {
        200.0 + x.len() as f64
    }
}

impl<A: Element> BuiltIn for JoinHeads<A> {
    const IS_PURE: bool = true;
}
