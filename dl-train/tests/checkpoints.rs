//! Folders of checkpoints.

use dl_core::{Result, Weight};
use dl_train::{Checkpoint, Checkpoints, save_weights};
use std::fs::{self, File};
use std::path::Path;

fn saved(folder: &Path, steps: impl IntoIterator<Item = u64>) -> Result<Checkpoints> {
    let checkpoints = Checkpoints::in_folder(folder).keep(3);
    for step in steps {
        checkpoints.save(step, &Checkpoint::new().count("step", step))?;
    }
    Ok(checkpoints)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_last_ones_are_kept() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    // other files are nobody's business, whatever they are called
    let others = ["checkpoint-7.safetensors", "checkpoint-.safetensors", "notes.txt", ".checkpoint-note"];
    others.iter().for_each(|name| fs::write(folder.path().join(name), "").unwrap());
    let checkpoints = saved(folder.path(), [1, 5, 20, 100, 12_345_678_901])?;
    assert_eq!(checkpoints.steps()?, [20, 100, 12_345_678_901]);
    for other in others {
        assert!(folder.path().join(other).exists(), "{other}");
    }
    assert_eq!(names(folder.path()).len(), 3 + others.len());
    assert_eq!(checkpoints.latest()?.unwrap().saved.count("step")?, 12_345_678_901);
    // the same step again
    saved(folder.path(), [12_345_678_901])?;
    assert_eq!(checkpoints.steps()?, [20, 100, 12_345_678_901]);
    assert!(Checkpoints::in_folder(folder.path()).keep(0).save(1, &Checkpoint::new()).is_err());
    Ok(())
}

#[test]
fn a_damaged_one_is_passed_over_and_kept() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = saved(folder.path(), [1, 2, 3])?;
    let (second, third) = (checkpoints.path(2), checkpoints.path(3));
    let mut bytes = fs::read(&second).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&second, bytes).unwrap();
    File::options().write(true).open(&third).unwrap().set_len(100).unwrap();

    let latest = checkpoints.latest()?.unwrap();
    assert_eq!(latest.step, 1);
    let [newer, older] = &latest.skipped[..] else { panic!("{:?}", latest.skipped) };
    assert!(newer.to_string().starts_with(&third.display().to_string()), "{newer}");
    assert!(older.to_string().contains("the file is damaged"), "{older}");

    // the run goes on from the first, and overwrites the others
    saved(folder.path(), [2])?;
    let latest = checkpoints.latest()?.unwrap();
    assert_eq!((latest.step, latest.skipped.len()), (2, 1));
    saved(folder.path(), [3])?;
    assert!(checkpoints.latest()?.unwrap().skipped.is_empty());

    for step in 1..=3 {
        fs::write(checkpoints.path(step), "nothing").unwrap();
    }
    let error = checkpoints.latest().unwrap_err();
    assert!(error.to_string().contains("none of its 3 checkpoints can be read"), "{error}");
    Ok(())
}

/// A run that begins anew in the folder of another one takes nothing from it.
#[test]
fn a_later_step_of_another_run() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    saved(folder.path(), [100, 101])?;
    let error = saved(folder.path(), [1]).unwrap_err();
    assert!(error.to_string().contains("there is a checkpoint of step 101"), "{error}");
    assert_eq!(names(folder.path()).len(), 2);
    Ok(())
}

/// What a killed run has left is removed; what somebody is writing is not.
#[test]
fn unfinished_files() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let [left, used] = [1, 2].map(|step| folder.path().join(format!(".checkpoint-{step}.safetensors.0.tmp")));
    fs::write(&left, "half of a file").unwrap();
    let writer = File::create(&used).unwrap();
    writer.lock().unwrap();
    saved(folder.path(), [1])?;
    assert!(!left.exists() && used.exists());
    drop(writer);
    saved(folder.path(), [2])?;
    assert!(!used.exists());
    Ok(())
}

/// A write that fails leaves the old file, and nothing beside it.
#[test]
fn a_write_that_fails() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let net = [Weight::new(1.0_f64)];
    // a folder is in the way
    let path = folder.path().join("net.safetensors");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("inside"), "").unwrap();
    let error = save_weights(&net, &path).unwrap_err();
    assert!(error.to_string().contains("net.safetensors: not written"), "{error}");
    assert_eq!(names(folder.path()), ["net.safetensors"]);
    assert!(save_weights(&net, folder.path().join("nowhere/net.safetensors")).is_err());
    assert!(save_weights(&net, "/").is_err());
    Ok(())
}

/// A file is written where a symbolic link leads, and keeps its permissions.
#[test]
#[cfg(unix)]
fn what_a_link_leads_to() -> Result<()> {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let net = [Weight::new(1.0_f64)];
    fs::create_dir(at("disk")).unwrap();
    save_weights(&net, at("disk/net.safetensors"))?;
    fs::set_permissions(at("disk/net.safetensors"), Permissions::from_mode(0o640)).unwrap();
    symlink("disk/net.safetensors", at("latest")).unwrap();
    symlink("latest", at("net.safetensors")).unwrap();
    // one leads to a file that is not there yet
    symlink("disk/new.safetensors", at("new.safetensors")).unwrap();

    net[0].set(2.0);
    for name in ["net.safetensors", "new.safetensors"] {
        save_weights(&net, at(name))?;
        assert!(at(name).is_symlink());
        let read = [Weight::new(0.0_f64)];
        dl_train::load_weights(&read, at("disk").join(name))?;
        assert_eq!(read[0].value(), 2.0);
    }
    assert_eq!(fs::metadata(at("disk/net.safetensors")).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(names(&at("disk")), ["net.safetensors", "new.safetensors"]);

    symlink("round", at("round")).unwrap();
    let error = save_weights(&net, at("round")).unwrap_err();
    assert!(error.to_string().contains("round: not written"), "{error}");
    Ok(())
}

/// Threads that write the same file do not get in each other's way.
#[test]
fn two_writers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors");
    std::thread::scope(|scope| {
        for number in 0..4 {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..20 {
                    save_weights(&vec![Weight::new(f64::from(number)); 1], path).unwrap();
                }
            });
        }
    });
    let net = [Weight::new(-1.0_f64)];
    dl_train::load_weights(&net, &path).unwrap();
    assert!((0.0..4.0).contains(&net[0].value()));
    assert_eq!(names(folder.path()), ["net.safetensors"]);
}

/// What is left over and cannot be removed, a folder for instance, is no reason to give up a run:
/// the checkpoint has been saved.
#[test]
fn rubbish_that_stays() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".checkpoint-1.safetensors.0.tmp")).unwrap();
    let checkpoints = Checkpoints::in_folder(folder.path());
    checkpoints.save(2, &Checkpoint::new())?;
    assert!(checkpoints.path(2).exists());
    Ok(())
}
