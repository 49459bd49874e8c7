//! Liveness: finds the operands of operators that are live-out.
//!
//! Operators take their operands by value. An operand that is a variable must be duplicated if the
//! variable is read again on some path; otherwise it can be moved. The borrow checker answers the
//! same question. The analysis walks the [`control_flow`](crate::analyze::control_flow) of the
//! function backwards.

use crate::analyze::control_flow::{ControlFlow, Flow, Jump, Var};
use crate::parse::node::NodeId;
use std::collections::{HashMap, HashSet};

type Live = HashSet<Var>;

/// The operands that must be duplicated.
pub(crate) fn live_out_operands(control_flow: &ControlFlow) -> HashSet<NodeId> {
    let mut walk = Backwards {
        control_flow,
        jumps: HashMap::new(),
        recording: true,
        live_out: control_flow.always_duplicated.clone(),
    };
    for flow in &control_flow.roots {
        walk.sequence(flow, Live::new());
    }
    walk.live_out
}

struct Backwards<'a> {
    control_flow: &'a ControlFlow,
    /// The live variables at the target of each `break` and `continue`.
    jumps: HashMap<Jump, Live>,
    /// False while the fixed point of a loop is being computed.
    recording: bool,
    live_out: HashSet<NodeId>,
}

impl Backwards<'_> {
    fn sequence(&mut self, flow: &[Flow], live: Live) -> Live {
        flow.iter().rev().fold(live, |live, step| self.step(step, live))
    }

    /// The live variables before a step, given those after it.
    fn step(&mut self, step: &Flow, mut live: Live) -> Live {
        match step {
            Flow::Read(var) => {
                live.insert(*var);
                live
            }
            Flow::Operand(var, operand) => {
                let is_live = live.contains(var) || self.control_flow.variables[var.0].borrowed;
                if self.recording && is_live {
                    self.live_out.insert(*operand);
                }
                live.insert(*var);
                live
            }
            Flow::Write(var) => {
                live.remove(var);
                live
            }
            Flow::Either(ways) => {
                let mut before = Live::new();
                for way in ways {
                    before.extend(self.sequence(way, live.clone()));
                }
                before
            }
            Flow::Block(target, body) => {
                self.jumps.insert(Jump::Break(*target), live.clone());
                self.sequence(body, live)
            }
            Flow::Loop(target, body) => {
                self.jumps.insert(Jump::Break(*target), live);
                // The variables that are live at the start of the body are also live at its end.
                // Iterate until that set is stable, then record operands in one last walk.
                let recording = std::mem::replace(&mut self.recording, false);
                let mut start = Live::new();
                loop {
                    self.jumps.insert(Jump::Continue(*target), start.clone());
                    let before = self.sequence(body, start.clone());
                    if before.is_subset(&start) {
                        break;
                    }
                    start.extend(before);
                }
                self.recording = recording;
                self.sequence(body, start)
            }
            Flow::Jump(jump) => self.jumps.get(jump).cloned().unwrap_or_default(),
            Flow::Leave => Live::new(),
        }
    }
}
