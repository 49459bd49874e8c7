//! Loading of weights and buffers from the tensors of a file.

use crate::file::dtype::is_readable_as;
use crate::file::{Kind, Role, TensorFile, describe, quoted};
use crate::report::{Misfit, Report};
use dl_core::module::matches;
use dl_core::{Entry, Error, Module, NewValue, Numbers, Result};
use safetensors::tensor::TensorInfo;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// Options for loading weights and buffers: strict or partial, which paths, renaming, and
/// conversion of types.
///
/// Everything is validated before anything is set.
///
/// This loads the encoder from a PyTorch file with other names and double precision, into a net
/// with a new head:
///
/// ```
/// use dl_core::{Module, Visitor, Weight};
/// use dl_train::{Load, save_weights};
/// # struct Old(Weight<f64>, Weight<f64>);
/// # impl Module for Old {
/// #     fn visit(&self, visitor: &mut Visitor) {
/// #         visitor.field("backbone", &self.0);
/// #         visitor.field("classifier", &self.1);
/// #     }
/// # }
/// struct Net {
///     encoder: Weight<f32>,
///     head: Weight<f32>,
/// }
/// # impl Module for Net {
/// #     fn visit(&self, visitor: &mut Visitor) {
/// #         visitor.field("encoder", &self.encoder);
/// #         visitor.field("head", &self.head);
/// #     }
/// # }
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("old.safetensors");
/// # save_weights(&Old(Weight::new(0.5), Weight::new(0.25)), &path)?;
///
/// let net = Net { encoder: Weight::new(0.0), head: Weight::new(0.0) };
/// let report = Load::strict().only("encoder").rename("backbone", "encoder").convert().weights(&net, &path)?;
/// assert_eq!(report.loaded, ["encoder"]);
/// assert_eq!((net.encoder.value(), net.head.value()), (0.5, 0.0));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Load {
    partial: bool,
    only: Vec<String>,
    ignored: Vec<String>,
    renamed: Vec<(String, String)>,
    convert: bool,
    allow_non_finite: bool,
}

impl Load {
    /// The file must contain exactly the weights and buffers of the module, with the same shapes
    /// and types.
    pub fn strict() -> Load {
        Load {
            partial: false,
            only: Vec::new(),
            ignored: Vec::new(),
            renamed: Vec::new(),
            convert: false,
            allow_non_finite: false,
        }
    }

