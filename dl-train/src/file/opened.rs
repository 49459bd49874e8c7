//! Reading a file that nobody trusts.

use super::crc32::Crc32;
use super::dtype::numbers;
use super::head::{FORMAT, Head, KEY, Kind, Map, Version, info};
use super::written::LONGEST_HEADER;
use super::{quoted, shortened};
use dl_core::{DType, Error, Numbers, Result};
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

trait Source: Read + Seek + Send {}

impl<S: Read + Seek + Send> Source for S {}

/// A file whose header has been read and makes sense, and whose checksum, if it has one, is right.
/// Tensors are read when they are asked for.
pub(crate) struct Opened {
    /// What it is called in messages.
    name: String,
    source: Mutex<Box<dyn Source>>,
    /// Where the bytes of the tensors start.
    start: u64,
    tensors: BTreeMap<String, TensorInfo>,
    head: Option<Head>,
}

impl Opened {
    pub(crate) fn open(path: &Path) -> Result<Opened> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Error::other(error).context(&name))?;
        Self::read(name, Box::new(file))
    }

    pub(crate) fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Opened> {
        Self::read(name.to_owned(), Box::new(Cursor::new(bytes)))
    }

    fn read(name: String, mut source: Box<dyn Source>) -> Result<Opened> {
        match Self::parsed(&mut *source) {
            Ok((start, tensors, head)) => Ok(Opened { name, source: Mutex::new(source), start, tensors, head }),
            Err(error) => Err(error.context(name)),
        }
    }

    /// Where the tensors start, what they are, and what the file says of itself.
    fn parsed(source: &mut dyn Source) -> Result<(u64, BTreeMap<String, TensorInfo>, Option<Head>)> {
        let length = source.seek(SeekFrom::End(0)).map_err(Error::other)?;
        let text = header(source, length)?;
        let metadata = metadata(&text)?;

        let start = 8 + text.len() as u64;
        let (found, expected) = (length - start, metadata.data_len() as u64);
        if found != expected {
            let what = if found < expected { "it is cut off" } else { "something was added to it" };
            return Err(Error::invalid(format!(
                "expected {expected} bytes of tensors behind the header, found {found}: {what}"
            )));
        }
        let tensors = metadata.tensors().into_iter().map(|(name, info)| (name, info.clone())).collect();
        let ours = metadata.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
        let head = ours.map(|json| head(json)).transpose()?;
        if let Some((head, expected)) = head.as_ref().and_then(|head| Some((head, head.crc32?))) {
            let found = checksum(source, head, &tensors)?;
            if found != expected {
                return Err(Error::invalid(format!(
                    "its checksum is {expected:08x}, but that of its content is {found:08x}: the file is damaged"
                )));
            }
        }
        Ok((start, tensors, head))
    }

    /// This error, with the name of the file.
    pub(crate) fn fault(&self, error: &Error) -> Error {
        error.context(&self.name)
    }

    pub(crate) fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    pub(crate) fn kind(&self) -> Option<Kind> {
        self.head.as_ref().map(|head| head.kind)
    }

    pub(crate) fn info(&self, tensor: &str) -> Option<&TensorInfo> {
        self.tensors.get(tensor)
    }

    /// The tensors whose names start so, by what follows.
    pub(crate) fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a TensorInfo)> {
        let from = self.tensors.range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
        from.map_while(move |(name, info)| Some((name.strip_prefix(prefix)?, info)))
    }

    /// The numbers of a tensor, as this type. It takes as much memory as the file has bytes of it,
    /// and the numbers.
    pub(crate) fn numbers(&self, tensor: &str, wanted: DType) -> Result<Numbers> {
        let fault = |error: Error| self.fault(&error.context(quoted(tensor)));
        let info = self.info(tensor).ok_or_else(|| fault(Error::invalid("there is no such tensor in the file")))?;
        let (start, end) = info.data_offsets;
        let mut bytes = Vec::new();
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let read = bytes.try_reserve_exact(end - start).map_err(io::Error::other).and_then(|()| {
            source.seek(SeekFrom::Start(self.start + start as u64))?;
            bytes.resize(end - start, 0);
            source.read_exact(&mut bytes)
        });
        drop(source);
        read.map_err(|error| fault(Error::other(error)))?;
        numbers(info.dtype, &bytes, wanted).map_err(fault)
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("name", &self.name).field("tensors", &self.tensors.len()).finish()
    }
}

