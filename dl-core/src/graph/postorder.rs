//! Depth-first order of a graph.

/// The nodes that are reachable from some roots, operands before their consumers. `below` lists the
/// operands of a node, and `enters` is asked for each edge, from no node to a root: it must accept
/// a node once.
pub(crate) fn postorder(
    roots: impl IntoIterator<Item = u32>,
    below: impl Fn(u32, usize) -> Option<u32>,
    mut enters: impl FnMut(Option<u32>, u32) -> bool,
) -> Vec<u32> {
    let (mut order, mut walk) = (Vec::new(), Vec::new());
    for root in roots {
        if enters(None, root) {
            walk.push((root, 0));
        }
        while let Some((node, next)) = walk.last_mut() {
            let (from, operand) = (*node, below(*node, *next));
            *next += 1;
            match operand {
                Some(operand) if enters(Some(from), operand) => walk.push((operand, 0)),
                Some(_) => {}
                None => {
                    order.push(from);
                    walk.pop();
                }
            }
        }
    }
    order
}
