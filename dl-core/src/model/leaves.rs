//! The leaves of a weight, used and given back by several threads while its first handle goes: it is freed once, after the last use.

use super::tracked::Tracked;
use super::{Part, eventually, explore, together};
use crate::weight::Weight;
use crate::Differentiable;

/// Runs the parts, with a clone of one weight for each, while the first handle goes.
fn with_a_weight_that_goes<const N: usize>(parts: [fn(Weight<Tracked>); N]) {
    explore(move || {
        let value = Tracked::new(1.0);
        let copies = value.count();
        let first = Weight::new(value);
        let mut all: Vec<Part> = Vec::new();
        for part in parts {
            let weight = first.clone();
            all.push(Box::new(move || part(weight)));
        }
        let gone: Part = Box::new(move || drop(first));
        all.push(gone);
        together(all);
        eventually(|| copies.left() == 0);
    });
}

#[test]
fn the_first_handle_goes_while_another_goes() {
    with_a_weight_that_goes([drop]);
}

#[test]
fn the_first_handle_goes_while_another_thread_makes_a_leaf_of_its_own() {
    with_a_weight_that_goes([|weight| drop(weight.layer())]);
}

#[test]
fn the_first_handle_goes_while_a_leaf_falls_idle_and_comes_into_use_again() {
    with_a_weight_that_goes([|weight| {
        drop(weight.layer());
        let layer = weight.layer();
        drop(weight);
        assert_eq!(layer.any().variable().expect("a leaf").id(), 1);
    }]);
}

#[test]
fn three_threads_give_back_what_they_have() {
    with_a_weight_that_goes([drop, |weight| drop(weight.clone())]);
}
