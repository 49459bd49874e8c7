//! A training step on all ranks, or on none.

use crate::Engine;
use crate::cluster::Cluster;
use crate::exchange::{Round, exchange};
use dl_core::parts::{PartSum, TreeNode, total};
use dl_core::{Data, Differentiable, Error, Module, Numbers, Optimizer, Participant, Parts, Result, Step, Stored};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A step on the parts of a batch, of which each rank evaluates some: see [`Cluster::mean`].
///
/// ```
/// let losses = dl_dist::Cluster::run_on(2, |cluster| {
///     let w = dl_core::Weight::new(1.0_f64); // each rank has a copy of the network
///     cluster.sum(4, |part| &w * part as f64).train(&w, &dl_optim::Sgd::new(0.25))
/// })?;
/// assert_eq!(losses, [[0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0]]);
/// # dl_core::Result::Ok(())
/// ```
#[must_use = "no step is taken before `train`"]
pub struct ClusterStep<'a, F> {
    cluster: &'a Cluster,
    parts: usize,
    loss: F,
    is_mean: bool,
    at_once: usize,
    seed: Option<u64>,
}

/// What must be equal on all ranks: the number of parts, whether the step is on their mean, the seed.
type Settings = (usize, u8, Option<u64>);

/// The message of a rank in a step: its settings, the losses of its parts, and the sums of nodes of
/// the tree as bytes.
type Contribution = (Settings, Vec<(Vec<usize>, Numbers)>, Vec<(TreeNode, Box<[u8]>)>);

impl<'a, F> ClusterStep<'a, F> {
    pub(crate) fn new(cluster: &'a Cluster, parts: usize, loss: F, is_mean: bool) -> Self {
        ClusterStep { cluster, parts, loss, is_mean, at_once: 1, seed: None }
    }

    /// The seed of the step, from which each part draws other random numbers: see
    /// [`Do::seed`](dl_core::Do::seed).
    ///
    /// ```
    /// # let w = dl_core::Weight::new(1.0_f64);
    /// dl_dist::Cluster::run(|cluster| cluster.sum(2, |_| &w * 2.0).seed(7).train(&w, &dl_optim::Sgd::new(0.1)))?;
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Evaluates so many parts side by side on each rank; 1 by default.
    ///
    /// ```
    /// # let w = dl_core::Weight::new(1.0_f64);
    /// dl_dist::Cluster::run(|cluster| cluster.sum(2, |_| &w * 2.0).at_once(2).train(&w, &dl_optim::Sgd::new(0.1)))?;
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn at_once(mut self, parts: usize) -> Self {
        self.at_once = parts;
        self
    }

    /// Takes the step on all ranks, and ends with the losses of all parts. `module` must have all
    /// weights and buffers that the step changes. Blocks until all ranks have taken the step.
    ///
    /// After the optimizer has computed the new weights, and all other
    /// [participants](dl_core::Participant) of this rank have agreed, the ranks vote. If one
    /// refuses, nothing changes on any rank.
    ///
    /// # Errors
    /// Those of [`Parts::train`](dl_core::Parts::train) of any rank: all ranks get the error of the
    /// lowest rank that failed, with its number. Then nothing has changed. Also those of the engine.
    pub fn train<T, L, M, O>(mut self, module: &M, optimizer: &O) -> Result<Vec<T>>
    where
        T: Data + Stored,
        L: Differentiable<Data = T, Delta = T::Delta>,
        F: FnMut(usize) -> L,
        M: Module + ?Sized,
        O: Optimizer + Clone + 'static,
    {
        let own = self.cluster.own_parts(self.parts);
        let losses = own.clone().map(&mut self.loss);
        let parts = if self.is_mean { Parts::mean(losses) } else { Parts::sum(losses) };
        let run = parts.among(self.parts, own.start).at_once(self.at_once).partial_sums();
        let computed = self.seed.map_or(run.clone(), |seed| run.seed(seed)).wait();

        let mut exchanges = self.cluster.exchanges()?;
        let contribution = computed.as_ref().map_err(Error::clone).and_then(|(losses, sums)| {
            Ok(((self.parts, u8::from(self.is_mean), self.seed), losses_of(losses), encode(module, sums)?))
        });
        let all = exchanges.round(Round::Sums, contribution)?;
        if let Some(other) = all.iter().position(|(settings, ..)| *settings != all[0].0) {
            let why = format!("rank {other} takes a step with other parts, or with another seed, than rank 0");
            return Err(Error::invalid(why));
        }
        let (_, own_sums) = computed?;

        // From here on, this rank must vote.
        let engine = self.cluster.engine.clone();
        let vote = Arc::new(Vote { engine, count: exchanges.next(), asked: AtomicBool::new(false) });
        let taken = sum(self.parts, module, &all, own_sums, self.cluster.rank())
            .and_then(|sum| sum.effects().wait()?.enlist(vote.clone()).step(optimizer).wait());
        if let Err(error) = taken {
            let has_voted = vote.asked.load(Ordering::Relaxed);
            return Err(if has_voted { error } else { vote.exchange(Err(error.clone())).err().unwrap_or(error) });
        }
        let losses = all.into_iter().flat_map(|(_, losses, _)| losses);
        losses.map(|(shape, numbers)| T::from_numbers(&shape, numbers)).collect()
    }
}

fn losses_of<T: Stored>(losses: &[T]) -> Vec<(Vec<usize>, Numbers)> {
    losses.iter().map(|loss| (loss.shape(), loss.numbers())).collect()
}

fn encode<M: Module + ?Sized>(module: &M, sums: &[(TreeNode, PartSum)]) -> Result<Vec<(TreeNode, Box<[u8]>)>> {
    sums.iter().map(|(node, sum)| Ok((*node, sum.to_bytes(module)?.into()))).collect()
}

/// The sum over the parts of all ranks, along the tree. The own sums have participants.
fn sum<M: Module + ?Sized>(
    parts: usize,
    module: &M,
    all: &[Contribution],
    own: Vec<(TreeNode, PartSum)>,
    rank: usize,
) -> Result<PartSum> {
    let mut nodes = Vec::new();
    let mut own = Some(own);
    for (from, (_, _, sums)) in all.iter().enumerate() {
        if from == rank {
            nodes.extend(own.take().into_iter().flatten());
            continue;
        }
        for (node, bytes) in sums {
            let sum = PartSum::from_bytes(module, bytes)
                .map_err(|error| error.context(format_args!("the deltas of rank {from}")))?;
            nodes.push((*node, sum));
        }
    }
    total(parts, nodes).wait()
}

/// The vote of this rank among all.
struct Vote {
    engine: Arc<dyn Engine>,
    count: u64,
    asked: AtomicBool,
}

impl Vote {
    fn exchange(&self, mine: Result<u64>) -> Result<Vec<u64>> {
        exchange(&*self.engine, Round::Votes, self.count, mine)
    }
}

impl Participant for Vote {
    fn vote<'a>(&'a self, step: &Step<'_>) -> Result<Box<dyn FnOnce() + 'a>> {
        // Relaxed: the same thread reads it.
        self.asked.store(true, Ordering::Relaxed);
        let steps = self.exchange(Ok(step.steps()))?;
        match steps.iter().position(|&taken| taken != steps[0]) {
            None => Ok(Box::new(|| ())),
            Some(other) => Err(Error::invalid(format!(
                "the optimizer of rank {other} has taken {} steps, and that of rank 0 has taken {}",
                steps[other], steps[0]
            ))),
        }
    }
}

impl<F> fmt::Debug for ClusterStep<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterStep").field("parts", &self.parts).finish_non_exhaustive()
    }
}
