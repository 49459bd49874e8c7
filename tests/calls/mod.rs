//! Where a layer was written: the chain of annotated functions, in errors and in what a pass tells;
//! and which way a body goes on.

mod branches;
mod chains;
mod errors;
mod support;
