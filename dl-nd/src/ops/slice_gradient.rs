//! The delta of a tensor of which parts were selected: the deltas of the parts, added to zeros.
//!
//! A sequence of a thousand rows that is read row by row receives a thousand deltas. They are
//! accumulated in one tensor, instead of adding a thousand tensors that are zero but for one row.

use crate::device::{Device, Program, ScatterOrder, View, common_place};
use crate::fusion::{self, CHUNK_LEN, is_small, should_defer, view_on};
use crate::kernels::zip_in_parts;
use crate::ops::index::{gather, gather_add, take, take_add};
use crate::ops::reshape::as_rank;
use crate::ops::slice::{part_of, part_on_device, slice_elements};
use crate::tensor::{Element, Nd, Rank, Storage, filled_array};
use dl_core::{Along, At, Binary, BlockOp, BuiltIn, CotangentSink, Layer, Part, Primitive, Result};
use ndarray::{ArrayView, ArrayViewD, ArrayViewMut, ArrayViewMutD, IxDyn, SliceInfoElem};
use std::marker::PhantomData;
use std::sync::Arc;

/// The place of a part in a tensor.
#[derive(Clone)]
pub(crate) enum Place {
    Whole,
    Slice(Box<[SliceInfoElem]>),
    /// The slices at these indices of an axis, whose axes replace it. `name` is the operation.
    Rows {
        name: &'static str,
        axis: usize,
        indices: Nd<usize, IxDyn>,
    },
    /// One element along an axis for each index.
    Elements {
        axis: usize,
        indices: Nd<usize, IxDyn>,
    },
}

impl Place {
    /// Adds a part to a tensor, which must be in row-major order unless the place is a slice.
    pub(crate) fn add<A: Element>(&self, mut whole: ArrayViewMutD<'_, A>, part: ArrayViewD<'_, A>) {
        match self {
            Place::Whole => add_elements(whole, part),
            Place::Slice(slice) => add_elements(whole.slice_mut(&slice[..]), part),
            Place::Rows { axis, indices, .. } => take_add(whole, *axis, indices, part),
            Place::Elements { axis, indices } => gather_add(whole, *axis, indices, part),
        }
    }

    /// The part of a tensor at this place, the adjoint of [`add`](Place::add).
    #[track_caller]
    fn of<A: Element, D: Rank>(&self, x: &Layer<Nd<A, D>>) -> Layer<Nd<A, IxDyn>> {
        match self {
            Place::Whole => as_rank(x),
            Place::Slice(slice) => slice_elements(x, slice.clone()),
            Place::Rows { name, axis, indices } => {
                take(name, *axis as isize, x.clone(), Layer::constant(indices.clone()))
            }
            Place::Elements { axis, indices } => gather(*axis as isize, as_rank(x), Layer::constant(indices.clone())),
        }
    }
}

/// A tensor of zeros of this shape, with `part` at its place.
#[track_caller]
pub(crate) fn slice_gradient<A: Element, D: Rank>(
    shape: D,
    place: Place,
    part: Layer<Nd<A, IxDyn>>,
) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(SliceGradient { shape, places: vec![place], element: PhantomData }, vec![part])
}

/// Adds the delta of a part to the delta of the operand that it was selected from, without layers.
/// Returns whether it did so: not if the operand is large.
pub(crate) fn add_part_now<A: Element, D: Rank, E: Rank>(
    whole: &Nd<A, D>,
    delta: &Nd<A, E>,
    sink: &mut CotangentSink<'_>,
    add: impl Fn(ArrayViewMut<'_, A, D>, ArrayView<'_, A, E>),
) -> bool {
    if should_defer(whole.len()) || whole.0.device().is_some() || !sink.wants(0) {
        return false;
    }
    // the graph form of the rule converts the delta to dynamic rank, which counts as an operation
    sink.count(usize::from(E::NDIM.is_some()));
    let add_whole = |sum: &mut Nd<A, D>, whole: &Nd<A, D>| add_elements(sum.0.array_mut().view_mut(), whole.view());
    let zeros = || filled_array(whole.dim(), A::zero()).into();
    sink.add_part(0, zeros, add_whole, |sum: &mut Nd<A, D>| add(sum.0.array_mut().view_mut(), delta.view()));
    true
}

