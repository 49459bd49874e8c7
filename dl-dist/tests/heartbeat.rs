//! Ranks that cannot reach each other any more.

use dl_core::{Error, Result, Weight};
use dl_dist::{Cluster, Engine, is_lost};
use dl_optim::Sgd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SILENCE: Duration = Duration::from_millis(600);

/// One of two ranks, and the link between them. Messages over a link that is down vanish.
struct Link {
    rank: usize,
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
    is_down: Arc<AtomicBool>,
    aborted: Arc<Mutex<Vec<String>>>,
}

impl Engine for Link {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        2
    }

    fn send(&mut self, _: usize, message: Vec<u8>) -> Result<()> {
        if !self.is_down.load(SeqCst) {
            let _ = self.to.send(message);
        }
        Ok(())
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<(usize, Vec<u8>)>> {
        match self.from.recv_timeout(wait) {
            Ok(message) => Ok(Some((1 - self.rank, message))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(wait);
                Ok(None)
            }
        }
    }

    fn silence(&self) -> Option<Duration> {
        Some(SILENCE)
    }

    fn abort(&mut self, reason: &str) {
        self.aborted.lock().unwrap().push(reason.to_owned());
    }
}

/// Runs a program on two ranks with a link, and returns the results and the reasons of aborts.
fn run<R: Send>(program: impl Fn(&Cluster, &AtomicBool) -> R + Sync) -> ([R; 2], Vec<String>) {
    let (down, aborted) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let ((to_one, from_zero), (to_zero, from_one)) = (channel(), channel());
    let engine = |rank, to, from| Link { rank, to, from, is_down: down.clone(), aborted: aborted.clone() };
    let engines = [engine(0, to_one, from_one), engine(1, to_zero, from_zero)];
    let (program, down) = (&program, &down);
    let results = std::thread::scope(|scope| {
        let run = |engine| move || program(&Cluster::with(engine), down);
        engines.map(|engine| scope.spawn(run(engine))).map(|thread| thread.join().unwrap())
    });
    // the communication threads end after the programs
    let begin = Instant::now();
    while down.load(SeqCst) && aborted.lock().unwrap().len() < 2 && begin.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let aborted = aborted.lock().unwrap().clone();
    (results, aborted)
}

fn step(cluster: &Cluster, w: &Weight<f64>) -> Result<()> {
    cluster.sum(2, |part| w * (part + 1) as f64).train(w, &Sgd::new(0.1)).map(drop)
}

#[test]
fn link_that_goes_down_is_error_on_both_ranks() {
    let (errors, mut aborted) = run(|cluster, is_down| -> (Error, Duration) {
        let w = Weight::new(1.0_f64);
        step(cluster, &w).unwrap();
        let before = w.value();
        cluster.compare(&w).unwrap();
        is_down.store(true, SeqCst);
        let begin = Instant::now();
        let error = step(cluster, &w).unwrap_err();
        assert_eq!(w.value(), before);
        // at once: everything fails from now on
        let again = step(cluster, &w).unwrap_err();
        assert!(is_lost(&again) && w.value() == before);
        (error, begin.elapsed())
    });
    for (rank, (error, waited)) in errors.iter().enumerate() {
        let text = error.to_string();
        assert!(is_lost(error) && text.contains(&format!("rank {} is silent for 0.", 1 - rank)), "{text}");
        assert!(text.contains("; no step was taken") && *waited < 3 * SILENCE, "{text} {waited:?}");
    }
    aborted.sort();
    assert_eq!(aborted.len(), 2, "{aborted:?}");
    assert!(aborted[0].starts_with("rank 0: rank 1 is silent for"), "{aborted:?}");
}

#[test]
fn rank_that_computes_for_longer_than_the_limit_is_not_lost() {
    let (results, aborted) = run(|cluster, _| {
        let w = Weight::new(1.0_f64);
        if cluster.rank() == 1 {
            std::thread::sleep(3 * SILENCE);
        }
        step(cluster, &w)?;
        // the other rank waits for this one
        if cluster.rank() == 0 {
            std::thread::sleep(3 * SILENCE);
        }
        Ok(w.value())
    });
    assert_eq!(results.map(|result: Result<f64>| result.unwrap()), [0.7; 2]);
    assert!(aborted.is_empty(), "{aborted:?}");
}
