//! Buffers aligned to cache lines.
//!
//! A vector register as wide as a cache line, loaded from or stored to an unaligned address,
//! touches two lines. Allocators mostly guarantee 16 bytes only.

use super::huge_pages;
use dl_core::buffers;
use dl_core::parallel::memory::Pooled;
use ndarray::{Array, ArrayView, Axis, Dimension, Slice};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Size of a cache line in bytes.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

/// Buffers up to this size are not aligned. They come from per-thread size classes, which have no
/// room for an additional line, and they fit into the L1 cache, where split lines cost less.
const SMALL_BYTES: usize = 1 << 14;

/// A buffer of `len` elements that starts at a cache line. Its initial contents are unspecified.
///
/// Large buffers are *colored*: each starts at another offset within a page, in turn. Without
/// coloring, allocators place most large buffers at the same page offset. The n-th elements of all
/// tensors then compete for the same cache sets, and loads falsely depend on earlier stores, since
/// the processor compares only the page offset at first (4 KiB aliasing).
pub(crate) struct AlignedBuf<A> {
    memory: Vec<A>,
    begin: usize,
    len: usize,
}

/// Distance in bytes between consecutive colors within a page.
pub(crate) const COLOR_BYTES: usize = 512;
/// Number of colors of a page.
pub(crate) const COLORS: usize = 8;
/// Buffers larger than this are colored.
const LARGE_BYTES: usize = 1 << 16;
/// Buffers of at least this size start at a huge page, plus the offset of their color.
const HUGE_PAGES_FROM_BYTES: usize = 2 * huge_pages::HUGE_PAGE_BYTES;
/// Additional distance in bytes between consecutive colors in huge pages. Eight such strides are
/// 64 KiB, one way of a typical L2 cache.
const HUGE_COLOR_STRIDE: usize = 1 << 13;

/// The number of elements of type `A` in `bytes`.
const fn elements<A>(bytes: usize) -> usize {
    bytes / size_of::<A>()
}

impl<A> Default for AlignedBuf<A> {
    fn default() -> Self {
        AlignedBuf { memory: Vec::new(), begin: 0, len: 0 }
    }
}

impl<A: Pooled> AlignedBuf<A> {
    /// A buffer with unspecified contents, in the next color.
    pub(crate) fn new(len: usize) -> Self {
        AlignedBuf::with_color(len, next_color())
    }

    /// Like [`new`](AlignedBuf::new), in the given color if the buffer is large.
    pub(crate) fn with_color(len: usize, color: usize) -> Self {
        AlignedBuf::of(len, color, |len| Some(buffers::take_filled(len)))
            .unwrap_or_else(|| panic!("out of memory: cannot allocate {len} numbers"))
    }

    fn of(len: usize, color: usize, take: impl FnOnce(usize) -> Option<Vec<A>>) -> Option<Self> {
        if len == 0 {
            return Some(AlignedBuf::default());
        }
        if cfg!(target_os = "linux") && len >= elements::<A>(HUGE_PAGES_FROM_BYTES) {
            return AlignedBuf::in_huge_pages(len, color);
        }
        let colors = if len > elements::<A>(LARGE_BYTES) { COLORS } else { 1 };
        let memory = take(len + elements::<A>((colors - 1) * COLOR_BYTES + CACHE_LINE_BYTES))?;
        let begin = first_aligned(&memory);
        let offset = (COLORS + color - color_of(&raw const memory[begin])) % colors;
        Some(AlignedBuf { memory, begin: begin + elements::<A>(offset * COLOR_BYTES), len })
    }

    /// A buffer in huge pages, where the system supports them. Within a huge page the whole address
    /// determines the set of the L2 cache, hence the larger stride between colors. The unused
    /// pages before and after the elements are released once, when the memory is new.
    fn in_huge_pages(len: usize, color: usize) -> Option<Self> {
        const STRIDE: usize = COLOR_BYTES + HUGE_COLOR_STRIDE;
        let page = elements::<A>(huge_pages::HUGE_PAGE_BYTES);
        let to_page = |memory: *const A| memory.align_offset(huge_pages::HUGE_PAGE_BYTES).min(page);
        let offset = elements::<A>(color * STRIDE);
        let mut is_new = false;
        let mut memory = buffers::try_take_filled(len + page + elements::<A>((COLORS - 1) * STRIDE), |new| {
            is_new = true;
            let from = to_page(new.as_ptr().cast());
            huge_pages::advise_huge_pages(&mut new[from..][..offset + len]);
        })?;
        let begin = to_page(memory.as_ptr());
        if is_new {
            huge_pages::release_pages(&mut memory[..begin]);
            huge_pages::release_pages(&mut memory[begin + offset + len..]);
        }
        Some(AlignedBuf { memory, begin: begin + offset, len })
    }

