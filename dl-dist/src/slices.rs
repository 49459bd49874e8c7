//! Sums over the parts of a batch that are cut into slices. Each rank gets the numbers of its slice
//! from all ranks, adds them along the tree over the parts (*reduce-scatter*), and sends the sum to
//! all ranks (*all-gather*). For `S` bytes of deltas on `n` ranks, a rank sends `2 S (n − 1) / n`
//! bytes; if each rank sent all its deltas to all others, it would send `S (n − 1)`.
//!
//! A long slice travels in pieces. In round `t` a rank sends its numbers of piece `t` of all slices,
//! and the sum of a former piece of its own slice. A rank posts round `t + 1` before it adds piece
//! `t`, so that one travels while the other is added.
//!
//! The additions are those of one process, so the bits are, too. A weight without a delta on any
//! rank has none in the sum.

use crate::cluster::{Cluster, Exchanges};
use crate::exchange::{Posted, Received, Round};
use crate::step::Contribution;
use dl_core::parts::{DenseWeights, PartSum, TreeNode, additions};
use dl_core::{Error, Module, Result, Value};
use std::collections::VecDeque;
use std::ops::Range;

/// In bytes: from here on, half of the deltas take longer on their way than one more message to
/// each rank, at a few GB/s and 10 to 30 µs. (`benches/ranks.rs`.)
const SLICED_FROM: usize = 1 << 16;

/// The numbers of a piece. Those of two pieces, sent and received, fit into the second-level cache,
/// and their buffers are reused for the next ones. (`benches/ranks.rs`.)
const PIECE: usize = 1 << 16;

