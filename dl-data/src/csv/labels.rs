//! Names of classes, and their numbers.

use dl_core::{Error, Result};
use std::collections::HashMap;

/// Which classes there can be.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Those that are found.
    Found,
    Named(Vec<String>),
    /// Whole numbers below this one.
    Below(usize),
}

/// The labels of the rows that were read.
pub(super) struct Labels {
    kind: Kind,
    /// The numbers of names; of those that are found, in the order in which they are.
    numbers: HashMap<String, usize>,
    labels: Vec<usize>,
}

impl Labels {
    pub(super) fn new(kind: Option<&Kind>) -> Result<Self> {
        let kind = kind.cloned().unwrap_or(Kind::Found);
        let mut numbers = HashMap::new();
        match &kind {
            Kind::Named(names) => {
                for (number, name) in names.iter().enumerate() {
                    if numbers.insert(name.clone(), number).is_some() {
                        return Err(Error::invalid(format!("the class {name:?} is named twice")));
                    }
                }
                if names.is_empty() {
                    return Err(Error::invalid("a label needs a class at least"));
                }
            }
            Kind::Below(0) => return Err(Error::invalid("no label is below 0: give the number of classes")),
            Kind::Below(_) | Kind::Found => {}
        }
        Ok(Labels { kind, numbers, labels: Vec::new() })
    }

    /// The label of another row; or what was expected instead.
    pub(super) fn push(&mut self, text: &str) -> std::result::Result<(), String> {
        let label = match &self.kind {
            Kind::Found if text.is_empty() => return Err("the name of a class".to_owned()),
            Kind::Found => match self.numbers.get(text) {
                Some(&number) => number,
                None => {
                    let number = self.numbers.len();
                    self.numbers.insert(text.to_owned(), number);
                    number
                }
            },
            Kind::Named(names) => *self.numbers.get(text).ok_or_else(|| match names.as_slice() {
                few if few.len() <= 10 => format!("one of the classes {few:?}"),
                many => format!("one of {} classes, {:?} … {:?}", many.len(), many[0], many[many.len() - 1]),
            })?,
            Kind::Below(classes) => {
                let label = text.parse().ok().filter(|label| label < classes);
                label.ok_or_else(|| format!("a whole number below {classes}"))?
            }
        };
        self.labels.push(label);
        Ok(())
    }

    /// Labels, and the names of the classes.
    pub(super) fn finish(self) -> (Vec<usize>, Vec<String>) {
        let found = match self.kind {
            Kind::Named(names) => return (self.labels, names),
            Kind::Below(_) => return (self.labels, Vec::new()),
            Kind::Found => self.numbers,
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