    pub(crate) fn elements(&mut self) -> &mut [A] {
        &mut self.memory[self.begin..][..self.len]
    }

    /// Returns the memory to the buffer pool.
    pub(crate) fn give_back(self) {
        buffers::give_back(self.memory);
    }
}

impl<A> AlignedBuf<A> {
    /// The buffer as an array of this shape, in row-major order.
    pub(crate) fn into_array<D: Dimension>(self, shape: D) -> Array<A, D> {
        let mut array = Array::from_vec(self.memory);
        array.slice_axis_inplace(Axis(0), Slice::from(self.begin..self.begin + self.len));
        array.into_shape_with_order(shape).expect("one element each")
    }
}

/// A cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; CACHE_LINE_BYTES],
}

thread_local! {
    /// Scratch memory of this thread. Memory written by another thread would first have to be
    /// fetched from the caches of its core.
    static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Maximum size in bytes of the scratch memory that a thread retains.
const MAX_SCRATCH_BYTES: usize = 1 << 20;

/// Calls `work` with scratch memory of this thread for `len` elements. It is aligned to a cache
/// line, and its contents are unspecified.
pub(crate) fn with_thread_scratch<A: Pooled, R>(len: usize, work: impl FnOnce(*mut A) -> R) -> R {
    let mut scratch = SCRATCH.try_with(Cell::take).unwrap_or_default();
    let lines = (len * size_of::<A>()).div_ceil(CACHE_LINE_BYTES);
    if scratch.len() < lines {
        scratch = vec![Line { _bytes: [0; CACHE_LINE_BYTES] }; lines];
    }
    let result = work(scratch.as_mut_ptr().cast());
    if scratch.len() <= MAX_SCRATCH_BYTES / CACHE_LINE_BYTES {
        let _ = SCRATCH.try_with(|buf| buf.set(scratch));
    }
    result
}

/// The color of an address.
pub(crate) fn color_of<A>(pointer: *const A) -> usize {
    pointer.addr() / COLOR_BYTES % COLORS
}

/// The colors in turn.
fn next_color() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed) % COLORS
}

/// Index of the first element at a cache line. It is valid until the vector reallocates.
pub(crate) fn first_aligned<A>(memory: &[A]) -> usize {
    // `align_offset` is allowed to fail, and does under Miri
    memory.as_ptr().align_offset(CACHE_LINE_BYTES).min(CACHE_LINE_BYTES / size_of::<A>())
}

/// A cache-line aligned copy of an array in row-major order. `None` if the array has another layout
/// or the allocation fails.
pub(crate) fn aligned_copy<A: Pooled, D: Dimension>(x: &ArrayView<'_, A, D>) -> Option<Array<A, D>> {
    let elements = x.as_slice()?;
    let mut buf = AlignedBuf::of(elements.len(), next_color(), |len| buffers::try_take_filled(len, |_| {}))?;
    buf.elements().copy_from_slice(elements);
    Some(buf.into_array(x.raw_dim()))
}

/// Whether the address is at the start of a cache line.
pub(crate) fn is_aligned<A>(pointer: *const A) -> bool {
    pointer.align_offset(CACHE_LINE_BYTES) == 0
}

/// Whether alignment matters for a tensor of `len` elements.
pub(crate) fn is_worth_aligning<A>(len: usize) -> bool {
    len > SMALL_BYTES / size_of::<A>()
}

