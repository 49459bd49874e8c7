//! A whole training run, in a file, and what goes on from there.

use crate::checkpoint::{
    RngPlace, count_name, module_prefix, named, number_name, numbers_prefix, rng_name, slots_prefix,
};
use crate::file::{Kind, Opened, Role, brief, quoted};
use crate::load::Load;
use crate::report::Report;
use dl_core::{DType, Entry, Error, Module, NewState, NewValue, Numbers, Optimizer, OptimizerState, Result};
use safetensors::Dtype;
use std::collections::HashMap;
use std::path::Path;

/// A checkpoint in a file: see [`Checkpoint::load`](crate::Checkpoint::load).
///
/// It holds the file open and reads from it what is asked for. What it takes of memory depends on
/// what is asked for, not on what the file says.
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
    file: Opened,
}

impl Saved {
    pub(crate) fn open(path: &Path) -> Result<Saved> {
        Self::of(Opened::open(path)?)
    }

    pub(crate) fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Saved> {
        Self::of(Opened::from_bytes(name, bytes)?)
    }

    fn of(file: Opened) -> Result<Saved> {
        match file.kind() {
            Some(Kind::Checkpoint) => Ok(Saved { file }),
            _ => {
                Err(file
                    .fault(&Error::invalid("this is no checkpoint, but a file of weights: `load_weights` reads it")))
            }
        }
    }

    /// Begins to put back what was saved.
    pub fn restore(&self) -> Restore<'_> {
        Restore {
            file: &self.file,
            load: Load::strict(),
            values: Vec::new(),
            states: Vec::new(),
            report: Report::default(),
            failed: None,
        }
    }

    /// A number that was saved with [`Checkpoint::number`](crate::Checkpoint::number).
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn number(&self, name: &str) -> Result<f64> {
        number(&self.file, &number_name(name))
    }

    /// A whole number that was saved with [`Checkpoint::count`](crate::Checkpoint::count).
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn count(&self, name: &str) -> Result<u64> {
        match self.note(&count_name(name), DType::U64, &[])? {
            Numbers::U64(row) if row.len() == 1 => Ok(row[0]),
            _ => unreachable!("one number of this type"),
        }
    }

    /// A text that was saved with [`Checkpoint::text`](crate::Checkpoint::text).
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn text(&self, name: &str) -> Result<&str> {
        let text = self.file.head().and_then(|head| head.texts.0.get(name));
        text.map(String::as_str)
            .ok_or_else(|| self.file.fault(&Error::invalid(format!("it has no text {}", quoted(name)))))
    }

    /// Where a generator of random numbers was, which was saved with
    /// [`Checkpoint::rng`](crate::Checkpoint::rng).
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn rng(&self, name: &str) -> Result<RngPlace> {
        let seed = self.note(&rng_name(name, "seed"), DType::U8, &[32])?;
        let position = self.note(&rng_name(name, "position"), DType::U64, &[3])?;
        let (Numbers::U8(seed), Numbers::U64(position)) = (seed, position) else {
            unreachable!("numbers of these types")
        };
        let (Ok(seed), Ok([stream, low, high])) = (<[u8; 32]>::try_from(seed), <[u64; 3]>::try_from(position)) else {
            unreachable!("as many numbers as that")
        };
        Ok(RngPlace { seed, stream, word: u128::from(high) << 64 | u128::from(low) })
    }

    pub(crate) fn has_number(&self, name: &str) -> bool {
        self.file.info(&number_name(name)).is_some()
    }

    /// Numbers of a weight or buffer from another moment.
    pub(crate) fn copy(&self, name: &str, entry: &Entry) -> Result<Numbers> {
        self.note(name, entry.dtype(), &entry.shape())
    }

    fn note(&self, name: &str, dtype: DType, shape: &[usize]) -> Result<Numbers> {
        note(&self.file, name, dtype, shape)
    }
}

/// What is to be put back. It is checked part by part, and set by [`apply`](Restore::apply), all of
/// it or nothing.
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
/// assert!(error.to_string().contains("it has no optimizer of this name"));
/// assert_eq!(net[0].value(), 2.0);
/// # dl_core::Result::Ok(())
/// ```
#[must_use = "nothing is put back before `apply`"]
#[derive(Debug)]
pub struct Restore<'a> {
    file: &'a Opened,
    load: Load,
    values: Vec<NewValue>,
    states: Vec<NewState>,
    report: Report,
    /// The first thing that went wrong.
    failed: Option<Error>,
}

