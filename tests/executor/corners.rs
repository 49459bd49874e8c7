//! Corners in which promises were broken once: code of the user's where nobody expects any, wakes and rests that meet, steps inside steps. Those
//! that would hang are ended by a watchdog.

use crate::support::{on_threads, watched};
use dl::prelude::*;
use dl::{
    At, Buffer, Chunk, Data, Delta, Error, Memory, Optimizer, Primitive, Result, Seed, Slot, Snapshot, Trainable, Value,
};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

fn one() -> f64 {
    Layer::constant(1.0_f64).predict().wait().unwrap()
}

#[derive(Clone, Copy, PartialEq)]
enum Waits {
    Drop,
    Cost,
    Rule,
    Name,
    Value,
}
struct Op(Waits);
impl Drop for Op {
    fn drop(&mut self) {
        if self.0 == Waits::Drop {
            one();
        }
    }
}
impl Primitive for Op {
    type Operands = (Layer<f64>,);
    type Output = f64;
    fn name(&self) -> &'static str {
        if self.0 == Waits::Name {
            one();
        }
        "op"
    }
    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        if self.0 == Waits::Value {
            one();
        }
        Ok(*x)
    }
    fn cost(&self, _: (&f64,)) -> f64 {
        if self.0 == Waits::Cost {
            one();
        }
        1.0
    }
    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        if self.0 == Waits::Rule {
            one();
        }
        (Some(at.delta.clone()),)
    }
}

#[test]
fn a_destructor_that_waits_during_a_sweep() {
    watched("a corner", || {
        Do::from_fn(|| async {
            for _ in 0..1000 {
                Layer::apply(Op(Waits::Drop), (Layer::constant(1.0),)).extract().await?;
            }
            Ok(())
        })
        .wait()
        .unwrap()
    });
}

#[test]
fn an_estimate_of_the_cost_that_waits() {
    watched("a corner", || {
        Do::from_fn(|| async { Layer::apply(Op(Waits::Cost), (Layer::constant(1.0),)).extract().await }).wait().unwrap()
    });
}

#[test]
fn a_rule_that_waits() {
    watched("a corner", || {
        Layer::apply(Op(Waits::Rule), (Weight::new(1.0).layer(),)).train(&Sgd::new(0.1)).wait().map(|_| ()).ok()
    });
}

#[derive(Clone)]
struct Looks(Weight<f64>, Snapshot);
impl Optimizer for Looks {
    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        self.0.layer().predict().on(&self.1).wait().map(|_| ())
    }
}

#[test]
fn an_optimizer_that_evaluates_on_a_snapshot() {
    watched("a corner", || {
        let w = Weight::new(1.0);
        let _ = (&w * 2.0).train(&Looks(w.clone(), Snapshot::take())).wait();
    });
}

#[derive(Clone)]
struct Plain(Weight<f64>);
impl Optimizer for Plain {
    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        self.0.layer().predict().wait().map(|_| ())
    }
}
#[test]
fn an_optimizer_that_evaluates_in_a_step_on_a_snapshot() {
    watched("a corner", || {
        let w = Weight::new(1.0);
        let y = &w * 2.0;
        // decides, so that the step is not taken at once
        let loss = Layer::dynamic(move || {
            let y = y.clone();
            async move { Ok(y) }
        });
        let _ = loss.train(&Plain(w.clone())).on(&Snapshot::take()).wait();
    });
}

/// 0: `bytes` panics; else that many bytes.
#[derive(Clone)]
struct Sized_(usize);
impl Data for Sized_ {
    type Delta = f64;
    fn one(&self) -> f64 {
        1.0
    }
    fn bytes(&self) -> usize {
        assert!(self.0 != 0, "bytes breaks");
        self.0
    }
}
struct Make(usize);
impl Primitive for Make {
    type Operands = (Layer<f64>,);
    type Output = Sized_;
    fn name(&self) -> &'static str {
        "make"
    }
    fn value(&self, _: (&f64,)) -> Result<Sized_> {
        Ok(Sized_(self.0))
    }
    fn cost(&self, _: (&f64,)) -> f64 {
        50_000.0
    }
    fn pullback(&self, _: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (None,)
    }
}
struct Both;
impl Primitive for Both {
    type Operands = Vec<Layer<Sized_>>;
    type Output = f64;
    fn name(&self) -> &'static str {
        "both"
    }
    fn value(&self, _: Vec<&Sized_>) -> Result<f64> {
        Ok(1.0)
    }
    fn pullback(&self, _: &At<'_, Self>) -> Vec<Option<Layer<f64>>> {
        vec![None, None, None]
    }
}
fn sized(n: usize) -> Layer<f64> {
    Layer::apply(Both, (0..3).map(|_| Layer::apply(Make(n), (Layer::constant(1.0),))).collect::<Vec<_>>())
}

