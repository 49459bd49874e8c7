//! Writing a file.

use super::crc32::Crc32;
use super::dtype::{file_dtype, find_non_finite};
use super::metadata::{FileMetadata, KEY, checksum_line};
use super::quoted;
use crate::layout::Layout;
use dl_core::{Error, Numbers, Result, files};
use safetensors::tensor::TensorInfo;
use std::collections::BTreeMap;
use std::path::Path;

/// The role of a tensor, which determines whether its elements must be finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A weight or an optimizer slot: all elements must be finite.
    Learned,
    /// A buffer: elements may be infinite, as in masks, but not NaN.
    Buffer,
    /// A value with any elements, such as a number of the user.
    Value,
}

impl Role {
    /// Returns an error if `numbers` are not permitted for this role.
    pub(crate) fn check(self, name: &str, numbers: &Numbers) -> Result<()> {
        let Some((place, number)) = find_non_finite(numbers, self == Role::Learned).filter(|_| self != Role::Value)
        else {
            return Ok(());
        };
        let name = quoted(name);
        Err(Error::not_finite(format!("{name}: element {place} is {number}; call `allow_non_finite` to permit this")))
    }
}

/// A tensor to be written.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) role: Role,
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: Numbers,
}

/// The longest header that the format permits, in bytes.
pub(crate) const LONGEST_HEADER: usize = 100_000_000;

/// The size and the checksum of a file that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) bytes: u64,
    pub(crate) crc32: u32,
}

/// Writes a file with these tensors.
pub(crate) fn write(path: &Path, mut metadata: FileMetadata, tensors: &BTreeMap<String, Tensor>) -> Result<Written> {
    let with_path = |error: Error| error.context(path.display());
    let mut ordered = Vec::new();
    for (name, tensor) in tensors {
        ordered.push((file_dtype(tensor.numbers.dtype()).map_err(with_path)?, name, tensor));
    }
    // The order of the reference implementation, which keeps each tensor aligned.
    ordered.sort_by(|(dtype, name, _), (other, other_name, _)| other.cmp(dtype).then(name.cmp(other_name)));

    let (mut infos, mut end, mut bytes) = (Vec::new(), 0, Crc32::new());
    for (dtype, name, Tensor { shape, numbers, .. }) in &ordered {
        let start = end;
        end += numbers.len() * numbers.dtype().size();
        infos.push(((*name).clone(), TensorInfo { dtype: *dtype, shape: shape.clone(), data_offsets: (start, end) }));
        bytes.update(&numbers.to_le_bytes());
    }
    let mut lines: Vec<(&String, String)> =
        infos.iter().map(|(name, tensor)| (name, checksum_line(name, tensor))).collect();
    lines.sort();
    let crc32 = metadata.checksum(bytes, lines.into_iter().map(|(_, line)| line));
    metadata.crc32 = Some(crc32);

    // The library would write several notes in random order.
    let mut notes = BTreeMap::from([(KEY, metadata.to_json())]);
    if metadata.layout == Layout::Torch {
        notes.insert("format", "pt".to_owned()); // `transformers` asks for it
    }
    let mut header = format!("{{\"__metadata__\":{}", json(&notes));
    infos.iter().for_each(|(name, info)| header += &format!(",{}:{}", json(name), json(info)));
    let mut header = (header + "}").into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    if header.len() > LONGEST_HEADER {
        let text = format!("the header would have {} bytes, the limit is {LONGEST_HEADER}", header.len());
        return Err(with_path(Error::invalid(text)));
    }
    files::write(path, |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        ordered.iter().try_for_each(|(_, _, tensor)| file.write_all(&tensor.numbers.to_le_bytes()))
    })?;
    Ok(Written { bytes: (8 + header.len() + end) as u64, crc32 })
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("strings, numbers and maps of these are JSON")
}
