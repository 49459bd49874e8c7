//! One run of a computation: in which pass it runs, and how it drives it.

use crate::error::Result;
use crate::exec::computation::{Computation, FromFn, PassChoice};
use crate::exec::context::polling;
use crate::exec::{self, Counters, Owner, Pass, Purpose, Settings, user_code};
use crate::graph::erased_arc::ErasedArc;
use crate::graph::inline_box::InlineFuture;
use crate::graph::seed::Position;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// One run of a [`Do`](crate::Do), as a future. Dropping it cancels the work.
///
/// ```
/// use dl_core::{Do, Run};
/// let two = Do::now(1).map(|x| x + 1);
/// let run: Run<i32> = two.run();
/// assert_eq!(Do::from_future(run).wait()?, 2);
/// # dl_core::Result::Ok(())
/// ```
#[must_use = "futures do nothing unless polled: write `.await?`"]
pub struct Run<T> {
    computation: ErasedArc<dyn Computation<T>>,
    scope: Scope,
    settings: Settings,
    /// Present between the first poll and the end.
    future: Option<InlineFuture<Result<T>>>,
    /// Whether the caller asked for the counters of the pass, and their values once the run has
    /// ended.
    pub(crate) counts: bool,
    pub(crate) counters: Option<Counters>,
}

enum Scope {
    Unstarted,
    /// The run drives this pass.
    Continuing(Owner),
    /// The run is part of a pass that another run drives.
    Within,
    Driving(Drive),
    Ended,
}

/// A driver of a pass.
struct Drive {
    pass: Owner,
    /// Its number there.
    number: u32,
    /// The amount of work, in nanoseconds, that it last asked for help with.
    asked: f64,
    /// The position at which it continues to build layers.
    position: Position,
    /// Whether it is certain to take no training step.
    only_predicts: bool,
}

impl Scope {
    fn driving(pass: Owner, only_predicts: bool) -> Scope {
        let number = pass.arrive();
        let position = Position::in_body(number.into());
        Scope::Driving(Drive { pass, number, asked: 0.0, position, only_predicts })
    }
}

impl<T> Run<T> {
    pub(crate) fn new(computation: ErasedArc<dyn Computation<T>>, settings: Settings) -> Self {
        Run { computation, scope: Scope::Unstarted, settings, future: None, counts: false, counters: None }
    }

    /// A run that continues in a pass which has begun.
    pub(crate) fn resume(computation: ErasedArc<dyn Computation<T>>, pass: Owner) -> Self {
        let mut run = Run::new(computation, Settings::default());
        run.scope = Scope::Continuing(pass);
        run
    }

    /// The pass that the run belongs to, chosen when it is first polled.
    fn scope(&mut self, scope: Scope) -> Scope {
        let pass_choice = self.computation.pass_choice();
        let only_predicts = matches!(pass_choice, PassChoice::New(Purpose::Predict));
        if let Scope::Continuing(pass) = scope {
            return Scope::driving(pass, only_predicts);
        }
        let settings = std::mem::take(&mut self.settings);
        match (pass_choice, exec::with_current(|pass| pass.is_some())) {
            (PassChoice::Current, true) => Scope::Within,
            (PassChoice::Current, false) => Scope::driving(Pass::new(Purpose::Train, &settings).into(), false),
            (PassChoice::New(purpose), _) => Scope::driving(Pass::new(purpose, &settings).into(), only_predicts),
            (PassChoice::Existing(pass), _) if exec::is_current(&pass) => Scope::Within,
            (PassChoice::Existing(pass), _) => Scope::driving(pass, false),
        }
    }
}

impl<T: Send + 'static> Run<T> {
    /// A run of a computation that calls `start`.
    pub(crate) fn from_fn<F, Fut>(pass_choice: PassChoice, start: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        Run::new(ErasedArc::computation(FromFn { pass_choice, start }), Settings::made_here())
    }
}

impl<T> fmt::Debug for Run<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Run(..)")
    }
}

impl<T> Future for Run<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let this = &mut *self;
        if matches!(this.scope, Scope::Unstarted | Scope::Continuing(_)) {
            let scope = std::mem::replace(&mut this.scope, Scope::Ended);
            this.scope = this.scope(scope);
        }
        let (computation, future) = (&this.computation, &mut this.future);
        let mut poll = |cx: &mut Context<'_>| match exec::check_instructions() {
            Ok(()) => Pin::new(future.get_or_insert_with(|| computation.start())).poll(cx),
            Err(error) => Poll::Ready(Err(error)),
        };
        let ended = match &mut this.scope {
            Scope::Driving(drive) => loop {
                drive.pass.drive(drive.number);
                let outside = drive.position.enter();
                let step = polling(&drive.pass, false, || user_code::run(|| poll(cx)));
                drive.position = outside.enter();
                match step.unwrap_or_else(|error| Poll::Ready(Err(error))) {
                    Poll::Ready(result) => break result,
                    Poll::Pending => {
                        if !drive.pass.advance(drive.number, &mut drive.asked, cx.waker()) {
                            return Poll::Pending;
                        }
                    }
                }
            },
            Scope::Within => match poll(cx) {
                Poll::Ready(result) => result,
                Poll::Pending => return Poll::Pending,
            },
            _ => unreachable!("a run is not polled after it has ended"),
        };
        // A destructor of user code may panic: an error like any other.
        let dropped = user_code::run(|| drop(this.future.take()));
        let parted = match std::mem::replace(&mut this.scope, Scope::Ended) {
            Scope::Driving(drive) => {
                drive.pass.leave(drive.number);
                this.counters = this.counts.then(|| drive.pass.counters());
                let parted = drive.pass.part();
                // In other passes a step may have been taken, which is not undone.
                if drive.only_predicts { parted } else { Ok(()) }
            }
            _ => {
                this.counters = exec::current().filter(|_| this.counts).map(|pass| pass.counters());
                Ok(())
            }
        };
        Poll::Ready(dropped.and(ended).and_then(|value| parted.map(|()| value)))
    }
}

/// A pass whose only driver is dropped stops, and frees its futures.
impl<T> Drop for Run<T> {
    fn drop(&mut self) {
        if let Scope::Driving(drive) = std::mem::replace(&mut self.scope, Scope::Ended) {
            drive.pass.leave(drive.number);
            drop(self.future.take());
            let _ = drive.pass.part(); // whoever drops a run does not want to know
        }
    }
}
