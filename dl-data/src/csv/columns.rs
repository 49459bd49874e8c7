//! Which columns of a file are what.

use super::lines::Lines;
use super::{Column, Csv};
use crate::fault::{fault, list, quoted};
use csv::ByteRecord;
use dl_core::{Error, Result};
use std::collections::HashMap;

/// The columns that were asked for, by their numbers in a file.
pub(super) struct Chosen {
    /// The number of columns of the file.
    pub(super) width: usize,
    pub(super) features: Vec<usize>,
    pub(super) targets: Vec<usize>,
    pub(super) label: Option<usize>,
    names: Option<Vec<String>>,
}

impl Chosen {
    pub(super) fn new(csv: &Csv, file: &str, names: Option<Vec<String>>, width: usize) -> Result<Self> {
        let chosen = Chosen { width, features: Vec::new(), targets: Vec::new(), label: None, names };
        let find = |columns: &[Column]| -> Result<Vec<usize>> {
            columns.iter().map(|column| chosen.find(file, column)).collect()
        };
        let targets = find(&csv.targets)?;
        let label = csv.label.as_ref().map(|(column, _)| chosen.find(file, column)).transpose()?;
        let features = match &csv.features {
            Some(columns) => find(columns)?,
            None => (0..width).filter(|column| !targets.contains(column) && label != Some(*column)).collect(),
        };
        let mut taken = vec![false; width];
        for &column in features.iter().chain(&targets).chain(&label) {
            if std::mem::replace(&mut taken[column], true) {
                let column = chosen.describe(column);
                return Err(Error::invalid(format!(
                    "{file}: {column} is chosen twice: a column is feature, target or label, once"
                )));
            }
        }
        Ok(Chosen { features, targets, label, ..chosen })
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
                let advice = "choose columns by their numbers, or say that there is a `header`";
                return Err(fault(file, "line 1", format_args!("a column `{name}`"), "columns without names", advice));
            }
        };
        Err(fault(file, "line 1", expected, found, "choose one that is there, or set `delimiter`"))
    }

    /// A column in an error, counted from 1 as editors do.
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

/// The names in the first line, each once.
pub(super) fn names(lines: &Lines<'_>, record: &ByteRecord) -> Result<Vec<String>> {
    let (mut names, mut places) = (Vec::with_capacity(record.len()), HashMap::new());
    for (number, name) in record.iter().enumerate() {
        let place = format!("line {}, column {}", lines.line(record), number + 1);
        let Ok(name) = std::str::from_utf8(name) else {
            let found = quoted(&String::from_utf8_lossy(name));
            return Err(fault(lines.file(), place, "a name in UTF-8", found, "save the file in UTF-8"));
        };
        let name = name.trim();
        if let Some(before) = places.insert(name.to_owned(), number) {
            let found = format!("{}, which column {} has, too", quoted(name), before + 1);
            let advice = "rename one, or say that there is no `header` and choose by numbers";
            return Err(fault(lines.file(), place, "a name of its own", found, advice));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}
