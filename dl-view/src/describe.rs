//! The text of items: names, details, tooltips, and the lines above the picture.

use crate::atoms::{Atom, Atoms, Kind, is_leaf};
use crate::facts::Facts;
use crate::functions::source_location;
use crate::scene::{Item, Look, Outcome};
use crate::text;
use dl_core::record::{Direction, NodeKind, NodeRecord};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// The maximal number of columns in a line of an item.
const COLUMNS: usize = 34;

pub(crate) fn items(facts: &Facts<'_>, atoms: &Atoms, members: &[Vec<usize>], kinds: &[Kind]) -> Vec<Item> {
    let of_item = |members: &Vec<usize>| members.iter().map(|&atom| atoms.time(facts, atom)).sum();
    let times: Vec<Duration> = members.iter().map(of_item).collect();
    let longest = times.iter().max().copied().unwrap_or_default().as_secs_f64();
    let read = operands(facts);
    let each = members.iter().zip(kinds).zip(times).map(|((members, &kind), time)| {
        let share = if longest > 0.0 { time.as_secs_f64() / longest } else { 0.0 };
        let group = Group { facts, atoms, members, time };
        let mut item = match (kind, atoms.each[members[0]]) {
            (Kind::Alike, Atom::Node(first)) => group.layers(first, &read),
            (Kind::Alike, Atom::Decision(first)) => group.decision(first),
            (Kind::Alike, Atom::Arm(first, arm)) => group.arm(first, arm),
            (Kind::Alike, Atom::OtherArms(first)) => group.other_arms(first),
            (Kind::Function(function), _) => {
                let function = facts.functions.get(function);
                let name = match function.direction {
                    Direction::Backward => function.marked(function.call.function),
                    _ => format!("ƒ {}", function.call.function),
                };
                group.many(vec![name], function.call.to_string())
            }
            (Kind::Called(function), _) => group.many(vec![format!("ƒ {function}")], format!("`{function}`")),
            (Kind::Line(file, line), _) => group.many(vec![text::short_place(file, line)], format!("{file}:{line}")),
            (Kind::Rest, _) => group.many(vec!["all other items".into()], "the items with the least time".into()),
        };
        item.share = share;
        item
    });
    each.collect()
}

/// Whether each node is read by an operation.
fn operands(facts: &Facts<'_>) -> Vec<bool> {
    let mut read = vec![false; facts.record.nodes.len()];
    for node in &facts.record.nodes {
        facts.known(&node.operands).for_each(|operand| read[facts.value_of(operand)] = true);
    }
    read
}

/// The atoms drawn as one item.
struct Group<'a> {
    facts: &'a Facts<'a>,
    atoms: &'a Atoms,
    members: &'a [usize],
    time: Duration,
}

