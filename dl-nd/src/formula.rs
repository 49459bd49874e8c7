//! Tensors that are not computed yet: pointwise operations on large tensors are written down, and
//! computed together when somebody looks at the elements.
//!
//! A run of pointwise operations thereby reads its operands and writes its result once, however
//! many operations it has. What lies in between is not in memory: a cheap operation is computed a
//! second time, for the backward for instance, which costs less than to fetch its result. The
//! result of a dear one, an exponential for instance, is kept if somebody else has it.

use crate::element::{Element, Item, Rank};
use crate::elements::Elements;
use crate::lines::Room;
use crate::nd::Nd;
use crate::program;
use dl_core::{Binary, Unary, parallel};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// Smaller tensors are computed at once: to write an operation down costs about as much as to
/// compute it. The environment variable `DL_FUSE_FROM` says another number of elements; results do
/// not depend on it.
pub(crate) fn is_worth_writing_down(len: usize) -> bool {
    static FROM: LazyLock<usize> = LazyLock::new(|| {
        let from = std::env::var("DL_FUSE_FROM").ok().and_then(|from| from.parse().ok());
        from.unwrap_or(1 << 12)
    });
    len >= *FROM
}

/// Longer formulas are computed before anything is added, so that nothing is as deep as a program
/// is long.
const LONGEST: usize = 32;

/// Somebody is computing, as long as this is there: a panic, for want of memory, ends it, too.
struct Begun<'a>(&'a AtomicBool);

