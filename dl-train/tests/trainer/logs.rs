//! Logs: rows retained on resume, and files that must not be touched.

use dl_core::{Error, Result, Weight};
use dl_optim::Sgd;
use dl_train::{Callback, Checkpoints, Log, Outcome, Record, TensorBoard, Trainer};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

fn run<'a>(with: impl FnOnce(Trainer<'a, Sgd>) -> Trainer<'a, Sgd>) -> Result<Outcome> {
    let w = Weight::new(1.0_f64);
    with(Trainer::new(&Sgd::new(0.25), 2)).run(|_| Ok([Ok(()), Ok(())]), |()| &w * &w)
}

/// A run that fails between the row of an epoch and the checkpoint after it must not log the row
/// twice.
#[test]
fn resumed_run_writes_each_row_once() -> Result<()> {
    struct Fails(bool);

    impl Callback for Fails {
        fn epoch(&mut self, _: &Record) -> Result<ControlFlow<()>> {
            if self.0 { Err(Error::invalid("no more")) } else { Ok(ControlFlow::Continue(())) }
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let part = |epochs, fails| -> Result<Outcome> {
        let w = Weight::new(1.0_f64);
        let trainer = Trainer::new(&Sgd::new(0.25), epochs).checkpoints(&Checkpoints::in_folder(path("run")), &w);
        let trainer =
            trainer.every(1).callback(Log::csv(path("epochs.csv"))).callback(Log::jsonl(path("epochs.jsonl")));
        let trainer = trainer.callback(Log::csv(path("steps.csv")).each_step()).callback(Fails(fails));
        trainer.run(|_| Ok([Ok(()), Ok(())]), |()| &w * &w)
    };
    part(1, false)?;
    assert!(part(2, true).is_err());
    part(2, false)?;
    let read = |name| fs::read_to_string(path(name)).unwrap();
    assert_eq!(read("epochs.csv"), "step,epoch,loss\n2,0,0.625\n4,1,0.0390625\n");
    assert_eq!(read("epochs.jsonl").lines().count(), 2);
    assert_eq!(read("steps.csv").lines().map(|line| &line[..1]).collect::<String>(), "s1234");
    Ok(())
}

/// A new run in the same folder must not add a second curve.
#[test]
fn tensorboard_new_run_discards_earlier_steps() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        run(|trainer| trainer.callback(TensorBoard::in_folder(folder.path())))?;
    }
    for file in fs::read_dir(folder.path()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        // a session start event at step 1
        assert!(bytes.windows(6).any(|bytes| bytes == [2 << 3, 1, 7 << 3 | 2, 2, 1 << 3, 1]));
    }
    Ok(())
}

/// A killed program may leave an unfinished line, even part of a UTF-8 character.
#[test]
fn log_discards_unfinished_line() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    for unfinished in [&b"{\"step\":7,\"\xcf"[..], b"{\"st", b"{\"step\":7,\"epoch\":0,\"loss\":1}", b""] {
        fs::write(&path, unfinished).unwrap();
        run(|trainer| trainer.callback(Log::jsonl(&path)))?;
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
        // also after complete lines
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole, unfinished].concat()).unwrap();
        run(|trainer| trainer.callback(Log::jsonl(&path)))?;
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
    for unfinished in ["step,epo", "step,epoch,loss", ""] {
        fs::write(&path, unfinished).unwrap();
        run(|trainer| trainer.callback(Log::csv(&path)))?;
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
    }
    Ok(())
}

#[test]
fn file_that_is_not_a_log_is_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    for foreign in
        [&b"1,2,3"[..], b"no line ends here", b"\xff\xfe\n1,2\n", b"step,epoch,loss\n1,x,2\n", b"step,epoch\n1\n"]
    {
        fs::write(&path, foreign).unwrap();
        let error = run(|trainer| trainer.callback(Log::csv(&path))).unwrap_err().to_string();
        assert!(error.contains("the file is not a log of a run, so it is left unchanged"), "{error}");
        assert!(run(|trainer| trainer.callback(Log::jsonl(&path))).is_err());
        assert_eq!(fs::read(&path).unwrap(), foreign);
    }
}

#[test]
fn unwritable_log_path_is_error_and_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let message = |path: &Path| {
        let error = run(|trainer| trainer.callback(Log::csv(path))).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
        error
    };
    assert!(message(folder.path()).contains("not a regular file; it is left unchanged"));
    message(&file.join("log.csv"));
    message(Path::new(""));
    #[cfg(unix)]
    {
        let device = folder.path().join("device");
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        assert!(message(&device).contains("not a regular file; it is left unchanged"));
        assert!(fs::symlink_metadata(&device).unwrap().is_symlink());
        assert!(dl_train::save_weights(&[Weight::new(1.0_f64)], &device).is_err());
    }
}

/// Two logs in one file would each remove the rows of the other.
#[test]
fn second_log_of_open_file_is_refused() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    let both = run(|trainer| trainer.callback(Log::csv(&path)).callback(Log::csv(&path).each_step()));
    assert!(both.unwrap_err().to_string().contains("another log is being written to this file"));
    // the same log may be lent to one run after the other
    let mut log = Log::csv(&path);
    for _ in 0..2 {
        run(|trainer| trainer.callback(&mut log))?;
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
    }
    assert!(run(|trainer| trainer.callback(Log::jsonl(&path))).unwrap_err().to_string().contains("log.csv"));
    Ok(())
}

/// A closed log must not keep the file locked, although child processes spawned meanwhile briefly
/// hold its handle.
#[test]
#[cfg(unix)]
fn closed_log_releases_lock_despite_child_processes() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = tempfile::tempdir().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert!(std::process::Command::new("true").status().unwrap().success());
            }
        });
        let path = folder.path().join("log.csv");
        let failed = (0..200).find_map(|_| run(|trainer| trainer.callback(Log::csv(&path))).err());
        over.store(true, Ordering::Relaxed);
        assert!(failed.is_none(), "{failed:?}");
    });
}

/// The names of the fixed columns are reserved.
#[test]
fn record_names_step_and_epoch_are_reserved() {
    for name in ["step", "epoch"] {
        let error = run(|trainer| trainer.validate(|| Ok([(name, 0.5)]))).unwrap_err().to_string();
        assert!(error.contains(&format!("the record already has a number \"{name}\"")), "{error}");
    }
}
