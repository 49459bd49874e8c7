//! Writing a file.

use super::crc32::Crc32;
use super::dtype::{in_file, not_finite};
use super::head::{Head, KEY, info};
use super::{quoted, shortened};
use dl_core::{Error, Numbers, Result, files};
use safetensors::tensor::{Metadata, TensorInfo};
use std::collections::BTreeMap;
use std::path::Path;

/// What is in a tensor, as far as it matters to what numbers may be in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A weight, or a slot of one: all numbers are finite.
    Learned,
    /// A buffer, which may be a mask with infinite numbers.
    Buffer,
    /// What the user has to say: any number.
    Note,
}

impl Role {
    /// An error, unless these numbers may be in such a tensor.
    pub(crate) fn check(self, name: &str, numbers: &Numbers) -> Result<()> {
        let Some((place, number)) = not_finite(numbers, self == Role::Learned).filter(|_| self != Role::Note) else {
            return Ok(());
        };
        let name = quoted(name);
        Err(Error::not_finite(format!(
            "{name}: number {place} of it is {number}; `allow_non_finite` is for those who want that"
        )))
    }
}

/// A tensor that is to be written.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) role: Role,
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: Numbers,
}

/// The header is at most that long: the limit of the format.
pub(crate) const LONGEST_HEADER: usize = 100_000_000;

/// Writes a file of these tensors.
pub(crate) fn write(path: &Path, mut head: Head, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
    let here = |error: Error| error.context(path.display());
    let mut ordered = Vec::new();
    for (name, tensor) in tensors {
        ordered.push((in_file(tensor.numbers.dtype()).map_err(here)?, name, tensor));
    }
    // the order of the reference implementation: so that each tensor is aligned
    ordered.sort_by(|(dtype, name, _), (other, other_name, _)| other.cmp(dtype).then(name.cmp(other_name)));

    let (mut infos, mut end, mut bytes) = (Vec::new(), 0, Crc32::new());
    for (dtype, name, Tensor { shape, numbers, .. }) in &ordered {
        let start = end;
        end += numbers.len() * numbers.dtype().size();
        infos.push(((*name).clone(), TensorInfo { dtype: *dtype, shape: shape.clone(), data_offsets: (start, end) }));
        bytes.update(&numbers.to_le_bytes());
    }
    let mut lines: Vec<(&String, String)> = infos.iter().map(|(name, tensor)| (name, info(name, tensor))).collect();
    lines.sort();
    head.crc32 = Some(head.checksum(bytes, lines.into_iter().map(|(_, line)| line)));

    let metadata = [(KEY.to_owned(), head.to_json())].into_iter().collect();
    let bad = |error: &dyn std::fmt::Display| here(Error::invalid(shortened(error)));
    let metadata = Metadata::new(Some(metadata), infos).map_err(|error| bad(&error))?;
    let mut header = serde_json::to_vec(&metadata).map_err(|error| bad(&error))?;
    header.resize(header.len().next_multiple_of(8), b' ');
    if header.len() > LONGEST_HEADER {
        return Err(bad(&format!("its header would have {} bytes, and may have {LONGEST_HEADER}", header.len())));
    }
    files::write(path, |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        ordered.iter().try_for_each(|(_, _, tensor)| file.write_all(&tensor.numbers.to_le_bytes()))
    })
}
