//! The run-time half of `#[differentiable]`: the items that its expansion uses.
//!
//! Programs must not use these items directly: they are not stable. The compiler prints their names
//! in type errors, so the names are descriptive.
//!
//! - `value`, `place`: `!x`, dispatched by the type of `x` (`kind`); `join`: several extractions at
//!   once;
//! - `operand`: an operand that is used again later;
//! - `keep_value`, `keep_reference`, `keep_lent`, `keep`, `lend`: the parameters of a body that
//!   runs once per pass (`params`);
//! - `lazy`: such a body as the return value of its function; `returned`: a result of it that may be
//!   a value by mistake; `attempt`: the `?` operator in it;
//! - `decide`, `part`: a body that returns a struct of layers, and each of these layers
//!   (`#[derive(Layers)]`);
//! - `Module`, `Visitor`, `Torch`: for `#[derive(Module)]`; `Variables`, `EachVariable`: for
//!   `#[derive(Variables)]`;
//! - `capture`: the variables that a `direct!` block captures (`captured`);
//! - `function`, `method`: the call frame of a running function; `Branch`, `took`, `yes`, `no`: its
//!   recorded branches (`branch`);
//! - `CompiledFunction`, `Arguments`, `argument`: a function with the option `compiled`, and its
//!   arguments (`compiled`);
//! - `not_in_a_closure` and similar: a `!` in a place without extraction (`not_hints`);
//! - `ComparedWith`, `IndexedBy`, `Displayed`: the compile errors for `x > y`, `x[i]` and `{}` with
//!   layers (`compared`, `indexed`, `displayed`);
//! - `ThisFunction`: the compile error for `!x` in a function without the attribute (`attribute`).

mod attribute;
mod branch;
mod captured;
mod compared;
mod compiled;
mod displayed;
mod indexed;
mod kind;
mod lazy;
mod not_hints;
mod params;

pub use crate::api::compiled::{CompiledArgument, CompiledFunction, CompiledResult, ResultLayers};
pub use crate::api::extractable::{Extractable, Literal, Member};
pub use crate::api::join::{Join, JoinAll, Together, join};
pub use crate::api::variables::{EachVariable, Variables};
pub use crate::error::Error;
pub use crate::error::branch::Branch;
pub use crate::graph::layer::Layer;
pub use crate::module::{Module, Torch, Visitor};
pub use crate::plan::key::Arguments;
pub use attribute::{AttributeDifferentiable, ThisFunction};
pub use branch::{CallFrame, function, method, no, took, yes};
pub use captured::{Capture, CaptureValue, capture};
pub use compared::{ComparedWith, NoValueYet};
pub use compiled::{ArgumentOfCompiled, argument, result_of};
pub use displayed::Displayed;
pub use indexed::IndexedBy;
pub use kind::{Bang, UsedAgain, operand, place, value};
pub use lazy::{Attempt, Decided, Lazy, ReturnedAs, attempt, decide, lazy, part, returned};
pub use not_hints::{ExtractedInAClosure, ExtractedInANestedFunction, ExtractedInAPlainFunction};
pub use not_hints::{not_in_a_closure, not_in_a_nested_function, not_in_a_plain_function};
pub use params::{BorrowedParam, CanBeKept, CanBeLent, ClonedParam, keep, keep_lent, keep_reference, keep_value, lend};

use crate::api::differentiable::Differentiable;

/// A generic parameter as a layer.
#[track_caller]
pub fn layer<X: Differentiable + ?Sized>(x: &X) -> Layer<X::Data> {
    x.layer()
}
