//! The chain of calls of annotated functions in which a layer was written.
//!
//! A chain is represented by the number of a node in the calling context tree, which is shared by
//! all threads and only grows (see `call_tree.rs`). Each thread has a current chain
//! (`call_context.rs`), which the layers that it builds store.

use crate::error::call_context::Origin;

#[cfg(test)]
use super::call_tree::{Function, FunctionScope};
use super::{call_context, call_tree};
use std::fmt;
use std::panic::Location;

/// A call of an annotated function in a chain of calls: see [`Calls`].
///
/// ```
/// let here = std::panic::Location::caller();
/// let call = dl_core::Call { function: "score", from: here };
/// assert_eq!(call.to_string(), format!("in `score`, called at {here}"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// The name of the function: `score`, or `Net::score` for a method.
    pub function: &'static str,
    /// The place of the call.
    pub from: &'static Location<'static>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in `{}`, called at {}", self.function, self.from)
    }
}

/// The chain of annotated functions in which a layer was written, the innermost first: a backtrace
/// that contains user code only.
///
/// A delta has the chain of the operation of which it is a derivative. Errors also have a chain:
/// see [`Error::calls`](crate::Error::calls).
///
/// Two layers with the same chain have equal `Calls`. Of a recursive function, directly or through
/// others, the chain contains the outermost call and the last one, at any depth of recursion.
/// Beyond a depth of 64 calls, or 65,536 different chains in a program, inner calls are left out.
///
/// ```
/// use dl_core::{Calls, Differentiable, Weight, record::Recorder};
/// let recorder = Recorder::new();
/// # let gate = |w: &Weight<f64>| dl_core::bang::function("", "gate").run(|| w.sin());
/// # let score = |w: &Weight<f64>| dl_core::bang::function("", "score").run(|| gate(w));
/// // `score` calls `gate`, and that calls `sin`; both are annotated
/// score(&Weight::new(1.0_f64)).predict().recorded(&recorder).wait()?;
/// let calls: Calls = recorder.take().passes[0].nodes[1].calls;
/// let functions: Vec<&str> = calls.frames().map(|call| call.function).collect();
/// assert_eq!(functions, ["gate", "score"]);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Calls(pub(super) u32);

impl Calls {
    /// The current chain of this thread.
    ///
    /// ```
    /// assert!(dl_core::Calls::here().is_empty()); // in no annotated function
    /// ```
    pub fn here() -> Calls {
        Origin::here().calls()
    }

    /// This chain, extended by a call of a function of this name.
    #[cfg(test)]
    pub(crate) fn within(self, function: &'static str, from: &'static Location<'static>) -> Calls {
        call_tree::within(self, Function { scope: FunctionScope::Module(""), name: function }, from)
    }

    /// The calls of the chain, the innermost first.
    ///
    /// ```
    /// use dl_core::Calls;
    /// # dl_core::bang::function("", "score").run(|| {
    /// // in an annotated function, `score`
    /// assert_eq!(Calls::here().frames().next().map(|call| call.function), Some("score"));
    /// # });
    /// ```
    pub fn frames(self) -> impl Iterator<Item = Call> {
        call_tree::frames(self).into_iter()
    }

    /// This chain, which extends `from`, as an extension of `to`.
    pub(crate) fn rebased(self, from: Calls, to: Calls) -> Calls {
        if from == to { self } else { call_tree::rebased(self, from, to) }
    }

    /// The name of the innermost function.
    pub(crate) fn innermost(self) -> Option<&'static str> {
        call_tree::innermost(self)
    }

    /// Runs `build` with this as the current chain of the thread.
    #[inline]
    pub(crate) fn enter<R>(self, build: impl FnOnce() -> R) -> R {
        let _entered = call_context::enter_calls(self);
        build()
    }

    /// Whether the chain is empty: outside of annotated functions.
    ///
    /// ```
    /// assert!(dl_core::Calls::default().is_empty());
    /// ```
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// One line per call.
///
/// ```
/// use dl_core::Calls;
/// # dl_core::bang::function("", "score").run(|| {
/// // in an annotated function, `score`
/// assert!(Calls::here().to_string().starts_with("in `score`, called at "));
/// # });
/// ```
impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, call) in self.frames().enumerate() {
            let newline = if i == 0 { "" } else { "\n" };
            write!(f, "{newline}{call}")?;
        }
        Ok(())
    }
}
