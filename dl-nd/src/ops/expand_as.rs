//! Reshapes and broadcasts to the shape of another tensor, which is known at evaluation only.

use crate::ops::reshape::{ReshapeTarget, reshape, reshape_to, view_op};
use crate::tensor::{Element, Item, Nd, Rank};
use dl_core::{Along, At, BlockOp, BuiltIn, Deltas, Error, Layer, Primitive, Result};
use ndarray::{Ix1, IxDyn};
use std::marker::PhantomData;

/// `x` itself, checked to have the shape of `model`.
///
/// # Errors
/// A shape error when the shapes differ.
#[track_caller]
pub fn same_shape<A: Element, D: Rank>(
    name: &'static str,
    x: &Layer<Nd<A, D>>,
    model: &Layer<Nd<A, D>>,
) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(ExpandAs { name, rule: ExpandRule::Same, types: PhantomData }, (x.clone(), model.clone()))
}

/// `x` in the shape of `model`, which must have the same number of elements.
#[track_caller]
pub(crate) fn reshape_like<A: Element, D: Rank, E: Rank>(
    name: &'static str,
    x: &Layer<Nd<A, E>>,
    model: &Layer<Nd<A, D>>,
) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(ExpandAs { name, rule: ExpandRule::Reshaped, types: PhantomData }, (x.clone(), model.clone()))
}

/// A vector with one element per channel (axis 1) of `model`, in the shape `[1, channels, 1, …]`,
/// which broadcasts to the shape of `model`.
#[track_caller]
pub(crate) fn per_channel<A: Element, D: Rank>(
    name: &'static str,
    x: &Layer<Nd<A, Ix1>>,
    model: &Layer<Nd<A, D>>,
) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(ExpandAs { name, rule: ExpandRule::Channels, types: PhantomData }, (x.clone(), model.clone()))
}

/// `x` in the rank of `model`, with missing axes added in front. The last axes must have equal
/// lengths: a bias or scale along the last axis must not be broadcast along it.
///
/// # Errors
/// A shape error when the last axes differ in length.
#[track_caller]
pub fn along_last<A: Element, D: Rank, E: Rank>(
    name: &'static str,
    x: &Layer<Nd<A, E>>,
    model: &Layer<Nd<A, D>>,
) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(ExpandAs { name, rule: ExpandRule::Last, types: PhantomData }, (x.clone(), model.clone()))
}

/// `x` in the rank of `model`. It must broadcast to the shape of `model`.
#[track_caller]
pub(crate) fn expand_like<A: Item, B: Element, D: Rank, E: Rank>(
    name: &'static str,
    x: &Layer<Nd<A, E>>,
    model: &Layer<Nd<B, D>>,
) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(
        ExpandAs { name, rule: ExpandRule::Broadcasting, types: PhantomData },
        (x.clone(), model.clone()),
    )
}

#[derive(Clone, Copy)]
enum ExpandRule {
    Same,
    Reshaped,
    Channels,
    Last,
    Broadcasting,
}

/// (x, model) ↦ x in a shape that depends on the shape of `model`, not on its elements.
#[derive(Clone)]
struct ExpandAs<A, B, D, E> {
    name: &'static str,
    rule: ExpandRule,
    types: PhantomData<(A, B, D, E)>,
}

impl<A: Item, B: Element, D: Rank, E: Rank> Primitive for ExpandAs<A, B, D, E> {
    type Operands = (Layer<Nd<A, E>>, Layer<Nd<B, D>>);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, (x, model): (&Nd<A, E>, &Nd<B, D>)) -> Result<Nd<A, D>> {
        let (found, shape) = (x.shape(), model.shape());
        let shape = match self.rule {
            ExpandRule::Same if found != shape => {
                return Err(Error::shape(format!(
                    "shapes {shape:?} and {found:?} differ: they must be equal, without broadcasting"
                )));
            }
            ExpandRule::Same | ExpandRule::Reshaped => shape.to_vec(),
            ExpandRule::Broadcasting => {
                let missing = shape.len().checked_sub(found.len());
                let fits =
                    |missing: usize| found.iter().zip(&shape[missing..]).all(|(&x, &length)| x == 1 || x == length);
                match missing {
                    Some(missing) if fits(missing) => [&vec![1; missing], found].concat(),
                    _ => return Err(Error::shape(format!("shape {found:?} does not broadcast to {shape:?}"))),
                }
            }
            ExpandRule::Last => match shape.len().checked_sub(found.len()) {
                Some(missing) if found.last() == shape.last() => [&vec![1; missing], found].concat(),
                _ => {
                    return Err(Error::shape(format!(
                        "{found:?} and {shape:?} do not fit: the last axes must have the same length"
                    )));
                }
            },
            ExpandRule::Channels => match shape.get(1) {
                Some(&channels) if found == [channels] => {
                    (0..shape.len()).map(|axis| if axis == 1 { channels } else { 1 }).collect()
                }
                Some(length) => {
                    return Err(Error::shape(format!(
                        "a vector of shape {found:?} for the {length} channels or classes (axis 1) of a tensor of shape {shape:?}"
                    )));
                }
                None => return Err(missing_channels(shape)),
            },
        };
        if let Some(view) = x.0.on_device()? {
            return match self.rule {
                ExpandRule::Reshaped => view.reshaped(&shape).map(Nd::from_view),
                _ => Ok(Nd::from_view(view.with_unit_axes(&shape))),
            };
        }
        let x = x.array().into_dyn().into_shape_clone(IxDyn(&shape)).expect("as many elements");
        Ok(Nd::from(x.into_dimensionality().expect("the rank of the model").into_shared()))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let shape = at.values.0.dim();
        let delta = match self.rule {
            ExpandRule::Same => reshape_to(at.delta, shape),
            _ => reshape(at.delta, ReshapeTarget::Shape(shape)),
        };
        (Some(delta), None)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A::Derivative, D>>> {
        let like = ExpandAs { name: self.name, rule: self.rule, types: PhantomData };
        Some(Layer::apply_built_in(like, (along.tangents.0.clone()?, along.operands.1.clone())))
    }

    fn cost(&self, (x, _): (&Nd<A, E>, &Nd<B, D>)) -> f64 {
        200.0 + x.nanoseconds_to_arrange()
    }
}

impl<A: Item, B: Element, D: Rank, E: Rank> BuiltIn for ExpandAs<A, B, D, E> {
    const IS_PURE: bool = true;

    fn block_op(&self, (x, _): (&Nd<A, E>, &Nd<B, D>), value: &Nd<A, D>) -> Option<BlockOp> {
        view_op(x, value)
    }
}

/// The error for a tensor without axis 1.
pub(crate) fn missing_channels(shape: &[usize]) -> Error {
    Error::shape(format!("a tensor of shape {shape:?} has no channel axis (axis 1)"))
}
