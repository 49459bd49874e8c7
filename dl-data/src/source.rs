//! Input bytes from a file or from memory, with a limit and transparent gzip decompression.

use crate::error::read_error;
use dl_core::{Error, Result, files};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

/// A file or bytes in memory to be read. Gzip is detected by its first two bytes and decompressed.
///
/// Readers accept `impl Into<Source>`, so a path can be passed directly. A reader fails once it has
/// read more than the [`limit`](Source::limit), counted after decompression: a gzip file of a few
/// megabytes can expand to gigabytes.
///
/// ```
/// use dl_data::{Source, idx};
/// use dl_nd::{Nd, ndarray::Ix1};
/// let bytes = [0, 0, 8, 1, 0, 0, 0, 2, 5, 6];
/// assert_eq!(idx::read::<u8, Ix1>(Source::memory("two.idx", &bytes))?, Nd::from([5_u8, 6]));
/// assert!(idx::read::<u8, Ix1>("no/such/file").unwrap_err().to_string().contains("no/such/file"));
/// assert!(idx::read::<u8, Ix1>(Source::memory("two.idx", &bytes).limit(9)).is_err());
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Source<'a> {
    name: String,
    bytes: Bytes<'a>,
    limit: u64,
}

#[derive(Clone, Debug)]
enum Bytes<'a> {
    File(PathBuf),
    Memory(&'a [u8]),
}

impl<'a> Source<'a> {
    /// The default limit in bytes: 4 GiB.
    ///
    /// ```
    /// assert_eq!(dl_data::Source::LIMIT, 4 * 1024 * 1024 * 1024);
    /// ```
    pub const LIMIT: u64 = 4 << 30;

    /// A file. The reader opens it.
    pub fn file(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        Source { name: path.display().to_string(), bytes: Bytes::File(path.to_owned()), limit: Self::LIMIT }
    }

    /// Bytes in memory; errors call them `name`.
    pub fn memory(name: impl Into<String>, bytes: &'a [u8]) -> Self {
        Source { name: name.into(), bytes: Bytes::Memory(bytes), limit: Self::LIMIT }
    }

    /// Sets the limit in bytes, after decompression.
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// The name used in errors.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn limit_in_bytes(&self) -> u64 {
        self.limit
    }

    /// Opens the source for sequential reading, with decompression.
    pub(crate) fn open(self) -> Result<Input<'a>> {
        let (mut plain, size): (Box<dyn BufRead + 'a>, _) = match self.bytes {
            Bytes::Memory(bytes) => (Box::new(bytes), Some(bytes.len() as u64)),
            Bytes::File(path) => {
                let file = open(&self.name, &path)?;
                let metadata = file.metadata().map_err(|error| unreadable(&self.name, error))?;
                (Box::new(BufReader::new(file)), metadata.is_file().then_some(metadata.len()))
            }
        };
        let start = plain.fill_buf().map_err(|error| unreadable(&self.name, error))?;
        let compressed = start.starts_with(&[0x1F, 0x8B]);
        let bytes = if compressed { Box::new(BufReader::new(MultiGzDecoder::new(plain))) } else { plain };
        let size = size.filter(|_| !compressed);
        Ok(Input { name: self.name, bytes, compressed, size, limit: self.limit, offset: 0 })
    }

    /// Opens the source for random access, without decompression.
    pub(crate) fn open_seekable(self) -> Result<Box<dyn ReadSeek + 'a>> {
        Ok(match self.bytes {
            Bytes::Memory(bytes) => Box::new(io::Cursor::new(bytes)),
            Bytes::File(path) => Box::new(BufReader::new(open(&self.name, &path)?)),
        })
    }
}

fn open(name: &str, path: &Path) -> Result<File> {
    files::open(path).map_err(|error| unreadable(name, error))
}

/// The error for an I/O error of the operating system.
pub(crate) fn unreadable(name: &str, error: io::Error) -> Error {
    Error::invalid(format!("{name}: cannot be read: {error}"))
}

/// A buffered reader with random access.
pub(crate) trait ReadSeek: BufRead + Seek {}

impl<R: BufRead + Seek> ReadSeek for R {}

macro_rules! paths {
    ($($Path:ty),*) => {$(
        impl From<$Path> for Source<'_> {
            fn from(path: $Path) -> Self {
                Source::file(path)
            }
        }
    )*};
}

paths!(&str, &String, String, &Path, &PathBuf, PathBuf);

/// A sequential reader that counts bytes and fails at the limit.
pub(crate) struct Input<'a> {
    pub(crate) name: String,
    bytes: Box<dyn BufRead + 'a>,
    compressed: bool,
    /// The total number of bytes, if known.
    size: Option<u64>,
    limit: u64,
    offset: u64,
}

