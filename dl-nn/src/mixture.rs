//! A mixture of experts: a gate chooses, for each sample, which experts it goes through.
//!
//! Shazeer et al., *Outrageously large neural networks*, 2017; Fedus, Zoph and Shazeer, *Switch
//! transformers*, 2021.

mod route;

use crate::block::Block;
use crate::linear::Linear;
use dl_core::{Binary, Error, Layer, Pointwise, Result};
use dl_macros::{Layers, Module, differentiable};
use dl_nd::ndarray::{Ix1, Ix2};
use dl_nd::{Element, Nd, NdExpression, NdLayer, ops::*};
use rand::Rng;
use route::Routes;

/// For each sample, the outputs of the `k` experts with the highest gate, weighted by it:
/// `[batch, in] → [batch, out]`.
///
/// A sample goes through its own experts only, and an expert that no sample of a batch chose is
/// neither built nor evaluated; no gradient flows to it. Of equal gates the first ones are chosen.
/// There is no limit of samples for an expert: none is dropped.
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
/// # The weights of the outputs
///
/// They are the softmax of the gate, for the chosen experts; `renormalized`, these are divided by
/// their sum. That is what [`new`](MixtureOfExperts::new) sets for more than one expert for a
/// sample. For a single one the renormalised weight would be 1, whatever the gate says, and the
/// gate would learn nothing: there the weight is the softmax, as in a switch transformer.
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct MixtureOfExperts<M, A: Element = f32> {
    /// `[in] → [experts]`
    pub gate: Linear<A>,
    /// The experts.
    pub experts: Vec<M>,
    /// How many of them a sample goes through.
    pub k: usize,
    /// Whether the weights of the chosen ones are divided by their sum.
    pub renormalized: bool,
}

/// What a [`MixtureOfExperts`] makes of a batch.
///
/// All of it comes from one evaluation, whichever parts are asked for.
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
pub struct Mixture<A: Element = f32> {
    /// `[batch, out]`
    pub output: NdLayer<Ix2, A>,
    /// The load-balancing loss `N · Σᵢ fᵢ · Pᵢ` (Fedus et al., 2021, formula 4) of N experts, where
    /// `fᵢ` is the share of expert i and `Pᵢ` the mean of its gate. It is 1 when all are used
    /// alike, and up to N; its gradient flows through the gates only. A hundredth of it is usually
    /// added to the loss.
    pub balance: Layer<A>,
    /// `[experts]`: the share of each expert in all choices, `fᵢ`. Their sum is 1.
    pub shares: NdLayer<Ix1, A>,
}

impl<M, A: Element> MixtureOfExperts<M, A> {
    /// These experts behind a gate for so many inputs, `k` of them for each sample. The gate begins
    /// as any [`Linear`] does.
    ///
    /// # Errors
    /// When there are no inputs or no experts, or `k` is not between 1 and their number.
    #[track_caller]
    pub fn new(experts: Vec<M>, inputs: usize, k: usize, rng: &mut impl Rng) -> Result<Self> {
        check(experts.len(), k)?;
        let gate = Linear::new(inputs, experts.len(), rng)?;
        Ok(MixtureOfExperts { gate, experts, k, renormalized: k > 1 })
    }
}

fn check(experts: usize, k: usize) -> Result<()> {
    if (1..=experts).contains(&k) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "MixtureOfExperts: a sample cannot go through {k} of {experts} experts: at least 1, and at most all"
    )))
}

impl<M: Block<Ix2, A> + Clone + 'static, A: Element> MixtureOfExperts<M, A> {
    /// `[batch, in] → [batch, out]`.
    ///
    /// # Errors
    /// As [`mix`](MixtureOfExperts::mix).
    #[track_caller]
    pub fn of(&self, x: impl NdExpression<Ix2, A>) -> NdLayer<Ix2, A> {
        self.mix(x).output
    }

    /// The output for a batch, the load-balancing loss, and the shares of the experts.
    ///
    /// # Errors
    /// When the batch is empty, the gate does not have an output for each expert, or one that is
    /// NaN; and the errors of the experts.
    #[track_caller]
    pub fn mix(&self, x: impl NdExpression<Ix2, A>) -> Mixture<A> {
        mixture(&x.into_layer(), self)
    }
}

#[differentiable(lazy, crate = dl_core)]
fn mixture<M, A>(x: &NdLayer<Ix2, A>, net: &MixtureOfExperts<M, A>) -> Mixture<A>
where
    M: Block<Ix2, A> + Clone + 'static,
    A: Element,
{
    check(net.experts.len(), net.k)?;
    let gates = net.gate.of(x).softmax(1);
    let routes = Routes::of(&!gates, net.experts.len(), net.k)?;

    let chosen = gates.gather(1, Nd::from_vec([routes.batch, net.k], routes.chosen.clone())?);
    let weights = if net.renormalized { Nd::binary(Binary::Div, &chosen, &chosen.sum_keepdim(1)) } else { chosen };
    let weights = weights.flatten();
    let mut outputs = Vec::new();
    for (expert, choices) in net.experts.iter().zip(&routes.by_expert) {
        if choices.is_empty() {
            continue; // nobody chose it: it is not built
        }
        let samples: Vec<usize> = choices.iter().map(|choice| choice / net.k).collect();
        let output = expert.of(&x.index_select(0, samples));
        let weight = weights.index_select(0, choices).unsqueeze(-1);
        outputs.push(Nd::binary(Binary::Mul, &output, &weight));
    }
    // from the order of the experts back to that of the samples, once for each rank of the choice
    let outputs = concat(0, outputs);
    let by_rank = (0..net.k).map(|rank| outputs.index_select(0, routes.rows(rank)));
    let shares: Nd<A, Ix1> = routes.shares().map(A::of).collect();
    let per_expert: Nd<A, Ix1> = routes.shares().map(|share| A::of(share * net.experts.len() as f64)).collect();
    Mixture { output: by_rank.sum(), balance: gates.mean_axis(0).dot(per_expert), shares: Layer::constant(shares) }
}

impl<M: Block<Ix2, A> + Clone + 'static, A: Element> Block<Ix2, A> for MixtureOfExperts<M, A> {
    #[track_caller]
    fn of(&self, x: &NdLayer<Ix2, A>) -> NdLayer<Ix2, A> {
        self.of(x)
    }
}
