//! Optimizers, gradient transformations, parameter groups, learning rate schedules.

pub(crate) mod adadelta;
pub(crate) mod adagrad;
pub(crate) mod adam;
pub(crate) mod ema;
pub(crate) mod groups;
pub(crate) mod groups_by_path;
pub(crate) mod lion;
pub(crate) mod nadam;
pub(crate) mod radam;
pub(crate) mod rms_prop;
pub(crate) mod rule;
pub mod schedule;
pub(crate) mod sgd;
pub mod transform;
pub(crate) mod validate;
