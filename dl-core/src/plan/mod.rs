//! Plans: functions without decisions as one operation.
//!
//! A [`Function`] is the graph of a compiled function with placeholders for its operands. A call of
//! it is one node (`call.rs`): its kernel runs a [`Program`](program::Program), the operations of
//! the function in order, without a node, a slot or a queue for each of them. The backward of a
//! call is a program, too. It is built by the ordinary rules, which emit layers (`backward.rs`),
//! once for each shape of the operands.
//!
//! # Invariants
//!
//! - The value of a call, and each delta that it hands to an operand, must equal those of the
//!   ordinary graph bit for bit. An operand that is used several times receives a delta for each
//!   use, in the order of an ordinary walk over this function, so that sums have the same order.
//! - A function must keep no node of a caller alive: its nodes have placeholders as operands.
//! - A derivative that may be differentiated again is built from ordinary nodes, bound to the
//!   operands of the call.

mod backward;
pub(crate) mod call;
mod call_delta;
mod drawn;
pub(crate) mod failed;
pub(crate) mod function;
mod group;
mod group_back;
pub(crate) mod grouping;
pub(crate) mod key;
mod lowering;
mod program;
mod schedule;
mod updates;
mod uses;
