//! Recorded spans: the times at which threads worked.

use super::support::{magnitude, names, node, on_threads, record, slowly_twice, twice};
use dl_core::record::{Direction, PassRecord, Span, SpanWork};
use dl_core::{At, Deltas, Differentiable, Layer, Primitive, Result, Weight, parallel};
use dl_optim::Sgd;
use std::sync::{Barrier, Mutex};
use std::time::Duration;

fn at(pass: &PassRecord, work: SpanWork) -> Vec<&Span> {
    pass.spans.iter().filter(|span| span.work == work).collect()
}

#[test]
fn inline_kernels_have_spans() {
    let w = Weight::new(1.0_f64);
    let (_, pass) = record(twice(twice(w.layer())).predict());
    let kernels: Vec<_> = at(&pass, SpanWork::Kernel).iter().map(|span| span.node).collect();
    assert_eq!(names(&pass), ["weight", "twice", "twice"]);
    assert_eq!(kernels, [Some(1), Some(2)]);
}

#[test]
fn queued_kernels_have_spans_of_their_duration() {
    let w = Weight::new(1.0_f64);
    let (_, pass) = record((slowly_twice(w.layer()) + slowly_twice(w.sin())).predict());
    let kernels = at(&pass, SpanWork::Kernel);
    assert_eq!(kernels.len(), 2);
    for span in kernels {
        assert_eq!(pass.nodes[span.node.unwrap() as usize].name, "twice");
        assert!(span.ended - span.began >= Duration::from_millis(1));
    }
}

/// An operation that waits at a barrier until another one runs, too.
struct Meets(&'static Barrier);

impl Primitive for Meets {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "meets"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        self.0.wait();
        Ok(*x)
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(at.delta.clone()),)
    }

    fn cost(&self, _: (&f64,)) -> f64 {
        1e6
    }
}

/// Two operations that wait for one another.
pub(crate) fn meeting(v: &Weight<f64>, w: &Weight<f64>) -> Layer<f64> {
    let barrier: &'static Barrier = Box::leak(Box::new(Barrier::new(2)));
    let meets = |x: &Weight<f64>| Layer::apply(Meets(barrier), (x.layer(),));
    meets(v) + meets(w)
}

#[test]
fn spans_of_two_threads_overlap() {
    let (v, w) = (Weight::new(1.0_f64), Weight::new(2.0_f64));
    let (_, pass) = on_threads(2, || record(meeting(&v, &w).predict()));
    let kernels = at(&pass, SpanWork::Kernel);
    let [one, other] = kernels[..] else { panic!("{kernels:?}") };
    assert_ne!(one.thread, other.thread);
    assert!(one.began < other.ended && other.began < one.ended);
    assert!(pass.spans.iter().all(|span| span.thread < 2));
}

/// An operation that runs on two threads, which wait for one another.
struct Divided(&'static Barrier);

impl Primitive for Divided {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "divided"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        let sum = Mutex::new(*x);
        parallel::for_each(2, 1e6, |_| {
            self.0.wait();
            *sum.lock().unwrap() += 1.0;
        });
        Ok(sum.into_inner().unwrap())
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(at.delta.clone()),)
    }

    fn cost(&self, _: (&f64,)) -> f64 {
        2e6
    }
}

#[test]
fn helping_thread_has_own_span_within_kernel() {
    static BARRIER: Barrier = Barrier::new(2);
    let w = Weight::new(1.0_f64);
    let (value, pass) = on_threads(2, || record(Layer::apply(Divided(&BARRIER), (w.layer(),)).predict()));
    assert_eq!(value.unwrap(), 3.0);
    let kernels = at(&pass, SpanWork::Kernel);
    let [helps, runs] = kernels[..] else { panic!("{kernels:?}") };
    assert_ne!(helps.thread, runs.thread);
    assert_eq!((helps.node, runs.node), (Some(1), Some(1)));
    assert!(runs.began <= helps.began && helps.ended <= runs.ended);
}

#[test]
fn body_has_span_per_poll() {
    let w = Weight::new(-1.0_f64);
    let (_, pass) = record(magnitude(slowly_twice(w.layer())).predict());
    let (body, _) = node(&pass, "differentiable function", Direction::Forward);
    let bodies = at(&pass, SpanWork::Body);
    assert_eq!(bodies.len(), 2, "one poll until it had to wait, one to its end");
    assert!(bodies.iter().all(|span| span.node == Some(body)));
}

#[test]
fn backward_and_commit_have_spans() {
    let w = Weight::new(3.0_f64);
    for loss in [w.square(), twice(w.layer()).square()] {
        let (_, pass) = record(loss.train(&Sgd::new(0.1)));
        let (backward, commits) = (at(&pass, SpanWork::Backward), at(&pass, SpanWork::Commit));
        let ([backward], [commit]) = (&backward[..], &commits[..]) else { panic!("{:?}", pass.spans) };
        assert!(backward.ended <= commit.began);
        assert_eq!(pass.nodes[backward.node.unwrap() as usize].name, "square");
        assert_eq!(commit.node, None);
    }
}
