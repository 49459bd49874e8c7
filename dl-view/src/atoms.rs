//! What a picture would show if nothing were folded, and how folding puts it together.

use crate::facts::{Facts, Part, has_shape};
use crate::scene::Outcome;
use dl_core::Branch;
use dl_core::record::{Direction, NodeKind};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::time::Duration;

/// The least that can be drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Atom {
    /// A layer.
    Node(usize),
    /// A decision: an index of the record's.
    Decision(usize),
    /// One of the ways on from a decision.
    Arm(usize, usize),
    /// The ways that were not taken, where they are many.
    OtherArms(usize),
}

/// So many arms that were not taken have a place of their own.
const MOST_STUBS: usize = 4;

/// All that is drawn of a record, in its order, and how to find it.
pub(crate) struct Atoms {
    pub(crate) each: Vec<Atom>,
    pub(crate) of_node: Vec<Option<usize>>,
    pub(crate) of_decision: Vec<Option<usize>>,
    /// The arm that was taken.
    pub(crate) of_taken: Vec<Option<usize>>,
    /// For each weight, plain value and random number: by which atoms it is read.
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
                Part::Ways => facts.ways[node].iter().for_each(|&decision| atoms.push_decision(facts, decision)),
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
        if arms - 1 > MOST_STUBS {
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

    /// In which function it was written; of a weight, see [`Atoms::fold`].
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
            // a body is polled for all of its decisions
            Atom::Decision(decision) => match facts.record.decisions[decision].node {
                Some(node) if facts.ways.get(node as usize).is_some_and(|ways| ways.first() == Some(&decision)) => {
                    facts.time[node as usize]
                }
                _ => Duration::ZERO,
            },
            Atom::Arm(..) | Atom::OtherArms(_) => Duration::ZERO,
        }
    }

    /// Puts together what is to be one.
    pub(crate) fn fold<'a>(&self, facts: &Facts<'a>, fold: &Fold) -> Folding {
        let mut keys: Vec<Option<Key<'a>>> = (0..self.each.len()).map(|atom| self.key(facts, fold, atom)).collect();
        let alone = lonely(&keys, |atom| self.same(facts, atom));
        for (atom, key) in keys.iter_mut().enumerate() {
            if matches!(key, Some(Key::Function(function)) if alone.contains(function)) {
                *key = Some(self.same(facts, atom));
            }
        }
        let (mut items, mut known, mut kinds) = (vec![usize::MAX; self.each.len()], HashMap::new(), Vec::new());
        for (atom, key) in keys.into_iter().enumerate() {
            if let Some(key) = key {
                items[atom] = item_of(&mut known, &mut kinds, key);
            }
        }
        // weights and such go where they are read
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

    /// Nothing for what goes where it is read.
    fn key<'a>(&self, facts: &Facts<'a>, fold: &Fold, atom: usize) -> Option<Key<'a>> {
        if !fold.same {
            return Some(Key::Alone(atom));
        }
        if matches!(self.each[atom], Atom::Node(node) if is_leaf(facts, node)) {
            return None;
        }
        let function = self.function(facts, atom);
        if fold.lines {
            let outermost = facts.functions.upwards(function).last();
            return Some(match outermost {
                Some(function) => Key::Called(facts.functions.get(function).call.function),
                None => match self.same(facts, atom) {
                    Key::Same { place, .. } => Key::Line(place.file(), place.line()),
                    other => other,
                },
            });
        }
        let closed = facts.functions.upwards(function).filter(|function| fold.closed.contains(function)).last();
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

/// Which item each atom is part of, and of what kind the items are.
pub(crate) struct Folding {
    pub(crate) item_of: Vec<usize>,
    pub(crate) kinds: Vec<Kind>,
}

/// What the atoms of an item have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// They are alike, or there is only one.
    Alike,
    /// A function that was called in this way.
    Function(usize),
    /// A function, whoever called it.
    Called(&'static str),
    Line(&'static str, u32),
    /// Nothing.
    Rest,
}

impl Kind {
    fn is_many(self) -> bool {
        self != Kind::Alike
    }
}

/// What folding has done so far.
#[derive(Clone, Default)]
pub(crate) struct Fold {
    /// What is the same operation on the same line in the same functions is one item.
    pub(crate) same: bool,
    /// Functions that are one item each.
    pub(crate) closed: HashSet<usize>,
    /// A line, or a function, is one item, whoever called it.
    pub(crate) lines: bool,
}

/// What atoms have in common that are one item.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key<'a> {
    Alone(usize),
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
    /// Read by these items.
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

/// The closed functions in which there is only one thing: they are better shown as that.
fn lonely<'a>(keys: &[Option<Key<'a>>], same: impl Fn(usize) -> Key<'a>) -> HashSet<usize> {
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
    /// Which decision of a body a bang led to: the first one that was taken after it.
    pub(crate) fn decision_of_look(&self, node: usize, position: usize) -> Option<usize> {
        let after = |decision: &&usize| position < self.record.decisions[**decision].looked_at as usize;
        self.ways[node].iter().find(after).copied()
    }

    /// Of an edge: `f32[16, 64]`, and nothing for plain numbers.
    pub(crate) fn shape(&self, node: usize) -> &str {
        let value = self.record.nodes[node].value.as_str();
        if has_shape(value) { value } else { "" }
    }
}
