//! Attention by blocks: a block of queries meets the keys block by block, so that only one block of
//! scores exists at a time (Dao et al., *FlashAttention*, 2022; Rabe and Staats, 2021).
//!
//! Blocks and their order depend on shapes only, so the bits do not depend on the threads. Queries
//! that attend to at most [`KEYS`] keys have the bits of a softmax between two products.
//!
//! A key of weight 0 and a query with a delta of 0 contribute nothing, even if they are not finite. A
//! result that is not finite is therefore computed again, by products without these terms.

use super::{LANE_GROUP, larger, largest_of, product_hiding};
use crate::fusion::{add_assign, canonicalize_nan, map_in_place, sums_in_order};
use crate::gemm::{self, Scratch, product_into};
use crate::tensor::{Element, zeros};
use dl_core::simd::vectorized;
use dl_core::{Number, Unary, buffers, parallel};
use ndarray::{ArrayView2, ArrayViewMut2, s};
use std::ops::Range;

/// The number of queries of a block.
const ROWS: usize = 64;
/// The number of keys of a block.
const KEYS: usize = 256;
/// The number of parts of the keys of few heads whose deltas are computed in parallel.
const KEY_PARTS: usize = 8;

/// The operands of attention for one head: queries `[L, E]`, keys `[S, E]`, values `[S, Ev]`, and
/// an addend of the scores `[L, S]`, in which −∞ hides a key.
pub(crate) struct Head<'a, A> {
    pub(crate) q: ArrayView2<'a, A>,
    pub(crate) k: ArrayView2<'a, A>,
    pub(crate) v: ArrayView2<'a, A>,
    pub(crate) addend: Option<ArrayView2<'a, A>>,
    /// Whether query `i` attends to keys `0` to `i` only.
    pub(crate) causal: bool,
}

/// The result of a head and its delta, both `[L, Ev]`.
pub(crate) struct HeadResult<'a, A> {
    pub(crate) output: ArrayView2<'a, A>,
    pub(crate) delta: ArrayView2<'a, A>,
}

/// `c = a · b + beta · c`. With `hides`, an element 0 of `a` hides what it is multiplied by.
fn multiply<A: Element>(
    hides: bool,
    a: ArrayView2<'_, A>,
    b: ArrayView2<'_, A>,
    beta: A,
    c: &mut ArrayViewMut2<'_, A>,
) {
    match hides {
        false => product_into(A::of(1.0), a, b, beta, c),
        true => product_hiding(a, b, beta, c),
    }
}

fn are_finite<A: Element>(elements: &[A]) -> bool {
    elements.iter().all(|x| x.is_finite())
}

/// What the deltas need of a query.
#[derive(Clone, Copy)]
struct Statistics<A> {
    /// The sum of the products of result and delta.
    dot: A,
    /// The logarithm of the sum of the exponentials of the scores; 0 where all are −∞. It is not
    /// set where a block has all keys.
    logarithm: A,
}

