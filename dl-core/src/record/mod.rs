//! Records of passes: their graphs, the times at which their kernels ran, and the branches that
//! were taken.
//!
//! A [`Recorder`] is a setting of a pass, as a seed is. It returns [`Recording`]s, which are plain
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
//! The types of a recording:
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
//! A pass copies its bookkeeping into the record when a node or value is released and when its last
//! driver leaves. A pass that is not recorded executes at most about 1 % more instructions for
//! this. A recorded pass computes the same bits. Scalar arithmetic, which is evaluated during
//! discovery of the graph, has nodes, but no spans.
//!
//! # With `tracing`
//!
//! With the feature `tracing`, passes are also spans of the crate of that name, whether they are
//! recorded or not. The target is `dl`. At level `DEBUG` there is `pass`, with the fields `purpose`
//! and `threads`, and inside of it `backward` and `commit`; at `TRACE` also `kernel` and `body`,
//! with `op`, `file` and `line`, and `help` inside of a kernel for each helping thread. On every
//! thread their parent is the span of the pass. That span ends when the run of the pass ends. If a
//! tape or [`SideEffects`](crate::SideEffects) resume the pass later, this is in another span of
//! the same name.
//!
#![cfg_attr(feature = "tracing", doc = "```")]
#![cfg_attr(not(feature = "tracing"), doc = "```ignore")]
//! use dl_core::{Differentiable, Weight};
//! use dl_optim::Sgd;
//! use tracing_subscriber::fmt::format::FmtSpan;
//! // to see all threads: `.init()` instead of `.finish()` and `with_default`
//! let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_span_events(FmtSpan::CLOSE);
//! tracing::subscriber::with_default(subscriber.finish(), || {
//!     let w = Weight::new(1.0_f64);
//!     (&w * &w).train(&Sgd::new(0.1)).wait()
//! })?;
//! // DEBUG pass{purpose="train" threads=2}:backward{op="mul" file="src/main.rs" line=6}: dl: close time.busy=4.5µs
//! // DEBUG pass{purpose="train" threads=2}:commit: dl: close time.busy=2.9µs time.idle=0.4µs
//! // DEBUG pass{purpose="train" threads=2}: dl: close time.busy=0ns time.idle=35µs
//! # dl_core::Result::Ok(())
//! ```

mod log;
mod recorder;

pub use crate::error::direction::Direction;
pub use crate::graph::op::{InnerOperand, InnerOperation};
pub(crate) use log::{Log, LogState, TraceNodeId};
pub use recorder::Recorder;

use crate::error::branch::Branch;
use crate::error::call_stack::Calls;
use std::panic::Location;
use std::time::Duration;

/// The records of the passes of a recorder. Times are relative to the creation of the recorder.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The passes, in the order in which they began.
    pub passes: Vec<PassRecord>,
}

/// The record of one pass.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PassRecord {
    /// When the pass began.
    pub began: Duration,
    /// When the pass ended: no thread waited for a value of it or worked for it any longer.
    pub ended: Duration,
    /// The nodes of the graph, in topological order: before each node those that it was computed
    /// from, looked at and resolved to. The rest of the record refers to nodes by their index in
    /// this table.
    pub nodes: Vec<NodeRecord>,
    /// The decisions, in the order of time.
    pub decisions: Vec<Decision>,
    /// The spans of time in which a thread worked for the pass, in the order of their ends. A
    /// kernel that runs on several threads has a span for each.
    pub spans: Vec<Span>,
}

/// A node of the graph of a pass: a layer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeRecord {
    /// The kind of layer.
    pub kind: NodeKind,
    /// The name of the operation; for a decision, that of the function.
    pub name: &'static str,
    /// For a weight or a buffer, its [`Entry::id`](crate::Entry::id).
    pub variable: Option<u64>,
    /// Where the operation was written. For a delta, where the operation was written of which it is
    /// a derivative, or, within a rule of your own, where that rule writes it.
    pub place: &'static Location<'static>,
    /// The annotated functions in which the operation was written. For a delta, those of the
    /// operation of which it is a derivative.
    pub calls: Calls,
    /// Whether it belongs to the forward or to the backward pass.
    pub direction: Direction,
    /// The nodes that it was computed from. The replicas of a weight on several threads are one
    /// node. A checkpoint boundary on a plain number is the node of that number.
    pub operands: Vec<u32>,
    /// For a decision, the nodes that it read the values of (its bangs).
    pub looked_at: Vec<u32>,
    /// For a decision, the node that it resolved to.
    pub became: Option<u32>,
    /// Type and shape of its value, as in `f32[16, 64]`; empty if it has no value or no
    /// description.
    pub value: String,
    /// The size of its value in bytes; 0 for a decision: its value is counted for the node that
    /// it resolved to.
    pub bytes: usize,
    /// The error, if it failed.
    pub failure: Option<String>,
    /// Whether it is an internal node of the library, such as those that return the derivatives of
    /// a layer.
    pub internal: bool,
    /// For a call of a compiled function, the operations that it consists of, each after those that
    /// it was computed from.
    pub inner: Vec<InnerOperation>,
    /// The results of a call of a compiled function.
    pub results: Vec<InnerOperand>,
}

impl NodeRecord {
    /// A node with only these fields set.
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
            inner: Vec::new(),
            results: Vec::new(),
        }
    }
}

impl Decision {
    /// A decision at this branch, outside of bodies.
    #[doc(hidden)]
    pub fn new(branch: &'static Branch, taken: usize) -> Decision {
        Decision { node: None, branch, taken, looked_at: 0 }
    }
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeKind {
    /// A plain value.
    Constant,
    /// A weight, or a buffer.
    Weight,
    /// An operation.
    Operation,
    /// A dynamic node, which resolved to another layer: an annotated function with bangs, a
    /// computation.
    Decision,
    /// A random number.
    Seed,
}

/// A branch with the arm that was taken.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Decision {
    /// The node with the body that contains the branch; none outside of bodies.
    pub node: Option<u32>,
    /// The branch.
    pub branch: &'static Branch,
    /// The index of the arm that was taken.
    pub taken: usize,
    /// The number of nodes that the body had read by then: a prefix of its `looked_at`.
    pub looked_at: u32,
}

/// A span of time in which a thread worked for a pass.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The kind of work.
    pub work: SpanWork,
    /// The node that the work was for, if any.
    pub node: Option<u32>,
    /// The number of the thread. The recorder numbers threads from 0, in the order of their first
    /// spans.
    pub thread: u32,
    /// The start.
    pub began: Duration,
    /// The end.
    pub ended: Duration,
}

/// The kind of work of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpanWork {
    /// A kernel: it computed a value.
    Kernel,
    /// A poll of the body of a dynamic node: an annotated function ran until it had to wait.
    Body,
    /// The backward walk: it built the nodes of the deltas, or computed the deltas of plain
    /// numbers.
    Backward,
    /// A training step was committed.
    Commit,
}
