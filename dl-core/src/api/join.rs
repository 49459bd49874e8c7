//! Concurrent extractions. All are awaited, and the leftmost error is reported, independent of
//! timing.

use crate::error::{Error, Result};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Runs a tuple of futures concurrently.
pub fn join<T: Together>(futures: T) -> Join<T::Slots> {
    Join(futures.slots())
}

/// A tuple of futures.
pub trait Together {
    /// The state of each future: the future, or its result.
    type Slots;

    /// Wraps the futures.
    fn slots(self) -> Self::Slots;
}

/// A tuple of concurrent futures.
#[must_use = "futures do nothing unless polled"]
pub struct Join<Slots>(Slots);

impl<Slots> Unpin for Join<Slots> {}

/// A future and then its result.
pub enum Slot<F, T> {
    Running(F),
    Done(Result<T>),
    Taken,
}

impl<F: Future<Output = Result<T>> + Unpin, T> Slot<F, T> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Slot::Running(future) = self {
            *self = Slot::Done(ready!(Pin::new(future).poll(cx)));
        }
        Poll::Ready(())
    }

    fn take(&mut self) -> Result<T> {
        match std::mem::replace(self, Slot::Taken) {
            Slot::Done(result) => result,
            Slot::Running(_) | Slot::Taken => unreachable!("taken once, after completion"),
        }
    }
}

macro_rules! tuples {
    ($($($F:ident $T:ident)+;)*) => {$(
        impl<$($F: Future<Output = Result<$T>> + Unpin, $T),+> Together for ($($F,)+) {
            type Slots = ($(Slot<$F, $T>,)+);

            fn slots(self) -> Self::Slots {
                #[allow(non_snake_case, reason = "a variable is named after its type")]
                let ($($F,)+) = self;
                ($(Slot::Running($F),)+)
            }
        }

        impl<$($F: Future<Output = Result<$T>> + Unpin, $T),+> Future for Join<($(Slot<$F, $T>,)+)> {
            type Output = Result<($($T,)+)>;

            fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
                #[allow(non_snake_case, reason = "a variable is named after its type")]
                let ($($F,)+) = &mut self.0;
                // All must be polled before returning `Pending`.
                let pending = [$($F.poll(cx).is_pending()),+];
                if pending.contains(&true) {
                    return Poll::Pending;
                }
                let mut failed: Option<Error> = None;
                $(#[allow(non_snake_case, reason = "a variable is named after its type")]
                let $T = $F.take().map_err(|error| {
                    failed = Some(error.added_to(failed.take()));
                    error
                });)+
                match failed {
                    Some(error) => Poll::Ready(Err(error)),
                    None => Poll::Ready(Ok(($($T?,)+))),
                }
            }
        }
    )*};
}

tuples! {
    A TA;
    A TA B TB;
    A TA B TB C TC;
    A TA B TB C TC D TD;
    A TA B TB C TC D TD E TE;
    A TA B TB C TC D TD E TE F TF;
    A TA B TB C TC D TD E TE F TF G TG;
    A TA B TB C TC D TD E TE F TF G TG H TH;
    A TA B TB C TC D TD E TE F TF G TG H TH I TI;
    A TA B TB C TC D TD E TE F TF G TG H TH I TI J TJ;
    A TA B TB C TC D TD E TE F TF G TG H TH I TI J TJ K TK;
    A TA B TB C TC D TD E TE F TF G TG H TH I TI J TJ K TK L TL;
}

/// Concurrent futures of one type, and the function that collects their values.
#[must_use = "futures do nothing unless polled"]
pub struct JoinAll<F, T, C> {
    slots: Vec<Slot<F, T>>,
    collect: fn(Vec<T>) -> C,
}

impl<F, T, C> Unpin for JoinAll<F, T, C> {}

impl<F, T, C> JoinAll<F, T, C> {
    pub(super) fn new(futures: impl Iterator<Item = F>, collect: fn(Vec<T>) -> C) -> Self {
        JoinAll { slots: futures.map(Slot::Running).collect(), collect }
    }
}

impl<F: Future<Output = Result<T>> + Unpin, T, C> Future for JoinAll<F, T, C> {
    type Output = Result<C>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let pending = self.slots.iter_mut().filter_map(|slot| slot.poll(cx).is_pending().then_some(())).count();
        if pending > 0 {
            return Poll::Pending;
        }
        let values = Error::all(self.slots.iter_mut().map(Slot::take));
        Poll::Ready(values.map(self.collect))
    }
}
