//! The smallest drawable units of a record (*atoms*), and how folding groups them into items.

use crate::facts::{Facts, Part, has_shape};
use crate::scene::Outcome;
use dl_core::Branch;
use dl_core::record::{Direction, NodeKind};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::time::Duration;

/// A drawable unit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Atom {
    /// A layer: an index into the nodes of the record.
    Node(usize),
    /// A decision: an index into the decisions of the record.
    Decision(usize),
    /// One arm of a decision: the index of the decision and that of the arm.
    Arm(usize, usize),
    /// All arms not taken of a decision that has more than [`MAX_STUBS`] of them.
    OtherArms(usize),
}

/// The maximal number of arms not taken that are drawn one by one.
const MAX_STUBS: usize = 4;

/// All atoms of a record in its order, with the inverse mappings.
pub(crate) struct Atoms {
    pub(crate) each: Vec<Atom>,
    pub(crate) of_node: Vec<Option<usize>>,
    pub(crate) of_decision: Vec<Option<usize>>,
    /// For each decision, the atom of the arm taken.
    pub(crate) of_taken: Vec<Option<usize>>,
    /// For each weight, constant and seed, the atoms that read it.
    readers: HashMap<usize, Vec<usize>>,
}

impl Atoms {
    pub(crate) fn of(facts: &Facts<'_>) -> Atoms {
        let (nodes, decisions) = (facts.record.nodes.len(), facts.record.decisions.len());
        let mut atoms = Atoms {
            each: Vec::new(),
            of_node: vec![None; nodes],
            of_decision: vec![None; decisions],
            of_taken: vec![None; decisions],
            readers: HashMap::new(),
        };
        for node in 0..nodes {
            match facts.part[node] {
                Part::Drawn => atoms.of_node[node] = Some(atoms.push(Atom::Node(node))),
                Part::Decisions => {
                    facts.decisions[node].iter().for_each(|&decision| atoms.push_decision(facts, decision))
                }
                Part::Hidden => {}
            }
        }
        let outside = |node: Option<u32>| node.is_none_or(|node| node as usize >= nodes);
        for (index, decision) in facts.record.decisions.iter().enumerate() {
            if outside(decision.node) {
                atoms.push_decision(facts, index);
            }
        }
        atoms.find_readers(facts);
        atoms
    }

    fn push(&mut self, atom: Atom) -> usize {
        self.each.push(atom);
        self.each.len() - 1
    }

    fn push_decision(&mut self, facts: &Facts<'_>, index: usize) {
        let decision = &facts.record.decisions[index];
        self.of_decision[index] = Some(self.push(Atom::Decision(index)));
        let arms = decision.branch.arms.len().max(decision.taken + 1);
        if arms - 1 > MAX_STUBS {
            self.of_taken[index] = Some(self.push(Atom::Arm(index, decision.taken)));
            self.push(Atom::OtherArms(index));
            return;
        }
        for arm in 0..arms {
            let atom = self.push(Atom::Arm(index, arm));
            if arm == decision.taken {
                self.of_taken[index] = Some(atom);
            }
        }
    }

    fn find_readers(&mut self, facts: &Facts<'_>) {
        let mut reads: Vec<(usize, usize)> = Vec::new();
        for (index, node) in facts.record.nodes.iter().enumerate() {
            if let Some(reader) = self.of_node[index].filter(|_| !is_leaf(facts, index)) {
                reads.extend(facts.known(&node.operands).map(|read| (facts.value_of(read), reader)));
                reads.extend(facts.known(&node.looked_at).map(|read| (facts.value_of(read), reader)));
            }
            for (position, look) in facts.known(&node.looked_at).enumerate() {
                if let Some(decision) = facts.decision_of_look(index, position) {
                    reads.extend(self.of_decision[decision].map(|reader| (facts.value_of(look), reader)));
                }
            }
        }
        for (read, reader) in reads {
            if let Some(atom) = self.of_node[read].filter(|_| is_leaf(facts, read)) {
                self.readers.entry(atom).or_default().push(reader);
            }
        }
    }

