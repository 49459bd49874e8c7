//! The deltas of the weights of a module as one row of numbers, for sums that are cut into slices.

use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::part_sum::PartSum;
use crate::error::{Error, Result};
use crate::graph::node_ref::NodeRef;
use crate::graph::value::Value;
use crate::module::{Entry, Module};
use crate::storage::numbers::{DType, DeltaNumbers, Numbers};
use crate::storage::row::Row;
use std::collections::HashMap;
use std::ops::Range;

/// The weights of a module with deltas that are added number by number. The numbers of all of them
/// are one row, in the order of the paths.
#[doc(hidden)]
#[derive(Default)]
pub struct DenseWeights {
    /// Each with the range of its numbers in the row.
    weights: Vec<(Entry, Range<usize>)>,
}

impl DenseWeights {
    /// The selected ones among the weights of a module.
    pub fn of<M: Module + ?Sized>(module: &M, selected: impl Fn(&Entry) -> bool) -> Self {
        let mut end = 0;
        let ranged = |entry: Entry| {
            let start = end;
            end += entry.len();
            (entry, start..end)
        };
        let is_dense = |entry: &Entry| entry.has_delta_row() && selected(entry);
        DenseWeights { weights: module.weights().into_iter().filter(is_dense).map(ranged).collect() }
    }

    /// How many weights there are.
    pub fn count(&self) -> usize {
        self.weights.len()
    }

    /// The length of the row.
    pub fn numbers(&self) -> usize {
        self.weights.last().map_or(0, |(_, range)| range.end)
    }

    /// The bytes of the row.
    pub fn bytes(&self) -> usize {
        self.weights.iter().map(|(entry, range)| range.len() * entry.dtype().size()).sum()
    }

    /// The bytes of a number of a weight.
    pub fn size(&self, weight: usize) -> usize {
        self.weights[weight].0.dtype().size()
    }

    /// The weights with numbers in this range of the row, and the range within each.
    pub fn within(&self, row: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        let first = self.weights.partition_point(|(_, range)| range.end <= row.start);
        let all = self.weights[first..].iter().take_while(move |(_, range)| range.start < row.end);
        let within = move |(number, (_, range)): (usize, &(Entry, Range<usize>))| {
            let part = range.start.max(row.start)..range.end.min(row.end);
            (first + number, part.start - range.start..part.end - range.start)
        };
        all.enumerate().map(within).filter(|(_, part)| !part.is_empty())
    }

    /// A delta of zeros.
    pub fn zeros(&self, weight: usize) -> Result<Value> {
        let (entry, range) = &self.weights[weight];
        let numbers = match entry.dtype() {
            DType::F64 => Numbers::F64(vec![0.0; range.len()]),
            _ => Numbers::F32(vec![0.0; range.len()]),
        };
        entry.delta(DeltaNumbers { shape: entry.shape(), rows: None, numbers })
    }

    /// Calls a function with the numbers of a delta.
    pub fn row(&self, weight: usize, delta: &mut Value, mut then: impl FnMut(Row<'_>)) {
        self.weights[weight].0.delta_row(delta, &mut then);
    }
}

#[doc(hidden)]
impl PartSum {
    /// Takes out the deltas of these weights, `None` for those without one.
    ///
    /// # Errors
    /// If a delta has another number of numbers than its weight.
    pub fn take_dense(&mut self, weights: &DenseWeights) -> Result<Vec<Option<Value>>> {
        let mut deltas: Vec<Option<_>> = std::mem::take(&mut self.deltas).into_iter().map(Some).collect();
        let id = |weight: &NodeRef| weight.variable().map(|variable| variable.id());
        let ids = deltas.iter().enumerate().filter_map(|(at, delta)| Some((id(&delta.as_ref()?.0)?, at)));
        let by_id: HashMap<u64, usize> = ids.collect();
        let mut all = Vec::with_capacity(weights.count());
        for (entry, range) in &weights.weights {
            let found = by_id.get(&entry.id()).and_then(|&at| deltas[at].take());
            let mut delta = found.map(|(_, delta)| delta.expect_ready().clone());
            let mut len = range.len();
            delta.iter_mut().for_each(|delta| entry.delta_row(delta, &mut |row| len = row.len()));
            if len != range.len() {
                let text = format!("a delta of {len} numbers for `{}`, which has {}", entry.path(), range.len());
                return Err(Error::shape(text));
            }
            all.push(delta);
        }
        self.deltas = deltas.into_iter().flatten().collect();
        Ok(all)
    }

    /// Adds the deltas of these weights, which must have none yet.
    pub fn push_dense(&mut self, weights: &DenseWeights, deltas: Vec<Option<Value>>) {
        let deltas = weights.weights.iter().zip(deltas);
        let ready = |((entry, _), delta): (&(Entry, Range<usize>), Option<Value>)| {
            Some((entry.node().clone(), AnyDelta::Ready(delta?)))
        };
        self.deltas.extend(deltas.filter_map(ready));
    }
}
