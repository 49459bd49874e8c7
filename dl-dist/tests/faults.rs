//! A fault at every message: each step is taken by all ranks, or by none.

use super::support::{Expert, bits_of};
use dl_core::{Differentiable, Error, Layer, Module as _, Result, Weight};
use dl_dist::{Cluster, Engine, Placed};
use dl_nd::{Nd, NdLayer, ops::*};
use dl_nn::Block;
use dl_optim::Adam;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// What happens to one message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// The engine of the sender fails.
    Fail,
    /// It comes twice.
    Double,
    /// It comes late, as do those after it.
    Late,
}

/// The connection of two ranks, with a fault at one message.
pub(crate) struct Line {
    rank: usize,
    /// The number of the message among all.
    at: usize,
    fault: Fault,
    shared: Arc<Shared>,
}

#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) sent: AtomicUsize,
    /// The messages to each rank, and whether their sender has ended.
    queues: Mutex<[(VecDeque<Vec<u8>>, bool); 2]>,
    arrived: Condvar,
}

impl Line {
    pub(crate) fn new(rank: usize, at: usize, fault: Fault, shared: &Arc<Shared>) -> Line {
        Line { rank, at, fault, shared: shared.clone() }
    }
}

impl Engine for Line {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        2
    }

    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<()> {
        let has_fault = self.shared.sent.fetch_add(1, SeqCst) == self.at;
        match self.fault {
            Fault::Fail if has_fault => return Err(Error::invalid("the line is down")),
            Fault::Late if has_fault => std::thread::sleep(Duration::from_millis(10)),
            _ => {}
        }
        let mut queues = self.shared.queues.lock().unwrap();
        if has_fault && self.fault == Fault::Double {
            queues[to].0.push_back(message.clone());
        }
        queues[to].0.push_back(message);
        self.shared.arrived.notify_all();
        Ok(())
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<(usize, Vec<u8>)>> {
        let queues = self.shared.queues.lock().unwrap();
        let is_quiet = |queues: &mut [(VecDeque<Vec<u8>>, bool); 2]| {
            let (queue, ended) = &queues[self.rank];
            queue.is_empty() && !ended
        };
        let mut queues = self.shared.arrived.wait_timeout_while(queues, wait, is_quiet).unwrap().0;
        match &mut queues[self.rank] {
            (queue, true) if queue.is_empty() => Err(Error::invalid("the other rank has ended")),
            (queue, _) => Ok(queue.pop_front().map(|message| (1 - self.rank, message))),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.shared.queues.lock().unwrap()[1 - self.rank].1 = true;
        self.shared.arrived.notify_all();
    }
}

const STEPS: usize = 2;

/// Which ranks take a step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    All,
    /// All, and one of them has the state of the optimizer for the weight on both.
    AllWithShards,
    RankZero,
}

/// The number of steps of a rank, and the bits that it has in the end: those of the expert, and of its
/// replica of the weight.
type Ended = (usize, Vec<u32>, Vec<u32>);

/// Steps on a weight of rank 0 and an expert of rank 1, until one fails.
fn run(at: usize, fault: Fault, by: By) -> ([Ended; 2], usize) {
    let shared = Arc::new(Shared::default());
    let program = |rank: usize| {
        let cluster = Cluster::with(Line::new(rank, at, fault, &shared));
        let (near, adam) = (Weight::new(0.5_f32), Adam::new(0.05));
        let x: NdLayer = Layer::constant(Nd::full([1, 6], 0.5));
        let placed: Result<Placed<Expert>> =
            cluster.set_optimizer(&adam).and_then(|()| cluster.place(1, || Expert::new(0)));
        let Ok(far) = placed else { return (0, Vec::new(), Vec::new()) };
        let loss = |part: usize| far.of(&(&x * &near * (1.0 + part as f32))).square().mean();
        let step = |_: &usize| match (by, rank) {
            (By::All, _) => cluster.sum(2, loss).train(&(&near, &far), &adam).is_ok(),
            (By::AllWithShards, _) => cluster.sum(2, loss).shard_state().train(&(&near, &far), &adam).is_ok(),
            (By::RankZero, 0) => loss(0).train(&adam).wait().is_ok(),
            (By::RankZero, _) => false,
        };
        let taken = (0..STEPS).take_while(step).count();
        let here = far.get().cloned();
        drop(cluster); // takes part in the steps of rank 0 until it has ended
        let own = if rank == 0 { Vec::new() } else { here.iter().flat_map(bits_of).collect() };
        let replica = if by == By::RankZero && rank == 1 { Vec::new() } else { bits_of(&near) };
        (taken, own, replica)
    };
    let ended = std::thread::scope(|scope| {
        [0, 1].map(|rank| scope.spawn(move || program(rank))).map(|thread| thread.join().expect("no panic"))
    });
    (ended, shared.sent.load(SeqCst))
}

