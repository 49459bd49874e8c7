//! Sums whose rounding error grows with the logarithm of the number of terms: pairwise summation.

use crate::tensor::Element;
use dl_core::simd::vectorized;

/// So many terms are summed in a run.
pub(crate) const RUN_LEN: usize = 128;

/// The sum of so many terms, by the sums of pieces, which come one after the other and have `each`
/// of them, a power of two of [runs](RUN); the last one has the rest.
pub(crate) fn combine_chunk_sums<A: Element>(
    mut sums: impl DoubleEndedIterator<Item = A>,
    each: usize,
    len: usize,
) -> A {
    let rest = if len.is_multiple_of(each) { None } else { sums.next_back() };
    let mut whole = SumTree::new();
    sums.for_each(|sum| whole.push(sum));
    let sum = whole.total(rest.unwrap_or_else(A::zero));
    // of several NaN it may be any, and terms that are not in memory may be others
    if sum.is_nan() { A::nan() } else { sum }
}

/// The sum of terms, each run of which is added up one term after the other.
pub(crate) fn sum_in_order<A: Element>(terms: &[A]) -> A {
    if terms.len() < RUN_LEN {
        // the same to the bit, without room for many runs
        return terms.iter().fold(A::zero(), |sum, &term| sum + term);
    }
    let mut sum = PairwiseSum::new();
    terms.chunks(RUN_LEN).for_each(|run| sum.add_in_order(run));
    sum.total()
}

/// A sum of terms that come one after the other.
pub(crate) struct PairwiseSum<A> {
    run: A,
    terms: usize,
    runs: SumTree<A>,
}

impl<A: Element> PairwiseSum<A> {
    pub(crate) fn new() -> Self {
        PairwiseSum { run: A::zero(), terms: 0, runs: SumTree::new() }
    }

    /// Adds a few terms, of which at most the last one is the last of a run.
    pub(crate) fn add_in_order(&mut self, terms: &[A]) {
        debug_assert!(self.terms % RUN_LEN + terms.len() <= RUN_LEN, "they belong to two runs");
        self.run = terms.iter().fold(self.run, |run, &term| run + term);
        self.terms += terms.len();
        if self.terms.is_multiple_of(RUN_LEN) {
            self.runs.push(std::mem::replace(&mut self.run, A::zero()));
        }
    }

    /// Adds many terms. All but the last ones have to come in whole runs.
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
    let sums: [A; 16] = add_halves(&sums);
    let sums: [A; 8] = add_halves(&sums);
    let [a, b, c, d] = add_halves(&sums);
    (a + c) + (b + d)
}

/// Adds the halves of an array.
#[inline(always)]
fn add_halves<A: Element, const N: usize, const HALF: usize>(all: &[A; N]) -> [A; HALF] {
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
struct SumTree<A> {
    leaves: usize,
    /// The sum of 2ⁱ leaves at place i, for the bits of their number that are 1.
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

    /// However long pieces are, it is the same sum, to the bit.
    #[test]
    fn pieces_of_any_length() {
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
    fn few_terms() {
        for count in [0, 1, 127, 128, 129, 384, 385] {
            let mut sum = PairwiseSum::new();
            (0..count).for_each(|i| sum.add_in_order(&[f64::from(i)]));
            assert_eq!(sum.total(), f64::from(count * (count - 1) / 2));
            // in sixteens it is the same sum, to the bit
            let tenths: Vec<f32> = (0..count).map(|i| i as f32 * 0.1).collect();
            let (mut one_by_one, mut in_sixteens) = (PairwiseSum::new(), PairwiseSum::new());
            tenths.iter().for_each(|&term| one_by_one.add_in_order(&[term]));
            tenths.chunks(16).for_each(|terms| in_sixteens.add_in_order(terms));
            assert_eq!(one_by_one.total(), in_sixteens.total());
        }
    }
}
