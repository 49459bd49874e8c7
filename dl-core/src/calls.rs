//! Where in the functions of the user a layer was written: the chain of annotated functions that led there.

use std::fmt;
use std::panic::Location;

/// One annotated function on the way to a layer: see [`Calls`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// The name of the function.
    pub function: &'static str,
    /// Where it was called.
    pub from: &'static Location<'static>,
}

/// The annotated functions in which a layer was written, the innermost first: a backtrace in the code of the user only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Calls(u32);

/// Something in a program that decides by a forward value: an `if`, `match` or `while` of an annotated function, after a bang.
#[derive(Debug)]
pub struct Branch {
    /// What is looked at, as it was written: `left > right`.
    pub condition: &'static str,
    /// The ways on, as they were written, cut short.
    pub arms: &'static [&'static str],
    /// Where it stands.
    pub place: &'static Location<'static>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in `{}`, called at {}", self.function, self.from)
    }
}
