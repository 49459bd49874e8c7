//! Builds a [`Scene`] from a record: folding, edges, function boxes.

use crate::atoms::{Atom, Atoms, Folding, Kind, is_leaf};
use crate::describe;
use crate::facts::{Facts, Part};
use crate::fold::folded;
use crate::scene::{Edge, Flow, FunctionBox, Item, Look, Scene};
use dl_core::record::{NodeKind, PassRecord};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The scene of this record with at most `max_items` items.
pub(crate) fn scene(
    record: &PassRecord,
    names: &HashMap<u64, String>,
    backward: bool,
    max_items: usize,
    title: Option<&str>,
) -> Scene {
    let facts = Facts::of(record, names, backward);
    let atoms = Atoms::of(&facts);
    let fitting = folded(&facts, &atoms, max_items);
    let Folding { item_of, kinds } = fitting.folding;
    let mut members = vec![Vec::new(); kinds.len()];
    item_of.iter().enumerate().for_each(|(atom, &item)| members[item].push(atom));

    let links = Links { facts: &facts, atoms: &atoms, item_of: &item_of };
    let edges = links.edges();
    let items = describe::items(&facts, &atoms, &members, &kinds);
    let functions = functions_of(&facts, &atoms, &members, &kinds, &items, &edges);
    let head = describe::head(&facts, &atoms, items.len(), fitting.folded, backward, title);
    let mut scene = Scene { items, edges, boxes: Vec::new(), head };
    assign_boxes(&mut scene, &facts, &functions);
    add_rank_edges(&mut scene);
    scene
}

/// Derives the edges between items.
struct Links<'a> {
    facts: &'a Facts<'a>,
    atoms: &'a Atoms,
    item_of: &'a [usize],
}

type Collected = BTreeMap<(usize, usize, Flow), Vec<String>>;

