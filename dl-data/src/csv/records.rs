//! CSV records with their line numbers.

use crate::error::read_error;
use crate::source::{Input, Source};
use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder, Terminator};
use dl_core::{Error, Result};
use std::io::{self, Read};

pub(super) struct Records<'a> {
    reader: Reader<TrimmedInput<'a>>,
    file: String,
}

impl<'a> Records<'a> {
    pub(super) fn open(source: Source<'a>, delimiter: u8, comment: Option<u8>) -> Result<Self> {
        if delimiter == b'\n' || delimiter == b'"' || comment == Some(delimiter) || comment == Some(b'"') {
            let delimiter = char::from(delimiter);
            return Err(Error::invalid(format!(
                "the delimiter {delimiter:?} of a CSV file also marks lines, quotes or comments: choose another"
            )));
        }
        let input = source.open()?;
        let file = input.name.clone();
        // Only `\n` ends a line (a `\r` is trimmed with its field), so that the reader counts lines
        // as editors do.
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .comment(comment)
            .terminator(Terminator::Any(b'\n'))
            .from_reader(TrimmedInput {
                input,
                last_byte: b'\n',
                at_end: false,
                delimiter,
                comment,
                state: ScanState::LineStart,
            });
        Ok(Records { reader, file })
    }

    /// The name of the file.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// Reads the next record, skipping blank ones. Returns whether there was one.
    pub(super) fn next(&mut self, record: &mut ByteRecord) -> Result<bool> {
        loop {
            match self.reader.read_byte_record(record) {
                Ok(true) if self.reader.get_ref().at_end => return Err(self.open_quote(record)),
                Ok(true) if record.len() == 1 && record.as_slice() == b"\r" => {}
                Ok(there) => return Ok(there),
                Err(error) => return Err(self.unreadable(error)),
            }
        }
    }

    fn unreadable(&self, error: csv::Error) -> Error {
        let input = &self.reader.get_ref().input;
        match error.into_kind() {
            ErrorKind::Io(error) => input.io_error(error, input.offset(), 1, "a row"),
            other => Error::invalid(format!("{}: {other:?}", self.file)),
        }
    }

    /// The error for a record with an unclosed quote. The reader is past the last line.
    fn open_quote(&self, record: &ByteRecord) -> Error {
        let place = format!("line {}", self.line(record) + 1);
        let found = "none before the end of the file";
        read_error(
            &self.file,
            place,
            "a closing quote",
            found,
            "close the quote, or double it if it is part of the text",
        )
    }

    /// The line, from 1, on which the last record begins. The reader is at the beginning of the
    /// line after the record.
    pub(super) fn line(&self, record: &ByteRecord) -> u64 {
        let inside = record.as_slice().iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.reader.position().line().saturating_sub(1 + inside)
    }
}

/// Normalizes the bytes of a CSV file. It appends a newline if the last line has none, so that a
/// record always ends before the line that the reader is at. It drops white space at the beginning
/// of a field, since the reader would treat a quote after it as part of the text.
struct TrimmedInput<'a> {
    input: Input<'a>,
    last_byte: u8,
    /// Whether the end of the file was returned to the reader.
    at_end: bool,
    delimiter: u8,
    comment: Option<u8>,
    state: ScanState,
}

#[derive(Clone, Copy)]
enum ScanState {
    /// At the beginning of a line, or within a byte order mark.
    LineStart,
    /// At the beginning of a field other than the first.
    FieldStart,
    /// In an unquoted field, or after a quoted one.
    Unquoted,
    Quoted,
    /// After a quote that closes the field, unless another quote follows.
    QuoteEnd,
    Comment,
}

impl TrimmedInput<'_> {
    /// Removes dropped bytes in place. Returns the number of bytes kept.
    fn trim(&mut self, bytes: &mut [u8]) -> usize {
        let mut kept = 0;
        for from in 0..bytes.len() {
            let byte = bytes[from];
            self.state = match (self.state, byte) {
                (ScanState::Quoted, b'"') => ScanState::QuoteEnd,
                (ScanState::Quoted, _) => ScanState::Quoted,
                (_, b'\n') => ScanState::LineStart,
                (ScanState::Comment, _) => ScanState::Comment,
                (ScanState::LineStart, byte) if Some(byte) == self.comment => ScanState::Comment,
                (_, byte) if byte == self.delimiter => ScanState::FieldStart,
                (ScanState::LineStart | ScanState::FieldStart | ScanState::QuoteEnd, b'"') => ScanState::Quoted,
                (ScanState::LineStart | ScanState::FieldStart, b' ' | b'\t') => continue,
                (ScanState::LineStart, 0xef | 0xbb | 0xbf) => ScanState::LineStart,
                _ => ScanState::Unquoted,
            };
            bytes[kept] = byte;
            kept += 1;
        }
        kept
    }
}

impl Read for TrimmedInput<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut length = self.input.read(bytes)?;
            if length == 0 && self.last_byte != b'\n' && !bytes.is_empty() {
                bytes[0] = b'\n';
                length = 1;
            }
            let Some(last) = length.checked_sub(1) else {
                self.at_end = true;
                return Ok(0);
            };
            self.last_byte = bytes[last];
            let kept = self.trim(&mut bytes[..length]);
            if kept > 0 {
                return Ok(kept);
            }
        }
    }
}
