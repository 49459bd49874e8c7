//! Computations: what a `Do` runs, and the pass that a run belongs to.

use crate::error::Result;
use crate::exec::{Owner, Purpose, Settings};
use crate::graph::erased_arc::ErasedArc;
use crate::graph::inline_box::{InlineBox, InlineFuture};
use crate::graph::node::Outcome;
use std::future::Future;

/// The computation behind a [`Do`](crate::Do).
pub(crate) trait Computation<T>: Send + Sync {
    /// The pass that a run belongs to.
    fn pass_choice(&self) -> PassChoice;

    /// Starts a new run.
    fn start(&self) -> InlineFuture<Result<T>>;

    /// Starts a new run as the body of a layer, which belongs to the surrounding pass.
    fn start_body(&self, outcome: fn(T) -> Outcome) -> InlineFuture<Result<Outcome>>
    where
        T: Send + 'static,
    {
        let future = self.start();
        InlineBox::future(async move { future.await.map(outcome) })
    }

    /// Runs the computation synchronously, as far as it proceeds without waiting. Called on a
    /// thread that is free to block. A computation that completes here needs no future.
    fn try_run_sync(&self, settings: &Settings) -> SyncRun<T> {
        let _ = settings;
        SyncRun::Unsupported
    }
}

/// A computation that calls a function for each run.
pub(crate) struct FromFn<F> {
    pub(crate) pass_choice: PassChoice,
    pub(crate) start: F,
}

impl<T, F, Fut> Computation<T> for FromFn<F>
where
    T: Send + 'static,
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T>> + Send + 'static,
{
    fn pass_choice(&self) -> PassChoice {
        self.pass_choice.clone()
    }

    fn start(&self) -> InlineFuture<Result<T>> {
        InlineBox::future((self.start)())
    }

    fn start_body(&self, outcome: fn(T) -> Outcome) -> InlineFuture<Result<Outcome>> {
        let future = (self.start)();
        InlineBox::future(async move { future.await.map(outcome) })
    }
}

/// The result of [`Computation::try_run_sync`].
pub(crate) enum SyncRun<T> {
    Completed(Result<T>),
    /// The pass has started but the computation is incomplete.
    Started(Owner),
    /// The computation must be run as a future.
    Unsupported,
}

/// The pass that a run belongs to.
#[derive(Clone)]
pub(crate) enum PassChoice {
    /// The pass in which it is first polled, or a new pass if there is none.
    Current,
    /// A new pass.
    New(Purpose),
    /// This pass, which the run drives.
    Existing(Owner),
}

impl<T> ErasedArc<dyn Computation<T>> {
    #[inline]
    pub(crate) fn computation<R: Computation<T> + 'static>(computation: R) -> Self {
        ErasedArc::from_counted(ErasedArc::counted_of(computation))
    }
}
