//! What a backward pass would do to the weights: the paper's `UpdateWeights`.

use crate::commit::commit;
use crate::deferred::{Belongs, Do};
use crate::error::{Error, Result};
use crate::extract::ExtractAll;
use crate::node::AnyLayer;
use crate::optimizer::Optimizer;
use crate::pass::{Pass, Purpose, Settings};
use crate::reverse::Delta;
use crate::value::Value;
use std::collections::HashMap;
use std::ops::{Add, Mul};
use std::sync::Arc;

/// Lazy deltas of weights: what a training step will do, before it is done.
///
/// They form a vector space: `f + g` does to the weights what `f` and `g` do together, `2.0 * f` does twice as much. Nothing is
/// computed and nothing changes before [`step`](SideEffects::step) is awaited; then all weights change at once, or none.
///
/// ```
/// use dl_core::{Differentiable, Do, Sgd, Weight};
/// let w = Weight::new(1.0_f64);
/// let f = (&w * 2.0).forward().wait()?.backward(Do::now(1.0));
/// let g = (&w * 3.0).forward().wait()?.backward(Do::now(1.0));
/// (f + 10.0 * g).step(&Sgd::new(1.0)).wait()?;
/// assert_eq!(w.value(), 1.0 - 32.0);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone)]
#[must_use = "lazy deltas do nothing until `.step(&optimizer)` is awaited"]
pub struct SideEffects {
    terms: Vec<Term>,
    fault: Option<Error>,
}

#[derive(Clone)]
struct Term {
    weight: AnyLayer,
    delta: Delta,
    /// The pass that holds the forward values which the delta mentions.
    pass: Arc<Pass>,
}

impl SideEffects {
    /// The deltas that nobody asked anything of.
    ///
    /// ```
    /// let nothing = dl_core::SideEffects::none();
    /// assert!(nothing.is_none());
    /// ```
    pub fn none() -> Self {
        SideEffects { terms: Vec::new(), fault: None }
    }

    /// Whether no weight is touched.
    pub fn is_none(&self) -> bool {
        self.terms.is_empty() && self.fault.is_none()
    }

    pub(crate) fn failed(error: Error) -> Self {
        SideEffects { terms: Vec::new(), fault: Some(error) }
    }

    pub(crate) fn push(&mut self, weight: AnyLayer, delta: Delta, pass: Arc<Pass>) {
        self.terms.push(Term { weight, delta, pass });
    }

    /// The delta of one weight, as a layer; nothing when it is not touched.
    pub(crate) fn delta_of(self, weight: &AnyLayer) -> Result<Option<AnyLayer>> {
        if let Some(error) = self.fault {
            return Err(error);
        }
        let delta = self.by_weight().into_iter().find(|(other, _)| other.identity() == weight.identity());
        Ok(delta.map(|(weight, delta)| delta.into_layer(&weight)))
    }

