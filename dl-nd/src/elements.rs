//! Where the elements of a tensor are: in an array, or in a formula that is computed when somebody
//! looks.

use crate::element::{Element, Item, Rank};
use crate::formula::Formula;
use crate::lines;
use ndarray::{ArcArray, Array, ArrayView, Dimension};
use std::ops::Deref;
use std::sync::Arc;

/// The elements of a tensor. Whoever looks at them as an array has them computed; whoever drops
/// them leaves their memory to others.
#[derive(Clone)]
pub(crate) struct Elements<A: Item, D: Rank>(Place<A, D>);

#[derive(Clone)]
enum Place<A: Item, D: Rank> {
    Array(ArcArray<A, D>),
    Formula(Arc<Formula<A, D>>),
    /// Nothing is dropped in this place.
    Nowhere,
}

impl<A: Item, D: Rank> Elements<A, D> {
    pub(crate) fn of_formula(formula: Arc<Formula<A, D>>) -> Self {
        Elements(Place::Formula(formula))
    }

    /// The formula, if nobody has computed it yet.
    pub(crate) fn formula(&self) -> Option<&Arc<Formula<A, D>>> {
        match &self.0 {
            Place::Formula(formula) if formula.computed().is_none() => Some(formula),
            _ => None,
        }
    }

    /// The lengths of the axes, for which nothing has to be computed.
    pub(crate) fn shape(&self) -> &[usize] {
        match &self.0 {
            Place::Formula(formula) => formula.shape().slice(),
            _ => (**self).shape(),
        }
    }

    /// The same as a dimension.
    pub(crate) fn dim(&self) -> D {
        match &self.0 {
            Place::Formula(formula) => formula.shape().clone(),
            _ => self.raw_dim(),
        }
    }

    pub(crate) fn into_array(mut self) -> ArcArray<A, D> {
        match std::mem::replace(&mut self.0, Place::Nowhere) {
            Place::Array(array) => array,
            Place::Formula(formula) => {
                formula.compute();
                match Arc::try_unwrap(formula) {
                    Ok(formula) => formula.into_computed().into_array(),
                    Err(shared) => (**shared.compute()).clone(),
                }
            }
            Place::Nowhere => unreachable!("nobody has an empty place"),
        }
    }

    /// The array, if nobody else has its elements.
    pub(crate) fn into_unshared(self) -> Result<Array<A, D>, Self> {
        self.into_array().try_into_owned_nocopy().map_err(Self::from)
    }

    /// The array, for whoever is going to write there: a copy, if others have it, too.
    pub(crate) fn array_mut(&mut self) -> &mut ArcArray<A, D> {
        if let Place::Formula(_) = self.0 {
            let elements = Elements(std::mem::replace(&mut self.0, Place::Nowhere));
            self.0 = Place::Array(elements.into_array());
        }
        match &mut self.0 {
            Place::Array(array) => {
                if !array.is_unique() {
                    *array = copy(array.view()).into_shared();
                }
                array
            }
            _ => unreachable!("a formula was replaced"),
        }
    }
}

impl<A: Element, D: Rank> Elements<A, D> {
    /// Lets them begin where a line of the cache does, if they are many and in row-major order:
    /// somebody is going to read them time and again, as a weight.
    pub(crate) fn line_up(&mut self) {
        self.move_to_a_line(|array| !lines::is_begin(array.as_ptr()));
    }

    /// The same for what is going to be written to, and so must be copied at any rate if somebody
    /// else has it.
    pub(crate) fn line_up_alone(&mut self) {
        self.move_to_a_line(|array| !lines::is_begin(array.as_ptr()) || !array.is_unique());
    }

    fn move_to_a_line(&mut self, is_wanted: impl FnOnce(&mut ArcArray<A, D>) -> bool) {
        if let Place::Array(array) = &mut self.0
            && lines::matter::<A>(array.len())
            && is_wanted(array)
            && let Some(copy) = lines::copy(&array.view())
        {
            *self = copy.into_shared().into();
        }
    }
}

/// The same elements, in memory that is at hand if they lie side by side, by rows or by columns.
pub(crate) fn copy<A: Item, D: Dimension>(x: ArrayView<'_, A, D>) -> Array<A, D> {
    let by_rows = |x: &ArrayView<'_, A, D>| {
        let copy = Array::from_shape_vec(x.raw_dim(), A::copied(x.as_slice()?));
        Some(copy.expect("as many elements"))
    };
    by_rows(&x)
        .or_else(|| by_rows(&x.clone().reversed_axes()).map(Array::reversed_axes))
        .unwrap_or_else(|| x.to_owned())
}

impl<A: Item, D: Rank> From<ArcArray<A, D>> for Elements<A, D> {
    fn from(array: ArcArray<A, D>) -> Self {
        Elements(Place::Array(array))
    }
}

impl<A: Item, D: Rank> Deref for Elements<A, D> {
    type Target = ArcArray<A, D>;

    fn deref(&self) -> &ArcArray<A, D> {
        match &self.0 {
            Place::Array(array) => array,
            Place::Formula(formula) => formula.compute(),
            Place::Nowhere => unreachable!("nobody has an empty place"),
        }
    }
}

impl<A: Item, D: Rank> Drop for Elements<A, D> {
    fn drop(&mut self) {
        let Place::Array(array) = std::mem::replace(&mut self.0, Place::Nowhere) else { return };
        if let Ok(array) = array.try_into_owned_nocopy() {
            A::recycle(array.into_raw_vec_and_offset().0);
        }
    }
}
