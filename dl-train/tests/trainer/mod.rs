//! The trainer is equivalent to a hand-written loop, and resumes where it stopped.

#[cfg(all(unix, feature = "terminal"))]
mod ctrl_c;
mod device;
mod logs;
mod non_finite;
mod program;
mod settings;

use dl_core::{Differentiable, Error, Parts, Result, Weight};
use dl_nd::ndarray::Ix1;
use dl_nd::{Nd, NdWeight, ops::*};
use dl_optim::Sgd;
use dl_train::{Callback, Checkpoints, EarlyStopping, Interrupt, Log, Outcome, Record, Stopped, TensorBoard, Trainer};
use program::{BATCHES, EPOCHS, Net, batches, optimizer};
use std::ops::ControlFlow;
use std::path::Path;
use test_support::on_threads;

/// A hand-written loop: the final weights, and the mean loss of each epoch.
fn by_hand(seed: u64) -> Result<(Vec<u64>, Vec<f64>)> {
    let (net, optimizer) = (Net::new()?, optimizer());
    let (mut step, mut losses) = (0, Vec::new());
    for epoch in 0..EPOCHS {
        let mut sum = 0.0;
        for batch in batches(epoch)? {
            sum += f64::from(net.loss(batch?).train(&optimizer).seed((seed << 32) + step).wait()?);
            step += 1;
        }
        losses.push(sum / BATCHES as f64);
    }
    Ok((net.bits(), losses))
}

fn losses(outcome: &Outcome) -> Vec<f64> {
    outcome.epochs.iter().map(|record| record.get("loss").unwrap()).collect()
}

/// A hand-written loop with a step for every three batches of an epoch; it has seven.
fn by_hand_in_parts() -> Result<(Vec<u64>, Vec<f64>)> {
    let (net, optimizer) = (Net::new()?, optimizer());
    let (mut step, mut losses) = (0, Vec::new());
    for epoch in 0..EPOCHS {
        let (all, mut sum) = (batches(epoch)?.collect::<Result<Vec<_>>>()?, 0.0);
        for parts in all.chunks(3) {
            let parts = Parts::mean(parts.iter().map(|batch| net.loss(batch.clone())));
            let taken = parts.train(&optimizer).seed((9 << 32) + step).wait()?;
            sum += taken.into_iter().map(f64::from).sum::<f64>();
            step += 1;
        }
        losses.push(sum / BATCHES as f64);
    }
    Ok((net.bits(), losses))
}

#[test]
fn trainer_in_parts_is_bit_identical_to_hand_written_loop_and_resumes() -> Result<()> {
    let expected = on_threads(1, by_hand_in_parts)?;
    for threads in [1, 2] {
        on_threads(threads, || -> Result<()> {
            let (net, optimizer) = (Net::new()?, optimizer());
            let trainer = Trainer::new(&optimizer, EPOCHS).seed(9).parts(3).refuse_non_finite();
            let outcome = trainer.run(batches, |batch| net.loss(batch))?;
            assert!((net.bits(), losses(&outcome)) == expected, "{threads} threads");
            assert_eq!((outcome.stopped, outcome.steps), (Stopped::Finished, 3 * EPOCHS));
            Ok(())
        })?;
    }
    // a run that is interrupted in the middle of an epoch goes on with the next group of batches
    let (folder, net, optimizer, interrupt) =
        (tempfile::tempdir().unwrap(), Net::new()?, optimizer(), Interrupt::new());
    let checkpoints = Checkpoints::in_folder(folder.path());
    let trainer = |net, optimizer: &program::Clipped, parts| {
        Trainer::new(optimizer, EPOCHS).seed(9).parts(parts).checkpoints(&checkpoints, net)
    };
    let mut seen = 0;
    let outcome = trainer(&net, &optimizer, 3).interrupt(&interrupt).run(batches, |batch| {
        seen += 1;
        if seen == 12 {
            interrupt.request();
        }
        net.loss(batch)
    })?;
    assert_eq!((outcome.stopped, outcome.steps), (Stopped::Interrupted, 5));
    let (net, optimizer) = (Net::new()?, program::optimizer());
    assert!(trainer(&net, &optimizer, 2).run(batches, |batch| net.loss(batch)).is_err(), "another number of parts");
    let outcome = trainer(&net, &optimizer, 3).run(batches, |batch| net.loss(batch))?;
    assert!((net.bits(), losses(&outcome)) == expected);
    Ok(())
}

