//! Spans of the crate `tracing`.

use super::support::{magnitude, on_threads, record, twice};
use dl_core::{Differentiable, Do, Weight};
use dl_optim::Sgd;
use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::ThreadId;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Dispatch, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// A span that has been closed.
#[derive(Clone, Debug)]
struct Seen {
    name: &'static str,
    target: &'static str,
    level: Level,
    fields: Vec<(&'static str, String)>,
    /// From the innermost to the outermost.
    parents: Vec<&'static str>,
    entered: Vec<ThreadId>,
}

#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<Seen>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for Witness {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let metadata = span.metadata();
        let mut seen = Seen {
            name: span.name(),
            target: metadata.target(),
            level: *metadata.level(),
            fields: Vec::new(),
            parents: span.scope().skip(1).map(|parent| parent.name()).collect(),
            entered: Vec::new(),
        };
        attributes.record(&mut seen);
        span.extensions_mut().insert(seen);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        span.extensions_mut().get_mut::<Seen>().unwrap().entered.push(std::thread::current().id());
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        self.0.lock().unwrap().push(span.extensions().get::<Seen>().unwrap().clone());
    }
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.push((field.name(), format!("{value:?}")));
    }
}

/// A second subscriber, which is interested in no span. While there is only one, `tracing` caches the
/// interest in a span as that of the thread which reaches it first. If that thread belongs to another
/// test and has no subscriber, the span would be disabled for all threads. With two subscribers, both
/// are asked.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Registry::default().with(LevelFilter::OFF)));

/// The spans of `run` in a pool of this number of threads. Only these threads have the subscriber.
fn seen(threads: usize, run: impl FnOnce(&Witness) + Send) -> Vec<Seen> {
    LazyLock::force(&ANOTHER);
    let witness = Witness::default();
    let dispatch = Dispatch::new(Registry::default().with(witness.clone()));
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .start_handler(move |_| std::mem::forget(tracing::dispatcher::set_default(&dispatch)));
    pool.build().unwrap().install(|| run(&witness));
    let seen = witness.so_far();
    assert!(seen.iter().all(|span| span.target == "dl"), "{seen:?}");
    seen
}

impl Witness {
    fn so_far(&self) -> Vec<Seen> {
        self.0.lock().unwrap().clone()
    }
}

fn named<'a>(seen: &'a [Seen], name: &str) -> Vec<&'a Seen> {
    seen.iter().filter(|span| span.name == name).collect()
}

#[test]
fn training_step_has_spans_with_fields() {
    let w = Weight::new(-1.0_f64);
    let (y, line) = (twice(magnitude(w.layer())), line!());
    let seen = seen(1, |_| assert!(y.square().train(&Sgd::new(0.1)).wait().unwrap().is_finite()));
    let [pass] = named(&seen, "pass")[..] else { panic!("{seen:?}") };
    assert_eq!(pass.level, Level::DEBUG);
    assert_eq!(pass.fields[0], ("purpose", "\"train\"".to_owned()));
    assert_eq!(pass.fields[1].0, "threads");
    let kernel = named(&seen, "kernel")[0];
    let expected = [("op", "\"twice\"".to_owned()), ("file", format!("{:?}", file!())), ("line", line.to_string())];
    assert_eq!((kernel.level, &kernel.fields[..]), (Level::TRACE, &expected[..]));
    for name in ["kernel", "body", "backward", "commit"] {
        let spans = named(&seen, name);
        assert!(!spans.is_empty(), "{name}");
        assert!(spans.iter().all(|span| span.parents[0] == "pass" && span.entered.len() == 1), "{spans:?}");
    }
}

#[test]
fn parent_of_spans_on_all_threads_is_pass() {
    let w = Weight::new(1.0_f64);
    let seen = seen(2, |_| assert!(super::spans::meeting(&w, &w).predict().wait().unwrap().is_finite()));
    let kernels = named(&seen, "kernel");
    assert!(kernels.iter().all(|kernel| kernel.parents == ["pass"]), "{kernels:?}");
    assert_eq!(kernels.iter().flat_map(|kernel| &kernel.entered).collect::<HashSet<_>>().len(), 2);
}

#[test]
fn nested_pass_has_body_as_parent() {
    let w = Weight::new(3.0_f64);
    let y = twice(w.layer());
    let seen = seen(2, |_| assert!(y.square().gradient(&w).predict().wait().unwrap().is_finite()));
    let mut passes: Vec<_> = named(&seen, "pass").iter().map(|pass| pass.parents.clone()).collect();
    passes.sort_by_key(Vec::len);
    assert_eq!(passes, [vec![], vec!["body", "pass"]], "{seen:?}");
}

#[test]
fn resumed_pass_has_new_span() {
    let w = Weight::new(3.0_f64);
    let y = twice(w.layer());
    let seen = seen(1, |witness| {
        let tape = y.forward().wait().unwrap();
        assert_eq!(named(&witness.so_far(), "pass").len(), 1, "the tape still holds the pass, but its span is closed");
        tape.backward(Do::now(1.0)).step(&Sgd::new(0.1)).wait().unwrap();
        assert_eq!(named(&witness.so_far(), "pass").len(), 3, "the resumed pass and the step have a span each");
    });
    let passes = named(&seen, "pass");
    assert_eq!(passes.len(), 3, "dropping a tape does not resume the pass");
    assert!(passes.iter().all(|pass| pass.parents.is_empty() && pass.entered.is_empty()), "{passes:?}");
    for name in ["backward", "commit"] {
        let spans = named(&seen, name);
        assert!(!spans.is_empty() && spans.iter().all(|span| span.parents == ["pass"]), "{spans:?}");
    }
}

#[test]
fn pass_without_subscriber_is_recorded() {
    let w = Weight::new(3.0_f64);
    let y = twice(w.layer());
    assert_eq!(on_threads(2, || record(y.predict())).1.nodes.len(), 2);
}
