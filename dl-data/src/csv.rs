//! Tables of text: numbers as features and targets, names of classes as labels.

mod columns;
mod labels;
mod lines;

use crate::fault::{fault, quoted};
use crate::source::Source;
use columns::Chosen;
use csv::ByteRecord;
use dl_core::{Error, Result};
use dl_nd::ndarray::Ix2;
use dl_nd::{Element, Nd};
use labels::{Kind, Labels};
use lines::Lines;
use std::str::FromStr;

/// Reads comma-separated values.
///
/// Fields may be quoted, and white space around them does not count. If nothing else is said, the
/// first line names the columns, and all columns but those of targets and the label are features.
/// Every field that is read must be a finite number or, in the column of the label, a class.
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
    label: Option<(Column, Kind)>,
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
    /// By the name in the first line.
    Name(String),
    /// By its place, from 0.
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

/// What was in a file of comma-separated values.
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
    /// The names of the features; empty if the file names no columns.
    pub names: Vec<String>,
    /// `[rows, features]`.
    pub features: Nd<A, Ix2>,
    /// `[rows, targets]`.
    pub targets: Nd<A, Ix2>,
    /// The class of each row; empty if no column was said to be the label.
    pub labels: Vec<usize>,
    /// The names of the classes, if classes are named.
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
    /// Columns that are named in the first line and separated by commas.
    pub fn new() -> Self {
        Self::default()
    }

    /// The columns that are features, in this order.
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

    /// A column of numbers that are to be predicted. There may be several.
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

    /// The column of the label. Its classes are what is found there, in the order of numbers if all
    /// are whole numbers, else in alphabetical order. For files that may lack some class, name them
    /// all: [`label_of`](Csv::label_of).
    pub fn label(mut self, column: impl Into<Column>) -> Self {
        self.label = Some((column.into(), Kind::Found));
        self
    }

    /// The column of the label, and all its classes. A row of another class is an error.
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
        self.label = Some((column.into(), Kind::Named(classes.into_iter().map(Into::into).collect())));
        self
    }

    /// The column of the label, a whole number below `classes`.
    ///
    /// ```
    /// use dl_data::{Csv, Source};
    /// let digits = Csv::new().header(false).label_below(2, 10);
    /// assert_eq!(digits.read::<f32>(Source::memory("digits.csv", b"0,16,7\n"))?.labels, [7]);
    /// assert!(digits.read::<f32>(Source::memory("digits.csv", b"0,16,10\n")).is_err());
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn label_below(mut self, column: impl Into<Column>, classes: usize) -> Self {
        self.label = Some((column.into(), Kind::Below(classes)));
        self
    }

    /// Whether the first line names the columns. If not, columns are numbered.
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

    /// What separates fields: `b','`, `b';'`, `b'\t'`, …
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

    /// Lines that begin with this are skipped.
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

    /// Whether numbers may be missing. Those that are (nothing, `?`, `NA`, `NaN`) become NaN.
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

    /// Reads a file, line by line.
    ///
    /// # Errors
    /// When a setting makes no sense, the file cannot be read, there is no such column or two of
    /// the same name, a row has more or fewer fields than the first one, a field is not what it
    /// should be, or there are no rows.
    pub fn read<'a, A: Element + FromStr>(&self, source: impl Into<Source<'a>>) -> Result<Frame<A>> {
        let mut lines = Lines::open(source.into(), self.delimiter, self.comment)?;
        let mut labels = Labels::new(self.label.as_ref().map(|(_, kind)| kind))?;
        let mut record = ByteRecord::new();
        let nothing = |lines: &Lines<'_>, what: &str| {
            fault(
                lines.file(),
                "the end",
                what,
                "nothing",
                "look whether this is the right file, and whether it is whole",
            )
        };
        if !lines.next(&mut record)? {
            return Err(nothing(&lines, if self.header { "a line of names" } else { "a row" }));
        }
        let names = if self.header { Some(columns::names(&lines, &record)?) } else { None };
        let chosen = Chosen::new(self, lines.file(), names, record.len())?;
        let (mut features, mut targets, mut rows) = (Vec::new(), Vec::new(), 0_usize);
        let mut there = !self.header || lines.next(&mut record)?;
        while there {
            let row = Row { lines: &lines, record: &record, chosen: &chosen, missing: self.missing };
            row.check_width()?;
            for &column in &chosen.features {
                features.push(row.number(column)?);
            }
            for &column in &chosen.targets {
                targets.push(row.number(column)?);
            }
            if let Some(column) = chosen.label {
                let text = row.text(column)?;
                labels
                    .push(text)
                    .map_err(|expected| row.fault(column, &expected, text, "name all classes, or mend the file"))?;
            }
            rows += 1;
            there = lines.next(&mut record)?;
        }
        if rows == 0 {
            return Err(nothing(&lines, "a row"));
        }
        let (labels, classes) = labels.finish();
        Ok(Frame {
            features: Nd::from_vec([rows, chosen.features.len()], features)?,
            targets: Nd::from_vec([rows, chosen.targets.len()], targets)?,
            names: chosen.feature_names(),
            labels,
            classes,
        })
    }
}

/// One row, with all that its errors say.
struct Row<'a> {
    lines: &'a Lines<'a>,
    record: &'a ByteRecord,
    chosen: &'a Chosen,
    missing: bool,
}

impl<'a> Row<'a> {
    fn fault(&self, column: usize, expected: &str, found: &str, advice: &str) -> Error {
        let place = format!("line {}, {}", self.lines.line(self.record), self.chosen.describe(column));
        fault(self.lines.file(), place, expected, quoted(found), advice)
    }

    fn check_width(&self) -> Result<()> {
        let (expected, found) = (self.chosen.width, self.record.len());
        if expected == found {
            return Ok(());
        }
        let place = format_args!("line {}", self.lines.line(self.record));
        let advice = "look for a delimiter or a quote too many or too few, or set `delimiter`";
        Err(fault(self.lines.file(), place, format_args!("{expected} columns"), found, advice))
    }

    fn text(&self, column: usize) -> Result<&'a str> {
        let bytes = self.record.get(column).unwrap_or_default();
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.trim()),
            Err(_) => {
                let found = String::from_utf8_lossy(bytes);
                Err(self.fault(column, "text in UTF-8", &found, "save the file in UTF-8"))
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
                let advice = "mend the file, leave out the column, or allow numbers to be `missing`";
                Err(self.fault(column, "a finite number", text, advice))
            }
        }
    }
}
