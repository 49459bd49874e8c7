//! What the books of a pass say of one node.

use crate::error::Error;
use crate::exec::chain::CLOSED;
use crate::graph::node_ref::Held;
use crate::graph::value::{Repr, Value};
use dl_math::{Binary, Unary};

/// No entry.
pub(crate) const NONE: u32 = u32::MAX;

/// Half a cache line: a scalar operation touches three of these.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// Absent when the entry is vacant.
    pub(crate) node: Option<Held>,
    /// The value, if it is a plain number; else the entry of the third operand, if there are three.
    pub(super) bits: u64,
    /// The entries of the first two operands, if there are not more than three. For a dynamic node,
    /// the first is that of the layer that it turned out to be.
    pub(crate) operands: [u32; 2],
    /// Where its [`Links`] are, if it has any.
    pub(crate) links: u32,
    pub(super) state: State,
    /// Whether a gradient could flow through it to some weight.
    pub(crate) trained: bool,
    /// The operation, if it is scalar arithmetic: so that the way back need not look at the node.
    pub(crate) arithmetic: Arithmetic,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Pending,
    F32,
    F64,
    /// Done, with the value in the links.
    Done,
    Freed,
    /// With the error in the links.
    Failed,
}

impl Entry {
    pub(super) const VACANT: Entry = Entry {
        node: None,
        bits: NONE as u64,
        operands: [NONE; 2],
        links: NONE,
        state: State::Freed,
        trained: false,
        arithmetic: Arithmetic::Other,
    };

    /// The entry of a node that waits to be evaluated.
    #[inline(always)]
    pub(super) fn pending(node: Held, operands: [u32; 2]) -> Entry {
        Entry { node: Some(node), operands, state: State::Pending, ..Entry::VACANT }
    }

    /// The entry of a node whose value is a number.
    #[inline(always)]
    pub(super) fn of_number(node: Held, number: Scalar, trained: bool) -> Entry {
        let (state, bits) = number.to_bits();
        Entry { node: Some(node), bits, state, trained, ..Entry::VACANT }
    }

    /// The entry of this operand, or none where it has to be looked up.
    #[inline(always)]
    pub(super) fn operand(&self, which: usize) -> u32 {
        match which {
            0 | 1 => self.operands[which],
            2 if self.number().is_none() => self.bits as u32,
            _ => NONE,
        }
    }

    /// Writes down which entries three operands have: they are asked for a dozen times.
    pub(super) fn set_operands(&mut self, [first, second, third]: [u32; 3]) {
        self.operands = [first, second];
        self.bits = u64::from(third);
    }

    #[inline(always)]
    pub(crate) fn held(&self) -> Held {
        self.node.expect("the entry is not vacant")
    }

    /// The value, if it is a number that is there.
    #[inline(always)]
    pub(crate) fn number(&self) -> Option<Scalar> {
        match self.state {
            State::F32 => Some(Scalar::F32(f32::from_bits(self.bits as u32))),
            State::F64 => Some(Scalar::F64(f64::from_bits(self.bits))),
            _ => None,
        }
    }

    pub(super) fn set_number(&mut self, number: Scalar) {
        (self.state, self.bits) = number.to_bits();
    }
}

/// Which scalar arithmetic it is, as far as the entry says it.
#[derive(Clone, Copy)]
pub(crate) enum Arithmetic {
    Unary(Unary),
    Binary(Binary),
    /// With a number, or it is no arithmetic: one has to look at the node, which has the number.
    Other,
}

/// How an entry stands.
pub(crate) enum Status<'a> {
    Pending,
    Done(Seen<'a>),
    /// It was done; nobody needs the value any more.
    Freed,
    Failed(&'a Error),
}

/// A value in the books.
pub(crate) enum Seen<'a> {
    Number(Value),
    There(&'a Value),
}

impl Seen<'_> {
    pub(crate) fn as_value(&self) -> &Value {
        match self {
            Seen::Number(value) => value,
            Seen::There(value) => value,
        }
    }

    /// A copy; large values are shared.
    pub(crate) fn to_value(&self) -> Value {
        self.as_value().clone()
    }
}

