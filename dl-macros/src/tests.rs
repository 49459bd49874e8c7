//! Tests of whole expansions.

mod incomplete_input;
mod snapshots;
