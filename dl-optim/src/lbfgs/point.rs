//! A point of the search: the loss and its gradient, as one vector over all weights.

use dl_core::{Chunk, Data, Do, Error, Number, Optimizer, Result, SideEffects, Snapshot, Step};
use dl_core::{WeightId, in_numbers};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The evaluation of the loss and its gradient in a new pass.
pub(super) type Loss<A> = Do<(A, SideEffects)>;

/// The loss and its gradient at a point.
pub(super) struct Point {
    pub(super) value: f64,
    pub(super) gradient: Arc<[f64]>,
    /// The weights with a gradient, by id, and the places of their elements in the gradient.
    weights: Arc<Places>,
    /// The elements of the weights when the gradient was read. The point itself may be elsewhere.
    weights_then: Vec<f64>,
    /// The gradients as a step, which also knows the updates of buffers.
    effects: SideEffects,
}

type Places = [(WeightId, Range<usize>)];

impl Point {
    /// Evaluates the loss at the weights, or at those of a snapshot.
    pub(super) async fn evaluate<A: Number + Data>(loss: &Loss<A>, on: Option<&Snapshot>) -> Result<Self> {
        let (value, effects) = match on {
            Some(snapshot) => loss.clone().on(snapshot).await?,
            None => loss.run().await?,
        };
        let effects = effects.evaluate().await?;
        let Gradient { places, values, deltas } = Gradient::of(&effects).await?;
        Ok(Point {
            value: as_double(&value),
            gradient: deltas.into(),
            weights: places.into(),
            weights_then: values,
            effects,
        })
    }

    /// Evaluates the loss at this distance along a direction.
    pub(super) async fn along<A: Number + Data>(
        &self,
        loss: &Loss<A>,
        direction: &Arc<[f64]>,
        length: f64,
    ) -> Result<Self> {
        let snapshot = self.effects.preview(&self.steps(direction, length)).await?;
        let point = Point::evaluate(loss, Some(&snapshot)).await?;
        if self.weights != point.weights {
            let (before, now) = (self.gradient.len(), point.gradient.len());
            return Err(Error::invalid(format!(
                "L-BFGS needs a gradient of the same elements in each evaluation: of {before} before, of {now} now"
            )));
        }
        if self.weights_then != point.weights_then {
            return Err(Error::invalid(
                "another step has changed the weights, or the rows of a table with a gradient, during an iteration of L-BFGS",
            ));
        }
        Ok(point)
    }

    /// Moves the weights to this point, which is at this distance along a direction from them.
    pub(super) async fn commit(&self, direction: &Arc<[f64]>, length: f64) -> Result<Self> {
        self.effects.step(&self.steps(direction, length)).await?;
        let Point { value, gradient, weights, effects, .. } = self;
        let (gradient, weights, effects) = (gradient.clone(), weights.clone(), effects.clone());
        let weights_then = Gradient::of(&effects).await?.values;
        Ok(Point { value: *value, gradient, weights, weights_then, effects })
    }

    fn steps(&self, direction: &Arc<[f64]>, length: f64) -> Along {
        Along { weights: self.weights.clone(), direction: direction.clone(), length }
    }

    pub(super) fn is_finite(&self) -> bool {
        self.value.is_finite() && self.gradient.iter().all(|x| x.is_finite())
    }
}

/// The elements of the weights of a step, and of their deltas.
#[derive(Default)]
struct Gradient {
    places: Vec<(WeightId, Range<usize>)>,
    values: Vec<f64>,
    deltas: Vec<f64>,
}

impl Gradient {
    async fn of(effects: &SideEffects) -> Result<Self> {
        let reader = Reader::default();
        drop(effects.preview(&reader).await?);
        Ok(std::mem::take(&mut *reader.lock()))
    }
}

fn as_double<A: Number>(number: &A) -> f64 {
    number.to_f64().expect("a number")
}

/// Reads the gradient of a step, and changes nothing.
#[derive(Clone, Default)]
struct Reader(Arc<Mutex<Gradient>>);

impl Reader {
    fn lock(&self) -> std::sync::MutexGuard<'_, Gradient> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Optimizer for Reader {
    fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        let Gradient { places, values, deltas } = &mut *self.lock();
        step.each_delta(&mut |weight, chunk| {
            let start = deltas.len();
            in_numbers!(chunk, |now, gradient, _| {
                values.extend(now.iter().map(as_double));
                deltas.extend(gradient.iter().map(as_double));
            });
            match places.last_mut() {
                Some((last, place)) if *last == weight => place.end = deltas.len(),
                _ => places.push((weight, start..deltas.len())),
            }
            Ok(())
        })?;
        Ok(None)
    }

    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        Ok(())
    }
}

/// A step along a direction, whatever the gradient is.
#[derive(Clone)]
struct Along {
    weights: Arc<Places>,
    direction: Arc<[f64]>,
    length: f64,
}

impl Optimizer for Along {
    fn for_weight<'o>(&'o self, weight: WeightId) -> Option<Box<dyn Optimizer + 'o>> {
        let place = self.weights.binary_search_by_key(&weight, |(weight, _)| *weight).ok()?;
        let direction = &self.direction[self.weights[place].1.clone()];
        Some(Box::new(AlongWeight { direction, length: self.length, done: AtomicUsize::new(0) }))
    }

    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        unreachable!("the gradient has the weights of the point")
    }
}

/// The part for one weight, whose chunks come in the order in which they were read.
struct AlongWeight<'a> {
    direction: &'a [f64],
    length: f64,
    done: AtomicUsize,
}

impl Optimizer for AlongWeight<'_> {
    fn step(&self, chunk: Chunk<'_>, _: u64) -> Result<()> {
        fn add<A: Number>(values: &mut [A], direction: &[f64], length: f64) {
            for (value, x) in values.iter_mut().zip(direction) {
                *value = A::of(as_double(value) + length * x);
            }
        }

        in_numbers!(chunk, |values, _, _| {
            let start = self.done.fetch_add(values.len(), Ordering::Relaxed);
            add(values, &self.direction[start..], self.length);
        });
        Ok(())
    }
}
