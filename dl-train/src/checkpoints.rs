//! A folder of the latest checkpoints of a run.

use crate::checkpoint::Checkpoint;
use crate::file::shortened;
use crate::saved::Saved;
use dl_core::{Error, Result, files};
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
        self.check()?;
        files::create_folder(&self.folder).map_err(|error| self.with_folder(Error::other(error)))?;
        let later = self.steps()?.into_iter().rev().take_while(|&later| later > step);
        if let Some(later) = later.into_iter().find(|&later| Checkpoint::load(self.path(later)).is_ok()) {
            return Err(self.with_folder(Error::invalid(format!(
                "there is a checkpoint of step {later}, so that of step {step} would not be the latest: resume from it, or use another folder"
            ))));
        }
        let path = self.path(step);
        checkpoint.save(&path)?;
        self.clean(step).map_err(|error| {
            self.with_folder(Error::other(error).context("the checkpoint was saved, but old files were not removed"))
        })?;
        Ok(path)
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
            match Checkpoint::load(self.path(step)) {
                Ok(saved) => return Ok(Some(Latest { step, saved, skipped })),
                Err(error) => skipped.push(error),
            }
        }
        match skipped.first() {
            Some(newest) => Err(self.with_folder(Error::invalid(format!(
                "none of the {} checkpoints can be read; the newest: {}",
                skipped.len(),
                shortened(newest)
            )))),
            None => Ok(None),
        }
    }

    /// Removes all but the latest checkpoints up to `step`, and unfinished files.
    fn clean(&self, step: u64) -> io::Result<()> {
        let mut steps: Vec<u64> = Vec::new();
        for name in self.file_names()? {
            if files::is_unfinished(&name, NAME) {
                // Ignore errors: the checkpoint itself has been saved.
                let _ = files::remove_unfinished(&self.folder.join(&name));
            }
            steps.extend(self.parse_step(&name).filter(|&other| other <= step));
        }
        steps.sort_unstable();
        let old = steps.len().saturating_sub(self.keep);
        steps[..old].iter().try_for_each(|&old| ignore_not_found(fs::remove_file(self.path(old))))
    }

    /// The step in a file name, if it is the name of a checkpoint.
    fn parse_step(&self, name: &str) -> Option<u64> {
        let step = name.strip_prefix(NAME)?.strip_suffix(EXTENSION)?.parse().ok()?;
        self.path(step).ends_with(name).then_some(step)
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

/// Treats a missing file as removed: another process may have removed it first.
fn ignore_not_found(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
