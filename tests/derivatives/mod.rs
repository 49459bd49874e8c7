//! Derivatives as layers: variables, orders, and user-defined rules.

mod gradients;
mod hvp;
mod newton;
mod orders;
mod rules;
mod step_in_parts;