#[test]
fn trainer_is_bit_identical_to_hand_written_loop() -> Result<()> {
    let expected = on_threads(1, || by_hand(9))?;
    for threads in [1, 2] {
        on_threads(threads, || -> Result<()> {
            assert!(by_hand(9)? == expected);
            let (net, optimizer) = (Net::new()?, optimizer());
            let plain = Trainer::new(&optimizer, EPOCHS).seed(9).run(batches, |batch| net.loss(batch))?;
            assert!((net.bits(), losses(&plain)) == expected, "{threads} threads");

            // all options together must not change anything
            let (folder, net, optimizer) = (tempfile::tempdir().unwrap(), Net::new()?, program::optimizer());
            let outcome = full(folder.path(), &net, &optimizer, &Interrupt::new(), &mut Vec::new())?;
            assert!((net.bits(), losses(&outcome)) == expected, "{threads} threads");
            assert_eq!((outcome.stopped, outcome.steps), (Stopped::Finished, EPOCHS * BATCHES));
            Ok(())
        })?;
    }
    assert!(by_hand(8)?.0 != expected.0, "another seed must give other bits");
    Ok(())
}

/// Collects the records of all steps.
struct Watch<'a> {
    seen: &'a mut Vec<Record>,
}

impl Callback for Watch<'_> {
    fn step(&mut self, record: &Record) -> Result<()> {
        self.seen.push(record.clone());
        Ok(())
    }
}

/// A run with all options.
fn full(
    folder: &Path,
    net: &Net,
    optimizer: &program::Clipped,
    interrupt: &Interrupt,
    seen: &mut Vec<Record>,
) -> Result<Outcome> {
    let checkpoints = Checkpoints::in_folder(folder.join("checkpoints")).keep(2);
    Trainer::new(optimizer, EPOCHS)
        .seed(9)
        .refuse_non_finite()
        .validate(|| Ok([("bits", net.bits().len() as f64)]))
        .callback(Watch { seen })
        .callback(EarlyStopping::on("loss").patience(50).restoring(net))
        .callback(Log::csv(folder.join("epochs.csv")))
        .callback(Log::jsonl(folder.join("steps.jsonl")).each_step())
        .callback(TensorBoard::in_folder(folder.join("board")))
        .checkpoints(&checkpoints, net)
        .every(5)
        .interrupt(interrupt)
        .run(batches, |batch| net.loss(batch))
}