/// The bits of the expert after each number of steps.
fn after_steps(all_ranks: bool) -> Vec<Vec<u32>> {
    let (near, adam, far) = (Weight::new(0.5_f32), Adam::new(0.05), Expert::new(0).unwrap());
    let x: NdLayer = Layer::constant(Nd::full([1, 6], 0.5));
    let loss = |part: usize| Block::of(&far, &(&x * &near * (1.0 + part as f32))).square().mean();
    let mut all = vec![bits_of(&far)];
    for _ in 0..STEPS {
        match all_ranks {
            true => drop(dl_core::Parts::sum([loss(0), loss(1)]).train(&adam).wait().unwrap()),
            false => drop(loss(0).train(&adam).wait().unwrap()),
        }
        all.push(bits_of(&far));
    }
    assert_eq!(far.names().len(), 4);
    all
}

#[test]
fn fault_at_any_message_leaves_whole_steps_of_all_ranks_only() {
    whole_steps_only(By::All);
}

#[test]
fn fault_at_any_message_leaves_whole_steps_with_shards_of_state_only() {
    whole_steps_only(By::AllWithShards);
}

fn whole_steps_only(by: By) {
    let expected = after_steps(true);
    let (_, messages) = run(usize::MAX, Fault::Late, by);
    for fault in [Fault::Fail, Fault::Double, Fault::Late] {
        for at in 0..messages {
            let ([near, far], _) = run(at, fault, by);
            assert_eq!(near.0, far.0, "{fault:?} at message {at} of {messages}");
            assert!(far.1.is_empty() || near.2 == far.2, "{fault:?} at message {at} of {messages}");
            assert!(far.1.is_empty() || far.1 == expected[far.0], "{fault:?} at message {at} of {messages}");
            assert!(near.0 == STEPS || fault == Fault::Fail, "{fault:?} at message {at} of {messages}");
        }
    }
}

#[test]
fn fault_at_any_message_leaves_whole_steps_of_one_rank_unless_decision_is_lost() {
    let expected = after_steps(false);
    let (_, messages) = run(usize::MAX, Fault::Late, By::RankZero);
    let mut lost_decisions = 0;
    for fault in [Fault::Fail, Fault::Double, Fault::Late] {
        for at in 0..messages {
            let ([near, far], _) = run(at, fault, By::RankZero);
            let taken = expected.iter().position(|bits| *bits == far.1);
            if far.1.is_empty() {
                assert!(fault == Fault::Fail, "the expert was not placed");
            } else if taken != Some(near.0) {
                // Rank 0 knows that its decision could not be sent: all steps after it fail.
                assert!(fault == Fault::Fail && taken == Some(near.0 - 1), "{fault:?} at message {at} of {messages}");
                lost_decisions += 1;
            }
            assert!(near.0 == STEPS || fault == Fault::Fail, "{fault:?} at message {at} of {messages}");
        }
    }
    assert!(lost_decisions <= 2 * STEPS, "{lost_decisions} decisions were lost");
}
