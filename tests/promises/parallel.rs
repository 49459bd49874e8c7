//! Promise 2: independent operations run in parallel, cheap ones do not pay for it, and the
//! leftmost error is reported.

use super::support::{Custom, Meeting, Together, on_threads, watched};
use dl::{Differentiable, Do, Error, Layer, Sgd, Weight};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

fn together() -> Together {
    Together { forward: Meeting::of(2), backward: Meeting::of(2) }
}

#[test]
fn operands_of_operator_run_in_parallel() {
    let (a, b) = (Weight::new(2.0), Weight::new(3.0));
    let both = together();
    let y = both.of(&a.layer()) * both.of(&b.layer());
    let loss = watched({
        let y = y.clone();
        move || on_threads(2, || y.train(&Sgd::new(1.0)).wait())
    });
    assert_eq!(loss.unwrap(), 6.0);
    assert_eq!((a.value(), b.value()), (-1.0, 1.0));
}

#[test]
fn operands_of_awaited_operator_run_in_parallel() {
    let both = together();
    let y = both.of(&Weight::new(2.0).layer()) * both.of(&Weight::new(3.0).layer());
    let value = watched(move || on_threads(2, || futures::executor::block_on(y.predict().run())));
    assert_eq!(value.unwrap(), 6.0);
}

#[test]
fn joined_bangs_run_in_parallel() {
    let both = together();
    let members = [1.0, 2.0].map(|x| both.of(&Weight::new(x).layer()).predict());
    let values = watched(move || on_threads(2, || Do::join(members).wait()));
    assert_eq!(values.unwrap(), [1.0, 2.0]);
}

#[test]
fn single_thread_runs_all_operations_in_sequence() {
    let both = Together { forward: Meeting::of(1), backward: Meeting::of(1) };
    let (a, b) = (Weight::new(2.0), Weight::new(3.0));
    let y = both.of(&a.layer()) * both.of(&b.layer());
    on_threads(1, || y.train(&Sgd::new(1.0)).wait()).unwrap();
    assert_eq!((a.value(), b.value()), (-1.0, 1.0));
}

#[test]
fn cheap_work_stays_on_its_thread() {
    struct Where(Arc<Mutex<HashSet<std::thread::ThreadId>>>);

    impl dl::Primitive for Where {
        type Operands = (Layer<f64>,);
        type Output = f64;
        fn name(&self) -> &'static str {
            "where"
        }
        fn value(&self, (x,): (&f64,)) -> dl::Result<f64> {
            self.0.lock().unwrap().insert(std::thread::current().id());
            Ok(*x)
        }
        fn pullback(&self, at: &dl::At<'_, Self>) -> (Option<Layer<f64>>,) {
            (Some(at.delta.clone()),)
        }
        fn cost(&self, _: (&f64,)) -> f64 {
            10.0
        }
    }

    let threads = Arc::<Mutex<HashSet<_>>>::default();
    let x = Weight::new(1.0).layer();
    let y: Layer<f64> = (0..500).map(|_| Layer::apply(Where(threads.clone()), (x.clone(),))).sum();
    on_threads(2, || y.predict().wait()).unwrap();
    assert_eq!(threads.lock().unwrap().len(), 1);
}

#[test]
fn leftmost_error_is_reported_regardless_of_timing() {
    let meeting = Meeting::of(2);
    let x = Weight::new(1.0).layer();
    let (early, late) = (meeting.clone(), meeting);
    let left = Custom(move |_| {
        late.join()?;
        std::thread::sleep(std::time::Duration::from_millis(20)); // only makes a failure more likely
        Err(Error::invalid("left"))
    })
    .of(&x);
    let right = Custom(move |_| {
        early.join()?;
        Err(Error::invalid("right"))
    })
    .of(&x);
    let error = watched(move || on_threads(2, || (left + right).predict().wait())).unwrap_err();
    assert!(error.to_string().contains("left"), "{error}");
}