impl<A: Element> Head<'_, A> {
    fn nanoseconds(&self) -> f64 {
        nanoseconds_of_attention::<A>([self.q.nrows(), self.k.nrows(), self.q.ncols(), self.v.ncols()])
    }

    /// The number of keys that the last of these queries may attend to.
    fn visible(&self, rows: &Range<usize>) -> usize {
        if self.causal { rows.end.min(self.k.nrows()) } else { self.k.nrows() }
    }

    /// The scores of some queries and keys.
    fn scores(&self, rows: &Range<usize>, keys: &Range<usize>, to: &mut [A]) {
        let mut scores = view_mut(rows.len(), keys.len(), to);
        let k = rows_of(&self.k, keys);
        product_into(A::of(1.0), rows_of(&self.q, rows), k.reversed_axes(), A::zero(), &mut scores);
        let nothing = A::neg_infinity();
        if let Some(addend) = self.addend {
            let addend = addend.slice_move(s![rows.clone(), keys.clone()]);
            scores.zip_mut_with(&addend, |score, &x| *score = if x == nothing { x } else { *score + x });
        }
        if self.causal {
            for (row, scores) in rows.clone().zip(to.chunks_exact_mut(keys.len())) {
                scores[(row + 1).saturating_sub(keys.start).min(keys.len())..].fill(nothing);
            }
        }
    }

    /// The softmax of the scores of queries that attend to these keys only.
    fn softmax(&self, rows: &Range<usize>, keys: &Range<usize>, to: &mut [A]) {
        self.scores(rows, keys, to);
        let len = keys.len();
        let mut maxima = [A::zero(); ROWS];
        vectorized(
            #[inline(always)]
            || {
                for (row, max) in to.chunks_exact_mut(len).zip(&mut maxima) {
                    *max = canonicalize_nan(largest_of(row));
                    let max = *max;
                    row.iter_mut().for_each(|x| *x = *x - max);
                }
            },
        );
        map_in_place(Unary::Exp, to);
        let mut sums = [A::zero(); ROWS];
        sums_in_order(to, len, &mut sums[..rows.len()]);
        vectorized(
            #[inline(always)]
            || {
                for (row, (max, sum)) in to.chunks_exact_mut(len).zip(maxima.iter().zip(sums)) {
                    match *max == A::neg_infinity() {
                        true => row.fill(A::zero()),
                        false => row.iter_mut().for_each(|x| *x = *x / sum),
                    }
                }
            },
        );
    }

    /// Calls `each` for each block of keys with the exponentials of the scores, relative to the
    /// largest score so far, and with the factors of what was summed before. Returns the largest
    /// score of each query (0 where all are −∞) and the sum of its exponentials.
    fn for_each_block(
        &self,
        rows: &Range<usize>,
        scratch: &mut [A],
        mut each: impl FnMut(Range<usize>, &[A], &[A]),
    ) -> ([A; ROWS], [A; ROWS]) {
        let (mut maxima, mut sums) = ([A::neg_infinity(); ROWS], [A::zero(); ROWS]);
        let (mut shifts, mut factors) = ([A::zero(); ROWS], [A::zero(); ROWS]);
        for keys in blocks(0..self.visible(rows), KEYS) {
            let terms = &mut scratch[..rows.len() * keys.len()];
            self.scores(rows, &keys, terms);
            vectorized(
                #[inline(always)]
                || {
                    for (i, row) in terms.chunks_exact_mut(keys.len()).enumerate() {
                        let max = canonicalize_nan(larger(maxima[i], largest_of(row)));
                        let shift = if max == A::neg_infinity() { A::zero() } else { max };
                        factors[i] = maxima[i] - shift;
                        (maxima[i], shifts[i]) = (max, shift);
                        row.iter_mut().for_each(|x| *x = *x - shift);
                    }
                },
            );
            map_in_place(Unary::Exp, terms);
            map_in_place(Unary::Exp, &mut factors[..rows.len()]);
            vectorized(
                #[inline(always)]
                || {
                    for (i, row) in terms.chunks_exact(keys.len()).enumerate() {
                        sums[i] = sums[i] * factors[i] + sum_of_lanes(row);
                    }
                },
            );
            each(keys, terms, &factors);
        }
        (shifts, sums)
    }

    fn attend(&self, rows: &Range<usize>, to: &mut [A]) {
        self.attend_by(false, rows, to);
        if !are_finite(to) {
            self.attend_by(true, rows, to);
        }
    }

    fn attend_by(&self, hides: bool, rows: &Range<usize>, to: &mut [A]) {
        let (visible, depth) = (self.visible(rows), self.v.ncols());
        let mut scratch = Scratch::take(rows.len() * KEYS.min(visible));
        let (scratch, one) = (scratch.as_mut_slice(), A::of(1.0));
        if visible <= KEYS {
            self.softmax(rows, &(0..visible), scratch);
            let (weights, v) = (view(rows.len(), visible, scratch), rows_of(&self.v, &(0..visible)));
            return multiply(hides, weights, v, A::zero(), &mut view_mut(rows.len(), depth, to));
        }
        let (_, sums) = self.for_each_block(rows, scratch, |keys, terms, factors| {
            if keys.start > 0 {
                for (to, &factor) in to.chunks_exact_mut(depth).zip(factors) {
                    to.iter_mut().for_each(|y| *y = *y * factor);
                }
            }
            let (terms, v) = (view(rows.len(), keys.len(), terms), rows_of(&self.v, &keys));
            let beta = if keys.start > 0 { one } else { A::zero() };
            multiply(hides, terms, v, beta, &mut view_mut(rows.len(), depth, to));
        });
        for (to, sum) in to.chunks_exact_mut(depth).zip(sums) {
            // no key is visible if the sum is 0
            let factor = if sum == A::zero() { sum } else { one / sum };
            to.iter_mut().for_each(|y| *y = *y * factor);
        }
    }

    /// Computes what the deltas need of each of these queries.
    fn summarize(&self, result: &HeadResult<'_, A>, rows: &Range<usize>, to: &mut [Statistics<A>]) {
        for (to, row) in to.iter_mut().zip(rows.clone()) {
            to.dot = result.output.row(row).dot(&result.delta.row(row));
        }
        if self.visible(rows) > KEYS {
            let mut scratch = Scratch::take(rows.len() * KEYS);
            let (shifts, sums) = self.for_each_block(rows, scratch.as_mut_slice(), |_, _, _| {});
            for ((to, shift), sum) in to.iter_mut().zip(shifts).zip(sums) {
                to.logarithm = if sum == A::zero() { sum } else { shift + Number::ln(sum) };
            }
        }
    }

    /// Adds the deltas of these keys and values, and their part of the deltas of all queries.
    fn add_deltas(
        &self,
        HeadResult { delta, .. }: &HeadResult<'_, A>,
        statistics: &[Statistics<A>],
        range: &Range<usize>,
        [dq, dk, dv]: &mut [&mut [A]; 3],
        hides: bool,
    ) {
        let (length, width, depth, one) = (self.q.nrows(), self.q.ncols(), self.v.ncols(), A::of(1.0));
        let len = ROWS.min(length) * KEYS.min(range.len());
        let mut scratch = Scratch::take(2 * len);
        let (weights, slopes) = scratch.as_mut_slice().split_at_mut(len);
        for block in blocks(range.clone(), KEYS) {
            let first = if self.causal { block.start / ROWS * ROWS } else { 0 };
            for rows in blocks(first..length.max(first), ROWS) {
                let keys = block.start..block.end.min(self.visible(&rows));
                let (p, ds) = (&mut weights[..rows.len() * keys.len()], &mut slopes[..rows.len() * keys.len()]);
                let statistics = &statistics[rows.clone()];
                if self.visible(&rows) <= KEYS {
                    self.softmax(&rows, &keys, p);
                } else {
                    self.scores(&rows, &keys, p);
                    for (row, Statistics { logarithm, .. }) in p.chunks_exact_mut(keys.len()).zip(statistics) {
                        row.iter_mut().for_each(|x| *x = *x - *logarithm);
                    }
                    map_in_place(Unary::Exp, p);
                }
                let (q, k, v) = (rows_of(&self.q, &rows), rows_of(&self.k, &keys), rows_of(&self.v, &keys));
                let delta = rows_of(delta, &rows);
                if hides {
                    let rows = p.chunks_exact_mut(keys.len()).zip(delta.rows());
                    rows.filter(|(_, delta)| delta.iter().all(|&d| d == A::zero()))
                        .for_each(|(p, _)| p.fill(A::zero()));
                }
                let (dq, from) = (&mut dq[rows.start * width..], keys.start - range.start);
                let (dk, dv) = (&mut dk[from * width..], &mut dv[from * depth..]);
                let to = &mut view_mut(keys.len(), depth, dv);
                multiply(hides, view(rows.len(), keys.len(), p).reversed_axes(), delta, one, to);
                let to = &mut view_mut(rows.len(), keys.len(), ds);
                product_into(one, delta, v.reversed_axes(), A::zero(), to);
                vectorized(
                    #[inline(always)]
                    || {
                        let lanes = ds.chunks_exact_mut(keys.len()).zip(p.chunks_exact(keys.len()));
                        for ((ds, p), &Statistics { dot, .. }) in lanes.zip(statistics) {
                            ds.iter_mut().zip(p).for_each(|(ds, &p)| *ds = p * (*ds - dot));
                        }
                    },
                );
                if hides {
                    let hidden = ds.iter_mut().zip(&*p).filter(|(_, p)| **p == A::zero());
                    hidden.for_each(|(ds, _)| *ds = A::zero());
                }
                let ds = view(rows.len(), keys.len(), ds);
                multiply(hides, ds, k, one, &mut view_mut(rows.len(), width, dq));
                multiply(hides, ds.reversed_axes(), q, one, &mut view_mut(keys.len(), width, dk));
            }
        }
    }
}