/// Whether a copy for alignment would take more memory than it is worth, as for whole data sets.
pub(crate) fn is_too_large_to_copy<A>(len: usize) -> bool {
    const MANY_BYTES: usize = 1 << 24;
    len > MANY_BYTES / size_of::<A>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Nd, Storage};
    use dl_core::Weight;
    use ndarray::{Ix2, s};

    const SHAPE: [usize; 2] = [100, 70];

    /// An array that does not start at a cache line.
    fn unaligned() -> Array<f32, Ix2> {
        let buf = vec![0.0; SHAPE[0] * SHAPE[1] + 1];
        let from = usize::from(is_aligned(buf.as_ptr()));
        let mut offset = Array::from_vec(buf).slice_move(s![from..from + SHAPE[0] * SHAPE[1]]);
        offset.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32);
        offset.into_shape_with_order(SHAPE).expect("as many elements")
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn huge_buffer_starts_at_huge_page_plus_color_offset() {
        const LEN: usize = HUGE_PAGES_FROM_BYTES / size_of::<f32>() + 5;
        let mut bufs: Vec<AlignedBuf<f32>> = (0..COLORS).map(|color| AlignedBuf::with_color(LEN, color)).collect();
        for (color, buf) in bufs.iter_mut().enumerate() {
            let elements = buf.elements();
            elements.fill(color as f32);
            let offset = elements.as_ptr().addr() % huge_pages::HUGE_PAGE_BYTES;
            assert_eq!(offset, color * (COLOR_BYTES + HUGE_COLOR_STRIDE));
            assert_eq!((elements.len(), color_of(elements.as_ptr())), (LEN, color));
        }
        for (color, buf) in bufs.iter_mut().enumerate() {
            assert!(buf.elements().iter().all(|&x| x == color as f32));
        }
        bufs.into_iter().for_each(AlignedBuf::give_back);
    }

    #[test]
    fn align_for_write_of_unaligned_storage_moves_it_once() {
        let before = unaligned();
        let mut elements: Storage<f32, Ix2> = before.to_shared().into();
        let held = elements.clone();
        elements.align_for_write();
        let place = elements.as_ptr();
        assert!(is_aligned(place) && *elements == before && *held == before);
        elements.align_for_write();
        assert_eq!(elements.as_ptr(), place, "the elements are not moved again");
        // a copy that is required anyway is aligned, too
        let other = elements.clone();
        elements.align_for_write();
        assert!(is_aligned(elements.as_ptr()) && elements.as_ptr() != other.as_ptr() && *other == before);
        // column-major and small arrays are not copied
        let mut columns: Storage<f32, Ix2> = unaligned().reversed_axes().into_shared().into();
        columns.align_for_write();
        assert_eq!(*columns, before.t());
    }

    #[test]
    fn weight_of_unaligned_value_is_aligned() {
        let value = Nd::from(unaligned());
        let weight = Weight::new(value.clone());
        assert!(is_aligned(weight.value().view().as_ptr()) && !is_aligned(value.view().as_ptr()));
        assert_eq!(weight.value(), value);
        let place = weight.value().view().as_ptr();
        weight.set(weight.value());
        assert_eq!(weight.value().view().as_ptr(), place, "the elements are not moved again");
    }

    #[test]
    fn from_vec_copies_medium_sizes_only_to_cache_line() {
        let is_copied = |len: usize| {
            let elements = vec![1.0_f32; len];
            let place = elements.as_ptr();
            let tensor = Nd::from_vec([len, 1], elements).expect("as many elements");
            assert!(tensor.view().iter().all(|&x| x == 1.0));
            is_aligned(tensor.view().as_ptr()) && tensor.view().as_ptr() != place
        };
        assert!(is_copied(SMALL_BYTES / 4 + 1) && is_copied(1 << 20));
        for len in [33, (1 << 22) + 1] {
            let elements = vec![1.0_f32; len];
            let place = elements.as_ptr();
            let tensor = Nd::from_vec([len], elements).expect("as many elements");
            assert_eq!(tensor.view().as_ptr(), place, "{len}");
        }
    }

    #[test]
    fn large_buffer_starts_at_offset_of_its_color() {
        let len = LARGE_BYTES / size_of::<f64>() + 1;
        for color in 0..COLORS {
            let mut buf = AlignedBuf::<f64>::with_color(len, color);
            buf.elements().fill(1.0);
            let place = buf.elements().as_ptr();
            assert_eq!((color_of(place), buf.elements().len()), (color, len));
            assert!(is_aligned(place));
            assert_eq!(buf.into_array(ndarray::Dim(len)).as_ptr(), place);
        }
        assert!(AlignedBuf::<f32>::new(0).elements().is_empty());
    }

    #[test]
    fn nested_thread_scratch_returns_distinct_aligned_memory() {
        let place = |len| with_thread_scratch(len, |buf: *mut f32| buf.addr());
        let first = place(1000);
        assert!(
            is_aligned(std::ptr::without_provenance::<f32>(first)) && place(500) == first,
            "the scratch memory is retained"
        );
        with_thread_scratch(1000, |outer: *mut f32| {
            with_thread_scratch(1000, |inner: *mut f64| assert!(is_aligned(inner) && inner.addr() != outer.addr()));
        });
        assert!(
            std::panic::catch_unwind(|| with_thread_scratch(10, |_: *mut f32| panic!("raised by this test"))).is_err()
        );
        let again = place(10);
        assert_eq!(place(10), again);
        place(MAX_SCRATCH_BYTES);
        assert!(SCRATCH.take().is_empty(), "too large to be retained");
        assert_eq!(with_thread_scratch(0, |_: *mut f32| 7), 7);
    }
}