/// The text of the header of a file that has so many bytes.
fn header(source: &mut dyn Source, length: u64) -> Result<String> {
    let mut start = [0; 8];
    source.rewind().map_err(Error::other)?;
    if length < 8 {
        return Err(Error::invalid(format!("a safetensors file has more than 8 bytes, this one has {length}")));
    }
    source.read_exact(&mut start).map_err(Error::other)?;
    let expected = u64::from_le_bytes(start);
    if expected > LONGEST_HEADER as u64 || expected > length - 8 {
        return Err(Error::invalid(format!(
            "a safetensors file starts with the length of its header, and {expected} is none in a file of {length} bytes: it is cut off, damaged, or of another format"
        )));
    }
    let mut header = Vec::new();
    source.take(expected).read_to_end(&mut header).map_err(Error::other)?;
    if header.len() as u64 != expected {
        return Err(Error::invalid("it became shorter while it was read"));
    }
    String::from_utf8(header).map_err(|error| Error::invalid(format!("its header: {error}")))
}

/// What the header says. The library is not asked to read it: it would take one of two tensors of
/// the same name, and does not say which one is wrong.
fn metadata(header: &str) -> Result<Metadata> {
    const NOTES: &str = "__metadata__";
    let fault = |error: &dyn fmt::Display| Error::invalid(format!("its header: {}", shortened(error)));
    let Map(mut entries) = serde_json::from_str::<Map<&RawValue>>(header).map_err(|error| fault(&error))?;
    let notes = match entries.remove(NOTES) {
        Some(json) => {
            let notes = serde_json::from_str::<Map<String>>(json.get());
            Some(notes.map_err(|error| fault(&error).context(NOTES))?.0.into_iter().collect())
        }
        None => None,
    };
    let mut tensors = Vec::new();
    for (name, json) in entries {
        let info = serde_json::from_str::<TensorInfo>(json.get()).map_err(|error| fault(&error));
        let info =
            info.and_then(|info| has_its_size(&info).map(|()| info)).map_err(|error| error.context(quoted(&name)))?;
        tensors.push((name, info));
    }
    tensors.sort_by(|(name, info), (other, others)| (info.data_offsets, name).cmp(&(others.data_offsets, other)));
    Metadata::new(notes, tensors).map_err(|error| fault(&error))
}

/// Whether a tensor has as many bytes as its shape and its type ask for.
fn has_its_size(info: &TensorInfo) -> Result<()> {
    let (start, end) = info.data_offsets;
    let found = end.checked_sub(start);
    let numbers = info.shape.iter().try_fold(1_usize, |size, &length| size.checked_mul(length));
    let expected = numbers.and_then(|numbers| numbers.checked_mul(info.dtype.bitsize())).map(|bits| bits.div_ceil(8));
    match (found, expected) {
        (Some(found), Some(expected)) if found == expected => Ok(()),
        _ => {
            let (expected, found) =
                (expected.map_or("more than any".to_owned(), |size| size.to_string()), found.unwrap_or(0));
            Err(Error::invalid(format!("its header: {} has {expected} bytes, and has place for {found}", brief(info))))
        }
    }
}

/// The type and shape of a tensor of a file.
pub(crate) fn brief(info: &TensorInfo) -> String {
    const LONGEST: usize = 8;
    match info.shape.get(..LONGEST) {
        Some(start) if info.shape.len() > LONGEST => format!("{} {start:?}… ({} axes)", info.dtype, info.shape.len()),
        _ => format!("{} {:?}", info.dtype, info.shape),
    }
}

fn head(json: &str) -> Result<Head> {
    let fault = |error: serde_json::Error| {
        Error::invalid(format!("what stands under {KEY:?} in its metadata: {}", shortened(error)))
    };
    let Version { format } = serde_json::from_str(json).map_err(fault)?;
    if format != FORMAT {
        return Err(Error::invalid(format!(
            "it is of version {format} of the format, and this program reads version {FORMAT}"
        )));
    }
    serde_json::from_str(json).map_err(fault)
}

/// The checksum of all that is in a file. The source is where the tensors start.
fn checksum(source: &mut dyn Source, head: &Head, tensors: &BTreeMap<String, TensorInfo>) -> Result<u32> {
    let (mut bytes, mut chunk) = (Crc32::new(), vec![0; 1 << 16]);
    loop {
        match source.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => bytes.update(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::other(error)),
        }
    }
    Ok(head.checksum(bytes, tensors.iter().map(|(name, tensor)| info(name, tensor))))
}
