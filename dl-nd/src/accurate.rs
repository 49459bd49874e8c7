//! Sums whose rounding error grows with the logarithm of the number of terms, not with the number: the halves are summed on their own (Higham,
//! *Accuracy and Stability of Numerical Algorithms*, 2002, section 4.2). The order is fixed by the shape and the strides.

use crate::element::Element;
use ndarray::{ArrayD, ArrayView1, ArrayViewD, Axis};

/// So many terms are summed in a run.
const RUN: usize = 128;

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
    if elements.len() <= RUN {
        return ArrayView1::from(elements).sum();
    }
    let (left, right) = elements.split_at((elements.len() / 2).next_multiple_of(8));
    sum_slice(left) + sum_slice(right)
}

/// The sums along an axis, which stays, with length 1.
pub(crate) fn sum_along<A: Element>(x: ArrayViewD<'_, A>, axis: usize) -> ArrayD<A> {
    let axis = Axis(axis);
    if x.len_of(axis) <= RUN {
        return x.sum_axis(axis).insert_axis(axis);
    }
    let half = x.len_of(axis) / 2;
    let (left, right) = x.split_at(axis, half);
    let mut sums = sum_along(left, axis.index());
    sums.zip_mut_with(&sum_along(right, axis.index()), |sum, &right| *sum = *sum + right);
    sums
}

/// A sum of terms that come one by one.
pub(crate) struct Sum<A> {
    run: A,
    terms: usize,
    /// Of as many runs as the bits of their number say, the sum of 2ⁱ runs at place i.
    of_runs: [A; 48],
}

impl<A: Element> Sum<A> {
    pub(crate) fn new() -> Self {
        Sum { run: A::zero(), terms: 0, of_runs: [A::zero(); 48] }
    }

    pub(crate) fn add(&mut self, term: A) {
        self.run = self.run + term;
        self.terms += 1;
        if self.terms.is_multiple_of(RUN) {
            let runs_before = self.terms / RUN - 1;
            let place = runs_before.trailing_ones() as usize;
            let sum =
                self.of_runs[..place].iter().fold(std::mem::replace(&mut self.run, A::zero()), |sum, &of| of + sum);
            self.of_runs[place] = sum;
        }
    }

    pub(crate) fn total(&self) -> A {
        let runs = self.terms / RUN;
        let of_runs = self.of_runs.iter().enumerate().filter(|(place, _)| runs >> place & 1 == 1);
        of_runs.fold(self.run, |sum, (_, &of)| of + sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array, Array1};

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
        tenths().iter().for_each(|&term| sum.add(term));
        is_right(sum.total());
    }

    #[test]
    fn few_terms() {
        for count in [0, 1, 127, 128, 129, 384, 385] {
            let mut sum = Sum::new();
            (0..count).for_each(|i| sum.add(f64::from(i)));
            assert_eq!(sum.total(), f64::from(count * (count - 1) / 2));
        }
    }
}
