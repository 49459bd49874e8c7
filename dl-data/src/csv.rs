//! CSV files: numbers as features and targets, class names as labels.

mod columns;
mod labels;
mod records;

use crate::error::{quoted, read_error};
use crate::source::Source;
use columns::Selection;
use csv::ByteRecord;
use dl_core::{Error, Result};
use dl_nd::ndarray::Ix2;
use dl_nd::{Element, Nd};
use labels::{Classes, Labels};
use records::Records;
use std::str::FromStr;

/// A reader for comma-separated values.
///
/// Fields may be quoted; white space around them is ignored. By default, the first line names the
/// columns, and every column that is neither a target nor the label is a feature. Each field that
/// is read must be a finite number or, in the label column, a class.
///
/// ```
/// use dl_data::{Csv, Source};
/// use dl_nd::Nd;
/// let file = "width,height,kind\n1,2,small\n10,20,large\n";
/// let frame = Csv::new().label("kind").read::<f32>(Source::memory("kinds.csv", file.as_bytes()))?;
/// assert_eq!(frame.features, Nd::from([[1.0, 2.0], [10.0, 20.0]]));
/// assert_eq!((frame.names, frame.classes), (vec!["width".into(), "height".into()], vec!["large".into(), "small".into()]));
/// assert_eq!(frame.labels, [1, 0]);
///
/// let error = Csv::new().read::<f32>(Source::memory("kinds.csv", file.as_bytes())).unwrap_err();
/// assert!(error.to_string().starts_with("kinds.csv: line 2, column 3 (`kind`): expected a finite number, found \"small\""));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Csv {
    features: Option<Vec<Column>>,
    targets: Vec<Column>,
    label: Option<(Column, Classes)>,
    header: bool,
    delimiter: u8,
    comment: Option<u8>,
    missing: bool,
}

/// A column, by its name or by its number from 0.
///
/// ```
/// use dl_data::Column;
/// assert_eq!(Column::from("width"), Column::Name("width".into()));
/// assert_eq!(Column::from(2), Column::Number(2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// By its name in the header line.
    Name(String),
    /// By its number, from 0.
    Number(usize),
}

impl From<&str> for Column {
    fn from(name: &str) -> Self {
        Column::Name(name.to_owned())
    }
}

impl From<String> for Column {
    fn from(name: String) -> Self {
        Column::Name(name)
    }
}

impl From<usize> for Column {
    fn from(number: usize) -> Self {
        Column::Number(number)
    }
}

/// The content of a CSV file.
///
/// ```
/// use dl_data::{Csv, Dataset, InMemory, Source};
/// let frame = Csv::new().target("y").read::<f64>(Source::memory("line.csv", b"x,y\n1,3\n2,5\n"))?;
/// let data = InMemory(frame.features).zip(InMemory(frame.targets))?;
/// assert_eq!(data.get(1)?.1[0], 5.0);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Frame<A: Element = f32> {
    /// The names of the features; empty if the file has no header.
    pub names: Vec<String>,
    /// `[rows, features]`.
    pub features: Nd<A, Ix2>,
    /// `[rows, targets]`.
    pub targets: Nd<A, Ix2>,
    /// The class index of each row; empty if no label column was selected.
    pub labels: Vec<usize>,
    /// The names of the classes; empty with [`Csv::label_below`] or without a label.
    pub classes: Vec<String>,
}

impl Default for Csv {
    fn default() -> Self {
        Csv {
            features: None,
            targets: Vec::new(),
            label: None,
            header: true,
            delimiter: b',',
            comment: None,
            missing: false,
        }
    }
}

