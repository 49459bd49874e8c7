//! A whole training run, to be written to a file.

use crate::file::{Head, Kind, Role, Tensor, quoted, write};
use crate::saved::Saved;
use crate::weights;
use dl_core::{Entry, Error, Module, Numbers, Optimizer, Result, WeightHandle};
use std::collections::BTreeMap;
use std::path::Path;

/// All that a training run needs to go on: weights and buffers, what optimizers remember,
/// generators of random numbers, and small values of yours.
///
/// It holds copies: what is changed after it was made does not change it. So take it between
/// training steps, and write it from whatever thread. A run that goes on from it is bit-identical
/// to one that never stopped, if all that the run depends on is in it.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Adam;
/// use dl_train::Checkpoint;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("run.safetensors");
/// let (net, adam) = ([Weight::new(3.0_f64)], Adam::new(0.1));
/// (&net[0] * &net[0]).train(&adam).wait()?;
/// Checkpoint::new().module("model", &net).optimizer("adam", &adam, &net).count("epoch", 3).save(&path)?;
///
/// let (again, resumed) = ([Weight::new(0.0_f64)], Adam::new(0.1));
/// let saved = Checkpoint::load(&path)?;
/// saved.restore().module("model", &again).optimizer("adam", &resumed, &again).apply()?;
/// assert_eq!(saved.count("epoch")?, 3);
///
/// (&net[0] * &net[0]).train(&adam).wait()?;
/// (&again[0] * &again[0]).train(&resumed).wait()?;
/// assert_eq!(net[0].value().to_bits(), again[0].value().to_bits());
/// # dl_core::Result::Ok(())
/// ```
///
/// The file is one of safetensors; Python's library reads it. Its tensors are called
///
/// | name | what |
/// |---|---|
/// | `module/NAME/PATH` | a weight or buffer |
/// | `optimizer/NAME/slots/SLOT/PATH` | a slot of a weight, as `exp_avg` |
/// | `optimizer/NAME/numbers/KEY` | a number of [`OptimizerState`](dl_core::OptimizerState) |
/// | `number/NAME`, `count/NAME` | a number in double precision, a whole number |
/// | `rng/NAME/seed`, `rng/NAME/position` | 32 bytes; the stream and both halves of the place in it |
///
/// and a JSON text under `dl` in its metadata has the version of the format, the kinds of the
/// optimizers, texts, and a checksum over all of it.
#[derive(Clone, Debug)]
#[must_use = "nothing is written before `save`"]
pub struct Checkpoint {
    head: Head,
    tensors: BTreeMap<String, Tensor>,
    /// By the names of the modules, so that nothing is written in two of them.
    entries: Vec<(String, Vec<Entry>)>,
    allow_non_finite: bool,
    /// The first thing that went wrong.
    failed: Option<Error>,
}

impl Default for Checkpoint {
    fn default() -> Self {
        Checkpoint::new()
    }
}

impl Checkpoint {
    /// An empty one.
    pub fn new() -> Checkpoint {
        Checkpoint {
            head: Head::new(Kind::Checkpoint),
            tensors: BTreeMap::new(),
            entries: Vec::new(),
            allow_non_finite: false,
            failed: None,
        }
    }

    /// Opens a file that [`save`](Checkpoint::save) has written. Tensors are read when they are
    /// asked for; the checksum is looked at now.
    ///
    /// # Errors
    /// When it cannot be read, is damaged, or is no checkpoint.
    pub fn load(path: impl AsRef<Path>) -> Result<Saved> {
        Saved::open(path.as_ref())
    }

    /// The same from the bytes of a file; `name` is what errors call it.
    ///
    /// ```
    /// let error = dl_train::Checkpoint::from_bytes("run.safetensors", vec![0; 3]).unwrap_err();
    /// assert!(error.to_string().starts_with("run.safetensors: "));
    /// ```
    ///
    /// # Errors
    /// As [`load`](Checkpoint::load).
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Saved> {
        Saved::from_bytes(name, bytes)
    }

    /// All weights and buffers of a module. Modules that share some have to be saved as one, a
    /// tuple of them: else a weight would be there twice.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// use dl_core::Weight;
    /// use dl_train::Checkpoint;
    /// let encoder = Weight::new(1.0_f64);
    /// let (student, teacher) = ((encoder.clone(), Weight::new(2.0_f64)), (encoder, Weight::new(3.0_f64)));
    /// assert!(Checkpoint::new().module("student", &student).module("teacher", &teacher).save(&path).is_err());
    /// Checkpoint::new().module("nets", &(&student, &teacher)).save(&path)?;
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn module<M: Module + ?Sized>(self, name: &str, module: &M) -> Checkpoint {
        self.and(|this| {
            checked_name(name)?;
            let entries = module.entries();
            for (other, theirs) in &this.entries {
                if let Some(entry) = entries.iter().find(|entry| theirs.iter().any(|other| other.is_same(entry))) {
                    let path = quoted(entry.path());
                    return Err(Error::invalid(format!(
                        "the modules {other:?} and {name:?} share {path}: save both as one module, a tuple"
                    )));
                }
            }
            weights::add(&mut this.tensors, module, &module_prefix(name))?;
            this.entries.push((name.to_owned(), entries));
            Ok(())
        })
    }

