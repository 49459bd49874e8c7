//! Opens the calls of compiled functions: the operations that a call consists of become nodes, in
//! the box of their function. The call itself, which has the time of all of them, comes last.

use dl_core::record::{InnerOperand, NodeKind, NodeRecord, PassRecord};
use std::borrow::Cow;

/// The record with all calls opened.
pub(crate) fn opened(record: &PassRecord) -> Cow<'_, PassRecord> {
    if record.nodes.iter().all(|node| node.inner.is_empty()) {
        return Cow::Borrowed(record);
    }
    let mut inserted = 0;
    let places = record.nodes.iter().enumerate().map(|(index, node)| {
        inserted += node.inner.len();
        (index + inserted) as u32
    });
    let places: Vec<u32> = places.collect();
    // A record may refer to nodes that it does not have.
    let place = |node: u32| places.get(node as usize).copied().unwrap_or(u32::MAX);
    let mut nodes = Vec::with_capacity(record.nodes.len() + inserted);
    for node in &record.nodes {
        let first = nodes.len() as u32;
        let operand = |operand: &InnerOperand| match *operand {
            InnerOperand::Outer(which) => node.operands.get(which as usize).map_or(u32::MAX, |&outer| place(outer)),
            InnerOperand::Inner(inner) => first + inner,
        };
        for inner in &node.inner {
            let mut added = NodeRecord::new(NodeKind::Operation, inner.name, inner.place);
            (added.calls, added.direction) = (inner.calls, node.direction);
            added.operands = inner.operands.iter().map(operand).collect();
            nodes.push(added);
        }
        let mut call = node.clone();
        call.operands = match node.inner.is_empty() {
            true => node.operands.iter().map(|&outer| place(outer)).collect(),
            false => node.results.iter().map(operand).collect(),
        };
        call.looked_at.iter_mut().for_each(|look| *look = place(*look));
        call.became = node.became.map(place);
        nodes.push(call);
    }
    let mut opened = record.clone();
    opened.nodes = nodes;
    opened.decisions.iter_mut().for_each(|decision| decision.node = decision.node.map(place));
    opened.spans.iter_mut().for_each(|span| span.node = span.node.map(place));
    Cow::Owned(opened)
}