impl<'a> Restore<'a> {
    /// How what follows is loaded; [`Load::strict`] if nobody says anything else. Of an optimizer,
    /// it says only whether numbers may be other than finite.
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

    /// Puts back the weights and buffers that were saved by this name.
    pub fn module<M: Module + ?Sized>(self, name: &str, module: &M) -> Restore<'a> {
        self.and(|this| {
            let prefix = module_prefix(name);
            if this.file.below(&prefix).next().is_none() && !module.entries().is_empty() {
                return Err(this.file.fault(&Error::invalid(format!("it has no module {}", quoted(name)))));
            }
            let (values, report) = this
                .load
                .checked(module, this.file, &prefix)
                .map_err(|error| error.context(format_args!("module {name:?}")))?;
            this.values.extend(values);
            this.report.add(name, report);
            Ok(())
        })
    }

    /// Puts back what an optimizer of the same kind and settings, by this name, remembered of the
    /// weights of this module. All has to fit.
    pub fn optimizer<M: Module + ?Sized>(self, name: &str, optimizer: &dyn Optimizer, module: &M) -> Restore<'a> {
        self.and(|this| {
            let new = this.new_state(name, optimizer, module);
            this.states.push(new.map_err(|error| error.context(format_args!("optimizer {name:?}")))?);
            Ok(())
        })
    }

    /// Sets all values and all states. The report has the names of the modules before the paths.
    ///
    /// No training step should run meanwhile: it would see new weights and an old optimizer.
    ///
    /// # Errors
    /// When anything in the file is missing, damaged, or does not fit. Then nothing has changed.
    #[track_caller]
    pub fn apply(self) -> Result<Report> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        NewValue::set_all(self.values).map_err(|error| self.file.fault(&error))?;
        for state in self.states {
            state.set()?;
        }
        Ok(self.report)
    }

    fn and(mut self, add: impl FnOnce(&mut Restore<'a>) -> Result<()>) -> Restore<'a> {
        if self.failed.is_none() {
            self.failed = add(&mut self).err();
        }
        self
    }

    fn new_state<M: Module + ?Sized>(&self, name: &str, optimizer: &dyn Optimizer, module: &M) -> Result<NewState> {
        let file = self.file;
        let kind = file.head().and_then(|head| head.optimizers.0.get(name));
        let kind = kind.ok_or_else(|| file.fault(&Error::invalid("it has no optimizer of this name")))?;
        let mut state = OptimizerState::new(kind);
        let prefix = numbers_prefix(name);
        for (key, _) in file.below(&prefix) {
            state.set_number(key, number(file, &format!("{prefix}{key}"))?);
        }
        let weights = module.weights();
        let by_path: HashMap<&str, &Entry> = weights.iter().map(|entry| (entry.path(), entry)).collect();
        let prefix = slots_prefix(name);
        for (rest, info) in file.below(&prefix) {
            let fault =
                |what: String| file.fault(&Error::invalid(format!("{}: {what}", quoted(&format!("{prefix}{rest}")))));
            let (slot, path) =
                rest.split_once('/').ok_or_else(|| fault("there is no path of a weight in it".to_owned()))?;
            let entry = by_path.get(path).ok_or_else(|| fault("there is no such weight".to_owned()))?;
            let tensor = format!("{prefix}{rest}");
            let numbers = note(file, &tensor, entry.dtype(), &entry.shape())?;
            if !self.load.allows_non_finite() {
                Role::Learned.check(&tensor, &numbers).map_err(|error| file.fault(&error))?;
            }
            entry.set_slot(&mut state, slot, &info.shape, numbers).map_err(|error| file.fault(&error))?;
        }
        (&optimizer).check_state(&state, &named(&weights)).map_err(|error| file.fault(&error))
    }
}

fn number(file: &Opened, name: &str) -> Result<f64> {
    match note(file, name, DType::F64, &[])? {
        Numbers::F64(row) if row.len() == 1 => Ok(row[0]),
        _ => unreachable!("one number of this type"),
    }
}

/// A tensor that has to have this type and this shape.
fn note(file: &Opened, name: &str, dtype: DType, shape: &[usize]) -> Result<Numbers> {
    let fault = |what: String| file.fault(&Error::invalid(format!("{}: {what}", quoted(name))));
    let info = file.info(name).ok_or_else(|| fault("there is no such tensor in the file".to_owned()))?;
    let same = crate::file::dtype::in_file(dtype).is_ok_and(|wanted: Dtype| wanted == info.dtype);
    if !same || info.shape != shape {
        return Err(fault(format!("expected {dtype} {shape:?}, found {}", brief(info))));
    }
    file.numbers(name, dtype)
}