/// Interrupts after any step; a new net and optimizer resume.
#[test]
fn run_interrupted_after_any_step_resumes_identically() -> Result<()> {
    const STEPS: u64 = EPOCHS * BATCHES;
    let read = |folder: &Path, name: &str| std::fs::read(folder.join(name)).unwrap();
    let last = format!("checkpoints/checkpoint-{STEPS:010}.safetensors");
    let whole = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    let outcome = full(whole.path(), &Net::new()?, &optimizer(), &Interrupt::new(), &mut all)?;
    for stop in 1..STEPS {
        let folder = tempfile::tempdir().unwrap();
        let (interrupt, net) = (Interrupt::new(), Net::new()?);
        let mut steps = 0;
        let first = {
            let checkpoints = Checkpoints::in_folder(folder.path().join("checkpoints"));
            Trainer::new(&optimizer(), EPOCHS)
                .seed(9)
                .validate(|| Ok([("bits", net.bits().len() as f64)]))
                .callback(EarlyStopping::on("loss").patience(50).restoring(&net))
                .callback(Log::csv(folder.path().join("epochs.csv")))
                .callback(Log::jsonl(folder.path().join("steps.jsonl")).each_step())
                .checkpoints(&checkpoints, &net)
                .interrupt(&interrupt)
                .run(batches, |batch| {
                    steps += 1;
                    if steps == stop {
                        interrupt.request();
                    }
                    net.loss(batch)
                })?
        };
        assert_eq!((first.stopped, first.steps), (Stopped::Interrupted, stop));
        // simulate a kill while a line is written
        std::fs::OpenOptions::new()
            .append(true)
            .open(folder.path().join("steps.jsonl"))
            .and_then(|mut file| std::io::Write::write_all(&mut file, b"{\"step\":"))
            .unwrap();

        let mut rest = Vec::new();
        let second = full(folder.path(), &Net::new()?, &optimizer(), &Interrupt::new(), &mut rest)?;
        assert_eq!(second.stopped, Stopped::Finished);
        assert_eq!(second.epochs, outcome.epochs);
        assert_eq!(rest, all[stop as usize..]);
        for name in [last.as_str(), "epochs.csv", "steps.jsonl"] {
            assert!(read(folder.path(), name) == read(whole.path(), name), "{name}, stopped after {stop} steps");
        }
    }
    Ok(())
}

/// A random layer that is built once, next to one that is built in each step.
#[test]
fn dropout_built_before_run_resumes_identically() -> Result<()> {
    let x = Nd::<f64, Ix1>::full([40], 1.0);
    let run = |folder: &Path, epochs| -> Result<Vec<f64>> {
        let w = NdWeight::<Ix1, f64>::new(x.clone());
        let once = (w.layer() * &x).dropout(0.5);
        let checkpoints = Checkpoints::in_folder(folder);
        Trainer::new(&Sgd::new(0.1), epochs)
            .checkpoints(&checkpoints, &w)
            .run(|_| Ok([Ok(()), Ok(())]), |()| (&once * (w.layer() * &x).dropout(0.5)).sum())?;
        Ok(w.value().into_vec())
    };
    let [whole, parts] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    run(parts.path(), 1)?;
    assert_eq!(run(parts.path(), 3)?, run(whole.path(), 3)?);
    Ok(())
}

/// A run that has begun an epoch cannot be resumed with fewer epochs.
#[test]
fn resume_with_fewer_epochs_than_begun_is_refused() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let run = |epochs, stop_at: u64| {
        let (net, interrupt) = ([Weight::new(3.0_f64)], Interrupt::new());
        let taken = std::cell::Cell::new(0);
        let step = |()| {
            taken.set(taken.get() + 1);
            if taken.get() == stop_at {
                interrupt.request();
            }
            net[0].layer()
        };
        Trainer::new(&Sgd::new(0.1), epochs)
            .checkpoints(&Checkpoints::in_folder(folder.path()), &net)
            .interrupt(&interrupt)
            .run(|_| Ok([Ok(()), Ok(()), Ok(())]), step)
    };
    assert_eq!(run(5, 8)?.steps, 8);
    let error = run(2, 0).unwrap_err().to_string();
    assert!(error.contains("a run of 2 epochs, of which 2 are already finished, as well as 2 batches"), "{error}");
    assert_eq!(run(3, 0)?.steps, 9);
    Ok(())
}

/// A run that stopped early stays stopped, and a finished run is not repeated.
#[test]
fn resume_of_finished_run_takes_no_steps() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let run = |epochs| -> Result<(Outcome, f64, Option<u64>)> {
        let net = [Weight::new(3.0_f64)];
        let mut early = EarlyStopping::on("distance").patience(2).restoring(&net);
        let outcome = Trainer::new(&Sgd::new(1.0), epochs)
            .validate(|| Ok([("distance", net[0].value().abs())]))
            .callback(&mut early)
            .checkpoints(&Checkpoints::in_folder(folder.path()), &net)
            .run(|_| Ok([Ok(())]), |()| net[0].layer())?;
        Ok((outcome, net[0].value(), early.best_epoch()))
    };
    let (outcome, value, best) = run(4)?;
    assert_eq!((outcome.stopped, outcome.steps, value, best), (Stopped::Finished, 4, 0.0, Some(2)));
    for _ in 0..2 {
        // the best weights come from the checkpoint
        let (outcome, value, best) = run(50)?;
        assert_eq!((outcome.stopped, outcome.steps, value, best), (Stopped::Early, 5, 0.0, Some(2)));
    }
    std::fs::write(Checkpoints::in_folder(folder.path()).path(6), "damaged").unwrap();
    assert_eq!(run(50)?.0.skipped.len(), 1);
    assert!(run(2).unwrap_err().to_string().contains("a run of 2 epochs, of which 5 are already finished"));
    Ok(())
}