#[test]
fn a_size_that_panics_in_a_wait() {
    let error = watched("a corner", || sized(0).predict().wait()).unwrap_err();
    assert!(error.is_panic());
}
#[test]
fn a_size_that_panics_in_the_pool() {
    let error = watched("a corner", || futures::executor::block_on(sized(0).predict().run())).unwrap_err();
    assert!(error.is_panic());
}
#[test]
fn a_size_that_is_enormous() {
    watched("a corner", || sized(usize::MAX / 2).predict().wait()).unwrap();
}

#[test]
fn seeds_of_a_run_and_of_a_wait_inside_it_differ() {
    let (a, b, c) = Do::from_fn(|| async {
        let draw = Do::from_fn(|| async { Seed::draw().extract().await });
        let a = Seed::draw().extract().await?;
        Ok((a, draw.wait()?, draw.wait()?))
    })
    .seed(1)
    .wait()
    .unwrap();
    assert_ne!(a, b);
    assert_ne!(b, c);
}

#[test]
fn seeds_do_not_depend_on_who_comes_first() {
    let values = |slow: usize, apart: bool| {
        let (a, b) = (Seed::draw(), Seed::draw());
        Do::from_fn(move || {
            let (a, b) = (a.clone(), b.clone());
            async move {
                let body = |which: usize, seed: Layer<Seed>| {
                    Layer::dynamic(move || {
                        let seed = seed.clone();
                        async move {
                            // lets the other one go first
                            let mut turns = if which == slow { 3 } else { 0 };
                            std::future::poll_fn(|cx| {
                                if turns == 0 {
                                    return Poll::Ready(());
                                }
                                turns -= 1;
                                cx.waker().wake_by_ref();
                                Poll::Pending
                            })
                            .await;
                            Ok(Layer::constant(seed.extract().await?.get() as f64))
                        }
                    })
                };
                let (x, y) = (body(0, a), body(1, b));
                match apart {
                    // a pass of its own
                    true => Do::predict((x, y)).await,
                    false => futures::future::try_join(x.extract(), y.extract()).await,
                }
            }
        })
        .seed(1)
        .wait()
        .unwrap()
    };
    for apart in [false, true] {
        let (one, two) = (values(0, apart), values(1, apart));
        assert_eq!(one, two, "in a pass of its own: {apart}");
    }
}

/// Something outside that happens once.
#[derive(Default)]
struct Event(Mutex<(bool, Vec<Waker>)>, AtomicUsize);
impl Event {
    fn happen(&self) {
        let wakers = {
            let mut event = self.0.lock().unwrap();
            event.0 = true;
            std::mem::take(&mut event.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
    async fn wait(self: Arc<Self>) {
        std::future::poll_fn(|cx| {
            let mut event = self.0.lock().unwrap();
            if event.0 {
                return Poll::Ready(());
            }
            event.1.push(cx.waker().clone());
            self.1.fetch_add(1, SeqCst);
            Poll::Pending
        })
        .await
    }
}

#[test]
fn a_task_that_is_woken_while_its_pass_comes_to_rest() {
    rests(true);
}

/// For comparison: holds.
#[test]
fn a_task_that_is_woken_when_its_pass_has_come_to_rest() {
    rests(false);
}

fn rests(meanwhile: bool) {
    const TASKS: usize = 3000;
    for round in 0..100_u64 {
        let event = Arc::<Event>::default();
        let tasks: Vec<Layer<f64>> = (0..TASKS)
            .map(|_| {
                let event = event.clone();
                Layer::dynamic(move || {
                    let event = event.clone();
                    async move {
                        event.wait().await;
                        Ok(Layer::constant(1.0))
                    }
                })
            })
            .collect();
        let w = Weight::new(1.0);
        let y = w.layer();
        let (sender, receiver) = mpsc::channel();
        let waker = std::thread::spawn({
            let event = event.clone();
            move || {
                receiver.recv().unwrap();
                if !meanwhile {
                    return;
                }
                let start = Instant::now();
                while start.elapsed() < Duration::from_micros(round * 7 % 700) {}
                event.happen();
            }
        });
        let tape = Do::from_fn({
            let (tasks, event, sender) = (tasks.clone(), event.clone(), Mutex::new(sender));
            move || {
                let (tasks, event, y, sender) =
                    (tasks.clone(), event.clone(), y.clone(), sender.lock().unwrap().clone());
                async move {
                    let all = futures::future::join_all(tasks.iter().map(Layer::extract));
                    let gate = std::future::poll_fn(|cx| {
                        if event.1.load(SeqCst) >= TASKS {
                            return Poll::Ready(());
                        }
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    });
                    drop(futures::future::select(Box::pin(all), gate).await);
                    let tape = y.forward().await?;
                    sender.send(()).unwrap();
                    Ok(tape)
                }
            }
        })
        .wait()
        .unwrap();
        waker.join().unwrap();
        if !meanwhile {
            event.happen();
        }
        let sum = Do::from_fn(move || {
            let all = futures::future::try_join_all(tasks.iter().map(Layer::extract));
            async move { Ok(all.await?.into_iter().sum::<f64>()) }
        });
        let effects = tape.backward(sum);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            watched("a corner", move || effects.step(&Sgd::new(1.0)).wait()).unwrap();
        }));
        assert!(result.is_ok(), "round {round}");
    }
}

