//! The handwritten digits: parsing with error positions, seeded shuffling and splitting, as arrays
//! or tensors.

#![allow(dead_code, reason = "each program that includes this file takes what it needs")]

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use dl::nd::{Element, ndarray::Axis};
use dl::prelude::*;

use csv::{ByteRecord, ReaderBuilder, Terminator};
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

/// The data file.
pub(crate) const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv");
/// Pixels per image, 8 rows of 8.
pub(crate) const PIXELS: usize = 64;
/// The largest pixel value.
const BRIGHTEST: u8 = 16;
/// The largest label.
const LAST_LABEL: u8 = 9;

/// Images and their labels, index by index.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Digits {
    /// Pixels row by row, each in `0.0..=1.0`.
    pub(crate) images: Vec<[f32; PIXELS]>,
    /// The digit of each image, `0..=9`.
    pub(crate) labels: Vec<usize>,
}

/// Images `[n, 64]` and their labels.
pub(crate) type Batch<A = f32> = (Nd<A, Ix2>, Nd<usize, Ix1>);

/// All digits of the file, as tensors.
pub(crate) fn tensors<A: Element>() -> dl::Result<Batch<A>> {
    let digits = Digits::read(Path::new(FILE)).map_err(Error::other)?;
    let pixels = digits.images.as_flattened().iter().map(|&pixel| A::of(pixel.into())).collect();
    Ok((Nd::from_vec([digits.count(), PIXELS], pixels)?, digits.labels.into()))
}

/// The images and labels with these indices, in this order.
pub(crate) fn select((images, labels): &Batch, of: &[usize]) -> Batch {
    (images.view().select(Axis(0), of).into(), labels.view().select(Axis(0), of).into())
}

/// An invalid data file, reported in one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DigitsError {
    /// The file cannot be opened or read.
    #[error("{}: {cause}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error of the system or the CSV reader.
        cause: String,
    },
    /// The file holds no image.
    #[error("{}:1:1: the file is empty", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// A field is invalid.
    #[error("{}:{line}:{column}: {what}", file.display())]
    Fault {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The column (the field of the line), counted from 1.
        column: usize,
        /// The expected and the actual content.
        what: String,
    },
}

impl Digits {
    /// Reads `file` line by line.
    pub(crate) fn read(file: &Path) -> Result<Self, DigitsError> {
        let unreadable = |cause: String| DigitsError::Unreadable { file: file.to_owned(), cause };
        let source = File::open(file).map_err(|error| unreadable(error.to_string()))?;
        // Lines end in `\n` alone (a `\r` is trimmed with the field), so that the reader's line
        // numbers are the file's.
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .quoting(false)
            .terminator(Terminator::Any(b'\n'))
            .from_reader(source);
        let mut digits = Self::default();
        let mut record = ByteRecord::new();
        loop {
            let before = reader.position().line();
            if !reader.read_byte_record(&mut record).map_err(|error| unreadable(error.to_string()))? {
                break;
            }
            let after = reader.position().line();
            let line = if after > before { after - 1 } else { after };
            let (image, label) = parse(&record).map_err(|(column, what)| DigitsError::Fault {
                file: file.to_owned(),
                line,
                column,
                what,
            })?;
            digits.images.push(image);
            digits.labels.push(label);
        }
        if digits.labels.is_empty() { Err(DigitsError::Empty { file: file.to_owned() }) } else { Ok(digits) }
    }

    /// The number of images.
    pub(crate) fn count(&self) -> usize {
        self.labels.len()
    }

    /// Shuffles with `seed` and holds out a fifth: `(train, test)`.
    pub(crate) fn split(&self, seed: u64) -> (Self, Self) {
        let order = shuffled(self.count(), &mut ChaCha8Rng::seed_from_u64(seed));
        let (test, train) = order.split_at(self.count() / 5);
        (self.select(train), self.select(test))
    }

    fn select(&self, indices: &[usize]) -> Self {
        Self {
            images: indices.iter().map(|&index| self.images[index]).collect(),
            labels: indices.iter().map(|&index| self.labels[index]).collect(),
        }
    }
}

/// A random permutation of `0..length`, from which an epoch takes its mini-batches.
pub(crate) fn shuffled(length: usize, random: &mut ChaCha8Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    order.shuffle(random);
    order
}

