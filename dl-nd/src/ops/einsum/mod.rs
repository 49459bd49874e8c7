//! Einstein summation.

mod labelled;
mod on_device;
mod plan;

use crate::device::{Device, View, common_place};
use crate::fusion::view_on;
use crate::ops::add_n::sum_present;
use crate::tensor::{Element, Nd, check_size};
use dl_core::{Along, At, BuiltIn, Differentiable, Layer, Primitive, Result};
use labelled::Labelled;
use ndarray::IxDyn;
use on_device::LabelledView;
use plan::{Plan, Spec};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

/// Einstein summation, as in NumPy and PyTorch: a sum of products over labelled axes.
/// `einsum("ij,jk->ik", [a, b])` is `yᵢₖ = Σⱼ aᵢⱼ·bⱼₖ`.
///
/// The specification labels each axis of each operand with a letter. Axes with the same letter
/// share one index; letters that the output does not contain are summed over.
///
/// | specification | result |
/// |---|---|
/// | `ij,jk->ik`, or just `ij,jk` | the matrix product |
/// | `bij,bjk->bik` | a batch of matrix products |
/// | `i,j->ij` | the outer product |
/// | `ij->ji` | the transpose |
/// | `ij->i` | the row sums |
/// | `ii->i`, `ii->` | the diagonal, the trace |
/// | `...ij,...jk->...ik` | matrix products over all leading axes, which broadcast |
///
/// Without `->`, the output has the letters that occur once, in alphabetical order.
///
/// `...` stands for any number of axes, including none. If the output omits it, these axes are
/// summed over. An axis of length 1 is repeated where another axis with the same letter is longer.
/// Spaces are ignored.
///
/// The operands are multiplied from left to right: `ij,jk,kl->il` computes the product of the first
/// two operands first.
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
/// The operands must have rank `IxDyn`, since they are elements of one list; `to_dyn` converts
/// them:
///
/// ```compile_fail,E0271
/// use dl_nd::{Nd, einsum};
/// let transposed = einsum("ij->ji", [Nd::from([[1.0_f32]])]);
/// ```
///
/// # Errors
/// When the specification is invalid, or does not match the number of operands or of their axes; a
/// shape error when a letter has two different lengths, neither of them 1.
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
    Layer::apply_built_in(Einsum { form, element: PhantomData }, operands)
}

#[derive(Clone)]
struct Einsum<A> {
    form: EinsumSource,
    element: PhantomData<A>,
}

#[derive(Clone)]
enum EinsumSource {
    /// From the caller. An error of the parser is reported when the layer is evaluated.
    Written(Result<Spec>),
    /// From a derivative rule.
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

/// The value for operands on a device, by the same steps.
fn value_on_device<A: Element>(device: &Arc<dyn Device>, operands: &[&Nd<A, IxDyn>], plan: &Plan) -> Result<View> {
    let view = |(operand, legs): (&&Nd<A, IxDyn>, &Vec<_>)| Ok(LabelledView::<A>::of(view_on(device, operand)?, legs));
    let mut factors = operands.iter().zip(&plan.operands).map(view);
    let first = factors.next().expect("at least one term, and an operand for each")?;
    let mut product = first.sum_out(plan.needed_after(1))?;
    for (number, factor) in factors.enumerate() {
        let needed = plan.needed_after(number + 2);
        let factor = factor?.sum_out(|label| needed(label) || product.has(label))?;
        product = product.contract(factor, needed, plan.output.last().copied().flatten())?;
    }
    product.into_output(plan)
}

impl<A: Element> Primitive for Einsum<A> {
    type Operands = Vec<Layer<Nd<A, IxDyn>>>;
    type Output = Nd<A, IxDyn>;

    fn name(&self) -> &'static str {
        "einsum"
    }

    fn value(&self, operands: Vec<&Nd<A, IxDyn>>) -> Result<Nd<A, IxDyn>> {
        let plan = self.plan(&operands)?;
        let shape: Vec<usize> = plan.output.iter().map(|leg| leg.map_or(1, |label| plan.lengths[&label])).collect();
        check_size::<A>(&shape)?;
        if let Some(device) = common_place(operands.iter().map(|x| (x.0.device(), x.len())).collect::<Vec<_>>())? {
            return value_on_device(device, &operands, &plan).map(Nd::from_view);
        }
        let mut factors = operands.iter().zip(&plan.operands).map(|(operand, legs)| Labelled::of(&operand.0, legs));
        let first = factors.next().expect("at least one term, and an operand for each");
        let mut product = first.sum_out(plan.needed_after(1));
        for (number, factor) in factors.enumerate() {
            let needed = plan.needed_after(number + 2);
            let factor = factor.sum_out(|label| needed(label) || product.has(label));
            product = product.contract(factor, needed, plan.output.last().copied().flatten())?;
        }
        Ok(Nd::from(product.into_output(&plan)))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Vec<Option<Layer<Nd<A, IxDyn>>>> {
        let plan = self.plan(&at.values).expect("the specification has been checked");
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
        let plan = self.plan(&along.values).expect("the specification has been checked");
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

impl<A: Element> BuiltIn for Einsum<A> {}
