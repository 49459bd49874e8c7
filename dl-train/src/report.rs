//! Reports of loading.

use crate::file::quoted;
use std::fmt;

/// The result of loading weights and buffers.
///
/// ```
/// use dl_core::Weight;
/// use dl_train::{Load, save_weights};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("two.safetensors");
/// save_weights(&(Weight::new(1.0_f64), Weight::new(2.0_f64)), &path)?;
/// let report = Load::partial().weights(&(Weight::new(0.0_f64), 0, Weight::new(0.0_f64)), &path)?;
/// assert_eq!(report.to_string(), "1 loaded; missing in the file: \"2\"; unexpected in the file: \"1\"");
/// assert!(!report.is_complete());
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The paths of the weights and buffers that were loaded. A tied weight is listed by its first
    /// path.
    pub loaded: Vec<String>,
    /// The paths of weights and buffers that are not in the file.
    pub missing: Vec<String>,
    /// The names in the file that match no weight or buffer.
    pub unexpected: Vec<String>,
    /// The weights and buffers with another shape or type in the file.
    pub misshapen: Vec<Misfit>,
}

/// A weight or buffer with another shape or type in the file.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("one.safetensors");
/// use dl_core::Weight;
/// use dl_train::{Load, Misfit, save_weights};
/// save_weights(&(Weight::new(1.0_f64), Weight::new(2.0_f64)), &path)?;
/// let report = Load::partial().weights(&(Weight::new(0.0_f32), Weight::new(0.0_f64)), &path)?;
/// let Misfit { path, expected, found } = &report.misshapen[0];
/// assert_eq!((&path[..], &expected[..], &found[..]), ("0", "f32 []", "F64 []"));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The path in the module.
    pub path: String,
    /// The type and shape in the module, as in `f32 [2, 3]`.
    pub expected: String,
    /// The type and shape in the file, as in `F64 [2, 3]`.
    pub found: String,
}

impl Report {
    /// Whether nothing is missing, unexpected or misshapen.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.misshapen.is_empty()
    }

    /// Appends another report, with `name` in front of its paths.
    pub(crate) fn add(&mut self, name: &str, other: Report) {
        let below = |path: String| if path.is_empty() { name.to_owned() } else { format!("{name}.{path}") };
        self.loaded.extend(other.loaded.into_iter().map(below));
        self.missing.extend(other.missing.into_iter().map(below));
        self.unexpected.extend(other.unexpected.into_iter().map(below));
        self.misshapen.extend(other.misshapen.into_iter().map(|misfit| Misfit { path: below(misfit.path), ..misfit }));
    }
}

/// Formats one line. Long lists are cut, with the number of omitted items.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} loaded", self.loaded.len())?;
        list(f, "missing in the file", self.missing.iter().map(|path| quoted(path)))?;
        list(f, "unexpected in the file", self.unexpected.iter().map(|path| quoted(path)))?;
        list(f, "misshapen", self.misshapen.iter().map(Misfit::to_string))
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {} in the module and {} in the file", quoted(&self.path), self.expected, self.found)
    }
}

fn list(f: &mut fmt::Formatter<'_>, what: &str, items: impl ExactSizeIterator<Item = String>) -> fmt::Result {
    const SHOWN: usize = 8;
    let more = items.len().saturating_sub(SHOWN);
    for (number, item) in items.take(SHOWN).enumerate() {
        if number == 0 { write!(f, "; {what}: {item}")? } else { write!(f, ", {item}")? }
    }
    if more > 0 { write!(f, " and {more} more") } else { Ok(()) }
}
