//! The records of a file, and the lines that they stand in.

use crate::fault::fault;
use crate::source::{Input, Source};
use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder, Terminator};
use dl_core::{Error, Result};
use std::io::{self, Read};

pub(super) struct Lines<'a> {
    reader: Reader<Tidied<'a>>,
    file: String,
}

impl<'a> Lines<'a> {
    pub(super) fn open(source: Source<'a>, delimiter: u8, comment: Option<u8>) -> Result<Self> {
        if delimiter == b'\n' || delimiter == b'"' || comment == Some(delimiter) || comment == Some(b'"') {
            let delimiter = char::from(delimiter);
            return Err(Error::invalid(format!(
                "the delimiter {delimiter:?} of a CSV file is that of lines, quotes or comments: take another"
            )));
        }
        let input = source.open()?;
        let file = input.name.clone();
        // Lines end in `\n` alone (a `\r` is trimmed with its field), so that the reader counts
        // them as editors do.
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .comment(comment)
            .terminator(Terminator::Any(b'\n'))
            .from_reader(Tidied { input, last: b'\n', ended: false, delimiter, comment, at: Place::Line });
        Ok(Lines { reader, file })
    }

    /// The name of the file.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// Reads the next record that is not blank. Whether there is one.
    pub(super) fn next(&mut self, record: &mut ByteRecord) -> Result<bool> {
        loop {
            match self.reader.read_byte_record(record) {
                Ok(true) if self.reader.get_ref().ended => return Err(self.open_quote(record)),
                Ok(true) if record.len() == 1 && record.as_slice() == b"\r" => {}
                Ok(there) => return Ok(there),
                Err(error) => return Err(self.unreadable(error)),
            }
        }
    }

    fn unreadable(&self, error: csv::Error) -> Error {
        let input = &self.reader.get_ref().input;
        match error.into_kind() {
            ErrorKind::Io(error) => input.failed(error, input.offset(), 1, "a row"),
            other => Error::invalid(format!("{}: {other:?}", self.file)),
        }
    }

    /// That a record goes on to the end of the file, which is behind the end of a line.
    fn open_quote(&self, record: &ByteRecord) -> Error {
        let place = format!("line {}", self.line(record) + 1);
        let found = "one that goes on to the end of the file";
        fault(
            &self.file,
            place,
            "a quote that is closed",
            found,
            "close it, or write it twice if it is part of the text",
        )
    }

    /// The line, from 1, in which the record begins that was read last. The reader stands behind
    /// it, at the beginning of a line.
    pub(super) fn line(&self, record: &ByteRecord) -> u64 {
        let inside = record.as_slice().iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.reader.position().line().saturating_sub(1 + inside)
    }
}

/// The bytes of a file, and a newline if they do not end in one: so a record always ends before the
/// line that the reader is at. White space at the beginning of a field is left out, as to the
/// reader a quote behind it would be part of the text.
struct Tidied<'a> {
    input: Input<'a>,
    last: u8,
    /// Whether the reader has been told that it is at the end.
    ended: bool,
    delimiter: u8,
    comment: Option<u8>,
    at: Place,
}

#[derive(Clone, Copy)]
enum Place {
    /// At the beginning of a line, or behind the mark that a file may begin with.
    Line,
    /// At the beginning of another field.
    Begins,
    /// In a field without quotes, or behind them.
    Inside,
    Quoted,
    /// Behind a quote that ends the quoted text, unless another one follows.
    AtQuote,
    Comment,
}

impl Tidied<'_> {
    /// Moves what is kept to the front. How much there is of it.
    fn tidy(&mut self, bytes: &mut [u8]) -> usize {
        let mut kept = 0;
        for from in 0..bytes.len() {
            let byte = bytes[from];
            self.at = match (self.at, byte) {
                (Place::Quoted, b'"') => Place::AtQuote,
                (Place::Quoted, _) => Place::Quoted,
                (_, b'\n') => Place::Line,
                (Place::Comment, _) => Place::Comment,
                (Place::Line, byte) if Some(byte) == self.comment => Place::Comment,
                (_, byte) if byte == self.delimiter => Place::Begins,
                (Place::Line | Place::Begins | Place::AtQuote, b'"') => Place::Quoted,
                (Place::Line | Place::Begins, b' ' | b'\t') => continue,
                (Place::Line, 0xef | 0xbb | 0xbf) => Place::Line,
                _ => Place::Inside,
            };
            bytes[kept] = byte;
            kept += 1;
        }
        kept
    }
}

impl Read for Tidied<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut length = self.input.read(bytes)?;
            if length == 0 && self.last != b'\n' && !bytes.is_empty() {
                bytes[0] = b'\n';
                length = 1;
            }
            let Some(last) = length.checked_sub(1) else {
                self.ended = true;
                return Ok(0);
            };
            self.last = bytes[last];
            let kept = self.tidy(&mut bytes[..length]);
            if kept > 0 {
                return Ok(kept);
            }
        }
    }
}
