//! Invalid settings are refused before the first step, and callbacks lent to a run start afresh.

use dl_core::{Differentiable, Error, Result, Weight};
use dl_optim::{Adam, Sgd};
use dl_train::{Callback, Checkpoint, Checkpoints, EarlyStopping, Interrupt, Outcome, Place, Record, Stopped, Trainer};
use std::cell::Cell;
use std::ops::ControlFlow;

/// A run of three epochs, and the number of steps it has taken.
fn steps_of<'a>(
    w: &'a Weight<f64>,
    with: impl FnOnce(Trainer<'a, Sgd>, &'a Weight<f64>) -> Trainer<'a, Sgd>,
) -> (Result<Outcome>, u64) {
    let steps = Cell::new(0);
    let outcome = with(Trainer::new(&Sgd::new(0.25), 3), w).run(
        |_| Ok([Ok(()), Ok(())]),
        |()| {
            steps.set(steps.get() + 1);
            w * w
        },
    );
    (outcome, steps.get())
}

#[test]
fn unsavable_checkpoints_are_refused_before_first_step() {
    let (folder, w) = (tempfile::tempdir().unwrap(), Weight::new(1.0_f64));
    let in_folder = || Checkpoints::in_folder(folder.path());
    let message = |(outcome, steps): (Result<Outcome>, u64)| {
        assert_eq!((steps, w.value()), (0, 1.0));
        outcome.unwrap_err().to_string()
    };
    let none = message(steps_of(&w, |t, w| t.checkpoints(&in_folder().keep(0), w)));
    assert!(none.contains("at least 1 checkpoint must be kept"), "{none}");
    let loss = || EarlyStopping::on("loss");
    let twice = message(steps_of(&w, |t, w| t.checkpoints(&in_folder(), w).callback(loss()).callback(loss())));
    assert!(twice.contains("\"count/early stopping on loss: waited\" is in the checkpoint twice"), "{twice}");
    assert!(in_folder().steps().unwrap().is_empty());
}

/// A resumed run with a callback that the earlier run did not have.
#[test]
fn resume_with_new_callback_is_refused() -> Result<()> {
    let (folder, w) = (tempfile::tempdir().unwrap(), Weight::new(1.0_f64));
    let checkpoints = Checkpoints::in_folder(folder.path());
    steps_of(&w, |t, w| t.checkpoints(&checkpoints, w)).0?;
    let again = Weight::new(5.0_f64);
    let mut early = EarlyStopping::on("loss");
    let error = Trainer::new(&Sgd::new(0.25), 9)
        .checkpoints(&checkpoints, &again)
        .callback(&mut early)
        .run(|_| Ok([Ok(())]), |()| &again * &again)
        .unwrap_err();
    assert!(error.to_string().contains("early stopping on loss"), "{error}");
    assert_eq!((again.value(), early.best()), (5.0, None));
    Ok(())
}

/// A run that resumes within an epoch that now has fewer batches, with another optimizer, or with
/// another seed.
#[test]
fn resume_with_changed_settings_is_refused() -> Result<()> {
    let (folder, w, interrupt) = (tempfile::tempdir().unwrap(), Weight::new(1.0_f64), Interrupt::new());
    let checkpoints = Checkpoints::in_folder(folder.path());
    let first = Trainer::new(&Sgd::new(0.25), 2).checkpoints(&checkpoints, &w).interrupt(&interrupt);
    let stopped = first.run(
        |_| Ok((0..9).map(Ok)),
        |batch| {
            if batch == 3 {
                interrupt.request();
            }
            &w * &w
        },
    )?;
    assert_eq!(stopped.steps, 4);
    let again = Weight::new(7.0_f64);
    let message = |result: Result<Outcome>| result.unwrap_err().to_string();
    let go = |trainer: Trainer<'_, Sgd>| trainer.run(|_| Ok((0..2).map(Ok)), |_: u64| &again * &again);
    let trainer = || Trainer::new(&Sgd::new(0.25), 2);
    assert!(message(go(trainer().seed(3).checkpoints(&checkpoints, &again))).contains("seed 0, this run has seed 3"));
    let adam = Trainer::new(&Adam::new(0.25), 2).checkpoints(&checkpoints, &again);
    assert!(message(adam.run(|_| Ok((0..2).map(Ok)), |_: u64| &again * &again)).contains("Sgd"));
    assert_eq!(again.value(), 7.0);
    let fewer = message(go(trainer().checkpoints(&checkpoints, &again)));
    assert!(fewer.contains("the checkpoint was saved after 4 batches, but the epoch has only 2"), "{fewer}");
    Ok(())
}

