//! The last checkpoints of a run, in a folder.

use crate::checkpoint::Checkpoint;
use crate::file::shortened;
use crate::saved::Saved;
use dl_core::{Error, Result, files};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A folder with the last checkpoints of a run.
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

/// The newest checkpoint of a folder that can be read.
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
    /// The step after which it was saved.
    pub step: u64,
    /// What is in it.
    pub saved: Saved,
    /// Why newer ones were passed over, the newest first: damaged files, for instance.
    pub skipped: Vec<Error>,
}

const NAME: &str = "checkpoint-";
const EXTENSION: &str = ".safetensors";

impl Checkpoints {
    /// The checkpoints in this folder, of which three are kept. The folder is made when the first
    /// is saved.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Checkpoints {
        Checkpoints { folder: folder.into(), keep: 3 }
    }

    /// Keeps so many.
    pub fn keep(mut self, count: usize) -> Checkpoints {
        self.keep = count;
        self
    }

    /// The file of the checkpoint after this step.
    ///
    /// ```
    /// let path = dl_train::Checkpoints::in_folder("run").path(12);
    /// assert!(path.ends_with("checkpoint-0000000012.safetensors"));
    /// ```
    pub fn path(&self, step: u64) -> PathBuf {
        self.folder.join(format!("{NAME}{step:010}{EXTENSION}"))
    }

    /// Writes a checkpoint after this step, and then removes the oldest ones, as well as what runs
    /// that were killed have left unfinished.
    ///
    /// # Errors
    /// As [`Checkpoint::save`]; or when the folder has a good checkpoint of a later step, which is
    /// that of another run or one that this run should have gone on from.
    pub fn save(&self, step: u64, checkpoint: &Checkpoint) -> Result<PathBuf> {
        self.check()?;
        files::create_folder(&self.folder).map_err(|error| self.fault(Error::other(error)))?;
        let later = self.steps()?.into_iter().rev().take_while(|&later| later > step);
        if let Some(later) = later.into_iter().find(|&later| Checkpoint::load(self.path(later)).is_ok()) {
            return Err(self.fault(Error::invalid(format!(
                "there is a checkpoint of step {later}, so that of step {step} would not be the latest: go on from there, or take another folder"
            ))));
        }
        let path = self.path(step);
        checkpoint.save(&path)?;
        self.clean(step).map_err(|error| self.fault(Error::other(error).context("the checkpoint was saved, but")))?;
        Ok(path)
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.keep > 0 { Ok(()) } else { Err(self.fault(Error::invalid("at least one checkpoint has to be kept"))) }
    }

    /// The steps of all checkpoints that are there, in their order.
    ///
    /// # Errors
    /// When the folder cannot be read. One that is not there has none.
    pub fn steps(&self) -> Result<Vec<u64>> {
        let names = self.names().map_err(|error| self.fault(Error::other(error)))?;
        let mut steps: Vec<u64> = names.iter().filter_map(|name| self.step(name)).collect();
        steps.sort_unstable();
        Ok(steps)
    }

    /// The newest checkpoint that can be read; none if there is none at all.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let folder = folder.path();
    /// use dl_train::{Checkpoint, Checkpoints};
    /// let checkpoints = Checkpoints::in_folder(folder);
    /// assert!(checkpoints.latest()?.is_none());
    /// checkpoints.save(1, &Checkpoint::new())?;
    /// std::fs::write(checkpoints.path(2), "what a broken disk made of it").unwrap();
    ///
    /// let latest = checkpoints.latest()?.unwrap();
    /// assert_eq!((latest.step, latest.skipped.len()), (1, 1));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the folder cannot be read, or there are checkpoints and none of them can be read.
    pub fn latest(&self) -> Result<Option<Latest>> {
        let mut skipped: Vec<Error> = Vec::new();
        for step in self.steps()?.into_iter().rev() {
            match Checkpoint::load(self.path(step)) {
                Ok(saved) => return Ok(Some(Latest { step, saved, skipped })),
                Err(error) => skipped.push(error),
            }
        }
        match skipped.first() {
            Some(newest) => Err(self.fault(Error::invalid(format!(
                "none of its {} checkpoints can be read; the newest: {}",
                skipped.len(),
                shortened(newest)
            )))),
            None => Ok(None),
        }
    }

    /// Removes what is older than the last ones up to this step, and unfinished files.
    fn clean(&self, step: u64) -> io::Result<()> {
        let mut steps: Vec<u64> = Vec::new();
        for name in self.names()? {
            if files::is_unfinished(&name, NAME) {
                // what cannot be removed does no harm: the checkpoint itself has been saved
                let _ = files::remove_unfinished(&self.folder.join(&name));
            }
            steps.extend(self.step(&name).filter(|&other| other <= step));
        }
        steps.sort_unstable();
        let old = steps.len().saturating_sub(self.keep);
        steps[..old].iter().try_for_each(|&old| gone_is_fine(fs::remove_file(self.path(old))))
    }

    /// The step in the name of a file, if it is the name of a checkpoint.
    fn step(&self, name: &str) -> Option<u64> {
        let step = name.strip_prefix(NAME)?.strip_suffix(EXTENSION)?.parse().ok()?;
        self.path(step).ends_with(name).then_some(step)
    }

    /// The names of the files.
    fn names(&self) -> io::Result<Vec<String>> {
        let folder: &Path = if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder };
        let files = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            files => files?,
        };
        let names = files.map(|file| Ok(file?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    }

    fn fault(&self, error: Error) -> Error {
        error.context(self.folder.display())
    }
}

/// Somebody else was faster.
fn gone_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
