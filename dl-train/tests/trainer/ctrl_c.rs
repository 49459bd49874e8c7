//! A program that is sent SIGINT saves a checkpoint, from which it goes on to the same bits.

use crate::program::{BATCHES, EPOCHS, Net, batches, optimizer};
use dl_core::Result;
use dl_train::{Checkpoints, Interrupt, Stopped, Trainer};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const FOLDER: &str = "DL_CTRL_C_TEST_FOLDER";

/// What runs in the program that is interrupted; nothing, if this is not it.
#[test]
fn child() -> Result<()> {
    let Some(folder) = std::env::var_os(FOLDER) else { return Ok(()) };
    let net = Net::new()?;
    let outcome = Trainer::new(&optimizer(), EPOCHS)
        .checkpoints(&Checkpoints::in_folder(folder), &net)
        .interrupt(&Interrupt::on_ctrl_c()?)
        .run(batches, |batch| {
            println!("step");
            std::thread::sleep(Duration::from_millis(30));
            net.loss(batch)
        })?;
    println!("{:?} after {}", outcome.stopped, outcome.steps);
    Ok(())
}

/// Runs the program, interrupts it after some steps, and says how it ended.
fn run(folder: &Path, interrupt_after: Option<usize>) -> (Stopped, u64) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ctrl_c::child", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut steps, mut ended) = (0, None);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        steps += usize::from(line.ends_with("step"));
        if line.ends_with("step") && Some(steps) == interrupt_after {
            let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
            assert!(sent.success());
        }
        if let Some((stopped, after)) = line.split_once(" after ") {
            let stopped = if stopped == "Interrupted" { Stopped::Interrupted } else { Stopped::Finished };
            ended = Some((stopped, after.parse().unwrap()));
        }
    }
    assert!(child.wait().unwrap().success());
    ended.expect("the program says how it ended")
}

#[test]
fn interrupted_by_a_signal() {
    let last = |folder: &Path| std::fs::read(Checkpoints::in_folder(folder).path(EPOCHS * BATCHES)).unwrap();
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert_eq!(run(whole.path(), None), (Stopped::Finished, EPOCHS * BATCHES));
    let (stopped, steps) = run(parts.path(), Some(4));
    assert_eq!(stopped, Stopped::Interrupted);
    assert!((4..EPOCHS * BATCHES).contains(&steps), "{steps}");
    assert_eq!(run(parts.path(), None), (Stopped::Finished, EPOCHS * BATCHES));
    assert!(last(whole.path()) == last(parts.path()));
}
