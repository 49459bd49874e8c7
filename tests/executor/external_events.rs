//! A layer that waits for an external event must not block its worker: here the event occurs after
//! the evaluation of another layer, on the only thread.

use super::support::{Log, block_on, on_threads, tokio_runtime, watched_by_log};
use dl::prelude::*;
use dl::{At, Error, Primitive, Result};
use std::sync::mpsc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

/// x; its evaluation is logged and signalled.
struct Independent {
    log: Log,
    happened: watch::Sender<bool>,
}

impl Primitive for Independent {
    type Operands = (Layer<f64>,);
    type Output = f64;
    fn name(&self) -> &'static str {
        "independent"
    }
    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        self.log.say("the independent layer is evaluated");
        self.happened.send_replace(true);
        Ok(*x)
    }
    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (Some(at.delta.clone()),)
    }
    fn cost(&self, _: (&f64,)) -> f64 {
        1e5
    }
}

/// A layer that waits for an external event, and an independent layer that triggers the event when
/// it is evaluated.
struct Scene {
    log: Log,
    happened: watch::Sender<bool>,
}

impl Scene {
    fn new() -> Self {
        Scene { log: Log::default(), happened: watch::Sender::new(false) }
    }

    fn independent(&self) -> Layer<f64> {
        let op = Independent { log: self.log.clone(), happened: self.happened.clone() };
        Layer::apply(op, (Layer::constant(1.0),))
    }

    /// A layer that awaits `ask`, with log entries before and after.
    fn leaf<F, Fut>(&self, ask: F) -> Layer<f64>
    where
        F: Fn(watch::Receiver<bool>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<f64>> + Send + 'static,
    {
        let (log, happened) = (self.log.clone(), self.happened.clone());
        Layer::from(Do::from_fn(move || {
            log.say("the leaf asks");
            let (log, answer) = (log.clone(), ask(happened.subscribe()));
            async move {
                let answer = answer.await;
                log.say("the leaf has its answer");
                answer
            }
        }))
    }

    /// Checks the order of events in every way to run the pass.
    fn check(self, leaf: Layer<f64>) {
        let expected = ["the leaf asks", "the independent layer is evaluated", "the leaf has its answer"];
        let ways: [fn(Do<f64>) -> Result<f64>; 3] = [
            |pass| on_threads(1, || pass.wait()),
            |pass| on_threads(1, || block_on(pass.run())),
            |pass| on_threads(1, || tokio_runtime(None).block_on(async { tokio::spawn(pass.run()).await.unwrap() })),
        ];
        for (number, way) in ways.into_iter().enumerate() {
            self.happened.send_replace(false);
            self.log.take();
            let pass = (&leaf + self.independent()).predict();
            assert_eq!(watched_by_log(&self.log, move || way(pass)).unwrap(), 42.0);
            assert_eq!(self.log.take(), expected, "way {number}");
        }
    }
}

async fn until(mut happened: watch::Receiver<bool>) -> Result<()> {
    happened.wait_for(|happened| *happened).await.map(drop).map_err(Error::other)
}

#[test]
fn layer_awaiting_timer_does_not_block_worker() {
    // not owned by the leaf: the last owner of the pass may be a waker, and a worker of a runtime
    // must not drop that runtime
    let runtime = tokio_runtime(Some(1));
    let handle = runtime.handle().clone();
    let scene = Scene::new();
    let leaf = scene.leaf(move |happened| {
        let handle = handle.clone();
        async move {
            for _ in 0..10_000 {
                if *happened.borrow() {
                    return Ok(41.0);
                }
                let timer = {
                    let _inside = handle.enter();
                    tokio::time::sleep(Duration::from_millis(1))
                };
                timer.await;
            }
            Err(Error::invalid("the timer held the only worker"))
        }
    });
    scene.check(leaf);
}

#[test]
fn layer_awaiting_socket_does_not_block_worker() {
    // a server that answers after the evaluation of the independent layer
    let runtime = tokio_runtime(Some(1)); // not owned by the leaf, as above
    let handle = runtime.handle().clone();
    let scene = Scene::new();
    let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let happened = scene.happened.clone();
    runtime.spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut question = [0; 8];
            socket.read_exact(&mut question).await.unwrap();
            until(happened.subscribe()).await.unwrap();
            socket.write_all(&(f64::from_le_bytes(question) + 1.0).to_le_bytes()).await.unwrap();
        }
    });
    let leaf = scene.leaf(move |_| {
        let handle = handle.clone();
        async move {
            let socket = {
                let _inside = handle.enter();
                let socket = std::net::TcpStream::connect(address).map_err(Error::other)?;
                socket.set_nonblocking(true).map_err(Error::other)?;
                tokio::net::TcpStream::from_std(socket)
            };
            let mut socket = socket.map_err(Error::other)?;
            socket.write_all(&40.0_f64.to_le_bytes()).await.map_err(Error::other)?;
            let mut answer = [0; 8];
            socket.read_exact(&mut answer).await.map_err(Error::other)?;
            Ok(f64::from_le_bytes(answer))
        }
    });
    scene.check(leaf);
}