impl Links<'_> {
    fn edges(&self) -> Vec<Edge> {
        let mut edges = Collected::new();
        let mut consumers: HashMap<usize, Vec<usize>> = HashMap::new();
        for (index, node) in self.facts.record.nodes.iter().enumerate() {
            match self.facts.part[index] {
                Part::Drawn => {
                    let Some(item) = self.item(self.atoms.of_node[index]) else { continue };
                    for operand in self.facts.known(&node.operands) {
                        self.read_edge(&mut edges, operand, item, Flow::Data);
                        self.resolution_chain(operand)
                            .for_each(|decides| consumers.entry(decides).or_default().push(item));
                    }
                    self.facts
                        .known(&node.looked_at)
                        .for_each(|look| self.read_edge(&mut edges, look, item, Flow::Extracted));
                    for result in self.facts.known(node.became.as_slice()) {
                        add(&mut edges, Some(item), self.entry(result), Flow::Control, "");
                    }
                }
                Part::Decisions => self.body_edges(&mut edges, index),
                Part::Hidden => {}
            }
        }
        for decision in 0..self.facts.record.decisions.len() {
            self.arm_edges(&mut edges, decision);
        }
        let mut edges: Vec<Edge> = edges.into_iter().map(edge).collect();
        self.redirect_upward_edges(&mut edges, &consumers);
        edges
    }

    fn item(&self, atom: Option<usize>) -> Option<usize> {
        atom.map(|atom| self.item_of[atom])
    }

    /// Adds an edge from the producer of a value to an item that reads it.
    fn read_edge(&self, edges: &mut Collected, read: usize, item: usize, flow: Flow) {
        let value = self.facts.value_of(read);
        match self.atoms.of_node[value] {
            Some(atom) => {
                // The label of a leaf shows its shape already.
                let shape = if is_leaf(self.facts, value) { "" } else { self.facts.shape(value) };
                add(edges, self.item(Some(atom)), Some(item), flow, shape);
            }
            // The layer did not resolve to a value; the last arm taken is the end of its path.
            None => {
                let last = self.facts.decisions[value].last().and_then(|&decision| self.atoms.of_taken[decision]);
                add(edges, self.item(last), Some(item), Flow::Control, "");
            }
        }
    }

    /// The edges of a body: from the values it extracted to its decisions, from one decision to the
    /// next, and from the last arm to the result.
    fn body_edges(&self, edges: &mut Collected, index: usize) {
        let (node, decisions) = (self.facts.node(index), &self.facts.decisions[index]);
        let result = self.facts.known(node.became.as_slice()).next().and_then(|result| self.entry(result));
        for (position, look) in self.facts.known(&node.looked_at).enumerate() {
            let decision = self.facts.decision_of_look(index, position);
            let reader = decision.map_or(result, |decision| self.item(self.atoms.of_decision[decision]));
            if let Some(reader) = reader {
                self.read_edge(edges, look, reader, Flow::Extracted);
            }
        }
        for (position, &decision) in decisions.iter().enumerate() {
            let next = decisions.get(position + 1).and_then(|&next| self.item(self.atoms.of_decision[next]));
            add(edges, self.item(self.atoms.of_taken[decision]), next.or(result), Flow::Control, "");
        }
    }

    /// Connects a decision to its arms.
    fn arm_edges(&self, edges: &mut Collected, decision: usize) {
        let Some(atom) = self.atoms.of_decision[decision] else { return };
        let own = |other: &Atom| matches!(*other, Atom::Arm(of, _) | Atom::OtherArms(of) if of == decision);
        let arms = self.atoms.each[atom + 1..].iter().take_while(|other| own(other)).count();
        for arm in atom + 1..=atom + arms {
            add(edges, self.item(Some(atom)), self.item(Some(arm)), Flow::Control, "");
        }
    }

    /// The item where control enters a layer: its first decision, if it has any.
    fn entry(&self, from: usize) -> Option<usize> {
        let at = self.resolution_chain(from).find(|&at| self.facts.part[at] != Part::Hidden);
        let at = at.unwrap_or_else(|| self.facts.value_of(from));
        match self.facts.part[at] {
            Part::Decisions => {
                self.item(self.facts.decisions[at].first().and_then(|&first| self.atoms.of_decision[first]))
            }
            _ => self.item(self.atoms.of_node[at]),
        }
    }

    /// The chain of dynamic nodes that `from` resolves through, without the final value. The length
    /// is bounded, since a record may contain a cycle.
    fn resolution_chain(&self, from: usize) -> impl Iterator<Item = usize> + '_ {
        const MAX_CHAIN: usize = 64;
        let next = |&at: &usize| self.facts.known(self.facts.node(at).became.as_slice()).next();
        let decides = |&at: &usize| self.facts.node(at).kind == NodeKind::Decision;
        std::iter::successors(Some(from), next).take(MAX_CHAIN).filter(decides)
    }

    /// An arm may lead to a value that existed before the decision. Such an edge would point
    /// upwards and is redirected to the consumers of the body.
    fn redirect_upward_edges(&self, edges: &mut Vec<Edge>, consumers: &HashMap<usize, Vec<usize>>) {
        let mut successors = vec![Vec::new(); self.item_of.iter().max().map_or(0, |most| most + 1)];
        edges.iter().for_each(|edge| successors[edge.from].push(edge.to));
        // If a recursive function is folded, its decision leads to itself; such an edge stays.
        let decision_items: HashSet<usize> =
            self.atoms.of_decision.iter().filter_map(|&atom| self.item(atom)).collect();
        for (index, decisions) in self.facts.decisions.iter().enumerate() {
            let Some(&last) = decisions.last() else { continue };
            let (Some(decision), Some(taken)) =
                (self.item(self.atoms.of_decision[last]), self.item(self.atoms.of_taken[last]))
            else {
                continue;
            };
            let is_upward = |edge: &Edge| {
                let to_value = edge.from == taken && !decision_items.contains(&edge.to);
                to_value && reachable(&successors, edge.to)[decision]
            };
            let before = edges.len();
            edges.retain(|edge| !is_upward(edge));
            if edges.len() < before {
                let mut readers = consumers.get(&index).cloned().unwrap_or_default();
                readers.sort_unstable();
                readers.dedup();
                let way = |to| Edge { from: taken, to, flow: Flow::Control, label: String::new() };
                edges.extend(readers.into_iter().map(way));
            }
        }
    }
}

fn add(edges: &mut Collected, from: Option<usize>, to: Option<usize>, flow: Flow, label: &str) {
    let (Some(from), Some(to)) = (from, to) else { return };
    if from != to {
        let labels = edges.entry((from, to, flow)).or_default();
        if !label.is_empty() && !labels.iter().any(|known| known == label) {
            labels.push(label.to_string());
        }
    }
}

fn edge(((from, to, flow), labels): ((usize, usize, Flow), Vec<String>)) -> Edge {
    let label = match &labels[..] {
        [first, _, ..] => format!("{first} …"),
        [only] => only.clone(),
        [] => String::new(),
    };
    Edge { from, to, flow, label }
}

/// The items reachable from `from`.
fn reachable(successors: &[Vec<usize>], from: usize) -> Vec<bool> {
    let (mut reached, mut open) = (vec![false; successors.len()], vec![from]);
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut reached[at], true) {
            open.extend(&successors[at]);
        }
    }
    reached
}