#[test]
fn many_who_wait_for_one() {
    let time = |n: usize| {
        let event = Arc::<Event>::default();
        let one = {
            let event = event.clone();
            Layer::dynamic(move || {
                let event = event.clone();
                async move {
                    event.wait().await;
                    Ok(Layer::constant(1.0))
                }
            })
        };
        let many: Vec<Layer<f64>> = (0..n)
            .map(|_| {
                let one = one.clone();
                Layer::dynamic(move || {
                    let one = one.clone();
                    async move { Ok(Layer::constant(one.extract().await?)) }
                })
            })
            .collect();
        let sum: Layer<f64> = many.into_iter().sum();
        let later = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            event.happen();
        });
        let start = Instant::now();
        assert_eq!(sum.predict().wait().unwrap(), n as f64);
        later.join().unwrap();
        start.elapsed().saturating_sub(Duration::from_millis(100))
    };
    let (few, many) = (time(10_000), time(80_000));
    println!("{few:?} {many:?}");
    assert!(many < 30 * few.max(Duration::from_millis(10)), "{few:?} {many:?}");
}

#[test]
fn a_deep_graph_that_goes_with_its_thread() {
    thread_local! {
        static KEPT: RefCell<Option<Layer<f64>>> = const { RefCell::new(None) };
    }
    std::thread::spawn(|| {
        KEPT.with(|kept| *kept.borrow_mut() = None);
        let mut x = Layer::constant(1.0);
        for _ in 0..300_000 {
            x = Layer::apply(Op(Waits::Value), (x,));
        }
        KEPT.with(|kept| *kept.borrow_mut() = Some(x));
    })
    .join()
    .unwrap();
}

