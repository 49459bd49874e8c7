//! The program is killed again and again, at random moments.
//! `DL_KILLS=200 cargo test --test all kill::killed` does it as many times.

use super::program::Run;
use dl_core::Result;
use dl_train::{Checkpoint, Checkpoints};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const STEPS: u64 = 40;
const FOLDER: &str = "DL_KILL_TEST_FOLDER";

/// The program that is killed. Without the environment variable this test does nothing.
#[test]
fn child() -> Result<()> {
    match std::env::var_os(FOLDER) {
        Some(folder) => Run::in_folder(Path::new(&folder))?.until(STEPS),
        None => Ok(()),
    }
}

fn start(folder: &Path, threads: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "resume::kill::child"])
        .env(FOLDER, folder)
        .env("RAYON_NUM_THREADS", threads.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn last(folder: &Path) -> Vec<u8> {
    std::fs::read(Checkpoints::in_folder(folder).path(STEPS)).unwrap()
}

/// After every kill the newest checkpoint is readable, and the resumed run ends with the same bits,
/// also with another number of threads.
#[test]
fn killed_run_resumes_bit_identically() -> Result<()> {
    let kills: usize = std::env::var("DL_KILLS").map_or(5, |kills| kills.parse().expect("DL_KILLS is a number"));
    let whole = tempfile::tempdir().unwrap();
    let begin = Instant::now();
    assert!(start(whole.path(), 1).wait().unwrap().success());
    let duration = begin.elapsed();
    let expected = last(whole.path());

    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut killed, mut runs, mut unfinished, mut ended) = (0, 0, 0, true);
    let mut folder = tempfile::tempdir().unwrap();
    while killed < kills || !ended {
        if ended {
            folder = tempfile::tempdir().unwrap();
        }
        let mut child = start(folder.path(), 1 + runs % 2);
        runs += 1;
        if killed < kills {
            std::thread::sleep(duration.mul_f64(rng.random_range(0.0..0.6)));
        } else {
            child.wait().unwrap();
        }
        ended = match child.try_wait().unwrap() {
            Some(status) => {
                assert!(status.success(), "{status}");
                assert!(last(folder.path()) == expected, "run {runs}, after {killed} kills");
                true
            }
            None => {
                child.kill().unwrap();
                assert!(!child.wait().unwrap().success() || last(folder.path()) == expected);
                killed += 1;
                let names = std::fs::read_dir(folder.path()).unwrap();
                unfinished +=
                    names.filter(|name| name.as_ref().unwrap().file_name().as_encoded_bytes()[0] == b'.').count();
                if let Some(latest) = Checkpoints::in_folder(folder.path()).latest()? {
                    assert!(latest.skipped.is_empty(), "{:?}", latest.skipped);
                }
                false
            }
        };
    }
    // the next save removes leftovers
    Checkpoints::in_folder(folder.path()).keep(2).save(STEPS + 1, &Checkpoint::new())?;
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    println!("{killed} kills in {runs} runs, {unfinished} of them while a file was written");
    Ok(())
}
