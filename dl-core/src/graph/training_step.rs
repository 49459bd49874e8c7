//! Views of a training step for optimizers: the whole step, and the elements of one weight.

use crate::error::{Error, Result};
use crate::graph::chunk::Chunk;
use crate::graph::lazy_chunk::{LaterNumber, PlacedChunk};
use crate::graph::weight::WeightId;
use std::panic::Location;

/// The operation name in errors.
pub(crate) const STEP_OF_WEIGHT: &str = "training step of a weight";

/// A callback that receives each weight id with chunks of the weight.
#[doc(hidden)]
pub type ChunkVisitor<'a> = dyn FnMut(WeightId, PlacedChunk<'_>) -> Result<()> + 'a;

/// Passes the chunks of all weights to a visitor; if the flag is set, only those that are not on
/// the host.
pub(crate) type EachChunk<'a> = dyn Fn(bool, &mut ChunkVisitor<'_>) -> Result<()> + 'a;

/// A training step before any weight has changed, for
/// [`Optimizer::begin`](crate::Optimizer::begin).
///
/// ```
/// use dl_core::{Chunk, Differentiable, Memory, Optimizer, Result, Slot, Step, Weight};
/// use dl_optim::{Adam, Sgd};
///
/// /// Prints the index of the training step, and forwards to another optimizer.
/// struct Telling(Adam);
///
/// impl Optimizer for Telling {
///     fn memory(&self) -> Option<&Memory> {
///         self.0.memory()
///     }
///     fn slots(&self) -> &[Slot] {
///         self.0.slots()
///     }
///     fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
///         println!("{}", step.steps());
///         self.0.begin(step)
///     }
///     fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
///         self.0.step(chunk, steps)
///     }
/// }
/// # let w = Weight::new(1.0_f64);
/// # w.layer().backward().wait()?.step(&std::sync::Arc::new(Telling(Adam::new(0.1)))).wait()?;
/// # Result::Ok(())
/// ```
pub struct Step<'a> {
    steps: u64,
    chunks: &'a EachChunk<'a>,
}

impl<'a> Step<'a> {
    /// A training step of an optimizer that is contained in another one.
    #[doc(hidden)]
    pub fn new(steps: u64, chunks: &'a EachChunk<'a>) -> Self {
        Step { steps, chunks }
    }

    /// The number of training steps taken before with the memory of the optimizer.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Calls `visit` with the elements and the delta of each weight of the step, after the
    /// transformations around this optimizer. Weights come in the order of their creation. There
    /// are no slots, and the values are copies.
    ///
    /// ```
    /// use dl_core::{Chunk, Differentiable, Error, Optimizer, Result, Step, Weight};
    /// use dl_optim::Sgd;
    ///
    /// /// Takes no step with more than this many nonzero elements.
    /// #[derive(Clone)]
    /// struct AtMost(usize, Sgd);
    ///
    /// impl Optimizer for AtMost {
    ///     fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
    ///         let mut numbers = 0;
    ///         step.each_delta(&mut |_, chunk| {
    ///             if let Chunk::F64 { deltas, .. } = chunk {
    ///                 numbers += deltas.iter().filter(|&&d| d != 0.0).count();
    ///             }
    ///             Ok(())
    ///         })?;
    ///         if numbers > self.0 { Err(Error::invalid("too many numbers")) } else { self.1.begin(step) }
    ///     }
    ///     fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
    ///         self.1.step(chunk, steps)
    ///     }
    /// }
    ///
    /// let w = [1.0, 2.0].map(Weight::<f64>::new);
    /// assert!((&w[0] * &w[1]).train(&AtMost(1, Sgd::new(0.1))).wait().unwrap_err().is_invalid());
    /// (&w[0] * &w[1]).train(&AtMost(2, Sgd::new(0.1))).wait()?;
    /// # Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of `visit`, and of the transformations around this optimizer; a weight whose numbers
    /// lie on a device.
    pub fn each_delta(&self, visit: &mut dyn FnMut(WeightId, Chunk<'_>) -> Result<()>) -> Result<()> {
        self.each_chunk(false, &mut |weight, chunk| match chunk {
            PlacedChunk::Host(chunk) => visit(weight, chunk),
            PlacedChunk::Lazy(_) => Err(Error::invalid(
                "the optimizer reads the elements of this weight's delta, which lie on a device: \
                 `move_to_host` moves the weight",
            )),
        })
    }

    /// Calls `visit` with the Euclidean norm of the delta of each weight, after the transformations
    /// around this optimizer, in the order of [`each_delta`](Step::each_delta). The norms of all
    /// weights on a device are computed there, and the step waits for them once.
    ///
    /// ```
    /// use dl_core::{Chunk, Differentiable, Optimizer, Result, Step, Weight};
    /// use dl_optim::Sgd;
    ///
    /// /// A learning rate that depends on the largest norm.
    /// #[derive(Clone)]
    /// struct Cautious(f64);
    ///
    /// impl Optimizer for Cautious {
    ///     fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
    ///         let mut largest = 1.0_f64;
    ///         step.each_norm(&mut |_, norm| {
    ///             largest = largest.max(norm);
    ///             Ok(())
    ///         })?;
    ///         Ok(Some(Box::new(Sgd::new(self.0 / largest))))
    ///     }
    ///     fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
    ///         unreachable!("`begin` returns another optimizer")
    ///     }
    /// }
    ///
    /// let w = Weight::new(0.0_f64);
    /// (&w * 4.0).train(&Cautious(0.5)).wait()?;
    /// assert_eq!(w.value(), -0.5);
    /// # Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of `visit`, of the transformations around this optimizer, and of the devices.
    pub fn each_norm(&self, visit: &mut dyn FnMut(WeightId, f64) -> Result<()>) -> Result<()> {
        self.norms(false, visit)
    }

    /// The same for the weights that are not on the host.
    #[doc(hidden)]
    pub fn each_lazy_norm(&self, visit: &mut dyn FnMut(WeightId, f64) -> Result<()>) -> Result<()> {
        self.norms(true, visit)
    }

    #[doc(hidden)]
    pub fn each_chunk(&self, only_lazy: bool, visit: &mut ChunkVisitor<'_>) -> Result<()> {
        (self.chunks)(only_lazy, visit)
    }

    fn norms(&self, only_lazy: bool, visit: &mut dyn FnMut(WeightId, f64) -> Result<()>) -> Result<()> {
        enum Norm {
            Known(f64),
            Later(LaterNumber, &'static Location<'static>),
        }
        let mut norms = Vec::new();
        self.each_chunk(only_lazy, &mut |weight, chunk| {
            norms.push((
                weight,
                match chunk {
                    PlacedChunk::Host(chunk) => Norm::Known(chunk.norm()),
                    PlacedChunk::Lazy(chunk) => Norm::Later(chunk.delta.0.norm()?, chunk.place()),
                },
            ));
            Ok(())
        })?;
        norms.into_iter().try_for_each(|(weight, norm)| match norm {
            Norm::Known(norm) => visit(weight, norm),
            Norm::Later(norm, place) => {
                norm().and_then(|norm| visit(weight, norm)).map_err(|error| error.at(STEP_OF_WEIGHT, place))
            }
        })
    }
}
