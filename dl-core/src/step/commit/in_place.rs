//! In-place gradient-descent updates of a step, shared among threads.

use super::{Action, PendingUpdate, Source};
use dl_parallel::fork_join;
use dl_parallel::sync::current_num_threads;

/// Applies in-place gradient-descent updates that are worth sharing. They cannot fail.
///
/// Each update preferably runs on the thread that used the weight in the forward pass and has it in
/// its cache, as long as all threads stay busy. An expensive update occupies all threads by itself,
/// and all of them used its weight. Such updates run one after the other, each parallelized by its
/// operation, so that no thread idles at the end.
#[inline(never)]
pub(super) fn apply_all(pending: &[PendingUpdate<'_>]) {
    let steps = pending.iter().filter_map(|update| match (&update.action, update.source) {
        (Action::InPlace(_), Source::Delta(delta)) => Some((update.variable.affinity_distance(), delta.cost(), update)),
        _ => None,
    });
    let threads = current_num_threads();
    let enough = if threads <= MAX_THREADS_FOR_SPLIT {
        EXPENSIVE_NANOSECONDS_PER_THREAD * threads as f64
    } else {
        f64::INFINITY
    };
    let (expensive, mut steps): (Vec<_>, Vec<_>) = steps.partition(|&(_, cost, _)| cost >= enough);
    expensive.iter().for_each(|(_, _, update)| update.apply());
    let nanoseconds: f64 = steps.iter().map(|(_, cost, _)| cost).sum();
    let chunks = group_into_chunks(&mut steps);
    let each = nanoseconds / chunks.len().max(1) as f64;
    let first = fork_join::first_chunk_of_this_thread(chunks.len(), each);
    fork_join::for_each(chunks.len(), each, |chunk| {
        let chunk = chunks[(chunk + chunks.len() - first) % chunks.len()];
        chunk.iter().for_each(|(_, _, update)| update.apply());
    });
}

/// Sorts updates by the thread that used the weight (this thread first) and by cost, and groups the
/// cheap updates of each thread.
fn group_into_chunks<T>(steps: &mut [(usize, f64, T)]) -> Vec<&[(usize, f64, T)]> {
    steps.sort_by_key(|&(elsewhere, cost, _)| (elsewhere, fork_join::is_worth_sharing(cost)));
    let mut spent = steps.first().map_or(0.0, |&(_, cost, _)| cost);
    let same_chunk = |&(before, _, _): &(usize, f64, T), &(elsewhere, cost, _): &(usize, f64, T)| {
        spent += cost;
        let same_chunk = before == elsewhere && spent < CHUNK_NANOSECONDS;
        if !same_chunk {
            spent = cost;
        }
        same_chunk
    };
    steps.chunk_by(same_chunk).collect()
}

/// Cheap updates are grouped into chunks of about this time.
const CHUNK_NANOSECONDS: f64 = 20_000.0;

/// A matrix product is split into one chunk per thread if it takes this long on each.
const EXPENSIVE_NANOSECONDS_PER_THREAD: f64 = 50_000.0;
/// With more threads, it is split this way only if it takes very long.
const MAX_THREADS_FOR_SPLIT: usize = 8;

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;

    #[test]
    fn group_into_chunks_groups_cheap_updates_of_one_thread() {
        // (thread that used the weight, nanoseconds, index)
        let mut steps = [(1, 50e3, 0), (0, 9e3, 1), (1, 3e3, 2), (0, 40e3, 3), (0, 8e3, 4), (0, 7e3, 5), (1, 2e3, 6)];
        let chunks = group_into_chunks(&mut steps);
        let numbers: Vec<Vec<usize>> =
            chunks.iter().map(|chunk| chunk.iter().map(|&(_, _, number)| number).collect()).collect();
        assert_eq!(numbers, [vec![1, 4], vec![5], vec![3], vec![2, 6], vec![0]]);
        assert!(group_into_chunks::<()>(&mut []).is_empty());
    }
}
