//! Participants of a training step: each of them changes together with the weights, or nothing does.

use dl_core::{
    Buffer, Chunk, Differentiable, Do, Error, Layer, Optimizer, Participant, Result, SideEffects, Snapshot, Step, Tape,
    Weight,
};
use dl_optim::{Adam, OptimizerExt, Sgd};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

#[derive(Clone, Copy, PartialEq)]
enum Vote {
    Yes,
    No,
    Panic,
    /// Yes, and the change panics.
    Break,
}

/// Votes as told, and logs what it is asked.
struct Voter {
    name: &'static str,
    vote: Mutex<Vote>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Voter {
    fn new(name: &'static str, vote: Vote, log: &Arc<Mutex<Vec<String>>>) -> Arc<Voter> {
        Arc::new(Voter { name, vote: Mutex::new(vote), log: log.clone() })
    }

    fn note(&self, what: &str) {
        self.log.lock().unwrap().push(format!("{} {what}", self.name));
    }
}

/// Logs when it is dropped without having been called.
struct Agreed<'a>(&'a Voter, bool);

impl Drop for Agreed<'_> {
    fn drop(&mut self) {
        self.0.note(if self.1 { "changes" } else { "is released" });
    }
}

impl Participant for Voter {
    fn vote<'a>(&'a self, step: &Step<'_>) -> Result<Box<dyn FnOnce() + 'a>> {
        let vote = *self.vote.lock().unwrap();
        self.note(&format!("is asked for step {}", step.steps()));
        match vote {
            Vote::No => return Err(Error::invalid(format!("{} refuses", self.name))),
            Vote::Panic => panic!("{} panics", self.name),
            Vote::Yes | Vote::Break => {}
        }
        let agreed = Agreed(self, false);
        Ok(Box::new(move || {
            let mut agreed = agreed;
            agreed.1 = true;
            assert!(vote == Vote::Yes, "a change must not fail");
        }))
    }
}

type Log = Arc<Mutex<Vec<String>>>;

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

/// Weights, a buffer, and an optimizer with state.
struct Net {
    weights: [Weight<f64>; 3],
    seen: Buffer<f64>,
    adam: Adam,
}

impl Net {
    fn new() -> Net {
        Net { weights: [1.0, 2.0, 3.0].map(Weight::new), seen: Buffer::new(0.0), adam: Adam::new(0.1) }
    }

    fn effects(&self) -> Result<SideEffects> {
        let product = &self.weights[0] * &self.weights[1] * &self.weights[2];
        product.updating(&self.seen, self.seen.layer() + 1.0).backward().wait()
    }

    /// All that a step changes.
    fn state(&self) -> (Vec<u64>, u64, u64, Vec<Option<f64>>) {
        let slot = |weight: &Weight<f64>| self.adam.memory().unwrap().slot::<f64>(weight.id(), 0).unwrap();
        (
            self.weights.iter().map(|weight| weight.value().to_bits()).collect(),
            self.seen.value().to_bits(),
            self.adam.memory().unwrap().steps(),
            self.weights.iter().map(slot).collect(),
        )
    }
}

#[test]
fn participants_vote_in_order_and_change_after_weights() {
    let (net, log) = (Net::new(), Log::default());
    let (a, b) = (Voter::new("a", Vote::Yes, &log), Voter::new("b", Vote::Yes, &log));
    let effects = net.effects().unwrap().enlist(a.clone()).enlist(b.clone()).enlist(a.clone());
    effects.step(&net.adam).wait().unwrap();
    assert_eq!(taken(&log), ["a is asked for step 0", "b is asked for step 0", "a changes", "b changes"]);
    net.effects().unwrap().enlist(b).step(&net.adam).wait().unwrap();
    assert_eq!(taken(&log), ["b is asked for step 1", "b changes"]);
    assert_eq!((net.seen.value(), net.adam.memory().unwrap().steps()), (2.0, 2));
}

#[test]
fn refusal_of_participant_changes_nothing() {
    for no in [Vote::No, Vote::Panic] {
        let (net, log) = (Net::new(), Log::default());
        net.effects().unwrap().step(&net.adam).wait().unwrap();
        let before = net.state();
        let (a, b, c) = (Voter::new("a", Vote::Yes, &log), Voter::new("b", no, &log), Voter::new("c", Vote::Yes, &log));
        let effects = net.effects().unwrap().enlist(a).enlist(b.clone()).enlist(c);
        let error = effects.step(&net.adam).wait().unwrap_err();
        assert_eq!((error.is_panic(), error.is_invalid()), (no == Vote::Panic, no == Vote::No), "{error}");
        assert_eq!(taken(&log), ["a is asked for step 1", "b is asked for step 1", "a is released"]);
        assert_eq!(net.state(), before);
        // the same gradients can be applied when it agrees
        *b.vote.lock().unwrap() = Vote::Yes;
        effects.step(&net.adam).wait().unwrap();
        assert_ne!(net.state(), before);
        assert_eq!((net.seen.value(), net.adam.memory().unwrap().steps()), (2.0, 2));
    }
}

#[test]
fn refusal_by_participant_keeps_weights_of_plain_descent() {
    let (log, weights) = (Log::default(), [1.0, 2.0].map(Weight::<f64>::new));
    let no = Voter::new("no", Vote::No, &log);
    let effects = (&weights[0] * &weights[1]).backward().wait().unwrap().enlist(no);
    assert!(effects.step(&Sgd::new(0.5)).wait().is_err());
    assert_eq!(weights.each_ref().map(Weight::value), [1.0, 2.0]);
}

