//! Checkpoints of several ranks: a file of each rank, and a manifest.

use crate::checkpoint::Checkpoint;
use crate::checkpoints::{Checkpoints, Latest};
use crate::file::{FilePart, Manifest, Written};
use crate::report::Report;
use crate::saved::Restore;
use crate::share::Share;
use dl_core::parts::{Ranks, Wire};
use dl_core::{Error, ErrorData, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Checkpoints to which each rank of a program writes its part: see
/// [`Checkpoints::across`]. All ranks must call the functions at the same places of the program, and
/// must see the same folder.
///
/// A checkpoint is a file of each rank, and a manifest, which is written last. It names the step, and
/// the size, the checksum and the tensors of each file. Without it there is no checkpoint. Each
/// weight and buffer is in one file, with the state of the optimizer for it: a placed module in that
/// of its owner, replicas in that of one rank, balanced by size.
///
/// It can be loaded on any number of ranks, also by [`Checkpoints::latest`] in one process. Each rank
/// then takes its part. [`Saved::save`](crate::Saved::save) makes one ordinary file of it.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let (folder, cluster) = (folder.path().join("run"), &dl_core::parts::OneRank);
/// use dl_core::Weight;
/// use dl_train::{Checkpoints, Sharded};
/// // in `Cluster::run(|cluster| …)`
/// let net = [Weight::new(3.0_f64)];
/// let checkpoints: Sharded<'_> = Checkpoints::in_folder(&folder).across(cluster, &net);
/// checkpoints.save(7, |checkpoint| checkpoint.module("net", &net))?;
/// let latest = checkpoints.latest()?.unwrap();
/// net[0].set(0.0);
/// checkpoints.apply(latest.saved.restore().module("net", &net))?;
/// assert_eq!((latest.step, net[0].value()), (7, 3.0));
/// # dl_core::Result::Ok(())
/// ```
pub struct Sharded<'a> {
    checkpoints: Checkpoints,
    ranks: &'a dyn Ranks,
    share: Arc<Share>,
}

/// The message of a rank that has written its file: the size, the checksum and the tensors.
type WrittenPart = (u64, u32, Vec<String>);

/// The message of a rank that has opened a checkpoint: its error, or the checksum of the contents.
type Opened = (Option<ErrorData>, Option<u32>);

impl<'a> Sharded<'a> {
    pub(crate) fn new(checkpoints: &Checkpoints, ranks: &'a dyn Ranks, share: Share) -> Self {
        Sharded { checkpoints: checkpoints.clone(), ranks, share: Arc::new(share) }
    }

    /// For an optimizer with its state [on one rank each](crate::Trainer::shard_state): each rank
    /// restores the state for its own weights only.
    ///
    /// ```
    /// # let cluster = &dl_core::parts::OneRank;
    /// let net = [dl_core::Weight::new(3.0_f64)];
    /// let checkpoints = dl_train::Checkpoints::in_folder("run").across(cluster, &net).shard_state();
    /// ```
    #[must_use]
    pub fn shard_state(self) -> Self {
        Sharded { share: Arc::new(self.share.by_owner()), ..self }
    }

    /// An empty checkpoint, which takes what this rank saves.
    pub(crate) fn empty(&self) -> Checkpoint {
        Checkpoint::of_share(self.share.clone())
    }

