//! Randomized schedules: kernels with random durations and incorrect cost estimates, futures that
//! another thread wakes with a delay.
//!
//! All of them are identities, so they change times and threads, but not values.

use dl::{At, Data, Layer, Primitive, Result};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A source of delays, which are different at each call.
#[derive(Clone)]
pub(crate) struct Jitter(Option<Arc<AtomicU64>>);

impl Jitter {
    /// The same identities without delays.
    pub(crate) fn none() -> Self {
        Jitter(None)
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        Jitter(Some(Arc::new(AtomicU64::new(seed << 32))))
    }

    /// x, after a delay.
    #[track_caller]
    pub(crate) fn of<T: Data>(&self, x: &Layer<T>) -> Layer<T> {
        Layer::apply(Delay(self.clone(), PhantomData), (x.clone(),))
    }

    /// x, after a wake-up by another thread.
    #[track_caller]
    pub(crate) fn late<T: Data>(&self, x: &Layer<T>) -> Layer<T> {
        let (jitter, x) = (self.clone(), x.clone());
        Layer::dynamic(move || {
            let (jitter, x) = (jitter.clone(), x.clone());
            async move {
                jitter.woken_late().await;
                Ok(x)
            }
        })
    }

    async fn woken_late(&self) {
        let Some(random) = self.draw().filter(|random| random % 4 == 0) else { return };
        let (send, receive) = futures::channel::oneshot::channel();
        std::thread::spawn(move || {
            delay(random >> 2);
            let _ = send.send(()); // the receiver is gone if the pass was dropped
        });
        let _ = receive.await;
    }

    /// The next number of splitmix64.
    fn draw(&self) -> Option<u64> {
        let state = self.0.as_ref()?.fetch_add(1, Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Some(mixed ^ (mixed >> 31))
    }
}

fn delay(random: u64) {
    match random % 8 {
        0..=3 => {}
        4 | 5 => std::thread::yield_now(),
        6 => (0..(random >> 3) % 2000).for_each(|_| std::hint::spin_loop()),
        _ => std::thread::sleep(Duration::from_micros((random >> 3) % 100)),
    }
}

struct Delay<T>(Jitter, PhantomData<fn() -> T>);

impl<T: Data> Primitive for Delay<T> {
    type Operands = (Layer<T>,);
    type Output = T;

    fn name(&self) -> &'static str {
        "delay"
    }

    fn value(&self, (x,): (&T,)) -> Result<T> {
        if let Some(random) = self.0.draw() {
            delay(random);
        }
        Ok(x.clone())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<T::Delta>>,) {
        (Some(self.0.of(at.delta)),)
    }

    fn cost(&self, _: (&T,)) -> f64 {
        const INCORRECT: [f64; 8] = [0.0, -1.0, 1.0, 1e3, 1e5, 1e12, f64::INFINITY, f64::NAN];
        self.0.draw().map_or(100.0, |random| INCORRECT[(random % 8) as usize])
    }
}
