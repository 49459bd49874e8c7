//! Logs: what they keep of what they find, and what they do not touch.

use dl_core::{Error, Result, Sgd, Weight};
use dl_train::{Callback, Checkpoints, Log, Outcome, Record, TensorBoard, Trainer};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

fn run<'a>(with: impl FnOnce(Trainer<'a, Sgd>) -> Trainer<'a, Sgd>) -> Result<Outcome> {
    let w = Weight::new(1.0_f64);
    with(Trainer::new(&Sgd::new(0.25), 2)).run(|_| Ok([Ok(()), Ok(())]), |()| &w * &w)
}

/// A run that ends between the row of an epoch and the checkpoint after it.
#[test]
fn a_row_comes_once() -> Result<()> {
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

/// A run that begins anew in a folder draws no second curve beside the first one.
#[test]
fn tensorboard_forgets_what_is_void() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        run(|trainer| trainer.callback(TensorBoard::in_folder(folder.path())))?;
    }
    for file in fs::read_dir(folder.path()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        // at step 1, a session starts
        assert!(bytes.windows(6).any(|bytes| bytes == [2 << 3, 1, 7 << 3 | 2, 2, 1 << 3, 1]));
    }
    Ok(())
}

/// A program that is killed may leave half a letter.
#[test]
fn half_a_line() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    for unfinished in [&b"{\"step\":7,\"\xcf"[..], b"{\"st", b"{\"step\":7,\"epoch\":0,\"loss\":1}", b""] {
        fs::write(&path, unfinished).unwrap();
        run(|trainer| trainer.callback(Log::jsonl(&path)))?;
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
        // behind whole lines, too
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
fn what_is_somebody_elses_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    for theirs in
        [&b"1,2,3"[..], b"no line ends here", b"\xff\xfe\n1,2\n", b"step,epoch,loss\n1,x,2\n", b"step,epoch\n1\n"]
    {
        fs::write(&path, theirs).unwrap();
        let error = run(|trainer| trainer.callback(Log::csv(&path))).unwrap_err().to_string();
        assert!(error.contains("this is not a log of a run, and stays as it is"), "{error}");
        assert!(run(|trainer| trainer.callback(Log::jsonl(&path))).is_err());
        assert_eq!(fs::read(&path).unwrap(), theirs);
    }
}

#[test]
fn where_nothing_can_be_written() {
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

/// Two logs in one file would each take the lines of the other for void.
#[test]
fn one_log_in_a_file() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    let both = run(|trainer| trainer.callback(Log::csv(&path)).callback(Log::csv(&path).each_step()));
    assert!(both.unwrap_err().to_string().contains("another log is being written to this file"));
    // one that is lent to one run after the other is no other log
    let mut log = Log::csv(&path);
    for _ in 0..2 {
        run(|trainer| trainer.callback(&mut log))?;
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
    }
    assert!(run(|trainer| trainer.callback(Log::jsonl(&path))).unwrap_err().to_string().contains("log.csv"));
    Ok(())
}

/// A log that is over is over, although programs that were started meanwhile have had its file for
/// a moment.
#[test]
#[cfg(unix)]
fn the_next_log_in_a_file() {
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

/// The columns that are there anyway.
#[test]
fn names_that_are_taken() {
    for name in ["step", "epoch"] {
        let error = run(|trainer| trainer.validate(|| Ok([(name, 0.5)]))).unwrap_err().to_string();
        assert!(error.contains(&format!("the number \"{name}\" is there twice")), "{error}");
    }
}
