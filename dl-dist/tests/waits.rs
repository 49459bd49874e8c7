//! Waits for other ranks, each of which must end.

use crate::support::{Expert, bits_of};
use dl_core::{Chunk, Differentiable, Error, Layer, Module, Optimizer, Result, Step, Visitor};
use dl_dist::{Cluster, Engine, Placed, remote};
use dl_nd::{Nd, NdLayer, ops::*};
use dl_nn::Block;
use dl_optim::Sgd;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Barrier};
use std::time::Duration;

fn input() -> NdLayer {
    Layer::constant(Nd::full([1, 6], 0.5))
}

fn loss(expert: &Placed<Expert>) -> Layer<f32> {
    expert.of(&input()).square().mean()
}

/// Calls a module on another rank.
#[derive(Clone)]
struct Caller(Placed<Expert>);

impl Module for Caller {
    fn visit(&self, _: &mut Visitor) {}
}

#[remote(crate = dl_dist)]
impl Block for Caller {
    fn of(&self, x: &NdLayer) -> NdLayer {
        self.0.of(x)
    }
}

#[test]
fn failure_of_rank_behind_another_one_is_the_error() {
    let ended = Cluster::run_on(3, |cluster| {
        let last = cluster.place(2, || Expert::new(0))?;
        let caller = cluster.place(1, || Ok(Caller(last.clone())))?;
        match cluster.rank() {
            0 => loop {
                caller.of(&input()).predict().wait()?; // ends with an error
            },
            1 => Ok(()),
            _ => Err(Error::invalid("rank two gives up")),
        }
    });
    assert_eq!(ended.unwrap_err().to_string(), "rank 2: rank two gives up");
}

/// Where an optimizer panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Begin,
    ForWeight,
    Slots,
    Step,
}

#[derive(Clone)]
struct Panicking(At);

impl Panicking {
    fn at(&self, at: At) {
        assert!(self.0 != at, "the optimizer falls over");
    }
}

impl Optimizer for Panicking {
    fn begin<'o>(&'o self, _: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        self.at(At::Begin);
        Ok(None)
    }

    fn for_weight<'o>(&'o self, _: dl_core::WeightId) -> Option<Box<dyn Optimizer + 'o>> {
        self.at(At::ForWeight);
        None
    }

    fn slots(&self) -> &[dl_core::Slot] {
        self.at(At::Slots);
        &[]
    }

    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        self.at(At::Step);
        Ok(())
    }
}

