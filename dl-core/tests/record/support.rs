//! Operations for the tests, and invariants of every record.

use dl_core::record::{Direction, NodeKind, NodeRecord, PassRecord, Recorder, Recording};
use dl_core::{At, Deltas, Do, Layer, Primitive, Result};
use std::time::{Duration, Instant};

/// The file that contains the rule of `Twice`.
pub(crate) const RULE: &str = file!();

/// Twice a number, as a user operation: its deltas are layers.
pub(crate) struct Twice {
    /// The duration of its kernel.
    takes: Duration,
}

impl Primitive for Twice {
    type Operands = (Layer<f64>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "twice"
    }

    fn value(&self, (x,): (&f64,)) -> Result<f64> {
        let began = Instant::now();
        while began.elapsed() < self.takes {
            std::hint::spin_loop();
        }
        Ok(2.0 * x)
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(2.0 * at.delta),)
    }

    fn cost(&self, _: (&f64,)) -> f64 {
        self.takes.as_nanos() as f64
    }
}

#[track_caller]
pub(crate) fn twice(x: Layer<f64>) -> Layer<f64> {
    Layer::apply(Twice { takes: Duration::ZERO }, (x,))
}

#[track_caller]
pub(crate) fn slowly_twice(x: Layer<f64>) -> Layer<f64> {
    Layer::apply(Twice { takes: Duration::from_millis(1) }, (x,))
}

/// The magnitude of a layer, as a dynamic node that reads its value.
#[track_caller]
pub(crate) fn magnitude(x: Layer<f64>) -> Layer<f64> {
    Layer::dynamic(move || {
        let x = x.clone();
        async move { Ok(if x.extract().await? > 0.0 { x } else { -x }) }
    })
}

/// The result of a run, and the record of its only pass.
pub(crate) fn record<T: Send + 'static>(run: Do<T>) -> (Result<T>, PassRecord) {
    let recorder = Recorder::new();
    let value = run.recorded(&recorder).wait();
    let mut recording = checked(recorder.take());
    assert_eq!(recording.passes.len(), 1);
    (value, recording.passes.remove(0))
}

/// Checks the invariants of every record.
pub(crate) fn checked(recording: Recording) -> Recording {
    assert!(recording.passes.is_sorted_by_key(|pass| pass.began));
    for pass in &recording.passes {
        assert!(pass.began <= pass.ended);
        for (id, node) in (0..).zip(&pass.nodes) {
            let mut mentioned = node.operands.iter().chain(&node.looked_at).chain(&node.became);
            assert!(mentioned.all(|&other| other < id), "{id}: {node:?}");
        }
        let spans = pass.spans.iter();
        let nodes = spans.map(|span| span.node).chain(pass.decisions.iter().map(|decision| decision.node));
        assert!(nodes.flatten().all(|node| (node as usize) < pass.nodes.len()));
        for span in &pass.spans {
            assert!(pass.began <= span.began && span.began <= span.ended && span.ended <= pass.ended, "{span:?}");
        }
    }
    recording
}

/// The number of nodes as the counters of a pass count them.
pub(crate) fn counted(pass: &PassRecord) -> usize {
    pass.nodes.iter().filter(|node| node.kind != NodeKind::Constant).count()
}

pub(crate) fn names(pass: &PassRecord) -> Vec<&'static str> {
    pass.nodes.iter().map(|node| node.name).collect()
}

/// The only node of this name.
pub(crate) fn node<'a>(pass: &'a PassRecord, name: &str, direction: Direction) -> (u32, &'a NodeRecord) {
    let mut found = (0..).zip(&pass.nodes).filter(|(_, node)| node.name == name && node.direction == direction);
    let first = found.next().unwrap_or_else(|| panic!("no {name} in {:?}", names(pass)));
    assert!(found.next().is_none(), "more than one {name}");
    first
}

pub(crate) fn on_threads<R: Send>(threads: usize, f: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool").install(f)
}