/// The deltas of this rank that are added in slices.
pub(crate) struct Slices {
    rank: usize,
    size: usize,
    weights: DenseWeights,
    /// The deltas of each weight, for each node of the tree that this rank has. Zeros follow, for
    /// weights that only other ranks have deltas of.
    own: Vec<Vec<Option<Value>>>,
    nodes: usize,
    /// For each weight with a delta on any rank: which one of `own` becomes the sum.
    totals: Vec<Option<usize>>,
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
        Slices { rank: cluster.rank(), size: cluster.size(), weights, own: Vec::new(), nodes: 0, totals: Vec::new() }
    }

    /// How many numbers are summed in slices.
    pub(crate) fn numbers(&self) -> usize {
        self.weights.numbers()
    }

    /// How many pieces a slice has.
    fn pieces(&self) -> usize {
        self.numbers().div_ceil(self.size * PIECE).max(1)
    }

    /// How many rounds after the numbers of a piece its sum is sent.
    fn delay(&self) -> usize {
        self.pieces().min(2)
    }

    /// A piece of the slice that a rank adds.
    fn piece(&self, rank: usize, piece: usize) -> Range<usize> {
        let (number, all) = (rank * self.pieces() + piece, self.size * self.pieces());
        let at = |number: usize| (self.numbers() as u128 * number as u128 / all as u128) as usize;
        at(number)..at(number + 1)
    }

    /// Takes the deltas out of the sum of the next node. Returns which weights have one: a byte for
    /// each, 1 or 0.
    pub(crate) fn take(&mut self, sum: &mut PartSum) -> Result<Box<[u8]>> {
        let deltas = sum.take_dense(&self.weights)?;
        let has_delta = deltas.iter().map(|delta| u8::from(delta.is_some())).collect();
        self.own.push(deltas);
        self.nodes += 1;
        Ok(has_delta)
    }

    /// An upper bound of the bytes that are [written](Slices::write).
    pub(crate) fn room(&self) -> usize {
        let size = (0..self.weights.count()).map(|weight| self.weights.size(weight)).max().unwrap_or(0);
        (self.nodes + 1) * self.numbers().div_ceil(self.size * self.pieces()) * size
    }

    /// Writes the numbers of a round for a rank: the sum of a piece, and those of each node in turn.
    /// Returns how many bytes they have.
    pub(crate) fn write(&mut self, round: usize, to: usize, message: &mut [u8]) -> usize {
        let mut end = 0;
        if let Some(piece) = round.checked_sub(self.delay()) {
            for (weight, range) in self.weights.within(self.piece(self.rank, piece)) {
                let Some(node) = self.totals[weight] else { continue };
                end += write(&self.weights, weight, range, &mut self.own[node], &mut message[end..]);
            }
        }
        if round < self.pieces() {
            let piece = self.piece(to, round);
            for deltas in &mut self.own[..self.nodes] {
                for (weight, range) in self.weights.within(piece.clone()) {
                    end += write(&self.weights, weight, range, deltas, &mut message[end..]);
                }
            }
        }
        end
    }

    /// Adds the slice of this rank, and gathers the others. `all` are the contributions to round 0.
    /// The outer error is that of all ranks.
    pub(crate) fn sum(
        mut self,
        exchanges: &mut Exchanges<'_>,
        parts: usize,
        all: &[Received<Contribution>],
    ) -> Result<Result<Totals>> {
        if self.weights.count() == 0 {
            return Ok(Ok((self.weights, Vec::new())));
        }
        // An error is sent in the next round.
        let mut terms = self.terms(all);
        let (pieces, delay) = (self.pieces(), self.delay());
        let mut posted: VecDeque<_> = (1..delay).map(|round| self.post(exchanges, round, &terms)).collect();
        for round in 0..pieces + delay {
            let collected = match posted.pop_front_if(|_| round > 0).map(|next| exchanges.collect(next)).transpose() {
                Ok(collected) => collected,
                Err(error) => {
                    // All ranks have posted these.
                    posted.into_iter().for_each(|next| drop(exchanges.collect(next)));
                    return Err(error);
                }
            };
            let numbers = match &collected {
                Some(collected) => collected.iter().map(Received::numbers).collect(),
                None => all.iter().map(Received::numbers).collect(),
            };
            if let Ok(known) = &terms
                && let Err(error) = self.read(round, parts, known, numbers)
            {
                terms = Err(error);
            }
            if round < pieces {
                posted.push_back(self.post(exchanges, round + delay, &terms));
            }
        }
        Ok(terms.map(|_| {
            let totals = self.totals.iter().enumerate();
            let totals = totals.map(|(weight, node)| self.own[(*node)?][weight].take()).collect();
            (self.weights, totals)
        }))
    }

    fn post(&mut self, exchanges: &mut Exchanges<'_>, round: usize, terms: &Result<Vec<Term<'_>>>) -> Posted<()> {
        let mine = terms.as_ref().map(drop).map_err(Error::clone);
        exchanges.post(Round::Slices, mine, self.room(), |to, message| self.write(round, to, message))
    }

    /// The terms of the sum of each weight, from the contributions of all ranks. Chooses those that
    /// become the sums.
    fn terms<'a>(&mut self, all: &'a [Received<Contribution>]) -> Result<Vec<Term<'a>>> {
        let count = self.weights.count();
        let mut terms = Vec::new();
        for (from, received) in all.iter().enumerate() {
            for (own, (node, has_delta, ..)) in received.value.2.iter().enumerate() {
                if has_delta.len() != count || has_delta.iter().any(|&has| has > 1) {
                    return Err(Error::invalid(format!("the sums of rank {from} are not those of these weights")));
                }
                terms.push(Term { node: *node, has_delta, from, own: (from == self.rank).then_some(own) });
            }
        }
        let mut zeros = vec![None; count];
        self.totals = vec![None; count];
        for weight in 0..count {
            let own = self.own.iter().position(|deltas| deltas[weight].is_some());
            if own.is_none() && terms.iter().any(|term| term.has(weight)) {
                zeros[weight] = Some(self.weights.zeros(weight)?);
            }
            self.totals[weight] = own.or(zeros[weight].is_some().then_some(self.nodes));
        }
        self.own.push(zeros);
        Ok(terms)
    }

    /// Reads the numbers that all ranks have written in a round.
    fn read(&mut self, round: usize, parts: usize, terms: &[Term<'_>], numbers: Vec<&[u8]>) -> Result<()> {
        let mut numbers: Vec<Cursor<'_>> =
            numbers.into_iter().enumerate().map(|(from, bytes)| Cursor { bytes, from }).collect();
        if let Some(piece) = round.checked_sub(self.delay()) {
            for from in (0..self.size).filter(|&from| from != self.rank) {
                for (weight, range) in self.weights.within(self.piece(from, piece)) {
                    let Some(node) = self.totals[weight] else { continue };
                    let bytes = numbers[from].take(range.len() * self.weights.size(weight))?;
                    let total = self.own[node][weight].as_mut().expect("the delta of a total");
                    self.weights.row(weight, total, |mut row| row.part(range.clone()).read(bytes));
                }
            }
        }
        if round < self.pieces() {
            self.add(self.piece(self.rank, round), parts, terms, &mut numbers)?;
        }
        numbers.iter().try_for_each(Cursor::end)
    }

    /// Adds a piece along the tree.
    fn add(&mut self, piece: Range<usize>, parts: usize, terms: &[Term<'_>], numbers: &mut [Cursor<'_>]) -> Result<()> {
        let mut of_terms = Vec::with_capacity(terms.len());
        for term in terms {
            let weights = self.weights.within(piece.clone()).filter(|(weight, _)| term.has(*weight));
            let len = weights.map(|(weight, range)| range.len() * self.weights.size(weight)).sum();
            let bytes = if term.own.is_some() { &[] } else { numbers[term.from].take(len)? };
            of_terms.push(Cursor { bytes, from: term.from });
        }
        for (weight, range) in self.weights.within(piece) {
            let Some(total) = self.totals[weight] else { continue };
            let nodes = terms.iter().map(|term| (term.node, term.has(weight)));
            let (additions, Some(root)) = additions(parts, nodes)? else { continue };
            let mut own = vec![Vec::new(); self.own.len()];
            let len = range.len() * self.weights.size(weight);
            for (node, bytes) in own.iter_mut().enumerate().filter(|(node, _)| *node != total) {
                bytes.resize(len, 0);
                write(&self.weights, weight, range.clone(), &mut self.own[node], bytes);
            }
            let mut of_weight = Vec::with_capacity(terms.len());
            for (term, numbers) in terms.iter().zip(&mut of_terms).filter(|(term, _)| term.has(weight)) {
                of_weight.push(match term.own {
                    Some(node) if node == total => None,
                    Some(node) => Some(&own[node][..]),
                    None => Some(numbers.take(len)?),
                });
            }
            let total = self.own[total][weight].as_mut().expect("the delta of a total");
            self.weights.row(weight, total, |mut row| {
                row.part(range.clone()).set_sum(&of_weight, &additions, root);
            });
        }
        Ok(())
    }
}

/// The sum of a node, as a term.
struct Term<'a> {
    node: TreeNode,
    /// A byte for each weight, 1 or 0.
    has_delta: &'a [u8],
    from: usize,
    /// The number of the node among those of this rank.
    own: Option<usize>,
}

impl Term<'_> {
    fn has(&self, weight: usize) -> bool {
        self.has_delta[weight] == 1
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

/// Writes the numbers of a delta, if there is one. Returns how many bytes they have.
fn write(
    weights: &DenseWeights,
    weight: usize,
    range: Range<usize>,
    deltas: &mut [Option<Value>],
    to: &mut [u8],
) -> usize {
    let Some(delta) = &mut deltas[weight] else { return 0 };
    let len = range.len() * weights.size(weight);
    weights.row(weight, delta, |mut row| row.part(range.clone()).write(&mut to[..len]));
    len
}
