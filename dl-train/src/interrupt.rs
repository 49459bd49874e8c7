//! Asking a run to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to stop, which a run heeds between two steps. Clones are the same request.
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
///             interrupt.request(); // the step is finished
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
    /// One that nobody has made yet.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// Asks the run to stop.
    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it was asked to.
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

    /// The request that Ctrl-C makes; there is one once the handler is installed.
    static LATEST: Mutex<Option<Interrupt>> = Mutex::new(None);

    /// What a shell reports of a program that was ended by Ctrl-C.
    const ENDED_BY_CTRL_C: i32 = 130;

    impl Interrupt {
        /// Whether somebody is going to heed the request, and has not been asked yet.
        fn is_wanted(&self) -> bool {
            Arc::strong_count(&self.0) > 1 && !self.is_requested()
        }

        /// One that Ctrl-C makes, or another signal that asks the program to end. A second one ends
        /// the program at once, and so does the first when nobody has this request, or a clone of
        /// it, any more. Each call starts with no request, and takes the place of those from
        /// before.
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
        /// A program that was started in the background, where Ctrl-C is ignored, heeds a signal
        /// that is sent to it, too.
        ///
        /// # Errors
        /// When the program has a handler by the crate `ctrlc` already, or the system refuses one.
        pub fn on_ctrl_c() -> Result<Interrupt> {
            let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
            if latest.is_none() {
                ctrlc::set_handler(|| {
                    let latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
                    match &*latest {
                        Some(interrupt) if interrupt.is_wanted() => interrupt.request(),
                        _ => std::process::exit(ENDED_BY_CTRL_C),
                    }
                })
                .map_err(|error| Error::other(error).context("no handler for Ctrl-C"))?;
            }
            Ok(latest.insert(Interrupt::new()).clone())
        }
    }
}
