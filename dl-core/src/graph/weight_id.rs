//! The ids of weights.

/// The id of a weight, unique within the process: see [`Weight::id`](crate::Weight::id).
///
/// ```
/// use dl_core::{Weight, WeightId};
/// use std::collections::HashMap;
/// let (a, b) = (Weight::new(1.0_f64), Weight::new(2.0_f64));
/// let names: HashMap<WeightId, &str> = [(a.id(), "a"), (b.id(), "b")].into();
/// assert_eq!(names[&a.clone().id()], "a");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WeightId(pub(crate) u64);
