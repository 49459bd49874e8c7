//! A run that stops and goes on from its last checkpoint ends with the same bits as one that never
//! stopped.

mod kill;
mod program;

use dl_core::Result;
use dl_train::Checkpoints;
use program::{Net, Run};

/// Stopped after every single step: a new net, a new optimizer and a new generator go on.
#[test]
fn resumed_after_every_step() -> Result<()> {
    const STEPS: u64 = 12;
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    Run::in_folder(whole.path())?.until(STEPS)?;
    for step in 1..=STEPS {
        Run::in_folder(parts.path())?.until(step)?;
    }
    let file = |folder: &tempfile::TempDir| std::fs::read(Checkpoints::in_folder(folder.path()).path(STEPS)).unwrap();
    assert!(file(&whole) == file(&parts), "the whole state, as it is in the last checkpoint");
    Ok(())
}

/// What the test above shows is not that nothing happens.
#[test]
fn it_learns() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Run::in_folder(folder.path())?;
    let before = run.loss()?;
    run.until(60)?;
    let after = run.loss()?;
    assert!(after < 0.7 * before, "{before} {after}");
    Ok(())
}

/// Each part of the state matters: with any of them left out the bits differ.
#[test]
fn without_a_part_it_differs() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let run = |restored: &[&str]| -> Result<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (Run::new(folder.path())?, Run::new(folder.path())?);
        first.until(5)?;
        second.resume(restored)?;
        second.until(8)?;
        Ok(std::fs::read(Checkpoints::in_folder(folder.path()).path(8)).unwrap())
    };
    Run::in_folder(folder.path())?.until(8)?;
    let expected = std::fs::read(Checkpoints::in_folder(folder.path()).path(8)).unwrap();
    let all = ["model", "optimizer", "rng"];
    assert!(run(&all)? == expected);
    for left_out in all {
        let others: Vec<&str> = all.into_iter().filter(|&part| part != left_out).collect();
        assert!(run(&others)? != expected, "without {left_out}");
    }
    Ok(())
}

/// A net has all that can be in a file: weights, buffers, and one that is there twice.
#[test]
fn the_net_has_it_all() -> Result<()> {
    let net = Net::new()?;
    let entries = dl_core::Module::entries(&net);
    assert!(entries.iter().any(|entry| entry.is_buffer()) && entries.iter().any(|entry| entry.tied_to().is_some()));
    Ok(())
}