#[test]
fn invalid_settings_and_batches_are_errors() {
    let w = Weight::new(1.0_f64);
    let message = |run: &dyn Fn(Trainer<'_, Sgd>) -> Result<Outcome>, epochs| {
        run(Trainer::new(&Sgd::new(0.1), epochs)).unwrap_err().to_string()
    };
    let once = |trainer: Trainer<'_, Sgd>| trainer.run(|_| Ok([Ok(())]), |()| &w * &w);
    assert!(message(&once, 0).contains("a run of 0 epochs"));
    assert!(message(&|t| once(t.every(0)), 1).contains("`every(0)`"));
    assert!(message(&|t| once(t.every(5)), 1).contains("must set a folder"));
    assert_eq!(message(&|t| t.run(|_| Ok(Vec::<Result<()>>::new()), |()| &w * &w), 1), "epoch 0 has no batches");
    assert_eq!(
        message(&|t| t.run(|_| Ok([Ok(()), Err(Error::invalid("invalid batch"))]), |()| &w * &w), 1),
        "epoch 0, step 1: invalid batch"
    );
    assert!(
        message(&|t| once(t.validate(|| Ok([("loss", 1.0)]))), 1).contains("the record already has a number \"loss\"")
    );
    assert!(message(&|t| once(t.validate(|| Ok([("a\nb", 1.0)]))), 1).contains("is not a valid name of a number"));
    let early = EarlyStopping::on("accuracy");
    assert!(
        message(&|t| once(t.callback(early.clone())), 1)
            .contains("the record has no number \"accuracy\", only [\"loss\"]")
    );
    assert!(message(&|t| once(t.callback(early.clone().min_delta(-1.0))), 1).contains("must be finite"));
}

