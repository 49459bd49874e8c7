//! Derivatives as values: what they are taken with respect to, of what order, and by whose rule.

mod gradients;
mod hvp;
mod in_parts;
mod newton;
mod orders;
mod rules;