    /// The function in which an atom was written. The function of a leaf is derived from its
    /// readers, see [`Atoms::fold`].
    pub(crate) fn function(&self, facts: &Facts<'_>, atom: usize) -> Option<usize> {
        match self.each[atom] {
            Atom::Node(node) => facts.function[node],
            Atom::Decision(decision) | Atom::Arm(decision, _) | Atom::OtherArms(decision) => {
                let node = facts.record.decisions[decision].node?;
                facts.function.get(node as usize).copied().flatten()
            }
        }
    }

    pub(crate) fn time(&self, facts: &Facts<'_>, atom: usize) -> Duration {
        match self.each[atom] {
            Atom::Node(node) => facts.time[node],
            // A body is polled for all of its decisions together: count its time once, for the
            // first.
            Atom::Decision(decision) => match facts.record.decisions[decision].node {
                Some(node) if facts.decisions.get(node as usize).is_some_and(|all| all.first() == Some(&decision)) => {
                    facts.time[node as usize]
                }
                _ => Duration::ZERO,
            },
            Atom::Arm(..) | Atom::OtherArms(_) => Duration::ZERO,
        }
    }

    /// Groups the atoms into items.
    pub(crate) fn fold<'a>(&self, facts: &Facts<'a>, fold: &Fold) -> Folding {
        let mut keys: Vec<Option<Key<'a>>> = (0..self.each.len()).map(|atom| self.key(facts, fold, atom)).collect();
        let single = single_item_functions(&keys, |atom| self.same(facts, atom));
        for (atom, key) in keys.iter_mut().enumerate() {
            if matches!(key, Some(Key::Function(function)) if single.contains(function)) {
                *key = Some(self.same(facts, atom));
            }
        }
        let (mut items, mut known, mut kinds) = (vec![usize::MAX; self.each.len()], HashMap::new(), Vec::new());
        for (atom, key) in keys.into_iter().enumerate() {
            if let Some(key) = key {
                items[atom] = item_of(&mut known, &mut kinds, key);
            }
        }
        // A leaf joins the item that reads it.
        let leaves: Vec<usize> = (0..items.len()).filter(|&atom| items[atom] == usize::MAX).collect();
        for atom in leaves {
            let readers = self.readers.get(&atom).map_or(&[][..], Vec::as_slice);
            let mut readers: Vec<usize> = readers.iter().map(|&reader| items[reader]).collect();
            readers.sort_unstable();
            readers.dedup();
            items[atom] = match readers[..] {
                [] => item_of(&mut known, &mut kinds, self.same(facts, atom)),
                [only] if kinds[only].is_many() => only,
                _ => item_of(&mut known, &mut kinds, Key::Leaf(facts.node(self.node_of(atom)).kind, readers)),
            };
        }
        Folding { item_of: items, kinds }
    }

    fn node_of(&self, atom: usize) -> usize {
        match self.each[atom] {
            Atom::Node(node) => node,
            _ => unreachable!("only layers are read"),
        }
    }

    /// The grouping key of an atom; `None` for a leaf, which is grouped by its readers.
    fn key<'a>(&self, facts: &Facts<'a>, fold: &Fold, atom: usize) -> Option<Key<'a>> {
        if !fold.same {
            return Some(Key::Single(atom));
        }
        if matches!(self.each[atom], Atom::Node(node) if is_leaf(facts, node)) {
            return None;
        }
        let function = self.function(facts, atom);
        if fold.lines {
            let outermost = facts.functions.ancestors(function).last();
            return Some(match outermost {
                Some(function) => Key::Called(facts.functions.get(function).call.function),
                None => match self.same(facts, atom) {
                    Key::Same { place, .. } => Key::Line(place.file(), place.line()),
                    other => other,
                },
            });
        }
        let closed = facts.functions.ancestors(function).filter(|function| fold.closed.contains(function)).last();
        Some(closed.map_or_else(|| self.same(facts, atom), Key::Function))
    }

    fn same<'a>(&self, facts: &Facts<'a>, atom: usize) -> Key<'a> {
        let function = self.function(facts, atom);
        let branch = |decision: usize| std::ptr::from_ref(facts.record.decisions[decision].branch);
        match self.each[atom] {
            Atom::Node(index) => {
                let (node, outcome) = (facts.node(index), facts.outcome[index]);
                let (kind, name, place, direction) = (node.kind, node.name, node.place, node.direction);
                let shape = if kind == NodeKind::Operation { "" } else { node.value.as_str() };
                Key::Same { kind, name, place, direction, outcome, shape, function }
            }
            Atom::Decision(decision) => Key::Decision(branch(decision), function),
            Atom::Arm(decision, arm) => Key::Arm(branch(decision), arm, function),
            Atom::OtherArms(decision) => Key::OtherArms(branch(decision), function),
        }
    }
}

