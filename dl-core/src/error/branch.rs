//! What decides in an annotated function.

use crate::exec;
use std::panic::Location;

/// Something in a program that decides by a forward value: an `if`, `match`, `while` or
/// `let … else` of an annotated function, after a bang.
///
/// The macro makes one for each; passes that are recorded tell which of its arms were taken.
///
/// ```
/// use dl_core::Branch;
/// static BRANCH: Branch = Branch::new("left > right", &["scores.0", "scores.1"]);
/// assert_eq!(BRANCH.arms[1], "scores.1");
/// assert!(BRANCH.place.file().ends_with(".rs"));
/// ```
#[derive(Debug)]
pub struct Branch {
    /// What is looked at, as it was written: `left > right`.
    pub condition: &'static str,
    /// The ways on, as they were written, cut short.
    pub arms: &'static [&'static str],
    /// Where it stands.
    pub place: &'static Location<'static>,
}

impl Branch {
    /// A branch that stands where this is written.
    ///
    /// ```
    /// static BRANCH: dl_core::Branch = dl_core::Branch::new("flag", &["one", "two"]);
    /// assert_eq!(BRANCH.condition, "flag");
    /// ```
    #[track_caller]
    pub const fn new(condition: &'static str, arms: &'static [&'static str]) -> Branch {
        Branch { condition, arms, place: Location::caller() }
    }
}

/// A body that this thread polls goes on along this arm.
#[inline]
pub(crate) fn took(branch: &'static Branch, arm: usize) {
    exec::with_current(|pass| {
        if let Some(pass) = pass {
            pass.took(branch, arm);
        }
    });
}