    /// All that an optimizer remembers: of the weights of this module, which have to be all that it
    /// has trained; its steps, which is where schedules are; what schedules remember.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// use dl_core::Weight;
    /// use dl_optim::Adam;
    /// use dl_train::Checkpoint;
    /// let (generator, critic) = ([Weight::new(1.0_f64)], [Weight::new(2.0_f64)]);
    /// let adams = [Adam::new(1e-4), Adam::new(4e-4)];
    /// let checkpoint = Checkpoint::new().module("generator", &generator).module("critic", &critic);
    /// checkpoint.optimizer("g", &adams[0], &generator).optimizer("c", &adams[1], &critic).save(&path)?;
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn optimizer<M: Module + ?Sized>(self, name: &str, optimizer: &dyn Optimizer, module: &M) -> Checkpoint {
        self.and(|this| {
            checked_name(name)?;
            let weights = module.weights();
            let state = (&optimizer).state(&named(&weights))?;
            for (key, number) in state.numbers() {
                if !number.is_finite() {
                    return Err(Error::not_finite(format!(
                        "optimizer {name:?}: the number {key:?} is {number}, and could not be put back"
                    )));
                }
                this.note(format!("{}{key}", numbers_prefix(name)), &[], Numbers::F64(vec![number]))?;
            }
            for (weight, slot) in state.slots() {
                checked_name(slot)?;
                let entry = weights.iter().find(|entry| entry.path() == weight);
                let numbers = entry.and_then(|entry| Some((entry.shape(), entry.slot(&state, slot)?)));
                let Some((shape, numbers)) = numbers else {
                    return Err(Error::invalid(format!("the slot {slot:?} of {} cannot be written", quoted(weight))));
                };
                let tensor = Tensor { role: Role::Learned, shape, numbers };
                this.tensor(format!("{}{slot}/{weight}", slots_prefix(name)), tensor)?;
            }
            match this.head.optimizers.0.insert(name.to_owned(), state.kind().to_owned()) {
                Some(_) => Err(twice(name)),
                None => Ok(()),
            }
        })
    }

    /// Numbers of a weight or buffer from another moment.
    pub(crate) fn copy(self, name: String, entry: &Entry, numbers: Numbers) -> Checkpoint {
        let role = if entry.is_weight() { Role::Learned } else { Role::Buffer };
        self.and(|this| this.tensor(name, Tensor { role, shape: entry.shape(), numbers }))
    }

