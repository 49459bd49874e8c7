//! Who watches a pass: its record, and with the feature `tracing` the subscribers of that crate.

use super::{Pass, Purpose, Settings, context};
use crate::node::Node;
use crate::record::{Log, SpanWork, Told};
use std::sync::Arc;
use std::time::Instant;

#[derive(Default)]
pub(super) struct Watch {
    pub(super) log: Option<Arc<Log>>,
    /// None, unless somebody wants to see it.
    #[cfg(feature = "tracing")]
    span: Option<Box<tracing::Span>>,
}

impl Watch {
    #[inline]
    pub(super) fn begin(purpose: Purpose, settings: &Settings) -> Watch {
        let _ = purpose;
        Watch {
            log: settings.recorder.as_ref().map(|recorder| recorder.begin()),
            #[cfg(feature = "tracing")]
            span: traced::pass(purpose),
        }
    }

    #[inline]
    fn nobody(&self) -> bool {
        #[cfg(feature = "tracing")]
        if self.span.is_some() {
            return false;
        }
        self.log.is_none()
    }
}

/// Tells a span when it goes, also when a panic passes by.
struct Working<'a> {
    log: &'a Log,
    work: SpanWork,
    at: Told,
    began: Instant,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.log.worked(self.work, self.at, self.began);
    }
}

impl Pass {
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        !self.watch.nobody()
    }

    /// Works for the pass, and for this node, if it is for one.
    #[inline]
    pub(crate) fn during<R>(&self, work: SpanWork, node: Option<&Node>, at: Told, f: impl FnOnce() -> R) -> R {
        if self.watch.nobody() { f() } else { self.watched(work, node, at, f) }
    }

    #[cold]
    fn watched<R>(&self, work: SpanWork, node: Option<&Node>, at: Told, f: impl FnOnce() -> R) -> R {
        let _ = node;
        #[cfg(feature = "tracing")]
        let _entered = self.watch.span.as_ref().map(|pass| traced::work(pass, work, node).entered());
        let began = Instant::now();
        let _working = self.watch.log.as_ref().map(|log| Working { log, work, at, began });
        context::at(at, f)
    }

    /// Helps with a kernel that another thread runs.
    #[inline]
    pub(crate) fn helping<R>(&self, with: &Help, f: impl FnOnce() -> R) -> R {
        if self.watch.nobody() { f() } else { self.helped(with, f) }
    }

    #[cold]
    fn helped<R>(&self, with: &Help, f: impl FnOnce() -> R) -> R {
        #[cfg(feature = "tracing")]
        let _entered = traced::help(&with.span).entered();
        let began = Instant::now();
        let _working = self.watch.log.as_ref().map(|log| Working { log, work: SpanWork::Kernel, at: with.at, began });
        f()
    }
}

/// What a thread is told that is to help with what this one does.
pub(crate) struct Help {
    at: Told,
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl Help {
    /// Whoever comes to help this thread.
    pub(crate) fn here() -> Help {
        Help {
            at: context::told(),
            #[cfg(feature = "tracing")]
            span: tracing::Span::current(),
        }
    }
}

#[cfg(feature = "tracing")]
mod traced {
    use super::super::Purpose;
    use crate::node::Node;
    use crate::record::SpanWork;
    use crate::sync::current_num_threads;
    use tracing::{Span, debug_span, trace_span};

    pub(super) fn pass(purpose: Purpose) -> Option<Box<Span>> {
        let purpose = match purpose {
            Purpose::Predict => "predict",
            Purpose::Train => "train",
            Purpose::Derive => "derive",
        };
        let span = debug_span!(target: "dl", "pass", purpose, threads = current_num_threads());
        (!span.is_disabled()).then(|| Box::new(span))
    }

    pub(super) fn work(pass: &Span, work: SpanWork, node: Option<&Node>) -> Span {
        macro_rules! at {
            ($span:ident $name:literal) => {
                match node {
                    None => $span!(target: "dl", parent: pass, $name),
                    Some(node) => {
                        let (file, line) = (node.place.file(), node.place.line());
                        $span!(target: "dl", parent: pass, $name, op = node.name(), file, line)
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
