//! Training steps on a batch in parts.

use crate::api::deferred::Do;
use crate::api::differentiable::Differentiable;
use crate::api::extract;
use crate::api::weight::Weight;
use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::gradients::SideEffects;
use crate::autodiff::part_sum::{NodeSums, PartSum};
use crate::autodiff::reverse::{self, When};
use crate::autodiff::tree_sum::{self, TreeNode, TreeSum};
use crate::error::{Error, Result};
use crate::exec::computation::{FromFn, PassChoice};
use crate::exec::extract::ExtractValue;
use crate::exec::run::Run;
use crate::exec::{self, Purpose, Settings};
use crate::graph::data::{Data, Trainable};
use crate::graph::erased_arc::ErasedArc;
use crate::graph::layer::Layer;
use crate::graph::node::NodeOp;
use crate::graph::node_ref::NodeRef;
use crate::graph::seed::Position;
use crate::step::optimizer::Optimizer;
use futures::{StreamExt, stream};
use std::fmt;

/// The losses of the parts of a batch, for one training step. With the memory for one part, the
/// step is that of the whole batch (*gradient accumulation*).
///
/// Each part is a pass of its own. Its deltas are computed at its end, and its values are released.
/// The deltas are summed along a binary tree over the parts; the tree depends on their number only,
/// so the result is the same bits for any number of threads, and for any number of parts [at
/// once](Parts::at_once). There is one commit: the optimizer counts one step, and clips the norm of
/// the sum. If a part fails, nothing changes.
///
/// A buffer that several parts write takes the mean of their values, with a weight for each part,
/// along the same tree. If they write equal values, the mean is that value. So `BatchNorm`
/// normalizes each part by itself, and its running statistics are the mean over the parts. Data
/// without arithmetic have no mean: such a buffer must be written by one part only.
///
/// Part 0 draws random numbers from the [seed](Do::seed) of the step, and each further part from
/// another seed, which depends on the seed of the step and the number of the part.
///
/// ```
/// use dl_core::{Differentiable, Optimizer, Parts, Weight};
/// use dl_optim::Adam;
/// let (w, adam) = (Weight::new(1.0_f64), Adam::new(0.1));
/// let loss = |x: f64| (x * &w - 3.0).square();
/// let losses = Parts::mean([1.0, 2.0, 3.0].map(loss)).train(&adam).wait()?;
/// assert_eq!(losses, [4.0, 1.0, 0.0]);
/// assert_eq!(adam.memory().unwrap().steps(), 1);
/// # dl_core::Result::Ok(())
/// ```
///
/// A plain sum of `SideEffects` has no such tree, and refuses a buffer that is written twice. The
/// sum over the parts has other roundings than one pass over the whole batch.
#[derive(Clone)]
#[must_use = "nothing is computed until a step is run"]
pub struct Parts<T> {
    /// Each with the position at which it was built.
    losses: Vec<(Layer<T>, Option<Position>)>,
    /// The number of the first loss, and the number of all parts.
    first: usize,
    count: usize,
    is_mean: bool,
    at_once: usize,
}

