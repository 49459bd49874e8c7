//! The header of a `.npy` file: magic string, version, and a Python dictionary of three entries.
//!
//! ```text
//! \x93NUMPY 1 0 <length: u16> {'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }    \n
//! ```
//!
//! The parser is hand-written, not recursive, and limits the length of the header, since files may
//! come from untrusted sources.

use std::io::{self, Read};

/// Longer headers are rejected. NumPy writes about a hundred bytes.
const MAX_HEADER_BYTES: usize = 1 << 16;

/// The contents of a header.
#[derive(Debug, PartialEq)]
pub(super) struct Header {
    /// The element type, for instance `<f8`.
    pub(super) descr: String,
    pub(super) fortran: bool,
    pub(super) shape: Vec<usize>,
}

impl Header {
    pub(super) fn read(source: &mut impl Read) -> io::Result<Header> {
        let mut start = [0; 8];
        fill(source, &mut start, 0)?;
        let [magic @ .., major, minor] = start;
        if magic != *b"\x93NUMPY" {
            let zip = if magic.starts_with(b"PK") { " (a zip archive: open a .npz file with `Npz`)" } else { "" };
            let start = magic.escape_ascii();
            return Err(io::Error::other(format!(
                "not a .npy file: it starts with {start}{zip} instead of \\x93NUMPY"
            )));
        }
        let (length, start) = match (major, minor) {
            (1, 0) => {
                let mut length = [0; 2];
                fill(source, &mut length, 8)?;
                (usize::from(u16::from_le_bytes(length)), 10)
            }
            (2 | 3, 0) => {
                let mut length = [0; 4];
                fill(source, &mut length, 8)?;
                (u32::from_le_bytes(length) as usize, 12)
            }
            _ => {
                return Err(io::Error::other(format!(
                    "unsupported version {major}.{minor}: the versions 1.0, 2.0 and 3.0 are supported"
                )));
            }
        };
        if length > MAX_HEADER_BYTES {
            return Err(io::Error::other(format!(
                "a header of {length} bytes is longer than the limit of {MAX_HEADER_BYTES}"
            )));
        }
        let mut text = vec![0; length];
        fill(source, &mut text, start)?;
        let text = std::str::from_utf8(&text).map_err(|error| {
            io::Error::other(format!("the header is not UTF-8 at byte {}", start + error.valid_up_to()))
        })?;
        let mut parser = Parser { text, at: 0 };
        parser.header().map_err(|what| io::Error::other(format!("byte {}: the header has {what}", start + parser.at)))
    }
}

fn fill(source: &mut impl Read, bytes: &mut [u8], at: usize) -> io::Result<()> {
    let length = bytes.len();
    source.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other(format!(
            "the data is truncated: it ends within the {length} bytes of the header from byte {at} on"
        )),
        _ => error,
    })
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn header(&mut self) -> Result<Header, String> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.eat('}') {
            let key = self.string("a key in quotes")?;
            self.expect(':')?;
            let again = match key {
                "descr" => descr.replace(self.descr()?).is_some(),
                "fortran_order" => fortran.replace(self.truth()?).is_some(),
                "shape" => shape.replace(self.shape()?).is_some(),
                _ => return Err(format!("the unknown key {key:?}: the keys are `descr`, `fortran_order` and `shape`")),
            };
            if again {
                return Err(format!("the key {key:?} twice"));
            }
            if !self.eat(',') {
                self.expect('}')?;
                break;
            }
        }
        if !self.rest().is_empty() {
            return Err("more text after the dictionary".to_owned());
        }
        let missing = |key| move || format!("no entry `{key}`");
        Ok(Header {
            descr: descr.ok_or_else(missing("descr"))?,
            fortran: fortran.ok_or_else(missing("fortran_order"))?,
            shape: shape.ok_or_else(missing("shape"))?,
        })
    }

    fn descr(&mut self) -> Result<String, String> {
        if self.rest().starts_with('[') {
            return Err("a structured type: save each of its fields as an array".to_owned());
        }
        Ok(self.string("a type in quotes")?.to_owned())
    }

    fn truth(&mut self) -> Result<bool, String> {
        for (word, truth) in [("True", true), ("False", false)] {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(truth);
            }
        }
        Err(self.instead("`True` or `False`"))
    }

    fn shape(&mut self) -> Result<Vec<usize>, String> {
        let mut shape = Vec::new();
        self.expect('(')?;
        while !self.eat(')') {
            let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 {
                return Err(self.instead("a length"));
            }
            let length = &self.rest()[..digits];
            shape.push(length.parse().map_err(|_| format!("the length {length}, which is too large"))?);
            self.at += digits;
            self.eat('L'); // Python 2
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }

    fn string(&mut self, what: &str) -> Result<&'a str, String> {
        let rest = self.rest();
        let quote = rest.chars().next().filter(|c| ['\'', '"'].contains(c)).ok_or_else(|| self.instead(what))?;
        let end = rest[1..].find(quote).ok_or("an unterminated string")?;
        self.at += end + 2;
        Ok(&rest[1..=end])
    }

    /// The remaining text, without leading white space.
    fn rest(&mut self) -> &'a str {
        let rest = self.text[self.at..].trim_ascii_start();
        self.at = self.text.len() - rest.len();
        rest
    }

    fn eat(&mut self, c: char) -> bool {
        let there = self.rest().starts_with(c);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, c: char) -> Result<(), String> {
        if self.eat(c) { Ok(()) } else { Err(self.instead(&format!("`{c}`"))) }
    }

    fn instead(&mut self, of: &str) -> String {
        match self.rest().chars().next() {
            Some(c) => format!("{c:?} instead of {of}"),
            None => format!("no {of} at the end"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Header, String> {
        Parser { text, at: 0 }.header()
    }

    #[test]
    fn header_in_other_spelling_parses_equally() {
        let expected = Header { descr: "<f8".into(), fortran: false, shape: vec![2, 3] };
        for text in [
            "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }    \n",
            "{\"shape\":(2L,3L,),'fortran_order':False,'descr':'<f8'}",
        ] {
            assert_eq!(parse(text).unwrap(), expected);
        }
        assert_eq!(parse("{'descr':'|b1','fortran_order':True,'shape':()}").unwrap().shape, [0_usize; 0]);
    }

    #[test]
    fn invalid_header_error_names_problem() {
        for (text, expected) in [
            ("", "no `{` at the end"),
            ("{'descr': [('a', '<f4')]", "structured"),
            ("{'descr': '<f8', 'descr': '<f8'", "twice"),
            ("{'descr': '<f8', 'fortran_order': 1", "'1' instead of `True` or `False`"),
            ("{'shape': (-1,)", "'-' instead of a length"),
            ("{'shape': (99999999999999999999,)", "too large"),
            ("{'shape': (1 2)", "'2' instead of `)`"),
            ("{'other': 1", "\"other\""),
            ("{'desc", "unterminated"),
            ("{'descr': '<f8'}", "no entry `fortran_order`"),
            ("{'descr':'|b1','fortran_order':True,'shape':()} 1", "more text"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
