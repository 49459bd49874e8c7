//! The settings of a pass, to go on with in a pass of another process.

use crate::api::deferred::Do;
use crate::error::Result;
use crate::exec::{self, Keep, Mode};
use crate::graph::seed::{Position, Seed};
use crate::storage::wire::Wire;

/// The settings of a pass as the body of a dynamic layer sees them. A function that is evaluated
/// elsewhere with them is in the same mode, and draws the same random numbers, as in this body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct PassContext {
    trains: bool,
    keeps_values: bool,
    seed: Option<u64>,
    body: u64,
}

impl PassContext {
    /// The settings of the pass that the calling code runs in, if there is one.
    pub fn current() -> Option<PassContext> {
        exec::with_current(|pass| {
            pass.map(|pass| PassContext {
                trains: pass.mode() == Mode::Train,
                keeps_values: pass.state().keep() == Keep::Values,
                seed: pass.seed(),
                body: Position::here().body(),
            })
        })
    }

    /// Whether the pass keeps values for a backward.
    pub fn keeps_values(&self) -> bool {
        self.keeps_values
    }

    /// Builds layers as in the body.
    pub fn build<T>(&self, build: impl FnOnce() -> T) -> T {
        Seed::in_body(self.body, build)
    }

    /// The computation with these settings.
    pub fn applied<T: Send + 'static>(&self, computation: Do<T>) -> Do<T> {
        let computation = computation.mode(if self.trains { Mode::Train } else { Mode::Evaluate });
        self.seed.map_or(computation.clone(), |seed| computation.seed(seed))
    }
}

impl Wire for PassContext {
    fn write(&self, to: &mut Vec<u8>) {
        (u8::from(self.trains), u8::from(self.keeps_values), self.seed, self.body).write(to);
    }

    fn read(from: &mut &[u8]) -> Result<Self> {
        let (trains, keeps_values, seed, body) = <(u8, u8, Option<u64>, u64)>::read(from)?;
        Ok(PassContext { trains: trains != 0, keeps_values: keeps_values != 0, seed, body })
    }
}
