//! Failures of a device.

use super::{alone, device, numbers};
use dl_core::{Differentiable, Layer, Result, Weight};
use dl_nd::device::{Check, Counters, Device, OutOfRange, Readout, Reads, Span, View, Work};
use dl_nd::{MoveModule, Nd, ops::*};
use dl_optim::{Adam, OptimizerExt};
use ndarray::Ix2;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A device on which a launch fails, and every one after it.
struct Failing {
    device: Arc<dyn Device>,
    left: AtomicI64,
    left_flushes: AtomicI64,
}

impl Failing {
    fn new(device: Arc<dyn Device>) -> Arc<Failing> {
        Arc::new(Failing { device, left: AtomicI64::new(i64::MAX), left_flushes: AtomicI64::new(i64::MAX) })
    }
}

impl Device for Failing {
    fn name(&self) -> String {
        "a failing device".to_owned()
    }

    fn counters(&self) -> Counters {
        self.device.counters()
    }

    fn allocate(&self, bytes: usize) -> Result<Span> {
        self.device.allocate(bytes)
    }

    fn free(&self, span: Span) {
        self.device.free(span);
    }

    fn write(&self, to: Span, bytes: &[u8]) -> Result<()> {
        self.device.write(to, bytes)
    }

    fn launch(&self, work: &Work<'_>) -> Result<()> {
        match self.left.fetch_sub(1, Ordering::Relaxed) {
            ..=0 => Err(dl_core::Error::invalid("this launch fails")),
            _ => self.device.launch(work),
        }
    }

    fn flush(&self) -> Result<()> {
        match self.left_flushes.fetch_sub(1, Ordering::Relaxed) {
            ..=0 => Err(dl_core::Error::invalid("these launches are not queued")),
            _ => self.device.flush(),
        }
    }

    fn check(&self, of: &View, below: usize, except: Option<usize>, error: OutOfRange) -> Result<Check> {
        match self.left.fetch_sub(1, Ordering::Relaxed) {
            ..=0 => Err(dl_core::Error::invalid("this launch fails")),
            _ => self.device.check(of, below, except, error),
        }
    }

    fn read(&self, reads: &mut [Readout]) -> Result<()> {
        self.device.read(reads)
    }

    fn reads(&self) -> &Reads {
        self.device.reads()
    }
}

/// Two weights on the device, a number on the host, and a loss of all.
fn network(device: Arc<dyn Device>) -> ([Weight<Nd>; 2], Weight<f32>, Layer<f32>) {
    let matrix = |seed| numbers::<f32>(&[3, 3], seed).to_rank::<Ix2>().predict().wait().unwrap();
    let (net, host) = ([1, 2].map(|seed| Weight::new(matrix(seed))), Weight::new(1.0_f32));
    net.move_to(&device).unwrap();
    let x = matrix(3).to(&device).unwrap();
    let loss = x.matmul(&net[0]).relu().matmul(&net[1]).sum() * &host;
    (net, host, loss)
}

#[test]
fn step_with_a_failing_launch_changes_no_weight() {
    let Some(device) = device(u32::MAX) else { return };
    let failing = Failing::new(device.clone());
    let (net, host, loss) = network(failing.clone());
    let before = failing.left.load(Ordering::Relaxed);
    let frozen = Adam::new(0.0).ema(0.9).clip_norm(1.0);
    loss.train(&frozen).wait().unwrap();
    let launches = before - failing.left.load(Ordering::Relaxed);
    assert!(launches > 6, "{launches}");
    let values = |net: &[Weight<Nd>; 2]| net.each_ref().map(|w| w.value().to_host().unwrap());
    let expected = values(&net);
    let ema = Adam::new(1.0).ema(0.9);
    let adam = ema.clone().clip_norm(1.0);
    for launch in 0..launches {
        let held = failing.counters().bytes_in_use;
        failing.left.store(launch, Ordering::Relaxed);
        let error = loss.train(&adam).wait().unwrap_err();
        failing.left.store(i64::MAX, Ordering::Relaxed);
        assert!(error.to_string().contains("this launch fails"), "launch {launch}: {error}");
        assert!(host.value() == 1.0 && values(&net) == expected, "launch {launch}");
        assert_eq!(failing.counters().bytes_in_use, held, "launch {launch} has left memory behind");
        assert!(ema.average(&net[0]).unwrap().is_none(), "launch {launch}");
    }
    loss.train(&adam).wait().unwrap();
    assert!(values(&net) != expected && host.value() != 1.0);
}

/// A device launches what is recorded before a step changes a weight, once for all weights.
#[test]
fn step_whose_launches_cannot_be_queued_changes_no_weight() {
    let Some(device) = device(u32::MAX) else { return };
    let failing = Failing::new(device.clone());
    let (net, host, loss) = network(failing.clone());
    let values = || (net.each_ref().map(|w| w.value().to_host().unwrap()), host.value());
    let (expected, adam) = (values(), Adam::new(1.0));
    let held = failing.counters().bytes_in_use;
    failing.left_flushes.store(0, Ordering::Relaxed);
    let error = loss.train(&adam).wait().unwrap_err();
    assert!(error.to_string().contains("these launches are not queued"), "{error}");
    assert_eq!(values(), expected);
    assert_eq!(failing.counters().bytes_in_use, held);
    failing.left_flushes.store(1, Ordering::Relaxed);
    loss.train(&adam).wait().unwrap();
    assert_ne!(values(), expected);
}

#[test]
fn unknown_device_is_an_error_that_names_it() {
    // the variable is read when a device is opened, so it is set in a process of its own
    let test = std::env::current_exe().unwrap();
    let run = |wanted: &str| {
        let mut test = std::process::Command::new(&test);
        let ended = test.args(["--nocapture", "--exact", "faults::opened"]).env("DL_DEVICE", wanted).output().unwrap();
        String::from_utf8_lossy(&ended.stdout).into_owned()
    };
    assert!(run("cuda:0").contains("`DL_DEVICE` is `cuda:0`"));
    let text = run("opencl:99");
    assert!(text.contains("99") || text.contains("OpenCL"), "{text}");
}

#[test]
fn opened() {
    let _alone = alone();
    if let Err(error) = dl_gpu::open() {
        println!("{error}");
    }
}
