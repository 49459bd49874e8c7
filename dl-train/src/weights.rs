//! Weights and buffers alone, in a file that other programs can read.

use crate::file::{Head, Kind, Role, Tensor, quoted, write};
use crate::load::Load;
use crate::report::Report;
use dl_core::{Error, Module, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Writes all weights and buffers of a module to a safetensors file, by their paths. What has
/// several paths is written once, by the first of them.
///
/// The file is there whole or not at all, whenever the program or the machine stops; one that was
/// there before is replaced. Python reads it with `safetensors.torch.load_file`.
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
/// When a weight is not finite, or a buffer NaN
/// ([`Checkpoint::allow_non_finite`](crate::Checkpoint::allow_non_finite) writes such), two have
/// the same path, or the file cannot be written.
pub fn save_weights<M: Module + ?Sized>(module: &M, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let here = |error: Error| error.context(path.display());
    let mut tensors = BTreeMap::new();
    add(&mut tensors, module, "").map_err(here)?;
    tensors.iter().try_for_each(|(name, tensor)| tensor.role.check(name, &tensor.numbers)).map_err(here)?;
    write(path, Head::new(Kind::Weights), &tensors)
}

/// Loads all weights and buffers of a module from a safetensors file. The file has to hold just
/// these; [`Load`] is for all other cases.
///
/// ```
/// use dl_core::Weight;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("net.safetensors");
/// dl_train::save_weights(&[1.0, 2.0].map(Weight::<f64>::new), &path)?;
/// let larger = [0.0; 3].map(Weight::<f64>::new);
/// let error = dl_train::load_weights(&larger, &path).unwrap_err();
/// assert!(error.to_string().ends_with("it does not fit: 0 loaded; missing in the file: \"2\""));
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

/// Adds all weights and buffers of a module, each once, by their paths behind this prefix.
pub(crate) fn add<M: Module + ?Sized>(tensors: &mut BTreeMap<String, Tensor>, module: &M, prefix: &str) -> Result<()> {
    for entry in module.entries().iter().filter(|entry| entry.tied_to().is_none()) {
        let name = format!("{prefix}{}", entry.path());
        if name == "__metadata__" {
            return Err(Error::invalid("no weight of a safetensors file may be called \"__metadata__\""));
        }
        let role = if entry.is_weight() { Role::Learned } else { Role::Buffer };
        let (shape, numbers) = (entry.shape(), entry.numbers());
        if numbers.len() != shape.iter().product::<usize>() {
            return Err(Error::shape(format!("{}: {} numbers of shape {shape:?}", quoted(&name), numbers.len())));
        }
        if tensors.insert(name.clone(), Tensor { role, shape, numbers }).is_some() {
            return Err(Error::invalid(format!("two weights or buffers have the path {}", quoted(&name))));
        }
    }
    Ok(())
}
