//! Cumulative sums with compensation: `error` accumulates the rounding errors of `sum` (Neumaier,
//! 1974). Each lane is summed in order, so the bits do not depend on the division into parts.

use super::LANE_GROUP;
use crate::fusion::CHUNK_LEN;
use crate::tensor::Element;
use dl_core::parallel;
use dl_core::simd::vectorized;
use ndarray::{ArrayViewMut3, Axis};

/// Replaces the elements of `[before, length, after]` by their cumulative sums along the axis of
/// this length, from its first or from its last element on.
pub(crate) fn running_sums<A: Element>(x: &mut [A], shape: [usize; 3], from_end: bool) {
    let [before, length, after] = shape;
    if x.is_empty() {
        return;
    }
    let nanoseconds = 1.0 * x.len() as f64;
    if after == 1 {
        let each = (CHUNK_LEN / length).next_multiple_of(LANE_GROUP).max(LANE_GROUP);
        let mut parts: Vec<&mut [A]> = x.chunks_mut(each * length).collect();
        let nanoseconds = nanoseconds / parts.len() as f64;
        return parallel::for_each_mut(&mut parts, nanoseconds, |_, lanes| {
            lanes.chunks_mut(LANE_GROUP * length).for_each(|lanes| sum_lanes(lanes, length, from_end));
        });
    }
    let (axis, each) = if before > 1 { (Axis(0), before.div_ceil(64)) } else { (Axis(2), (after / 16).max(128)) };
    let mut x = ArrayViewMut3::from_shape(shape, x).expect("as many elements");
    let mut parts: Vec<_> = x.axis_chunks_iter_mut(axis, each).collect();
    let nanoseconds = nanoseconds / parts.len() as f64;
    parallel::for_each_mut(&mut parts, nanoseconds, |_, part| {
        for mut block in part.outer_iter_mut() {
            if from_end {
                block.invert_axis(Axis(0));
            }
            let (mut sums, mut errors) = (vec![A::zero(); block.ncols()], vec![A::zero(); block.ncols()]);
            for mut row in block.outer_iter_mut() {
                let row = row.as_slice_mut().expect("contiguous rows");
                vectorized(
                    #[inline(always)]
                    || step(row, &mut sums, &mut errors),
                );
            }
        }
    });
}

/// Sums a few contiguous lanes. They are copied to columns first, so that all take a step together.
fn sum_lanes<A: Element>(lanes: &mut [A], length: usize, from_end: bool) {
    const STEPS: usize = 16;
    let count = lanes.len() / length;
    let (mut sums, mut errors) = ([A::zero(); LANE_GROUP], [A::zero(); LANE_GROUP]);
    let mut columns = [[A::zero(); LANE_GROUP]; STEPS];
    let mut done = 0;
    while done < length {
        let now = STEPS.min(length - done);
        let start = if from_end { length - done - now } else { done };
        let column = |step: usize| if from_end { now - 1 - step } else { step };
        for lane in 0..count {
            let from = &lanes[lane * length + start..][..now];
            from.iter().enumerate().for_each(|(step, &x)| columns[column(step)][lane] = x);
        }
        vectorized(
            #[inline(always)]
            || {
                for row in &mut columns[..now] {
                    step(row, &mut sums, &mut errors);
                }
            },
        );
        for lane in 0..count {
            let to = &mut lanes[lane * length + start..][..now];
            to.iter_mut().enumerate().for_each(|(step, to)| *to = columns[column(step)][lane]);
        }
        done += now;
    }
}

/// Adds a term to each sum, and replaces the term by that sum.
#[inline(always)]
fn step<A: Element>(terms: &mut [A], sums: &mut [A], errors: &mut [A]) {
    for (x, (sum, error)) in terms.iter_mut().zip(sums.iter_mut().zip(errors.iter_mut())) {
        let next = *sum + *x;
        let lost = if sum.abs() >= x.abs() { (*sum - next) + *x } else { (*x - next) + *sum };
        *error = if lost.is_finite() { *error + lost } else { *error };
        *sum = next;
        *x = next + *error;
    }
}
