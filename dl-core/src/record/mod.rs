//! What passes did: the layers that they met, when their kernels ran, and which branches were
//! taken.
//!
//! A [`Recorder`] is a setting of a pass, as a seed is; what it hands out are [`Recording`]s, plain
//! data.
//!
//! ```
//! use dl_core::record::{NodeKind, Recorder};
//! use dl_core::{Differentiable, Weight};
//! let recorder = Recorder::new();
//! let w = Weight::new(3.0_f64);
//! let y = (&w * &w).sin();
//! y.predict().recorded(&recorder).wait()?;
//!
//! let pass = &recorder.take().passes[0];
//! let names: Vec<&str> = pass.nodes.iter().map(|node| node.name).collect();
//! assert_eq!(names, ["weight", "mul", "sin"]);
//! assert_eq!((pass.nodes[0].kind, &pass.nodes[1].operands[..]), (NodeKind::Weight, &[0, 0][..]));
//! assert_eq!((&pass.nodes[2].value[..], pass.nodes[2].place.file()), ("f64", file!()));
//! # dl_core::Result::Ok(())
//! ```
//!
//! All of it has names:
//!
//! ```
//! use dl_core::record::{Decision, Direction, NodeRecord, PassRecord, Recorder, Recording, Span, SpanWork};
//! use dl_core::{Differentiable, Weight};
//! use dl_optim::Sgd;
//! let (recorder, w) = (Recorder::new(), Weight::new(3.0_f64));
//! w.sin().train(&Sgd::new(0.1)).recorded(&recorder).wait()?;
//!
//! let recording: Recording = recorder.take();
//! let pass: &PassRecord = &recording.passes[0];
//! let there: Vec<&NodeRecord> = pass.nodes.iter().filter(|node| node.direction == Direction::Forward).collect();
//! let commit: Option<&Span> = pass.spans.iter().find(|span| span.work == SpanWork::Commit);
//! let decisions: &[Decision] = &pass.decisions;
//! assert_eq!((there.len(), commit.is_some(), decisions.len()), (2, true, 0));
//! # dl_core::Result::Ok(())
//! ```
//!
//! A pass keeps its books as it always does, and copies them into the record when they change and
//! when it rests. So a pass that nobody records pays about one instruction in a hundred, at most;
//! one that is recorded computes the same bits. Scalar arithmetic, which runs while it is entered,
//! has nodes and no spans.
//!
//! # With `tracing`
//!
//! With the feature `tracing` passes are spans of the crate of that name, too, whether they are
//! recorded or not. The target is `dl`. At the level `DEBUG` there are `pass`, with the fields
//! `purpose` and `threads`, and inside of it `backward` and `commit`; at `TRACE` also `kernel` and
//! `body`, with `op`, `file` and `line`, and `help` inside of a kernel for a thread that comes to
//! help. On every thread their parent is the pass. Its span ends when the run has ended that it
//! belongs to; what it does later, if a tape or [`SideEffects`](crate::SideEffects) make it go on,
//! is in another span of the same name.
//!
#![cfg_attr(feature = "tracing", doc = "```")]
#![cfg_attr(not(feature = "tracing"), doc = "```ignore")]
//! use dl_core::{Differentiable, Weight};
//! use dl_optim::Sgd;
//! let (recorder, w) = (Recorder::new(), Weight::new(3.0_f64));
//! w.sin().train(&Sgd::new(0.1)).recorded(&recorder).wait()?;
//!
//! let recording: Recording = recorder.take();
//! let pass: &PassRecord = &recording.passes[0];
//! let there: Vec<&NodeRecord> = pass.nodes.iter().filter(|node| node.direction == Direction::Forward).collect();
//! let commit: Option<&Span> = pass.spans.iter().find(|span| span.work == SpanWork::Commit);
//! let decisions: &[Decision] = &pass.decisions;
//! assert_eq!((there.len(), commit.is_some(), decisions.len()), (2, true, 0));
//! # dl_core::Result::Ok(())
//! ```

mod log;
mod recorder;

pub(crate) use log::{Log, State, Told};
pub use recorder::Recorder;

use crate::error::branch::Branch;
use crate::error::call_stack::Calls;
use std::panic::Location;
use std::time::Duration;