    /// Saves a checkpoint after `step`, to which `contents` adds everything. Then removes the oldest
    /// checkpoints.
    ///
    /// # Errors
    /// On all ranks, if one of them fails: as [`Checkpoints::save`]; when the ranks do not see the
    /// same folder. Then the checkpoints of other steps are as before.
    pub fn save(&self, step: u64, contents: impl FnOnce(Checkpoint) -> Checkpoint) -> Result<PathBuf> {
        let (rank, ranks) = (self.ranks.rank(), self.ranks.size());
        self.first(|| self.checkpoints.begin(step))?;
        let checkpoint = contents(self.empty());
        let path = |rank| self.checkpoints.part_path(step, rank, ranks);
        let written = checkpoint.save_part(&path(rank), FilePart { step, rank, ranks });
        let written = written.map(|Written { bytes, crc32 }| (bytes, crc32, checkpoint.names()).to_bytes());
        let all = self.ranks.gather(written)?;
        let manifest = self.checkpoints.manifest_path(step);
        self.first(|| {
            let (mut content, mut files) = (Manifest::new(step), BTreeMap::new());
            for (rank, bytes) in all.iter().enumerate() {
                let (path, (bytes, crc32, tensors)) = (path(rank), WrittenPart::from_bytes(bytes)?);
                let found = path.metadata().map_err(|error| Error::other(error).context(path.display()))?.len();
                if found != bytes {
                    let text = format!("{found} bytes, but rank {rank} has written {bytes}: not the same folder?");
                    return Err(Error::invalid(text).context(path.display()));
                }
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                for tensor in tensors {
                    if let Some(other) = files.insert(tensor.clone(), name.clone()) {
                        return Err(Error::invalid(format!("{tensor:?} is in {other:?} and in {name:?}")));
                    }
                }
                content.add(name, Written { bytes, crc32 });
            }
            content.write(&manifest, files)?;
            self.checkpoints.clean(step, Some(ranks))
        })?;
        Ok(manifest)
    }

    /// The newest checkpoint that all ranks can read, or `None` if the folder has no checkpoints.
    ///
    /// # Errors
    /// On all ranks, when the folder cannot be read; it has checkpoints, and none that all ranks can
    /// read; the ranks do not see the same folder.
    pub fn latest(&self) -> Result<Option<Latest>> {
        let steps = self.ranks.gather(self.checkpoints.steps().map(|steps| steps.to_bytes()))?;
        let mut skipped: Vec<Error> = Vec::new();
        // Those of rank 0 are opened by all.
        for step in Vec::<u64>::from_bytes(&steps[0])?.into_iter().rev() {
            let opened = self.checkpoints.open(step);
            let mine: Opened = match &opened {
                Ok(saved) => (None, saved.crc32()),
                Err(error) => (Some(error.data()), None),
            };
            let all = self.ranks.gather(Ok(mine.to_bytes()))?;
            let all = all.iter().map(|bytes| Opened::from_bytes(bytes)).collect::<Result<Vec<Opened>>>()?;
            let failed = all.iter().enumerate().find_map(|(rank, (error, crc32))| match error {
                Some(error) => Some((rank, error.clone().into_error())),
                None if *crc32 != all[0].1 => Some((
                    rank,
                    Error::invalid(format!(
                        "it reads another checkpoint of step {step} than rank 0: not the same folder?"
                    )),
                )),
                None => None,
            });
            match (failed, opened) {
                (None, Ok(saved)) => {
                    return Ok(Some(Latest { step, saved: saved.with_share(self.share.clone()), skipped }));
                }
                (failed, _) => {
                    skipped.extend(failed.map(|(rank, error)| error.context(format_args!("rank {rank}"))));
                }
            }
        }
        self.checkpoints.none_readable(&skipped)
    }

    /// Sets all values and optimizer states, on all ranks or on none.
    ///
    /// # Errors
    /// On all ranks, as [`Restore::apply`] on one of them. Then nothing has changed.
    #[track_caller]
    pub fn apply(&self, restore: Restore<'_>) -> Result<Report> {
        let checked = restore.checked();
        self.ranks.gather(checked.as_ref().map(|_| Vec::new()).map_err(Error::clone))?;
        checked?.apply()
    }

    /// Calls a function on rank 0. All ranks get its error.
    fn first(&self, run: impl FnOnce() -> Result<()>) -> Result<()> {
        let ran = if self.ranks.rank() == 0 { run() } else { Ok(()) };
        self.ranks.gather(ran.map(|()| Vec::new())).map(drop)
    }
}