pub(crate) fn is_leaf(facts: &Facts<'_>, node: usize) -> bool {
    let node = facts.node(node);
    let leaf = matches!(node.kind, NodeKind::Weight | NodeKind::Constant | NodeKind::Seed);
    leaf && node.direction == Direction::Forward
}

/// The item of each atom, and the kind of each item.
pub(crate) struct Folding {
    pub(crate) item_of: Vec<usize>,
    pub(crate) kinds: Vec<Kind>,
}

/// What the atoms of an item share.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The same operation at the same place, or a single atom.
    Alike,
    /// One entry of the call tree.
    Function(usize),
    /// A function, independent of its callers.
    Called(&'static str),
    Line(&'static str, u32),
    /// The remaining atoms, which share nothing.
    Rest,
}

impl Kind {
    fn is_many(self) -> bool {
        self != Kind::Alike
    }
}

/// The folding steps that are applied.
#[derive(Clone, Default)]
pub(crate) struct Fold {
    /// Group equal operations at the same place with the same call chain.
    pub(crate) same: bool,
    /// Functions that are grouped into one item each.
    pub(crate) closed: HashSet<usize>,
    /// Group by source line, and functions by name, independent of their callers.
    pub(crate) lines: bool,
}

/// The grouping key: atoms with equal keys become one item.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key<'a> {
    Single(usize),
    Same {
        kind: NodeKind,
        name: &'static str,
        place: &'static Location<'static>,
        direction: Direction,
        outcome: Outcome,
        shape: &'a str,
        function: Option<usize>,
    },
    Decision(*const Branch, Option<usize>),
    Arm(*const Branch, usize, Option<usize>),
    OtherArms(*const Branch, Option<usize>),
    /// A leaf of this kind, and the items that read it.
    Leaf(NodeKind, Vec<usize>),
    Function(usize),
    Called(&'static str),
    Line(&'static str, u32),
}

fn item_of<'a>(known: &mut HashMap<Key<'a>, usize>, kinds: &mut Vec<Kind>, key: Key<'a>) -> usize {
    let kind = match key {
        Key::Function(function) => Kind::Function(function),
        Key::Called(name) => Kind::Called(name),
        Key::Line(file, line) => Kind::Line(file, line),
        _ => Kind::Alike,
    };
    *known.entry(key).or_insert_with(|| {
        kinds.push(kind);
        kinds.len() - 1
    })
}

/// Closed functions whose atoms would form a single item anyway. They are shown as that item.
fn single_item_functions<'a>(keys: &[Option<Key<'a>>], same: impl Fn(usize) -> Key<'a>) -> HashSet<usize> {
    let mut first: HashMap<usize, Option<Key<'a>>> = HashMap::new();
    for (atom, key) in keys.iter().enumerate() {
        if let Some(Key::Function(function)) = key {
            match first.entry(*function) {
                Entry::Vacant(new) => _ = new.insert(Some(same(atom))),
                Entry::Occupied(mut known) if known.get().as_ref().is_some_and(|known| *known != same(atom)) => {
                    known.insert(None);
                }
                Entry::Occupied(_) => {}
            }
        }
    }
    first.into_iter().filter_map(|(function, only)| only.map(|_| function)).collect()
}

impl Facts<'_> {
    /// The decision of the body of `node` that follows the extraction at `position`: the first one
    /// taken after it.
    pub(crate) fn decision_of_look(&self, node: usize, position: usize) -> Option<usize> {
        let after = |decision: &&usize| position < self.record.decisions[**decision].looked_at as usize;
        self.decisions[node].iter().find(after).copied()
    }

    /// The label of an edge: a shape such as `f32[16, 64]`, empty for scalars.
    pub(crate) fn shape(&self, node: usize) -> &str {
        let value = self.record.nodes[node].value.as_str();
        if has_shape(value) { value } else { "" }
    }
}