impl Csv {
    /// A reader with the defaults: a header line, and commas as delimiters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects the feature columns, in this order.
    ///
    /// ```
    /// use dl_data::{Csv, Source};
    /// let source = Source::memory("abc.csv", b"a,b,c\n1,2,3\n");
    /// assert_eq!(Csv::new().features(["c", "a"]).read::<f32>(source)?.features, dl_nd::Nd::from([[3.0, 1.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn features<C: Into<Column>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.features = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Adds a target column: numbers to be predicted. Can be called several times.
    ///
    /// ```
    /// use dl_data::{Csv, Source};
    /// let frame = Csv::new().target("price").read::<f32>(Source::memory("flats.csv", b"rooms,price\n2,700\n"))?;
    /// assert_eq!((frame.names, frame.targets[[0, 0]]), (vec!["rooms".to_owned()], 700.0));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn target(mut self, column: impl Into<Column>) -> Self {
        self.targets.push(column.into());
        self
    }

    /// Selects the label column. The classes are the distinct values found there, in numerical
    /// order if all are whole numbers, otherwise in alphabetical order. If a file may lack some of
    /// the classes, list all of them with [`label_of`](Csv::label_of).
    pub fn label(mut self, column: impl Into<Column>) -> Self {
        self.label = Some((column.into(), Classes::Inferred));
        self
    }

    /// Selects the label column and lists its classes. Any other class is an error.
    ///
    /// ```
    /// use dl_data::{Csv, Source};
    /// let kinds = Csv::new().label_of("kind", ["small", "large"]);
    /// assert_eq!(kinds.read::<f32>(Source::memory("kinds.csv", b"x,kind\n1,large\n"))?.labels, [1]);
    /// assert!(kinds.read::<f32>(Source::memory("kinds.csv", b"x,kind\n1,larg\n")).is_err());
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn label_of<C: Into<String>>(
        mut self,
        column: impl Into<Column>,
        classes: impl IntoIterator<Item = C>,
    ) -> Self {
        self.label = Some((column.into(), Classes::Named(classes.into_iter().map(Into::into).collect())));
        self
    }

    /// Selects the label column, which holds whole numbers below `classes`.
    ///
    /// ```
    /// use dl_data::{Csv, Source};
    /// let digits = Csv::new().header(false).label_below(2, 10);
    /// assert_eq!(digits.read::<f32>(Source::memory("digits.csv", b"0,16,7\n"))?.labels, [7]);
    /// assert!(digits.read::<f32>(Source::memory("digits.csv", b"0,16,10\n")).is_err());
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn label_below(mut self, column: impl Into<Column>, classes: usize) -> Self {
        self.label = Some((column.into(), Classes::Below(classes)));
        self
    }

    /// Whether the first line is a header with the names of the columns; on by default. Without a
    /// header, columns are selected by number.
    ///
    /// ```
    /// use dl_data::{Csv, Source};
    /// let frame = Csv::new().header(false).read::<f32>(Source::memory("numbers.csv", b"1,2\n3,4\n"))?;
    /// assert_eq!(frame.features.shape(), [2, 2]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn header(mut self, header: bool) -> Self {
        self.header = header;
        self
    }

    /// Sets the field delimiter: `b','` (the default), `b';'`, `b'\t'`, …
    ///
    /// ```
    /// use dl_data::{Csv, Source};
    /// let frame = Csv::new().delimiter(b';').read::<f32>(Source::memory("ab.csv", b"a;b\n1;2\n"))?;
    /// assert_eq!(frame.features, dl_nd::Nd::from([[1.0, 2.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        self.delimiter = delimiter;
        self
    }

    /// Skips lines that begin with this byte. By default, no lines are skipped.
    ///
    /// ```
    /// use dl_data::{Csv, Source};
    /// let frame = Csv::new().comment(b'#').read::<f32>(Source::memory("a.csv", b"a\n# not a number\n1\n"))?;
    /// assert_eq!(frame.features.shape(), [1, 1]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn comment(mut self, start: u8) -> Self {
        self.comment = Some(start);
        self
    }

    /// Whether numbers may be missing; off by default. Missing numbers (an empty field, `?`, `NA`,
    /// `N/A`, `NaN`, `nan`) become NaN.
    ///
    /// ```
    /// use dl_data::{Csv, Source};
    /// let frame = Csv::new().missing(true).read::<f32>(Source::memory("ab.csv", b"a,b\n1,NA\n"))?;
    /// assert!(frame.features[[0, 1]].is_nan());
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn missing(mut self, allowed: bool) -> Self {
        self.missing = allowed;
        self
    }

    /// Reads a file, row by row.
    ///
    /// # Errors
    /// When a setting is invalid, the file cannot be read, a selected column does not exist, two
    /// columns have the same name, a row has more or fewer fields than the first line, a field is
    /// not a valid number or class, or there are no rows.
    pub fn read<'a, A: Element + FromStr>(&self, source: impl Into<Source<'a>>) -> Result<Frame<A>> {
        let mut records = Records::open(source.into(), self.delimiter, self.comment)?;
        let mut labels = Labels::new(self.label.as_ref().map(|(_, classes)| classes))?;
        let mut record = ByteRecord::new();
        let nothing = |records: &Records<'_>, what: &str| {
            read_error(
                records.file(),
                "end of file",
                what,
                "nothing",
                "check that this is the right file, and that it is complete",
            )
        };
        if !records.next(&mut record)? {
            return Err(nothing(&records, if self.header { "a header line" } else { "a row" }));
        }
        let names = if self.header { Some(columns::names(&records, &record)?) } else { None };
        let selection = Selection::new(self, records.file(), names, record.len())?;
        let (mut features, mut targets, mut rows) = (Vec::new(), Vec::new(), 0_usize);
        let mut there = !self.header || records.next(&mut record)?;
        while there {
            let row = Row { records: &records, record: &record, selection: &selection, missing: self.missing };
            row.check_width()?;
            for &column in &selection.features {
                features.push(row.number(column)?);
            }
            for &column in &selection.targets {
                targets.push(row.number(column)?);
            }
            if let Some(column) = selection.label {
                let text = row.text(column)?;
                labels.push(text).map_err(|expected| {
                    row.error_at(column, &expected, text, "list all classes, or correct the file")
                })?;
            }
            rows += 1;
            there = records.next(&mut record)?;
        }
        if rows == 0 {
            return Err(nothing(&records, "a row"));
        }
        let (labels, classes) = labels.finish();
        Ok(Frame {
            features: Nd::from_vec([rows, selection.features.len()], features)?,
            targets: Nd::from_vec([rows, selection.targets.len()], targets)?,
            names: selection.feature_names(),
            labels,
            classes,
        })
    }
}

