//! A mixture of experts: a gate selects the experts of each sample.
//!
//! Shazeer et al., *Outrageously large neural networks*, 2017; Fedus, Zoph and Shazeer, *Switch
//! transformers*, 2021.

mod route;

use crate::block::Block;
use crate::linear::Linear;
use dl_core::{Binary, Error, Layer, Pointwise, Result};
use dl_macros::{Layers, Module, differentiable};
use dl_nd::ndarray::{Ix1, Ix2, IxDyn};
use dl_nd::{Element, INFER, MatMul, Nd, NdExpression, NdLayer, Rank, ops::*};
use rand::Rng;
use route::Routes;

/// For each sample, the sum of the outputs of the `k` experts with the highest gate values,
/// weighted by these values: `[…, in] → […, out]`. A sample is a vector along the last axis: of
/// `[batch, length, width]`, each token of each sequence is one, as in the feed-forward network of
/// a [`DecoderBlock`](crate::DecoderBlock::with_mlp).
///
/// An expert evaluates the samples routed to it, and no others, as one batch. An expert that no
/// sample selects is neither built nor evaluated and receives no gradient. Among equal gate values
/// the lower index wins. Experts have unlimited capacity: no sample is dropped.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_optim::Sgd;
/// use dl_nd::{Nd, init, ops::*};
/// use dl_nn::{Linear, MixtureOfExperts};
/// let mut rng = init::rng(1);
/// let experts = (0..4).map(|_| Linear::new(3, 2, &mut rng)).collect::<dl_core::Result<Vec<_>>>()?;
/// let net: MixtureOfExperts<Linear> = MixtureOfExperts::new(experts, 3, 2, &mut rng)?;
///
/// let x = Nd::from([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]);
/// let mixed = net.mix(&x);
/// let loss = mixed.output.cross_entropy([0, 1]) + 0.01 * &mixed.balance;
/// loss.train(&Sgd::new(0.1)).wait()?;
/// let shares = mixed.shares.predict().wait()?; // of the four experts
/// assert_eq!(shares.view().sum(), 1.0);
/// # dl_core::Result::Ok(())
/// ```
///
/// # Output weights
///
/// The weights of the selected experts are their softmax gate values. If `renormalized`, they are
/// divided by their sum. [`new`](MixtureOfExperts::new) renormalizes for `k > 1` only: for `k = 1`
/// the renormalized weight is always 1 and the gate would receive no gradient, so the softmax value
/// is used, as in a switch transformer.
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct MixtureOfExperts<M, A: Element = f32> {
    /// The gate, `[…, in] → […, experts]`.
    pub gate: Linear<A>,
    /// The experts, each `[n, in] → [n, out]`.
    pub experts: Vec<M>,
    /// The number of experts selected for each sample, `1 ≤ k ≤ experts`.
    pub k: usize,
    /// Whether the weights of the selected experts are divided by their sum.
    pub renormalized: bool,
}

/// The outputs of a [`MixtureOfExperts`] for one batch. All fields share one evaluation within a
/// pass.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, init};
/// use dl_nn::{Linear, Mixture, MixtureOfExperts};
/// let mut rng = init::rng(1);
/// let experts = vec![Linear::new(3, 2, &mut rng)?, Linear::new(3, 2, &mut rng)?];
/// let net = MixtureOfExperts::new(experts, 3, 1, &mut rng)?;
/// let Mixture { output, balance, shares } = net.mix(&Nd::from([[1.0, 0.0, 0.0]]));
/// assert_eq!(output.predict().wait()?.shape(), [1, 2]);
/// assert!(balance.predict().wait()? > 0.0 && shares.predict().wait()?.len() == 2);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Layers)]
#[layers(crate = dl_core)]
pub struct Mixture<A: Element = f32, D: Rank = Ix2> {
    /// The weighted sum of the expert outputs, `[…, out]`.
    pub output: NdLayer<D, A>,
    /// The load-balancing loss `N · Σᵢ fᵢ · Pᵢ` of N experts (Fedus et al., 2021, equation 4),
    /// where `fᵢ` is the fraction of the selections that fall on expert i and `Pᵢ` the mean of its
    /// softmax gate value. It is 1 for a uniform distribution and at most N. Gradients flow through
    /// `Pᵢ` only. It is usually added to the loss with a factor of 0.01.
    pub balance: Layer<A>,
    /// The fraction of the selections that fall on each expert, `fᵢ`: `[experts]`. The sum is 1.
    pub shares: NdLayer<Ix1, A>,
}

