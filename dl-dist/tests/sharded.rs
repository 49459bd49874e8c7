//! Checkpoints to which each rank writes what it has.

use super::support::{Expert, bits_of};
use dl_core::{Layer, Result};
use dl_dist::{Cluster, Placed};
use dl_nd::{Nd, init, ops::*};
use dl_nn::{Block, Linear};
use dl_optim::schedule::Cosine;
use dl_optim::{Adam, AdamW, OptimizerExt};
use dl_train::{Checkpoint, Checkpoints, EarlyStopping, Trainer};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

#[derive(dl_macros::Module)]
#[module(crate = dl_core)]
struct Net {
    input: Linear,
    experts: Vec<Placed<Expert>>,
    output: Linear,
}

impl Net {
    fn new(cluster: &Cluster) -> Result<Net> {
        let rng = &mut init::rng(8);
        let input = Linear::new(6, 6, rng)?;
        let experts = cluster.spread(0..5, |number| Ok(Expert { dropout: 0.2, ..Expert::new(number)? }))?;
        Ok(Net { input, experts, output: Linear::new(6, 6, rng)? })
    }

    /// Needs a seed. No batch uses the last expert.
    fn loss(&self, batch: usize) -> Layer<f32> {
        let x = Nd::from([[1.0, -0.5, 0.25, 2.0, -1.0, 0.1 * batch as f32]]);
        self.output.of(self.experts[batch % 4].of(&self.input.of(&x).relu())).square().mean()
    }
}

const BATCHES: usize = 7;

/// Trains for so many epochs, from the latest checkpoint in the folder.
fn train(cluster: &Cluster, folder: &Path, epochs: u64) -> Result<Vec<u32>> {
    let (net, optimizer) = (Net::new(cluster)?, AdamW::new(Cosine::new(0.02, 12)).clip_norm(0.5));
    let mut best = EarlyStopping::on("loss").patience(9).restoring(&net);
    Trainer::new(&optimizer, epochs)
        .across(cluster, 3, &net)
        .checkpoints(&Checkpoints::in_folder(folder), &net)
        .every(2)
        .callback(&mut best)
        .run(
            |epoch| Ok((0..BATCHES).map(move |batch| Ok(BATCHES * epoch as usize + batch))),
            |batch| net.loss(batch),
        )?;
    Ok(bits_of(&net))
}

fn copied(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).unwrap();
    files(from).into_iter().for_each(|file| copy(&file, &to.join(file.file_name().unwrap())));
    Ok(())
}

fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap();
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

