//! Rematerialization groups: slots whose rules read discarded values.
//!
//! The reverse traversal (see `reverse.rs`) visits a slot after all its consumers. If a residual
//! that its rule reads was discarded, the slot joins the group of its consumers. It becomes the
//! head of a new group if it is a checkpoint boundary, or if cotangents also arrive from outside of
//! the group.
//!
//! A group is a dynamic node. When it runs, it waits for the cotangent of its head, has the pass
//! rematerialize the discarded values, calls the rules, and releases the values. Its value is the
//! list of cotangents that it passes to slots outside of the group, as layers like those that the
//! traversal itself emits.
//!
//! Lock order: the state lock of the pass must be taken before `Group::members`.

use crate::autodiff::accumulator::Accumulator;
use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::optional_cotangent::OptionalCotangent;
use crate::autodiff::reverse::Everywhere;
use crate::autodiff::{optional_cotangent, reverse};
use crate::error::direction::Direction;
use crate::error::{Error, Result};
use crate::exec::computation::PassChoice;
use crate::exec::extract::ExtractValue;
use crate::exec::run::Run;
use crate::exec::{self, Pass, PassState, RetainGuard};
use crate::graph::data::Data;
use crate::graph::delta::Nothing;
use crate::graph::inline_box::{InlineBox, InlineFuture};
use crate::graph::node::{DynamicBody, NodeOp, Outcome};
use crate::graph::node_ref::NodeRef;
use crate::graph::seed::Position;
use dl_parallel::sync::Mutex;
use smallvec::smallvec;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, PoisonError, Weak};

pub(crate) struct Group {
    pass: Weak<Pass>,
    /// Keeps all nodes of the group alive.
    head: NodeRef,
    arrivals: Vec<AnyDelta>,
    /// Grows during the reverse traversal.
    members: Mutex<Members>,
}

#[derive(Default)]
struct Members {
    /// In traversal order.
    entries: Vec<Member>,
    slots: u32,
}

struct Member {
    index: u32,
    /// The index of the output for its first operand; those of the others follow.
    slot: u32,
    /// For each operand, whether its cotangent is needed.
    wanted: Vec<bool>,
}

/// Creates the groups of a reverse traversal.
pub(crate) struct Groups<'a> {
    pass: &'a Arc<Pass>,
}

impl<'a> Groups<'a> {
    pub(crate) fn of(pass: &'a Arc<Pass>) -> Self {
        Groups { pass }
    }

    /// Assigns this slot, at which cotangents have arrived, to a group if one of its residuals was
    /// discarded. Its `wanted` operands then get conditional cotangents. Returns whether it was
    /// assigned.
    ///
    /// If it was not, but conditional cotangents have arrived, these are replaced by their sum.
    pub(crate) fn take(
        &self,
        state: &mut PassState,
        index: u32,
        arrived: &mut [Accumulator],
        wanted: impl Fn(&PassState, u32) -> bool,
    ) -> bool {
        let common = match &arrived[index as usize] {
            Accumulator::Many(deltas) => common_group(deltas),
            _ => Common::None,
        };
        let operands: Vec<u32> = edges(state, index).collect();
        if operands.is_empty() {
            if !matches!(common, Common::None) {
                self.sum(state, index, arrived);
            }
            return false;
        }
        let (group, layer) = match common {
            Common::One(perhaps) if !state.is_marked(index) => {
                let OptionalCotangent { group, layer, .. } = *perhaps;
                drop(arrived[index as usize].take());
                (group, layer)
            }
            Common::None if !state.has_missing_residuals(index) => return false,
            _ => self.group(state.handle(index), arrived[index as usize].take()),
        };
        let mut members = group.members.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = members.slots;
        members.slots += operands.len() as u32;
        let wanted: Vec<bool> = operands.iter().map(|&operand| wanted(state, operand)).collect();
        for (which, &operand) in operands.iter().enumerate().filter(|&(which, _)| wanted[which]) {
            let perhaps = OptionalCotangent { group: group.clone(), layer: layer.clone(), slot: slot + which as u32 };
            arrived[operand as usize].add(AnyDelta::OptionalCotangent(Box::new(perhaps)));
        }
        members.entries.push(Member { index, slot, wanted });
        true
    }

    /// Replaces the cotangents of this slot, conditional or not, by their sum.
    pub(crate) fn sum(&self, state: &mut PassState, index: u32, arrived: &mut [Accumulator]) -> NodeRef {
        let sum = optional_cotangent::sum(&state.handle(index), arrived[index as usize].take(), 1.0);
        arrived[index as usize].add(AnyDelta::Lazy(sum.clone()));
        sum
    }

    /// A new group, and the dynamic node that runs it.
    fn group(&self, head: NodeRef, arrivals: Vec<AnyDelta>) -> (Arc<Group>, NodeRef) {
        let place = head.place;
        let group = Arc::new(Group { pass: Arc::downgrade(self.pass), head, arrivals, members: Mutex::default() });
        let again = NodeOp::Dynamic(InlineBox::body(Again(group.clone())));
        (group, NodeRef::new::<Outputs>(again, place))
    }
}

/// The groups that the conditional cotangents of a slot come from.
enum Common {
    /// There is no conditional cotangent.
    None,
    /// All cotangents are conditional, from one group.
    One(Box<OptionalCotangent>),
    Several,
}