#[test]
fn an_old_tape_does_not_overwrite_a_buffer() {
    let (w, steps) = (Weight::new(1.0), Buffer::new(0.0));
    let loss = (&w * 1.0).updating(&steps, &steps.layer() + 1.0);
    let tape = loss.forward().wait().unwrap();
    let effects = tape.backward(Do::now(1.0));
    effects.step(&Sgd::new(0.1)).wait().unwrap();
    loss.train(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(steps.value(), 2.0);
    effects.step(&Sgd::new(0.1)).wait().unwrap();
    assert!(steps.value() >= 2.0, "the count of steps went back to {}", steps.value());
}

#[test]
fn a_step_on_frozen_weights_writes_buffers() {
    let (w, steps) = (Weight::new(1.0), Buffer::new(0.0));
    w.freeze();
    let loss = (&w * 1.0).updating(&steps, &steps.layer() + 1.0);
    loss.train(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(steps.value(), 1.0);
    loss.forward().wait().unwrap().backward(Do::now(1.0)).step(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(steps.value(), 2.0);
}

#[test]
fn both_errors_of_a_zip_are_reported() {
    let fail = |what: &'static str| Do::<f64>::fail(Error::invalid(what));
    assert_eq!(fail("a").zip(fail("b")).wait().unwrap_err().others().len(), 1);
}

/// A number whose copies in the state of an optimizer panic when they go.
#[derive(Clone)]
struct Slotted(f64, bool, Arc<AtomicBool>);
impl Drop for Slotted {
    fn drop(&mut self) {
        assert!(!(self.1 && self.2.swap(false, SeqCst)), "a slot breaks");
    }
}
impl Data for Slotted {
    type Delta = f64;
    fn one(&self) -> f64 {
        1.0
    }
    fn into_value(self) -> Value {
        Value::boxed(self)
    }
}
impl Trainable for Slotted {
    fn zeros_like(&self) -> Self {
        Slotted(0.0, true, self.2.clone())
    }
    fn update(&mut self, delta: &f64, _: &mut [Self], rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>) -> Result<()> {
        rule(Chunk::F64 { values: std::slice::from_mut(&mut self.0), deltas: &[*delta], slots: &mut [] })
    }
}
struct Add2;
impl Primitive for Add2 {
    type Operands = (Layer<Slotted>, Layer<Slotted>);
    type Output = f64;
    fn name(&self) -> &'static str {
        "add"
    }
    fn value(&self, (a, b): (&Slotted, &Slotted)) -> Result<f64> {
        Ok(a.0 + b.0)
    }
    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>, Option<Layer<f64>>) {
        (Some(at.delta.clone()), Some(at.delta.clone()))
    }
}
#[derive(Clone)]
struct WithSlot(Memory, Arc<AtomicUsize>, Arc<AtomicBool>);
impl Optimizer for WithSlot {
    fn slots(&self) -> &[Slot] {
        const { &[Slot::zeros("state")] }
    }
    fn memory(&self) -> Option<&Memory> {
        Some(&self.0)
    }
    fn step(&self, chunk: Chunk<'_>, _: u64) -> Result<()> {
        if let Chunk::F64 { values, deltas, .. } = chunk {
            values[0] -= deltas[0];
        }
        if self.1.fetch_add(1, SeqCst) == 3 {
            self.2.store(true, SeqCst);
        }
        Ok(())
    }
}

#[test]
fn a_step_is_whole_although_old_state_panics_when_it_goes() {
    let bomb = Arc::<AtomicBool>::default();
    let (a, b) = (Weight::new(Slotted(0.0, false, bomb.clone())), Weight::new(Slotted(0.0, false, bomb.clone())));
    let sum = Layer::apply(Add2, (a.layer(), b.layer()));
    let optimizer = WithSlot(Memory::new(), Arc::default(), bomb);
    sum.train(&optimizer).wait().unwrap();
    assert_eq!((a.value().0, b.value().0), (-1.0, -1.0));
    let result = sum.train(&optimizer).wait();
    assert_eq!(a.value().0, b.value().0, "half a step: {result:?}");
}

#[test]
#[ignore = "a limit, see the docs of `Do`: under a foreign executor a pass needs a worker that is free"]
fn a_task_of_tokio_while_all_workers_of_rayon_block_on_it() {
    let rt = Arc::new(tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap());
    watched("a corner", move || {
        rayon::broadcast(|_| {
            let task = rt.spawn(async { Layer::apply(Op(Waits::Value), (Layer::constant(1.0),)).predict().await });
            rt.block_on(task).unwrap().unwrap()
        })
    });
}

/// x + x, as data whose sum panics.
#[derive(Clone)]
struct NoSum;
impl Data for NoSum {
    type Delta = NoSum;
    fn one(&self) -> NoSum {
        NoSum
    }
}

impl Delta for NoSum {
    fn sum(_: Vec<Layer<Self>>) -> Layer<Self> {
        panic!("sum breaks")
    }

    fn scale(layer: &Layer<Self>, _: f64) -> Layer<Self> {
        layer.clone()
    }

    fn squared_norm(&self) -> f64 {
        0.0
    }
}
impl Trainable for NoSum {
    fn zeros_like(&self) -> Self {
        NoSum
    }
    fn update(&mut self, _: &NoSum, _: &mut [Self], _: &mut dyn FnMut(Chunk<'_>) -> Result<()>) -> Result<()> {
        Ok(())
    }
}
struct Pair;
impl Primitive for Pair {
    type Operands = (Layer<NoSum>, Layer<NoSum>);
    type Output = NoSum;
    fn name(&self) -> &'static str {
        "pair"
    }
    fn value(&self, _: (&NoSum, &NoSum)) -> Result<NoSum> {
        Ok(NoSum)
    }
    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<NoSum>>, Option<Layer<NoSum>>) {
        (Some(at.delta.clone()), Some(at.delta.clone()))
    }
}
#[test]
fn a_sum_that_panics_has_a_place() {
    let w = Weight::new(NoSum);
    let error = Layer::apply(Pair, (w.layer(), w.layer())).train(&Sgd::new(0.1)).map(|_| ()).wait().unwrap_err();
    assert!(error.is_panic() && error.place().is_some(), "{error}");
}

