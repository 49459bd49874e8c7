//! The selection of columns.

use super::records::Records;
use super::{Column, Csv};
use crate::error::{list, quoted, read_error};
use csv::ByteRecord;
use dl_core::{Error, Result};
use std::collections::HashMap;

/// The selected columns, by their numbers in the file.
pub(super) struct Selection {
    /// The number of columns in the file.
    pub(super) width: usize,
    pub(super) features: Vec<usize>,
    pub(super) targets: Vec<usize>,
    pub(super) label: Option<usize>,
    names: Option<Vec<String>>,
}

impl Selection {
    pub(super) fn new(csv: &Csv, file: &str, names: Option<Vec<String>>, width: usize) -> Result<Self> {
        let selection = Selection { width, features: Vec::new(), targets: Vec::new(), label: None, names };
        let find = |columns: &[Column]| -> Result<Vec<usize>> {
            columns.iter().map(|column| selection.find(file, column)).collect()
        };
        let targets = find(&csv.targets)?;
        let label = csv.label.as_ref().map(|(column, _)| selection.find(file, column)).transpose()?;
        let features = match &csv.features {
            Some(columns) => find(columns)?,
            None => (0..width).filter(|column| !targets.contains(column) && label != Some(*column)).collect(),
        };
        let mut taken = vec![false; width];
        for &column in features.iter().chain(&targets).chain(&label) {
            if std::mem::replace(&mut taken[column], true) {
                let column = selection.describe(column);
                return Err(Error::invalid(format!(
                    "{file}: {column} is selected twice: use it once, as a feature, a target or the label"
                )));
            }
        }
        Ok(Selection { features, targets, label, ..selection })
    }

    fn find(&self, file: &str, column: &Column) -> Result<usize> {
        let (expected, found) = match (column, &self.names) {
            (Column::Number(number), _) if *number < self.width => return Ok(*number),
            (Column::Number(number), _) => {
                (format!("column number {number}, counted from 0"), format!("{} columns", self.width))
            }
            (Column::Name(name), Some(names)) => match names.iter().position(|there| there == name) {
                Some(number) => return Ok(number),
                None => (format!("a column `{name}`"), list(names)),
            },
            (Column::Name(name), None) => {
                let advice = "select columns by number, or set `header`";
                return Err(read_error(
                    file,
                    "line 1",
                    format_args!("a column `{name}`"),
                    "columns without names",
                    advice,
                ));
            }
        };
        Err(read_error(file, "line 1", expected, found, "select an existing column, or set `delimiter`"))
    }

    /// A column for an error message, counted from 1 as in editors.
    pub(super) fn describe(&self, column: usize) -> String {
        match self.names.as_ref().and_then(|names| names.get(column)) {
            Some(name) => format!("column {} (`{name}`)", column + 1),
            None => format!("column {}", column + 1),
        }
    }

    pub(super) fn feature_names(&self) -> Vec<String> {
        let names = self.names.iter().flat_map(|names| self.features.iter().map(|&feature| names[feature].clone()));
        names.collect()
    }
}

/// The names in the header line, which must be distinct.
pub(super) fn names(records: &Records<'_>, record: &ByteRecord) -> Result<Vec<String>> {
    let (mut names, mut places) = (Vec::with_capacity(record.len()), HashMap::new());
    for (number, name) in record.iter().enumerate() {
        let place = format!("line {}, column {}", records.line(record), number + 1);
        let Ok(name) = std::str::from_utf8(name) else {
            let found = quoted(&String::from_utf8_lossy(name));
            return Err(read_error(records.file(), place, "a name in UTF-8", found, "save the file in UTF-8"));
        };
        let name = name.trim();
        if let Some(before) = places.insert(name.to_owned(), number) {
            let found = format!("{}, the name of column {}", quoted(name), before + 1);
            let advice = "rename one of them, or set `header(false)` and select columns by number";
            return Err(read_error(records.file(), place, "a distinct name", found, advice));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}
