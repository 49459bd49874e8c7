//! Where in the functions of the user a layer was written: the chain of annotated functions that
//! led there.
//!
//! A chain is a number: a node of the tree of all calls that were met, which is shared by all
//! threads and only grows (see `calls/tree.rs`). A thread knows in which one it is
//! (`calls/here.rs`), and what it builds keeps that.

use crate::error::call_context::Origin;

#[cfg(test)]
use super::call_tree::{Function, Scope};
use super::{call_context, call_tree};
use std::fmt;
use std::panic::Location;

/// One annotated function on the way to a layer: see [`Calls`].
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
    /// Where it was called.
    pub from: &'static Location<'static>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in `{}`, called at {}", self.function, self.from)
    }
}

/// The annotated functions in which a layer was written, the innermost first: a backtrace in the
/// code of the user only.
///
/// A delta has those of the operation whose derivative it is. An error has them, too: see
/// [`Error::calls`](crate::Error::calls).
///
/// Two layers with the same chain have equal `Calls`. Of a function that calls itself, maybe
/// through others, the chain has the outermost call and the last one, however deep it goes. Beyond
/// 64 calls in one another, or 65,536 different chains in a program, what is further in is left
/// out.
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
    /// Those that this thread is in.
    ///
    /// ```
    /// assert!(dl_core::Calls::here().is_empty()); // in no annotated function
    /// ```
    pub fn here() -> Calls {
        Origin::here().calls()
    }

    /// These, and further in a function of this name, called from there.
    #[cfg(test)]
    pub(crate) fn within(self, function: &'static str, from: &'static Location<'static>) -> Calls {
        call_tree::within(self, Function { scope: Scope::Module(""), name: function }, from)
    }

    /// Each of them, the innermost first.
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

    /// The name of the innermost function.
    pub(crate) fn innermost(self) -> Option<&'static str> {
        call_tree::innermost(self)
    }

    /// Has this thread build there.
    #[inline]
    pub(crate) fn enter<R>(self, build: impl FnOnce() -> R) -> R {
        let _entered = call_context::enter_calls(self);
        build()
    }

    /// Whether this is outside of annotated functions.
    ///
    /// ```
    /// assert!(dl_core::Calls::default().is_empty());
    /// ```
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// A line for each.
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
