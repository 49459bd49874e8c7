//! The axes of attention heads: split off the last axis, and joined to it again.

use dl_core::{Along, At, BuiltIn, Deltas, Error, Layer, Primitive, Result};
use dl_nd::ndarray::{Ix3, Ix5};
use dl_nd::{Element, Nd, NdLayer, row_major_copy};
use std::marker::PhantomData;

/// `[batch, length, groups · each · depth] → [batch, groups, each, length, depth]`, without a copy.
#[track_caller]
pub(crate) fn split_heads<A: Element>(x: NdLayer<Ix3, A>, heads: [usize; 2]) -> NdLayer<Ix5, A> {
    Layer::apply_built_in(SplitHeads { heads, stacked: 1, element: PhantomData }, (x,))
}

/// The same for projections that are stacked along the last axis, each of so many heads:
/// `[batch, length, stacked · heads · depth] → [batch, stacked, heads, length, depth]`.
#[track_caller]
pub(crate) fn split_stacked<A: Element>(x: NdLayer<Ix3, A>, stacked: usize, heads: usize) -> NdLayer<Ix5, A> {
    Layer::apply_built_in(SplitHeads { heads: [stacked, heads], stacked, element: PhantomData }, (x,))
}

/// `[batch, groups, each, length, depth] → [batch, length, groups · each · depth]`.
#[track_caller]
pub(crate) fn join_heads<A: Element>(x: NdLayer<Ix5, A>) -> NdLayer<Ix3, A> {
    Layer::apply_built_in(JoinHeads(PhantomData), (x,))
}

#[derive(Clone)]
struct SplitHeads<A> {
    heads: [usize; 2],
    /// The number of projections in the last axis. Errors speak of one of them.
    stacked: usize,
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
            let text = match self.stacked {
                stacked if !width.is_multiple_of(stacked) => {
                    format!("a width of {width} is not that of {stacked} projections")
                }
                stacked => format!("{} heads do not divide a width of {}", heads / stacked, width / stacked),
            };
            return Err(Error::shape(text));
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
        let array = if array.is_standard_layout() { array } else { row_major_copy(array.view()).into_shared() };
        Ok(array.into_shape_with_order([batch, length, groups * each * depth]).expect("as many elements").into())
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
