//! Error messages of the readers, in one line: file, position, expected and found content, remedy.

use dl_core::Error;
use std::fmt::Display;

/// Formats `file: place: expected …, found …; advice`.
pub(crate) fn read_error(
    file: &str,
    place: impl Display,
    expected: impl Display,
    found: impl Display,
    advice: &str,
) -> Error {
    let text = format!("{file}: {place}: expected {expected}, found {found}; {advice}");
    // Names in the file and messages of libraries may contain line breaks.
    Error::invalid(text.replace(['\n', '\r'], " "))
}

/// Quotes text of a file for a message, truncated and on one line.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 40;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}… ({} bytes)", &text[..end], text.len()),
        None => format!("{text:?}"),
    }
}

/// Lists names for a message, truncated.
pub(crate) fn list(names: &[String]) -> String {
    const MOST: usize = 10;
    let mut text = names.iter().take(MOST).map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        text += &format!(" and {} more", names.len() - MOST);
    }
    if names.is_empty() { "none".to_owned() } else { text }
}
