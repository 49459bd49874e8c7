//! Data with a count of its copies: none may be left at the end.

use crate::api::primitive::{At, Primitive};
use crate::error::Result;
use crate::graph::chunk::Chunk;
use crate::graph::data::{Data, Trainable};
use crate::graph::delta::Delta;
use crate::graph::layer::Layer;
use dl_parallel::fork_join::for_each_mut;
use std::sync::Arc;

/// A number that is stored as other data are, behind a pointer.
pub(super) struct Tracked {
    number: [f64; 1],
    /// A count of the copies.
    copies: Arc<()>,
}

impl Tracked {
    pub(super) fn new(number: f64) -> Self {
        Tracked { number: [number], copies: Arc::default() }
    }

    pub(super) fn number(&self) -> f64 {
        self.number[0]
    }

    pub(super) fn times(&self, factor: f64) -> Self {
        Tracked { number: [factor * self.number()], ..self.clone() }
    }

    /// The number of copies that are alive.
    pub(super) fn count(&self) -> Copies {
        Copies(self.copies.clone())
    }
}

pub(super) struct Copies(Arc<()>);

impl Copies {
    pub(super) fn left(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

impl Clone for Tracked {
    fn clone(&self) -> Self {
        Tracked { number: self.number, copies: self.copies.clone() }
    }
}

impl Data for Tracked {
    type Delta = Self;

    fn one(&self) -> Self {
        Tracked { number: [1.0], ..self.clone() }
    }
}

impl Delta for Tracked {
    fn sum(mut terms: Vec<Layer<Self>>) -> Layer<Self> {
        let first = terms.remove(0);
        terms.into_iter().fold(first, |sum, term| Layer::apply(Plus, (sum, term)))
    }

    fn scale(layer: &Layer<Self>, factor: f64) -> Layer<Self> {
        Layer::apply(Times(factor), (layer.clone(),))
    }

    fn squared_norm(&self) -> f64 {
        self.number() * self.number()
    }
}

impl Trainable for Tracked {
    fn zeros_like(&self) -> Self {
        Tracked { number: [0.0], ..self.clone() }
    }

    fn update(&mut self, delta: &Self, _: &mut [Self], rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>) -> Result<()> {
        rule(Chunk::F64 { values: &mut self.number, deltas: &delta.number, slots: &mut [] })
    }
}

/// Expensive enough to be offered to the pool.
const DEAR_NANOSECONDS: f64 = 1e6;

pub(super) struct Plus;

impl Primitive for Plus {
    type Operands = (Layer<Tracked>, Layer<Tracked>);
    type Output = Tracked;

    fn name(&self) -> &'static str {
        "plus"
    }

    fn value(&self, (a, b): (&Tracked, &Tracked)) -> Result<Tracked> {
        Ok(Tracked { number: [a.number() + b.number()], ..a.clone() })
    }

    fn cost(&self, _: (&Tracked, &Tracked)) -> f64 {
        DEAR_NANOSECONDS
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Tracked>>, Option<Layer<Tracked>>) {
        (Some(at.delta.clone()), Some(at.delta.clone()))
    }
}

pub(super) struct Times(pub(super) f64);

/// `factor` times a layer, by an expensive kernel.
pub(super) fn times(factor: f64, layer: Layer<Tracked>) -> Layer<Tracked> {
    Layer::apply(Times(factor), (layer,))
}

/// The sum of two layers, by an expensive kernel.
pub(super) fn plus(a: Layer<Tracked>, b: Layer<Tracked>) -> Layer<Tracked> {
    Layer::apply(Plus, (a, b))
}

/// The sum of two layers, by an expensive kernel that is divided into two parts.
pub(super) struct Halves;

impl Primitive for Halves {
    type Operands = (Layer<Tracked>, Layer<Tracked>);
    type Output = Tracked;

    fn name(&self) -> &'static str {
        "halves"
    }

    fn value(&self, (a, b): (&Tracked, &Tracked)) -> Result<Tracked> {
        let mut parts = [(a, 0.0), (b, 0.0)];
        for_each_mut(&mut parts, DEAR_NANOSECONDS, |_, (number, part)| *part = number.number());
        Ok(Tracked { number: [parts[0].1 + parts[1].1], ..a.clone() })
    }

    fn cost(&self, _: (&Tracked, &Tracked)) -> f64 {
        DEAR_NANOSECONDS
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Tracked>>, Option<Layer<Tracked>>) {
        (Some(at.delta.clone()), Some(at.delta.clone()))
    }
}

impl Primitive for Times {
    type Operands = (Layer<Tracked>,);
    type Output = Tracked;

    fn name(&self) -> &'static str {
        "times"
    }

    fn value(&self, (x,): (&Tracked,)) -> Result<Tracked> {
        Ok(x.times(self.0))
    }

    fn cost(&self, _: (&Tracked,)) -> f64 {
        DEAR_NANOSECONDS
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Tracked>>,) {
        (Some(Layer::apply(Times(self.0), (at.delta.clone(),))),)
    }
}
