//! Rules, read in the elements of small tensors: what a training step does with a small delta,
//! instead of writing it down.
//!
//! An operation of the algebra is a loop over elements, the same as that of the layer which the
//! rule would write down; so what comes of it is the same to the bit.

use crate::element::{Element, Rank};
use crate::formula::is_worth_writing_down;
use crate::nd::Nd;
use crate::pointwise::tensor;
use crate::program;
use dl_core::{Algebra, Binary, Sums, Term, Unary, buffers};
use std::cell::Cell;

/// A rule that is being read, and how many operations it has written.
#[derive(Default)]
pub(crate) struct Reading {
    operations: Cell<usize>,
}

/// A tensor of the shape that all have, or a number in its place.
pub(crate) struct Read<'a, A: Element> {
    elements: Elements<'a, A>,
    reading: &'a Reading,
}

/// What a rule comes to, if a gradient flows.
type OfRule<'a, A> = Option<Term<Read<'a, A>>>;

enum Elements<'a, A: Element> {
    Number(A),
    Lent(&'a [A]),
    Own(Vec<A>),
}

impl Reading {
    /// A rule can be read in tensors that are small, of one shape, and in row-major order.
    pub(crate) fn of_small<A: Element, D: Rank>(tensors: &[&Nd<A, D>]) -> Option<Self> {
        let first = tensors.first()?;
        let fits = |tensor: &&Nd<A, D>| tensor.shape() == first.shape() && tensor.0.is_standard_layout();
        (!is_worth_writing_down(first.len()) && tensors.iter().all(fits)).then(Self::default)
    }

    /// One of these tensors as an operand.
    #[inline]
    pub(crate) fn of<'a, A: Element, D: Rank>(&'a self, tensor: &'a Nd<A, D>) -> Term<Read<'a, A>> {
        let elements = Elements::Lent(tensor.0.as_slice().expect("in standard layout"));
        Term(Read { elements, reading: self })
    }

    /// A number as an operand.
    pub(crate) fn of_number<A: Element>(&self, number: A) -> Term<Read<'_, A>> {
        Term(Read { elements: Elements::Number(number), reading: self })
    }

    /// The delta of the operand of an operation. Compiled once, not for each rank.
    #[inline(never)]
    pub(crate) fn unary<'a, A: Element>(op: Unary, [x, y, d]: [Term<Read<'a, A>>; 3]) -> OfRule<'a, A> {
        op.pullback(&x, &y, &d)
    }

    /// The same for those of two operands that are wanted.
    #[inline(never)]
    pub(crate) fn binary<'a, A: Element>(
        op: Binary,
        [a, b, y, d]: [Term<Read<'a, A>>; 4],
        wanted: (bool, bool),
    ) -> (OfRule<'a, A>, OfRule<'a, A>) {
        op.pullbacks([&a, &b, &y, &d], wanted)
    }

    /// Adds what the rule says about this operand, if the delta of that is wanted. `d` is the delta
    /// that the rule was asked about.
    pub(crate) fn add<A: Element, D: Rank>(
        &self,
        which: usize,
        delta: Option<Term<Read<'_, A>>>,
        d: &Nd<A, D>,
        sums: &mut Sums<'_>,
    ) {
        let Some(Term(mut delta)) = delta.filter(|_| sums.wants(which)) else { return };
        sums.count(self.operations.take());
        match std::mem::replace(&mut delta.elements, Elements::Lent(&[])) {
            Elements::Own(elements) => sums.add(which, tensor(d.dim(), elements)),
            Elements::Lent(elements) if std::ptr::eq(elements, d.0.as_slice().unwrap_or_default()) => {
                sums.pass_on(which)
            }
            Elements::Lent(elements) => sums.add(which, tensor(d.dim(), elements.to_vec())),
            Elements::Number(number) => sums.add(which, Nd::full(d.dim(), number)),
        }
    }
}

impl<'a, A: Element> Read<'a, A> {
    fn written(&self, elements: Elements<'a, A>) -> Self {
        self.reading.operations.update(|operations| operations + 1);
        Read { elements, reading: self.reading }
    }

    fn value(&self) -> Result<A, &[A]> {
        match &self.elements {
            Elements::Number(number) => Ok(*number),
            Elements::Lent(elements) => Err(elements),
            Elements::Own(elements) => Err(elements),
        }
    }
}

impl<A: Element> Clone for Read<'_, A> {
    fn clone(&self) -> Self {
        let elements = match &self.elements {
            Elements::Number(number) => Elements::Number(*number),
            Elements::Lent(elements) => Elements::Lent(elements),
            Elements::Own(elements) => {
                let mut copy = buffers::take(elements.len());
                copy.extend_from_slice(elements);
                Elements::Own(copy)
            }
        };
        Read { elements, reading: self.reading }
    }
}

impl<A: Element> Drop for Read<'_, A> {
    fn drop(&mut self) {
        if let Elements::Own(elements) = &mut self.elements {
            buffers::give_back(std::mem::take(elements));
        }
    }
}

impl<A: Element> Algebra for Read<'_, A> {
    fn unary(op: Unary, x: &Self) -> Self {
        x.written(match x.value() {
            Ok(number) => Elements::Number(op.value(number)),
            Err(elements) => Elements::Own(program::unary(op, elements)),
        })
    }

    fn binary(op: Binary, a: &Self, b: &Self) -> Self {
        a.written(match (a.value(), b.value()) {
            (Ok(a), Ok(b)) => Elements::Number(op.value(a, b)),
            (Ok(number), Err(x)) => Elements::Own(program::with_number(op, x, number, true)),
            (Err(x), Ok(number)) => Elements::Own(program::with_number(op, x, number, false)),
            (Err(a), Err(b)) => Elements::Own(program::binary(op, a, b)),
        })
    }

    fn with_number(op: Binary, x: &Self, number: f64, left: bool) -> Self {
        let number = A::of(number);
        x.written(match x.value() {
            Ok(x) => Elements::Number(if left { op.value(number, x) } else { op.value(x, number) }),
            Err(x) => Elements::Own(program::with_number(op, x, number, left)),
        })
    }
}