impl Group<'_> {
    fn nodes(&self) -> impl Iterator<Item = &NodeRecord> + '_ {
        self.members.iter().filter_map(|&atom| match self.atoms.each[atom] {
            Atom::Node(node) => Some(self.facts.node(node)),
            _ => None,
        })
    }

    /// The first failure that originates in the group.
    fn failure(&self) -> Option<&str> {
        let of_body = |&atom: &usize| {
            let node = match self.atoms.each[atom] {
                Atom::Node(node) => node,
                Atom::Decision(decision) => self.facts.record.decisions[decision].node? as usize,
                _ => return None,
            };
            let failed = self.facts.outcome.get(node) == Some(&Outcome::Failed);
            self.facts.record.nodes.get(node).filter(|_| failed)?.failure.as_deref()
        };
        self.members.iter().find_map(of_body)
    }

    /// Whether nothing of the group was computed because an input failed. A decision counts as
    /// computed, whatever happened after it.
    fn is_not_computed(&self) -> bool {
        let outcome = |&atom: &usize| match self.atoms.each[atom] {
            Atom::Node(node) if !is_leaf(self.facts, node) => Some(self.facts.outcome[node]),
            Atom::Decision(_) => Some(Outcome::Computed),
            _ => None,
        };
        let mut outcomes = self.members.iter().filter_map(outcome).peekable();
        outcomes.peek().is_some() && outcomes.all(|outcome| outcome == Outcome::NotComputed)
    }

    fn item(&self, look: Look, name: Vec<String>, mut details: Vec<String>, mut hover: String) -> Item {
        let outcome = match self.failure() {
            Some(failure) => {
                details = text::wrapped(failure, COLUMNS + 6, 3);
                hover = format!("{hover}\n{failure}");
                Outcome::Failed
            }
            None if self.is_not_computed() => {
                details = vec!["not computed".into()];
                Outcome::NotComputed
            }
            None => Outcome::Computed,
        };
        Item { look, name, details, hover, within: None, share: 0.0, outcome }
    }

    /// The item of one layer, or of several equal ones.
    fn layers(&self, first: usize, read: &[bool]) -> Item {
        let node = self.facts.node(first);
        let look = match (node.kind, node.direction) {
            (NodeKind::Weight, Direction::Forward) => Look::Weight,
            (NodeKind::Constant, Direction::Forward) => Look::Constant,
            (NodeKind::Seed, Direction::Forward) => Look::Random,
            (NodeKind::Decision, _) => Look::Decision,
            (_, Direction::Backward) => Look::Backward,
            _ => Look::Operation,
        };
        let name = match node.kind {
            NodeKind::Decision => format!("ƒ {}", node.name),
            NodeKind::Constant => "value".to_string(),
            _ if node.variable.is_some() && self.members.len() == 1 => self.facts.name(node).to_string(),
            _ => node.name.to_string(),
        };
        let mut details = Vec::new();
        let is_unread = self.members.iter().all(|&atom| self.atoms.of_node[first] != Some(atom) || !read[first]);
        if !node.value.is_empty() && (look != Look::Operation || is_unread) && node.kind != NodeKind::Decision {
            let mut values: Vec<&str> = self.nodes().map(|node| node.value.as_str()).collect();
            values.dedup();
            details.push(text::cut(node.value.as_str(), COLUMNS) + if values.len() > 1 { " …" } else { "" });
        }
        details.extend(self.cost());
        let hover = match self.members {
            [_] => format!("{}\n{}\n{}", source_location(node), self.value(node), self.nanos()),
            many => {
                let count = text::count(many.len());
                format!("{count} layers{}\n{}\n{}", self.paths(), source_location(node), self.nanos())
            }
        };
        self.item(look, vec![text::cut(&self.times(&name), COLUMNS)], details, format!("{name}: {hover}"))
    }

    /// The known paths of the variables, on a line of their own.
    fn paths(&self) -> String {
        const MAX_PATHS: usize = 8;
        let known = self.nodes().filter(|node| node.variable.is_some()).map(|node| self.facts.name(node));
        let mut paths: Vec<&str> = known.take(MAX_PATHS + 1).collect();
        if paths.len() > MAX_PATHS {
            paths[MAX_PATHS] = "…";
        }
        if paths.is_empty() { String::new() } else { format!("\n{}", paths.join(", ")) }
    }

    fn times(&self, name: &str) -> String {
        match self.members.len() {
            1 => name.to_string(),
            many => format!("{name} ×{}", text::count(many)),
        }
    }

    /// Time and bytes, where they are not zero.
    fn cost(&self) -> Option<String> {
        let bytes: usize = self.nodes().map(|node| node.bytes).sum();
        let time = (!self.time.is_zero()).then(|| text::time(self.time));
        let bytes = (bytes > 0).then(|| text::bytes(bytes));
        let parts: Vec<String> = time.into_iter().chain(bytes).collect();
        (!parts.is_empty()).then(|| parts.join(" · "))
    }

    fn nanos(&self) -> String {
        let bytes: usize = self.nodes().map(|node| node.bytes).sum();
        format!("{} ns, {} bytes", self.time.as_nanos(), bytes)
    }

    fn value<'n>(&self, node: &'n NodeRecord) -> &'n str {
        if node.value.is_empty() { "no value" } else { &node.value }
    }

    fn decision(&self, first: usize) -> Item {
        let decision = &self.facts.record.decisions[first];
        let body = decision.node.and_then(|node| self.facts.record.nodes.get(node as usize));
        let mut hover = format!("decision: {}\n{}", decision.branch.condition, decision.branch.place);
        if let Some(body) = body {
            hover.push_str(&format!("\nbody of `{}`: {}", body.name, source_location(body)));
        }
        let mut taken: HashMap<usize, usize> = HashMap::new();
        for &atom in self.members {
            if let Atom::Decision(decision) = self.atoms.each[atom] {
                *taken.entry(self.facts.record.decisions[decision].taken).or_default() += 1;
            }
        }
        for (arm, words) in decision.branch.arms.iter().enumerate() {
            let count = taken.get(&arm).copied().unwrap_or(0);
            hover.push_str(&format!("\n{} × {words}", text::count(count)));
        }
        let name = text::wrapped(&self.times(decision.branch.condition), 26, 3);
        self.item(Look::Decision, name, Vec::new(), hover)
    }

    fn arm(&self, first: usize, arm: usize) -> Item {
        let branch = self.facts.record.decisions[first].branch;
        let taken = |&&atom: &&usize| {
            let Atom::Arm(decision, _) = self.atoms.each[atom] else { return false };
            self.facts.record.decisions[decision].taken == arm
        };
        let count = self.members.iter().filter(taken).count();
        let words = branch.arms.get(arm).copied().unwrap_or("another arm");
        let name = if count > 1 { format!("{words} ×{}", text::count(count)) } else { words.to_string() };
        let (look, hover) = match count {
            0 => (Look::NotTaken, format!("not taken: {words}\n{}", branch.place)),
            _ => (Look::Taken, format!("taken: {words}\n{}", branch.place)),
        };
        self.item(look, text::wrapped(&name, COLUMNS, 2), Vec::new(), hover)
    }

    fn other_arms(&self, first: usize) -> Item {
        let decision = &self.facts.record.decisions[first];
        let others = decision.branch.arms.iter().enumerate().filter(|(arm, _)| *arm != decision.taken);
        let words: Vec<&str> = others.map(|(_, words)| *words).collect();
        let hover = format!("not taken:\n{}\n{}", words.join("\n"), decision.branch.place);
        self.item(Look::NotTaken, vec![text::counted(words.len(), "other arm")], Vec::new(), hover)
    }

    /// The item of a folded group of different layers.
    fn many(&self, name: Vec<String>, called: String) -> Item {
        let mut names: HashMap<&str, usize> = HashMap::new();
        let operations = |node: &&NodeRecord| node.kind == NodeKind::Operation;
        self.nodes().filter(operations).for_each(|node| *names.entry(node.name).or_default() += 1);
        let count: usize = names.values().sum();
        let decisions = self.members.iter().filter(|&&atom| matches!(self.atoms.each[atom], Atom::Decision(_))).count();
        let mut details = vec![text::counted(count, "operation")];
        if decisions > 0 {
            details.push(text::counted(decisions, "decision"));
        }
        details.extend(self.cost());

        let mut names: Vec<(&str, usize)> = names.into_iter().collect();
        names.sort_unstable_by_key(|&(name, count)| (std::cmp::Reverse(count), name));
        let most = names.iter().take(8).map(|(name, count)| format!("{} × {name}", text::count(*count)));
        let hover = format!("{called}\n{}\n{}", most.collect::<Vec<_>>().join(", "), self.nanos());
        let backward = self.nodes().all(|node| node.direction == Direction::Backward) && count > 0;
        let look = if backward { Look::BackwardFunction } else { Look::Function };
        self.item(look, name, details, hover)
    }
}