impl<'a> Begun<'a> {
    fn new(begun: &'a AtomicBool) -> Self {
        begun.store(true, Ordering::Relaxed);
        Begun(begun)
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// So long somebody waits for a formula that another thread computes, before he sleeps.
const AWAKE: Duration = Duration::from_micros(100);
/// How often he looks before he lets another thread have the processor.
const GLANCES: usize = 200;

/// A tensor of a shape, and the operation whose result it is.
pub(crate) struct Formula<A: Item, D: Rank> {
    shape: D,
    /// The operations below that were not computed when it was written; one that is reached twice
    /// counts twice.
    length: usize,
    /// A rough estimate of the time that they take for an element.
    nanoseconds: f64,
    /// Is forgotten once there is a value, and with it the operands.
    operation: Mutex<Option<Operation<A, D>>>,
    value: OnceLock<Elements<A, D>>,
    /// Whether somebody is computing it by itself.
    begun: AtomicBool,
}

/// A pointwise operation. Operands are broadcast to the shape of the result.
#[derive(Clone)]
pub(crate) enum Operation<A: Item, D: Rank> {
    Repeat(Nd<A, D>),
    Unary(Unary, Nd<A, D>),
    Binary(Binary, Nd<A, D>, Nd<A, D>),
    WithNumber { op: Binary, number: A, left: bool, x: Nd<A, D> },
}

impl<A: Item, D: Rank> Formula<A, D> {
    pub(crate) fn new(shape: D, length: usize, nanoseconds: f64, operation: Operation<A, D>) -> Self {
        let (operation, value, begun) = (Mutex::new(Some(operation)), OnceLock::new(), AtomicBool::new(false));
        Formula { shape, length, nanoseconds, operation, value, begun }
    }

    pub(crate) fn shape(&self) -> &D {
        &self.shape
    }

    /// Whether it can be a part of another formula, which has become so long already. What is
    /// repeated, as it is not of the same shape, is small and is computed.
    fn goes_into(&self, length: &mut usize, of_same_shape: bool) -> bool {
        let goes = of_same_shape && *length + self.length <= LONGEST;
        *length += if goes { self.length } else { 0 };
        goes
    }

    /// About how long it takes to compute it: nothing, if that has been done.
    pub(crate) fn nanoseconds_to_compute(&self) -> f64 {
        if self.computed().is_some() { 0.0 } else { self.nanoseconds * self.shape.size() as f64 }
    }

    /// The elements, if they have been computed.
    pub(crate) fn computed(&self) -> Option<&Elements<A, D>> {
        self.value.get()
    }

    /// The operation, unless the elements have been computed meanwhile.
    pub(crate) fn operation(&self) -> Option<Operation<A, D>> {
        self.operation.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The elements.
    pub(crate) fn compute(&self) -> &Elements<A, D> {
        if let Some(value) = self.value.get() {
            return value;
        }
        // who comes second waits: nothing in there waits for anybody. To be woken takes longer than
        // most formulas
        if self.begun.load(Ordering::Relaxed) {
            self.wait_awake();
        }
        let value = self.value.get_or_init(|| {
            let _begun = Begun::new(&self.begun);
            A::compute(self)
        });
        self.forget_operation();
        value
    }

    /// Waits for a moment until somebody else has computed it.
    #[cold]
    fn wait_awake(&self) {
        let since = Instant::now();
        while since.elapsed() < AWAKE {
            for _ in 0..GLANCES {
                if self.value.get().is_some() {
                    return;
                }
                spin_loop();
            }
            // there may be more threads than processors
            yield_now();
        }
    }

    /// The elements of a formula that nobody else has, and which has been computed.
    pub(crate) fn into_computed(self) -> Elements<A, D> {
        self.value.into_inner().expect("it has been computed")
    }

    /// These elements as a tensor of its shape.
    pub(crate) fn elements(&self, room: Room<A>) -> Elements<A, D> {
        room.into_array(self.shape.clone()).into_shared().into()
    }

    /// Somebody has computed it. If somebody else was faster, that is forgotten.
    pub(crate) fn keep(&self, elements: Elements<A, D>) {
        let _ = self.value.set(elements);
        self.forget_operation();
    }

    /// The operation, for whoever computes the elements: he is going to keep them, or to put it
    /// back.
    pub(crate) fn take_operation(&self) -> Option<Operation<A, D>> {
        self.operation.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn put_back(&self, operation: Operation<A, D>) {
        *self.operation.lock().unwrap_or_else(PoisonError::into_inner) = Some(operation);
    }

    fn forget_operation(&self) {
        let operation = self.operation.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(operation);
    }
}

impl<A: Element, D: Rank> Operation<A, D> {
    /// The result, as a tensor of this shape.
    pub(crate) fn of_shape(self, shape: D) -> Nd<A, D> {
        let (mut length, mut nanoseconds) = (1, program::nanoseconds(self.cost()));
        for formula in self.operands().into_iter().filter_map(Nd::formula) {
            if formula.goes_into(&mut length, formula.shape == shape) {
                nanoseconds += formula.nanoseconds;
            } else {
                formula.compute();
            }
        }
        let large = is_worth_writing_down(shape.size());
        let formula = Formula::new(shape, length, nanoseconds, self);
        if large { Nd::of_formula(Arc::new(formula)) } else { Nd(program::compute(&formula)) }
    }

    /// That of the operation.
    fn cost(&self) -> f64 {
        match self {
            Operation::Repeat(_) => Binary::Add.cost(),
            Operation::Unary(op, _) => op.cost(),
            Operation::Binary(op, ..) | Operation::WithNumber { op, .. } => op.cost(),
        }
    }

    pub(crate) fn operands(&self) -> Vec<&Nd<A, D>> {
        match self {
            Operation::Repeat(x) | Operation::Unary(_, x) | Operation::WithNumber { x, .. } => vec![x],
            Operation::Binary(_, a, b) => vec![a, b],
        }
    }
}

/// How many nanoseconds it takes until an operation on these, with so many elements, can be written
/// down: as long as to compute those that do not go into its formula.
pub(crate) fn nanoseconds_before<A: Element, D: Rank>(len: usize, operands: &[&Nd<A, D>]) -> f64 {
    let mut length = 1;
    let pending = operands.iter().filter_map(|x| x.formula());
    let computed = pending.filter(|formula| !formula.goes_into(&mut length, formula.shape.size() == len));
    computed.map(|formula| formula.nanoseconds_to_compute()).sum()
}

/// The formulas of those of these tensors that are not computed yet, each once.
fn pending<'a, A: Element, D: Rank>(tensors: &[&'a Nd<A, D>]) -> Vec<&'a Formula<A, D>> {
    let mut pending: Vec<&Formula<A, D>> = Vec::new();
    for formula in tensors.iter().filter_map(|tensor| tensor.formula()) {
        if !pending.iter().any(|&other| std::ptr::eq(other, &**formula)) {
            pending.push(formula);
        }
    }
    pending
}

/// The sum of the elements of a formula, which are not kept; and those of these tensors that have
/// its shape and are not computed yet, in the same run.
pub(crate) fn sum_beside<A: Element, D: Rank>(summed: &Formula<A, D>, others: &[&Nd<A, D>]) -> A {
    let mut together = pending(others);
    together.retain(|formula| formula.shape == summed.shape && !std::ptr::eq(*formula, summed));
    together.truncate(program::RESULTS - 1);
    program::sum(summed, &together)
}

/// Computes those of these tensors that are not computed yet, all of a shape together, as far as a
/// program has so many results.
pub(crate) fn settle<A: Element, D: Rank>(tensors: &[&Nd<A, D>]) {
    let mut pending = pending(tensors);
    pending.sort_by(|a, b| a.shape.slice().cmp(b.shape.slice()));
    let same = pending.chunk_by(|a, b| a.shape == b.shape);
    let programs: Vec<&[&Formula<A, D>]> = same.flat_map(|same| same.chunks(program::RESULTS)).collect();
    let nanoseconds: f64 = pending.iter().map(|formula| formula.nanoseconds_to_compute()).sum();
    parallel::for_each(programs.len(), nanoseconds / programs.len() as f64, |program| match programs[program] {
        [formula] => {
            formula.compute();
        }
        together => {
            let computed = program::compute_all(together);
            together.iter().zip(computed).for_each(|(formula, elements)| formula.keep(elements));
        }
    });
}