#[test]
fn panic_of_optimizer_on_owner_is_error_of_caller() -> Result<()> {
    for at in [At::Begin, At::ForWeight, At::Slots, At::Step] {
        Cluster::run_on(2, |cluster| {
            let far = cluster.place(1, || Expert::new(0))?;
            match cluster.rank() {
                0 => cluster.set_optimizer(&Sgd::new(0.1))?,
                _ => cluster.set_optimizer(&Named(Panicking(at)))?,
            }
            if cluster.rank() == 0 {
                for _ in 0..2 {
                    let before = bits_of(&far);
                    let error = loss(&far).train(&Sgd::new(0.1)).wait().unwrap_err();
                    assert!(error.is_panic() && error.to_string().contains("falls over"), "{at:?}: {error}");
                    assert_eq!(bits_of(&far), before);
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// With the kind of [`Sgd`].
#[derive(Clone)]
struct Named(Panicking);

impl Optimizer for Named {
    dl_core::forward_optimizer!(this => this.0; slots memory begin for_weight step descent decays_weights notes);

    fn kind(&self) -> String {
        Sgd::new(0.1).kind()
    }
}

/// Holds each step, with the locks of its weights, until both ranks take one.
#[derive(Clone)]
struct Together(Sgd, Arc<Barrier>);

impl Optimizer for Together {
    dl_core::forward_optimizer!(this => this.0; slots memory for_weight step notes kind);

    fn begin<'o>(&'o self, _: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        self.1.wait();
        Ok(None)
    }
}

#[test]
fn two_ranks_that_change_the_same_modules_at_once_do_not_deadlock() -> Result<()> {
    let barrier = Arc::new(Barrier::new(2));
    let ended = Cluster::run_on(2, |cluster| {
        let experts = cluster.spread(0..2, Expert::new)?;
        let sgd = Sgd::new(0.1);
        cluster.set_optimizer(&sgd)?;
        let both = || loss(&experts[0]) + loss(&experts[1]);
        let first = both().train(&Together(sgd.clone(), barrier.clone())).wait();
        cluster.compare::<[f32; 0]>(&[])?;
        let texts = first.err().map(|error| error.to_string());
        let before = bits_of(&experts);
        cluster.compare::<[f32; 0]>(&[])?;
        // One after the other, each step is taken.
        if cluster.rank() == 1 {
            both().train(&sgd).wait()?;
        }
        cluster.compare::<[f32; 0]>(&[])?;
        assert_ne!(bits_of(&experts), before);
        Ok(texts)
    })?;
    let refused: Vec<&String> = ended.iter().flatten().collect();
    assert!(refused.iter().all(|text| text.contains("one step at a time")), "{refused:?}");
    assert_eq!(refused.len(), 1, "{refused:?}");
    Ok(())
}

/// One of two ranks, which panics at its n-th message.
struct Falls {
    rank: usize,
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
    left: usize,
}

impl Engine for Falls {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        2
    }

    fn send(&mut self, _: usize, message: Vec<u8>) -> Result<()> {
        let _ = self.to.send(message);
        Ok(())
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<(usize, Vec<u8>)>> {
        match self.from.recv_timeout(wait) {
            Ok(message) => {
                self.left -= 1;
                assert!(self.left > 0, "the engine falls over");
                Ok(Some((1 - self.rank, message)))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
        }
    }
}

#[test]
fn panic_of_engine_is_error_on_all_ranks() {
    let ((to_one, from_zero), (to_zero, from_one)) = (channel(), channel());
    let engines = [
        Falls { rank: 0, to: to_one, from: from_one, left: usize::MAX },
        Falls { rank: 1, to: to_zero, from: from_zero, left: 4 },
    ];
    let ended = std::thread::scope(|scope| {
        let run = |engine| {
            move || -> Result<()> {
                let (cluster, w) = (Cluster::with(engine), dl_core::Weight::new(1.0_f64));
                loop {
                    cluster.compare(&w)?;
                }
            }
        };
        engines.map(|engine| scope.spawn(run(engine))).map(|thread| thread.join().unwrap().unwrap_err().to_string())
    });
    assert!(ended[0].contains("rank 1 has ended") && ended[1].contains("panicked"), "{ended:?}");
}

/// Runs [`many_ranks`] in a process of its own that has memory for about 20 threads, and returns what
/// it has printed.
#[cfg(target_os = "linux")]
fn with_little_memory(ranks: usize) -> String {
    let limited = "ulimit -v 6291456; exec \"$0\" --nocapture --exact waits::many_ranks";
    let mut shell = std::process::Command::new("sh");
    let shell = shell.args(["-c", limited]).arg(std::env::current_exe().unwrap());
    let settings = [(RANKS, ranks.to_string()), ("RUST_MIN_STACK", (1 << 28).to_string())];
    let shell = shell.envs(settings).env("MALLOC_ARENA_MAX", "1");
    let mut child = shell.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let begin = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            panic!("{ranks} ranks wait for ever");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    std::io::read_to_string(child.stdout.take().unwrap()).unwrap()
}

/// The number of ranks of [`many_ranks`].
const RANKS: &str = "DL_TEST_RANKS";

#[test]
fn many_ranks() {
    let Ok(ranks) = std::env::var(RANKS) else { return };
    let begun = AtomicUsize::new(0);
    let ended = Cluster::run_on(ranks.parse().unwrap(), |cluster| {
        begun.fetch_add(1, SeqCst);
        cluster.compare::<[f32; 0]>(&[])
    });
    println!("{} have begun: {:?}", begun.into_inner(), ended.map_err(|error| error.to_string()).err());
}

#[cfg(target_os = "linux")]
#[test]
fn rank_without_thread_is_error_before_any_program_begins() {
    let text = with_little_memory(4);
    assert!(text.contains("4 have begun: None"), "{text}");
    // In the middle of the threads of programs, and of those for messages.
    for ranks in [1_000_000_000, 14] {
        let text = with_little_memory(ranks);
        let error = format!("of {ranks} cannot be started as a thread: use fewer ranks (`DL_RANKS`)");
        assert!(text.contains("0 have begun: Some(\"rank ") && text.contains(&error), "{text}");
        assert_eq!(text.contains("the thread `dl-rank`"), ranks == 14, "{text}");
    }
}

/// Evaluates a module on another rank as a step begins.
#[derive(Clone)]
struct Looking(Sgd, Option<Placed<Expert>>);

impl Optimizer for Looking {
    dl_core::forward_optimizer!(this => this.0; slots memory for_weight step notes kind);

    fn begin<'o>(&'o self, _: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        if let Some(far) = &self.1 {
            // The owner waits for the vote of this rank by now.
            std::thread::sleep(Duration::from_millis(100));
            far.of(&input()).predict().wait()?;
        }
        Ok(None)
    }
}

#[test]
fn optimizer_that_evaluates_placed_module_does_not_deadlock() -> Result<()> {
    for caller in [0, 1] {
        Cluster::run_on(3, |cluster| {
            let far = cluster.place(1 - caller, || Expert::new(0))?;
            let before = bits_of(&far);
            let looking = Looking(Sgd::new(0.1), (cluster.rank() == caller).then(|| far.clone()));
            cluster.sum(3, |_| loss(&far)).train(&far, &looking)?;
            // A call after the step sees its weights.
            assert_ne!(bits_of(&far), before);
            Ok(())
        })?;
    }
    Ok(())
}
