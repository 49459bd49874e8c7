//! Helpers for the tests of several packages.

#![forbid(unsafe_code)]

pub mod fuzz;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Runs `f` in a rayon pool of this many threads.
pub fn on_threads<R: Send>(threads: usize, f: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(f)
}

/// Runs `f` on a new thread. Panics if `f` does not return within two minutes.
pub fn watched<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    watched_as(String::new, f)
}

/// [`watched`], with a description of `f` for the panic message.
pub fn watched_as<R: Send + 'static>(what: impl FnOnce() -> String, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, result) = mpsc::channel();
    let worker = std::thread::spawn(move || done.send(f()));
    match result.recv_timeout(Duration::from_secs(120)) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("this hangs: {}", what()),
        Err(RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(worker.join().expect_err("the thread ended without a result"))
        }
    }
}