impl<T: Data> Parts<T> {
    /// A step on the sum of these losses.
    ///
    /// ```
    /// use dl_core::{Parts, Weight};
    /// use dl_optim::Sgd;
    /// let w = Weight::new(1.0_f64);
    /// Parts::sum([1.0, 2.0].map(|x| x * &w)).train(&Sgd::new(0.25)).wait()?;
    /// assert_eq!(w.value(), 1.0 - 0.25 * 3.0);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn sum(losses: impl IntoIterator<Item: Differentiable<Data = T, Delta = T::Delta>>) -> Self {
        let losses: Vec<_> = losses.into_iter().map(|loss| (loss.into_layer(), Position::outside_now())).collect();
        Parts { count: losses.len(), losses, first: 0, is_mean: false, at_once: 1 }
    }

    /// A step on the mean of these losses, for parts of equal size whose loss is a mean.
    ///
    /// ```
    /// use dl_core::{Parts, Weight};
    /// use dl_optim::Sgd;
    /// let w = Weight::new(1.0_f64);
    /// Parts::mean([1.0, 2.0].map(|x| x * &w)).train(&Sgd::new(0.25)).wait()?;
    /// assert_eq!(w.value(), 1.0 - 0.25 * 1.5);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn mean(losses: impl IntoIterator<Item: Differentiable<Data = T, Delta = T::Delta>>) -> Self {
        Parts { is_mean: true, ..Parts::sum(losses) }
    }

    /// These parts as some of `count` parts, from number `first` on.
    #[doc(hidden)]
    pub fn among(self, count: usize, first: usize) -> Self {
        Parts { first, count, ..self }
    }

    /// Evaluates so many parts side by side, which takes the memory of so many; 1 by default. Within
    /// a part, operations run in parallel in any case.
    ///
    /// ```
    /// use dl_core::{Parts, Weight};
    /// use dl_optim::Sgd;
    /// let w = Weight::new(1.0_f64);
    /// Parts::sum((1..=8).map(|x| f64::from(x) * &w)).at_once(4).train(&Sgd::new(0.25)).wait()?;
    /// assert_eq!(w.value(), -8.0);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn at_once(mut self, parts: usize) -> Self {
        self.at_once = parts.max(1);
        self
    }

    /// Takes one training step, and ends with the losses of the parts.
    ///
    /// # Errors
    /// Those of [`train`](Differentiable::train), with the number of the part; and if there are no
    /// parts. Then nothing has changed.
    pub fn train<O: Optimizer + Clone + 'static>(&self, optimizer: &O) -> Do<Vec<T>> {
        let (this, optimizer) = (self.clone(), optimizer.clone());
        Do::starting(PassChoice::New(Purpose::Step), move || {
            let (this, optimizer) = (this.clone(), optimizer.clone());
            async move {
                let (losses, effects) = this.run().await?;
                effects.apply(&optimizer).await?;
                Ok(losses)
            }
        })
    }

    /// The losses of the parts, and the gradients of their sum or mean, computed.
    ///
    /// ```
    /// use dl_core::{Differentiable, Parts, Weight};
    /// use dl_optim::Sgd;
    /// let w = Weight::new(1.0_f64);
    /// let (losses, effects) = Parts::sum([3.0 * &w, 4.0 * &w]).value_and_backward().wait()?;
    /// assert_eq!((losses, effects.norm().wait()?), (vec![3.0, 4.0], 7.0));
    /// effects.clip_norm(1.0).wait()?.step(&Sgd::new(0.5)).wait()?;
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`backward`](Differentiable::backward), with the number of the part; and if there
    /// are no parts.
    pub fn value_and_backward(&self) -> Do<(Vec<T>, SideEffects)> {
        let this = self.clone();
        Do::starting(PassChoice::New(Purpose::Train), move || this.clone().run())
    }

    /// The losses of these parts, and the sums of all nodes of the tree whose parts are among them.
    #[doc(hidden)]
    pub fn partial_sums(&self) -> Do<(Vec<T>, NodeSums)> {
        let this = self.clone();
        Do::starting(PassChoice::New(Purpose::Train), move || this.clone().sums())
    }

    async fn run(self) -> Result<(Vec<T>, SideEffects)> {
        let (losses, sums) = self.sums().await?;
        Ok((losses, only(sums)?.into_effects().await?))
    }

    async fn sums(self) -> Result<(Vec<T>, NodeSums)> {
        let seed = exec::with_current(|pass| pass.and_then(|pass| pass.seed()));
        let runs: Vec<_> = (self.first..).zip(&self.losses).map(|(part, loss)| self.start(part, loss, seed)).collect();
        let mut computed = stream::iter(runs).buffered(self.at_once);
        let (mut losses, mut sums) = (Vec::new(), TreeSum::new(self.count));
        while let Some(part) = computed.next().await {
            let in_part = |error: Error| error.context(format_args!("part {}", self.first + losses.len()));
            let (loss, sum) = part.map_err(|error| if self.count > 1 { in_part(error) } else { error })?;
            sum_up(&mut sums, TreeNode::leaf(self.first + losses.len()), sum).await?;
            losses.push(loss);
        }
        Ok((losses, sums.into_partial()))
    }

    /// The pass of a part.
    fn start(
        &self,
        part: usize,
        (loss, made_at): &(Layer<T>, Option<Position>),
        seed: Option<u64>,
    ) -> Run<(T, PartSum)> {
        let seed = seed.map(|seed| part_seed(seed, part));
        let settings = Settings { seed, made_at: *made_at, ..Settings::default() };
        let (loss, weight) = (loss.clone(), self.is_mean.then(|| 1.0 / self.count as f64));
        let start = move || evaluate(loss.clone(), weight);
        Run::new(ErasedArc::computation(FromFn { pass_choice: PassChoice::New(Purpose::Train), start }), settings)
    }
}

