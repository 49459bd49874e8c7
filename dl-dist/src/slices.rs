//! Sums over the parts of a batch that are cut into slices. Each rank gets the numbers of its slice
//! from all ranks, adds them along the tree over the parts (*reduce-scatter*), and sends the sum to
//! all ranks (*all-gather*). For `S` bytes of deltas on `n` ranks, a rank sends `2 S (n − 1) / n`
//! bytes; if each rank sent all its deltas to all others, it would send `S (n − 1)`.
//!
//! The additions are those of one process, so the bits are, too. A weight without a delta on any
//! rank has none in the sum.

use crate::cluster::{Cluster, Exchanges};
use crate::exchange::{Received, Round};
use crate::step::{Contribution, NodeSum};
use dl_core::parts::{DenseWeights, PartSum, additions};
use dl_core::{Error, Module, Result, Value};
use std::ops::Range;

/// In bytes: from here on, half of the deltas take longer on their way than one more message to
/// each rank, at a few GB/s and 10 to 30 µs. (`benches/ranks.rs`.)
const SLICED_FROM: usize = 1 << 16;

/// The deltas of this rank that are added in slices.
pub(crate) struct Slices {
    rank: usize,
    size: usize,
    weights: DenseWeights,
    /// The deltas of each weight, for each node of the tree that this rank has.
    own: Vec<Vec<Option<Value>>>,
}

/// The deltas of a step: those of each weight in the end, if it has one.
type Totals = (DenseWeights, Vec<Option<Value>>);

impl Slices {
    /// No weights, if there is one rank or the deltas are small.
    pub(crate) fn new<M: Module + ?Sized>(cluster: &Cluster, module: &M) -> Slices {
        let weights = match cluster.server() {
            Some(server) => DenseWeights::of(module, |entry| entry.rank().is_none() && !server.has_entry(entry.id())),
            None => DenseWeights::default(),
        };
        let weights = if weights.bytes() < SLICED_FROM { DenseWeights::default() } else { weights };
        Slices { rank: cluster.rank(), size: cluster.size(), weights, own: Vec::new() }
    }

    /// How many numbers are summed in slices.
    pub(crate) fn numbers(&self) -> usize {
        self.weights.numbers()
    }

    /// The numbers of the slice that this rank adds.
    fn slice(&self, rank: usize) -> Range<usize> {
        let at = |rank: usize| (self.numbers() as u128 * rank as u128 / self.size as u128) as usize;
        at(rank)..at(rank + 1)
    }

    /// Takes the deltas out of the sum of the next node. Returns which weights have one: a byte for
    /// each, 1 or 0.
    pub(crate) fn take(&mut self, sum: &mut PartSum) -> Result<Box<[u8]>> {
        let deltas = sum.take_dense(&self.weights)?;
        let has_delta = deltas.iter().map(|delta| u8::from(delta.is_some())).collect();
        self.own.push(deltas);
        Ok(has_delta)
    }

    /// Appends the numbers of the slice of a rank: those of each node in turn.
    pub(crate) fn write_own(&mut self, to: usize, message: &mut Vec<u8>) {
        let slice = self.slice(to);
        for deltas in &mut self.own {
            write(&self.weights, &slice, deltas, message);
        }
    }

    /// Adds the slice of this rank, and gathers the others. The outer error is that of all ranks.
    pub(crate) fn sum(
        mut self,
        exchanges: &mut Exchanges<'_>,
        parts: usize,
        all: &[Received<Contribution>],
    ) -> Result<Result<Totals>> {
        if self.weights.count() == 0 {
            return Ok(Ok((self.weights, Vec::new())));
        }
        let mut added = self.add(parts, all);
        let mine = added.as_ref().map(|_| ()).map_err(Error::clone);
        let own = self.slice(self.rank);
        let gathered = exchanges.round_of_numbers(Round::Slices, mine, |_, message| {
            added.iter_mut().for_each(|totals| write(&self.weights, &own, totals, message));
        })?;
        let gather = |mut totals: Vec<Option<Value>>| {
            for (from, received) in gathered.iter().enumerate().filter(|(from, _)| *from != self.rank) {
                let mut numbers = Cursor { bytes: received.numbers(), from };
                for (weight, range) in self.weights.within(self.slice(from)) {
                    let Some(delta) = &mut totals[weight] else { continue };
                    let bytes = numbers.take(range.len() * self.weights.size(weight))?;
                    self.weights.row(weight, delta, |mut row| row.part(range.clone()).read(bytes));
                }
                numbers.end()?;
            }
            Ok((self.weights, totals))
        };
        Ok(added.and_then(gather))
    }

