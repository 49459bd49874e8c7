//! Handles to one node, dropped by several threads: the node must be freed once, after the last
//! use.

use super::{explore, together};
use crate::api::layer::Layer;

#[test]
fn two_threads_give_their_handles_back() {
    explore(|| {
        let first = Layer::constant(1.0_f64);
        let second = first.clone();
        together([Box::new(move || drop(second)) as super::Part, Box::new(move || drop(first))]);
    });
}

#[test]
fn a_handle_is_cloned_while_another_one_goes() {
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
fn an_operand_goes_with_its_last_consumer() {
    explore(|| {
        let shared = Layer::constant(1.0_f64);
        let (left, right) = (shared.clone() + 1.0, shared + 2.0);
        together([Box::new(move || drop(left)) as super::Part, Box::new(move || drop(right))]);
    });
}

#[test]
fn handles_that_go_together_go_while_another_one_does() {
    explore(|| {
        let shared = Layer::constant(1.0_f64);
        let square = &shared * &shared;
        together([Box::new(move || drop(square)) as super::Part, Box::new(move || drop(shared))]);
    });
}

/// Both in the middle of a chain and at its end.
#[test]
fn an_operand_that_a_chain_has_twice_goes_with_it_or_after_it() {
    explore(|| {
        let (x, y) = (Layer::constant(1.0_f64), Layer::constant(2.0_f64));
        let chain = (&x * 2.0 * &x + &x) * &y + &y;
        together([Box::new(move || drop(chain)) as super::Part, Box::new(move || drop(x)), Box::new(move || drop(y))]);
    });
}
