//! Parameter groups by the paths of weights in a module.

use crate::groups::Groups;
use dl_core::module::Module;
use dl_core::{Error, Optimizer, Result, WeightHandle, WeightId, module};
use std::collections::HashSet;
use std::sync::Arc;

impl Groups {
    /// Groups by patterns of paths: those of [`freeze_matching`](Module::freeze_matching).
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::{Adam, Groups, Sgd};
    /// let net = [[1.0, 1.0].map(Weight::<f64>::new), [1.0, 1.0].map(Weight::new)];
    /// let groups = Groups::of(&net).path("0", Sgd::new(0.1)).path("*.1", Sgd::new(0.0)).rest(Sgd::new(0.5))?;
    /// net.iter().flatten().map(|w| w.layer()).sum::<dl_core::Layer<f64>>().train(&groups).wait()?;
    /// assert_eq!(net.map(|row| row.map(|w| w.value())), [[0.9, 0.9], [0.5, 1.0]]);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn of(module: &dyn Module) -> ByPath<'_> {
        ByPath { module, groups: Vec::new(), taken: HashSet::new(), failed: None }
    }
}

/// Builder of groups by path: see [`Groups::of`].
///
/// ```
/// use dl_core::Weight;
/// use dl_optim::{ByPath, Groups, Sgd};
/// let net = [Weight::new(1.0_f64), Weight::new(2.0)];
/// let groups: ByPath<'_> = Groups::of(&net).path("0", Sgd::new(0.1));
/// assert!(groups.path("7", Sgd::new(0.1)).rest(Sgd::new(0.5)).is_err()); // no weight has this path
/// ```
#[must_use = "`rest` sets the optimizer of all other weights, and builds the groups"]
pub struct ByPath<'a> {
    module: &'a dyn Module,
    groups: Vec<(Vec<WeightHandle>, Arc<dyn Optimizer>)>,
    taken: HashSet<WeightId>,
    /// The first error.
    failed: Option<Error>,
}

impl ByPath<'_> {
    /// This optimizer for the weights that match the pattern and no earlier one. A tied weight
    /// matches by any of its paths.
    ///
    /// ```
    /// use dl_core::Weight;
    /// use dl_optim::{Groups, Sgd};
    /// let net = [[1.0, 1.0].map(Weight::<f64>::new), [1.0, 1.0].map(Weight::new)];
    /// Groups::of(&net).path("0.1", Sgd::new(0.0)).path("0", Sgd::new(0.1)).rest(Sgd::new(0.5))?;
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn path(mut self, pattern: &str, optimizer: impl Optimizer + 'static) -> Self {
        if self.failed.is_some() {
            return self;
        }
        match module::matching(self.module.entries(), pattern) {
            Ok(found) => {
                let weights: Vec<WeightHandle> = found.iter().filter_map(|entry| entry.weight()).collect();
                let weights: Vec<WeightHandle> =
                    weights.into_iter().filter(|weight| self.taken.insert(weight.id())).collect();
                if weights.is_empty() {
                    let why =
                        format!("all weights that match `{pattern}` are in earlier groups: this group would be empty");
                    self.failed = Some(Error::invalid(why));
                }
                self.groups.push((weights, Arc::new(optimizer)));
            }
            Err(error) => self.failed = Some(error),
        }
        self
    }

    /// Builds the groups, with this optimizer for all other weights.
    ///
    /// # Errors
    /// When a pattern matches no weight, or only weights that are in earlier groups.
    ///
    /// ```
    /// use dl_core::Weight;
    /// use dl_optim::{Groups, Sgd};
    /// let net = [Weight::new(1.0_f64)];
    /// let error = Groups::of(&net).path("encoder.*", Sgd::new(0.1)).rest(Sgd::new(0.5)).unwrap_err();
    /// assert!(error.to_string().contains("no weight matches `encoder.*`"));
    /// assert!(Groups::of(&net).path("0", Sgd::new(0.1)).path("*", Sgd::new(0.2)).rest(Sgd::new(0.5)).is_err());
    /// ```
    pub fn rest(self, optimizer: impl Optimizer + 'static) -> Result<Groups> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let with = |groups: Groups, (weights, optimizer)| groups.with(weights, optimizer);
        Ok(self.groups.into_iter().fold(Groups::new(optimizer), with))
    }
}
