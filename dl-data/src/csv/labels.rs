//! Class names and their indices.

use dl_core::{Error, Result};
use std::collections::HashMap;

/// The accepted classes.
#[derive(Clone, Debug)]
pub(super) enum Classes {
    /// The distinct values in the file.
    Inferred,
    Named(Vec<String>),
    /// Whole numbers below this one.
    Below(usize),
}

/// Collects the labels of the rows.
pub(super) struct Labels {
    classes: Classes,
    /// The index of each class name. For [`Classes::Inferred`], in order of first occurrence.
    numbers: HashMap<String, usize>,
    labels: Vec<usize>,
}

impl Labels {
    pub(super) fn new(classes: Option<&Classes>) -> Result<Self> {
        let classes = classes.cloned().unwrap_or(Classes::Inferred);
        let mut numbers = HashMap::new();
        match &classes {
            Classes::Named(names) => {
                for (number, name) in names.iter().enumerate() {
                    if numbers.insert(name.clone(), number).is_some() {
                        return Err(Error::invalid(format!("the class {name:?} is listed twice")));
                    }
                }
                if names.is_empty() {
                    return Err(Error::invalid("the list of classes is empty: a label needs at least 1"));
                }
            }
            Classes::Below(0) => return Err(Error::invalid("the number of classes is 0: it must be at least 1")),
            Classes::Below(_) | Classes::Inferred => {}
        }
        Ok(Labels { classes, numbers, labels: Vec::new() })
    }

    /// Adds the label of a row. On error returns a description of the expected text.
    pub(super) fn push(&mut self, text: &str) -> std::result::Result<(), String> {
        let label = match &self.classes {
            Classes::Inferred if text.is_empty() => return Err("the name of a class".to_owned()),
            Classes::Inferred => match self.numbers.get(text) {
                Some(&number) => number,
                None => {
                    let number = self.numbers.len();
                    self.numbers.insert(text.to_owned(), number);
                    number
                }
            },
            Classes::Named(names) => *self.numbers.get(text).ok_or_else(|| match names.as_slice() {
                few if few.len() <= 10 => format!("one of the classes {few:?}"),
                many => format!("one of {} classes, {:?} … {:?}", many.len(), many[0], many[many.len() - 1]),
            })?,
            Classes::Below(count) => {
                let label = text.parse().ok().filter(|label| label < count);
                label.ok_or_else(|| format!("a whole number below {count}"))?
            }
        };
        self.labels.push(label);
        Ok(())
    }

    /// The labels, and the names of the classes.
    pub(super) fn finish(self) -> (Vec<usize>, Vec<String>) {
        let found = match self.classes {
            Classes::Named(names) => return (self.labels, names),
            Classes::Below(_) => return (self.labels, Vec::new()),
            Classes::Inferred => self.numbers,
        };
        let mut found: Vec<(String, usize)> = found.into_iter().collect();
        let whole = |name: &String| name.parse::<i128>().ok();
        if found.iter().all(|(name, _)| whole(name).is_some()) {
            found.sort_unstable_by_key(|(name, number)| (whole(name), *number));
        } else {
            found.sort_unstable();
        }
        let mut places = vec![0; found.len()];
        for (place, (_, number)) in found.iter().enumerate() {
            places[*number] = place;
        }
        (
            self.labels.into_iter().map(|number| places[number]).collect(),
            found.into_iter().map(|(name, _)| name).collect(),
        )
    }
}
