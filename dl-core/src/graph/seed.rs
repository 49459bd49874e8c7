//! Random numbers that depend on the seed of the pass and on the place of the layer that draws
//! them, and on nothing else.
//!
//! ```
//! use dl_core::{At, Deltas, Differentiable, Layer, Primitive, Result, Seed, Weight};
//!
//! /// Lets a number through, or not, by the toss of a coin.
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

use crate::graph::data::Data;
use crate::graph::delta::Nothing;
use crate::graph::layer::Layer;
use crate::graph::node::Expression;
use crate::parallel::sync::thread_local;
use std::cell::Cell;

/// A random number for one layer of one pass, to seed a generator with.
///
/// A layer draws it with [`Seed::draw`]. Its value is a function of the seed of the pass
/// ([`Do::seed`](crate::Do::seed)) and of the position at which the layer was built: the body that
/// built it, and how many were built there before. So it is the same for any number of threads, and
/// two layers have different ones.
///
/// What is built outside of bodies should be built by one thread. There, only the order counts, and
/// how many layers that draw are built between those of one pass: so a graph that is built anew
/// draws the same numbers again. A layer that is built once and used beside layers that are built
/// for each step gets further from them with every step: build it with them, or let
/// [`Trainer`](https://docs.rs/monadic-dl-train) count, which gives every step positions by its
/// number.
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
        Layer::from_expression(Expression::Seed(Position::next()))
    }

    /// How many positions this thread has given out.
    #[doc(hidden)]
    pub fn positions() -> u64 {
        NEXT.get().number
    }

    /// What is built by `build` has the positions from this one on; what is built after it, those
    /// that it would have had without.
    #[doc(hidden)]
    pub fn at_position<T>(number: u64, build: impl FnOnce() -> T) -> T {
        struct Back(Position);

        impl Drop for Back {
            fn drop(&mut self) {
                self.0.enter();
            }
        }

        let _back = Back(Position { number, ..NEXT.get() }.enter());
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

impl Data for Seed {
    // No delta ever gets here: nobody trains a seed.
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }
}

/// Where a layer was built: in which body, and as which of those that have a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The run of the body, by a number that depends on its own position; 0 outside of bodies.
    body: u64,
    number: u64,
}

thread_local! {
    static NEXT: Cell<Position> = const { Cell::new(Position { body: 0, number: 0 }) };
}

impl Position {
    /// The position of a layer that is built here and now.
    pub(crate) fn next() -> Position {
        let position = NEXT.get();
        NEXT.set(Position { number: position.number.wrapping_add(1), ..position });
        position
    }

    /// Where the next such layer will be.
    #[cfg(test)]
    pub(crate) fn here() -> Position {
        NEXT.get()
    }

    /// The same, if that is outside of bodies.
    #[inline]
    pub(crate) fn outside_now() -> Option<Position> {
        Some(NEXT.get()).filter(|position| position.is_outside())
    }

    /// The first position in the body of this number.
    pub(crate) fn in_body(number: u64) -> Position {
        Position { body: number.max(1), number: 0 }
    }

    /// From now on this thread builds there. What comes back is where it has built before.
    pub(crate) fn enter(self) -> Position {
        NEXT.replace(self)
    }

    pub(crate) fn is_outside(self) -> bool {
        self.body == 0
    }

    /// Outside of bodies only the distance to a layer of the same pass means anything.
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
