//! Ctrl-C: the first signal stops the training after the current step, the second ends the process.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// The exit code of a process ended by SIGINT, as shells report it.
const EXIT_SIGINT: i32 = 130;

/// A flag that is set by Ctrl-C.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs the signal handler. Must be called at most once per process.
    pub(crate) fn listen() -> Result<Self, ctrlc::Error> {
        let interrupt = Self::default();
        let flag = interrupt.clone();
        ctrlc::set_handler(move || {
            if flag.0.swap(true, Ordering::Relaxed) {
                std::process::exit(EXIT_SIGINT);
            }
        })?;
        Ok(interrupt)
    }

    /// Whether training should stop.
    pub(crate) fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
