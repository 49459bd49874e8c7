//! Pairwise summation: the rounding error grows with the logarithm of the number of terms (Higham,
//! *Accuracy and Stability of Numerical Algorithms*, 2002, section 4.2).
//!
//! Terms are summed in runs of [`RUN_LEN`], and the sums of the runs are the leaves of a binary
//! tree. The order of the additions depends on the number of terms only.

use crate::tensor::Element;
use dl_core::simd::vectorized;

/// The number of terms of a run.
pub(crate) const RUN_LEN: usize = 128;

/// Combines the sums of consecutive chunks of `each` terms; the last chunk may be shorter. `each`
/// must be a power of two and a multiple of [`RUN_LEN`].
pub(crate) fn combine_chunk_sums<A: Element>(
    mut sums: impl DoubleEndedIterator<Item = A>,
    each: usize,
    len: usize,
) -> A {
    let rest = if len.is_multiple_of(each) { None } else { sums.next_back() };
    let mut whole = SumTree::new();
    sums.for_each(|sum| whole.push(sum));
    let sum = whole.total(rest.unwrap_or_else(A::zero));
    // the bits of a NaN depend on fusion if the terms were not stored
    if sum.is_nan() { A::nan() } else { sum }
}

/// The pairwise sum of the terms. Each run is summed sequentially.
pub(crate) fn sum_in_order<A: Element>(terms: &[A]) -> A {
    if terms.len() < RUN_LEN {
        // the same, to the bit, without the tree
        return terms.iter().fold(A::zero(), |sum, &term| sum + term);
    }
    let mut sum = PairwiseSum::new();
    let rest = sum.add_runs::<8>(terms);
    let rest = sum.add_runs::<2>(rest);
    rest.chunks(RUN_LEN).for_each(|run| sum.add_in_order(run));
    sum.total()
}

/// [`sum_in_order`] of consecutive lanes of this length, one for each of `sums`. Eight lanes are
/// summed at a time, so that an addition need not wait for the one before it in the same lane.
pub(crate) fn sums_in_order<A: Element>(lanes: &[A], len: usize, sums: &mut [A]) {
    const TOGETHER: usize = 8;
    if len == 0 {
        return sums.fill(A::zero());
    }
    let mut groups = sums.chunks_exact_mut(TOGETHER);
    let mut group_lanes = lanes.chunks_exact(TOGETHER * len);
    for (sums, lanes) in groups.by_ref().zip(group_lanes.by_ref()) {
        let lanes: [&[A]; TOGETHER] = std::array::from_fn(|lane| &lanes[lane * len..][..len]);
        // a shorter lane is a part of one run
        let mut trees: Option<[SumTree<A>; TOGETHER]> =
            (len >= RUN_LEN).then(|| std::array::from_fn(|_| SumTree::new()));
        let mut rest = [A::zero(); TOGETHER];
        for start in (0..len).step_by(RUN_LEN) {
            let runs = lanes.map(|lane| &lane[start..len.min(start + RUN_LEN)]);
            let mut of_runs = [A::zero(); TOGETHER];
            for at in 0..runs[0].len() {
                for (sum, run) in of_runs.iter_mut().zip(runs) {
                    *sum = *sum + run[at];
                }
            }
            match &mut trees {
                Some(trees) if runs[0].len() == RUN_LEN => {
                    trees.iter_mut().zip(of_runs).for_each(|(tree, sum)| tree.push(sum));
                }
                _ => rest = of_runs,
            }
        }
        match trees {
            Some(trees) => {
                sums.iter_mut().zip(trees.iter().zip(rest)).for_each(|(sum, (tree, rest))| *sum = tree.total(rest));
            }
            None => sums.copy_from_slice(&rest),
        }
    }
    let lanes = group_lanes.remainder().chunks_exact(len);
    groups.into_remainder().iter_mut().zip(lanes).for_each(|(sum, lane)| *sum = sum_in_order(lane));
}

/// A pairwise sum of terms that arrive in order.
pub(crate) struct PairwiseSum<A> {
    run: A,
    terms: usize,
    runs: SumTree<A>,
}

impl<A: Element> PairwiseSum<A> {
    pub(crate) fn new() -> Self {
        PairwiseSum { run: A::zero(), terms: 0, runs: SumTree::new() }
    }

    /// Adds a few terms sequentially. They must belong to one run.
    pub(crate) fn add_in_order(&mut self, terms: &[A]) {
        debug_assert!(self.terms % RUN_LEN + terms.len() <= RUN_LEN, "they belong to two runs");
        self.run = terms.iter().fold(self.run, |run, &term| run + term);
        self.terms += terms.len();
        if self.terms.is_multiple_of(RUN_LEN) {
            self.runs.push(std::mem::replace(&mut self.run, A::zero()));
        }
    }

