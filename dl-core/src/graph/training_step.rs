//! Views of a training step for optimizers: the whole step, and the elements of one weight.

use crate::error::Result;
use crate::graph::chunk::Chunk;
use crate::graph::weight::WeightId;

/// A callback that receives each weight id with chunks of the weight.
#[doc(hidden)]
pub type ChunkVisitor<'a> = dyn FnMut(WeightId, Chunk<'_>) -> Result<()> + 'a;

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
    deltas: &'a dyn Fn(&mut ChunkVisitor<'_>) -> Result<()>,
}

impl<'a> Step<'a> {
    /// A training step of an optimizer that is contained in another one.
    #[doc(hidden)]
    pub fn new(steps: u64, deltas: &'a dyn Fn(&mut ChunkVisitor<'_>) -> Result<()>) -> Self {
        Step { steps, deltas }
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
    /// Those of `visit`, and of the transformations around this optimizer.
    pub fn each_delta(&self, visit: &mut dyn FnMut(WeightId, Chunk<'_>) -> Result<()>) -> Result<()> {
        (self.deltas)(visit)
    }
}
