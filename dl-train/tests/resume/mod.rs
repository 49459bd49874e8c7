//! A run that stops and resumes from its last checkpoint is bit-identical to an uninterrupted one.

mod kill;
mod program;

use dl_core::Result;
use dl_train::Checkpoints;
use program::{Net, Run};

/// Stops after every step; a new net, optimizer and generator resume.
#[test]
fn run_resumed_after_every_step_is_bit_identical() -> Result<()> {
    const STEPS: u64 = 12;
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    Run::in_folder(whole.path())?.until(STEPS)?;
    for step in 1..=STEPS {
        Run::in_folder(parts.path())?.until(step)?;
    }
    let file = |folder: &tempfile::TempDir| std::fs::read(Checkpoints::in_folder(folder.path()).path(STEPS)).unwrap();
    assert!(file(&whole) == file(&parts), "the last checkpoints must be identical");
    Ok(())
}

/// The run of the other tests does learn.
#[test]
fn training_reduces_loss() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Run::in_folder(folder.path())?;
    let before = run.loss()?;
    run.until(60)?;
    let after = run.loss()?;
    assert!(after < 0.7 * before, "{before} {after}");
    Ok(())
}

/// Each part of the state is necessary: without any of them, the bits differ.
#[test]
fn resume_without_part_of_state_differs() -> Result<()> {
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

/// The net covers every kind of entry: weights, buffers, and a tied weight.
#[test]
fn test_net_has_buffers_and_tied_weights() -> Result<()> {
    let net = Net::new()?;
    let entries = dl_core::Module::entries(&net);
    assert!(entries.iter().any(|entry| entry.is_buffer()) && entries.iter().any(|entry| entry.tied_to().is_some()));
    Ok(())
}
