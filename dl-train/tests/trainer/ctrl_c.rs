//! A program that is sent SIGINT saves a checkpoint, from which it goes on to the same bits.

use super::program::{BATCHES, EPOCHS, Net, batches, optimizer};
use dl_core::{Result, Sgd, Weight};
use dl_train::{Checkpoints, EarlyStopping, Interrupt, Progress, Stopped, Trainer};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
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
        .args(["--exact", "trainer::ctrl_c::child", "--nocapture"])
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

/// What a second program does, as the test says.
#[test]
fn stubborn() -> Result<()> {
    let Some(what) = std::env::var_os(WHAT) else { return Ok(()) };
    let (w, interrupt) = (Weight::new(1.0_f64), Interrupt::on_ctrl_c()?);
    let trainer = Trainer::new(&Sgd::new(0.1), 1).callback(Progress::new("run")).interrupt(&interrupt);
    match what.to_str() {
        // a step that takes for ever
        Some("twice") => {
            let wait = |()| {
                println!("ready");
                std::thread::sleep(Duration::from_secs(60));
                &w * &w
            };
            trainer.run(|_| Ok([Ok(())]), wait)?;
        }
        // nobody listens any more
        Some("over") => {
            trainer.run(|_| Ok([Ok(())]), |()| &w * &w)?;
            drop(interrupt);
            println!("ready");
            std::thread::sleep(Duration::from_secs(60));
        }
        // and nobody reads
        _ => {
            println!("ready");
            std::thread::sleep(Duration::from_millis(200));
            interrupt.request();
            let outcome = trainer.run(|_| Ok([Ok(()), Ok(())]), |()| &w * &w)?;
            let early = EarlyStopping::on("loss").min_delta(1e9);
            let trainer = Trainer::new(&Sgd::new(0.1), 9).callback(Progress::new("")).callback(early);
            trainer.run(|_| Ok([Ok(()), Ok(())]), |()| &w * &w)?;
            println!("{:?} after {}", outcome.stopped, outcome.steps);
        }
    }
    Ok(())
}

const WHAT: &str = "DL_STUBBORN_TEST";

/// The program, once it is ready.
fn ready(what: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "trainer::ctrl_c::stubborn", "--nocapture"])
        .env(WHAT, what)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.ends_with("ready\n") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it is never ready");
    }
    (child, lines)
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn a_second_signal_ends_the_program() {
    let (mut child, _lines) = ready("twice");
    interrupt(&child);
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "the first one waits for the step");
    // two that come at once may count as one
    while child.try_wait().unwrap().is_none() {
        interrupt(&child);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_signal_that_no_run_waits_for_ends_the_program() {
    let (mut child, _lines) = ready("over");
    interrupt(&child);
    let ended = child.wait().unwrap();
    assert_eq!((ended.code(), ended.signal()), (Some(130), None));
}

/// What is said where standard error is no terminal.
#[test]
fn lines_of_progress() {
    let (mut child, _lines) = ready("watched");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    let said: Vec<&str> = said.lines().map(|line| line.split("  loss").next().unwrap()).collect();
    assert_eq!(said, ["interrupted after 0 steps", "epoch 1/9", "epoch 2/9", "stopped early after 4 steps"]);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_terminal_that_was_closed_ends_no_run() {
    let (mut child, mut lines) = ready("closed");
    drop(child.stderr.take());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut lines, &mut rest).unwrap();
    assert!(rest.contains("Interrupted after 0"), "{rest}");
    assert!(child.wait().unwrap().success());
}
