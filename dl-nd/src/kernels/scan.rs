//! Recurrences along an axis. Each lane is computed in order, so the bits do not depend on the
//! division into parts.

use super::LANE_GROUP;
use crate::fusion::CHUNK_LEN;
use crate::tensor::Item;
use dl_core::parallel;
use dl_core::simd::vectorized;
use ndarray::{ArrayView3, ArrayViewMut3, Axis};

/// Calls `step` for the elements of each lane of `x` and `y`, which are `[before, length, after]`
/// around the axis of this length, from its first or from its last element on. Its arguments are
/// the position, the elements, and the state of the lane, which is `initial` at first.
/// `nanoseconds` is the estimated time per element. `step` must be `#[inline(always)]`.
pub(crate) fn scan<A: Item, B: Item, S: Copy + Sync, T: Copy + Sync>(
    (x, y): (&[A], &mut [B]),
    shape: [usize; 3],
    from_end: bool,
    nanoseconds: f64,
    initial: (S, T),
    step: impl Fn(usize, A, &mut B, &mut S, &mut T) + Sync,
) {
    let [before, length, after] = shape;
    if x.is_empty() {
        return;
    }
    let nanoseconds = nanoseconds * x.len() as f64;
    let lanes = Lanes { length, from_end, initial, step };
    if after == 1 {
        let each = (CHUNK_LEN / length).next_multiple_of(LANE_GROUP).max(LANE_GROUP) * length;
        let mut parts: Vec<_> = x.chunks(each).zip(y.chunks_mut(each)).collect();
        let nanoseconds = nanoseconds / parts.len() as f64;
        return parallel::for_each_mut(&mut parts, nanoseconds, |_, (x, y)| {
            let groups = x.chunks(LANE_GROUP * length).zip(y.chunks_mut(LANE_GROUP * length));
            groups.for_each(|(x, y)| lanes.run_group(x, y));
        });
    }
    let (axis, each) = if before > 1 { (Axis(0), before.div_ceil(64)) } else { (Axis(2), (after / 16).max(128)) };
    let x = ArrayView3::from_shape(shape, x).expect("as many elements");
    let mut y = ArrayViewMut3::from_shape(shape, y).expect("as many elements");
    let mut parts: Vec<_> = x.axis_chunks_iter(axis, each).zip(y.axis_chunks_iter_mut(axis, each)).collect();
    let nanoseconds = nanoseconds / parts.len() as f64;
    parallel::for_each_mut(&mut parts, nanoseconds, |_, (x, y)| {
        for (x, mut y) in x.outer_iter().zip(y.outer_iter_mut()) {
            let (mut states, mut others) = (vec![initial.0; x.ncols()], vec![initial.1; x.ncols()]);
            for at in lanes.order(0, length) {
                let (x, mut y) = (x.row(at), y.row_mut(at));
                let (x, y) = (x.as_slice().expect("contiguous rows"), y.as_slice_mut().expect("contiguous rows"));
                lanes.run_row(at, x, y, &mut states, &mut others);
            }
        }
    });
}

struct Lanes<S, T, F> {
    length: usize,
    from_end: bool,
    initial: (S, T),
    step: F,
}

impl<S: Copy, T: Copy, F> Lanes<S, T, F> {
    fn order(&self, start: usize, len: usize) -> impl Iterator<Item = usize> + use<S, T, F> {
        let from_end = self.from_end;
        (0..len).map(move |at| start + if from_end { len - 1 - at } else { at })
    }

    fn run_row<A: Copy, B>(&self, at: usize, x: &[A], y: &mut [B], states: &mut [S], others: &mut [T])
    where
        F: Fn(usize, A, &mut B, &mut S, &mut T),
    {
        vectorized(
            #[inline(always)]
            || {
                let states = states.iter_mut().zip(others.iter_mut());
                for ((&x, y), (state, other)) in x.iter().zip(y.iter_mut()).zip(states) {
                    (self.step)(at, x, y, state, other);
                }
            },
        );
    }

    /// A few contiguous lanes. They are copied to columns first, so that all take a step together.
    fn run_group<A: Copy, B: Copy>(&self, x: &[A], y: &mut [B])
    where
        F: Fn(usize, A, &mut B, &mut S, &mut T),
    {
        const STEPS: usize = 16;
        let (length, count) = (self.length, x.len() / self.length);
        let (mut states, mut others) = ([self.initial.0; LANE_GROUP], [self.initial.1; LANE_GROUP]);
        let (mut from, mut to) = ([[x[0]; LANE_GROUP]; STEPS], [[y[0]; LANE_GROUP]; STEPS]);
        let mut done = 0;
        while done < length {
            let now = STEPS.min(length - done);
            let start = if self.from_end { length - done - now } else { done };
            for lane in 0..count {
                let lane_at = lane * length + start;
                x[lane_at..][..now].iter().zip(&mut from).for_each(|(&x, from)| from[lane] = x);
                y[lane_at..][..now].iter().zip(&mut to).for_each(|(&y, to)| to[lane] = y);
            }
            vectorized(
                #[inline(always)]
                || {
                    for step in 0..now {
                        let step = if self.from_end { now - 1 - step } else { step };
                        for lane in 0..LANE_GROUP {
                            let (state, other) = (&mut states[lane], &mut others[lane]);
                            (self.step)(start + step, from[step][lane], &mut to[step][lane], state, other);
                        }
                    }
                },
            );
            for lane in 0..count {
                y[lane * length + start..][..now].iter_mut().zip(&to).for_each(|(y, to)| *y = to[lane]);
            }
            done += now;
        }
    }
}
