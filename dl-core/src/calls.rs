//! Where in the functions of the user a layer was written: the chain of annotated functions that led there.
//!
//! A chain is a number: a node of the tree of all calls that were met, which is shared by all threads and only grows (see `calls/tree.rs`). A thread knows in
//! which one it is (`calls/here.rs`), and what it builds keeps that.

mod branch;
mod here;
mod tree;

pub use branch::Branch;
pub(crate) use branch::took;
pub(crate) use here::{Entered, InFunction};
pub(crate) use here::{Origin, Site, enter, enter_function, in_places_of_the_user, place_of_rule};
pub(crate) use tree::{Function, Scope};

use std::fmt;
use std::panic::Location;

/// One annotated function on the way to a layer: see [`Calls`].
///
/// ```
/// use dl_core::{Call, Calls};
/// let here = std::panic::Location::caller();
/// let call = Call { function: "score", from: here };
/// assert_eq!(Calls::default().within("score", here).frames().next(), Some(call));
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

/// The annotated functions in which a layer was written, the innermost first: a backtrace in the code of the user only.
///
/// A delta has those of the operation whose derivative it is. An error has them, too: see [`Error::calls`](crate::Error::calls).
///
/// Two layers with the same chain have equal `Calls`. Of a function that calls itself, maybe through others, the chain has the outermost call and the last one,
/// however deep it goes. Beyond 64 calls in one another, or 65,536 different chains in a program, what is further in is left out.
///
/// ```
/// use dl_core::Calls;
/// let here = std::panic::Location::caller();
/// let inner = Calls::default().within("Net::score", here).within("gate", here);
/// let functions: Vec<&str> = inner.frames().map(|call| call.function).collect();
/// assert_eq!(functions, ["gate", "Net::score"]);
/// assert_eq!(inner, Calls::default().within("Net::score", here).within("gate", here));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Calls(u32);

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
    ///
    /// ```
    /// use dl_core::Calls;
    /// let here = std::panic::Location::caller();
    /// assert_eq!(Calls::default().within("score", here).frames().count(), 1);
    /// ```
    #[must_use = "calls do not change: this makes others"]
    pub fn within(self, function: &'static str, from: &'static Location<'static>) -> Calls {
        tree::within(self, Function { scope: Scope::Module(""), name: function }, from)
    }

    /// Each of them, the innermost first.
    ///
    /// ```
    /// use dl_core::Calls;
    /// let here = std::panic::Location::caller();
    /// let call = Calls::default().within("score", here).frames().next().expect("there is one");
    /// assert_eq!((call.function, call.from.line()), ("score", here.line()));
    /// ```
    pub fn frames(self) -> impl Iterator<Item = Call> {
        tree::frames(self).into_iter()
    }

    /// Has this thread build there.
    #[inline]
    pub(crate) fn enter<R>(self, build: impl FnOnce() -> R) -> R {
        let _entered = here::enter_calls(self);
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
/// let here = std::panic::Location::caller();
/// let calls = Calls::default().within("Net::score", here).within("gate", here);
/// assert_eq!(calls.to_string(), format!("in `gate`, called at {here}\nin `Net::score`, called at {here}"));
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
