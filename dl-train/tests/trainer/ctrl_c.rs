//! A program that receives SIGINT saves a checkpoint, from which the run resumes bit-identically.

use super::program::{BATCHES, EPOCHS, Net, batches, optimizer};
use dl_core::{Result, Weight};
use dl_optim::Sgd;
use dl_train::{Checkpoints, EarlyStopping, Interrupt, Progress, Stopped, Trainer};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const FOLDER: &str = "DL_CTRL_C_TEST_FOLDER";

/// The program that is interrupted. Without the environment variable this test does nothing.
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

/// Runs the program, interrupts it after some steps, and returns how it ended.
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
    ended.expect("the program prints how it ended")
}

#[test]
fn run_interrupted_by_signal_resumes_bit_identically() {
    let last = |folder: &Path| std::fs::read(Checkpoints::in_folder(folder).path(EPOCHS * BATCHES)).unwrap();
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert_eq!(run(whole.path(), None), (Stopped::Finished, EPOCHS * BATCHES));
    let (stopped, steps) = run(parts.path(), Some(4));
    assert_eq!(stopped, Stopped::Interrupted);
    assert!((4..EPOCHS * BATCHES).contains(&steps), "{steps}");
    assert_eq!(run(parts.path(), None), (Stopped::Finished, EPOCHS * BATCHES));
    assert!(last(whole.path()) == last(parts.path()));
}

/// A second program; the environment variable selects its behaviour. Without it this test does
/// nothing.
#[test]
fn signal_child() -> Result<()> {
    let Some(what) = std::env::var_os(WHAT) else { return Ok(()) };
    let (w, interrupt) = (Weight::new(1.0_f64), Interrupt::on_ctrl_c()?);
    let trainer = Trainer::new(&Sgd::new(0.1), 1).callback(Progress::new("run")).interrupt(&interrupt);
    match what.to_str() {
        // a step that does not end in time
        Some("twice") => {
            let wait = |()| {
                println!("ready");
                std::thread::sleep(Duration::from_secs(60));
                &w * &w
            };
            trainer.run(|_| Ok([Ok(())]), wait)?;
        }
        // the run is over and the request was dropped
        Some("over") => {
            trainer.run(|_| Ok([Ok(())]), |()| &w * &w)?;
            drop(interrupt);
            println!("ready");
            std::thread::sleep(Duration::from_secs(60));
        }
        // an interrupted run and an early stop, with progress on standard error
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

const WHAT: &str = "DL_SIGNAL_TEST";

/// Starts the program and waits until it is ready.
fn ready(what: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "trainer::ctrl_c::signal_child", "--nocapture"])
        .env(WHAT, what)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.ends_with("ready\n") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the program ended before it was ready");
    }
    (child, lines)
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn second_signal_exits_program() {
    let (mut child, _lines) = ready("twice");
    interrupt(&child);
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "the first signal must wait for the step");
    // signals in quick succession may be merged
    while child.try_wait().unwrap().is_none() {
        interrupt(&child);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn signal_without_live_request_exits_program() {
    let (mut child, _lines) = ready("over");
    interrupt(&child);
    let ended = child.wait().unwrap();
    assert_eq!((ended.code(), ended.signal()), (Some(130), None));
}

/// The output when standard error is not a terminal.
#[test]
fn progress_without_terminal_prints_lines() {
    let (mut child, _lines) = ready("watched");
    let mut output = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut output).unwrap();
    let output: Vec<&str> = output.lines().map(|line| line.split("  loss").next().unwrap()).collect();
    assert_eq!(output, ["interrupted after 0 steps", "epoch 1/9", "epoch 2/9", "stopped early after 4 steps"]);
    assert!(child.wait().unwrap().success());
}

#[test]
fn closed_standard_error_does_not_end_run() {
    let (mut child, mut lines) = ready("closed");
    drop(child.stderr.take());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut lines, &mut rest).unwrap();
    assert!(rest.contains("Interrupted after 0"), "{rest}");
    assert!(child.wait().unwrap().success());
}
