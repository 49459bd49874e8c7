//! The scalar mathematics of `dl`: the values and the derivatives of pointwise operations.
//!
//! Users add the `monadic-dl` package (`use dl::prelude::*`), which re-exports all of this.
//!
//! - [`Unary`], [`Binary`]: the table of pointwise operations;
//! - [`Algebra`], [`Term`]: the notation of rules, which are evaluated in numbers, dual numbers and
//!   layers;
//! - [`Dual`]: dual numbers;
//! - [`Number`], [`Elementary`]: `f32` and `f64`, and their elementary functions;
//! - [`instructions`]: the selected instruction set.
//!
//! ```
//! use dl_math::{Algebra, Dual, Term};
//!
//! fn f<A: Algebra>(x: &Term<A>) -> Term<A> {
//!     x * x + 3.0 * x.exp()
//! }
//!
//! assert_eq!(f(&Term(0.0_f64)).0, 3.0);
//! assert_eq!(f(&Term(Dual::variable(0.0_f64))).0.tangent(), 3.0);
//! ```

#![forbid(unsafe_code)]

mod algebra;
mod constant_operand;
mod cotangent;
mod dual;
mod elementary;
mod number;
mod pointwise;
mod power;
#[doc(hidden)]
pub mod simd;

pub use algebra::{Algebra, Term};
#[doc(hidden)]
pub use constant_operand::{Side, one_side};
pub use dual::Dual;
pub use elementary::arithmetic::{Elementary, Fused, Native, Unfused};
pub use number::Number;
pub use pointwise::{Binary, BinaryLoop, Unary, UnaryLoop};
pub use simd::instructions;
