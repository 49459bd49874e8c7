//! Immediate evaluation of pullback rules on small tensors: a training step computes small deltas
//! at once instead of staging the rule as graph nodes.
//!
//! An operation of the algebra runs the same elementwise loop as the node that the rule would emit,
//! so the results are equal to the bit.

use crate::fusion::{self, should_defer};
use crate::tensor::{Element, Nd, Rank};
use dl_core::{Algebra, Binary, CotangentSink, Term, Unary, buffers};
use std::cell::Cell;

/// An evaluation of a rule, with the number of operations that it has executed.
#[derive(Default)]
pub(crate) struct ImmediateRule {
    operations: Cell<usize>,
}

/// An operand of a rule: a tensor of the shape common to all operands, or a number that stands for
/// one.
pub(crate) struct ImmediateTensor<'a, A: Element> {
    elements: ImmediateData<'a, A>,
    rule: &'a ImmediateRule,
}

/// The result of a rule; `None` if no gradient flows.
type RuleDelta<'a, A> = Option<Term<ImmediateTensor<'a, A>>>;

enum ImmediateData<'a, A: Element> {
    Number(A),
    Borrowed(&'a [A]),
    Owned(Vec<A>),
}

impl ImmediateRule {
    /// Starts the evaluation of a rule. `None` unless all tensors are small, of equal shape and in
    /// row-major order.
    pub(crate) fn of_small<A: Element, D: Rank>(tensors: &[&Nd<A, D>]) -> Option<Self> {
        let first = tensors.first()?;
        let fits = |tensor: &&Nd<A, D>| tensor.shape() == first.shape() && tensor.0.is_standard_layout();
        (!should_defer(first.len()) && tensors.iter().all(fits)).then(Self::default)
    }

    /// A tensor as an operand. It must be one of those that were passed to
    /// [`of_small`](ImmediateRule::of_small).
    #[inline]
    pub(crate) fn of<'a, A: Element, D: Rank>(&'a self, tensor: &'a Nd<A, D>) -> Term<ImmediateTensor<'a, A>> {
        let elements = ImmediateData::Borrowed(tensor.0.as_slice().expect("in standard layout"));
        Term(ImmediateTensor { elements, rule: self })
    }

    /// A number as an operand.
    pub(crate) fn of_number<A: Element>(&self, number: A) -> Term<ImmediateTensor<'_, A>> {
        Term(ImmediateTensor { elements: ImmediateData::Number(number), rule: self })
    }

    /// Applies the pullback rule of a unary operation. Not inlined, so that it is compiled once per
    /// element type instead of once per rank.
    #[inline(never)]
    pub(crate) fn unary<'a, A: Element>(op: Unary, [x, y, d]: [Term<ImmediateTensor<'a, A>>; 3]) -> RuleDelta<'a, A> {
        op.pullback(&x, &y, &d)
    }

    /// Applies the pullback rule of a binary operation for the operands in `wanted`.
    #[inline(never)]
    pub(crate) fn binary<'a, A: Element>(
        op: Binary,
        [a, b, y, d]: [Term<ImmediateTensor<'a, A>>; 4],
        wanted: (bool, bool),
    ) -> (RuleDelta<'a, A>, RuleDelta<'a, A>) {
        op.pullbacks([&a, &b, &y, &d], wanted)
    }

    /// Adds the delta of operand `which` to `sink`, if that is wanted. `d` is the delta of the
    /// output that the rule was applied to.
    pub(crate) fn add<A: Element, D: Rank>(
        &self,
        which: usize,
        delta: Option<Term<ImmediateTensor<'_, A>>>,
        d: &Nd<A, D>,
        sink: &mut CotangentSink<'_>,
    ) {
        let Some(Term(mut delta)) = delta.filter(|_| sink.wants(which)) else { return };
        sink.count(self.operations.take());
        match std::mem::replace(&mut delta.elements, ImmediateData::Borrowed(&[])) {
            ImmediateData::Owned(elements) => sink.add(which, Nd::from_elements(d.dim(), elements)),
            ImmediateData::Borrowed(elements) if std::ptr::eq(elements, d.0.as_slice().unwrap_or_default()) => {
                sink.pass_on(which)
            }
            ImmediateData::Borrowed(elements) => sink.add(which, Nd::from_elements(d.dim(), elements.to_vec())),
            ImmediateData::Number(number) => sink.add(which, Nd::full(d.dim(), number)),
        }
    }
}

impl<'a, A: Element> ImmediateTensor<'a, A> {
    fn counted(&self, elements: ImmediateData<'a, A>) -> Self {
        self.rule.operations.update(|operations| operations + 1);
        ImmediateTensor { elements, rule: self.rule }
    }

    fn value(&self) -> Result<A, &[A]> {
        match &self.elements {
            ImmediateData::Number(number) => Ok(*number),
            ImmediateData::Borrowed(elements) => Err(elements),
            ImmediateData::Owned(elements) => Err(elements),
        }
    }
}

impl<A: Element> Clone for ImmediateTensor<'_, A> {
    fn clone(&self) -> Self {
        let elements = match &self.elements {
            ImmediateData::Number(number) => ImmediateData::Number(*number),
            ImmediateData::Borrowed(elements) => ImmediateData::Borrowed(elements),
            ImmediateData::Owned(elements) => ImmediateData::Owned(A::copied(elements)),
        };
        ImmediateTensor { elements, rule: self.rule }
    }
}

impl<A: Element> Drop for ImmediateTensor<'_, A> {
    fn drop(&mut self) {
        if let ImmediateData::Owned(elements) = &mut self.elements {
            buffers::give_back(std::mem::take(elements));
        }
    }
}

impl<A: Element> Algebra for ImmediateTensor<'_, A> {
    fn unary(op: Unary, x: &Self) -> Self {
        x.counted(match x.value() {
            Ok(number) => ImmediateData::Number(op.value(number)),
            Err(elements) => ImmediateData::Owned(fusion::unary(op, elements)),
        })
    }

    fn binary(op: Binary, a: &Self, b: &Self) -> Self {
        a.counted(match (a.value(), b.value()) {
            (Ok(a), Ok(b)) => ImmediateData::Number(op.value(a, b)),
            (Ok(number), Err(x)) => ImmediateData::Owned(fusion::with_number(op, x, number, true)),
            (Err(x), Ok(number)) => ImmediateData::Owned(fusion::with_number(op, x, number, false)),
            (Err(a), Err(b)) => ImmediateData::Owned(fusion::binary(op, a, b)),
        })
    }

    fn with_number(op: Binary, x: &Self, number: f64, left: bool) -> Self {
        let number = A::of(number);
        x.counted(match x.value() {
            Ok(x) => ImmediateData::Number(if left { op.value(number, x) } else { op.value(x, number) }),
            Err(x) => ImmediateData::Owned(fusion::with_number(op, x, number, left)),
        })
    }
}
