//! Reading and restoring checkpoints.

use crate::checkpoint::{
    RngPlace, STEPS_OF, count_name, module_prefix, named, number_name, numbers_prefix, rng_name, slots_prefix,
};
use crate::file::{FileMetadata, Kind, Role, Tensor, TensorFile, describe, quoted, write};
use crate::load::{Load, Plan};
use crate::report::Report;
use crate::share::Share;
use dl_core::{DType, Entry, Error, Module, NewState, Numbers, Optimizer, OptimizerState, Result};
use safetensors::Dtype;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// An opened checkpoint: see [`Checkpoint::load`](crate::Checkpoint::load).
///
/// It keeps the file open and reads tensors on demand. Memory use depends on the tensors requested,
/// not on the size of the file.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("run.safetensors");
/// use dl_core::Weight;
/// use dl_train::{Checkpoint, RngPlace, Saved};
/// let net = [Weight::new(1.0_f64)];
/// let place = RngPlace { seed: [0; 32], stream: 0, word: 3 };
/// let checkpoint = Checkpoint::new().module("net", &net).number("best", 0.5).count("epoch", 7);
/// checkpoint.text("data", "digits").rng("order", place).save(&path)?;
///
/// let saved: Saved = Checkpoint::load(&path)?;
/// saved.restore().module("net", &net).apply()?;
/// assert_eq!((saved.number("best")?, saved.count("epoch")?, saved.text("data")?), (0.5, 7, "digits"));
/// assert_eq!(saved.rng("order")?, place);
/// assert!(saved.number("worst").is_err());
/// # dl_core::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Saved {
    file: TensorFile,
    /// What this rank restores, if there are several.
    share: Option<Arc<Share>>,
}

impl Saved {
    pub(crate) fn open(path: &Path) -> Result<Saved> {
        Self::of(TensorFile::open(path)?)
    }

    pub(crate) fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Saved> {
        Self::of(TensorFile::from_bytes(name, bytes)?)
    }

    fn of(file: TensorFile) -> Result<Saved> {
        match (file.kind(), file.file_metadata().and_then(|metadata| metadata.part)) {
            (Some(Kind::Checkpoint), None) => Ok(Saved { file, share: None }),
            (_, Some(part)) => Err(file.with_name(&Error::invalid(format!(
                "this is the part of rank {} of {} of a checkpoint of step {}: open the `.index.json` beside it",
                part.rank, part.ranks, part.step
            )))),
            _ => Err(file.with_name(&Error::invalid(
                "this is a file of weights, not a checkpoint: open it with `load_weights`",
            ))),
        }
    }

    /// The same checkpoint, of which this rank restores its share.
    pub(crate) fn with_share(self, share: Arc<Share>) -> Saved {
        Saved { share: Some(share), ..self }
    }

    /// The checksum that differs for other contents.
    pub(crate) fn crc32(&self) -> Option<u32> {
        self.file.file_metadata().and_then(|metadata| metadata.crc32)
    }

