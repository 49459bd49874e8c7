//! Concurrent passes over the same layers and weights.

use super::jitter::Jitter;
use super::support::{on_threads, on_tokio, tokio_runtime, watched};
use dl::Error;
use dl::prelude::*;
use futures::channel::oneshot;
use std::sync::{Arc, Mutex, mpsc};

const PASSES: usize = 40;

/// `slope · w`, as a dynamic node with two branches and an asynchronous operand.
#[differentiable]
fn linear(w: &Weight<f64>, slope: f64, jitter: &Jitter) -> Layer<f64> {
    let score = jitter.of(&jitter.late(&w.layer()));
    if !score > -50.0 { score * slope } else { jitter.of(&(slope * w)) }
}

/// Concurrent steps over overlapping sets of weights. The deltas are integers that do not depend on
/// the weights, so the order of the steps has no effect on the result, but a lost or repeated step
/// has.
#[test]
fn concurrent_steps_are_all_applied() {
    let jitter = Jitter::seeded(1);
    let weights: Vec<Weight<f64>> = (0..3).map(|_| Weight::new(0.0)).collect();
    let [u, v, w] = [0, 1, 2].map(|i| linear(&weights[i], (i + 1) as f64, &jitter));
    let losses = Arc::new([&u + &v, &w + &u, &v + &w, &u + &v + &w]);
    let sgd = Sgd::new(1.0);
    watched("concurrent steps", move || {
        let runtime = tokio_runtime(Some(2));
        let tasks: Vec<_> = (0..4)
            .map(|i| {
                let (losses, sgd) = (losses.clone(), sgd.clone());
                runtime.spawn(async move {
                    for _ in 0..PASSES {
                        losses[i].train(&sgd).await.unwrap();
                    }
                })
            })
            .collect();
        std::thread::scope(|scope| {
            for loss in losses.iter() {
                let sgd = &sgd;
                scope.spawn(move || train(loss, sgd));
                scope.spawn(move || on_threads(2, || train(loss, sgd)));
            }
        });
        tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
        // three groups of passes; each weight occurs in three of the four losses
        let steps = (3 * 3 * PASSES) as f64;
        let values: Vec<_> = weights.iter().map(Weight::value).collect();
        assert_eq!(values, [-steps, -2.0 * steps, -3.0 * steps]);
    });
}

fn train(loss: &Layer<f64>, sgd: &Sgd) {
    for _ in 0..PASSES {
        loss.train(sgd).wait().unwrap();
    }
}

/// Concurrent passes over the same layers have separate values. A body reads a number that differs
/// from pass to pass.
#[test]
fn concurrent_passes_have_separate_values() {
    let (jitter, count) = (Jitter::seeded(2), Arc::new(Mutex::new(0.0)));
    let number = Layer::from(Do::from_fn(move || {
        let mut count = count.lock().unwrap();
        *count += 1.0;
        std::future::ready(Ok(*count))
    }));
    let halves = [jitter.of(&jitter.late(&number)), jitter.of(&(&number * 2.0))];
    let difference: Layer<f64> = (0..10).map(|_| jitter.of(&halves[0]) * 2.0 - jitter.of(&halves[1])).sum();
    watched("concurrent predictions", move || {
        std::thread::scope(|scope| {
            for threads in [1, 2, 3] {
                let difference = &difference;
                scope.spawn(move || {
                    on_threads(threads, || {
                        (0..PASSES).for_each(|_| assert_eq!(difference.predict().wait().unwrap(), 0.0));
                    })
                });
            }
            let difference = difference.clone();
            scope.spawn(|| {
                on_tokio(Some(2), async move {
                    let passes = (0..PASSES).map(|_| tokio::spawn(difference.predict().run())).collect::<Vec<_>>();
                    for pass in passes {
                        assert_eq!(pass.await.unwrap().unwrap(), 0.0);
                    }
                })
            });
        });
    });
}

/// Two futures are joined. The waker of the first one is called while the second one blocks the
/// thread in a nested `wait()`.
#[test]
fn wake_up_during_nested_wait_is_not_lost() {
    for threads in [None, Some(1), Some(2)] {
        let value = watched("a wake-up during a nested wait", move || {
            let (answer, first) = oneshot::channel::<f64>();
            let (release, inner) = oneshot::channel::<f64>();
            let (ask, asked) = mpsc::channel();
            let outside = std::thread::spawn(move || {
                asked.recv().unwrap();
                answer.send(1.0).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(20)); // until the nested wait has begun
                release.send(2.0).unwrap();
            });
            let first = Do::from_future(async move { first.await.map_err(Error::other) });
            let inner = Do::from_future(async move { inner.await.map_err(Error::other) });
            let second = Do::now(()).map(move |()| {
                ask.send(()).unwrap();
                inner.wait()
            });
            let both = first.zip(second);
            let (one, two) = match threads {
                None => both.wait()?,
                Some(threads) => on_threads(threads, || both.wait())?,
            };
            outside.join().unwrap();
            two.map(|two| one + two)
        });
        assert_eq!(value.unwrap(), 3.0);
    }
}
