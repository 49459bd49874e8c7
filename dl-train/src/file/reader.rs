//! Reading and validating an untrusted file.

use super::crc32::Crc32;
use super::dtype::decode;
use super::metadata::{FORMAT, FileMetadata, KEY, Kind, UniqueMap, Version, checksum_line};
use super::writer::LONGEST_HEADER;
use super::{quoted, shortened};
use dl_core::{DType, Error, Numbers, Result, files};
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

trait Source: Read + Seek + Send {
    /// Differs after the bytes have changed: their number, and the time of the last change.
    fn version(&self) -> Option<(u64, SystemTime)>;
}

impl Source for File {
    fn version(&self) -> Option<(u64, SystemTime)> {
        let metadata = self.metadata().ok()?;
        Some((metadata.len(), metadata.modified().ok()?))
    }
}

impl Source for Cursor<Vec<u8>> {
    fn version(&self) -> Option<(u64, SystemTime)> {
        None
    }
}

/// An open file with a validated header and, if it has a checksum, verified content; or several such
/// files with an index. Tensors are read on demand.
pub(crate) struct TensorFile {
    /// The name used in errors.
    pub(super) name: String,
    pub(super) sources: Vec<TensorSource>,
    /// Each tensor, with the number of its source.
    pub(super) tensors: BTreeMap<String, (usize, TensorInfo)>,
    pub(super) file_metadata: Option<FileMetadata>,
}

/// The bytes of one file.
pub(super) struct TensorSource {
    source: Mutex<Box<dyn Source>>,
    /// The offset of the bytes of the tensors.
    start: u64,
    /// When the file was opened.
    version: Option<(u64, SystemTime)>,
}

impl TensorFile {
    /// Opens a file, or the files of an index with a name that ends with `.index.json`.
    pub(crate) fn open(path: &Path) -> Result<TensorFile> {
        if path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(".index.json")) {
            return super::index::open(path);
        }
        Self::open_one(path)
    }

    pub(super) fn open_one(path: &Path) -> Result<TensorFile> {
        let name = path.display().to_string();
        let file = files::open(path).map_err(|error| Error::other(error).context(&name))?;
        Self::read(name, Box::new(file))
    }

    pub(crate) fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<TensorFile> {
        Self::read(name.to_owned(), Box::new(Cursor::new(bytes)))
    }

    fn read(name: String, mut source: Box<dyn Source>) -> Result<TensorFile> {
        let version = source.version();
        match Self::parse(&mut *source) {
            Ok((start, tensors, file_metadata)) => {
                let sources = vec![TensorSource { source: Mutex::new(source), start, version }];
                let tensors = tensors.into_iter().map(|(name, info)| (name, (0, info))).collect();
                Ok(TensorFile { name, sources, tensors, file_metadata })
            }
            Err(error) => Err(error.context(name)),
        }
    }

    /// Parses the header and verifies the checksum. Returns the offset of the tensors, their
    /// descriptions, and the metadata of this crate.
    fn parse(source: &mut dyn Source) -> Result<(u64, BTreeMap<String, TensorInfo>, Option<FileMetadata>)> {
        let length = source.seek(SeekFrom::End(0)).map_err(Error::other)?;
        let text = read_header(source, length)?;
        let metadata = parse_header(&text)?;

        let start = 8 + text.len() as u64;
        let (found, expected) = (length - start, metadata.data_len() as u64);
        if found != expected {
            let what = if found < expected { "the file is truncated" } else { "the file has extra bytes" };
            return Err(Error::invalid(format!(
                "expected {expected} bytes of tensors after the header, found {found}: {what}"
            )));
        }
        let tensors = metadata.tensors().into_iter().map(|(name, info)| (name, info.clone())).collect();
        let ours = metadata.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
        let file_metadata = ours.map(|json| parse_file_metadata(json)).transpose()?;
        if let Some((file_metadata, expected)) =
            file_metadata.as_ref().and_then(|file_metadata| Some((file_metadata, file_metadata.crc32?)))
        {
            let found = checksum(source, file_metadata, &tensors)?;
            if found != expected {
                return Err(Error::invalid(format!(
                    "the stored checksum is {expected:08x}, that of the content {found:08x}: the file is damaged"
                )));
            }
        }
        Ok((start, tensors, file_metadata))
    }

    /// # Errors
    /// If another program has changed the bytes since the file was opened.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        let is_changed =
            |file: &TensorSource| file.version != file.source.lock().unwrap_or_else(PoisonError::into_inner).version();
        match self.sources.iter().any(is_changed) {
            true => Err(Error::invalid("the file has changed since it was opened")),
            false => Ok(()),
        }
    }

    /// Adds the name of the file to an error.
    pub(crate) fn with_name(&self, error: &Error) -> Error {
        error.context(&self.name)
    }

    pub(crate) fn file_metadata(&self) -> Option<&FileMetadata> {
        self.file_metadata.as_ref()
    }

    pub(crate) fn kind(&self) -> Option<Kind> {
        self.file_metadata.as_ref().map(|file_metadata| file_metadata.kind)
    }

    pub(crate) fn info(&self, tensor: &str) -> Option<&TensorInfo> {
        self.tensors.get(tensor).map(|(_, info)| info)
    }

    /// The tensors with names that start with `prefix`, by the rest of the name.
    pub(crate) fn with_prefix<'a>(&'a self, prefix: &str) -> impl Iterator<Item = (&'a str, &'a TensorInfo)> {
        let from = self.tensors.range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
        from.map_while(move |(name, (_, info))| Some((name.strip_prefix(prefix)?, info)))
    }

    /// Reads the elements of a tensor as type `wanted`. Allocates the bytes of the tensor in the
    /// file plus the result. Errors name the tensor, not the file.
    pub(crate) fn numbers(&self, tensor: &str, wanted: DType) -> Result<Numbers> {
        let elements = self.info(tensor).map_or(0, |info| info.shape.iter().product());
        self.numbers_in(tensor, wanted, 0..elements)
    }

    /// [`numbers`](Self::numbers) for a range of the elements.
    pub(crate) fn numbers_in(&self, tensor: &str, wanted: DType, elements: Range<usize>) -> Result<Numbers> {
        let to_error = |error: Error| error.context(quoted(tensor));
        let missing = || to_error(Error::invalid("there is no such tensor in the file"));
        let (source, info) = self.tensors.get(tensor).ok_or_else(missing)?;
        let TensorSource { source, start, .. } = &self.sources[*source];
        // `check_size` has compared the elements with the offsets.
        let place = |element: usize| element * info.dtype.bitsize() / 8;
        let (first, length) = (info.data_offsets.0 + place(elements.start), place(elements.len()));
        let mut bytes = Vec::new();
        let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
        let no_memory = |_| io::Error::other(format!("no memory for {length} bytes"));
        let read = bytes.try_reserve_exact(length).map_err(no_memory).and_then(|()| {
            source.seek(SeekFrom::Start(start + first as u64))?;
            bytes.resize(length, 0);
            source.read_exact(&mut bytes)
        });
        drop(source);
        read.map_err(|error| to_error(Error::other(error)))?;
        decode(info.dtype, &bytes, wanted).map_err(to_error)
    }
}

