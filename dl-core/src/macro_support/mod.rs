//! What `#[differentiable]` writes: the runtime half of the macro.
//!
//! Nobody calls this by hand, and none of it is stable; but the compiler prints these names when
//! something does not fit, so they say what they do.
//!
//! - `value`, `place`: `!x` by the type of `x` (`kind`); `join`: several at once;
//! - `operand`: an operand that is used again later;
//! - `keep_value`, `keep_reference`, `keep_lent`, `keep`, `lend`: the parameters of a body that
//!   runs anew in each pass (`kept`);
//! - `lazy`: such a body, as what its function returns; `attempt`: its `?`;
//! - `decide`, `part`: a body that makes a struct of layers, and each of them
//!   (`#[derive(Layers)]`);
//! - `Module`, `Visitor`: what `#[derive(Module)]` writes; `Variables`, `EachVariable`: what
//!   `#[derive(Variables)]` writes;
//! - `capture`: what a `direct!` block keeps of the variables around it (`captured`);
//! - `function`, `method`: a function that is being run (`inside`); `Branch`, `took`, `yes`, `no`:
//!   what decides in it;
//! - `not_in_a_closure` and its like: a `!` that extracts nothing, and says so (`not`);
//! - `ComparedWith`: what a comparison of layers says (`compared`).

mod branch;
mod captured;
mod compared;
mod extractable;
mod join;
mod kind;
mod lazy;
mod not_hints;
mod params;

pub use crate::api::layer::Layer;
pub use crate::api::variables::{EachVariable, Variables};
pub use crate::error::Error;
pub use crate::error::branch::Branch;
pub use crate::module::{Module, Visitor};
pub use branch::{Inside, function, method, no, took, yes};
pub use captured::{Capture, CaptureValue, capture};
pub use compared::{ComparedWith, NoValueYet};
pub use extractable::{Extractable, Literal, Member};
pub use join::{Join, JoinAll, Together, join};
pub use kind::{Bang, UsedAgain, operand, place, value};
pub use lazy::{Attempt, Decided, Lazy, attempt, decide, lazy, part};
pub use not_hints::{ExtractedInAClosure, ExtractedInANestedFunction, ExtractedInAPlainFunction};
pub use not_hints::{not_in_a_closure, not_in_a_nested_function, not_in_a_plain_function};
pub use params::{CanBeKept, CanBeLent, Given, Lent, keep, keep_lent, keep_reference, keep_value, lend};

use crate::api::differentiable::Differentiable;

/// A polymorphic parameter, as a layer.
#[track_caller]
pub fn layer<X: Differentiable + ?Sized>(x: &X) -> Layer<X::Data> {
    x.layer()
}