/// The sum of `terms` as one operation, if at least one of them is a slice gradient.
#[track_caller]
pub(crate) fn sum_slice_gradients<A: Element, D: Rank>(terms: &[Layer<Nd<A, D>>]) -> Option<Layer<Nd<A, D>>> {
    let shape = terms.iter().find_map(|term| Some(term.applied::<SliceGradient<A, D>>()?.0.shape.clone()))?;
    let (mut places, mut parts) = (Vec::with_capacity(terms.len()), Vec::with_capacity(terms.len()));
    for term in terms {
        match term.applied::<SliceGradient<A, D>>().filter(|(op, _)| op.places.len() == 1) {
            // only single parts are merged, sums are kept as terms: the order of additions must
            // not depend on which terms are computed already
            Some((op, theirs)) => {
                places.extend(op.places.iter().cloned());
                parts.extend(theirs);
            }
            None => {
                places.push(Place::Whole);
                parts.push(as_rank(term));
            }
        }
    }
    Some(Layer::apply_built_in(SliceGradient { shape, places, element: PhantomData }, parts))
}

/// Adds the elements of an array of the same shape, which may have another rank type.
pub(crate) fn add_elements<A: Element, D: Rank, E: Rank>(mut to: ArrayViewMut<'_, A, D>, part: ArrayView<'_, A, E>) {
    match (to.as_slice_mut(), part.as_slice()) {
        (Some(to), Some(part)) if to.len() < CHUNK_LEN => fusion::add_assign(to, part),
        _ => zip_in_parts(to.into_dyn(), part.into_dyn(), |sum, &part| *sum = *sum + part),
    }
}

/// Adds parts to a tensor of zeros, in order.
#[derive(Clone)]
struct SliceGradient<A, D> {
    shape: D,
    /// The place of each part.
    places: Vec<Place>,
    element: PhantomData<A>,
}

impl<A: Element, D: Rank> Primitive for SliceGradient<A, D> {
    type Operands = Vec<Layer<Nd<A, IxDyn>>>;
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "put_back"
    }

    fn value(&self, parts: Vec<&Nd<A, IxDyn>>) -> Result<Nd<A, D>> {
        if let Some(device) = common_place(parts.iter().map(|part| (part.0.device(), usize::MAX)))?.cloned() {
            return self.on_device(&device, &parts);
        }
        let mut whole = filled_array(self.shape.clone(), A::zero());
        for (part, place) in parts.into_iter().zip(&self.places) {
            place.add(whole.view_mut().into_dyn(), part.view());
        }
        Ok(whole.into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Vec<Option<Layer<Nd<A, IxDyn>>>> {
        self.places.iter().map(|place| Some(place.of(at.delta))).collect()
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        let moving =
            self.places.iter().zip(along.tangents).filter_map(|(place, part)| Some((place.clone(), part.clone()?)));
        let (places, parts) = moving.unzip();
        Some(Layer::apply_built_in(SliceGradient { shape: self.shape.clone(), places, element: PhantomData }, parts))
    }

    fn cost(&self, parts: Vec<&Nd<A, IxDyn>>) -> f64 {
        200.0 + 0.5 * self.shape.size() as f64 + parts.iter().map(|part| 50.0 + part.len() as f64).sum::<f64>()
    }
}

impl<A: Element, D: Rank> SliceGradient<A, D> {
    fn on_device(&self, device: &Arc<dyn Device>, parts: &[&Nd<A, IxDyn>]) -> Result<Nd<A, D>> {
        let whole = View::new(device, A::ELEMENT, self.shape.slice())?;
        whole.fill(0.0)?;
        for (part, place) in parts.iter().zip(&self.places) {
            let part = part.0.on_device()?.expect("it lies on the device");
            let to = match place {
                Place::Whole => whole.clone(),
                Place::Slice(elements) => part_on_device(whole.clone(), elements),
                Place::Rows { axis, indices, .. } => {
                    whole.add_taken(*axis, view_on(device, indices)?, part)?;
                    continue;
                }
                Place::Elements { axis, indices } => {
                    whole.add_gathered(*axis, &view_on(device, indices)?, part, ScatterOrder::InRuns)?;
                    continue;
                }
            };
            let mut sum = Program::new(A::ELEMENT);
            let (a, b) = (sum.load(to.clone()), sum.load(part.reshaped(&to.shape)?));
            sum.binary(Binary::Add, a, b);
            sum.write(&to)?;
        }
        Ok(Nd(Storage::from_view(whole)))
    }
}

impl<A: Element, D: Rank> BuiltIn for SliceGradient<A, D> {
    const IS_PURE: bool = true;

    fn block_op(&self, parts: Vec<&Nd<A, IxDyn>>, value: &Nd<A, D>) -> Option<BlockOp> {
        if !is_small(value) || parts.iter().any(|part| part.is_empty()) {
            return None;
        }
        let place = |place: &Place| match place {
            Place::Whole => Some(Part::whole(value.len())),
            Place::Slice(elements) => part_of(elements, value.shape()),
            Place::Rows { .. } | Place::Elements { .. } => None,
        };
        self.places.iter().map(place).collect::<Option<_>>().map(BlockOp::AddParts)
    }
}
