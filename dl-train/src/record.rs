//! The numbers of a step or an epoch.

use dl_core::{Error, Result};
use std::fmt;

/// Named numbers after a step or an epoch.
///
/// ```
/// use dl_train::Record;
/// let record = Record::new(2, 300).with("loss", 0.25)?.with("accuracy", 0.9)?;
/// assert_eq!((record.epoch, record.step, record.get("loss")), (2, 300, Some(0.25)));
/// assert_eq!(record.to_string(), "loss 0.2500  accuracy 0.9000");
/// assert!(record.with("loss", 0.5).is_err());
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The number of steps taken since the beginning of the run.
    pub step: u64,
    values: Vec<(String, f64)>,
}

impl Record {
    /// A record without numbers.
    pub fn new(epoch: u64, step: u64) -> Record {
        Record { epoch, step, values: Vec::new() }
    }

    /// Adds a named number.
    ///
    /// # Errors
    /// When the name is already used (also `epoch` and `step`), is empty, or contains control
    /// characters.
    pub fn with(mut self, name: impl Into<String>, value: f64) -> Result<Record> {
        let name = name.into();
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "{name:?} is not a valid name of a number: it must be a non-empty line of text"
            )));
        }
        if self.get(&name).is_some() || ["epoch", "step"].contains(&name.as_str()) {
            return Err(Error::invalid(format!("the record already has a number {name:?}")));
        }
        self.values.push((name, value));
        Ok(self)
    }

    /// The number called `name`.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values().find(|&(other, _)| other == name).map(|(_, value)| value)
    }

    /// All numbers with their names, in the order in which they were added.
    ///
    /// ```
    /// use dl_train::Record;
    /// let record = Record::new(0, 1).with("loss", 0.5)?;
    /// assert_eq!(record.values().collect::<Vec<_>>(), [("loss", 0.5)]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn values(&self) -> impl Iterator<Item = (&str, f64)> {
        self.values.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// The number called `name`, or an error that lists the available names.
    pub(crate) fn require(&self, name: &str) -> Result<f64> {
        self.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.values().map(|(name, _)| name).collect();
            Error::invalid(format!("the record has no number {name:?}, only {known:?}"))
        })
    }
}

/// Formats the numbers on one line.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, value)) in self.values().enumerate() {
            let space = if place == 0 { "" } else { "  " };
            // use scientific notation for small and large numbers
            match value.abs() {
                size if size != 0.0 && size < 1e-3 || size >= 1e6 => write!(f, "{space}{name} {value:.3e}")?,
                _ => write!(f, "{space}{name} {value:.4}")?,
            }
        }
        Ok(())
    }
}
