//! Chunks of a weight whose numbers are not on the host: an optimizer records formulas of them.

use crate::error::Result;
use crate::graph::chunk::Chunk;
use dl_math::{Algebra, Binary, Term, Unary};
use std::any::Any;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// The numbers of a weight, of its delta or of a state buffer that lie on a device: an
/// [algebra](Algebra), so a formula that is written for numbers can be recorded for them. See
/// [`LazyChunk`].
///
/// ```
/// use dl_core::{Algebra, Lazy, Term};
/// fn mean<A: Algebra>(a: &Term<A>, b: &Term<A>) -> Term<A> {
///     0.5 * (a + b)
/// }
/// assert_eq!(mean(&Term(1.0), &Term(2.0)).0, 1.5);
/// let _recorded: fn(&Term<Lazy>, &Term<Lazy>) -> Term<Lazy> = mean;
/// ```
#[derive(Clone)]
pub struct Lazy(Arc<dyn LazyNumbers>);

/// A function that waits for a number of a device.
#[doc(hidden)]
pub type LaterNumber = Box<dyn FnOnce() -> Result<f64>>;

/// A type of numbers that are not on the host. An error is raised, which fails the step.
#[doc(hidden)]
pub trait LazyNumbers: Any + Send + Sync {
    fn unary(&self, op: Unary) -> Lazy;

    /// The right operand must be of the same weight.
    fn binary(&self, op: Binary, right: &Lazy) -> Lazy;

    fn with_number(&self, op: Binary, number: f64, left: bool) -> Lazy;

    /// Queues the computation of the Euclidean norm, in the order of [`Chunk::norm`].
    fn norm(&self) -> Result<LaterNumber>;
}

#[doc(hidden)]
impl Lazy {
    pub fn new(numbers: impl LazyNumbers) -> Self {
        Lazy(Arc::new(numbers))
    }

    pub fn downcast_ref<T: LazyNumbers>(&self) -> Option<&T> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    pub fn norm(&self) -> Result<LaterNumber> {
        self.0.norm()
    }
}

impl Algebra for Lazy {
    fn unary(op: Unary, x: &Self) -> Self {
        x.0.unary(op)
    }

    fn binary(op: Binary, a: &Self, b: &Self) -> Self {
        a.0.binary(op, b)
    }

    fn with_number(op: Binary, x: &Self, number: f64, left: bool) -> Self {
        x.0.with_number(op, number, left)
    }
}

impl fmt::Debug for Lazy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lazy")
    }
}

/// A weight whose numbers lie on a device, with its delta and the optimizer's state: the operands
/// of [`Optimizer::step_lazy`](crate::Optimizer::step_lazy), which replaces `value` and `slots` by
/// formulas. They are computed as one kernel.
///
/// A formula over [`Algebra`] serves for the numbers of a [`Chunk`], too:
///
/// ```
/// use dl_core::{Algebra, Chunk, Differentiable, LazyChunk, Optimizer, Result, Term, Weight};
///
/// /// Moves each number against the sign of its delta.
/// #[derive(Clone)]
/// struct SignDescent(f64);
///
/// impl SignDescent {
///     fn formula<A: Algebra>(&self, value: &Term<A>, delta: &Term<A>) -> Term<A> {
///         value - self.0 * delta.sign()
///     }
/// }
///
/// impl Optimizer for SignDescent {
///     fn step(&self, chunk: Chunk<'_>, _: u64) -> Result<()> {
///         if let Chunk::F64 { values, deltas, .. } = chunk {
///             for (value, delta) in values.iter_mut().zip(deltas) {
///                 *value = self.formula(&Term(*value), &Term(*delta)).0;
///             }
///         }
///         Ok(())
///     }
///
///     fn step_lazy(&self, chunk: &mut LazyChunk, _: u64) -> Result<()> {
///         assert!(chunk.slots.is_empty(), "it has no state");
///         chunk.value = self.formula(&chunk.value, &chunk.delta);
///         Ok(())
///     }
/// }
///
/// let w = Weight::new(1.0_f64);
/// (&w * 100.0).train(&SignDescent(0.25)).wait()?;
/// assert_eq!(w.value(), 0.75);
/// # Result::Ok(())
/// ```
pub struct LazyChunk {
    /// The numbers to update.
    pub value: Term<Lazy>,
    /// Their derivatives.
    pub delta: Term<Lazy>,
    /// The state buffers, as many as there are [`slots`](crate::Optimizer::slots).
    pub slots: Vec<Term<Lazy>>,
    /// Where the weight was made.
    place: &'static Location<'static>,
}

#[doc(hidden)]
impl LazyChunk {
    #[track_caller]
    pub fn new(value: Lazy, delta: Lazy, slots: impl IntoIterator<Item = Lazy>) -> Self {
        let slots = slots.into_iter().map(Term).collect();
        LazyChunk { value: Term(value), delta: Term(delta), slots, place: Location::caller() }
    }

    pub(crate) fn at(self, place: &'static Location<'static>) -> Self {
        LazyChunk { place, ..self }
    }

    pub(crate) fn place(&self) -> &'static Location<'static> {
        self.place
    }
}

/// The numbers of a weight and of its delta, where they are.
#[doc(hidden)]
pub enum PlacedChunk<'a> {
    Host(Chunk<'a>),
    Lazy(LazyChunk),
}

impl<'a> From<Chunk<'a>> for PlacedChunk<'a> {
    fn from(chunk: Chunk<'a>) -> Self {
        PlacedChunk::Host(chunk)
    }
}
