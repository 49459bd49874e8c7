//! Random numbers that are a function of the seed of the pass and of the position of the layer that
//! draws them.
//!
//! ```
//! use dl_core::{At, Deltas, Differentiable, Layer, Primitive, Result, Seed, Weight};
//!
//! /// Lets a number through with probability ½.
//! struct Toss;
//!
//! impl Primitive for Toss {
//!     type Operands = (Layer<f64>, Layer<Seed>);
//!     type Output = f64;
//!     fn name(&self) -> &'static str {
//!         "toss"
//!     }
//!     fn value(&self, (x, seed): (&f64, &Seed)) -> Result<f64> {
//!         Ok(if seed.get() % 2 == 0 { *x } else { 0.0 })
//!     }
//!     fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
//!         // the same seed in the same pass: the same toss
//!         (Some(Layer::apply(Toss, (at.delta.clone(), at.operands.1.clone()))), None)
//!     }
//! }
//!
//! let w = Weight::new(1.0_f64);
//! let tosses: Vec<Layer<f64>> = (0..100).map(|_| Layer::apply(Toss, (w.layer(), Seed::draw()))).collect();
//! let heads: Layer<f64> = tosses.into_iter().sum();
//! let first = heads.predict().seed(1).wait()?;
//! assert_eq!(heads.predict().seed(1).wait()?, first);
//! assert!((20.0..80.0).contains(&first));
//! assert!(heads.predict().wait().unwrap_err().to_string().contains(".seed("));
//! # Result::Ok(())
//! ```

use crate::error::{Error, Result};
use crate::graph::data::{Data, ShapeList};
use crate::graph::delta::Nothing;
use crate::graph::layer::Layer;
use crate::graph::node::NodeOp;
use dl_parallel::sync::thread_local;
use std::cell::Cell;

/// A random number for one layer of one pass, to seed a generator with.
///
/// A layer draws it with [`Seed::draw`]. Its value is a function of the seed of the pass
/// ([`Do::seed`](crate::Do::seed)) and of the position at which the layer was built: the body that
/// built it, and the number of layers with a position that were built there before. It does not
/// depend on the number of threads, and two layers have different values.
///
/// Layers outside of bodies should be built by one thread. Outside of bodies only the differences
/// of the positions within a pass count, so a graph that is rebuilt for each step draws the same
/// numbers again. A layer that is built once and used together with layers that are rebuilt for
/// each step has another difference in each step: rebuild it with them, or use
/// [`Trainer`](https://docs.rs/monadic-dl-train), which derives the positions from the step number.
///
/// ```
/// use dl_core::{Differentiable, Seed};
/// let seed: Seed = Seed::draw().predict().seed(7).wait()?;
/// assert_eq!(seed, Seed::draw().predict().seed(7).wait()?);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed(u64);

impl Seed {
    pub(crate) fn new(number: u64) -> Self {
        Seed(number)
    }

    /// A layer whose value is the seed of its position.
    ///
    /// ```
    /// use dl_core::{Differentiable, Seed};
    /// let (a, b) = (Seed::draw(), Seed::draw());
    /// assert_eq!(a.predict().seed(7).wait()?, a.predict().seed(7).wait()?);
    /// assert_ne!(a.predict().seed(7).wait()?, a.predict().seed(8).wait()?);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn draw() -> Layer<Seed> {
        Layer::from_op(NodeOp::Seed(Position::next()))
    }

    /// The number of positions that this thread has assigned.
    #[doc(hidden)]
    pub fn positions() -> u64 {
        NEXT.get().number
    }

    /// Runs `build` with positions that start at `number`, and restores the position of this thread
    /// afterwards.
    #[doc(hidden)]
    pub fn at_position<T>(number: u64, build: impl FnOnce() -> T) -> T {
        let _back = Back(Position { number, ..NEXT.get() }.enter());
        build()
    }

    /// Continues with positions that start at `number`, in the body that this thread is in.
    #[doc(hidden)]
    pub fn continue_at(number: u64) {
        Position { number, ..NEXT.get() }.enter();
    }

    /// Runs `build` with positions in the body with this number, and restores the position of this
    /// thread afterwards.
    pub(crate) fn in_body<T>(body: u64, build: impl FnOnce() -> T) -> T {
        let _back = Back(Position::in_body(body).enter());
        build()
    }

    /// The number.
    ///
    /// ```
    /// use dl_core::{Differentiable, Seed};
    /// assert_ne!(Seed::draw().predict().seed(1).wait()?.get(), Seed::draw().predict().seed(2).wait()?.get());
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn get(self) -> u64 {
        self.0
    }
}

