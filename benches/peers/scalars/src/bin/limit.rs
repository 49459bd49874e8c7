//! What is possible: a hand-written Wengert list for this purpose only. One vector of operations, which keeps its memory from run to
//! run, with the partial derivatives computed on the way forward; no types, no parallelism, no errors, no laziness.

use scalar_peers::{CHAIN, CHAIN_START, DIAMOND_START, DIAMONDS, RATE, WEIGHTS, run};
use std::cell::RefCell;
use std::hint::black_box;

/// An operation: its operands, which are earlier ones, and the derivatives with respect to them.
#[derive(Clone, Copy)]
struct Operation {
    operands: [u32; 2],
    partials: [f32; 2],
}

/// A value, and where it is on the list.
#[derive(Clone, Copy)]
struct Number {
    at: u32,
    value: f32,
}

#[derive(Default)]
struct List {
    operations: Vec<Operation>,
    deltas: Vec<f32>,
}

impl List {
    fn start(&mut self) {
        self.operations.clear();
    }

    fn push(&mut self, value: f32, operands: [u32; 2], partials: [f32; 2]) -> Number {
        let at = self.operations.len() as u32;
        self.operations.push(Operation { operands, partials });
        Number { at, value }
    }

    /// Points to the first operation, with derivatives of zero.
    fn leaf(&mut self, value: f32) -> Number {
        self.push(value, [0, 0], [0.0, 0.0])
    }

    fn product(&mut self, x: Number, y: Number) -> Number {
        self.push(x.value * y.value, [x.at, y.at], [y.value, x.value])
    }

    fn sum(&mut self, x: Number, y: Number) -> Number {
        self.push(x.value + y.value, [x.at, y.at], [1.0, 1.0])
    }

    fn times(&mut self, x: Number, factor: f32) -> Number {
        self.push(x.value * factor, [x.at, x.at], [factor, 0.0])
    }

    fn minus(&mut self, x: Number, other: f32) -> Number {
        self.push(x.value - other, [x.at, x.at], [1.0, 0.0])
    }

    fn backward(&mut self, y: Number) {
        let List { operations, deltas } = self;
        deltas.clear();
        deltas.resize(operations.len(), 0.0);
        deltas[y.at as usize] = 1.0;
        for (at, operation) in operations.iter().enumerate().rev() {
            for (operand, partial) in operation.operands.iter().zip(operation.partials) {
                let operand = *operand as usize;
                debug_assert!(operand <= at);
                // SAFETY: there are as many deltas as operations. `at` is an operation's place, and its operands were on the list when
                // it was pushed; a leaf's are the first on the list, which is itself or earlier.
                unsafe {
                    let delta = *deltas.get_unchecked(at);
                    *deltas.get_unchecked_mut(operand) += delta * partial;
                }
            }
        }
    }

    fn delta(&self, x: Number) -> f32 {
        self.deltas[x.at as usize]
    }
}

fn main() {
    let list = RefCell::new(List::default());
    let mut weights = WEIGHTS;
    run(
        "limit",
        |question, answer| step(&mut list.borrow_mut(), &mut weights, question, answer),
        || chain(&mut list.borrow_mut()),
        || diamonds(&mut list.borrow_mut()),
    );
}

fn step(list: &mut List, weights: &mut [f32; 4], [x0, x1, x2]: [f32; 3], answer: f32) -> f32 {
    list.start();
    let leaves = weights.map(|w| list.leaf(w));
    let [w0, w1, w2, bias] = leaves;
    let (p0, p1, p2) = (list.times(w0, x0), list.times(w1, x1), list.times(w2, x2));
    let guess = list.sum(p0, p1);
    let guess = list.sum(guess, p2);
    let guess = list.sum(guess, bias);
    let difference = list.minus(guess, answer);
    let loss = list.product(difference, difference);
    list.backward(loss);
    for (w, leaf) in weights.iter_mut().zip(leaves) {
        *w -= RATE * list.delta(leaf);
    }
    loss.value
}

fn chain(list: &mut List) -> [f32; 3] {
    list.start();
    let [x, w] = CHAIN_START.map(|value| list.leaf(black_box(value)));
    let y = (0..CHAIN).fold(x, |y, _| list.product(y, w));
    list.backward(y);
    [y.value, list.delta(x), list.delta(w)]
}

fn diamonds(list: &mut List) -> [f32; 2] {
    list.start();
    let x = list.leaf(black_box(DIAMOND_START));
    let y = (0..DIAMONDS).fold(x, |y, _| {
        let square = list.product(y, y);
        list.sum(square, y)
    });
    list.backward(y);
    [y.value, list.delta(x)]
}
