//! Sums whose rounding error grows with the logarithm of the number of terms, not with the number:
//! the halves are summed on their own (Higham, *Accuracy and Stability of Numerical Algorithms*,
//! 2002, section 4.2). The order is fixed by the shape and the strides.

use crate::element::Element;
use crate::pieces;
use crate::program::PIECE;
use crate::window::zeros;
use dl_core::parallel;
use dl_core::simd::vectorized;
use ndarray::{ArrayD, ArrayView2, ArrayViewD, Axis};

/// So many terms are summed in a run.
pub(crate) const RUN: usize = 128;

/// The sum of all elements.
pub(crate) fn sum_all<A: Element>(x: ArrayViewD<'_, A>) -> A {
    if x.len() <= RUN {
        return x.sum();
    }
    if let Some(elements) = x.as_slice_memory_order() {
        return sum_slice(elements);
    }
    let longest = x.max_stride_axis();
    let axis = if x.len_of(longest) > 1 { longest } else { longest_axis(&x) };
    let half = x.len_of(axis) / 2;
    let (left, right) = x.split_at(axis, half);
    sum_all(left) + sum_all(right)
}

fn longest_axis<A>(x: &ArrayViewD<'_, A>) -> Axis {
    Axis((0..x.ndim()).max_by_key(|&axis| x.shape()[axis]).unwrap_or(0))
}

fn sum_slice<A: Element>(elements: &[A]) -> A {
    sum_of_pieces(elements.len(), 0.1, |from, to| {
        let mut sum = Sum::new();
        sum.add_all(&elements[from..to]);
        sum
    })
}

/// The sum of so many terms; `piece` sums those in a range of places, for about so many nanoseconds
/// each.
///
/// The sum of a whole piece is that of a whole subtree, so it does not matter that there are
/// pieces.
pub(crate) fn sum_of_pieces<A: Element>(
    len: usize,
    nanoseconds: f64,
    piece: impl Fn(usize, usize) -> Sum<A> + Sync,
) -> A {
    let mut sums = vec![A::zero(); len.div_ceil(PIECE)];
    parallel::for_each_mut(&mut sums, nanoseconds * PIECE.min(len) as f64, |index, sum| {
        *sum = piece(index * PIECE, len.min((index + 1) * PIECE)).total();
    });
    sum_of_sums(sums.into_iter(), PIECE, len)
}

/// The sum of so many terms, by the sums of pieces, which come one after the other and have `each`
/// of them, a power of two of [runs](RUN); the last one has the rest.
pub(crate) fn sum_of_sums<A: Element>(mut sums: impl DoubleEndedIterator<Item = A>, each: usize, len: usize) -> A {
    let rest = if len.is_multiple_of(each) { None } else { sums.next_back() };
    let mut whole = Tree::new();
    sums.for_each(|sum| whole.push(sum));
    let sum = whole.total(rest.unwrap_or_else(A::zero));
    // of several NaN it may be any, and terms that are not in memory may be others
    if sum.is_nan() { A::nan() } else { sum }
}

/// The sums along an axis, which stays, with length 1.
pub(crate) fn sum_along<A: Element>(x: ArrayViewD<'_, A>, axis: usize) -> ArrayD<A> {
    pieces::reduced(x, &[axis], 0.4, |x| sum_in_halves(x, Axis(axis)))
}

fn sum_in_halves<A: Element>(x: ArrayViewD<'_, A>, axis: Axis) -> ArrayD<A> {
    if x.len_of(axis) <= RUN {
        // the usual cases, of a bias
        if let Some(sums) = sum_rows(&x, axis) {
            let mut shape = x.shape().to_vec();
            shape[axis.index()] = 1;
            return ArrayD::from_shape_vec(shape, sums).expect("a sum for each column");
        }
        return x.sum_axis(axis).insert_axis(axis);
    }
    let half = x.len_of(axis) / 2;
    let (left, right) = x.split_at(axis, half);
    let mut sums = sum_in_halves(left, axis);
    sums.zip_mut_with(&sum_in_halves(right, axis), |sum, &right| *sum = *sum + right);
    sums
}

