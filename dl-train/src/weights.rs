//! Files of weights and buffers that other programs can read.

use crate::file::{FileMetadata, Kind, Role, Tensor, quoted, write};
use crate::layout::{Layout, with_axes_exchanged};
use crate::load::Load;
use crate::names::{Names, Place, Side};
use crate::report::Report;
use dl_core::{Entry, Error, Module, Numbers, Result};
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
    save(path.as_ref(), Layout::Native, |tensors| add(tensors, &module.entries(), "", |_| true))
}

/// Writes all weights and buffers of a module with the names and the layouts of PyTorch, as the
/// module declares them ([`Torch`](dl_core::Torch)). A tied weight is written under each of its
/// names. In Python, `net.load_state_dict(safetensors.torch.load_file(path))` reads the file.
///
/// ```
/// use dl_core::Module;
/// use dl_nd::init;
/// use dl_nn::Linear;
/// use dl_train::{load_weights, save_torch};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("linear.safetensors");
/// let linear = |seed| Linear::<f32>::new(3, 2, &mut init::rng(seed));
/// let (one, other) = (linear(1)?, linear(2)?);
/// save_torch(&one, &path)?; // `weight` is [2, 3] in the file
/// load_weights(&other, &path)?; // the file says which layout it has
/// assert_eq!(one.entry("weight")?.numbers(), other.entry("weight")?.numbers());
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// Those of [`save_weights`].
pub fn save_torch<M: Module + ?Sized>(module: &M, path: impl AsRef<Path>) -> Result<()> {
    save_torch_as(module, &Names::new(), path)
}

/// [`save_torch`] with other names, and with weights that are stacked or split in the file.
///
/// ```
/// use dl_core::Weight;
/// use dl_train::{Load, Names, save_torch_as};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("net.safetensors");
/// let names = Names::new().rename("layer.{i}", "{i}");
/// save_torch_as(&[1.0, 2.0].map(Weight::<f64>::new), &names, &path)?; // `layer.0`, `layer.1`
/// let net = [0.0; 2].map(Weight::<f64>::new);
/// Load::torch().names(&names).weights(&net, &path)?;
/// assert_eq!((net[0].value(), net[1].value()), (1.0, 2.0));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// Those of [`save_weights`]; also when a weight cannot be divided into as many equal parts as the
/// names ask for, or a part of a tensor is not in the module.
pub fn save_torch_as<M: Module + ?Sized>(module: &M, names: &Names, path: impl AsRef<Path>) -> Result<()> {
    save(path.as_ref(), Layout::Torch, |tensors| add_in_torch(tensors, &module.entries(), names))
}

fn save(path: &Path, layout: Layout, add: impl FnOnce(&mut BTreeMap<String, Tensor>) -> Result<()>) -> Result<()> {
    let with_path = |error: Error| error.context(path.display());
    let mut tensors = BTreeMap::new();
    add(&mut tensors).map_err(with_path)?;
    tensors.iter().try_for_each(|(name, tensor)| tensor.role.check(name, &tensor.numbers)).map_err(with_path)?;
    write(path, FileMetadata { layout, ..FileMetadata::new(Kind::Weights) }, &tensors).map(drop)
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

/// Adds the selected weights and buffers, each once, by path, with `prefix` in front.
pub(crate) fn add(
    tensors: &mut BTreeMap<String, Tensor>,
    entries: &[Entry],
    prefix: &str,
    selected: impl Fn(&Entry) -> bool,
) -> Result<()> {
    for entry in entries.iter().filter(|entry| entry.tied_to().is_none() && selected(entry)) {
        insert(tensors, format!("{prefix}{}", entry.path()), tensor(entry, Layout::Native)?)?;
    }
    Ok(())
}

/// A weight or a buffer in the layout of a file.
fn tensor(entry: &Entry, layout: Layout) -> Result<Tensor> {
    let role = if entry.is_weight() { Role::Learned } else { Role::Buffer };
    let (shape, numbers) = (entry.shape(), entry.numbers());
    if numbers.len() != shape.iter().product::<usize>() {
        let name = quoted(entry.path());
        return Err(Error::shape(format!("{name}: {} elements for shape {shape:?}", numbers.len())));
    }
    let numbers = if layout.exchanges(entry) { with_axes_exchanged(&shape, &numbers) } else { numbers };
    Ok(Tensor { role, shape: layout.shape(entry), numbers })
}

fn insert(tensors: &mut BTreeMap<String, Tensor>, name: String, tensor: Tensor) -> Result<()> {
    if name == "__metadata__" {
        return Err(Error::invalid("safetensors reserves the name \"__metadata__\": rename this weight"));
    }
    if tensors.contains_key(&name) {
        return Err(Error::invalid(format!("two weights or buffers have the path {}", quoted(&name))));
    }
    tensors.insert(name, tensor);
    Ok(())
}

/// Adds all entries of a module under the names of the file.
fn add_in_torch(tensors: &mut BTreeMap<String, Tensor>, entries: &[Entry], names: &Names) -> Result<()> {
    let mut stacks: BTreeMap<String, (Vec<String>, Vec<Option<Tensor>>)> = BTreeMap::new();
    for entry in entries {
        let whole = tensor(entry, Layout::Torch)?;
        match names.place(Side::Module, [entry.torch_path(), entry.path()])? {
            Place::Whole(name) => insert(tensors, name, whole)?,
            Place::Parts(parts) => {
                let (length, count) = (whole.shape.first().copied().unwrap_or(0), parts.len());
                if !length.is_multiple_of(count) {
                    let text = format!("{} of length {length} is not {count} equal parts", quoted(entry.path()));
                    return Err(Error::shape(text));
                }
                let (size, mut shape) = (whole.numbers.len() / count, whole.shape);
                shape.iter_mut().take(1).for_each(|length| *length /= count);
                for (number, name) in parts.into_iter().enumerate() {
                    let numbers = whole.numbers.pick(number * size..(number + 1) * size);
                    insert(tensors, name, Tensor { role: whole.role, shape: shape.clone(), numbers })?;
                }
            }
            Place::Part { number, parts, target } => {
                let empty = || (parts.clone(), vec![None; parts.len()]);
                let (_, stack) = stacks.entry(target).or_insert_with(empty);
                stack[number] = Some(whole);
            }
        }
    }
    for (name, (parts, stack)) in stacks {
        insert(tensors, name.clone(), stacked(&name, &parts, stack)?)?;
    }
    Ok(())
}

/// Joins the parts of a tensor along axis 0.
fn stacked(name: &str, parts: &[String], stack: Vec<Option<Tensor>>) -> Result<Tensor> {
    let mut joined: Option<Tensor> = None;
    for (part, tensor) in parts.iter().zip(stack) {
        let refuse = |text: &str| Error::invalid(format!("{}: {} {text}", quoted(name), quoted(part)));
        let next = tensor.ok_or_else(|| refuse("is not in the module"))?;
        match &mut joined {
            None => joined = Some(next),
            Some(Tensor { shape, numbers, .. }) => {
                if shape.is_empty() || next.shape.get(1..) != shape.get(1..) {
                    return Err(refuse("has other lengths after axis 0 than the parts before"));
                }
                shape[0] += next.shape[0];
                let numbers: &mut Numbers = numbers;
                numbers.append(next.numbers)?;
            }
        }
    }
    joined.ok_or_else(|| Error::invalid(format!("{} has no parts", quoted(name))))
}