/// The seed of a part of a step.
#[doc(hidden)]
pub fn part_seed(seed: u64, part: usize) -> u64 {
    if part == 0 { seed } else { Position::in_body(part as u64).mix(seed) }
}

/// The sum over all of `count` parts, along the tree, given those of some nodes that have all parts.
///
/// # Errors
/// If a part is missing, or is in two nodes.
#[doc(hidden)]
pub fn total(count: usize, nodes: NodeSums) -> Do<PartSum> {
    if !tree_sum::is_partition(count, nodes.iter().map(|(node, _)| *node)) {
        return Do::fail(Error::invalid(format!("the sums are not those of each of {count} parts once")));
    }
    Do::from_fn(move || {
        let nodes = nodes.clone();
        async move {
            let mut sums = TreeSum::new(count);
            for (node, sum) in nodes {
                sum_up(&mut sums, node, sum).await?;
            }
            only(sums.into_partial())
        }
    })
}

#[doc(hidden)]
impl PartSum {
    /// The sum as gradients and buffer updates of a step.
    pub fn effects(&self) -> Do<SideEffects> {
        let this = self.clone();
        Do::from_fn(move || this.clone().into_effects())
    }
}

#[doc(hidden)]
impl PartSum {
    /// These gradients, computed.
    pub fn of(effects: SideEffects) -> Do<PartSum> {
        Do::from_fn(move || PartSum::of_effects(effects.clone()))
    }

    /// The sum of what several uses of the same weights contribute, in this order.
    pub fn sum_of(uses: Vec<PartSum>) -> Do<PartSum> {
        Do::from_fn(move || PartSum::of_uses(uses.clone()))
    }

    /// The sum with all deltas multiplied by a factor.
    pub fn times(&self, factor: f64) -> Do<PartSum> {
        let this = self.clone();
        Do::from_fn(move || this.clone().scaled(factor))
    }

    /// Adds the delta of a weight that has none yet.
    pub fn push<T: Trainable>(&mut self, weight: &Weight<T>, delta: T::Delta) {
        self.deltas.push((weight.to_layer().into_any(), AnyDelta::Ready(delta.into_value())));
    }
}

/// The sum over all parts.
fn only(sums: NodeSums) -> Result<PartSum> {
    match <[_; 1]>::try_from(sums) {
        Ok([(_, sum)]) => Ok(sum),
        Err(_) => Err(Error::invalid("a step on a batch in parts needs at least one part")),
    }
}

/// Adds the sum of a node of the tree, and then those of its ancestors that become complete.
async fn sum_up(sums: &mut TreeSum<PartSum>, node: TreeNode, sum: PartSum) -> Result<()> {
    let mut next = sums.insert(node, sum);
    while let Some((parent, left, right)) = next {
        next = sums.insert(parent, left.joined(right).await?);
    }
    Ok(())
}

/// The loss of a part and its gradients, times a weight.
async fn evaluate<T: Data>(loss: Layer<T>, weight: Option<f64>) -> Result<(T, PartSum)> {
    let root = loss.any();
    let value = ExtractValue::new(root.clone()).await?;
    let pass = exec::current().expect("a part is evaluated in its pass");
    let mut delta = reverse::one(root, &value)?;
    if let Some(weight) = weight {
        let one: NodeRef = (root.vtable.delta_layer)(NodeOp::constant(delta), root.place);
        delta = ExtractValue::new((root.vtable.scale_delta)(&one, weight)).await?;
    }
    let effects = reverse::side_effects(&pass, root, AnyDelta::Ready(delta), When::AtOnce)?;
    let value = extract::into_data(value, root)?;
    Ok((value, PartSum::of_part(effects, &pass).await?))
}

impl<T> fmt::Debug for Parts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("count", &self.count).field("is_mean", &self.is_mean).finish_non_exhaustive()
    }
}
