//! Requests to stop a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to stop a run. The run checks it between two steps. Clones share one request.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Sgd;
/// use dl_train::{Interrupt, Stopped, Trainer};
/// let (w, interrupt) = (Weight::new(1.0_f64), Interrupt::new());
/// let trainer = Trainer::new(&Sgd::new(0.1), 5).interrupt(&interrupt);
/// let outcome = trainer.run(
///     |_| Ok((0..10).map(Ok)),
///     |batch| {
///         if batch == 3 {
///             interrupt.request(); // this step is still completed
///         }
///         &w * &w
///     },
/// )?;
/// assert_eq!((outcome.stopped, outcome.steps), (Stopped::Interrupted, 4));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// A request that has not been made yet.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// Requests the run to stop.
    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether the request has been made.
    ///
    /// ```
    /// let interrupt = dl_train::Interrupt::new();
    /// assert!(!interrupt.is_requested());
    /// interrupt.clone().request();
    /// assert!(interrupt.is_requested());
    /// ```
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[cfg(feature = "terminal")]
mod ctrl_c {
    use super::Interrupt;
    use dl_core::{Error, Result};
    use std::sync::{Arc, Mutex, PoisonError};

    /// The request that the signal handler makes. It is `Some` once the handler is installed.
    static CURRENT: Mutex<Option<Interrupt>> = Mutex::new(None);

    /// The exit code of a program ended by SIGINT, as shells report it.
    const SIGINT_EXIT_CODE: i32 = 130;

    impl Interrupt {
        /// Whether a clone exists that can observe the request, and the request has not been made
        /// yet.
        fn can_be_observed(&self) -> bool {
            Arc::strong_count(&self.0) > 1 && !self.is_requested()
        }

        /// A request that is made by Ctrl-C or another termination signal. A second signal exits
        /// the program at once. So does the first one if no clone of this request exists any more.
        /// Each call returns a fresh request that replaces earlier ones.
        ///
        /// ```
        /// use dl_optim::Sgd;
        /// use dl_train::{Interrupt, Trainer};
        /// let interrupt = Interrupt::on_ctrl_c()?;
        /// let trainer = Trainer::new(&Sgd::new(0.1), 30).interrupt(&interrupt);
        /// assert!(!interrupt.is_requested());
        /// # dl_core::Result::Ok(())
        /// ```
        ///
        /// A program started in the background, where Ctrl-C is ignored, still responds to a signal
        /// sent to it.
        ///
        /// # Errors
        /// When the program already has a handler installed by the crate `ctrlc`, or the system
        /// refuses one.
        pub fn on_ctrl_c() -> Result<Interrupt> {
            let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
            if current.is_none() {
                ctrlc::set_handler(|| {
                    let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
                    match &*current {
                        Some(interrupt) if interrupt.can_be_observed() => interrupt.request(),
                        _ => std::process::exit(SIGINT_EXIT_CODE),
                    }
                })
                .map_err(|error| Error::other(error).context("cannot install a handler for Ctrl-C"))?;
            }
            Ok(current.insert(Interrupt::new()).clone())
        }
    }
}
