//! Replicas of a weight, used and released by several threads while the initial handle is dropped:
//! the weight must be freed once, after the last use.

use super::tracked::Tracked;
use super::{eventually, explore, thread};
use crate::api::differentiable::Differentiable;
use crate::api::weight::Weight;
use dl_parallel::thread_number::set_thread_number;

/// Runs each part in a thread with a clone of one weight and the replica of this index, while the
/// initial handle is dropped.
fn during_drop_of_initial_handle<const N: usize>(parts: [(usize, fn(Weight<Tracked>)); N]) {
    explore(move || {
        set_thread_number(0);
        let value = Tracked::new(1.0);
        let copies = value.count();
        let first = Weight::new(value);
        let threads = parts.map(|(leaf, part)| {
            let weight = first.clone();
            thread::spawn(move || {
                set_thread_number(leaf);
                part(weight);
            })
        });
        drop(first);
        for thread in threads {
            thread.join().expect("no part of a model panics");
        }
        eventually(|| copies.left() == 0);
    });
}

#[test]
fn initial_handle_dropped_during_other_drop_frees_weight_once() {
    during_drop_of_initial_handle([(1, drop)]);
}

#[test]
fn initial_handle_dropped_during_replica_creation_frees_weight_once() {
    during_drop_of_initial_handle([(1, |weight| drop(weight.layer()))]);
}

#[test]
fn initial_handle_dropped_during_replica_reuse_frees_weight_once() {
    during_drop_of_initial_handle([(1, |weight| {
        drop(weight.layer());
        let layer = weight.layer();
        drop(weight);
        assert_eq!(layer.any().variable().expect("a leaf").id(), 1);
    })]);
}

/// A thread that frees a leaf need not have used it.
#[test]
fn idle_replica_is_freed_by_thread_that_never_used_it() {
    during_drop_of_initial_handle([
        (1, |weight| {
            let layer = weight.layer();
            drop(weight);
            drop(layer);
        }),
        (0, drop),
    ]);
}

#[test]
fn replica_shared_by_two_threads_frees_weight_once() {
    during_drop_of_initial_handle([(1, |weight| drop(weight.layer())), (1, |weight| drop(weight.layer()))]);
}

#[test]
fn handle_cloned_on_other_thread_frees_weight_once() {
    during_drop_of_initial_handle([(1, drop), (0, |weight| drop(weight.clone()))]);
}

/// The handles of a product are released together: then the replica becomes idle, or the weight is
/// freed.
#[test]
fn initial_handle_dropped_during_joint_release_frees_weight_once() {
    explore(|| {
        set_thread_number(0);
        let first = Weight::new(1.0_f64);
        let weight = first.clone();
        let thread = thread::spawn(move || {
            set_thread_number(1);
            let square = &weight * &weight;
            drop(weight);
            drop(square);
        });
        drop(first);
        thread.join().expect("no part of a model panics");
    });
}
