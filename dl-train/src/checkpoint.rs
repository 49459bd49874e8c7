//! The state of a training run, to be written to a file.

use crate::file::{FileMetadata, FilePart, Kind, Role, Tensor, Written, quoted, write};
use crate::saved::Saved;
use crate::share::Share;
use crate::weights;
use dl_core::{Entry, Error, Module, Numbers, Optimizer, Result, WeightHandle};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The state of a training run: weights and buffers, optimizer state, states of random number
/// generators, and named numbers and texts.
///
/// A checkpoint holds copies, so later changes do not affect it. Build it between training steps;
/// it can be saved on any thread. A run that resumes from it is bit-identical to an uninterrupted
/// one if the checkpoint contains all state that the run depends on.
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
/// The file is in the safetensors format. Its tensors are named as follows:
///
/// | name | content |
/// |---|---|
/// | `module/NAME/PATH` | a weight or buffer |
/// | `optimizer/NAME/slots/SLOT/PATH` | a slot of a weight, such as `exp_avg` |
/// | `optimizer/NAME/numbers/KEY` | a number of [`OptimizerState`](dl_core::OptimizerState) |
/// | `number/NAME`, `count/NAME` | an `f64`, a `u64` |
/// | `rng/NAME/seed`, `rng/NAME/position` | 32 bytes; the stream and both halves of the word position |
///
/// A JSON text under the metadata key `dl` holds the version of the format, the kinds of the
/// optimizers, the texts, and a checksum of the whole file.
#[derive(Clone, Debug)]
#[must_use = "nothing is written before `save`"]
pub struct Checkpoint {
    metadata: FileMetadata,
    tensors: BTreeMap<String, Tensor>,
    /// The entries of each module, by module name, to detect weights that two modules share.
    entries: Vec<(String, Vec<Entry>)>,
    allow_non_finite: bool,
    /// What this rank saves, if there are several.
    share: Option<Arc<Share>>,
    /// The first error; reported by [`save`](Checkpoint::save).
    failed: Option<Error>,
}

impl Default for Checkpoint {
    fn default() -> Self {
        Checkpoint::new()
    }
}

impl Checkpoint {
    /// An empty checkpoint.
    pub fn new() -> Checkpoint {
        Checkpoint {
            metadata: FileMetadata::new(Kind::Checkpoint),
            tensors: BTreeMap::new(),
            entries: Vec::new(),
            allow_non_finite: false,
            share: None,
            failed: None,
        }
    }

    /// An empty checkpoint, which takes this share of the entries that are added.
    pub(crate) fn of_share(share: Arc<Share>) -> Checkpoint {
        Checkpoint { share: Some(share), ..Checkpoint::new() }
    }

    /// Whether this rank saves an entry.
    fn has(&self, entry: &Entry) -> bool {
        self.share.as_ref().is_none_or(|share| share.saves(entry))
    }

    /// Opens a file written by [`save`](Checkpoint::save) and verifies its checksum. Tensors are
    /// read on demand.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or is not a checkpoint.
    pub fn load(path: impl AsRef<Path>) -> Result<Saved> {
        Saved::open(path.as_ref())
    }

    /// Opens a checkpoint from the bytes of a file; errors call it `name`.
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