    /// A number of yours. Any number, kept to the last bit.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// dl_train::Checkpoint::new().number("best", f64::INFINITY).save(&path)?;
    /// assert_eq!(dl_train::Checkpoint::load(&path)?.number("best")?, f64::INFINITY);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn number(self, name: &str, number: f64) -> Checkpoint {
        self.and(|this| {
            checked_name(name)?;
            this.note(number_name(name), &[], Numbers::F64(vec![number]))
        })
    }

    /// A whole number of yours: an epoch, a batch, a seed.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// // the place of a loader in its data
    /// let (epoch, batch) = (3, 120);
    /// dl_train::Checkpoint::new().count("epoch", epoch).count("batch", batch).save(&path)?;
    /// assert_eq!(dl_train::Checkpoint::load(&path)?.count("batch")?, 120);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn count(self, name: &str, count: u64) -> Checkpoint {
        self.and(|this| {
            checked_name(name)?;
            this.note(count_name(name), &[], Numbers::U64(vec![count]))
        })
    }

    /// A text of yours.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// dl_train::Checkpoint::new().text("data", "digits.csv").save(&path)?;
    /// assert_eq!(dl_train::Checkpoint::load(&path)?.text("data")?, "digits.csv");
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn text(self, name: &str, text: &str) -> Checkpoint {
        self.and(|this| {
            checked_name(name)?;
            match this.head.texts.0.insert(name.to_owned(), text.to_owned()) {
                Some(_) => Err(twice(name)),
                None => Ok(()),
            }
        })
    }

    /// Where a generator of random numbers is.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// use dl_train::{Checkpoint, RngPlace};
    /// let place = RngPlace { seed: [7; 32], stream: 1, word: 40 }; // what `ChaCha8Rng` says of itself
    /// Checkpoint::new().rng("shuffle", place).save(&path)?;
    /// assert_eq!(Checkpoint::load(&path)?.rng("shuffle")?, place);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn rng(self, name: &str, place: RngPlace) -> Checkpoint {
        self.and(|this| {
            checked_name(name)?;
            let halves = [place.word as u64, (place.word >> 64) as u64];
            this.note(rng_name(name, "seed"), &[32], Numbers::U8(place.seed.to_vec()))?;
            this.note(rng_name(name, "position"), &[3], Numbers::U64(vec![place.stream, halves[0], halves[1]]))
        })
    }

    /// Writes it although a weight or a slot is infinite or NaN, or a buffer NaN. Without this it
    /// is an error, so that a run that went astray does not replace the checkpoints from before
    /// that.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// use dl_core::Weight;
    /// use dl_train::Checkpoint;
    /// let checkpoint = Checkpoint::new().module("model", &[Weight::new(f64::NAN)]);
    /// assert!(checkpoint.save(&path).unwrap_err().is_not_finite());
    /// checkpoint.allow_non_finite().save(&path)?;
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn allow_non_finite(mut self) -> Checkpoint {
        self.allow_non_finite = true;
        self
    }

    /// Writes the file. It is there whole or not at all, whenever the program or the machine stops;
    /// one that was there before is replaced.
    ///
    /// # Errors
    /// When something could not be put into the checkpoint: a name comes twice, is empty or has a
    /// `/` in it; an optimizer remembers other weights than those of its module; two modules share
    /// a weight; a number is not finite. Or when the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let here = |error: Error| error.context(path.display());
        self.check().map_err(here)?;
        if !self.allow_non_finite {
            self.tensors
                .iter()
                .try_for_each(|(name, tensor)| tensor.role.check(name, &tensor.numbers))
                .map_err(here)?;
        }
        write(path, self.head.clone(), &self.tensors)
    }

    /// Whether all could be put into it.
    pub(crate) fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn and(mut self, add: impl FnOnce(&mut Checkpoint) -> Result<()>) -> Checkpoint {
        if self.failed.is_none() {
            self.failed = add(&mut self).err();
        }
        self
    }

    fn note(&mut self, name: String, shape: &[usize], numbers: Numbers) -> Result<()> {
        self.tensor(name, Tensor { role: Role::Note, shape: shape.to_vec(), numbers })
    }

    fn tensor(&mut self, name: String, tensor: Tensor) -> Result<()> {
        match self.tensors.insert(name.clone(), tensor) {
            Some(_) => Err(twice(&name)),
            None => Ok(()),
        }
    }
}

/// Where a generator of random numbers is, of the ChaCha family: its seed, the stream of it, and
/// how many words of 32 bits it has given.
///
/// ```
/// use dl_train::{Checkpoint, RngPlace};
/// use rand::{RngCore, SeedableRng};
/// use rand_chacha::ChaCha8Rng;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("run.safetensors");
/// let mut rng = ChaCha8Rng::seed_from_u64(1);
/// rng.next_u64();
/// let place = RngPlace { seed: rng.get_seed(), stream: rng.get_stream(), word: rng.get_word_pos() };
/// Checkpoint::new().rng("order", place).save(&path)?;
///
/// let place = Checkpoint::load(&path)?.rng("order")?;
/// let mut again = ChaCha8Rng::from_seed(place.seed);
/// again.set_stream(place.stream);
/// again.set_word_pos(place.word);
/// assert_eq!(again.next_u64(), rng.next_u64());
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RngPlace {
    /// The seed.
    pub seed: [u8; 32],
    /// The number of the stream.
    pub stream: u64,
    /// The number of the next word.
    pub word: u128,
}

pub(crate) fn module_prefix(name: &str) -> String {
    format!("module/{name}/")
}

pub(crate) fn numbers_prefix(optimizer: &str) -> String {
    format!("optimizer/{optimizer}/numbers/")
}

pub(crate) fn slots_prefix(optimizer: &str) -> String {
    format!("optimizer/{optimizer}/slots/")
}

pub(crate) fn number_name(name: &str) -> String {
    format!("number/{name}")
}

pub(crate) fn count_name(name: &str) -> String {
    format!("count/{name}")
}

pub(crate) fn rng_name(name: &str, part: &str) -> String {
    format!("rng/{name}/{part}")
}

/// Weights, by their paths.
pub(crate) fn named(weights: &[Entry]) -> Vec<(&str, WeightHandle)> {
    weights.iter().filter_map(|entry| Some((entry.path(), entry.weight()?))).collect()
}

fn checked_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains('/') {
        return Err(Error::invalid(format!("{} is no name: it has to have letters, and no `/`", quoted(name))));
    }
    Ok(())
}

fn twice(name: &str) -> Error {
    Error::invalid(format!("{} is there twice", quoted(name)))
}
