//! The settings of a pass, for all that it evaluates: whether it trains, a seed, a snapshot, a
//! recorder.

use crate::error::{Error, Result};
use crate::exec::snapshot::Snapshot;
use crate::graph::seed::Position;
use crate::record::Recorder;
use dl_math::simd::refused_instructions;

/// Whether a pass trains or evaluates: what [`Mode::current`] tells to layers that behave
/// differently in training, dropout and batch normalisation for instance.
///
/// `train` and `forward` train, `predict` evaluates; [`Do::mode`](crate::Do::mode) overrides that.
///
/// ```
/// use dl_core::{Do, Mode};
/// let mode = Do::from_fn(|| async { Ok(Mode::current()) });
/// assert_eq!(mode.clone().mode(Mode::Train).wait()?, Some(Mode::Train));
/// assert_eq!(mode.mode(Mode::Evaluate).wait()?, Some(Mode::Evaluate));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The pass trains.
    Train,
    /// The pass evaluates.
    Evaluate,
}

impl Mode {
    /// The mode of the pass that the calling code runs in: the body of a dynamic layer, or the
    /// kernel of an operation. Outside any pass there is none.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer, Mode};
    /// let training = Layer::dynamic(|| async {
    ///     Ok(Layer::constant(if Mode::current() == Some(Mode::Train) { 1.0 } else { 0.0 }))
    /// });
    /// assert_eq!(training.predict().wait()?, 0.0);
    /// assert_eq!(training.predict().mode(Mode::Train).wait()?, 1.0);
    /// assert_eq!(Mode::current(), None);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn current() -> Option<Mode> {
        crate::exec::mode()
    }
}

/// The settings of a run. Unset ones are inherited from the parent pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) mode: Option<Mode>,
    pub(crate) seed: Option<u64>,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) recorder: Option<Recorder>,
    /// The position at which the computation was made: the origin of positions outside of bodies,
    /// if its first layer has none.
    pub(crate) made_at: Option<Position>,
    /// Whether it is begun inside a training step.
    pub(crate) in_step: bool,
}

impl Settings {
    /// The settings of a computation that is made here.
    pub(crate) fn made_here() -> Settings {
        Settings { made_at: Position::outside_now(), ..Settings::default() }
    }

    pub(super) fn or(mut self, around: &Settings) -> Settings {
        self.mode = self.mode.or(around.mode);
        self.seed = self.seed.or(around.seed);
        self.snapshot = self.snapshot.or_else(|| around.snapshot.clone());
        self.recorder = self.recorder.or_else(|| around.recorder.clone());
        self.in_step |= around.in_step;
        self
    }
}

/// Checks that the instruction set which the environment names can be used. Each run does it first,
/// because no place before it can return an error.
#[inline(always)]
pub(crate) fn check_instructions() -> Result<()> {
    match refused_instructions() {
        None => Ok(()),
        Some(why) => refuse_instructions(why),
    }
}

#[cold]
fn refuse_instructions(why: &str) -> Result<()> {
    Err(Error::invalid(why))
}