fn names(folder: &Path) -> Vec<String> {
    files(folder).into_iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn run_resumes_on_other_number_of_ranks_with_same_bits() -> Result<()> {
    let all = tempfile::tempdir().unwrap();
    let folder = |name: &str| all.path().join(name);
    let whole = Cluster::run_on(1, |cluster| train(cluster, &folder("whole"), 4))?.swap_remove(0);
    Cluster::run_on(3, |cluster| train(cluster, &folder("first"), 2))?;
    for ranks in [1, 2, 3, 4] {
        let resumed = folder(&format!("on {ranks}"));
        copied(&folder("first"), &resumed)?;
        for ended in Cluster::run_on(ranks, |cluster| train(cluster, &resumed, 4))? {
            assert!(ended == whole, "{ranks} ranks");
        }
        // One ordinary file has the same bytes, however many ranks have written the checkpoint.
        let (one, other) = (folder("one"), folder("other"));
        Checkpoints::in_folder(folder("whole")).latest()?.unwrap().saved.save(&one)?;
        Checkpoints::in_folder(resumed).latest()?.unwrap().saved.save(&other)?;
        assert!(fs::read(&one).unwrap() == fs::read(&other).unwrap(), "{ranks} ranks");
        let net = Cluster::run_on(1, |cluster| {
            let net = Net::new(cluster)?;
            Checkpoint::load(&other)?.restore().module("net", &net).apply()?;
            Ok(bits_of(&net))
        })?;
        assert_eq!(net[0], whole);
    }
    Ok(())
}

#[test]
fn each_rank_writes_what_it_has_and_old_files_are_removed() -> Result<()> {
    let all = tempfile::tempdir().unwrap();
    let folder = all.path().join("run");
    Cluster::run_on(2, |cluster| {
        let net = Net::new(cluster)?;
        let checkpoints = Checkpoints::in_folder(&folder).keep(2).across(cluster, &net);
        for step in 1..=3 {
            checkpoints.save(step, |checkpoint| checkpoint.module("net", &net).number("best", 0.5))?;
        }
        Ok(())
    })?;
    let of_step = |step: u64| {
        ["-00001-of-00002.safetensors", "-00002-of-00002.safetensors", ".safetensors.index.json"]
            .map(|end| format!("checkpoint-{step:010}{end}"))
    };
    assert_eq!(names(&folder), [of_step(2), of_step(3)].concat());
    assert_eq!(Checkpoints::in_folder(&folder).steps()?, [2, 3]);

    // Another number of ranks replaces all files of the step.
    Cluster::run_on(3, |cluster| {
        let net = Net::new(cluster)?;
        Checkpoints::in_folder(&folder).across(cluster, &net).save(3, |checkpoint| checkpoint.module("net", &net))
    })?;
    assert_eq!(names(&folder).iter().filter(|name| name.contains("-of-00003")).count(), 3);
    assert_eq!(names(&folder).len(), 3 + 4);
    let part = |rank: usize| fs::read(folder.join(format!("checkpoint-0000000003-0000{rank}-of-00003.safetensors")));
    let has = |rank, path: &str| {
        let bytes = part(rank).unwrap();
        bytes.windows(path.len()).any(|window| window == path.as_bytes())
    };
    for expert in 0..5 {
        let path = format!("module/net/experts.{expert}.hidden.weight");
        assert_eq!([1, 2, 3].map(|rank| has(rank, &path)), [0, 1, 2].map(|rank| expert % 3 == rank), "{path}");
    }
    // One process saves the same step.
    Checkpoints::in_folder(&folder).keep(1).save(3, &Checkpoint::new())?;
    assert_eq!(names(&folder), ["checkpoint-0000000003.safetensors"]);
    Ok(())
}

/// A folder with the checkpoints of steps 1 and 2 of three ranks.
fn saved(folder: &Path) -> Result<()> {
    Cluster::run_on(3, |cluster| {
        let (net, adam) = (Net::new(cluster)?, Adam::new(0.01));
        let checkpoints = Checkpoints::in_folder(folder).across(cluster, &net);
        for step in 1..=2 {
            cluster.mean(4, |part| net.loss(part)).seed(step).train(&net, &adam)?;
            checkpoints.save(step, |checkpoint| {
                checkpoint.module("net", &net).optimizer("adam", &adam, &net).count("step", step)
            })?;
        }
        Ok(())
    })
    .map(drop)
}

/// The error of each of two ranks that load the latest checkpoint. Their weights must not change.
fn errors(folder: &Path) -> Vec<String> {
    let errors = Mutex::new(Vec::new());
    let ended = Cluster::run_on(2, |cluster| {
        let (net, adam) = (Net::new(cluster)?, Adam::new(0.01));
        let before = bits_of(&net);
        let checkpoints = Checkpoints::in_folder(folder).across(cluster, &net);
        let loaded = checkpoints.latest().and_then(|latest| {
            let latest = latest.expect("there are checkpoints");
            checkpoints.apply(latest.saved.restore().module("net", &net).optimizer("adam", &adam, &net))
        });
        let error = loaded.expect_err("it is damaged").to_string();
        assert_eq!(bits_of(&net), before);
        cluster.compare(&net)?;
        errors.lock().unwrap().push(error);
        Ok(())
    });
    ended.unwrap();
    errors.into_inner().unwrap()
}

#[track_caller]
fn assert_refused(folder: &Path, expected: &str) {
    let errors = errors(folder);
    assert!(errors.len() == 2 && errors.iter().all(|error| error.contains(expected)), "{expected}: {errors:?}");
}

#[test]
fn missing_foreign_or_damaged_part_is_error_on_all_ranks() -> Result<()> {
    let all = tempfile::tempdir().unwrap();
    let good = all.path().join("good");
    saved(&good)?;
    let part = |step: u64, rank: usize| format!("checkpoint-{step:010}-0000{}-of-00003.safetensors", rank + 1);
    let manifest = |step: u64| format!("checkpoint-{step:010}.safetensors.index.json");
    let with = |change: &dyn Fn(&Path)| {
        let folder = all.path().join("changed");
        drop(fs::remove_dir_all(&folder));
        copied(&good, &folder).unwrap();
        // Without it there is no checkpoint of step 1, but its parts are there.
        fs::remove_file(folder.join(manifest(1))).unwrap();
        change(&folder);
        folder
    };
    for rank in 0..3 {
        assert_refused(&with(&|folder| fs::remove_file(folder.join(part(2, rank))).unwrap()), "No such file");
        let other_step = |folder: &Path| copy(&folder.join(part(1, rank)), &folder.join(part(2, rank)));
        assert_refused(&with(&other_step), "it is a part of the checkpoint of step 1, not 2");
        let other = (rank + 1) % 3;
        let other_rank = |folder: &Path| copy(&folder.join(part(2, other)), &folder.join(part(2, rank)));
        assert_refused(&with(&other_rank), &format!("it is the part of rank {other} of 3, not of {rank} of 3"));
    }
    // Steps of another run with the same names.
    let other_run = all.path().join("other run");
    Cluster::run_on(3, |cluster| {
        let net = Net::new(cluster)?;
        Checkpoints::in_folder(&other_run).across(cluster, &net).save(2, |checkpoint| checkpoint.module("net", &net))
    })?;
    let other = |folder: &Path| copy(&other_run.join(part(2, 1)), &folder.join(part(2, 1)));
    assert_refused(&with(&other), "and the manifest says");

    for file in [part(2, 0), part(2, 2), manifest(2)] {
        let len = fs::read(good.join(&file)).unwrap().len();
        for place in [0, 20, len / 3, len / 2, len - 2] {
            let damage = |folder: &Path| flip(&folder.join(&file), place);
            assert_refused(&with(&damage), "none of the 1 checkpoints can be read");
        }
        let cut = |folder: &Path| {
            let bytes = fs::read(folder.join(&file)).unwrap();
            fs::write(folder.join(&file), &bytes[..len - 1]).unwrap();
        };
        assert_refused(&with(&cut), "none of the 1 checkpoints can be read");
    }
    Ok(())
}

fn flip(path: &Path, place: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[place] ^= 4;
    fs::write(path, bytes).unwrap();
}

/// Each byte of each file is protected.
#[test]
fn damage_of_any_byte_is_noticed() -> Result<()> {
    let all = tempfile::tempdir().unwrap();
    let folder = all.path().join("run");
    saved(&folder)?;
    let checkpoints = Checkpoints::in_folder(&folder);
    let every = if std::env::var_os("DL_SWEEP").is_some() { 1 } else { 37 };
    for file in files(&folder).into_iter().filter(|file| file.to_string_lossy().contains("0000000002")) {
        let good = fs::read(&file).unwrap();
        for place in (0..good.len()).step_by(every) {
            let mut damaged = good.clone();
            damaged[place] ^= 1 << (place % 8);
            fs::write(&file, damaged).unwrap();
            // The one before is taken.
            let latest = checkpoints.latest()?.unwrap();
            assert_eq!((latest.step, latest.skipped.len()), (1, 1), "byte {place} of {}", file.display());
        }
        fs::write(&file, good).unwrap();
    }
    assert_eq!(checkpoints.latest()?.unwrap().step, 2);
    Ok(())
}

#[test]
fn damaged_checkpoint_is_skipped_on_all_ranks() -> Result<()> {
    let all = tempfile::tempdir().unwrap();
    saved(all.path())?;
    flip(&all.path().join("checkpoint-0000000002-00003-of-00003.safetensors"), 100);
    let latest = Cluster::run_on(2, |cluster| {
        let net = Net::new(cluster)?;
        let latest = Checkpoints::in_folder(all.path()).across(cluster, &net).latest()?.expect("one is good");
        Ok((latest.step, latest.skipped.len(), latest.saved.count("step")?))
    })?;
    assert_eq!(latest, [(1, 1, 1); 2]);
    Ok(())
}

#[test]
fn checkpoint_of_other_module_is_error_on_all_ranks() -> Result<()> {
    let all = tempfile::tempdir().unwrap();
    saved(all.path())?;
    let ended = Mutex::new(Vec::new());
    Cluster::run_on(2, |cluster| {
        // A weight more, and an expert less.
        let (net, extra) = (Net::new(cluster)?, Linear::<f32>::new(2, 2, &mut init::rng(1))?);
        let module = ((&net.input, &net.output), &extra, net.experts[..4].to_vec());
        let before = bits_of(&module);
        let checkpoints = Checkpoints::in_folder(all.path()).across(cluster, &module);
        let latest = checkpoints.latest()?.expect("one is good");
        let error = checkpoints.apply(latest.saved.restore().module("net", &module)).unwrap_err().to_string();
        assert_eq!(bits_of(&module), before);
        ended.lock().unwrap().push(error);
        Ok(())
    })?;
    let ended = ended.into_inner().unwrap();
    assert!(ended.len() == 2 && ended.iter().all(|error| error.contains("missing in the file")), "{ended:?}");
    Ok(())
}

#[test]
fn ranks_that_see_other_folders_get_errors() -> Result<()> {
    let all = tempfile::tempdir().unwrap();
    let (save, load) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    saved(&all.path().join("0"))?;
    let ended = Cluster::run_on(2, |cluster| {
        let net = Net::new(cluster)?;
        let own = Checkpoints::in_folder(all.path().join(cluster.rank().to_string()));
        let own = own.across(cluster, &net);
        let loaded = own.latest().unwrap_err().to_string();
        load.lock().unwrap().push(loaded);
        let saved = own.save(3, |checkpoint| checkpoint.module("net", &net)).unwrap_err().to_string();
        save.lock().unwrap().push(saved);
        Ok(())
    });
    ended?;
    assert!(load.into_inner().unwrap().iter().all(|error| error.contains("rank 1") && error.contains("No such file")));
    assert!(save.into_inner().unwrap().iter().all(|error| error.contains("No such file")));
    assert_eq!(Checkpoints::in_folder(all.path().join("0")).steps()?, [1, 2]);
    Ok(())
}

/// A rank that is killed before the manifest is written leaves no checkpoint.
#[test]
fn parts_without_manifest_are_no_checkpoint() -> Result<()> {
    let all = tempfile::tempdir().unwrap();
    saved(all.path())?;
    fs::remove_file(all.path().join("checkpoint-0000000002.safetensors.index.json")).unwrap();
    let checkpoints = Checkpoints::in_folder(all.path());
    assert_eq!((checkpoints.steps()?, checkpoints.latest()?.unwrap().step), (vec![1], 1));
    let alone = all.path().join("checkpoint-0000000002-00002-of-00003.safetensors");
    let error = Checkpoint::load(alone).unwrap_err().to_string();
    assert!(error.contains("this is the part of rank 1 of 3 of a checkpoint of step 2"), "{error}");
    // The next one removes them.
    Cluster::run_on(2, |cluster| {
        let net = Net::new(cluster)?;
        Checkpoints::in_folder(all.path()).across(cluster, &net).save(3, |checkpoint| checkpoint.module("net", &net))
    })?;
    assert!(!names(all.path()).iter().any(|name| name.contains("0000000002")), "{:?}", names(all.path()));
    Ok(())
}