impl fmt::Debug for TensorFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorFile").field("name", &self.name).field("tensors", &self.tensors.len()).finish()
    }
}

/// Reads the text of the header of a file of `length` bytes.
fn read_header(source: &mut dyn Source, length: u64) -> Result<String> {
    let mut start = [0; 8];
    source.rewind().map_err(Error::other)?;
    if length < 8 {
        return Err(Error::invalid(format!("a safetensors file has more than 8 bytes, this file has {length}")));
    }
    source.read_exact(&mut start).map_err(Error::other)?;
    let expected = u64::from_le_bytes(start);
    if expected > LONGEST_HEADER as u64 || expected > length - 8 {
        return Err(Error::invalid(match other_format(source)? {
            Some((what, advice)) => format!("this is {what}, not a safetensors file: {advice}"),
            None => format!(
                "a safetensors file starts with the length of its header, but {expected} does not fit a file of {length} bytes: the file is truncated, damaged, or of another format"
            ),
        }));
    }
    let mut header = Vec::new();
    source.take(expected).read_to_end(&mut header).map_err(Error::other)?;
    if header.len() as u64 != expected {
        return Err(Error::invalid("the file became shorter while it was read"));
    }
    String::from_utf8(header).map_err(|error| Error::invalid(format!("header: {error}")))
}

const PICKLE_ADVICE: &str = "reading a pickle runs the code in it; in Python, \
    `safetensors.torch.save_file(torch.load(path, weights_only=True), \"model.safetensors\")` converts a state_dict";