/// What is along the first axis, as rows each of which lies in one piece: all of it does, or the
/// other axes do, as in some columns of a matrix or some channels of a batch.
fn as_rows<'a, A: Element>(x: &ArrayViewD<'a, A>) -> Option<ArrayView2<'a, A>> {
    let rows = x.shape().first().copied().filter(|&rows| rows > 0)?;
    let rows = match x.to_slice() {
        Some(all) => ArrayView2::from_shape([rows, all.len() / rows], all).ok(),
        None => {
            let mut x = x.clone();
            while x.ndim() > 2 {
                if !x.merge_axes(Axis(1), Axis(2)) {
                    return None;
                }
                x.index_axis_inplace(Axis(1), 0);
            }
            x.into_dimensionality().ok()
        }
    };
    rows.filter(|rows| rows.row(0).as_slice().is_some())
}

/// The sums along an axis, of at most [`RUN`] terms, if those that are next to one another are sums
/// of what lies side by side.
fn sum_rows<A: Element>(x: &ArrayViewD<'_, A>, axis: Axis) -> Option<Vec<A>> {
    if axis == Axis(0) {
        let rows = as_rows(x)?;
        return Some(sum_of_rows(
            rows.outer_iter().map(|row| row.to_slice().expect("it lies in one piece")),
            rows.ncols(),
        ));
    }
    let (terms, width) = (x.len_of(axis), x.shape()[axis.index() + 1..].iter().product());
    let all = x.to_slice().filter(|all| !all.is_empty() && width > 1)?;
    let mut sums = zeros(all.len() / terms);
    for (part, sums) in all.chunks_exact(terms * width).zip(sums.chunks_exact_mut(width)) {
        add_rows(part.chunks_exact(width), sums);
    }
    Some(sums)
}

/// The sum of rows of this length, at most [`RUN`] of them.
pub(crate) fn sum_of_rows<'a, A: Element>(rows: impl Iterator<Item = &'a [A]>, len: usize) -> Vec<A> {
    let mut sums = zeros(len);
    add_rows(rows, &mut sums);
    sums
}

/// Adds rows to what is there, one after the other.
fn add_rows<'a, A: Element>(mut rows: impl Iterator<Item = &'a [A]>, sums: &mut [A]) {
    vectorized(
        #[inline(always)]
        || {
            for row in rows.by_ref() {
                for (sum, &x) in sums.iter_mut().zip(row) {
                    *sum = *sum + x;
                }
            }
        },
    );
}

/// The sum of terms, each run of which is added up one term after the other.
pub(crate) fn sum_in_turn<A: Element>(terms: &[A]) -> A {
    if terms.len() < RUN {
        // the same to the bit, without room for many runs
        return terms.iter().fold(A::zero(), |sum, &term| sum + term);
    }
    let mut sum = Sum::new();
    terms.chunks(RUN).for_each(|run| sum.add_in_turn(run));
    sum.total()
}

/// A sum of terms that come one after the other.
pub(crate) struct Sum<A> {
    run: A,
    terms: usize,
    runs: Tree<A>,
}

impl<A: Element> Sum<A> {
    pub(crate) fn new() -> Self {
        Sum { run: A::zero(), terms: 0, runs: Tree::new() }
    }

    /// Adds a few terms, of which at most the last one is the last of a run.
    pub(crate) fn add_in_turn(&mut self, terms: &[A]) {
        debug_assert!(self.terms % RUN + terms.len() <= RUN, "they belong to two runs");
        self.run = terms.iter().fold(self.run, |run, &term| run + term);
        self.terms += terms.len();
        if self.terms.is_multiple_of(RUN) {
            self.runs.push(std::mem::replace(&mut self.run, A::zero()));
        }
    }