    /// The deltas of this rank, with the sum over all ranks in its slice.
    fn add(&mut self, parts: usize, all: &[Received<Contribution>]) -> Result<Vec<Option<Value>>> {
        let slice = self.slice(self.rank);
        let mut terms = self.terms(&slice, all)?;
        let mut totals = Vec::with_capacity(self.weights.count());
        // The node that each delta was taken from.
        let mut bases = Vec::with_capacity(self.weights.count());
        for weight in 0..self.weights.count() {
            let own = self.own.iter_mut().enumerate().find_map(|(node, deltas)| Some((node, deltas[weight].take()?)));
            bases.push(own.as_ref().map(|(node, _)| *node));
            totals.push(match own {
                Some((_, delta)) => Some(delta),
                None if terms.iter().any(|term| term.has(weight)) => Some(self.weights.zeros(weight)?),
                None => None,
            });
        }
        for (weight, range) in self.weights.within(slice) {
            let Some(total) = &mut totals[weight] else { continue };
            let nodes = terms.iter().map(|term| (term.sum.0, term.has(weight)));
            let (additions, Some(root)) = additions(parts, nodes)? else { continue };
            let mut own = vec![Vec::new(); self.own.len()];
            for (deltas, bytes) in self.own.iter_mut().zip(&mut own) {
                deltas[weight].iter_mut().for_each(|delta| {
                    self.weights.row(weight, delta, |mut row| row.part(range.clone()).write(bytes));
                });
            }
            let len = range.len() * self.weights.size(weight);
            let mut of_weight = Vec::with_capacity(terms.len());
            for term in terms.iter_mut().filter(|term| term.has(weight)) {
                of_weight.push(match term.own {
                    Some(node) if bases[weight] == Some(node) => None,
                    Some(node) => Some(&own[node][..]),
                    None => Some(term.numbers.take(len)?),
                });
            }
            self.weights.row(weight, total, |mut row| {
                row.part(range.clone()).set_sum(&of_weight, &additions, root);
            });
        }
        Ok(totals)
    }

    /// The sums of all nodes, with their numbers of a slice.
    fn terms<'a>(&self, slice: &Range<usize>, all: &'a [Received<Contribution>]) -> Result<Vec<Term<'a>>> {
        let mut terms = Vec::new();
        for (from, received) in all.iter().enumerate() {
            let mut numbers = Cursor { bytes: received.numbers(), from };
            for (node, sum) in received.value.2.iter().enumerate() {
                if sum.1.len() != self.weights.count() || sum.1.iter().any(|&has| has > 1) {
                    return Err(Error::invalid(format!("the sums of rank {from} are not those of these weights")));
                }
                let own = (from == self.rank).then_some(node);
                let mut term = Term { sum, own, numbers: Cursor { bytes: &[], from } };
                if own.is_none() {
                    let weights = self.weights.within(slice.clone()).filter(|(weight, _)| term.has(*weight));
                    let len = weights.map(|(weight, range)| range.len() * self.weights.size(weight)).sum();
                    term.numbers.bytes = numbers.take(len)?;
                }
                terms.push(term);
            }
            numbers.end()?;
        }
        Ok(terms)
    }
}

/// The sum of a node.
struct Term<'a> {
    sum: &'a NodeSum,
    /// The number of the node among those of this rank.
    own: Option<usize>,
    /// The numbers that have not been added, if it came from another rank.
    numbers: Cursor<'a>,
}

impl Term<'_> {
    fn has(&self, weight: usize) -> bool {
        self.sum.1[weight] == 1
    }
}

/// Numbers of another rank.
struct Cursor<'a> {
    bytes: &'a [u8],
    from: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.bytes.split_at_checked(len) else { return Err(self.wrong_length()) };
        self.bytes = rest;
        Ok(taken)
    }

    fn end(&self) -> Result<()> {
        if self.bytes.is_empty() { Ok(()) } else { Err(self.wrong_length()) }
    }

    fn wrong_length(&self) -> Error {
        Error::invalid(format!("a message of rank {}: its numbers are not those of a slice", self.from))
    }
}

/// Appends the numbers of a slice.
fn write(weights: &DenseWeights, slice: &Range<usize>, deltas: &mut [Option<Value>], message: &mut Vec<u8>) {
    for (weight, range) in weights.within(slice.clone()) {
        let Some(delta) = &mut deltas[weight] else { continue };
        weights.row(weight, delta, |mut row| row.part(range.clone()).write(message));
    }
}