/// Parses one line; an error has the column of the invalid field.
fn parse(record: &ByteRecord) -> Result<([f32; PIXELS], usize), (usize, String)> {
    let mut image = [0.0; PIXELS];
    for (index, pixel) in image.iter_mut().enumerate() {
        *pixel = f32::from(number(record, index, "a pixel", BRIGHTEST)?) / f32::from(BRIGHTEST);
    }
    let label = number(record, PIXELS, "the label", LAST_LABEL)?;
    if record.len() > PIXELS + 1 {
        let found = record.len();
        return Err((PIXELS + 2, format!("expected {} columns, found {found}", PIXELS + 1)));
    }
    Ok((image, usize::from(label)))
}

fn number(record: &ByteRecord, index: usize, name: &str, last: u8) -> Result<u8, (usize, String)> {
    let fault = |what: String| (index + 1, what);
    let Some(field) = record.get(index) else {
        return Err(fault(format!("expected {} columns, found {}", PIXELS + 1, record.len())));
    };
    let text = std::str::from_utf8(field).map_err(|_| fault("not UTF-8".to_owned()))?.trim();
    let value: i64 =
        text.parse().map_err(|_| fault(format!("{name} must be a whole number in 0..={last}, found {text:?}")))?;
    u8::try_from(value)
        .ok()
        .filter(|&value| value <= last)
        .ok_or_else(|| fault(format!("{name} must be in 0..={last}, found {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pixel: &str, label: &str) -> String {
        format!("{pixel},{},{label}", vec!["16"; PIXELS - 1].join(","))
    }

    fn read(name: &str, content: &[u8]) -> Result<Digits, String> {
        let file = std::env::temp_dir().join(format!("dl-digits-{}-{name}.csv", std::process::id()));
        std::fs::write(&file, content).unwrap();
        let result = Digits::read(&file);
        std::fs::remove_file(&file).unwrap();
        result.map_err(|error| {
            let text = error.to_string();
            assert!(!text.contains('\n'), "{text:?} is more than a line");
            text.strip_prefix(&file.display().to_string()).expect("names the file").to_owned()
        })
    }

    #[test]
    fn valid_file_is_parsed() {
        let digits = read("good", format!("{}\r\n{}", line("0", "3"), line("4", "9")).as_bytes()).unwrap();
        assert_eq!(digits.labels, [3, 9]);
        assert_eq!(digits.images[1][..2], [0.25, 1.0]);
    }

    #[test]
    fn invalid_field_is_reported_with_line_and_column() {
        let good = line("0", "3");
        let cases = [
            ("word", line("x", "1"), ":2:1: a pixel must be a whole number in 0..=16, found \"x\""),
            ("bright", line("17", "1"), ":2:1: a pixel must be in 0..=16, found 17"),
            ("negative", line("-1", "1"), ":2:1: a pixel must be in 0..=16, found -1"),
            ("label", line("1", "10"), ":2:65: the label must be in 0..=9, found 10"),
            ("short", "1,2".to_owned(), ":2:3: expected 65 columns, found 2"),
            ("long", line("1", "1,1"), ":2:66: expected 65 columns, found 66"),
        ];
        for (name, bad, expected) in cases {
            assert_eq!(read(name, format!("{good}\n{bad}\n{good}\n").as_bytes()).unwrap_err(), expected);
        }
        let mut bytes = format!("{good}\n\n1,").into_bytes();
        bytes.extend(b"\xff,2\n");
        assert_eq!(read("bytes", &bytes).unwrap_err(), ":3:2: not UTF-8");
        assert_eq!(read("empty", b"").unwrap_err(), ":1:1: the file is empty");
    }

    #[test]
    fn missing_file_is_reported_with_path() {
        assert!(Digits::read(Path::new("no/such.csv")).unwrap_err().to_string().starts_with("no/such.csv: "));
    }

    #[test]
    fn split_depends_only_on_seed() {
        let digits = Digits { images: vec![[0.0; PIXELS]; 100], labels: (0..100).collect() };
        let (train, test) = digits.split(1);
        assert_eq!((train.count(), test.count()), (80, 20));
        assert_eq!(digits.split(1), (train.clone(), test.clone()));
        assert_ne!(digits.split(2).1, test);
        let mut all = [train.labels, test.labels].concat();
        all.sort_unstable();
        assert_eq!(all, digits.labels);
    }
}
