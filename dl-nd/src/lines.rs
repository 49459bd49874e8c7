//! Memory that begins where a line of the cache does. What begins elsewhere, as memory of an allocator that promises 16 bytes mostly does, makes every load and store of a widest register touch two lines.

use dl_core::{Number, buffers};
use ndarray::{Array, ArrayView, Axis, Dimension, Slice};

/// A line of the cache.
pub(crate) const LINE_BYTES: usize = 64;

/// What is not larger comes from buffers that a thread keeps for itself, which have no room for a line more, and fits into the nearest cache: there it matters less.
const SMALL_BYTES: usize = 1 << 14;

/// Room for so many elements [from where](begin) a line begins. What is in it may be anything.
pub(crate) fn room<A: Number>(len: usize) -> Vec<A> {
    buffers::take_filled(room_len::<A>(len))
}

fn room_len<A>(len: usize) -> usize {
    len + LINE_BYTES / size_of::<A>()
}

/// Where in such room the first line begins: as long as it does not grow, and so stays where it is.
pub(crate) fn begin<A>(room: &[A]) -> usize {
    // only a machine that has no addresses, as that of miri, says that there is no such place
    room.as_ptr().align_offset(LINE_BYTES).min(LINE_BYTES / size_of::<A>())
}

/// What is in such room, as an array of this shape in row-major order.
pub(crate) fn array<A, D: Dimension>(room: Vec<A>, shape: D) -> Array<A, D> {
    let begin = begin(&room);
    let mut array = Array::from_vec(room);
    array.slice_axis_inplace(Axis(0), Slice::from(begin..begin + shape.size()));
    array.into_shape_with_order(shape).expect("one element each")
}

/// A copy of what lies in row-major order, where a line begins, if there is memory for it.
pub(crate) fn copy<A: Number, D: Dimension>(x: &ArrayView<'_, A, D>) -> Option<Array<A, D>> {
    let elements = x.as_slice()?;
    let mut room: Vec<A> = buffers::try_take_filled(room_len::<A>(elements.len()))?;
    let begin = begin(&room);
    room[begin..begin + elements.len()].copy_from_slice(elements);
    Some(array(room, x.raw_dim()))
}

/// Whether a line begins here.
pub(crate) fn is_begin<A>(place: *const A) -> bool {
    place.align_offset(LINE_BYTES) == 0
}

/// Whether so many elements are worth the search for a line.
pub(crate) fn matter<A>(len: usize) -> bool {
    len > SMALL_BYTES / size_of::<A>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elements::Elements;
    use dl_core::{Differentiable, Sgd, Weight};
    use ndarray::{Ix2, s};

    const SHAPE: [usize; 2] = [100, 70];

    /// Where no line begins.
    fn elsewhere() -> Array<f32, Ix2> {
        let room = vec![0.0; SHAPE[0] * SHAPE[1] + 1];
        let from = usize::from(is_begin(room.as_ptr()));
        let mut moved = Array::from_vec(room).slice_move(s![from..from + SHAPE[0] * SHAPE[1]]);
        moved.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32);
        moved.into_shape_with_order(SHAPE).expect("as many elements")
    }

    #[test]
    fn what_is_written_to_time_and_again_begins_with_a_line() {
        let before = elsewhere();
        let mut elements: Elements<f32, Ix2> = before.to_shared().into();
        let held = elements.clone();
        elements.line_up();
        let place = elements.as_ptr();
        assert!(is_begin(place) && *elements == before && *held == before);
        elements.line_up();
        assert_eq!(elements.as_ptr(), place, "it stays there");
        // a copy that has to be made at any rate begins with a line, too
        let other = elements.clone();
        elements.line_up();
        assert!(is_begin(elements.as_ptr()) && elements.as_ptr() != other.as_ptr() && *other == before);
        // the other order is left as it is, and so is what is small
        let mut columns: Elements<f32, Ix2> = elsewhere().reversed_axes().into_shared().into();
        columns.line_up();
        assert_eq!(*columns, before.t());
    }

    #[test]
    fn the_memory_of_a_weight_that_takes_steps_begins_with_a_line() -> dl_core::Result<()> {
        use crate::{Nd, ProductOps, ReduceOps};
        let weight = Weight::new(Nd::from(elsewhere()));
        let x = Nd::<f32, Ix2>::full([2, SHAPE[0]], 1.0);
        let loss = x.matmul(&weight).sum();
        loss.train(&Sgd::new(0.5)).wait()?;
        let stepped = weight.value();
        assert!(is_begin(stepped.view().as_ptr()));
        assert_eq!(stepped.view(), elsewhere() - 1.0);
        Ok(())
    }

    #[test]
    fn large_products_begin_with_a_line() -> dl_core::Result<()> {
        use crate::{Nd, ProductOps};
        let [a, b] = [[90, 3], [3, 80]].map(|shape| Nd::<f64, Ix2>::full(shape, 2.0));
        let product = a.matmul(&b).predict().wait()?;
        assert!(is_begin(product.view().as_ptr()) && product.view().iter().all(|&x| x == 12.0));
        Ok(())
    }
}