#[test]
fn layer_awaiting_channel_does_not_block_worker() {
    let scene = Scene::new();
    let leaf = scene.leaf(|happened| {
        let (send, receive) = futures::channel::oneshot::channel();
        std::thread::spawn(move || {
            block_on(until(happened)).unwrap();
            send.send(41.0).unwrap();
        });
        async move { receive.await.map_err(Error::other) }
    });
    scene.check(leaf);
}

/// Hundreds of layers wait concurrently, and are completed in reverse order.
#[test]
fn hundreds_of_waiting_layers_complete_once() {
    const LEAVES: usize = 300;
    let (ask, asked) = mpsc::channel();
    let log = Log::default();
    let leaf = |number: usize| {
        let (ask, log) = (ask.clone(), log.clone());
        Layer::from(Do::from_fn(move || {
            let (answer, receive) = futures::channel::oneshot::channel::<f64>();
            ask.send(answer).unwrap();
            let log = log.clone();
            async move {
                let answer = receive.await.map_err(Error::other);
                log.say(number.to_string());
                answer
            }
        }))
    };
    let sum: Layer<f64> = (0..LEAVES).map(leaf).sum();
    let outside = std::thread::spawn(move || {
        let questions: Vec<_> = (0..LEAVES).map(|_| asked.recv().unwrap()).collect();
        questions.into_iter().rev().for_each(|answer| answer.send(1.0).unwrap());
    });
    let value = watched_by_log(&log, move || on_threads(1, || sum.predict().wait()));
    assert_eq!(value.unwrap(), LEAVES as f64);
    outside.join().unwrap();
    let mut answered = log.take();
    assert_eq!(answered.len(), LEAVES);
    answered.sort_unstable();
    answered.dedup();
    assert_eq!(answered.len(), LEAVES, "each layer must complete once");
}

/// The delta of a backward depends on an external event, concurrent with another layer.
#[test]
fn delta_awaiting_event_does_not_block_worker() {
    let (log, happened) = (Log::default(), watch::Sender::new(false));
    let w = Weight::new(1.0);
    let op = Independent { log: log.clone(), happened: happened.clone() };
    let kept = w.clone();
    let taken = log.clone();
    watched_by_log(&log, move || {
        on_threads(1, || {
            let tape = (&w * 1.0).forward().wait().unwrap();
            let slow = Do::from_fn(move || {
                let (log, happened) = (taken.clone(), happened.subscribe());
                async move {
                    log.say("the delta waits");
                    until(happened).await?;
                    log.say("the delta is there");
                    Ok(2.0)
                }
            });
            let fast = Layer::apply(op, (Layer::constant(3.0),));
            let fast = Do::from_fn(move || fast.extract());
            (tape.backward(slow) + tape.backward(fast)).step(&Sgd::new(1.0)).wait().unwrap();
        })
    });
    assert_eq!(kept.value(), -4.0);
    assert_eq!(log.take(), ["the delta waits", "the independent layer is evaluated", "the delta is there"]);
}
