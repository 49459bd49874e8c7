//! What is wrong with a file, in one line: which, where, what was expected, what was found, what to
//! do.

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
    let text = format!("{file}: {place}: expected {expected}, found {found}; {advice}");
    // names in the file, and what others say of it, may have several lines
    Error::invalid(text.replace(['\n', '\r'], " "))
}

/// Text of a file in a message: not endless, and on one line.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 40;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}… ({} bytes)", &text[..end], text.len()),
        None => format!("{text:?}"),
    }
}

/// Some names, for a message.
pub(crate) fn list(names: &[String]) -> String {
    const MOST: usize = 10;
    let mut text = names.iter().take(MOST).map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        text += &format!(" and {} more", names.len() - MOST);
    }
    if names.is_empty() { "none".to_owned() } else { text }
}