    /// Adds many terms. All but the last ones have to come in whole runs.
    pub(crate) fn add_all(&mut self, terms: &[A]) {
        debug_assert!(self.terms.is_multiple_of(RUN), "the terms before were the last ones");
        self.terms += terms.len();
        vectorized(
            #[inline(always)]
            || {
                let runs = terms.chunks_exact(RUN);
                self.run = sum_of_run(runs.remainder());
                for run in runs {
                    self.runs.push(sum_of_run(run));
                }
            },
        );
    }

    pub(crate) fn total(&self) -> A {
        self.runs.total(self.run)
    }
}

/// In as many sums as a processor may add at once.
const LANES: usize = 32;

#[inline(always)]
fn sum_of_run<A: Element>(run: &[A]) -> A {
    let (rows, rest) = run.as_chunks::<LANES>();
    let mut sums = [A::zero(); LANES];
    if let ([a, b, c, d], []) = (rows, rest) {
        // a whole run, as most are: what lies side by side is added at once
        for lane in 0..LANES {
            sums[lane] = A::zero() + a[lane] + b[lane] + c[lane] + d[lane];
        }
    } else {
        for row in rows {
            for lane in 0..LANES {
                sums[lane] = sums[lane] + row[lane];
            }
        }
        for (sum, &term) in sums.iter_mut().zip(rest) {
            *sum = *sum + term;
        }
    }
    let sums: [A; 16] = halves_added(&sums);
    let sums: [A; 8] = halves_added(&sums);
    let [a, b, c, d] = halves_added(&sums);
    (a + c) + (b + d)
}

/// Adds the halves of an array.
#[inline(always)]
fn halves_added<A: Element, const N: usize, const HALF: usize>(all: &[A; N]) -> [A; HALF] {
    const { assert!(N == 2 * HALF) };
    // a compiler that sees all steps together takes the lanes apart into single numbers. They stay
    // where they are: who reads what has just been copied in other parts waits until all that was
    // written before has reached the cache
    let (first, second) = std::hint::black_box(all).split_at(HALF);
    let mut sums = [A::zero(); HALF];
    for lane in 0..HALF {
        sums[lane] = first[lane] + second[lane];
    }
    sums
}

/// Sums that come one after the other, as the leaves of a tree: a sum of two has as many leaves on
/// either side.
struct Tree<A> {
    leaves: usize,
    /// The sum of 2ⁱ leaves at place i, for the bits of their number that are 1.
    sums: [A; 48],
}

impl<A: Element> Tree<A> {
    fn new() -> Self {
        Tree { leaves: 0, sums: [A::zero(); 48] }
    }

    fn push(&mut self, leaf: A) {
        let place = self.leaves.trailing_ones() as usize;
        self.sums[place] = self.sums[..place].iter().fold(leaf, |sum, &of| of + sum);
        self.leaves += 1;
    }

