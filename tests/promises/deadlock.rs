//! Promise 8: `wait()` works on any thread, `.await` under any executor.

use super::support::{Counted, Custom, on_threads, watched};
use dl::{Differentiable, Layer, Sgd, Weight};
use rayon::prelude::*;

fn expensive_net(w: &Weight<f64>) -> Layer<f64> {
    let expensive = Counted { nanoseconds: 1e5, ..Counted::new(0.5) };
    (0..20).map(|_| expensive.of(&expensive.of(&w.layer()))).sum()
}

/// The results of `f` in a pool of one thread and in a pool of two.
fn in_small_pools<R: Send + 'static>(f: impl Fn() -> R + Copy + Send + 'static) -> [R; 2] {
    [1, 2].map(|threads| watched(move || on_threads(threads, f)))
}

#[test]
fn wait_inside_every_worker_does_not_deadlock() {
    for threads in [1, 2, 4] {
        let sum = watched(move || {
            let w = Weight::new(1.0);
            on_threads(threads, || {
                (0..64).into_par_iter().map(|_| expensive_net(&w).predict().wait().unwrap()).sum::<f64>()
            })
        });
        assert_eq!(sum, 64.0 * 5.0);
    }
}

#[test]
fn wait_inside_kernel_does_not_deadlock() {
    let values = in_small_pools(|| {
        let inner = expensive_net(&Weight::new(1.0));
        let outer: Layer<f64> = (0..8)
            .map(|_| {
                let inner = inner.clone();
                Custom(move |x| Ok(x + inner.predict().wait()?)).of(&Layer::constant(1.0))
            })
            .sum();
        outer.predict().wait()
    });
    for value in values {
        assert_eq!(value.unwrap(), 48.0);
    }
}

#[test]
fn nested_pass_in_body_does_not_deadlock() {
    let values = in_small_pools(|| {
        let inner = expensive_net(&Weight::new(1.0));
        let outer = Layer::dynamic(move || {
            let inner = inner.clone();
            async move {
                let (waited, awaited) = (inner.predict().wait()?, inner.predict().await?);
                Ok(inner * (waited + awaited))
            }
        });
        outer.train(&Sgd::new(0.1)).wait()
    });
    for value in values {
        assert_eq!(value.unwrap(), 50.0);
    }
}

#[test]
fn pass_completes_under_foreign_executors() {
    let w = Weight::new(1.0);
    let net = expensive_net(&w);
    let by_futures = watched({
        let net = net.clone();
        move || futures::executor::block_on(async { net.predict().await })
    });
    assert_eq!(by_futures.unwrap(), 5.0);

    let by_pool = watched({
        let net = net.clone();
        move || {
            let pool = futures::executor::ThreadPool::builder().pool_size(2).create().unwrap();
            let (done, result) = std::sync::mpsc::channel();
            for _ in 0..8 {
                let (net, done) = (net.clone(), done.clone());
                pool.spawn_ok(async move { done.send(net.train(&Sgd::new(0.0)).await).unwrap() });
            }
            result.into_iter().take(8).collect::<dl::Result<Vec<_>>>()
        }
    });
    assert_eq!(by_pool.unwrap(), [5.0; 8]);
}

#[test]
fn awaiting_external_event_does_not_block_worker() {
    let value = watched(|| {
        on_threads(1, || {
            let (send, receive) = futures::channel::oneshot::channel();
            let answer =
                Layer::from(dl::Do::from_future(
                    async move { receive.await.map_err(|_| dl::Error::invalid("no answer")) },
                ));
            // the only worker evaluates this operation, which completes the other one
            let send = std::sync::Mutex::new(Some(send));
            let question = Custom(move |x| {
                if let Some(send) = send.lock().unwrap().take() {
                    let _ = send.send(42.0);
                }
                Ok(x)
            })
            .of(&Layer::constant(1.0));
            (answer + question).predict().wait()
        })
    });
    assert_eq!(value.unwrap(), 43.0);
}

#[test]
fn concurrent_passes_over_shared_layers_do_not_deadlock() {
    let w = Weight::new(1.0);
    let net = expensive_net(&w);
    watched({
        let net = net.clone();
        move || {
            on_threads(2, || {
                (0..200).into_par_iter().for_each(|_| {
                    net.train(&Sgd::new(0.0)).wait().unwrap();
                });
            })
        }
    });
    assert_eq!(w.value(), 1.0);
}

/// An extract that has begun in one pass is polled by another thread, while that pass ends or is
/// cancelled.
#[test]
fn extract_that_outlives_its_run_is_completed_or_cancelled() {
    use futures::FutureExt;
    for cancel in [false, true] {
        let outcome = watched(move || {
            let (send, receive) = std::sync::mpsc::channel();
            let held = std::sync::Mutex::new(Some(send));
            let slow = Custom(|x| {
                std::thread::sleep(std::time::Duration::from_millis(30));
                Ok(x)
            })
            .of(&Layer::constant(7.0));
            let y = Layer::dynamic(move || {
                let mut extract = slow.extract();
                let send = held.lock().unwrap().take();
                async move {
                    futures::poll!(&mut extract).is_pending().then_some(()).expect("the extract must be pending");
                    send.unwrap().send(extract).unwrap();
                    if cancel {
                        std::future::pending::<()>().await;
                    }
                    Ok(Layer::constant(1.0))
                }
            });
            let mut run = y.train(&Sgd::new(0.1)).run();
            let (changes_hands, has_changed_hands) = std::sync::mpsc::channel();
            let waker = std::thread::spawn(move || {
                let extract = receive.recv().unwrap();
                changes_hands.send(()).unwrap();
                futures::executor::block_on(extract)
            });
            if cancel {
                assert!((&mut run).now_or_never().is_none());
                has_changed_hands.recv().unwrap();
                std::thread::sleep(std::time::Duration::from_millis(5)); // and is polled there
                drop(run);
            } else {
                assert_eq!(futures::executor::block_on(run).unwrap(), 1.0);
            }
            waker.join().unwrap()
        });
        match outcome {
            Ok(value) => assert_eq!(value, 7.0),
            Err(error) => assert!(error.is_cancelled(), "{error}"),
        }
    }
}

/// A run that was started on a worker is moved to an executor with threads that do not work for it.
#[test]
fn run_moved_to_another_executor_completes() {
    use futures::FutureExt;
    let value = watched(|| {
        let (send, receive) = futures::channel::oneshot::channel::<f64>();
        let question = Layer::from(dl::Do::from_future(async move { receive.await.map_err(dl::Error::other) }));
        let mut run = (expensive_net(&Weight::new(1.0)) + Custom(Ok).of(&question)).predict().run();
        on_threads(1, || assert!((&mut run).now_or_never().is_none()));
        let elsewhere = std::thread::spawn(move || futures::executor::block_on(run));
        std::thread::sleep(std::time::Duration::from_millis(20)); // until it is parked
        send.send(2.0).unwrap();
        elsewhere.join().unwrap()
    });
    assert_eq!(value.unwrap(), 7.0);
}

#[test]
fn foreign_executor_inside_body_does_not_deadlock() {
    let values = in_small_pools(|| {
        let inner = expensive_net(&Weight::new(1.0));
        let outer = Layer::dynamic(move || {
            let inner = inner.clone();
            async move { Ok(Layer::constant(futures::executor::block_on(inner.predict().run())?)) }
        });
        outer.predict().wait()
    });
    for value in values {
        assert_eq!(value.unwrap(), 5.0);
    }
}
