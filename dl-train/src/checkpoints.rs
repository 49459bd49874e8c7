//! A folder of the latest checkpoints of a run.

use crate::checkpoint::Checkpoint;
use crate::file::shortened;
use crate::saved::Saved;
use crate::sharded::Sharded;
use crate::share::Share;
use dl_core::parts::Ranks;
use dl_core::{Error, Module, Result, files};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A folder of the latest checkpoints of a run.
///
/// ```
/// use dl_core::Weight;
/// use dl_train::{Checkpoint, Checkpoints};
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("run");
/// let net = [Weight::new(0.0_f64)];
/// let checkpoints = Checkpoints::in_folder(&folder).keep(2);
/// for step in 1..=5 {
///     net[0].set(step as f64);
///     checkpoints.save(step, &Checkpoint::new().module("model", &net))?;
/// }
/// assert_eq!(checkpoints.steps()?, [4, 5]);
///
/// let latest = checkpoints.latest()?.unwrap();
/// latest.saved.restore().module("model", &net).apply()?;
/// assert_eq!((latest.step, net[0].value()), (5, 5.0));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    keep: usize,
}

/// The newest readable checkpoint of a folder.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// use dl_core::Weight;
/// use dl_train::{Checkpoint, Checkpoints, Latest};
/// let checkpoints = Checkpoints::in_folder(folder.path());
/// checkpoints.save(1, &Checkpoint::new().number("best", 0.5))?;
/// checkpoints.save(2, &Checkpoint::new().number("best", 0.25))?;
/// std::fs::write(checkpoints.path(2), "damaged").unwrap();
/// let Latest { step, saved, skipped, .. } = checkpoints.latest()?.expect("one is good");
/// assert_eq!((step, saved.number("best")?, skipped.len()), (1, 0.5, 1));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Latest {
    /// The step after which the checkpoint was saved.
    pub step: u64,
    /// The checkpoint.
    pub saved: Saved,
    /// The errors of newer checkpoints that could not be read, the newest first.
    pub skipped: Vec<Error>,
}

const NAME: &str = "checkpoint-";
const EXTENSION: &str = ".safetensors";
const MANIFEST: &str = ".safetensors.index.json";