    /// Adds the whole runs of `terms`, `N` at a time, so that an addition need not wait for the one
    /// before it in the same run. Returns the other terms.
    fn add_runs<'a, const N: usize>(&mut self, terms: &'a [A]) -> &'a [A] {
        let groups = terms.chunks_exact(N * RUN_LEN);
        let rest = groups.remainder();
        self.terms += terms.len() - rest.len();
        for group in groups {
            let (runs, _) = group.as_chunks::<RUN_LEN>();
            let mut sums = [A::zero(); N];
            for at in 0..RUN_LEN {
                for (sum, run) in sums.iter_mut().zip(runs) {
                    *sum = *sum + run[at];
                }
            }
            sums.into_iter().for_each(|sum| self.runs.push(sum));
        }
        rest
    }

    /// Adds many terms; each run is summed in lanes. The number of terms before must be a multiple
    /// of the run length.
    pub(crate) fn add_all(&mut self, terms: &[A]) {
        debug_assert!(self.terms.is_multiple_of(RUN_LEN), "the terms before were the last ones");
        self.terms += terms.len();
        vectorized(
            #[inline(always)]
            || {
                let runs = terms.chunks_exact(RUN_LEN);
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

/// The number of accumulators of a run.
const LANES: usize = 32;

#[inline(always)]
fn sum_of_run<A: Element>(run: &[A]) -> A {
    let (rows, rest) = run.as_chunks::<LANES>();
    let mut sums = [A::zero(); LANES];
    if let ([a, b, c, d], []) = (rows, rest) {
        // a whole run, the usual case: one expression per lane
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
    let sums: [A; 16] = add_halves(&sums);
    let sums: [A; 8] = add_halves(&sums);
    let [a, b, c, d] = add_halves(&sums);
    (a + c) + (b + d)
}

/// Adds the upper half of an array to the lower half.
#[inline(always)]
fn add_halves<A: Element, const N: usize, const HALF: usize>(all: &[A; N]) -> [A; HALF] {
    const { assert!(N == 2 * HALF) };
    // LLVM would otherwise split the lanes into scalars. The copy avoids a store-forwarding stall:
    // loads of other widths than the preceding stores wait until the stores reach the cache
    let (first, second) = std::hint::black_box(all).split_at(HALF);
    let mut sums = [A::zero(); HALF];
    for lane in 0..HALF {
        sums[lane] = first[lane] + second[lane];
    }
    sums
}

/// A binary counter of partial sums: both halves of an inner sum have the same number of leaves.
struct SumTree<A> {
    leaves: usize,
    /// `sums[i]` is the sum of 2ⁱ leaves, valid for the bits of `leaves` that are 1.
    sums: [A; 48],
}

impl<A: Element> SumTree<A> {
    fn new() -> Self {
        SumTree { leaves: 0, sums: [A::zero(); 48] }
    }

    fn push(&mut self, leaf: A) {
        let slot = self.leaves.trailing_ones() as usize;
        self.sums[slot] = self.sums[..slot].iter().fold(leaf, |sum, &of| of + sum);
        self.leaves += 1;
    }

    fn total(&self, rest: A) -> A {
        if self.leaves == 0 {
            return rest;
        }
        let sums = self.sums.iter().enumerate().filter(|(slot, _)| self.leaves >> slot & 1 == 1);
        sums.fold(rest, |sum, (_, &of)| of + sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chunk length does not change a bit of the sum.
    #[test]
    fn chunk_length_changes_no_bit() {
        let numbers: Vec<f32> = (0..200_003).map(|i| ((i * 7919) % 1009) as f32 * 0.1 - 37.7).collect();
        for each in (11..=15).map(|power| 1 << power) {
            for len in
                [each - 1, each, each + 1, 3 * each - RUN_LEN, 3 * each + RUN_LEN, 5 * each + RUN_LEN + 1, 6 * each]
            {
                let numbers = &numbers[..len];
                let sum = |numbers: &[f32]| {
                    let mut sum = PairwiseSum::new();
                    sum.add_all(numbers);
                    sum.total()
                };
                let sums: Vec<f32> = numbers.chunks(each).map(sum).collect();
                assert_eq!(
                    combine_chunk_sums(sums.into_iter(), each, len).to_bits(),
                    sum(numbers).to_bits(),
                    "{len} by {each}"
                );
            }
        }
    }

    #[test]
    fn few_terms_sum_exactly() {
        for count in [0, 1, 127, 128, 129, 384, 385, 1023, 1024, 1281, 3000] {
            let mut sum = PairwiseSum::new();
            (0..count).for_each(|i| sum.add_in_order(&[f64::from(i)]));
            assert_eq!(sum.total(), f64::from(count * (count - 1) / 2));
            // sixteen at a time, the same sum to the bit
            let tenths: Vec<f32> = (0..count).map(|i| i as f32 * 0.1).collect();
            let (mut one_by_one, mut in_sixteens) = (PairwiseSum::new(), PairwiseSum::new());
            tenths.iter().for_each(|&term| one_by_one.add_in_order(&[term]));
            tenths.chunks(16).for_each(|terms| in_sixteens.add_in_order(terms));
            assert_eq!(one_by_one.total(), in_sixteens.total());
            assert_eq!(one_by_one.total(), sum_in_order(&tenths));
        }
    }

    #[test]
    fn sums_of_several_lanes_have_bits_of_each() {
        for len in [0, 1, 2, 127, 128, 129, 256, 300, 1500] {
            let lanes: Vec<f32> = (0..19 * len).map(|i| ((i * 7919) % 1009) as f32 * 0.1 - 37.7).collect();
            for count in [1, 7, 8, 9, 19] {
                let mut sums = vec![f32::NAN; count];
                sums_in_order(&lanes[..count * len], len, &mut sums);
                let each = (0..count).map(|lane| sum_in_order(&lanes[lane * len..][..len]));
                assert!(sums.iter().zip(each).all(|(sum, one)| sum.to_bits() == one.to_bits()), "{count} of {len}");
            }
        }
    }
}
