//! Files in the format of safetensors: a header that says of each tensor its name, type, shape and
//! place, and then the bytes of all of them.

pub(crate) mod crc32;
pub(crate) mod dtype;
mod head;
mod opened;
mod written;

pub(crate) use head::{Head, Kind};
pub(crate) use opened::{Opened, brief};
pub(crate) use written::{Role, Tensor, write};

/// Text of a file in a message: not endless, and on one line.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}… ({} bytes)", &text[..end], text.len()),
        None => format!("{text:?}"),
    }
}

/// What a library says of a file, which may quote it: not endless, and on one line.
pub(crate) fn shortened(message: impl std::fmt::Display) -> String {
    const LONGEST: usize = 300;
    let text: String = message.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