/// What an entry needs that waits, that is waited for, or whose value is no number.
pub(super) struct Links {
    /// The value, if it is no number, or the error.
    pub(super) outcome: Option<Result<Value, Error>>,
    /// Operands that are not done.
    pub(super) pending: u32,
    /// The first of those who wait for this one.
    pub(super) waiting: u32,
    /// The place of its chain, or how it stands to chains: see `chain.rs`.
    pub(super) chain: u32,
    /// Operand edges that lead here, and those among them whose consumer is not done. Those of
    /// scalar arithmetic are not counted: it works on numbers, which need not be let go.
    pub(super) consumers: u32,
    pub(super) unfinished: u32,
    /// How many dynamic nodes turned out to be this one.
    pub(super) followers: u32,
    /// Where the handle of the pass is, if it has one. All other nodes are below one that has.
    pub(super) root: u32,
    /// Whether the entry could not be evaluated when it was entered. Only then do its consumers
    /// count.
    pub(super) scheduled: bool,
    /// Whether there are wakers to be called when it has ended.
    pub(super) awaited: bool,
    /// Whether there is a future, which waits or is being polled.
    pub(super) task: bool,
    /// Whether its value goes when nobody needs it, although the pass keeps values.
    pub(super) forgets: bool,
    /// Whether it is evaluated again.
    pub(super) again: bool,
    /// Whether a segment ends here.
    pub(super) marked: bool,
    /// The size of the value.
    pub(super) bytes: usize,
}

impl Links {
    pub(super) const NEW: Links = Links {
        outcome: None,
        pending: 0,
        waiting: NONE,
        chain: CLOSED,
        consumers: 0,
        unfinished: 0,
        followers: 0,
        root: NONE,
        scheduled: false,
        awaited: false,
        task: false,
        forgets: false,
        again: false,
        marked: false,
        bytes: 0,
    };
}

/// Somebody who waits, in a list that is threaded through one table.
pub(super) struct Waiting {
    pub(super) consumer: u32,
    pub(super) next: u32,
}

/// A plain number.
#[derive(Clone, Copy)]
pub(crate) enum Scalar {
    F32(f32),
    F64(f64),
}

impl Scalar {
    /// The number 1 of the same type: the delta that a backward begins with.
    #[inline]
    pub(crate) fn one(self) -> Scalar {
        match self {
            Scalar::F32(_) => Scalar::F32(1.0),
            Scalar::F64(_) => Scalar::F64(1.0),
        }
    }

    /// The number, which is beside a single one in scalar arithmetic.
    #[inline(always)]
    pub(super) fn single(self) -> f32 {
        let Scalar::F32(number) = self else { unreachable!("scalar arithmetic works on scalars of one type") };
        number
    }

    /// The same beside a double one.
    #[inline(always)]
    pub(super) fn double(self) -> f64 {
        let Scalar::F64(number) = self else { unreachable!("scalar arithmetic works on scalars of one type") };
        number
    }

    #[inline(always)]
    fn to_bits(self) -> (State, u64) {
        match self {
            Scalar::F32(number) => (State::F32, number.to_bits().into()),
            Scalar::F64(number) => (State::F64, number.to_bits()),
        }
    }

    #[inline(always)]
    pub(crate) fn of(value: &Value) -> Option<Scalar> {
        match value.0 {
            Repr::F32(number) => Some(Scalar::F32(number)),
            Repr::F64(number) => Some(Scalar::F64(number)),
            Repr::Any(_) => None,
        }
    }
}

impl From<Scalar> for Value {
    #[inline(always)]
    fn from(number: Scalar) -> Value {
        match number {
            Scalar::F32(number) => Value(Repr::F32(number)),
            Scalar::F64(number) => Value(Repr::F64(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_half_a_cache_line() {
        assert_eq!(size_of::<Entry>(), 32);
    }
}
