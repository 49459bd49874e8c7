//! A table of the weights and buffers of a module.

use crate::module::Entry;
use std::fmt;

/// A table of all entries of a [`Module`](crate::Module): path, shape, type, number of elements and
/// remarks, followed by a line of totals.
///
/// ```
/// use dl_core::{Buffer, Module, Weight};
/// let w = Weight::new(1.0_f64);
/// let net = (w.clone(), Weight::new(2.0_f32), w, Buffer::new(0.0_f64));
/// net.freeze_matching("1")?;
/// assert_eq!(net.summary().to_string(), "\
/// path  shape  type  numbers  remarks
/// 0     []     f64         1
/// 1     []     f32         1  frozen
/// 2     []     f64         0  tied to 0
/// 3     []     f64         1  buffer
/// 2 parameters: 1 trained, 1 frozen; 1 number in buffers
/// ");
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Summary {
    rows: Vec<[String; 5]>,
    trained: usize,
    frozen: usize,
    buffers: usize,
}

const TITLES: [&str; 5] = ["path", "shape", "type", "numbers", "remarks"];

/// The column of numbers, which is right-aligned.
const NUMBERS: usize = 3;

impl Summary {
    pub(super) fn of(entries: Vec<Entry>) -> Self {
        let mut summary = Summary { rows: Vec::new(), trained: 0, frozen: 0, buffers: 0 };
        for entry in entries {
            let (shape, frozen) = (entry.shape(), entry.is_frozen());
            let len = if entry.tied_to().is_some() { 0 } else { shape.iter().product() };
            let sum = match (entry.is_buffer(), frozen) {
                (true, _) => &mut summary.buffers,
                (_, true) => &mut summary.frozen,
                _ => &mut summary.trained,
            };
            *sum += len;
            let mut remarks = Vec::new();
            remarks.extend(entry.is_buffer().then(|| "buffer".to_owned()));
            remarks.extend(frozen.then(|| "frozen".to_owned()));
            remarks.extend(entry.tied_to().map(|first| format!("tied to {first}")));
            let path = entry.path().to_owned();
            summary.rows.push([
                path,
                format!("{shape:?}"),
                entry.dtype().to_string(),
                len.to_string(),
                remarks.join(", "),
            ]);
        }
        summary
    }

    /// The number of numbers in weights that are trained.
    ///
    /// ```
    /// use dl_core::{Module, Weight};
    /// assert_eq!([Weight::new(1.0_f64)].summary().trained(), 1);
    /// ```
    pub fn trained(&self) -> usize {
        self.trained
    }

    /// The number of numbers in frozen weights.
    ///
    /// ```
    /// use dl_core::{Module, Weight};
    /// assert_eq!([Weight::new(1.0_f64)].summary().frozen(), 0);
    /// ```
    pub fn frozen(&self) -> usize {
        self.frozen
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles = TITLES.map(str::to_owned);
        let rows = || std::iter::once(&titles).chain(&self.rows);
        let widths: [usize; 5] =
            std::array::from_fn(|column| rows().map(|row| row[column].chars().count()).max().unwrap_or(0));
        for row in rows() {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                line += &if column == NUMBERS { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        let (parameters, buffers) = (self.trained + self.frozen, self.buffers);
        let noun = if buffers == 1 { "number" } else { "numbers" };
        write!(f, "{parameters} parameters: {} trained, {} frozen; ", self.trained, self.frozen)?;
        writeln!(f, "{buffers} {noun} in buffers")
    }
}