fn rows_of<'a, A>(matrix: &ArrayView2<'a, A>, rows: &Range<usize>) -> ArrayView2<'a, A> {
    matrix.slice_move(s![rows.clone(), ..])
}

/// Softmax(q · kᵀ) · v of all heads, `[heads, L, Ev]` in row-major order.
pub(crate) fn attend<A: Element>(heads: &[Head<'_, A>]) -> Vec<A> {
    let Some(first) = heads.first() else { return Vec::new() };
    let (length, depth) = (first.q.nrows(), first.v.ncols());
    if length * depth == 0 || first.k.nrows() == 0 {
        return zeros(heads.len() * length * depth);
    }
    let mut result: Vec<A> = buffers::take_filled(heads.len() * length * depth);
    let mut parts = Vec::new();
    for (head, to) in heads.iter().zip(result.chunks_exact_mut(length * depth)) {
        parts.extend(blocks(0..length, ROWS).zip(to.chunks_mut(ROWS * depth)).map(|(rows, to)| (head, rows, to)));
    }
    let nanoseconds = heads.len() as f64 * first.nanoseconds() / parts.len() as f64;
    parallel::for_each_mut(&mut parts, nanoseconds, |_, (head, rows, to)| head.attend(rows, to));
    result
}

/// The deltas of the queries, keys and values of all heads, each in row-major order, one after the
/// other. The weights are computed a second time.
pub(crate) fn attend_deltas<A: Element>(heads: &[Head<'_, A>], results: &[HeadResult<'_, A>]) -> Vec<A> {
    let deltas = deltas_by(false, heads, results);
    if are_finite(&deltas) { deltas } else { deltas_by(true, heads, results) }
}

fn deltas_by<A: Element>(hides: bool, heads: &[Head<'_, A>], results: &[HeadResult<'_, A>]) -> Vec<A> {
    let Some(first) = heads.first() else { return Vec::new() };
    let ([length, width], [keys, depth]) = ([first.q.nrows(), first.q.ncols()], [first.k.nrows(), first.v.ncols()]);
    let lengths = [length * width, keys * width, keys * depth].map(|len| heads.len() * len);
    let mut deltas = zeros(lengths.iter().sum());
    if length == 0 || keys == 0 {
        return deltas;
    }
    let nanoseconds = heads.len() as f64 * first.nanoseconds();
    let mut statistics = vec![Statistics { dot: A::zero(), logarithm: A::zero() }; heads.len() * length];
    let mut parts = Vec::new();
    for ((head, result), to) in heads.iter().zip(results).zip(statistics.chunks_exact_mut(length)) {
        parts.extend(blocks(0..length, ROWS).zip(to.chunks_mut(ROWS)).map(|(rows, to)| (head, result, rows, to)));
    }
    let each = nanoseconds / 2.0 / parts.len() as f64;
    parallel::for_each_mut(&mut parts, each, |_, (head, result, rows, to)| head.summarize(result, rows, to));

    // each part of the keys sums its own deltas of the queries
    let most = (KEY_PARTS / heads.len()).clamp(1, keys.div_ceil(KEYS));
    let each = keys.div_ceil(KEYS).div_ceil(most) * KEYS;
    let ranges: Vec<_> = blocks(0..keys, each).collect();
    let (dq, rest) = deltas.split_at_mut(lengths[0]);
    let (mut dk, mut dv) = rest.split_at_mut(lengths[1]);
    let mut sums = zeros(if ranges.len() > 1 { ranges.len() * dq.len() } else { 0 });
    let mut sums_left = if ranges.len() > 1 { &mut sums[..] } else { &mut *dq };
    let mut parts = Vec::new();
    for ((head, result), statistics) in heads.iter().zip(results).zip(statistics.chunks_exact(length)) {
        for keys in ranges.iter().cloned() {
            let to = [(&mut sums_left, length * width), (&mut dk, keys.len() * width), (&mut dv, keys.len() * depth)]
                .map(|(rest, len)| rest.split_off_mut(..len).expect("one element each"));
            parts.push((head, result, statistics, keys, to));
        }
    }
    let each = 2.5 * nanoseconds / parts.len() as f64;
    parallel::for_each_mut(&mut parts, each, |_, (head, result, statistics, keys, to)| {
        head.add_deltas(result, statistics, keys, to, hides);
    });
    if ranges.len() > 1 && width > 0 {
        for (to, sums) in dq.chunks_exact_mut(length * width).zip(sums.chunks_exact(ranges.len() * length * width)) {
            sums.chunks_exact(length * width).for_each(|sums| add_assign(to, sums));
        }
    }
    deltas
}

/// The estimated time of [`attend`] for one head of these lengths L, S, E and Ev.
pub(crate) fn nanoseconds_of_attention<A: Element>([rows, keys, width, depth]: [usize; 4]) -> f64 {
    let products = gemm::nanoseconds::<A>(rows, width, keys) + gemm::nanoseconds::<A>(rows, keys, depth);
    products + 1.5 * (rows * keys) as f64
}

/// Ranges of this length, and a shorter last one.
fn blocks(range: Range<usize>, len: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(len).map(move |start| start..(start + len).min(end))
}

fn view<A>(rows: usize, columns: usize, elements: &[A]) -> ArrayView2<'_, A> {
    ArrayView2::from_shape((rows, columns), &elements[..rows * columns]).expect("as many elements")
}

fn view_mut<A>(rows: usize, columns: usize, elements: &mut [A]) -> ArrayViewMut2<'_, A> {
    ArrayViewMut2::from_shape((rows, columns), &mut elements[..rows * columns]).expect("as many elements")
}

/// A sum that is vectorised across [`LANE_GROUP`] accumulators.
#[inline(always)]
fn sum_of_lanes<A: Element>(terms: &[A]) -> A {
    let (rows, rest) = terms.as_chunks::<LANE_GROUP>();
    let mut sums = [A::zero(); LANE_GROUP];
    sums[..rest.len()].copy_from_slice(rest);
    for row in rows {
        for i in 0..LANE_GROUP {
            sums[i] = sums[i] + row[i];
        }
    }
    let mut left = LANE_GROUP;
    while left > 1 {
        left /= 2;
        for i in 0..left {
            sums[i] = sums[i] + sums[left + i];
        }
    }
    sums[0]
}
