//! Sums along a fixed binary tree, so that they do not depend on the order in which terms arrive,
//! nor on how they are grouped.

use crate::error::{Error, Result};
use crate::storage::wire::Wire;
use std::collections::BTreeMap;

/// A node of the tree over some leaves: the leaves from `index · 2^level` to `(index + 1) · 2^level`
/// that exist. A node of level 0 is a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeNode {
    /// The height above the leaves.
    pub level: u32,
    /// The number within the level.
    pub index: usize,
}

impl TreeNode {
    /// A leaf.
    pub fn leaf(index: usize) -> Self {
        TreeNode { level: 0, index }
    }

    fn sibling(self) -> Self {
        TreeNode { index: self.index ^ 1, ..self }
    }

    fn parent(self) -> Self {
        TreeNode { level: self.level + 1, index: self.index / 2 }
    }

    fn first_leaf(self) -> usize {
        self.index << self.level
    }
}

impl Wire for TreeNode {
    fn write(&self, to: &mut Vec<u8>) {
        (self.level, self.index).write(to);
    }

    fn read(from: &mut &[u8]) -> Result<Self> {
        let (level, index) = <(u32, usize)>::read(from)?;
        let is_node = index.checked_shl(level).is_some_and(|first| first >> level == index);
        if is_node { Ok(TreeNode { level, index }) } else { Err(Error::invalid("there is no such node of a tree")) }
    }
}

/// Whether each of so many leaves is below exactly one of these nodes.
pub(crate) fn is_partition(leaves: usize, nodes: impl Iterator<Item = TreeNode>) -> bool {
    let mut nodes: Vec<TreeNode> = nodes.collect();
    nodes.sort_by_key(|node| node.first_leaf());
    let mut next = Some(0);
    for node in nodes {
        let fits = next == Some(node.first_leaf()) && node.first_leaf() < leaves;
        let end = 1_usize.checked_shl(node.level).and_then(|width| node.first_leaf().checked_add(width));
        next = if fits { Some(end.map_or(leaves, |end| end.min(leaves))) } else { None };
    }
    next == Some(leaves)
}

/// The pairs `(to, from)` to add in turn, and the number of the total.
#[doc(hidden)]
pub type Additions = (Vec<(usize, usize)>, Option<usize>);

/// The additions that make the sum over all of `count` leaves, given the nodes and whether each has a
/// sum. The sums are numbered from 0: `(l, r)` adds number `r` to number `l`. Also the number of the
/// one that is the total in the end; `None` if there are no sums.
///
/// # Errors
/// If a leaf is missing, or is in two nodes.
#[doc(hidden)]
pub fn additions(count: usize, nodes: impl Iterator<Item = (TreeNode, bool)> + Clone) -> Result<Additions> {
    if !is_partition(count, nodes.clone().map(|(node, _)| node)) {
        return Err(Error::invalid(format!("the sums are not those of each of {count} parts once")));
    }
    let (mut sums, mut additions, mut numbers) = (TreeSum::new(count), Vec::new(), 0..);
    for (node, has_sum) in nodes {
        let mut next = sums.insert(node, has_sum.then(|| numbers.next()).flatten());
        while let Some((parent, left, right)) = next {
            additions.extend(left.zip(right));
            next = sums.insert(parent, left.or(right));
        }
    }
    Ok((additions, sums.into_partial().pop().and_then(|(_, total)| total)))
}

/// The partial sums of a tree whose parents are not complete yet. An only child is its parent.
#[derive(Clone, Debug)]
pub(crate) struct TreeSum<V> {
    leaves: usize,
    partial: BTreeMap<TreeNode, V>,
}

impl<V> TreeSum<V> {
    /// No sums yet, for a tree with so many leaves.
    pub(crate) fn new(leaves: usize) -> Self {
        TreeSum { leaves, partial: BTreeMap::new() }
    }

    /// Adds the sum of a node. If that of its sibling is there, both are taken out and returned with
    /// their parent, the left one first: the caller must add them and insert the result.
    pub(crate) fn insert(&mut self, mut node: TreeNode, sum: V) -> Option<(TreeNode, V, V)> {
        while node.index > 0 || (1 << node.level) < self.leaves {
            let sibling = node.sibling();
            if sibling.first_leaf() >= self.leaves {
                node = node.parent();
                continue;
            }
            return match self.partial.remove(&sibling) {
                Some(other) if sibling < node => Some((node.parent(), other, sum)),
                Some(other) => Some((node.parent(), sum, other)),
                None => {
                    self.partial.insert(node, sum);
                    None
                }
            };
        }
        self.partial.insert(node, sum);
        None
    }

