//! Calls between ranks on a small pool, in a process of its own.

mod recursion;
mod support;