impl Checkpoints {
    /// The checkpoints in this folder, of which the latest three are kept. The folder is created by
    /// the first save.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Checkpoints {
        Checkpoints { folder: folder.into(), keep: 3 }
    }

    /// Sets the number of checkpoints to keep; must be at least 1.
    pub fn keep(mut self, count: usize) -> Checkpoints {
        self.keep = count;
        self
    }

    /// The path of the checkpoint after `step`.
    ///
    /// ```
    /// let path = dl_train::Checkpoints::in_folder("run").path(12);
    /// assert!(path.ends_with("checkpoint-0000000012.safetensors"));
    /// ```
    pub fn path(&self, step: u64) -> PathBuf {
        self.folder.join(format!("{NAME}{step:010}{EXTENSION}"))
    }

    /// Saves a checkpoint after `step`. Then removes the oldest checkpoints, and unfinished files
    /// of runs that were killed.
    ///
    /// # Errors
    /// As [`Checkpoint::save`]; or when the folder holds a readable checkpoint of a later step.
    /// That one belongs to another run, or this run should have resumed from it.
    pub fn save(&self, step: u64, checkpoint: &Checkpoint) -> Result<PathBuf> {
        self.prepare(step)?;
        let path = self.path(step);
        checkpoint.save(&path)?;
        self.clean(step, None)?;
        Ok(path)
    }

    /// The checkpoints of several ranks in this folder. `module` has all weights and buffers that
    /// steps on all ranks change.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (folder, cluster) = (folder.path().join("run"), &dl_core::parts::OneRank);
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Adam;
    /// use dl_train::Checkpoints;
    /// // in `Cluster::run(|cluster| …)`
    /// let (net, adam) = ([Weight::new(3.0_f64)], Adam::new(0.1));
    /// let checkpoints = Checkpoints::in_folder(&folder).across(cluster, &net);
    /// if let Some(latest) = checkpoints.latest()? {
    ///     checkpoints.apply(latest.saved.restore().module("net", &net).optimizer("adam", &adam, &net))?;
    /// }
    /// net[0].square().train(&adam).wait()?;
    /// let manifest = checkpoints.save(1, |checkpoint| checkpoint.module("net", &net).optimizer("adam", &adam, &net))?;
    /// assert!(manifest.ends_with("checkpoint-0000000001.safetensors.index.json"));
    ///
    /// // in one process
    /// let again = [Weight::new(0.0_f64)];
    /// Checkpoints::in_folder(&folder).latest()?.unwrap().saved.restore().module("net", &again).apply()?;
    /// assert_eq!(again[0].value(), net[0].value());
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn across<'a>(&self, ranks: &'a dyn Ranks, module: &dyn Module) -> Sharded<'a> {
        Sharded::new(self, ranks, Share::new(ranks, module, false))
    }

    /// Checks that a checkpoint may be saved.
    fn prepare(&self, step: u64) -> Result<()> {
        self.check()?;
        files::create_folder(&self.folder).map_err(|error| self.with_folder(Error::other(error)))?;
        let later = self.steps()?.into_iter().rev().take_while(|&later| later > step);
        if let Some(later) = later.into_iter().find(|&later| self.open(later).is_ok()) {
            return Err(self.with_folder(Error::invalid(format!(
                "there is a checkpoint of step {later}, so that of step {step} would not be the latest: resume from it, or use another folder"
            ))));
        }
        Ok(())
    }

    /// Begins to save a checkpoint of several ranks. Files of this step that they replace must not
    /// have a manifest any more.
    pub(crate) fn begin(&self, step: u64) -> Result<()> {
        self.prepare(step)?;
        let removed = ignore_not_found(fs::remove_file(self.manifest_path(step)));
        removed.map_err(|error| self.with_folder(Error::other(error)))
    }

    /// The path of the manifest of a checkpoint of several ranks.
    pub(crate) fn manifest_path(&self, step: u64) -> PathBuf {
        self.folder.join(format!("{NAME}{step:010}{MANIFEST}"))
    }

    /// The path of the file of a rank.
    pub(crate) fn part_path(&self, step: u64, rank: usize, ranks: usize) -> PathBuf {
        self.folder.join(format!("{NAME}{step:010}-{:05}{}", rank + 1, of_ranks(ranks)))
    }

    /// Opens the checkpoint after `step`, also one of several ranks.
    pub(crate) fn open(&self, step: u64) -> Result<Saved> {
        let manifest = self.manifest_path(step);
        Checkpoint::load(if manifest.exists() { manifest } else { self.path(step) })
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.keep > 0 {
            Ok(())
        } else {
            Err(self.with_folder(Error::invalid("`keep` is 0: at least 1 checkpoint must be kept")))
        }
    }

    /// The steps of all checkpoints in the folder, in ascending order. A folder that does not exist
    /// has none.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn steps(&self) -> Result<Vec<u64>> {
        let names = self.file_names().map_err(|error| self.with_folder(Error::other(error)))?;
        let mut steps: Vec<u64> = names.iter().filter_map(|name| self.parse_step(name)).collect();
        steps.sort_unstable();
        steps.dedup();
        Ok(steps)
    }

    /// The newest readable checkpoint, or `None` if the folder has no checkpoints.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let folder = folder.path();
    /// use dl_train::{Checkpoint, Checkpoints};
    /// let checkpoints = Checkpoints::in_folder(folder);
    /// assert!(checkpoints.latest()?.is_none());
    /// checkpoints.save(1, &Checkpoint::new())?;
    /// std::fs::write(checkpoints.path(2), "damaged").unwrap();
    ///
    /// let latest = checkpoints.latest()?.unwrap();
    /// assert_eq!((latest.step, latest.skipped.len()), (1, 1));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the folder cannot be read, or it has checkpoints and none of them can be read.
    pub fn latest(&self) -> Result<Option<Latest>> {
        let mut skipped: Vec<Error> = Vec::new();
        for step in self.steps()?.into_iter().rev() {
            match self.open(step) {
                Ok(saved) => return Ok(Some(Latest { step, saved, skipped })),
                Err(error) => skipped.push(error),
            }
        }
        self.none_readable(&skipped)
    }

    /// The result if none of these checkpoints can be read.
    pub(crate) fn none_readable(&self, skipped: &[Error]) -> Result<Option<Latest>> {
        match skipped.first() {
            Some(newest) => Err(self.with_folder(Error::invalid(format!(
                "none of the {} checkpoints can be read; the newest: {}",
                skipped.len(),
                shortened(newest)
            )))),
            None => Ok(None),
        }
    }

    /// After the checkpoint of `step` has been saved, by several `ranks` or by one process: removes
    /// all but the latest checkpoints up to it, and files without a checkpoint.
    pub(crate) fn clean(&self, step: u64, ranks: Option<usize>) -> Result<()> {
        self.remove_old(step, ranks).map_err(|error| {
            self.with_folder(Error::other(error).context("the checkpoint was saved, but old files were not removed"))
        })
    }

    fn remove_old(&self, step: u64, ranks: Option<usize>) -> io::Result<()> {
        let names = self.file_names()?;
        for name in names.iter().filter(|name| files::is_unfinished(name, NAME)) {
            // Ignore errors: the checkpoint itself has been saved.
            let _ = files::remove_unfinished(&self.folder.join(name));
        }
        let mut steps: Vec<u64> = names.iter().filter_map(|name| self.parse_step(name)).collect();
        steps.retain(|&other| other <= step);
        steps.sort_unstable();
        steps.dedup();
        let kept = steps.split_off(steps.len().saturating_sub(self.keep));
        let remove = |path: PathBuf| ignore_not_found(fs::remove_file(path));
        for old in steps {
            remove(self.manifest_path(old))?;
            remove(self.path(old))?;
        }
        remove(if ranks.is_some() { self.path(step) } else { self.manifest_path(step) })?;
        let is_current = |name: &str| ranks.is_some_and(|ranks| name.ends_with(&of_ranks(ranks)));
        let is_needed = |name: &str, part: u64| if part == step { is_current(name) } else { kept.contains(&part) };
        let parts = names.iter().filter_map(|name| Some((name, part_step(name)?)));
        let mut useless = parts.filter(|(name, part)| *part <= step && !is_needed(name, *part));
        useless.try_for_each(|(name, _)| remove(self.folder.join(name)))
    }

    /// The step in a file name, if it is the name of a checkpoint or of a manifest.
    fn parse_step(&self, name: &str) -> Option<u64> {
        let number = name.strip_prefix(NAME)?;
        let step = number.strip_suffix(MANIFEST).or_else(|| number.strip_suffix(EXTENSION))?.parse().ok()?;
        (self.path(step).ends_with(name) || self.manifest_path(step).ends_with(name)).then_some(step)
    }

    /// The names of the files in the folder.
    fn file_names(&self) -> io::Result<Vec<String>> {
        let folder: &Path = if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder };
        let files = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            files => files?,
        };
        let names = files.map(|file| Ok(file?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    }

    fn with_folder(&self, error: Error) -> Error {
        error.context(self.folder.display())
    }
}

/// The end of the name of the file of one of so many ranks.
fn of_ranks(ranks: usize) -> String {
    format!("-of-{ranks:05}{EXTENSION}")
}

/// The step in a file name, if it is that of the file of a rank.
fn part_step(name: &str) -> Option<u64> {
    let (step, part) = name.strip_prefix(NAME)?.strip_suffix(EXTENSION)?.split_once('-')?;
    step.parse().ok().filter(|_| part.contains("-of-"))
}

/// Treats a missing file as removed: another process may have removed it first.
fn ignore_not_found(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