fn common_group(deltas: &[AnyDelta]) -> Common {
    let mut from = deltas.iter().map(|delta| match delta {
        AnyDelta::OptionalCotangent(perhaps) => Some(perhaps),
        _ => None,
    });
    let first = from.next().flatten();
    match first {
        Some(first) if from.all(|other| other.is_some_and(|other| Arc::ptr_eq(&other.group, &first.group))) => {
            Common::One(first.clone())
        }
        None if from.all(|other| other.is_none()) => Common::None,
        _ => Common::Several,
    }
}

/// The slots that a gradient flows to from this one.
fn edges(state: &PassState, index: u32) -> impl Iterator<Item = u32> {
    (0..state.edges(index)).map(move |which| state.unmarked(state.edge(index, which)))
}

/// The cotangents that a group passes on, by output index.
#[derive(Clone)]
pub(super) struct Outputs(Arc<[Option<AnyDelta>]>);

impl Outputs {
    pub(super) fn slot(&self, slot: u32) -> Option<AnyDelta> {
        self.0.get(slot as usize).cloned().flatten()
    }
}

impl Data for Outputs {
    // Derivatives depend on the layers inside, not on this value.
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }
}

/// The body that runs a group.
struct Again(Arc<Group>);

impl DynamicBody for Again {
    fn run(&self) -> InlineFuture<Result<Outcome>> {
        let group = self.0.clone();
        InlineBox::future(async move {
            let pass = group.pass.upgrade().ok_or_else(Error::cancelled)?;
            let outputs = if exec::is_current(&pass) {
                // The pass owns this future, so the future must not own the pass.
                drop(pass);
                group.evaluate().await?
            } else {
                let again = move || {
                    let group = group.clone();
                    async move { group.evaluate().await }
                };
                Run::from_fn(PassChoice::Existing(pass.into()), again).await?
            };
            Ok(Outcome::Tape(outputs.into_value(), None))
        })
    }

    fn name(&self) -> &'static str {
        "checkpoint"
    }

    fn position(&self) -> Position {
        Position::in_body(0)
    }
}

impl Group {
    /// Runs the group. The current pass must be that of the group.
    async fn evaluate(&self) -> Result<Outputs> {
        let arrivals = optional_cotangent::present(&self.arrivals).await?;
        if arrivals.is_empty() {
            return Ok(Outputs(Arc::new([])));
        }
        let delta = AnyDelta::sum(&self.head, arrivals).into_layer(&self.head);
        // The values are rematerialized only when the cotangent is ready.
        ExtractValue::new(delta.clone()).await?;
        let mut hold = self.hold()?;
        poll_fn(|cx| hold.poll(cx)).await?;
        let (outputs, forgets) = self.write_down(AnyDelta::Lazy(delta), hold)?;
        if forgets {
            // Evaluated at once, so that the values which they need can be released.
            let lazy = |delta: &Option<AnyDelta>| match delta {
                Some(AnyDelta::Lazy(layer)) => Some(layer.clone()),
                _ => None,
            };
            let layers: Vec<NodeRef> = outputs.0.iter().filter_map(lazy).collect();
            current()?.request(&layers);
        }
        Ok(outputs)
    }

    /// Has the values that the rules read rematerialized.
    fn hold(&self) -> Result<RetainGuard> {
        let pass = current()?;
        let state = pass.state();
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = Vec::new();
        for member in &members.entries {
            let node = state.node(member.index);
            if matches!(&node.op, NodeOp::Primitive(_)) {
                seen.push(member.index);
                seen.extend((0..state.edges(member.index)).map(|which| state.edge(member.index, which)));
            }
        }
        Ok(pass.hold(state, seen))
    }

    /// Calls the rules. Returns the cotangents that leave the group, and whether the pass discards
    /// the values that these are computed from.
    fn write_down(&self, delta: AnyDelta, hold: RetainGuard) -> Result<(Outputs, bool)> {
        let pass = current()?;
        let mut state = pass.state();
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outputs = vec![None; members.slots as usize];
        let mut arrived: HashMap<u32, Vec<AnyDelta>> =
            members.entries.iter().map(|member| (member.index, Vec::new())).collect();
        arrived.entry(members.entries[0].index).or_default().push(delta);
        for member in &members.entries {
            let deltas = arrived.insert(member.index, Vec::new()).unwrap_or_default();
            if deltas.is_empty() {
                continue;
            }
            let node = state.node(member.index);
            let _rule = node.enter_rule(Direction::Backward);
            let delta = reverse::sum(node, deltas)?;
            let operands: Vec<u32> = edges(&state, member.index).collect();
            let deltas = match node.is_dynamic() {
                true => smallvec![Some(delta.into_layer(&node))],
                false => reverse::pull_back(&mut state, member.index, delta, true, &Everywhere)?,
            };
            for (which, delta) in deltas.into_iter().enumerate() {
                if let Some(delta) = delta.map(AnyDelta::Lazy).filter(|_| member.wanted[which]) {
                    match arrived.get_mut(&operands[which]) {
                        Some(inside) => inside.push(delta),
                        None => outputs[member.slot as usize + which] = Some(delta),
                    }
                }
            }
        }
        hold.let_go(&pass, state);
        let forgets = pass.forgets_deltas();
        Ok((Outputs(outputs.into()), forgets))
    }
}

fn current() -> Result<Arc<Pass>> {
    exec::current().ok_or_else(Error::cancelled)
}
