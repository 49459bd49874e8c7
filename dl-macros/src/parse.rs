//! Reads the annotated item: its options, signature, macros and attributes.
//!
//! After this step the body of a function is an ordinary `syn` tree: arguments of macros of the
//! standard library are expressions (`std_macros`), and attributes of expressions are attributes of
//! blocks (`attributes`). This module uses no other module of the crate but `diagnostics`.

pub(crate) mod attributes;
pub(crate) mod crate_path;
pub(crate) mod direct_block;
pub(crate) mod format_strings;
pub(crate) mod function;
pub(crate) mod item_block;
pub(crate) mod node;
pub(crate) mod options;
pub(crate) mod plain_types;
pub(crate) mod std_macros;