/// The lines above the picture.
pub(crate) fn head(
    facts: &Facts<'_>,
    atoms: &Atoms,
    shown: usize,
    folded: bool,
    backward: bool,
    title: Option<&str>,
) -> Vec<String> {
    let record = facts.record;
    let there = |node: &&NodeRecord| node.direction == Direction::Forward;
    let kind = |kind| record.nodes.iter().filter(there).filter(move |node| node.kind == kind).count();
    let back = record.nodes.iter().filter(|node| node.direction == Direction::Backward).count();
    let took = text::time(record.ended.saturating_sub(record.began));
    let mut head = vec![title.map_or_else(|| format!("A pass of {took}"), str::to_string)];

    let threads: BTreeSet<u32> = record.spans.iter().map(|span| span.thread).collect();
    let mut counts = vec![
        (kind(NodeKind::Operation), "operation"),
        (kind(NodeKind::Weight), "weight"),
        (record.decisions.len(), "decision"),
        (back, "delta"),
    ];
    counts.retain(|&(count, _)| count > 0);
    if threads.len() > 1 {
        counts.push((threads.len(), "thread"));
    }
    let counts = counts.into_iter().map(|(count, of)| text::counted(count, of));
    head.push(counts.chain(title.is_some().then_some(took)).collect::<Vec<_>>().join(" · "));
    if folded {
        let parts = text::count(atoms.each.len());
        let back = if backward && back > 0 { ", ∂ for its backward pass" } else { "" };
        head.push(format!(
            "Folded from {parts} parts to {shown}: ×n stands for n equal layers, ƒ for a whole function{back}."
        ));
    }
    if back > 0 && !backward {
        let deltas = record.nodes.iter().zip(&facts.time).filter(|(node, _)| node.direction == Direction::Backward);
        let time = deltas.map(|(_, &time)| time).sum::<Duration>() + facts.walks;
        head.push(format!("The backward pass is not drawn: {}, {}.", text::counted(back, "delta"), text::time(time)));
    }
    head
}