/// What the passes did that were given to a recorder. Times count from when the recorder was made.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// In the order in which they began.
    pub passes: Vec<PassRecord>,
}

/// What one pass did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PassRecord {
    /// When it began.
    pub began: Duration,
    /// When it was over: when nobody waited for anything of it any more, and nobody worked for it.
    pub ended: Duration,
    /// The layers that it met; before each those that it was computed from, looked at and turned
    /// out to be. An index of this table is what a node is called by elsewhere in the record.
    pub nodes: Vec<NodeRecord>,
    /// Which ways were taken, in the order of time.
    pub decisions: Vec<Decision>,
    /// When which thread worked for it, in the order in which it was through. A kernel on which
    /// several threads work has a span for each.
    pub spans: Vec<Span>,
}

/// A layer, as a pass met it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeRecord {
    /// What kind of layer it is.
    pub kind: NodeKind,
    /// The operation; for what decides, the function.
    pub name: &'static str,
    /// Of a weight or a buffer: which one. That is its [`Entry::id`](crate::Entry::id).
    pub variable: Option<u64>,
    /// Where it was written; for a delta, the operation whose derivative it is, or the rule, if
    /// that is your own.
    pub place: &'static Location<'static>,
    /// In which functions it was written; for a delta, the operation whose derivative it is.
    pub calls: Calls,
    /// Whether it is part of the way back.
    pub direction: Direction,
    /// What it was computed from. A weight with leaves on several threads is one node, and a mark
    /// on a plain number is that number.
    pub operands: Vec<u32>,
    /// Of what decides: what it looked at on the way (its bangs).
    pub looked_at: Vec<u32>,
    /// Of what decides: the layer that it turned out to be.
    pub became: Option<u32>,
    /// Type and shape of its value, as in `f32[16, 64]`; empty if it has none, or has not said.
    pub value: String,
    /// The size of its value, in bytes; 0 for what turned out to be another layer, which has it.
    pub bytes: usize,
    /// Why it has no value, if it failed.
    pub failure: Option<String>,
    /// Whether the library made it for itself, as it does to hand out the derivatives of a layer.
    pub internal: bool,
}

impl NodeRecord {
    /// A layer of which no more is known.
    #[doc(hidden)]
    pub fn new(kind: NodeKind, name: &'static str, place: &'static Location<'static>) -> NodeRecord {
        NodeRecord {
            kind,
            name,
            variable: None,
            place,
            calls: Calls::default(),
            direction: Direction::Forward,
            operands: Vec::new(),
            looked_at: Vec::new(),
            became: None,
            value: String::new(),
            bytes: 0,
            failure: None,
            internal: false,
        }
    }
}

impl Decision {
    /// Of this branch, outside of bodies.
    #[doc(hidden)]
    pub fn new(branch: &'static Branch, taken: usize) -> Decision {
        Decision { node: None, branch, taken, looked_at: 0 }
    }
}

/// What kind of layer a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeKind {
    /// A plain value.
    Constant,
    /// A weight, or a buffer.
    Weight,
    /// An operation.
    Operation,
    /// Something that turned out to be another layer: an annotated function with bangs, a
    /// computation.
    Decision,
    /// A random number.
    Seed,
}

/// The way there, or the way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Direction {
    /// Values.
    Forward,
    /// Deltas.
    Backward,
}

/// A way that was taken.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Decision {
    /// The node in whose body it was taken; none outside of bodies.
    pub node: Option<u32>,
    /// What was decided.
    pub branch: &'static Branch,
    /// Which of its arms.
    pub taken: usize,
    /// At how many layers the body had looked by then: those of its `looked_at` that come first.
    pub looked_at: u32,
}

/// A time in which a thread worked for a pass.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// At what.
    pub work: SpanWork,
    /// The node, if it was for one.
    pub node: Option<u32>,
    /// A number of the thread, from 0, in the order in which they came to the recorder.
    pub thread: u32,
    /// From when.
    pub began: Duration,
    /// Until when.
    pub ended: Duration,
}

/// What a thread did in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpanWork {
    /// It computed a value.
    Kernel,
    /// It ran user code that decides: the body of an annotated function, until it had to wait.
    Body,
    /// It wrote down the deltas, or computed those of plain numbers.
    Backward,
    /// It took a step.
    Commit,
}