    /// The partial sums from left to right within each level. A complete sum is the only one.
    pub(crate) fn into_partial(self) -> Vec<(TreeNode, V)> {
        self.partial.into_iter().collect()
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;

    /// The sum as a text that shows its tree.
    fn insert(sum: &mut TreeSum<String>, node: TreeNode, term: String) {
        let mut next = Some((node, term));
        while let Some((node, term)) = next.take() {
            next = sum.insert(node, term).map(|(parent, left, right)| (parent, format!("({left}+{right})")));
        }
    }

    fn total(leaves: usize, order: impl IntoIterator<Item = usize>) -> String {
        let mut sum = TreeSum::new(leaves);
        order.into_iter().for_each(|leaf| insert(&mut sum, TreeNode::leaf(leaf), leaf.to_string()));
        let [(_, total)] = &sum.into_partial()[..] else { panic!("the sum of {leaves} leaves is incomplete") };
        total.clone()
    }

    #[test]
    fn tree_sum_is_independent_of_order() {
        assert_eq!(total(1, [0]), "0");
        assert_eq!(total(7, 0..7), "(((0+1)+(2+3))+((4+5)+6))");
        for leaves in 1..40_usize {
            let forward = total(leaves, 0..leaves);
            assert_eq!(total(leaves, (0..leaves).rev()), forward);
            // 41 is coprime to every number of leaves
            assert_eq!(total(leaves, (0..leaves).map(|leaf| leaf * 41 % leaves)), forward);
        }
    }

    #[test]
    fn nodes_are_a_partition_if_each_leaf_is_below_one() {
        let is = |leaves, nodes: &[(u32, usize)]| {
            is_partition(leaves, nodes.iter().map(|&(level, index)| TreeNode { level, index }))
        };
        assert!(is(5, &[(0, 4), (2, 0)]) && is(5, &[(3, 0)]) && is(5, &[(63, 0)]) && is(0, &[]));
        assert!(!is(5, &[(2, 0)]) && !is(5, &[(2, 0), (0, 3), (0, 4)]) && !is(5, &[(2, 0), (0, 4), (0, 5)]));
        assert!(!is(5, &[(2, 0), (0, 4), (0, 4)]) && !is(0, &[(0, 0)]));
    }

    #[test]
    fn additions_make_total_of_nodes_that_are_there() {
        for leaves in 1..12_usize {
            for first in 0..=leaves {
                let (mut left, mut right) = (TreeSum::new(leaves), TreeSum::new(leaves));
                (0..first).for_each(|leaf| insert(&mut left, TreeNode::leaf(leaf), leaf.to_string()));
                (first..leaves).for_each(|leaf| insert(&mut right, TreeNode::leaf(leaf), leaf.to_string()));
                let nodes = [left.into_partial(), right.into_partial()].concat();
                for absent in 0..1_u32 << nodes.len() {
                    let is_there = |number: usize| absent >> number & 1 == 0;
                    let all = nodes.iter().enumerate().map(|(number, (node, _))| (*node, is_there(number)));
                    let (additions, total) = additions(leaves, all).unwrap();
                    let terms = nodes.iter().enumerate().filter(|(number, _)| is_there(*number));
                    let mut terms: Vec<String> = terms.map(|(_, (_, term))| term.clone()).collect();
                    additions.iter().for_each(|&(l, r)| terms[l] = format!("({}+{})", terms[l], terms[r]));
                    let mut expected = TreeSum::new(leaves);
                    for (number, (node, term)) in nodes.iter().enumerate() {
                        let mut next = Some((*node, is_there(number).then(|| term.clone())));
                        while let Some((node, term)) = next.take() {
                            next = expected.insert(node, term).map(|(parent, left, right)| match (left, right) {
                                (Some(left), Some(right)) => (parent, Some(format!("({left}+{right})"))),
                                (left, right) => (parent, left.or(right)),
                            });
                        }
                    }
                    assert_eq!(total.map(|total| terms[total].clone()), expected.into_partial()[0].1);
                }
            }
        }
        assert!(additions(2, [(TreeNode::leaf(0), true)].into_iter()).is_err());
    }

    #[test]
    fn tree_sum_is_independent_of_grouping() {
        for leaves in 1..20_usize {
            for (first, second) in (0..=leaves).flat_map(|first| (first..=leaves).map(move |second| (first, second))) {
                let mut whole = TreeSum::new(leaves);
                for range in [second..leaves, 0..first, first..second] {
                    let mut group = TreeSum::new(leaves);
                    range.for_each(|leaf| insert(&mut group, TreeNode::leaf(leaf), leaf.to_string()));
                    group.into_partial().into_iter().for_each(|(node, sum)| insert(&mut whole, node, sum));
                }
                assert_eq!(whole.into_partial()[0].1, total(leaves, 0..leaves), "{leaves}: {first}, {second}");
            }
        }
    }
}
