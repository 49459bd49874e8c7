//! Records of passes that fail, panic or are cancelled.

use super::support::{checked, magnitude, node, on_threads, record, slowly_twice, twice};
use dl_core::record::{Direction, Recorder, SpanWork};
use dl_core::{Data, Differentiable, Error, Layer, Nothing, Weight};
use dl_optim::Sgd;
use std::future::{Future, pending};
use std::pin::pin;
use std::task::{Context, Waker};

fn refuses(x: Layer<f64>) -> Layer<f64> {
    Layer::dynamic(move || {
        let x = x.clone();
        async move {
            x.extract().await?;
            Err(Error::invalid("the body refuses"))
        }
    })
}

#[test]
fn failed_pass_records_failure_of_nodes() {
    let w = Weight::new(1.0_f64);
    let failing = refuses(twice(w.layer()));
    let (ended, pass) = record((failing * 2.0).train(&Sgd::new(0.1)));
    let error = ended.unwrap_err().to_string();
    let (_, body) = node(&pass, "differentiable function", Direction::Forward);
    assert_eq!(body.failure.as_ref(), Some(&error));
    assert_eq!((&body.value[..], body.became), ("", None));
    assert_eq!(node(&pass, "mul", Direction::Forward).1.failure.as_ref(), Some(&error));
    assert_eq!(node(&pass, "twice", Direction::Forward).1.failure, None);
    assert!(pass.spans.iter().all(|span| span.work != SpanWork::Commit));
}

#[test]
fn panicked_pass_records_failure_and_body_span() {
    let w = Weight::new(1.0_f64);
    let panics = Layer::<f64>::dynamic(|| async { panic!("out of order") });
    let (ended, pass) = record((twice(w.layer()) + panics).predict());
    assert!(ended.is_err());
    let (id, body) = node(&pass, "differentiable function", Direction::Forward);
    assert!(body.failure.as_ref().is_some_and(|why| why.contains("out of order")));
    assert!(pass.spans.iter().any(|span| span.work == SpanWork::Body && span.node == Some(id)));
}

#[test]
fn cancelled_pass_is_recorded() {
    let (recorder, w) = (Recorder::new(), Weight::new(1.0_f64));
    let never = Layer::<f64>::dynamic(|| async {
        pending::<()>().await;
        unreachable!()
    });
    let both = never + magnitude(twice(w.layer()));
    // with one worker, which is the current thread, the poll does all the work
    on_threads(1, || {
        let mut run = pin!(both.predict().recorded(&recorder).run());
        assert!(run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(recorder.take().passes.is_empty(), "the pass is not finished");
    });
    let recording = checked(recorder.take());
    let [pass] = &recording.passes[..] else { panic!("{recording:?}") };
    let (_, sum) = node(pass, "add", Direction::Forward);
    assert_eq!((&sum.value[..], &sum.failure, sum.operands.len()), ("", &None, 2));
    assert_eq!(node(pass, "twice", Direction::Forward).1.value, "f64");
}

#[test]
fn record_is_consistent_when_kernels_outlive_pass() {
    // a record must be consistent at whatever time it is taken
    let w = Weight::new(1.0_f64);
    let slow: Layer<f64> = (0..4).map(|_| slowly_twice(w.layer())).sum();
    let recorder = Recorder::new();
    for _ in 0..20 {
        let run = Box::pin(slow.predict().recorded(&recorder).run());
        rayon::spawn({
            let mut run = run;
            move || drop(run.as_mut().poll(&mut Context::from_waker(Waker::noop())))
        });
        std::thread::sleep(std::time::Duration::from_micros(700));
        checked(recorder.take());
    }
}

/// Data with a `describe` that panics.
#[derive(Clone)]
struct Shy;

impl Data for Shy {
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }

    fn describe(&self) -> String {
        panic!("no description")
    }
}

#[test]
fn value_with_panicking_description_is_recorded_without_it() {
    let (value, pass) = record(Layer::constant(Shy).predict());
    assert!(value.is_ok());
    assert_eq!((&pass.nodes[0].value[..], pass.nodes[0].bytes), ("", 0));
}
