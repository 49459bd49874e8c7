//! What subscribers of the crate `tracing` see.

use super::support::{magnitude, on_threads, record, twice};
use dl_core::{Differentiable, Do, Sgd, Weight};
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
    /// From the innermost on.
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

/// While there is a single subscriber, `tracing` asks that of whatever thread happens to meet a
/// span first, and where this has none it remembers that nobody wants the span. So there is another
/// one, which wants nothing: then all are asked, though other tests run beside these.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Registry::default().with(LevelFilter::OFF)));

/// What is seen of this, in a pool of so many threads: whoever is not among them has no eyes.
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
fn a_step() {
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
fn on_all_threads_the_parent_is_the_pass() {
    let w = Weight::new(1.0_f64);
    let seen = seen(2, |_| assert!(super::spans::meeting(&w, &w).predict().wait().unwrap().is_finite()));
    let kernels = named(&seen, "kernel");
    assert!(kernels.iter().all(|kernel| kernel.parents == ["pass"]), "{kernels:?}");
    assert_eq!(kernels.iter().flat_map(|kernel| &kernel.entered).collect::<HashSet<_>>().len(), 2);
}

#[test]
fn a_pass_inside_a_body() {
    let w = Weight::new(3.0_f64);
    let y = twice(w.layer());
    let seen = seen(2, |_| assert!(y.square().gradient(&w).predict().wait().unwrap().is_finite()));
    let mut passes: Vec<_> = named(&seen, "pass").iter().map(|pass| pass.parents.clone()).collect();
    passes.sort_by_key(Vec::len);
    assert_eq!(passes, [vec![], vec!["body", "pass"]], "{seen:?}");
}

#[test]
fn a_pass_that_rests_and_goes_on() {
    let w = Weight::new(3.0_f64);
    let y = twice(w.layer());
    let seen = seen(1, |witness| {
        let tape = y.forward().wait().unwrap();
        assert_eq!(named(&witness.so_far(), "pass").len(), 1, "the tape still has it");
        tape.backward(Do::now(1.0)).step(&Sgd::new(0.1)).wait().unwrap();
        assert_eq!(named(&witness.so_far(), "pass").len(), 3, "it goes on, and the step is one, too");
    });
    let passes = named(&seen, "pass");
    assert_eq!(passes.len(), 3, "whoever lets go of a tape does nothing in it");
    assert!(passes.iter().all(|pass| pass.parents.is_empty() && pass.entered.is_empty()), "{passes:?}");
    for name in ["backward", "commit"] {
        let spans = named(&seen, name);
        assert!(!spans.is_empty() && spans.iter().all(|span| span.parents == ["pass"]), "{spans:?}");
    }
}

#[test]
fn nobody_looks() {
    let w = Weight::new(3.0_f64);
    let y = twice(w.layer());
    assert_eq!(on_threads(2, || record(y.predict())).1.nodes.len(), 2);
}
