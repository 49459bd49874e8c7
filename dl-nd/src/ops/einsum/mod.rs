//! Sums of products over named axes.

mod labelled;
mod plan;

use crate::ops::add_n::sum_present;
use crate::tensor::{Element, Nd, check_size};
use dl_core::{Along, At, Differentiable, Layer, Primitive, Result};
use labelled::Labelled;
use ndarray::IxDyn;
use plan::{Plan, Spec};
use std::borrow::Cow;
use std::marker::PhantomData;

/// A sum of products over named axes, by Einstein's convention, as in NumPy and PyTorch:
/// `einsum("ij,jk->ik", [a, b])` is `yᵢₖ = Σⱼ aᵢⱼ·bⱼₖ`.
///
/// The specification gives each axis of each operand a letter. Axes with the same letter run
/// together; those that the output does not name are summed over.
///
/// | written | means |
/// |---|---|
/// | `ij,jk->ik`, or just `ij,jk` | the product of matrices; without `->`, the output has the letters that come once, in alphabetical order |
/// | `bij,bjk->bik` | for each `b` |
/// | `i,j->ij` | the outer product |
/// | `ij->ji` | transposed |
/// | `ij->i` | sums of the rows |
/// | `ii->i`, `ii->` | the diagonal, and its sum |
/// | `...ij,...jk->...ik` | the same for all axes in front, which broadcast |
///
/// `...` stands for any number of axes, also none; in an output that leaves it out they are summed
/// over. An axis of length 1 is repeated where another axis of that letter is longer. Spaces mean
/// nothing.
///
/// Several operands are multiplied from left to right, so of `ij,jk,kl->il` the product of the
/// first two comes first.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, ndarray::Ix1, ops::*};
/// let a = Nd::from([[1.0, 2.0], [3.0, 4.0]]).to_dyn();
/// let x = Nd::from([1.0, 10.0]).to_dyn();
/// assert_eq!(einsum("ij,j->i", [&a, &x]).to_rank::<Ix1>().predict().wait()?, Nd::from([21.0, 43.0]));
/// assert_eq!(einsum("ii->i", [&a]).to_rank::<Ix1>().predict().wait()?, Nd::from([1.0, 4.0]));
/// assert_eq!(einsum("ii->", [&a]).sum().predict().wait()?, 5.0);
/// # dl_core::Result::Ok(())
/// ```
///
/// The operands have rank `IxDyn`, as a list has one type; `to_dyn` makes it so:
///
/// ```compile_fail,E0271
/// use dl_nd::{Nd, einsum};
/// let transposed = einsum("ij->ji", [Nd::from([[1.0_f32]])]);
/// ```
///
/// # Errors
/// When the specification cannot be read, or does not fit the number of operands or of their axes,
/// and a shape error when a letter has two lengths, neither of them 1.
#[track_caller]
pub fn einsum<A: Element, X: Differentiable<Data = Nd<A, IxDyn>>>(
    specification: &str,
    operands: impl IntoIterator<Item = X>,
) -> Layer<Nd<A, IxDyn>> {
    let mut layers = Vec::new();
    for operand in operands {
        layers.push(operand.into_layer());
    }
    apply(EinsumSource::Written(Spec::parse(specification)), layers)
}

#[track_caller]
fn apply<A: Element>(form: EinsumSource, operands: Vec<Layer<Nd<A, IxDyn>>>) -> Layer<Nd<A, IxDyn>> {
    Layer::apply(Einsum { form, element: PhantomData }, operands)
}

struct Einsum<A> {
    form: EinsumSource,
    element: PhantomData<A>,
}

enum EinsumSource {
    /// By the user; what was wrong with it is told when it is evaluated.
    Written(Result<Spec>),
    /// By a derivative.
    Planned(Plan),
}

impl<A: Element> Einsum<A> {
    fn plan(&self, operands: &[&Nd<A, IxDyn>]) -> Result<Cow<'_, Plan>> {
        match &self.form {
            EinsumSource::Written(Ok(spec)) => {
                let shapes: Vec<&[usize]> = operands.iter().map(|operand| operand.shape()).collect();
                spec.plan(&shapes).map(Cow::Owned)
            }
            EinsumSource::Written(Err(error)) => Err(error.clone()),
            EinsumSource::Planned(plan) => Ok(Cow::Borrowed(plan)),
        }
    }
}

impl<A: Element> Primitive for Einsum<A> {
    type Operands = Vec<Layer<Nd<A, IxDyn>>>;
    type Output = Nd<A, IxDyn>;
    const IS_BUILT_IN: bool = true;

    fn name(&self) -> &'static str {
        "einsum"
    }

    fn value(&self, operands: Vec<&Nd<A, IxDyn>>) -> Result<Nd<A, IxDyn>> {
        let plan = self.plan(&operands)?;
        let shape: Vec<usize> = plan.output.iter().map(|leg| leg.map_or(1, |label| plan.lengths[&label])).collect();
        check_size::<A>(&shape)?;
        let mut factors = operands.iter().zip(&plan.operands).map(|(operand, legs)| Labelled::of(&operand.0, legs));
        let first = factors.next().expect("an operand for each term, of which there is one");
        let mut product = first.summed(plan.needed_after(1));
        for (number, factor) in factors.enumerate() {
            let needed = plan.needed_after(number + 2);
            let factor = factor.summed(|label| needed(label) || product.has(label));
            product = product.times(factor, needed, plan.output.last().copied().flatten())?;
        }
        Ok(Nd::from(product.spread(&plan)))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Vec<Option<Layer<Nd<A, IxDyn>>>> {
        let plan = self.plan(&at.values).expect("the specification was looked at");
        let delta = |operand: usize| {
            let (before, after) = (&at.operands[..operand], &at.operands[operand + 1..]);
            apply(
                EinsumSource::Planned(plan.of_delta(operand)),
                [after, std::slice::from_ref(at.delta), before].concat(),
            )
        };
        (0..at.operands.len()).map(|operand| Some(delta(operand))).collect()
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, IxDyn>>> {
        let plan = self.plan(&along.values).expect("the specification was looked at");
        sum_present(along.tangents.iter().enumerate().map(|(which, tangent)| {
            let mut operands = along.operands.clone();
            operands[which] = tangent.clone()?;
            Some(apply(EinsumSource::Planned(plan.clone().into_owned()), operands))
        }))
    }

    fn cost(&self, operands: Vec<&Nd<A, IxDyn>>) -> f64 {
        let elements: usize = operands.iter().map(|operand| operand.len()).sum();
        let mut cost = 1_000.0 + elements as f64;
        let Ok(plan) = self.plan(&operands) else { return cost };
        let mut labels = Vec::new();
        for (number, legs) in plan.operands.iter().enumerate() {
            labels.extend(legs.iter().copied().flatten());
            labels.sort_unstable();
            labels.dedup();
            if number > 0 {
                cost += 0.1 * labels.iter().map(|label| plan.lengths[label] as f64).product::<f64>();
            }
            let needed = plan.needed_after(number + 1);
            labels.retain(|&label| needed(label));
        }
        cost
    }
}
