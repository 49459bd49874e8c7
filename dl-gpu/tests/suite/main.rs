//! Tests of devices against the host. Without a device they only say so.

mod faults;
mod lookups;
mod orders;
mod programs;
mod tiers;
mod training;
mod windows;

use dl_core::Differentiable;
use dl_gpu::Settings;
use dl_nd::device::Device;
use dl_nd::{Element, Nd};
use ndarray::IxDyn;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A device that one test at a time has: PoCL crashes now and then if it compiles for several.
struct Alone {
    device: Arc<dyn Device>,
    _others_wait: MutexGuard<'static, ()>,
}

impl Deref for Alone {
    type Target = Arc<dyn Device>;

    fn deref(&self) -> &Arc<dyn Device> {
        &self.device
    }
}

/// Other tests that open a device wait until this is dropped.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A device that compiles pointwise programs from this use on.
fn device(compile_from: u32) -> Option<Alone> {
    let _others_wait = alone();
    match dl_gpu::open_with(Settings { compile_from }) {
        Ok(device) => Some(Alone { device, _others_wait }),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// A tensor with rounded sums and products, and elements of either sign.
fn numbers<A: Element>(shape: &[usize], seed: usize) -> Nd<A, IxDyn> {
    let number = |i: usize| ((i * 7919 + seed * 104_729) % 20_011) as f64 / 10_005.3 - 1.0;
    Nd::from_vec(IxDyn(shape), (0..shape.iter().product()).map(|i| A::of(number(i))).collect()).expect("one each")
}

/// Checks that the value has the same bits on the host and on a device, as a function of tensors that
/// are moved.
#[track_caller]
fn same_bits<A: Element, X: Differentiable<Data = Nd<A, IxDyn>>>(
    device: &Arc<dyn Device>,
    operands: &[Nd<A, IxDyn>],
    value: impl Fn(&[Nd<A, IxDyn>]) -> X,
) {
    let moved: Vec<_> = operands.iter().map(|x| x.to(device).expect("there is room")).collect();
    let expected = value(operands).layer().predict().wait().expect("the host computes it");
    let found = value(&moved).layer().predict().wait().expect("the device computes it");
    assert!(found.device().is_some());
    let found = found.to_host().expect("it can be read");
    assert_eq!(found.shape(), expected.shape());
    let bits = |x: A| x.to_f64().expect("a number").to_bits();
    let differ = found
        .view()
        .iter()
        .zip(expected.view())
        .filter(|&(a, b)| bits(*a) != bits(*b) && !(a.is_nan() && b.is_nan()))
        .count();
    assert_eq!(differ, 0, "of {} elements", found.len());
}
