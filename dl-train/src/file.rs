//! The safetensors format: a header with the name, type, shape and position of each tensor,
//! followed by the bytes of all tensors.

pub(crate) mod crc32;
pub(crate) mod dtype;
mod index;
mod metadata;
mod reader;
mod writer;

pub(crate) use index::Manifest;
pub(crate) use metadata::{FileMetadata, FilePart, Kind};
pub(crate) use reader::{TensorFile, describe};
pub(crate) use writer::{Role, Tensor, Written, write};

/// Quotes text of a file for a message, truncated and on one line.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}… ({} bytes)", &text[..end], text.len()),
        None => format!("{text:?}"),
    }
}

/// The message of a library, which may quote a file: truncated and on one line.
pub(crate) fn shortened(message: impl std::fmt::Display) -> String {
    const LONGEST: usize = 300;
    let text: String = message.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