/// The enclosing function of each item. A leaf belongs to the innermost function that contains all
/// of its readers.
fn functions_of(
    facts: &Facts<'_>,
    atoms: &Atoms,
    members: &[Vec<usize>],
    kinds: &[Kind],
    items: &[Item],
    edges: &[Edge],
) -> Vec<Option<usize>> {
    let all_leaves = |item: usize| {
        let leaf = |&atom: &usize| matches!(atoms.each[atom], Atom::Node(node) if is_leaf(facts, node));
        members[item].iter().all(leaf)
    };
    let written_in = |item: usize| match kinds[item] {
        Kind::Alike => atoms.function(facts, members[item][0]),
        Kind::Function(function) => facts.functions.get(function).caller,
        Kind::Called(_) | Kind::Line(..) | Kind::Rest => None,
    };
    let mut functions: Vec<Option<usize>> = (0..members.len()).map(written_in).collect();
    for item in (0..members.len()).filter(|&item| all_leaves(item)) {
        let readers = edges.iter().filter(|edge| edge.from == item).map(|edge| edge.to);
        let (back, there): (Vec<usize>, Vec<usize>) = readers.partition(|&reader| items[reader].look.is_backward());
        let readers = if there.is_empty() { back } else { there };
        let readers = readers.into_iter().map(written_in);
        functions[item] = readers.reduce(|left, right| facts.functions.common(left, right)).flatten();
    }
    functions
}

/// Adds a box for each function with at least two items. If all items of a function are in a
/// function that it calls, both share one box.
fn assign_boxes(scene: &mut Scene, facts: &Facts<'_>, functions: &[Option<usize>]) {
    let mut inside = vec![0_usize; facts.functions.ids().len()];
    functions.iter().for_each(|&function| facts.functions.ancestors(function).for_each(|id| inside[id] += 1));
    let mut called = vec![Vec::new(); inside.len()];
    facts.functions.ids().filter(|&id| inside[id] >= 2).for_each(|id| {
        if let Some(caller) = facts.functions.get(id).caller {
            called[caller].push(id);
        }
    });
    let shares = |id: &usize| called[*id].iter().any(|&inner| inside[inner] == inside[*id]);
    let mut box_of: Vec<Option<usize>> = vec![None; inside.len()];
    // The index of a function is greater than that of its caller.
    for id in facts.functions.ids() {
        let caller = facts.functions.get(id).caller;
        let within = facts.functions.ancestors(caller).find_map(|id| box_of[id]);
        if inside[id] >= 2 && !shares(&id) {
            let mut names = vec![facts.functions.get(id).call.function];
            let sharing = facts.functions.ancestors(caller).take_while(|outer| inside[*outer] == inside[id]);
            names.extend(sharing.map(|outer| facts.functions.get(outer).call.function));
            names.reverse();
            let name = facts.functions.get(id).marked(&names.join(" › "));
            let calls: Vec<String> =
                facts.functions.ancestors(Some(id)).map(|id| facts.functions.get(id).call.to_string()).collect();
            scene.boxes.push(FunctionBox { name, hover: calls.join("\n"), within });
            box_of[id] = Some(scene.boxes.len() - 1);
        }
    }
    for (item, &function) in scene.items.iter_mut().zip(functions) {
        item.within = facts.functions.ancestors(function).find_map(|id| box_of[id]);
    }
}

/// Adds invisible edges that place below an arm whatever was computed because of it: the ancestors
/// of the arm's target that are not ancestors of the decision.
fn add_rank_edges(scene: &mut Scene) {
    let mut predecessors = vec![Vec::new(); scene.items.len()];
    scene.edges.iter().for_each(|edge| predecessors[edge.to].push(edge.from));
    let taken = |edge: &&Edge| edge.flow == Flow::Control && scene.items[edge.from].look == Look::Taken;
    let mut below: Vec<Edge> = Vec::new();
    for way in scene.edges.iter().filter(taken) {
        let (after, before) = (reachable(&predecessors, way.to), reachable(&predecessors, way.from));
        let is_new = |item: usize| after[item] && !before[item];
        let is_first = |item: &usize| is_new(*item) && !predecessors[*item].iter().any(|&from| is_new(from));
        let first = (0..scene.items.len()).filter(is_first).filter(|&item| item != way.to);
        below.extend(first.map(|to| Edge { from: way.from, to, flow: Flow::Rank, label: String::new() }));
    }
    scene.edges.extend(below);
}