    /// Adds all weights and buffers of a module. Modules that share weights must be added as one
    /// module, for instance as a tuple, so that each weight is saved once.
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
        self.try_add(|this| {
            check_name(name)?;
            let entries = module.entries();
            for (other, theirs) in &this.entries {
                if let Some(entry) = entries.iter().find(|entry| theirs.iter().any(|other| other.is_same(entry))) {
                    let path = quoted(entry.path());
                    return Err(Error::invalid(format!(
                        "the modules {other:?} and {name:?} share {path}: add both as one module, such as a tuple"
                    )));
                }
            }
            let share = this.share.clone();
            let selected = |entry: &Entry| share.as_ref().is_none_or(|share| share.saves(entry));
            weights::add(&mut this.tensors, &entries, &module_prefix(name), selected)?;
            this.entries.push((name.to_owned(), entries));
            Ok(())
        })
    }

    /// Adds the state of an optimizer: the slots of the weights of `module`, the number of steps
    /// (which also determines schedules), and the state of schedules. `module` must contain every
    /// weight that the optimizer has trained.
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
        self.try_add(|this| {
            check_name(name)?;
            let weights = module.weights();
            let state = (&optimizer).state(&named(&weights))?;
            for (key, number) in state.numbers() {
                if !number.is_finite() {
                    return Err(Error::not_finite(format!(
                        "optimizer {name:?}: the number {key:?} is {number}: only finite numbers can be restored"
                    )));
                }
                let of_weight = weights.iter().find(|entry| key.strip_prefix(STEPS_OF) == Some(entry.path()));
                let tensor = Tensor { role: Role::Value, shape: Vec::new(), numbers: Numbers::F64(vec![number]) };
                if of_weight.map_or_else(|| this.has_values(), |entry| this.has(entry)) {
                    this.add_tensor(format!("{}{key}", numbers_prefix(name)), tensor)?;
                }
            }
            for (weight, slot) in state.slots() {
                check_name(slot)?;
                let entry = weights.iter().find(|entry| entry.path() == weight);
                if entry.is_some_and(|entry| !this.has(entry)) {
                    continue;
                }
                let numbers = entry.and_then(|entry| Some((entry.shape(), entry.slot(&state, slot)?)));
                let Some((shape, numbers)) = numbers else {
                    return Err(Error::invalid(format!("the slot {slot:?} of {} cannot be written", quoted(weight))));
                };
                let tensor = Tensor { role: Role::Learned, shape, numbers };
                this.add_tensor(format!("{}{slot}/{weight}", slots_prefix(name)), tensor)?;
            }
            match this.metadata.optimizers.0.insert(name.to_owned(), state.kind().to_owned()) {
                Some(_) => Err(duplicate(name)),
                None => Ok(()),
            }
        })
    }

    /// Adds a copy of the elements of a weight or buffer under another name.
    pub(crate) fn copy(self, name: String, entry: &Entry, numbers: Numbers) -> Checkpoint {
        let role = if entry.is_weight() { Role::Learned } else { Role::Buffer };
        self.try_add(|this| match this.has(entry) {
            true => this.add_tensor(name, Tensor { role, shape: entry.shape(), numbers }),
            false => Ok(()),
        })
    }

    /// Adds a named number. All values are allowed and saved bit by bit, also infinity and NaN.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// dl_train::Checkpoint::new().number("best", f64::INFINITY).save(&path)?;
    /// assert_eq!(dl_train::Checkpoint::load(&path)?.number("best")?, f64::INFINITY);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn number(self, name: &str, number: f64) -> Checkpoint {
        self.try_add(|this| {
            check_name(name)?;
            this.add_value(number_name(name), &[], Numbers::F64(vec![number]))
        })
    }

    /// Adds a named whole number, such as an epoch, a batch or a seed.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// // the position of a loader
    /// let (epoch, batch) = (3, 120);
    /// dl_train::Checkpoint::new().count("epoch", epoch).count("batch", batch).save(&path)?;
    /// assert_eq!(dl_train::Checkpoint::load(&path)?.count("batch")?, 120);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn count(self, name: &str, count: u64) -> Checkpoint {
        self.try_add(|this| {
            check_name(name)?;
            this.add_value(count_name(name), &[], Numbers::U64(vec![count]))
        })
    }

    /// Adds a named text.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// dl_train::Checkpoint::new().text("data", "digits.csv").save(&path)?;
    /// assert_eq!(dl_train::Checkpoint::load(&path)?.text("data")?, "digits.csv");
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn text(self, name: &str, text: &str) -> Checkpoint {
        self.try_add(|this| {
            check_name(name)?;
            match this.metadata.texts.0.insert(name.to_owned(), text.to_owned()) {
                Some(_) => Err(duplicate(name)),
                None => Ok(()),
            }
        })
    }

    /// Adds the state of a random number generator.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("run.safetensors");
    /// use dl_train::{Checkpoint, RngPlace};
    /// let place = RngPlace { seed: [7; 32], stream: 1, word: 40 }; // as reported by `ChaCha8Rng`
    /// Checkpoint::new().rng("shuffle", place).save(&path)?;
    /// assert_eq!(Checkpoint::load(&path)?.rng("shuffle")?, place);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn rng(self, name: &str, place: RngPlace) -> Checkpoint {
        self.try_add(|this| {
            check_name(name)?;
            let halves = [place.word as u64, (place.word >> 64) as u64];
            this.add_value(rng_name(name, "seed"), &[32], Numbers::U8(place.seed.to_vec()))?;
            this.add_value(rng_name(name, "position"), &[3], Numbers::U64(vec![place.stream, halves[0], halves[1]]))
        })
    }

    /// Permits infinite or NaN elements in weights and optimizer slots, and NaN in buffers. By
    /// default they are an error, so that a diverged run does not replace its good checkpoints.
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

    /// Writes the file atomically, replacing an existing one: after a crash of the program or the
    /// machine, the file is either complete or absent.
    ///
    /// # Errors
    /// When a name is empty, contains `/` or is used twice; two modules share a weight; the
    /// optimizer has trained weights outside its module; an element is not finite; or the file
    /// cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.save_as(path.as_ref(), self.metadata.clone()).map(drop)
    }

    /// Writes one of the files of a checkpoint of several ranks.
    pub(crate) fn save_part(&self, path: &Path, part: FilePart) -> Result<Written> {
        self.save_as(path, FileMetadata { part: Some(part), ..self.metadata.clone() })
    }

    /// The names of the tensors.
    pub(crate) fn names(&self) -> Vec<String> {
        self.tensors.keys().cloned().collect()
    }

    fn save_as(&self, path: &Path, metadata: FileMetadata) -> Result<Written> {
        let with_path = |error: Error| error.context(path.display());
        self.check().map_err(with_path)?;
        if !self.allow_non_finite {
            self.tensors
                .iter()
                .try_for_each(|(name, tensor)| tensor.role.check(name, &tensor.numbers))
                .map_err(with_path)?;
        }
        write(path, metadata, &self.tensors)
    }

    /// The first error of building the checkpoint, if any.
    pub(crate) fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn try_add(mut self, add: impl FnOnce(&mut Checkpoint) -> Result<()>) -> Checkpoint {
        if self.failed.is_none() {
            self.failed = add(&mut self).err();
        }
        self
    }

    /// Whether this rank saves what all ranks have.
    fn has_values(&self) -> bool {
        self.share.as_ref().is_none_or(|share| share.is_first())
    }

    fn add_value(&mut self, name: String, shape: &[usize], numbers: Numbers) -> Result<()> {
        if !self.has_values() {
            return Ok(());
        }
        self.add_tensor(name, Tensor { role: Role::Value, shape: shape.to_vec(), numbers })
    }

    fn add_tensor(&mut self, name: String, tensor: Tensor) -> Result<()> {
        match self.tensors.insert(name.clone(), tensor) {
            Some(_) => Err(duplicate(&name)),
            None => Ok(()),
        }
    }
}

/// The state of a random number generator of the ChaCha family: its seed, its stream, and the
/// number of 32-bit words it has produced.
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
    /// The index of the next word.
    pub word: u128,
}

/// The start of the key of the number of steps of a weight.
pub(crate) const STEPS_OF: &str = "steps.";

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

/// The handles of the weights, by path.
pub(crate) fn named(weights: &[Entry]) -> Vec<(&str, WeightHandle)> {
    weights.iter().filter_map(|entry| Some((entry.path(), entry.weight()?))).collect()
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains('/') {
        return Err(Error::invalid(format!(
            "{} is not a valid name: it must not be empty, nor contain `/`",
            quoted(name)
        )));
    }
    Ok(())
}

fn duplicate(name: &str) -> Error {
    Error::invalid(format!("{} is in the checkpoint twice", quoted(name)))
}