/// What a file of another format is, and what to do with it, as far as its first bytes show.
fn other_format(source: &mut dyn Source) -> Result<Option<(&'static str, &'static str)>> {
    const PICKLE: (&str, &str) = ("a pickle file of PyTorch's `torch.save`", PICKLE_ADVICE);
    let mut start = Vec::new();
    source.rewind().map_err(Error::other)?;
    source.take(256).read_to_end(&mut start).map_err(Error::other)?;
    Ok(match &start[..] {
        // The first entry of the archive is `<name>/data.pkl`.
        [b'P', b'K', 3, 4, rest @ ..] if rest.windows(8).any(|name| name == b"data.pkl") => Some(PICKLE),
        [b'P', b'K', 3, 4, ..] => Some(("a zip archive", "unpack it")),
        // Followed by zeros, these would be the length of a header.
        [0x80, 2..=5, rest @ ..] if rest.iter().take(6).any(|&byte| byte != 0) => Some(PICKLE),
        [0x1F, 0x8B, 8, ..] => Some(("compressed with gzip", "decompress it")),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Some(("a NumPy array", "read it with `Nd::read_npy`")),
        [b'{', ..] => {
            Some(("a JSON file", "if it is the index of several files, its name must end with `.index.json`"))
        }
        [0x89, b'H', b'D', b'F', ..] => Some(("an HDF5 file", "convert it with the Python package `safetensors`")),
        _ if start.starts_with(b"version https://git-lfs") => Some(("a pointer of Git LFS", "run `git lfs pull`")),
        _ => None,
    })
}

/// Parses the header. The `safetensors` parser is not used: it accepts duplicate names, and its
/// errors do not name the tensor.
fn parse_header(header: &str) -> Result<Metadata> {
    const NOTES: &str = "__metadata__";
    let to_error = |error: &dyn fmt::Display| Error::invalid(format!("header: {}", shortened(error)));
    let UniqueMap(mut entries) =
        serde_json::from_str::<UniqueMap<&RawValue>>(header).map_err(|error| to_error(&error))?;
    let notes = match entries.remove(NOTES) {
        Some(json) => {
            let notes = serde_json::from_str::<UniqueMap<String>>(json.get());
            Some(notes.map_err(|error| to_error(&error).context(NOTES))?.0.into_iter().collect())
        }
        None => None,
    };
    let mut tensors = Vec::new();
    for (name, json) in entries {
        let info = serde_json::from_str::<TensorInfo>(json.get()).map_err(|error| to_error(&error));
        let info =
            info.and_then(|info| check_size(&info).map(|()| info)).map_err(|error| error.context(quoted(&name)))?;
        tensors.push((name, info));
    }
    tensors.sort_by(|(name, info), (other, others)| (info.data_offsets, name).cmp(&(others.data_offsets, other)));
    Metadata::new(notes, tensors).map_err(|error| to_error(&error))
}

/// Checks that the offsets of a tensor match its shape and type.
fn check_size(info: &TensorInfo) -> Result<()> {
    let (start, end) = info.data_offsets;
    let found = end.checked_sub(start);
    let numbers = info.shape.iter().try_fold(1_usize, |size, &length| size.checked_mul(length));
    let expected = numbers.and_then(|numbers| numbers.checked_mul(info.dtype.bitsize())).map(|bits| bits.div_ceil(8));
    match (found, expected) {
        (Some(found), Some(expected)) if found == expected => Ok(()),
        _ => {
            let (expected, found) =
                (expected.map_or("more than usize::MAX".to_owned(), |size| size.to_string()), found.unwrap_or(0));
            Err(Error::invalid(format!(
                "header: {} needs {expected} bytes, but its offsets span {found}",
                describe(info)
            )))
        }
    }
}

/// The type and shape of a tensor of a file, for messages.
pub(crate) fn describe(info: &TensorInfo) -> String {
    const LONGEST: usize = 8;
    match info.shape.get(..LONGEST) {
        Some(start) if info.shape.len() > LONGEST => format!("{} {start:?}… ({} axes)", info.dtype, info.shape.len()),
        _ => format!("{} {:?}", info.dtype, info.shape),
    }
}

fn parse_file_metadata(json: &str) -> Result<FileMetadata> {
    let to_error = |error: serde_json::Error| Error::invalid(format!("metadata under {KEY:?}: {}", shortened(error)));
    let Version { format } = serde_json::from_str(json).map_err(to_error)?;
    if format != FORMAT {
        return Err(Error::invalid(format!(
            "the file has version {format} of the format, but this program reads version {FORMAT}"
        )));
    }
    serde_json::from_str(json).map_err(to_error)
}

/// Computes the checksum of a file. The source must be at the start of the tensors.
fn checksum(
    source: &mut dyn Source,
    file_metadata: &FileMetadata,
    tensors: &BTreeMap<String, TensorInfo>,
) -> Result<u32> {
    let (mut bytes, mut chunk) = (Crc32::new(), vec![0; 1 << 16]);
    loop {
        match source.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => bytes.update(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::other(error)),
        }
    }
    Ok(file_metadata.checksum(bytes, tensors.iter().map(|(name, tensor)| checksum_line(name, tensor))))
}
