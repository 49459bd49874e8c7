//! Files of weights and buffers that other programs can read.

use crate::file::{FileMetadata, Kind, Role, Tensor, quoted, write};
use crate::load::Load;
use crate::report::Report;
use dl_core::{Error, Module, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Writes all weights and buffers of a module to a safetensors file, by path. A tied weight is
/// written once, under its first path.
///
/// The file is written atomically, replacing an existing one: after a crash of the program or the
/// machine, it is either complete or absent. Python reads it with `safetensors.torch.load_file`.
///
/// ```
/// use dl_core::Weight;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("net.safetensors");
/// let net = [1.0, 2.0].map(Weight::<f64>::new);
/// dl_train::save_weights(&net, &path)?;
///
/// let again = [0.0, 0.0].map(Weight::<f64>::new);
/// dl_train::load_weights(&again, &path)?;
/// assert_eq!((again[0].value(), again[1].value()), (1.0, 2.0));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// When a weight is not finite or a buffer is NaN
/// ([`Checkpoint::allow_non_finite`](crate::Checkpoint::allow_non_finite) permits them), two
/// entries have the same path, or the file cannot be written.
pub fn save_weights<M: Module + ?Sized>(module: &M, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let with_path = |error: Error| error.context(path.display());
    let mut tensors = BTreeMap::new();
    add(&mut tensors, module, "").map_err(with_path)?;
    tensors.iter().try_for_each(|(name, tensor)| tensor.role.check(name, &tensor.numbers)).map_err(with_path)?;
    write(path, FileMetadata::new(Kind::Weights), &tensors)
}

/// Loads all weights and buffers of a module from a safetensors file, which must contain exactly
/// these. [`Load`] has further options.
///
/// ```
/// use dl_core::Weight;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("net.safetensors");
/// dl_train::save_weights(&[1.0, 2.0].map(Weight::<f64>::new), &path)?;
/// let larger = [0.0; 3].map(Weight::<f64>::new);
/// let error = dl_train::load_weights(&larger, &path).unwrap_err();
/// assert!(error.to_string().ends_with("the file does not fit the module: 0 loaded; missing in the file: \"2\""));
/// assert_eq!(larger[0].value(), 0.0);
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// As [`Load::weights`]; then nothing has changed.
#[track_caller]
pub fn load_weights<M: Module + ?Sized>(module: &M, path: impl AsRef<Path>) -> Result<Report> {
    Load::strict().weights(module, path)
}

/// Adds all weights and buffers of a module, each once, by path, with `prefix` in front.
pub(crate) fn add<M: Module + ?Sized>(tensors: &mut BTreeMap<String, Tensor>, module: &M, prefix: &str) -> Result<()> {
    for entry in module.entries().iter().filter(|entry| entry.tied_to().is_none()) {
        let name = format!("{prefix}{}", entry.path());
        if name == "__metadata__" {
            return Err(Error::invalid("safetensors reserves the name \"__metadata__\": rename this weight"));
        }
        let role = if entry.is_weight() { Role::Learned } else { Role::Buffer };
        let (shape, numbers) = (entry.shape(), entry.numbers());
        if numbers.len() != shape.iter().product::<usize>() {
            return Err(Error::shape(format!("{}: {} elements for shape {shape:?}", quoted(&name), numbers.len())));
        }
        if tensors.insert(name.clone(), Tensor { role, shape, numbers }).is_some() {
            return Err(Error::invalid(format!("two weights or buffers have the path {}", quoted(&name))));
        }
    }
    Ok(())
}
