//! Tracing a pass: its record, and with the feature `tracing` the subscribers of that crate.

use crate::exec::{Pass, Purpose};
use crate::graph::node::Node;
use crate::record::{Log, SpanWork, TraceNodeId};
use dl_parallel::sync::thread_local;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

#[derive(Default)]
pub(super) struct Watch {
    pub(super) log: Option<Arc<Log>>,
    /// `None` unless a subscriber is interested.
    #[cfg(feature = "tracing")]
    seen: Option<Box<traced::Seen>>,
}

thread_local! {
    /// The pass, by its address, and the node that this thread works for, if the pass is traced.
    static WORKS: Cell<(usize, TraceNodeId)> = const { Cell::new((0, TraceNodeId::NONE)) };
}

impl Watch {
    #[inline]
    fn nobody(&self) -> bool {
        #[cfg(feature = "tracing")]
        if self.seen.is_some() {
            return false;
        }
        self.log.is_none()
    }
}

/// Records a span when it is dropped, also in a panic.
struct Working<'a> {
    log: Option<&'a Log>,
    work: SpanWork,
    at: TraceNodeId,
    began: Instant,
    /// The span of this thread before.
    around: (usize, TraceNodeId),
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        WORKS.set(self.around);
        if let Some(log) = self.log {
            log.record_span(self.work, self.at, self.began);
        }
    }
}

impl Pass {
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        !self.watch.nobody()
    }

    /// Called when the pass begins: looks for a recorder and subscribers.
    #[inline]
    pub(super) fn begin_watch(&mut self, purpose: Purpose) {
        let _ = purpose;
        #[cfg(feature = "tracing")]
        {
            self.watch.seen = traced::Seen::begin(purpose);
        }
        if let Some(recorder) = &self.settings.recorder {
            let log = recorder.begin();
            self.watch.log = Some(log.clone());
            self.state_mut().log = Some(log);
        }
    }

    /// Called when a driver arrives: the pass continues if it was at rest.
    #[inline]
    pub(super) fn watch_goes_on(&self) {
        #[cfg(feature = "tracing")]
        if let Some(seen) = &self.watch.seen {
            seen.span();
        }
    }

    /// Called when the last driver leaves. A helper or a tape may hold the pass for longer, but it
    /// starts no work.
    #[inline]
    pub(super) fn watch_rests(&self) {
        #[cfg(feature = "tracing")]
        if let Some(seen) = &self.watch.seen {
            seen.end();
        }
    }

    /// Called when the pass ends.
    #[inline]
    pub(super) fn end_watch(&mut self) {
        if !self.watch.nobody() {
            let mut state = self.state();
            self.tell_rest(&state);
            state.log = None;
            drop(state);
            self.watch = Watch::default();
        }
    }

    /// The node of the record that this thread works for.
    pub(super) fn works_at(&self) -> TraceNodeId {
        let (pass, at) = WORKS.get();
        if pass == std::ptr::from_ref(self).addr() { at } else { TraceNodeId::NONE }
    }

    /// Works for the pass, and for this node, if it is for one.
    #[inline]
    pub(crate) fn during<R>(
        &self,
        work: SpanWork,
        node: Option<&Node>,
        at: impl FnOnce() -> TraceNodeId,
        f: impl FnOnce() -> R,
    ) -> R {
        if self.watch.nobody() { f() } else { self.watched(work, node, at(), f) }
    }

    #[cold]
    fn watched<R>(&self, work: SpanWork, node: Option<&Node>, at: TraceNodeId, f: impl FnOnce() -> R) -> R {
        let _ = node;
        #[cfg(feature = "tracing")]
        let _entered = self.watch.seen.as_ref().map(|pass| traced::work(&pass.span(), work, node).entered());
        let began = Instant::now();
        let log = self.watch.log.as_deref();
        let around = WORKS.replace((std::ptr::from_ref(self).addr(), at));
        let _working = Working { log, work, at, began, around };
        f()
    }

    /// A thread that helps with a kernel of another thread.
    #[inline]
    pub(crate) fn helping<R>(&self, with: &Help, f: impl FnOnce() -> R) -> R {
        if self.watch.nobody() { f() } else { self.helped(with, f) }
    }

    #[cold]
    fn helped<R>(&self, with: &Help, f: impl FnOnce() -> R) -> R {
        #[cfg(feature = "tracing")]
        let _entered = traced::help(&with.span).entered();
        let began = Instant::now();
        let (log, work, at, around) = (self.watch.log.as_deref(), SpanWork::Kernel, with.at, WORKS.get());
        let _working = Working { log, work, at, began, around };
        f()
    }
}

/// The trace context for a thread that helps with the work of this one.
pub(crate) struct Help {
    at: TraceNodeId,
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl Help {
    /// The trace context for helpers of this thread.
    pub(crate) fn here() -> Help {
        Help {
            at: WORKS.get().1,
            #[cfg(feature = "tracing")]
            span: tracing::Span::current(),
        }
    }
}

#[cfg(feature = "tracing")]
mod traced {
    use super::super::Purpose;
    use crate::graph::node::Node;
    use crate::record::SpanWork;
    use dl_parallel::sync::{Mutex, MutexGuard, current_num_threads};
    use std::sync::PoisonError;
    use tracing::{Span, debug_span, trace_span};

    /// A pass in which a subscriber is interested.
    pub(super) struct Seen {
        purpose: Purpose,
        /// `None` while the pass rests.
        span: Mutex<Option<Span>>,
    }

    impl Seen {
        pub(super) fn begin(purpose: Purpose) -> Option<Box<Seen>> {
            let span = pass(purpose);
            (!span.is_disabled()).then(|| Box::new(Seen { purpose, span: Mutex::new(Some(span)) }))
        }

        /// The span of the pass since it last rested.
        pub(super) fn span(&self) -> Span {
            self.lock().get_or_insert_with(|| pass(self.purpose)).clone()
        }

        /// Ends after all spans inside of it.
        pub(super) fn end(&self) {
            let span = self.lock().take();
            drop(span);
        }

        fn lock(&self) -> MutexGuard<'_, Option<Span>> {
            self.span.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    fn pass(purpose: Purpose) -> Span {
        let purpose = match purpose {
            Purpose::Predict => "predict",
            Purpose::Train | Purpose::Step => "train",
            Purpose::Derive => "derive",
        };
        debug_span!(target: "dl", "pass", purpose, threads = current_num_threads())
    }

    pub(super) fn work(pass: &Span, work: SpanWork, node: Option<&Node>) -> Span {
        macro_rules! at {
            ($span:ident $name:literal) => {
                match node {
                    None => $span!(target: "dl", parent: pass, $name),
                    Some(node) => {
                        let (file, line) = (node.place.file(), node.place.line());
                        $span!(target: "dl", parent: pass, $name, op = node.name_or_panic(), file, line)
                    }
                }
            };
        }
        match work {
            SpanWork::Kernel => at!(trace_span "kernel"),
            SpanWork::Body => at!(trace_span "body"),
            SpanWork::Backward => at!(debug_span "backward"),
            SpanWork::Commit => at!(debug_span "commit"),
        }
    }

    pub(super) fn help(with: &Span) -> Span {
        trace_span!(target: "dl", parent: with, "help")
    }
}
