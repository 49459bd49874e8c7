//! What is wrong with a file, in one line: which, where, what was expected, what was found, what to do.

use dl_core::Error;
use std::fmt::Display;

/// `file: place: expected …, found …; advice`.
pub(crate) fn fault(
    file: &str,
    place: impl Display,
    expected: impl Display,
    found: impl Display,
    advice: &str,
) -> Error {
    Error::invalid(format!("{file}: {place}: expected {expected}, found {found}; {advice}"))
}

/// Text of a file in a message: not endless, and on one line.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 40;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}… ({} bytes)", &text[..end], text.len()),
        None => format!("{text:?}"),
    }
}