    fn total(&self, rest: A) -> A {
        if self.leaves == 0 {
            return rest;
        }
        let sums = self.sums.iter().enumerate().filter(|(place, _)| self.leaves >> place & 1 == 1);
        sums.fold(rest, |sum, (_, &of)| of + sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array, Array1, s};

    const COUNT: usize = 300_003;

    fn tenths() -> Array1<f32> {
        Array1::from_elem(COUNT, 0.1)
    }

    fn is_right(sum: f32) {
        let right = COUNT as f32 * 0.1;
        assert!((sum - right).abs() < 1e-6 * right, "{sum} instead of {right}");
    }

    #[test]
    fn many_tenths() {
        is_right(sum_all(tenths().view().into_dyn()));
        let strided = Array::from_elem((2 * COUNT,), 0.1_f32);
        is_right(sum_all(strided.slice_axis(Axis(0), ndarray::Slice::new(0, None, 2)).into_dyn()));
        let columns = Array::from_elem((COUNT, 2), 0.1_f32);
        sum_along(columns.view().into_dyn(), 0).iter().for_each(|&sum| is_right(sum));
        sum_along(columns.t().into_dyn(), 1).iter().for_each(|&sum| is_right(sum));
        let mut sum = Sum::new();
        tenths().iter().for_each(|&term| sum.add_in_turn(&[term]));
        is_right(sum.total());
    }

    /// However long pieces are, it is the same sum, to the bit.
    #[test]
    fn pieces_of_any_length() {
        let numbers: Vec<f32> = (0..200_003).map(|i| ((i * 7919) % 1009) as f32 * 0.1 - 37.7).collect();
        for each in (11..=15).map(|power| 1 << power) {
            for len in [each - 1, each, each + 1, 3 * each - RUN, 3 * each + RUN, 5 * each + RUN + 1, 6 * each] {
                let numbers = &numbers[..len];
                let sum = |numbers: &[f32]| {
                    let mut sum = Sum::new();
                    sum.add_all(numbers);
                    sum.total()
                };
                let sums: Vec<f32> = numbers.chunks(each).map(sum).collect();
                assert_eq!(
                    sum_of_sums(sums.into_iter(), each, len).to_bits(),
                    sum(numbers).to_bits(),
                    "{len} by {each}"
                );
            }
        }
    }

    /// Rows that lie in one piece are summed in a loop of their own, which is the same sum, to the
    /// bit.
    #[test]
    fn rows_in_pieces() {
        let x = Array::from_shape_fn((100, 40), |(i, j)| (i * 7 + j) as f32 * 0.1);
        let by_lanes =
            |x: ArrayView2<'_, f32>| x.columns().into_iter().map(|lane| lane.iter().sum()).collect::<Vec<f32>>();
        let column_major = Array::from_shape_fn((40, 100), |(j, i)| x[[i, j]]).reversed_axes();
        for x in [x.view(), x.slice(s![.., 3..30]), x.slice(s![..;2, ..]), x.slice(s![.., ..;3]), column_major.view()] {
            let is_in_rows = x.row(0).as_slice().is_some();
            assert_eq!(as_rows(&x.into_dyn()).is_some(), is_in_rows);
            if is_in_rows {
                assert_eq!(sum_along(x.into_dyn(), 0).into_raw_vec_and_offset().0, by_lanes(x));
            }
        }
        let samples = Array::from_shape_fn((10, 4, 5, 6), |(i, j, k, l)| (i * 7 + j * 5 + k * 3 + l) as f32 * 0.1);
        let channels = samples.slice(s![.., 1..3, .., ..]);
        let rows = channels.to_shape((10, 60)).expect("one element each");
        assert!(
            as_rows(&channels.into_dyn()).is_some()
                && as_rows(&samples.slice(s![.., .., ..2, ..]).into_dyn()).is_none()
        );
        assert_eq!(sum_along(channels.into_dyn(), 0).into_raw_vec_and_offset().0, by_lanes(rows.view()));
        // along the second axis of each sample
        let by_sample = samples
            .outer_iter()
            .flat_map(|sample| by_lanes(sample.to_shape((4, 30)).expect("one element each").view()));
        assert!(sum_along(samples.view().into_dyn(), 1).into_iter().eq(by_sample));
    }

    #[test]
    fn few_terms() {
        for count in [0, 1, 127, 128, 129, 384, 385] {
            let mut sum = Sum::new();
            (0..count).for_each(|i| sum.add_in_turn(&[f64::from(i)]));
            assert_eq!(sum.total(), f64::from(count * (count - 1) / 2));
            // in sixteens it is the same sum, to the bit
            let tenths: Vec<f32> = (0..count).map(|i| i as f32 * 0.1).collect();
            let (mut one_by_one, mut in_sixteens) = (Sum::new(), Sum::new());
            tenths.iter().for_each(|&term| one_by_one.add_in_turn(&[term]));
            tenths.chunks(16).for_each(|terms| in_sixteens.add_in_turn(terms));
            assert_eq!(one_by_one.total(), in_sixteens.total());
        }
    }
}