/// A checkpoint with contradictory numbers.
#[test]
fn inconsistent_position_in_checkpoint_is_refused() -> Result<()> {
    for (epoch, batch, step, history) in [
        (1, 0, 4, "[]"),
        (0, 5, 4, "[]"),
        (0, u64::MAX, 4, "[]"),
        (0, 7, 7, "[]"),
        (1, u64::MAX, 4, r#"[{"epoch":0,"step":5,"values":[]}]"#),
    ] {
        let (folder, w) = (tempfile::tempdir().unwrap(), Weight::new(1.0_f64));
        let checkpoints = Checkpoints::in_folder(folder.path());
        let checkpoint = Checkpoint::new().module("net", &w).optimizer("optimizer", &Sgd::new(0.25), &w);
        let checkpoint = checkpoint.count("epoch", epoch).count("batch", batch).count("step", step).count("seed", 0);
        let checkpoint = checkpoint.count("ended", 0).number("sum of losses", 0.0).text("history", history);
        checkpoints.save(4, &checkpoint)?;
        let (outcome, steps) = steps_of(&w, |t, w| t.checkpoints(&checkpoints, w));
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("the checkpoint of step 4 is inconsistent"), "{error}");
        assert_eq!(steps, 0);
    }
    Ok(())
}

/// Early stopping must not carry the best weights of one run into the next.
#[test]
fn early_stopping_reused_starts_afresh() -> Result<()> {
    let net = [Weight::new(3.0_f64)];
    let mut early = EarlyStopping::on("distance").patience(2).restoring(&net);
    for (begin, expected) in [(3.0, (5, 0.0, Some(2))), (10.5, (12, 0.5, Some(9)))] {
        net[0].set(begin);
        let outcome = Trainer::new(&Sgd::new(1.0), 100)
            .validate(|| Ok([("distance", net[0].value().abs())]))
            .callback(&mut early)
            .run(|_| Ok([Ok(())]), |()| net[0].layer())?;
        assert_eq!(outcome.stopped, Stopped::Early);
        assert_eq!((outcome.epochs.len(), net[0].value(), early.best_epoch()), expected);
    }
    Ok(())
}

/// A run until interrupted.
#[test]
fn run_with_max_epochs_ends_by_interrupt() -> Result<()> {
    let (w, interrupt) = (Weight::new(1.0_f64), Interrupt::new());
    let trainer = Trainer::new(&Sgd::new(0.25), u64::MAX).interrupt(&interrupt);
    #[cfg(feature = "terminal")]
    let trainer = trainer.callback(dl_train::Progress::new(""));
    let outcome = trainer.run(
        |epoch| {
            if epoch == 2 {
                interrupt.request();
            }
            Ok((0..3).map(Ok))
        },
        |_| &w * &w,
    )?;
    assert_eq!((outcome.stopped, outcome.steps, outcome.epochs.len()), (Stopped::Interrupted, 7, 2));
    Ok(())
}

/// A callback that fails or panics leaves the weights after the completed step.
#[test]
fn failing_callback_keeps_completed_step() {
    struct Fails(bool);

    impl Callback for Fails {
        fn step(&mut self, record: &Record) -> Result<()> {
            assert!(self.0 || record.step < 2, "no more");
            if record.step < 2 { Ok(()) } else { Err(Error::invalid("no more")) }
        }

        fn end(&mut self, _: Stopped) -> Result<()> {
            unreachable!("not called after an error")
        }
    }

    for fails in [true, false] {
        let w = Weight::new(1.0_f64);
        let run = || steps_of(&w, |t, _| t.callback(Fails(fails)));
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok((outcome, _)) => assert!(fails && outcome.unwrap_err().to_string() == "no more"),
            Err(_) => assert!(!fails),
        }
        assert_eq!(w.value(), 0.25);
        // training can continue
        let (outcome, steps) = steps_of(&w, |t, _| t);
        assert_eq!((outcome.unwrap().stopped, steps), (Stopped::Finished, 6));
    }
}

/// Two trainers concurrently on one weight and one optimizer: each step is atomic, and none is
/// lost.
#[test]
fn concurrent_trainers_lose_no_steps() {
    let (w, sgd) = (Weight::new(0.0_f64), Sgd::new(1.0));
    let run = || Trainer::new(&sgd, 10).run(|_| Ok((0..50).map(Ok)), |_: u64| w.layer()).unwrap().steps;
    let steps: u64 = std::thread::scope(|scope| {
        [scope.spawn(run), scope.spawn(run)].map(|thread| thread.join().unwrap()).iter().sum()
    });
    assert_eq!((steps, w.value()), (1000, -1000.0));
}

/// A run that is interrupted before its first epoch.
#[test]
fn interrupt_before_start_takes_no_step() -> Result<()> {
    #[derive(Default)]
    struct CallLog(Vec<&'static str>);

    impl Callback for CallLog {
        fn start(&mut self, _: &Place) -> Result<()> {
            self.0.push("start");
            Ok(())
        }

        fn epoch(&mut self, _: &Record) -> Result<ControlFlow<()>> {
            unreachable!("no epoch")
        }

        fn end(&mut self, _: Stopped) -> Result<()> {
            self.0.push("end");
            Ok(())
        }
    }

    let (w, interrupt, mut calls) = (Weight::new(1.0_f64), Interrupt::new(), CallLog::default());
    interrupt.request();
    let (outcome, steps) = steps_of(&w, |t, _| t.interrupt(&interrupt).callback(&mut calls));
    assert_eq!((outcome?.stopped, steps, calls.0), (Stopped::Interrupted, 0, vec!["start", "end"]));
    Ok(())
}