impl Input<'_> {
    /// The number of bytes read so far.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The total number of bytes, if it is known and within the limit.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size.filter(|&size| size <= self.limit)
    }

    /// An error at a byte offset.
    pub(crate) fn error_at(&self, offset: u64, expected: &str, found: impl std::fmt::Display, advice: &str) -> Error {
        let place = if self.compressed { "offset in the decompressed bytes" } else { "offset" };
        read_error(&self.name, format_args!("{place} {offset}"), expected, found, advice)
    }

    /// Reads the next `N` bytes; `what` names them in errors.
    pub(crate) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, what)?;
        Ok(bytes)
    }

    /// Fills `bytes` with the next bytes; `what` names them in errors.
    pub(crate) fn fill(&mut self, bytes: &mut [u8], what: &str) -> Result<()> {
        let (start, length) = (self.offset, bytes.len());
        self.read_exact(bytes).map_err(|error| self.io_error(error, start, length as u64, what))
    }

    /// Reads the next `length` bytes as numbers of `size` bytes each. If the size of the file is
    /// known, a length beyond its end is refused before any allocation. Otherwise the vector grows
    /// as bytes arrive.
    pub(crate) fn numbers<A>(
        &mut self,
        length: u64,
        size: usize,
        decode: impl Fn(&[u8]) -> A,
        what: &str,
    ) -> Result<Vec<A>> {
        /// Bytes per read; must be a multiple of every `size`.
        const CHUNK: u64 = 1 << 16;

        let start = self.offset;
        let accepted = self.size.unwrap_or(self.limit).min(self.limit).saturating_sub(start);
        if length > accepted {
            return Err(match self.size {
                Some(size) if size <= self.limit => self.truncated(start, length, what, size),
                _ => self.over_limit(start),
            });
        }
        let mut numbers = Vec::new();
        let initial = if self.size.is_some() { length } else { length.min(CHUNK) };
        numbers
            .try_reserve_exact(initial as usize / size)
            .map_err(|_| Error::invalid(format!("{}: no memory for {length} bytes of {what}", self.name)))?;
        let mut buffer = vec![0; length.min(CHUNK) as usize];
        let mut rest = length;
        while rest > 0 {
            let bytes = &mut buffer[..rest.min(CHUNK) as usize];
            self.read_exact(bytes).map_err(|error| self.io_error(error, start, length, what))?;
            numbers.extend(bytes.chunks_exact(size).map(&decode));
            rest -= bytes.len() as u64;
        }
        Ok(numbers)
    }

    /// Whether all bytes have been read.
    pub(crate) fn is_at_end(&mut self) -> Result<bool> {
        let empty = self.fill_buf().map(<[u8]>::is_empty);
        empty.map_err(|error| self.io_error(error, self.offset, 1, "more, or the end"))
    }

    /// Checks that all bytes have been read. For a gzip file this also verifies the checksum.
    pub(crate) fn expect_end(&mut self, advice: &str) -> Result<()> {
        if self.is_at_end()? {
            return Ok(());
        }
        Err(self.error_at(self.offset, "the end of the file", "more bytes", advice))
    }

    /// The error for an I/O error in the `length` bytes of `what` from offset `start`.
    pub(crate) fn io_error(&self, error: io::Error, start: u64, length: u64, what: &str) -> Error {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.truncated(start, length, what, self.offset),
            io::ErrorKind::QuotaExceeded => self.over_limit(start),
            _ if self.compressed => {
                let expected = "a complete gzip file";
                self.error_at(self.offset, expected, error, "get the file again: it is damaged or truncated")
            }
            _ => unreadable(&self.name, error),
        }
    }

    fn truncated(&self, start: u64, length: u64, what: &str, end: u64) -> Error {
        let expected = format!("{length} bytes of {what}");
        let found = format_args!("{} before the end of the file", end.saturating_sub(start));
        self.error_at(start, &expected, found, "get the file again: it is truncated, or a length in it is wrong")
    }

    fn over_limit(&self, start: u64) -> Error {
        let expected = format!("at most {} bytes in the file", self.limit);
        self.error_at(start, &expected, "more", "raise `Source::limit` if you trust the file")
    }
}

impl Read for Input<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let accepted = self.fill_buf()?;
        let length = accepted.len().min(bytes.len());
        bytes[..length].copy_from_slice(&accepted[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for Input<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let accepted = self.limit - self.offset;
        let bytes = self.bytes.fill_buf()?;
        if accepted == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let length = bytes.len().min(usize::try_from(accepted).unwrap_or(usize::MAX));
        Ok(&bytes[..length])
    }

    fn consume(&mut self, length: usize) {
        self.offset += length as u64;
        self.bytes.consume(length);
    }
}