    /// Loads every weight and buffer that the file contains with a matching shape and type. The
    /// [`Report`] lists the others. It is an error if nothing matches.
    ///
    /// ```
    /// use dl_core::Weight;
    /// use dl_train::{Load, save_weights};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("one.safetensors");
    /// save_weights(&[Weight::new(1.0_f64)], &path)?;
    /// let net = [0.0, 7.0].map(Weight::<f64>::new);
    /// assert!(Load::strict().weights(&net, &path).unwrap_err().to_string().contains("missing in the file: \"1\""));
    /// assert_eq!(Load::partial().weights(&net, &path)?.missing, ["1"]);
    /// assert_eq!((net[0].value(), net[1].value()), (1.0, 7.0));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn partial() -> Load {
        Load { partial: true, ..Load::strict() }
    }

    /// Restricts loading to paths that match `pattern`, in the module and in the file. Several
    /// calls accept paths that match any of the patterns. The syntax is that of
    /// [`freeze_matching`](Module::freeze_matching).
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// use dl_core::Weight;
    /// use dl_train::{Load, save_weights};
    /// save_weights(&[1.0, 2.0, 3.0].map(Weight::<f64>::new), &path)?;
    /// let net = [0.0; 4].map(Weight::<f64>::new);
    /// assert_eq!(Load::strict().only("1").only("2").weights(&net, &path)?.loaded, ["1", "2"]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn only(mut self, pattern: &str) -> Load {
        self.only.push(pattern.to_owned());
        self
    }

    /// Ignores paths that match `pattern`, in the module and in the file.
    ///
    /// ```
    /// // a counter of PyTorch's batch normalization
    /// dl_train::Load::strict().ignore("**.num_batches_tracked");
    /// ```
    pub fn ignore(mut self, pattern: &str) -> Load {
        self.ignored.push(pattern.to_owned());
        self
    }

    /// Maps paths below `in_file` in the file to paths below `in_module` in the module. An empty
    /// path denotes the whole file or module. The first renaming that applies to a name is used.
    ///
    /// ```
    /// // a file of the whole net into one part of it, and the reverse
    /// dl_train::Load::partial().rename("net.encoder", "");
    /// dl_train::Load::partial().rename("", "net.encoder");
    /// ```
    pub fn rename(mut self, in_file: &str, in_module: &str) -> Load {
        self.renamed.push((in_file.to_owned(), in_module.to_owned()));
        self
    }

    /// Permits conversion between double and single precision; each number is rounded to nearest.
    /// By default different precisions are a misfit. Half precision (`F16`, `BF16`) is always read,
    /// since no weight has it here.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// use dl_core::Weight;
    /// use dl_train::{Load, save_weights};
    /// save_weights(&[Weight::new(0.1_f64)], &path)?;
    /// let net = [Weight::new(0.0_f32)];
    /// assert!(Load::strict().weights(&net, &path).is_err());
    /// Load::strict().convert().weights(&net, &path)?;
    /// assert_eq!(net[0].value(), 0.1);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn convert(mut self) -> Load {
        self.convert = true;
        self
    }

    /// Permits infinite or NaN elements in weights, and NaN in buffers. By default they are an
    /// error.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// use dl_core::Weight;
    /// use dl_train::{Checkpoint, Load};
    /// # let net = [Weight::new(f64::NAN)];
    /// Checkpoint::new().module("net", &net).allow_non_finite().save(&path)?;
    /// let restore = |load| Checkpoint::load(&path)?.restore().with(load).module("net", &net).apply();
    /// assert!(restore(Load::strict()).is_err());
    /// restore(Load::strict().allow_non_finite())?;
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn allow_non_finite(mut self) -> Load {
        self.allow_non_finite = true;
        self
    }

    /// Loads the weights and buffers of a module from a safetensors file, written by this crate or
    /// another program.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged, an element is not finite, or the file does not
    /// fit the module. Then nothing has changed.
    #[track_caller]
    pub fn weights<M: Module + ?Sized>(&self, module: &M, path: impl AsRef<Path>) -> Result<Report> {
        self.weights_of(module, &TensorFile::open(path.as_ref())?)
    }

    /// Loads the weights and buffers from the bytes of a file; errors call it `name`.
    ///
    /// ```
    /// use dl_core::Weight;
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("net.safetensors");
    /// # dl_train::save_weights(&[Weight::new(1.0_f64)], &path)?;
    /// let bytes = std::fs::read(&path).unwrap(); // or `include_bytes!`
    /// let net = [Weight::new(0.0_f64)];
    /// dl_train::Load::strict().weights_from_bytes(&net, "net.safetensors", bytes)?;
    /// assert_eq!(net[0].value(), 1.0);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// As [`weights`](Load::weights).
    #[track_caller]
    pub fn weights_from_bytes<M: Module + ?Sized>(&self, module: &M, name: &str, bytes: Vec<u8>) -> Result<Report> {
        self.weights_of(module, &TensorFile::from_bytes(name, bytes)?)
    }

    #[track_caller]
    fn weights_of<M: Module + ?Sized>(&self, module: &M, file: &TensorFile) -> Result<Report> {
        if file.kind() == Some(Kind::Checkpoint) {
            let error = Error::invalid(
                "this is a checkpoint of a training run, not a file of weights: open it with `Checkpoint::load`",
            );
            return Err(file.with_name(&error));
        }
        let (values, report) = self.prepare(module, file, "")?;
        NewValue::set_all(values)?;
        Ok(report)
    }

    pub(crate) fn allows_non_finite(&self) -> bool {
        self.allow_non_finite
    }

    /// Validates the tensors with names below `prefix` against the module. Returns the values to
    /// set.
    pub(crate) fn prepare<M: Module + ?Sized>(
        &self,
        module: &M,
        file: &TensorFile,
        prefix: &str,
    ) -> Result<(Vec<NewValue>, Report)> {
        let mut tensors = self.tensors(file, prefix)?;
        let (mut values, mut report) = (Vec::new(), Report::default());
        for (first, paths) in variables(module) {
            let wanted: Vec<&String> = paths.iter().filter(|path| self.selects(path)).collect();
            let found: Vec<(&String, FileTensor<'_>)> =
                wanted.iter().filter_map(|path| Some((*path, tensors.remove(path.as_str())?))).collect();
            match self.value(&first, file, prefix, &found)? {
                _ if wanted.is_empty() => {}
                Fit::Missing => report.missing.push(first.path().to_owned()),
                Fit::Misshapen(misfit) => report.misshapen.push(misfit),
                Fit::Value(value) => {
                    values.push(value);
                    report.loaded.push(first.path().to_owned());
                }
            }
        }
        report.unexpected = tensors.into_keys().collect();

        let refused = if self.partial { values.is_empty() } else { !report.is_complete() };
        if refused {
            let what = if self.partial { "no tensor fits the module" } else { "the file does not fit the module" };
            let only_shapes = report.missing.is_empty() && report.unexpected.is_empty();
            let text = format!("{what}: {}", Report { loaded: Vec::new(), ..report.clone() });
            let error =
                if only_shapes && !report.misshapen.is_empty() { Error::shape(text) } else { Error::invalid(text) };
            return Err(file.with_name(&error));
        }
        Ok((values, report))
    }

    /// The tensors with names below `prefix`, by their paths in the module.
    fn tensors<'a>(&self, file: &'a TensorFile, prefix: &'a str) -> Result<BTreeMap<String, FileTensor<'a>>> {
        let mut tensors = BTreeMap::new();
        for (name, info) in file.with_prefix(prefix) {
            let path = self.module_path(name);
            if !self.selects(&path) {
                continue;
            }
            if let Some(other) = tensors.insert(path.clone(), FileTensor { name, info }) {
                let names = [other.name, name, &path].map(quoted);
                return Err(file.with_name(&Error::invalid(format!(
                    "{} and {} are both renamed to {}",
                    names[0], names[1], names[2]
                ))));
            }
        }
        Ok(tensors)
    }

    fn selects(&self, path: &str) -> bool {
        let matches_any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, path));
        (self.only.is_empty() || matches_any(&self.only)) && !matches_any(&self.ignored)
    }

    /// The path in the module for a name in the file.
    fn module_path(&self, name: &str) -> String {
        let renamed = self.renamed.iter().find_map(|(from, to)| {
            let below = match name.strip_prefix(from.as_str())? {
                "" => "",
                below if from.is_empty() => below,
                below => below.strip_prefix('.')?,
            };
            let dot = if to.is_empty() || below.is_empty() { "" } else { "." };
            Some(format!("{to}{dot}{below}"))
        });
        renamed.unwrap_or_else(|| name.to_owned())
    }

    /// The value of a variable. The file may contain it under several of its paths.
    fn value(
        &self,
        entry: &Entry,
        file: &TensorFile,
        prefix: &str,
        found: &[(&String, FileTensor<'_>)],
    ) -> Result<Fit> {
        let (dtype, shape) = (entry.dtype(), entry.shape());
        let mut numbers: Option<Numbers> = None;
        for (path, FileTensor { name, info }) in found {
            if info.shape != shape || !is_readable_as(info.dtype, dtype, self.convert) {
                let (expected, found) = (format!("{dtype} {shape:?}"), describe(info));
                return Ok(Fit::Misshapen(Misfit { path: (*path).clone(), expected, found }));
            }
            let tensor = format!("{prefix}{name}");
            let values = file.numbers(&tensor, dtype)?;
            if !self.allow_non_finite {
                let role = if entry.is_weight() { Role::Learned } else { Role::Buffer };
                role.check(&tensor, &values).map_err(|error| file.with_name(&error))?;
            }
            let differs = |others: &Numbers| others.to_le_bytes() != values.to_le_bytes();
            if numbers.as_ref().is_some_and(differs) {
                let paths = [found[0].0, path].map(|path| quoted(path));
                let error = format!("{} and {} are tied in the module, but differ in the file", paths[0], paths[1]);
                return Err(file.with_name(&Error::invalid(error)));
            }
            numbers = Some(values);
        }
        let Some(numbers) = numbers else { return Ok(Fit::Missing) };
        entry.check(&shape, numbers).map(Fit::Value).map_err(|error| file.with_name(&error))
    }
}

/// A tensor of the file.
struct FileTensor<'a> {
    name: &'a str,
    info: &'a TensorInfo,
}

/// The result of matching a variable with the file.
enum Fit {
    Missing,
    Misshapen(Misfit),
    Value(NewValue),
}

/// Each distinct weight and buffer, with all of its paths.
fn variables<M: Module + ?Sized>(module: &M) -> Vec<(Entry, BTreeSet<String>)> {
    let mut variables: Vec<(Entry, BTreeSet<String>)> = Vec::new();
    let mut place: HashMap<String, usize> = HashMap::new();
    for entry in module.entries() {
        let path = entry.path().to_owned();
        match entry.tied_to().and_then(|first| place.get(first)) {
            Some(&first) => drop(variables[first].1.insert(path)),
            None => {
                place.insert(path.clone(), variables.len());
                variables.push((entry, [path].into()));
            }
        }
    }
    variables
}