#[test]
fn participant_is_not_asked_about_refused_step() {
    let (net, log) = (Net::new(), Log::default());
    let voter = Voter::new("a", Vote::Yes, &log);
    net.weights[1].set(f64::NAN);
    let before = net.state();
    let effects = net.effects().unwrap().enlist(voter.clone());
    assert!(effects.step(&net.adam.clone().refuse_non_finite()).wait().unwrap_err().is_not_finite());
    assert_eq!((taken(&log), net.state()), (vec![], before));
    assert!(effects.preview(&Sgd::new(0.5)).wait().is_ok());
    assert!(taken(&log).is_empty());
}

#[test]
fn panic_of_agreed_change_does_not_undo_step() {
    let (net, log) = (Net::new(), Log::default());
    let (a, b) = (Voter::new("a", Vote::Break, &log), Voter::new("b", Vote::Yes, &log));
    net.effects().unwrap().enlist(a).enlist(b).step(&net.adam).wait().unwrap();
    assert_eq!(taken(&log)[2..], ["a changes", "b changes"]);
    assert_eq!((net.seen.value(), net.adam.memory().unwrap().steps()), (1.0, 1));
}

#[test]
fn sums_and_products_of_gradients_keep_participants() {
    let (net, log) = (Net::new(), Log::default());
    let (a, b) = (Voter::new("a", Vote::Yes, &log), Voter::new("b", Vote::Yes, &log));
    let w = Weight::new(1.0_f64);
    let other = || w.layer().backward().wait().unwrap();
    let sum = 0.5 * (net.effects().unwrap().enlist(a.clone()) + other().enlist(b).enlist(a));
    sum.evaluate().wait().unwrap().clip_norm(1.0).wait().unwrap().step(&net.adam).wait().unwrap();
    assert_eq!(taken(&log), ["a is asked for step 0", "b is asked for step 0", "a changes", "b changes"]);
    // a participant alone takes part, too
    let c = Voter::new("c", Vote::No, &log);
    let alone = SideEffects::none().enlist(c);
    assert!(!alone.is_none() && alone.step(&net.adam).wait().is_err());
}

#[test]
fn layer_with_hand_written_backward_enlists_participant() {
    let (log, w) = (Log::default(), Weight::new(3.0_f64));
    let voter = Voter::new("far", Vote::Yes, &log);
    let far = |voter: &Arc<Voter>| {
        let voter = voter.clone();
        Layer::from(Do::now(()).map(move |()| {
            let voter = voter.clone();
            Tape::new(2.0, move |_| SideEffects::none().enlist(voter.clone()))
        }))
    };
    (&w * far(&voter)).train(&Sgd::new(0.5)).wait().unwrap();
    assert_eq!(w.value(), 2.0);
    assert_eq!(taken(&log), ["far is asked for step 0", "far changes"]);
    *voter.vote.lock().unwrap() = Vote::No;
    assert!((&w * far(&voter)).train(&Sgd::new(0.5)).wait().unwrap_err().to_string().contains("far refuses"));
    assert_eq!(w.value(), 2.0);
}

/// Looks at the weights of a step in both phases.
struct Look(Weight<f64>, Mutex<Vec<f64>>);

impl Participant for Look {
    fn vote<'a>(&'a self, step: &Step<'_>) -> Result<Box<dyn FnOnce() + 'a>> {
        step.each_delta(&mut |id, chunk| {
            assert_eq!(id, self.0.id());
            let Chunk::F64 { deltas, .. } = chunk else { unreachable!("the weight is a number") };
            self.1.lock().unwrap().extend(deltas.iter());
            Ok(())
        })?;
        self.1.lock().unwrap().push(self.0.value());
        Ok(Box::new(|| self.1.lock().unwrap().push(self.0.value())))
    }
}

#[test]
fn participant_sees_deltas_and_both_values() {
    let w = Weight::new(3.0_f64);
    let look = Arc::new(Look(w.clone(), Mutex::default()));
    (&w * &w).backward().wait().unwrap().enlist(look.clone()).step(&Sgd::new(0.25)).wait().unwrap();
    assert_eq!(*look.1.lock().unwrap(), [6.0, 3.0, 1.5]);
}

/// Takes a step on the same weight, in the vote or in the change.
struct Nested(Weight<f64>, bool, AtomicU32);

impl Nested {
    fn step(&self) -> Result<()> {
        let ended = (&self.0 * 2.0).train(&Sgd::new(0.5)).wait().map(drop);
        self.2.fetch_add(u32::from(ended.is_err()), SeqCst);
        ended
    }
}

impl Participant for Nested {
    fn vote<'a>(&'a self, _: &Step<'_>) -> Result<Box<dyn FnOnce() + 'a>> {
        if self.1 {
            self.step()?;
        }
        Ok(Box::new(|| drop(self.step())))
    }
}

#[test]
fn step_of_participant_on_locked_weight_fails_and_does_not_hang() {
    for in_vote in [true, false] {
        let w = Weight::new(3.0_f64);
        let nested = Arc::new(Nested(w.clone(), in_vote, AtomicU32::new(0)));
        let snapshot = Snapshot::take();
        let ended = (&w * &w).backward().wait().unwrap().enlist(nested.clone()).step(&Sgd::new(0.25)).wait();
        assert_eq!((ended.is_err(), nested.2.load(SeqCst)), (in_vote, 1));
        assert_eq!(w.value(), if in_vote { 3.0 } else { 1.5 });
        assert_eq!(w.layer().predict().on(&snapshot).wait().unwrap(), 3.0);
    }
}
