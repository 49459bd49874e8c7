//! Folders of checkpoints, and atomic writes.

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
fn save_keeps_latest_checkpoints_and_foreign_files() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    // files with similar names must not be touched
    let others = ["checkpoint-7.safetensors", "checkpoint-.safetensors", "notes.txt", ".checkpoint-note"];
    others.iter().for_each(|name| fs::write(folder.path().join(name), "").unwrap());
    let checkpoints = saved(folder.path(), [1, 5, 20, 100, 12_345_678_901])?;
    assert_eq!(checkpoints.steps()?, [20, 100, 12_345_678_901]);
    for other in others {
        assert!(folder.path().join(other).exists(), "{other}");
    }
    assert_eq!(names(folder.path()).len(), 3 + others.len());
    assert_eq!(checkpoints.latest()?.unwrap().saved.count("step")?, 12_345_678_901);
    // saving the same step again replaces it
    saved(folder.path(), [12_345_678_901])?;
    assert_eq!(checkpoints.steps()?, [20, 100, 12_345_678_901]);
    assert!(Checkpoints::in_folder(folder.path()).keep(0).save(1, &Checkpoint::new()).is_err());
    Ok(())
}

#[test]
fn latest_skips_damaged_checkpoints() -> Result<()> {
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

    // the run resumes from the first and replaces the others
    saved(folder.path(), [2])?;
    let latest = checkpoints.latest()?.unwrap();
    assert_eq!((latest.step, latest.skipped.len()), (2, 1));
    saved(folder.path(), [3])?;
    assert!(checkpoints.latest()?.unwrap().skipped.is_empty());

    for step in 1..=3 {
        fs::write(checkpoints.path(step), "nothing").unwrap();
    }
    let error = checkpoints.latest().unwrap_err();
    assert!(error.to_string().contains("none of the 3 checkpoints can be read"), "{error}");
    Ok(())
}

/// A new run in the folder of another one must not replace its checkpoints.
#[test]
fn save_below_latest_step_is_refused() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    saved(folder.path(), [100, 101])?;
    let error = saved(folder.path(), [1]).unwrap_err();
    assert!(error.to_string().contains("there is a checkpoint of step 101"), "{error}");
    assert_eq!(names(folder.path()).len(), 2);
    Ok(())
}

/// Unfinished files of a killed run are removed; files that are being written are not.
#[test]
fn save_removes_unfinished_files_unless_locked() -> Result<()> {
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

/// A failed write must leave the old file, and no temporary file.
#[test]
fn failed_write_leaves_no_files() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let net = [Weight::new(1.0_f64)];
    // a folder with the name of the file
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

/// A write through a symbolic link replaces the target of the link and keeps its permissions.
#[test]
#[cfg(unix)]
fn write_through_symlink_replaces_target() -> Result<()> {
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
    // a link to a file that does not exist yet
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

/// Concurrent writes of one file must not disturb each other.
#[test]
fn concurrent_writes_of_one_file_succeed() {
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

/// A leftover that cannot be removed, such as a folder, must not fail the save.
#[test]
fn save_ignores_leftovers_it_cannot_remove() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".checkpoint-1.safetensors.0.tmp")).unwrap();
    let checkpoints = Checkpoints::in_folder(folder.path());
    checkpoints.save(2, &Checkpoint::new())?;
    assert!(checkpoints.path(2).exists());
    Ok(())
}