impl<M, A: Element> MixtureOfExperts<M, A> {
    /// A mixture of these experts with a gate for `inputs` inputs, which is initialised like any
    /// [`Linear`]. Each sample selects `k` experts.
    ///
    /// # Errors
    /// If `inputs` is 0 or `k` is not between 1 and the number of experts.
    #[track_caller]
    pub fn new(experts: Vec<M>, inputs: usize, k: usize, rng: &mut impl Rng) -> Result<Self> {
        check_k(experts.len(), k)?;
        let gate = Linear::new(inputs, experts.len(), rng)?;
        Ok(MixtureOfExperts { gate, experts, k, renormalized: k > 1 })
    }
}

fn check_k(experts: usize, k: usize) -> Result<()> {
    if (1..=experts).contains(&k) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "MixtureOfExperts: k is {k} with {experts} experts; it must be between 1 and the number of experts"
    )))
}

impl<M: Block<Ix2, A> + Clone + 'static, A: Element> MixtureOfExperts<M, A> {
    /// `[…, in] → […, out]`.
    ///
    /// # Errors
    /// Those of [`mix`](MixtureOfExperts::mix).
    #[track_caller]
    pub fn of<D: MatMul<Ix2, Product = D>>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        self.mix(x).output
    }

    /// The output for samples `[…, in]`, the load-balancing loss, and the shares of the experts.
    ///
    /// # Errors
    /// If there are no samples, if the number of gate outputs is not the number of experts, if a
    /// gate value is NaN, and the errors of the experts.
    #[track_caller]
    pub fn mix<D: MatMul<Ix2, Product = D>>(&self, x: impl NdExpression<D, A>) -> Mixture<A, D> {
        mixture(&x.into_layer(), self)
    }
}

#[differentiable(lazy, crate = dl_core)]
fn mixture<M, A, D>(x: &NdLayer<D, A>, net: &MixtureOfExperts<M, A>) -> Mixture<A, D>
where
    M: Block<Ix2, A> + Clone + 'static,
    A: Element,
    D: MatMul<Ix2, Product = D>,
{
    check_k(net.experts.len(), net.k)?;
    let gates = net.gate.of(x).softmax(-1);
    let values = !gates;
    let routes = Routes::of(&values, net.experts.len(), net.k)?;
    let (x, gates) = (x.reshape([routes.batch, INFER]), gates.reshape([routes.batch, INFER]));

    let chosen = gates.gather(1, Nd::from_vec([routes.batch, net.k], routes.chosen.clone())?);
    let weights = if net.renormalized { Nd::binary(Binary::Div, &chosen, &chosen.sum_keepdim(1)) } else { chosen };
    let weights = weights.flatten();
    let mut outputs = Vec::new();
    for (expert, choices) in net.experts.iter().zip(&routes.by_expert) {
        if choices.is_empty() {
            continue; // no sample selected it
        }
        let samples: Vec<usize> = choices.iter().map(|choice| choice / net.k).collect();
        let output = expert.of(&x.index_select(0, samples));
        let weight = weights.index_select(0, choices).unsqueeze(-1);
        outputs.push(Nd::binary(Binary::Mul, &output, &weight));
    }
    // Rows are ordered by expert; reorder them by sample, once for each rank.
    let outputs = concat(0, outputs);
    let by_rank = (0..net.k).map(|rank| outputs.index_select(0, routes.rows(rank)));
    let output: NdLayer<Ix2, A> = by_rank.sum();
    let mut shape = values.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = INFER;
    }
    let shares: Nd<A, Ix1> = routes.shares().map(A::of).collect();
    let per_expert: Nd<A, Ix1> = routes.shares().map(|share| A::of(share * net.experts.len() as f64)).collect();
    Mixture {
        output: output.reshape(IxDyn(&shape)).to_rank(),
        balance: gates.mean_axis(0).dot(per_expert),
        shares: Layer::constant(shares),
    }
}

impl<M: Block<Ix2, A> + Clone + 'static, A: Element, D: MatMul<Ix2, Product = D>> Block<D, A>
    for MixtureOfExperts<M, A>
{
    #[track_caller]
    fn of(&self, x: &NdLayer<D, A>) -> NdLayer<D, A> {
        self.of(x)
    }
}
