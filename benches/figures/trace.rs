//! A trace of two threads in a training step of the paper's network with all of its fine
//! classifiers, in the format of `chrome://tracing`.
//!
//! In a recorded step every kernel and every delta goes through the executor. A step that is not
//! recorded has fast paths for cheap ones, so the trace overstates their overhead.

use crate::common::{coarse_labels, fine_labels};
use crate::paper::images_and_net;
use dl::prelude::*;
use dl::record::{Recorder, Recording, SpanWork};
use dl::view::save_chrome_trace;
use std::time::Duration;

/// Warm-up steps, which allocate buffers and tables.
const STEPS_BEFORE: usize = 50;

/// Takes a step, saves its trace, and prints how long both threads work in parallel.
///
/// # Errors
/// If the step fails, or the file cannot be written.
pub(crate) fn save(path: &str) -> dl::Result<()> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
    let recording = pool.install(one_step)?;
    save_chrome_trace(&recording, path)?;
    let (both, one) = overlap(&recording);
    println!("{path}: both threads work for {both:.1?} of a step, one of them alone for {one:.1?}");
    Ok(())
}

fn one_step() -> dl::Result<Recording> {
    let (images, net) = images_and_net(4);
    let (coarse, fine, sgd) = (coarse_labels(0), fine_labels(0), Sgd::new(0.01));
    let loss = || net.loss(&images[0], &coarse, &fine, 0..net.fine.len());
    for _ in 0..STEPS_BEFORE {
        loss().train(&sgd).wait()?;
    }
    let recorder = Recorder::new();
    loss().train(&sgd).recorded(&recorder).wait()?;
    Ok(recorder.take())
}

/// The times during which two threads run kernels, and one thread does.
fn overlap(recording: &Recording) -> (Duration, Duration) {
    let kernels = recording.passes.iter().flat_map(|pass| &pass.spans).filter(|span| span.work == SpanWork::Kernel);
    let mut turns: Vec<(Duration, i32)> = kernels.flat_map(|span| [(span.began, 1), (span.ended, -1)]).collect();
    turns.sort_unstable();
    let (mut both, mut one) = (Duration::ZERO, Duration::ZERO);
    let (mut at_work, mut since) = (0, Duration::ZERO);
    for (now, change) in turns {
        match at_work {
            0 => {}
            1 => one += now - since,
            _ => both += now - since,
        }
        (at_work, since) = (at_work + change, now);
    }
    (both, one)
}