#[test]
fn logs_refuse_foreign_files_and_changed_columns() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let (w, path) = (Weight::new(1.0_f64), folder.path().join("data.csv"));
    std::fs::write(&path, "sepal,petal\n1,2\n").unwrap();
    for log in [Log::csv(&path), Log::jsonl(&path)] {
        let error = Trainer::new(&Sgd::new(0.1), 1).callback(log).run(|_| Ok([Ok(())]), |()| &w * &w).unwrap_err();
        assert!(error.to_string().contains("the file is not a log of a run, so it is left unchanged"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "sepal,petal\n1,2\n");

    let (csv, jsonl) = (folder.path().join("new/folder/log.csv"), folder.path().join("log.jsonl"));
    let outcome = Trainer::new(&Sgd::new(0.0), 1)
        .validate(|| Ok([("top-5, \"best\"", f64::NAN), ("π", f64::INFINITY)]))
        .callback(Log::csv(&csv))
        .callback(Log::jsonl(&jsonl))
        .run(|_| Ok([Ok(())]), |()| w.layer())?;
    assert!(outcome.epochs[0].get("π") == Some(f64::INFINITY));
    let text = std::fs::read_to_string(csv).unwrap();
    assert_eq!(text, "step,epoch,loss,\"top-5, \"\"best\"\"\",π\n1,0,1,NaN,inf\n");
    let text = std::fs::read_to_string(jsonl).unwrap();
    assert_eq!(text, "{\"step\":1,\"epoch\":0,\"loss\":1.0,\"top-5, \\\"best\\\"\":null,\"π\":null}\n");

    // a column that first appears in a later row
    let mut epochs = 0;
    let error = Trainer::new(&Sgd::new(0.0), 2)
        .validate(|| {
            epochs += 1;
            Ok(if epochs == 1 { vec![] } else { vec![("late", 1.0)] })
        })
        .callback(Log::csv(folder.path().join("late.csv")))
        .run(|_| Ok([Ok(())]), |()| w.layer())
        .unwrap_err();
    assert!(error.to_string().contains("all rows must have the same columns"), "{error}");
    Ok(())
}

/// The order of the calls of a callback.
#[test]
fn callback_methods_are_called_in_order() -> Result<()> {
    #[derive(Default)]
    struct CallLog(Vec<String>);

    impl Callback for CallLog {
        fn start(&mut self, at: &dl_train::Place) -> Result<()> {
            self.0.push(format!("start {}", at.epochs));
            Ok(())
        }

        fn begin(&mut self, at: &dl_train::Place) -> Result<()> {
            self.0.push(format!("begin {} of {:?}", at.epoch, at.batches));
            Ok(())
        }

        fn step(&mut self, record: &Record) -> Result<()> {
            self.0.push(format!("step {}", record.step));
            Ok(())
        }

        fn epoch(&mut self, record: &Record) -> Result<ControlFlow<()>> {
            self.0.push(format!("epoch {} {record}", record.epoch));
            Ok(if record.epoch == 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        }

        fn end(&mut self, stopped: Stopped) -> Result<()> {
            self.0.push(format!("end {stopped:?}"));
            Ok(())
        }
    }

    let (w, mut calls) = (Weight::new(1.0_f64), CallLog::default());
    Trainer::new(&Sgd::new(1.0), 9).callback(&mut calls).run(|_| Ok([Ok(()), Ok(())]), |()| w.layer())?;
    let expected = "start 9, begin 0 of Some(2), step 1, step 2, epoch 0 loss 0.5000, begin 1 of Some(2), step 3, step 4, epoch 1 loss -1.5000, end Early";
    assert_eq!(calls.0.join(", "), expected);
    Ok(())
}

/// When early stopping ends a run, and which values are improvements: as with Keras'
/// `EarlyStopping`.
#[test]
fn early_stopping_with_patience_and_min_delta_matches_keras() -> Result<()> {
    let stops = |early: EarlyStopping, values: &[f64]| -> Result<(Option<usize>, Option<u64>)> {
        let mut early = early;
        for (epoch, &value) in values.iter().enumerate() {
            if early.epoch(&Record::new(epoch as u64, 0).with("x", value)?)?.is_break() {
                return Ok((Some(epoch), early.best_epoch()));
            }
        }
        Ok((None, early.best_epoch()))
    };
    let on = || EarlyStopping::on("x");
    assert_eq!(stops(on(), &[3.0, 2.0, 2.0, 1.0])?, (Some(2), Some(1)));
    assert_eq!(stops(on().patience(1), &[3.0, 2.0, 2.0, 1.0])?, (Some(2), Some(1)));
    assert_eq!(stops(on().patience(2), &[3.0, 2.0, 2.0, 1.0, 1.5, 1.5])?, (Some(5), Some(3)));
    assert_eq!(stops(on().patience(2).greater_is_better(), &[1.0, 2.0, 1.0, 3.0])?, (None, Some(3)));
    // each value is compared with the best, so small improvements do not accumulate
    assert_eq!(stops(on().patience(2).min_delta(0.5), &[3.0, 2.5, 2.4, 1.0])?, (None, Some(3)));
    assert_eq!(stops(on().patience(2).min_delta(0.75), &[3.0, 2.5, 2.3])?, (Some(2), Some(0)));
    assert_eq!(stops(on().patience(2), &[f64::NAN, 2.0, f64::NAN, f64::INFINITY])?, (Some(3), Some(1)));
    assert_eq!(stops(on().patience(2), &[f64::NAN, f64::NAN])?, (Some(1), None));
    Ok(())
}
