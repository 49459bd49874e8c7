//! Which operands are used later.
//!
//! Operators take their operands by value. An operand that is a variable and is read again on some
//! way through the function must be duplicated, any other can be moved: the same question as the
//! one the borrow checker answers. It is answered here backwards, over the control flow that
//! [`flow`](crate::flow) makes of the function.

use crate::flow::{Control, Flow, Jump, Var};
use crate::node::NodeId;
use std::collections::{HashMap, HashSet};

type Live = HashSet<Var>;

/// The operands that must be duplicated.
pub(crate) fn used_later(control: &Control) -> HashSet<NodeId> {
    let mut walk = Backwards { control, jumps: HashMap::new(), recording: true, found: control.always.clone() };
    for flow in &control.roots {
        walk.sequence(flow, Live::new());
    }
    walk.found
}

struct Backwards<'a> {
    control: &'a Control,
    /// What is live where a `break` or a `continue` goes to.
    jumps: HashMap<Jump, Live>,
    recording: bool,
    found: HashSet<NodeId>,
}

impl Backwards<'_> {
    fn sequence(&mut self, flow: &[Flow], live: Live) -> Live {
        flow.iter().rev().fold(live, |live, step| self.step(step, live))
    }

    /// What is live before a step, given what is live after it.
    fn step(&mut self, step: &Flow, mut live: Live) -> Live {
        match step {
            Flow::Read(var) => {
                live.insert(*var);
                live
            }
            Flow::Operand(var, operand) => {
                let later = live.contains(var) || self.control.variables[var.0].borrowed;
                if self.recording && later {
                    self.found.insert(*operand);
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
                // What is live where the loop starts is live where it ends: until that is stable,
                // nothing is decided.
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
