//! Groups of calls of compiled functions: which calls run as one.
//!
//! A pass groups the calls that it reaches from its first layer without passing through a dynamic
//! node. The *level* of a call is one more than the highest level of a call below it. Calls with the
//! same key at the same level form a group. So the graph alone decides, before anything runs, and no
//! member depends on another. A graph with a checkpoint has no groups, as a group would keep values
//! of several segments.
//!
//! A group is a node of its own. Its results are nodes, too; each of them gets the slot that is found
//! for the result of the call in its place. Groups are inserted level by level, before the layer that
//! depends on them.

use crate::exec::Pass;
use crate::exec::discover::InlinePolicy;
use crate::exec::state::PassState;
use crate::graph::identity::Effect;
use crate::graph::node::NodeOp;
use crate::graph::node_ref::NodeRef;
use crate::graph::op::{GroupKey, Groupable};
use crate::graph::seed::Position;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a call that can be grouped was ever built. If so, passes look for groups. A layer that is
/// handed to another thread is ordered after its construction, so the flag is relaxed.
static ARE_THERE_GROUPS: AtomicBool = AtomicBool::new(false);

/// Called before a call that can be grouped is built.
pub(crate) fn look_for_groups() {
    ARE_THERE_GROUPS.store(true, Ordering::Relaxed);
}

/// The groups below a layer.
pub(super) struct Groups {
    /// By level.
    groups: Vec<Group>,
    /// The first random position that a traversal reaches.
    position: Option<Position>,
}

struct Group {
    node: NodeRef,
    /// Each result of a member, and the node that gets its slot.
    results: Vec<(NodeRef, NodeRef)>,
}

/// A call that can be grouped.
struct Call<'a> {
    node: &'a NodeRef,
    level: u32,
    /// The results that are read.
    results: Vec<(&'a NodeRef, usize)>,
    /// Whether a node other than a result reads it.
    has_other_reader: bool,
}

impl Groups {
    /// The groups below this layer, if there are any.
    pub(super) fn below(layer: &NodeRef) -> Option<Groups> {
        if ARE_THERE_GROUPS.load(Ordering::Relaxed) { Self::find(layer) } else { None }
    }

    fn find(layer: &NodeRef) -> Option<Groups> {
        let Search { calls, position, .. } = Search::of(layer)?;
        let mut numbers: FxHashMap<(u32, GroupKey), usize> = FxHashMap::default();
        let mut members: Vec<Vec<&Call<'_>>> = Vec::new();
        for call in calls.iter().filter(|call| !call.has_other_reader) {
            let at = *numbers.entry((call.level, groupable(call.node)?.key())).or_insert(members.len());
            members.resize_with(members.len().max(at + 1), Vec::new);
            members[at].push(call);
        }
        members.sort_by_key(|members| members[0].level);
        let group = |members: &[&Call<'_>]| {
            let first = groupable(members[0].node)?;
            let node = first.group(&members.iter().map(|call| call.node.clone()).collect::<Vec<_>>());
            let results = members.iter().enumerate().flat_map(|(member, call)| {
                let node = &node;
                let result = move |&(result, which): &(&NodeRef, usize)| {
                    (result.clone(), first.result(node, member, which, result))
                };
                call.results.iter().map(result)
            });
            Some(Group { results: results.collect(), node })
        };
        let groups: Vec<Group> = members.iter().flat_map(|members| parts(members)).map(group).collect::<Option<_>>()?;
        (!groups.is_empty()).then_some(Groups { groups, position })
    }
}

/// Groups of sizes with three significant bits, such as 8 and 1 for 9 calls: schedules and backwards
/// are kept for the shapes of a group, so there must be few sizes. One call is no group.
fn parts<T>(mut calls: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let shift = calls.len().checked_ilog2()?.saturating_sub(2);
        let (part, rest) = calls.split_at(calls.len() >> shift << shift);
        calls = rest;
        (part.len() > 1).then_some(part)
    })
}

fn groupable(node: &NodeRef) -> Option<&dyn Groupable> {
    match &node.op {
        NodeOp::Primitive(op) => op.groupable(),
        _ => None,
    }
}

/// A depth-first traversal in the order in which a pass discovers nodes.
#[derive(Default)]
struct Search<'a> {
    calls: Vec<Call<'a>>,
    /// The index of each call, by the address of its node.
    numbers: FxHashMap<usize, usize>,
    position: Option<Position>,
    /// The levels of nodes that have several handles.
    levels: FxHashMap<usize, u32>,
}

impl<'a> Search<'a> {
    /// `None` if there is a checkpoint.
    fn of(root: &'a NodeRef) -> Option<Search<'a>> {
        let mut search = Search::default();
        // a node, the number of its operands that were visited, and their highest level
        let mut open: Vec<(&NodeRef, usize, u32)> = vec![(root, 0, 0)];
        while let Some((node, visited, level)) = open.last_mut() {
            match node.operands().get(*visited) {
                Some(operand) => {
                    *visited += 1;
                    if operand.op.is_leaf() {
                        continue;
                    }
                    match search.levels.get(&operand.address()) {
                        Some(known) => *level = (*level).max(*known),
                        None => open.push((operand, 0, 0)),
                    }
                }
                None => {
                    let level = search.close(node, *level)?;
                    open.pop();
                    if let Some((_, _, highest)) = open.last_mut() {
                        *highest = (*highest).max(level);
                    }
                }
            }
        }
        Some(search)
    }

    /// The level of a node, given the highest of its operands.
    fn close(&mut self, node: &'a NodeRef, highest: u32) -> Option<u32> {
        if self.position.is_none() {
            self.position = node.position().filter(|position| position.is_outside());
        }
        let mut level = highest;
        if let NodeOp::Primitive(op) = &node.op {
            if op.effect() == Some(Effect::Checkpoint) {
                return None;
            }
            let which = op.result_of_call();
            for operand in op.operands() {
                if let Some(&call) = self.numbers.get(&operand.address()) {
                    match which {
                        Some(which) => self.calls[call].results.push((node, which)),
                        None => self.calls[call].has_other_reader = true,
                    }
                }
            }
            if op.groupable().is_some() {
                level += 1;
                self.numbers.insert(node.address(), self.calls.len());
                self.calls.push(Call { node, level, results: Vec::new(), has_other_reader: false });
            }
        }
        if !node.is_unique() {
            self.levels.insert(node.address(), level);
        }
        Some(level)
    }
}

impl Pass {
    /// Inserts these groups, and all that they depend on, before the first traversal.
    pub(super) fn insert_groups(self: &Arc<Self>, state: &mut PassState, groups: Groups) {
        if let Some(position) = groups.position {
            state.env.note_position(position);
        }
        let inline = if self.is_watched() { InlinePolicy::Queue } else { InlinePolicy::Small };
        for Group { node, results } in groups.groups {
            self.insert_before(state, &node, inline);
            for (result, in_place) in results {
                let slot = self.insert_before(state, &in_place, inline);
                state.stand_in(&result, in_place, slot);
            }
        }
        state.discovery.begins();
    }
}