    /// Writes all of the checkpoint into one file, as [`Checkpoint::save`](crate::Checkpoint::save)
    /// does. It makes an ordinary checkpoint of one of [several ranks](crate::Sharded), and takes the
    /// memory of all its tensors.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let [path, copy] = ["run", "copy"].map(|name| folder.path().join(name));
    /// use dl_train::Checkpoint;
    /// Checkpoint::new().number("best", 0.5).save(&path)?;
    /// Checkpoint::load(&path)?.save(&copy)?;
    /// assert_eq!(std::fs::read(path).unwrap(), std::fs::read(copy).unwrap());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When a tensor cannot be read, or the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut tensors = BTreeMap::new();
        for (name, info) in self.file.with_prefix("") {
            let dtype = crate::file::dtype::dtype_of(info.dtype).map_err(|error| self.file.with_name(&error))?;
            let numbers = self.file.numbers(name, dtype)?;
            tensors.insert(name.to_owned(), Tensor { role: Role::Value, shape: info.shape.clone(), numbers });
        }
        let metadata = self.file.file_metadata().cloned().unwrap_or_else(|| FileMetadata::new(Kind::Checkpoint));
        write(path.as_ref(), metadata, &tensors).map(drop)
    }

    /// Starts to restore modules and optimizers from this checkpoint.
    pub fn restore(&self) -> Restore<'_> {
        Restore {
            file: &self.file,
            share: self.share.as_deref(),
            load: Load::strict(),
            plans: Vec::new(),
            states: Vec::new(),
            report: Report::default(),
            failed: None,
        }
    }

    /// The number saved by [`Checkpoint::number`](crate::Checkpoint::number) as `name`.
    ///
    /// # Errors
    /// When the checkpoint has no such entry, or it cannot be read.
    pub fn number(&self, name: &str) -> Result<f64> {
        number(&self.file, &number_name(name))
    }

    /// The whole number saved by [`Checkpoint::count`](crate::Checkpoint::count) as `name`.
    ///
    /// # Errors
    /// When the checkpoint has no such entry, or it cannot be read.
    pub fn count(&self, name: &str) -> Result<u64> {
        match self.read_value(&count_name(name), DType::U64, &[])? {
            Numbers::U64(row) if row.len() == 1 => Ok(row[0]),
            _ => unreachable!("`read_value` checks type and shape"),
        }
    }

    /// The text saved by [`Checkpoint::text`](crate::Checkpoint::text) as `name`.
    ///
    /// # Errors
    /// When the checkpoint has no such entry, or it cannot be read.
    pub fn text(&self, name: &str) -> Result<&str> {
        let text = self.file.file_metadata().and_then(|metadata| metadata.texts.0.get(name));
        text.map(String::as_str)
            .ok_or_else(|| self.file.with_name(&Error::invalid(format!("the checkpoint has no text {}", quoted(name)))))
    }

    /// The state of a random number generator saved by [`Checkpoint::rng`](crate::Checkpoint::rng)
    /// as `name`.
    ///
    /// # Errors
    /// When the checkpoint has no such entry, or it cannot be read.
    pub fn rng(&self, name: &str) -> Result<RngPlace> {
        let seed = self.read_value(&rng_name(name, "seed"), DType::U8, &[32])?;
        let position = self.read_value(&rng_name(name, "position"), DType::U64, &[3])?;
        let (Numbers::U8(seed), Numbers::U64(position)) = (seed, position) else {
            unreachable!("`read_value` checks the types")
        };
        let (Ok(seed), Ok([stream, low, high])) = (<[u8; 32]>::try_from(seed), <[u64; 3]>::try_from(position)) else {
            unreachable!("`read_value` checks the shapes")
        };
        Ok(RngPlace { seed, stream, word: u128::from(high) << 64 | u128::from(low) })
    }

    pub(crate) fn has_number(&self, name: &str) -> bool {
        self.file.info(&number_name(name)).is_some()
    }

    /// The copy of a weight or buffer saved under `name`.
    pub(crate) fn copy(&self, name: &str, entry: &Entry) -> Result<Numbers> {
        self.read_value(name, entry.dtype(), &entry.shape())
    }

    fn read_value(&self, name: &str, dtype: DType, shape: &[usize]) -> Result<Numbers> {
        read_value(&self.file, name, dtype, shape)
    }
}

/// A pending restore. Each part is validated when added; [`apply`](Restore::apply) then sets all of
/// them or none. Until then the new states of optimizers are in memory, but no new weights.
///
/// ```
/// use dl_core::Weight;
/// use dl_optim::Adam;
/// use dl_train::Checkpoint;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("run.safetensors");
/// let (net, adam) = ([Weight::new(1.0_f64)], Adam::new(0.1));
/// Checkpoint::new().module("model", &net).save(&path)?;
/// net[0].set(2.0);
/// let saved = Checkpoint::load(&path)?;
/// let error = saved.restore().module("model", &net).optimizer("adam", &adam, &net).apply().unwrap_err();
/// assert!(error.to_string().contains("the checkpoint has no optimizer of this name"));
/// assert_eq!(net[0].value(), 2.0);
/// # dl_core::Result::Ok(())
/// ```
#[must_use = "nothing is put back before `apply`"]
#[derive(Debug)]
pub struct Restore<'a> {
    file: &'a TensorFile,
    share: Option<&'a Share>,
    load: Load,
    plans: Vec<Plan<'a>>,
    states: Vec<NewState>,
    report: Report,
    /// The first error; reported by [`apply`](Restore::apply).
    failed: Option<Error>,
}