/// A row, with the context for its errors.
struct Row<'a> {
    records: &'a Records<'a>,
    record: &'a ByteRecord,
    selection: &'a Selection,
    missing: bool,
}

impl<'a> Row<'a> {
    fn error_at(&self, column: usize, expected: &str, found: &str, advice: &str) -> Error {
        let place = format!("line {}, {}", self.records.line(self.record), self.selection.describe(column));
        read_error(self.records.file(), place, expected, quoted(found), advice)
    }

    fn check_width(&self) -> Result<()> {
        let (expected, found) = (self.selection.width, self.record.len());
        if expected == found {
            return Ok(());
        }
        let place = format_args!("line {}", self.records.line(self.record));
        let advice = "check for missing or extra delimiters and quotes, or set `delimiter`";
        Err(read_error(self.records.file(), place, format_args!("{expected} columns"), found, advice))
    }

    fn text(&self, column: usize) -> Result<&'a str> {
        let bytes = self.record.get(column).unwrap_or_default();
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.trim()),
            Err(_) => {
                let found = String::from_utf8_lossy(bytes);
                Err(self.error_at(column, "text in UTF-8", &found, "save the file in UTF-8"))
            }
        }
    }

    fn number<A: Element + FromStr>(&self, column: usize) -> Result<A> {
        let text = self.text(column)?;
        if self.missing && ["", "?", "NA", "N/A", "NaN", "nan"].contains(&text) {
            return Ok(A::nan());
        }
        match text.parse::<A>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => {
                let advice = "correct the file, leave out the column, or allow `missing` numbers";
                Err(self.error_at(column, "a finite number", text, advice))
            }
        }
    }
}
