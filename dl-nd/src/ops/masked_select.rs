//! Selection by a mask.

use crate::device::common_place;
use crate::fusion::CHUNK_LEN;
use crate::ops::index::take;
use crate::ops::reshape::MovementOps;
use crate::tensor::{Element, Nd, Rank};
use dl_core::{At, BuiltIn, Deltas, Error, Layer, Primitive, Result, parallel};
use ndarray::Ix1;
use std::marker::PhantomData;

/// The elements at which the mask is true, in row-major order.
#[track_caller]
pub(crate) fn masked_select<A: Element, D: Rank, E: Rank>(
    x: Layer<Nd<A, D>>,
    mask: Layer<Nd<bool, E>>,
) -> Layer<Nd<A, Ix1>> {
    let selected = Layer::apply_built_in(Selected(PhantomData), (x.clone(), mask));
    take("masked_select", 0, x.flatten(), selected)
}

/// (x, mask) ↦ the row-major indices in `x` at which the mask is true.
#[derive(Clone)]
struct Selected<A, D, E>(PhantomData<(A, D, E)>);

impl<A: Element, D: Rank, E: Rank> Primitive for Selected<A, D, E> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<bool, E>>);
    type Output = Nd<usize, Ix1>;

    fn name(&self) -> &'static str {
        "masked_select"
    }

    fn value(&self, (x, mask): (&Nd<A, D>, &Nd<bool, E>)) -> Result<Nd<usize, Ix1>> {
        if let Some(device) = common_place([(x.0.device(), x.len()), (mask.0.device(), mask.len())])? {
            // the shape of the result depends on the mask: the pass waits for it
            let selected = self.value((&Nd::full(x.dim(), A::zero()), &mask.to_host()?))?;
            return selected.to(device);
        }
        let Some(whole) = mask.0.broadcast(x.dim()) else {
            let (mask, x) = (mask.shape(), x.shape());
            return Err(Error::shape(format!("a mask of shape {mask:?} does not broadcast to {x:?}")));
        };
        let whole = whole.as_standard_layout();
        Ok(positions_of(whole.as_slice().expect("in row-major order")).into())
    }

    fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
        (None, None)
    }

    fn cost(&self, (x, _): (&Nd<A, D>, &Nd<bool, E>)) -> f64 {
        200.0 + x.nanoseconds_to_read() + x.len() as f64
    }
}

impl<A: Element, D: Rank, E: Rank> BuiltIn for Selected<A, D, E> {
    const IS_PURE: bool = true;
    const HAS_SHAPE_BY_VALUE: bool = true;
}

/// The positions that are true, in order.
fn positions_of(mask: &[bool]) -> Vec<usize> {
    let count = |part: &[bool]| part.iter().map(|&selected| usize::from(selected)).sum();
    let mut positions = vec![0; count(mask)];
    let mut rest = &mut positions[..];
    let mut parts = Vec::new();
    for (number, part) in mask.chunks(CHUNK_LEN).enumerate() {
        let to;
        (to, rest) = rest.split_at_mut(count(part));
        parts.push((number * CHUNK_LEN, part, to));
    }
    parallel::for_each_mut(&mut parts, CHUNK_LEN as f64, |_, (first, part, to)| {
        // without a branch for each element
        let (mut at, mut found) = (0, 0);
        while found < to.len() {
            to[found] = *first + at;
            found += usize::from(part[at]);
            at += 1;
        }
    });
    positions
}
