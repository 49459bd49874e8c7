//! Derivatives as layers: variables, orders, and user-defined rules.

mod gradients;
mod hvp;
mod in_parts;
mod newton;
mod orders;
mod rules;
