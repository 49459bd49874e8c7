//! Handles to one node, dropped by several threads: the node must be freed once, after the last
//! use.

use super::{explore, together};
use crate::graph::layer::Layer;

#[test]
fn handles_dropped_by_two_threads_free_node_once() {
    explore(|| {
        let first = Layer::constant(1.0_f64);
        let second = first.clone();
        together([Box::new(move || drop(second)) as super::Part, Box::new(move || drop(first))]);
    });
}

#[test]
fn handle_cloned_during_drop_of_other_frees_node_once() {
    explore(|| {
        let first = Layer::constant(1.0_f64);
        let second = first.clone();
        together([
            Box::new(move || drop((first.clone(), first))) as super::Part,
            Box::new(move || drop((second.clone(), second))),
        ]);
    });
}

#[test]
fn operand_of_two_consumers_is_freed_with_last() {
    explore(|| {
        let shared = Layer::constant(1.0_f64);
        let (left, right) = (shared.clone() + 1.0, shared + 2.0);
        together([Box::new(move || drop(left)) as super::Part, Box::new(move || drop(right))]);
    });
}

#[test]
fn handles_released_together_during_other_drop_free_node_once() {
    explore(|| {
        let shared = Layer::constant(1.0_f64);
        let square = &shared * &shared;
        together([Box::new(move || drop(square)) as super::Part, Box::new(move || drop(shared))]);
    });
}

/// Both in the middle of a chain and at its end.
#[test]
fn operand_used_twice_in_chain_is_freed_once() {
    explore(|| {
        let (x, y) = (Layer::constant(1.0_f64), Layer::constant(2.0_f64));
        let chain = (&x * 2.0 * &x + &x) * &y + &y;
        together([Box::new(move || drop(chain)) as super::Part, Box::new(move || drop(x)), Box::new(move || drop(y))]);
    });
}