    /// Computes all deltas and lets the optimizer step the weights, all or none.
    ///
    /// # Errors
    /// Those of the deltas and of the optimizer.
    pub fn step<O: Optimizer + Clone + 'static>(&self, optimizer: &O) -> Do<()> {
        let (this, optimizer) = (self.clone(), optimizer.clone());
        Do::from_fn(move || {
            let (this, optimizer) = (this.clone(), optimizer.clone());
            async move {
                let values = this.values_by_pass().await?;
                commit(&optimizer, values)
            }
        })
    }

    /// The same, inside the pass that all terms belong to.
    pub(crate) async fn evaluate(self, pass: &Arc<Pass>, optimizer: &(dyn Optimizer + 'static)) -> Result<()> {
        if self.fault.is_none() && self.terms.iter().all(|term| Arc::ptr_eq(&term.pass, pass)) {
            return commit(optimizer, values(self.by_weight()).await?);
        }
        commit(optimizer, self.values_by_pass().await?)
    }

    /// Evaluates every delta in the pass that it belongs to, and adds up those of the same weight.
    async fn values_by_pass(self) -> Result<Vec<(AnyLayer, Value)>> {
        if let Some(error) = self.fault {
            return Err(error);
        }
        let mut passes: Vec<(Arc<Pass>, SideEffects)> = Vec::new();
        for term in self.terms {
            match passes.iter_mut().find(|(pass, _)| Arc::ptr_eq(pass, &term.pass)) {
                Some((_, effects)) => effects.terms.push(term),
                None => passes.push((term.pass.clone(), SideEffects { terms: vec![term], fault: None })),
            }
        }
        if let [(pass, effects)] = &passes[..] {
            return run_on(pass, effects.clone().by_weight()).await;
        }
        let mut all = SideEffects::none();
        for (pass, effects) in passes {
            for (weight, value) in run_on(&pass, effects.by_weight()).await? {
                all.push(weight, Delta::Ready(value), pass.clone());
            }
        }
        let fresh = Pass::new(Purpose::Predict, Settings::default());
        run_on(&fresh, all.by_weight()).await
    }

    /// One delta for each weight, in the order of first mention: the sum of its terms, in their order.
    fn by_weight(self) -> Vec<(AnyLayer, Delta)> {
        let mut place: HashMap<usize, usize> = HashMap::with_capacity(self.terms.len());
        let mut groups: Vec<(AnyLayer, Vec<Delta>)> = Vec::with_capacity(self.terms.len());
        for Term { weight, delta, .. } in self.terms {
            let group = *place.entry(weight.identity()).or_insert_with(|| {
                groups.push((weight, Vec::new()));
                groups.len() - 1
            });
            groups[group].1.push(delta);
        }
        groups.into_iter().map(|(weight, deltas)| (weight.clone(), Delta::sum(&weight, deltas))).collect()
    }
}

async fn run_on(pass: &Arc<Pass>, deltas: Vec<(AnyLayer, Delta)>) -> Result<Vec<(AnyLayer, Value)>> {
    Do::starting(Belongs::To(pass.clone()), {
        let deltas = Arc::new(deltas);
        move || {
            let deltas = deltas.clone();
            async move { values(deltas.to_vec()).await }
        }
    })
    .await
}

async fn values(deltas: Vec<(AnyLayer, Delta)>) -> Result<Vec<(AnyLayer, Value)>> {
    let lazy = deltas
        .iter()
        .filter_map(|(_, delta)| match delta {
            Delta::Lazy(layer) => Some(layer.clone()),
            Delta::Ready(_) => None,
        })
        .collect::<Vec<_>>();
    let mut computed = if lazy.is_empty() { Vec::new() } else { ExtractAll::new(lazy).await? }.into_iter();
    Ok(deltas
        .into_iter()
        .map(|(weight, delta)| match delta {
            Delta::Ready(value) => (weight, value),
            Delta::Lazy(_) => (weight, computed.next().expect("one value for each lazy delta")),
        })
        .collect())
}

impl Add for SideEffects {
    type Output = SideEffects;

    /// (f₀ + f₁)(x) = f₀(x) + f₁(x)
    fn add(mut self, other: SideEffects) -> SideEffects {
        self.terms.extend(other.terms);
        SideEffects { terms: self.terms, fault: self.fault.or(other.fault) }
    }
}

impl Mul<SideEffects> for f64 {
    type Output = SideEffects;

    /// (x₀f)(x₁) = f(x₀x₁)
    fn mul(self, mut effects: SideEffects) -> SideEffects {
        for term in &mut effects.terms {
            let delta = term.delta.clone().into_layer(&term.weight);
            term.delta = Delta::Lazy((term.weight.kind_of_data.scale_delta)(&delta, self));
        }
        effects
    }
}

impl std::iter::Sum for SideEffects {
    fn sum<I: Iterator<Item = SideEffects>>(all: I) -> SideEffects {
        all.fold(SideEffects::none(), Add::add)
    }
}

impl std::fmt::Debug for SideEffects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SideEffects").field("terms", &self.terms.len()).field("fault", &self.fault).finish()
    }
}
