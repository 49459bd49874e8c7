//! Branches of annotated functions, for records of passes.

use std::panic::Location;

/// A branch that depends on a forward value: an `if`, `match`, `while` or `let … else` of an
/// annotated function, after a bang.
///
/// The macro creates one for each of them; the record of a pass names the arms that were taken.
///
/// ```
/// use dl_core::Branch;
/// static BRANCH: Branch = Branch::new("left > right", &["scores.0", "scores.1"]);
/// assert_eq!(BRANCH.arms[1], "scores.1");
/// assert!(BRANCH.place.file().ends_with(".rs"));
/// ```
#[derive(Debug)]
pub struct Branch {
    /// The source text of the condition: `left > right`.
    pub condition: &'static str,
    /// The source text of the arms, abbreviated.
    pub arms: &'static [&'static str],
    /// Where the branch was written.
    pub place: &'static Location<'static>,
}

impl Branch {
    /// A branch at the place of the call.
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
