//! The listings of *Monadic Deep Learning* in `dl`, under their labels in the paper.

mod diamond;
mod dual_number;
mod first_steps;
mod gated_net;
mod iq_robot;
mod parallel_by_default;
mod polymorphic;
mod side_effects;
mod training_iteration;
mod type_safe_transform;