/// Restores the position of this thread when it is dropped.
struct Back(Position);

impl Drop for Back {
    fn drop(&mut self) {
        self.0.enter();
    }
}

impl Data for Seed {
    // No gradient flows to a seed.
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }

    fn push_shape(&self, _: &mut ShapeList) -> bool {
        true
    }
}

/// What a call of a compiled function reads of its pass: the mode, and the seed at a position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ModeAndSeed {
    trains: bool,
    seed: Option<u64>,
    /// Relative to the first one of the pass.
    position: Position,
}

impl ModeAndSeed {
    pub(crate) fn new(trains: bool, seed: Option<u64>, position: Position) -> Self {
        ModeAndSeed { trains, seed, position }
    }

    pub(crate) fn trains(&self) -> bool {
        self.trains
    }

    /// The same for the position that is so many positions later.
    pub(crate) fn after(self, positions: u64) -> Self {
        ModeAndSeed { position: self.position.after(positions), ..self }
    }

    /// The seed at the position.
    ///
    /// # Errors
    /// If the pass has none.
    pub(crate) fn seed(&self) -> Result<Seed> {
        let why = "this pass has no seed to draw from: write `.seed(…)` after `train` or `predict`, another one for each step";
        self.seed.map(|seed| Seed::new(self.position.mix(seed))).ok_or_else(|| Error::invalid(why))
    }
}

impl Data for ModeAndSeed {
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }

    fn push_shape(&self, _: &mut ShapeList) -> bool {
        true
    }
}

/// The position at which a layer was built: the body, and the number within the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The run of the body, identified by a number that depends on its own position; 0 outside of
    /// bodies.
    body: u64,
    number: u64,
}

thread_local! {
    static NEXT: Cell<Position> = const { Cell::new(Position { body: 0, number: 0 }) };
}

impl Position {
    /// The position of a layer that is built now. Advances the position of this thread.
    pub(crate) fn next() -> Position {
        let position = NEXT.get();
        NEXT.set(Position { number: position.number.wrapping_add(1), ..position });
        position
    }

    /// The position that `next` would return.
    pub(crate) fn here() -> Position {
        NEXT.get()
    }

    /// The position that is so many positions later.
    pub(crate) fn after(self, positions: u64) -> Position {
        Position { number: self.number.wrapping_add(positions), ..self }
    }

    /// How many positions later than `other` it is. Only positions of one body can be compared.
    pub(crate) fn since(self, other: Position) -> Option<u64> {
        (self.body == other.body).then(|| self.number.wrapping_sub(other.number))
    }

    /// The position that `next` would return, if this thread is not in a body.
    #[inline]
    pub(crate) fn outside_now() -> Option<Position> {
        Some(NEXT.get()).filter(|position| position.is_outside())
    }

    /// The first position in the body with this number.
    pub(crate) fn in_body(number: u64) -> Position {
        Position { body: number.max(1), number: 0 }
    }

    /// Sets the position of this thread. Returns the previous one.
    pub(crate) fn enter(self) -> Position {
        NEXT.replace(self)
    }

    /// The number of the body.
    pub(crate) fn body(self) -> u64 {
        self.body
    }

    pub(crate) fn is_outside(self) -> bool {
        self.body == 0
    }

    /// The position relative to the first one of the pass. Outside of bodies only the difference
    /// matters.
    pub(crate) fn relative_to(self, origin: Option<Position>) -> Position {
        match origin {
            Some(origin) if self.is_outside() => Position { number: self.number.wrapping_sub(origin.number), ..self },
            _ => self,
        }
    }

    /// A hash of the position and a seed.
    pub(crate) fn mix(self, seed: u64) -> u64 {
        scramble(seed ^ scramble(self.body ^ scramble(self.number.wrapping_add(0x9E37_79B9_7F4A_7C15))))
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection in which every bit depends on
/// every other.
fn scramble(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