/// A driver that was woken for what is queued goes without doing it: another one does.
#[test]
fn a_driver_leaves_what_it_was_woken_for() {
    a_driver_does_nothing(true);
}

#[test]
fn a_driver_that_was_woken_is_not_polled() {
    a_driver_does_nothing(false);
}

fn a_driver_does_nothing(leaves: bool) {
    let w = Weight::new(3.0_f64);
    let event = Arc::<Event>::default();
    let tape = (&w * &w).forward().wait().unwrap();
    let effects = tape.backward(Do::from_fn({
        let event = event.clone();
        move || {
            let event = event.clone();
            async move {
                event.wait().await;
                Ok(1.0)
            }
        }
    }));
    let delta = {
        let (effects, event) = (effects.clone(), event.clone());
        watched("the driver that is left", move || {
            on_threads(2, || {
                struct Flag(AtomicUsize);
                impl Wake for Flag {
                    fn wake(self: Arc<Self>) {
                        self.0.fetch_add(1, SeqCst);
                    }
                }
                let flag = Arc::new(Flag(AtomicUsize::new(0)));
                let mut first = effects.step(&Sgd::new(0.1)).run();
                // until it waits for the event
                while event.1.load(SeqCst) == 0 || flag.0.swap(0, SeqCst) > 0 {
                    assert!(
                        Pin::new(&mut first).poll(&mut Context::from_waker(&Waker::from(flag.clone()))).is_pending()
                    );
                    std::thread::sleep(Duration::from_millis(1));
                }
                let second = std::thread::spawn({
                    let (effects, w) = (effects.clone(), w.clone());
                    move || effects.delta(&w).wait()
                });
                std::thread::sleep(Duration::from_millis(50)); // it waits, too
                event.happen();
                if leaves {
                    drop(first);
                    return second.join().unwrap().unwrap();
                }
                second.join().unwrap().unwrap() // while the first one is there
            })
        })
    };
    assert_eq!(delta, Some(6.0));
}

/// x + 1, which takes its time.
struct Slow(Arc<AtomicUsize>);

impl Primitive for Slow {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "slow"
    }

    fn value(&self, (x,): (&f64,)) -> dl::Result<f64> {
        self.0.fetch_add(1, SeqCst);
        std::thread::sleep(Duration::from_millis(50));
        Ok(x + 1.0)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (Some(at.delta.clone()),)
    }

    fn cost(&self, _: (&f64,)) -> f64 {
        1_000.0
    }
}

/// What only an operation had is handed out while that operation, with which its value was to go, is running.
#[test]
fn an_operand_is_asked_for_while_it_is_used_up() {
    let begun = [(); 2].map(|()| Arc::<AtomicUsize>::default());
    let value = {
        let [first, second] = begun.clone();
        watched("an operand that is used up", move || {
            on_threads(2, || {
                let x = Layer::apply(Slow(first), (Weight::new(0.0).layer(),));
                let y = Layer::apply(Slow(second.clone()), (x,));
                let asks = Layer::dynamic({
                    let y = y.clone();
                    move || {
                        let (y, second) = (y.clone(), second.clone());
                        async move {
                            while second.load(SeqCst) == 0 {
                                std::thread::sleep(Duration::from_millis(1));
                            }
                            let (_, (x,)) = y.applied::<Slow>().expect("it is that operation");
                            Ok(Layer::constant(x.extract().await?))
                        }
                    }
                });
                // enough for a second thread, which begins with the operations, as they come last
                let other = || Layer::dynamic(|| async { Ok(Layer::constant(0.0)) });
                let (x, _, y) = Do::predict((asks, [other(), other()], y)).wait().unwrap();
                (x, y)
            })
        })
    };
    assert_eq!(value, (1.0, 2.0));
}