impl<'a> Restore<'a> {
    /// Sets the options for the modules added after this call; [`Load::strict`] by default. For
    /// optimizers only [`Load::allow_non_finite`] applies.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// use dl_core::Weight;
    /// use dl_train::{Checkpoint, Load};
    /// Checkpoint::new().module("model", &[1.0, 2.0].map(Weight::<f64>::new)).save(&path)?;
    /// let part = [Weight::new(0.0_f64)];
    /// let saved = Checkpoint::load(&path)?;
    /// assert!(saved.restore().module("model", &part).apply().is_err());
    /// saved.restore().with(Load::partial()).module("model", &part).apply()?;
    /// assert_eq!(part[0].value(), 1.0);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn with(mut self, load: Load) -> Restore<'a> {
        self.load = load;
        self
    }

    /// Restores the weights and buffers saved as `name`.
    pub fn module<M: Module + ?Sized>(self, name: &str, module: &M) -> Restore<'a> {
        self.try_add(|this| {
            let prefix = module_prefix(name);
            if this.file.with_prefix(&prefix).next().is_none() && !module.entries().is_empty() {
                return Err(this
                    .file
                    .with_name(&Error::invalid(format!("the checkpoint has no module {}", quoted(name)))));
            }
            let (plan, report) = this
                .load
                .prepare(module, this.file, &prefix, this.share.is_some())
                .map_err(|error| error.context(format_args!("module {name:?}")))?;
            this.plans.push(plan);
            this.report.add(name, report);
            Ok(())
        })
    }

    /// Restores the state of an optimizer saved as `name`. The optimizer must have the same kind
    /// and settings, and `module` the same weights.
    pub fn optimizer<M: Module + ?Sized>(self, name: &str, optimizer: &dyn Optimizer, module: &M) -> Restore<'a> {
        self.try_add(|this| {
            let new = this.new_state(name, optimizer, module);
            this.states.push(new.map_err(|error| error.context(format_args!("optimizer {name:?}")))?);
            Ok(())
        })
    }

    /// Sets all values and optimizer states. Paths in the report start with the name of the module.
    ///
    /// No training step must run concurrently: it would see new weights and an old optimizer state.
    ///
    /// # Errors
    /// When anything in the file is missing, damaged, or does not fit. Then nothing has changed, with
    /// the exception that [`Load`] describes.
    #[track_caller]
    pub fn apply(self) -> Result<Report> {
        let Restore { file, plans, states, report, .. } = self.checked()?;
        Plan::set_all(&plans).map_err(|error| file.with_name(&error))?;
        states.into_iter().try_for_each(NewState::set)?;
        Ok(report)
    }

    /// This restore, unless a part of it has failed.
    pub(crate) fn checked(self) -> Result<Restore<'a>> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None => Ok(self),
        }
    }

    fn try_add(mut self, add: impl FnOnce(&mut Restore<'a>) -> Result<()>) -> Restore<'a> {
        if self.failed.is_none() {
            self.failed = add(&mut self).err();
        }
        self
    }

    fn new_state<M: Module + ?Sized>(&self, name: &str, optimizer: &dyn Optimizer, module: &M) -> Result<NewState> {
        let file = self.file;
        let kind = file.file_metadata().and_then(|metadata| metadata.optimizers.0.get(name));
        let kind =
            kind.ok_or_else(|| file.with_name(&Error::invalid("the checkpoint has no optimizer of this name")))?;
        let mut state = OptimizerState::new(kind);
        let prefix = numbers_prefix(name);
        let weights = module.weights();
        let by_path: HashMap<&str, &Entry> = weights.iter().map(|entry| (entry.path(), entry)).collect();
        // Other ranks have the rest.
        let is_elsewhere =
            |path: &str| by_path.get(path).is_some_and(|entry| self.share.is_some_and(|share| !share.has_state(entry)));
        for (key, _) in file.with_prefix(&prefix) {
            if key.strip_prefix(STEPS_OF).is_some_and(is_elsewhere) {
                continue;
            }
            state.set_number(key, number(file, &format!("{prefix}{key}"))?);
        }
        let prefix = slots_prefix(name);
        for (rest, info) in file.with_prefix(&prefix) {
            let to_error = |what: String| {
                file.with_name(&Error::invalid(format!("{}: {what}", quoted(&format!("{prefix}{rest}")))))
            };
            let (slot, path) =
                rest.split_once('/').ok_or_else(|| to_error("the name has no path of a weight".to_owned()))?;
            let entry = by_path.get(path).ok_or_else(|| to_error("the module has no such weight".to_owned()))?;
            if is_elsewhere(path) {
                continue;
            }
            let tensor = format!("{prefix}{rest}");
            let numbers = read_value(file, &tensor, entry.dtype(), &entry.shape())?;
            if !self.load.allows_non_finite() {
                Role::Learned.check(&tensor, &numbers).map_err(|error| file.with_name(&error))?;
            }
            entry.set_slot(&mut state, slot, &info.shape, numbers).map_err(|error| file.with_name(&error))?;
        }
        (&optimizer).check_state(&state, &named(&weights)).map_err(|error| file.with_name(&error))
    }
}

fn number(file: &TensorFile, name: &str) -> Result<f64> {
    match read_value(file, name, DType::F64, &[])? {
        Numbers::F64(row) if row.len() == 1 => Ok(row[0]),
        _ => unreachable!("`read_value` checks type and shape"),
    }
}

/// Reads a tensor, which must have this type and shape.
fn read_value(file: &TensorFile, name: &str, dtype: DType, shape: &[usize]) -> Result<Numbers> {
    let to_error = |what: String| file.with_name(&Error::invalid(format!("{}: {what}", quoted(name))));
    let info = file.info(name).ok_or_else(|| to_error("there is no such tensor in the file".to_owned()))?;
    let same = crate::file::dtype::file_dtype(dtype).is_ok_and(|wanted: Dtype| wanted == info.dtype);
    if !same || info.shape != shape {
        return Err(to_error(format!("expected {dtype} {shape:?}, found {}", describe(info))));
    }
    file.numbers(name, dtype).map_err(|error| file.with_name(&error))
}
