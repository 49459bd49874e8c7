//! What `#[differentiable]` writes: the runtime half of the macro.
//!
//! Nobody calls this by hand, and none of it is stable; but the compiler prints these names when something does not fit, so
//! they say what they do.
//!
//! - `value`, `place`: `!x` by the type of `x` (`kind`); `join`: several at once;
//! - `operand`: an operand that is used again later;
//! - `keep_value`, `keep_reference`, `keep`, `lend`: the parameters of a body that runs anew in each pass (`kept`);
//! - `lazy`: such a body, as what its function returns; `attempt`: its `?`.

mod extractable;
mod join;
mod kept;
mod kind;
mod lazy;

pub use crate::error::Error;
pub use crate::layer::Layer;
pub use extractable::{Extractable, Literal, Member};
pub use join::{Join, JoinAll, Together, join};
pub use kept::{CanBeKept, CanBeLent, keep, keep_reference, keep_value, lend};
pub use kind::{Bang, UsedAgain, operand, place, value};
pub use lazy::{Attempt, Lazy, attempt, lazy};

use crate::differentiable::Differentiable;

/// A polymorphic parameter, as a layer.
#[track_caller]
pub fn layer<X: Differentiable + ?Sized>(x: &X) -> Layer<X::Data> {
    x.layer()
}
