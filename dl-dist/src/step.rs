//! A training step on all ranks, or on none.

use crate::cluster::{Cluster, Exchanges};
use crate::communication::Communication;
use crate::communication::rank_of;
use crate::elsewhere::{Elsewhere, Token};
use crate::exchange::{Round, exchange};
use crate::fingerprint::{self, Fingerprints, Recorded};
use crate::shards::Shards;
use crate::slices::Slices;
use crate::uses::{UsesByModule, sum};
use dl_core::parts::{NodeSums, PartSum, TreeNode, total};
use dl_core::{
    ChunkVisitor, Data, Differentiable, Entry, Error, Module, Numbers, Optimizer, Participant, Parts, Result,
    SideEffects, Step, Stored, WeightId,
};
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
    shards_state: bool,
    seed: Option<u64>,
}

/// The loss of a part, as it travels: its shape and its numbers.
pub(crate) type Loss = (Vec<usize>, Numbers);

/// The losses and the sums of the parts of a rank.
type Computed = Result<(Vec<Loss>, NodeSums)>;

/// What must be equal on all ranks: the number of parts, whether the step is on their mean, the seed,
/// the kind of the optimizer, how many numbers are summed in slices, and the paths of frozen weights.
type Settings = (usize, u8, Option<u64>, String, usize, Vec<String>);

/// The message of a rank in a step: its settings, the losses of its parts, and the sums of nodes of
/// the tree. The numbers of a [slice](Slices) follow it.
pub(crate) type Contribution = (Settings, Vec<Loss>, Vec<NodeSum>);

/// The sum of a node: the weights with numbers in slices, as a byte for each; the deltas of all
/// other replicated weights as bytes; and the calls of placed modules.
pub(crate) type NodeSum = (TreeNode, Box<[u8]>, Box<[u8]>, UsesByModule);

impl<'a, F> ClusterStep<'a, F> {
    pub(crate) fn new(cluster: &'a Cluster, parts: usize, loss: F, is_mean: bool) -> Self {
        ClusterStep { cluster, parts, loss, is_mean, at_once: 1, shards_state: false, seed: None }
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

    /// Keeps the state of the optimizer for each weight on one rank only, with the same bits (*ZeRO-1*).
    /// The weights that are on all ranks are distributed by size. The owner of a weight computes its
    /// new value and sends it to all ranks. All steps with an optimizer must do this, or none.
    ///
    /// An optimizer that [averages](https://docs.rs/monadic-dl-optim) the weights is refused, and
    /// [participants](dl_core::Participant) see the deltas of the own weights only.
    ///
    /// ```
    /// use dl_core::{Optimizer, Weight, WeightHandle};
    /// let slots = dl_dist::Cluster::run_on(2, |cluster| {
    ///     let (net, adam) = ([1.0, 2.0].map(Weight::<f64>::new), dl_optim::Adam::new(0.1));
    ///     cluster.sum(4, |_| &net[0] * &net[1]).shard_state().train(&net, &adam)?;
    ///     let named: Vec<(&str, WeightHandle)> = vec![("0", (&net[0]).into()), ("1", (&net[1]).into())];
    ///     Ok(adam.state(&named)?.slots().count())
    /// })?;
    /// assert_eq!(slots, [2, 2]); // of one weight each
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn shard_state(mut self) -> Self {
        self.shards_state = true;
        self
    }

    /// Takes the step on all ranks, and ends with the losses of all parts. `module` must have all
    /// weights and buffers that the step changes, but need not have those of
    /// [placed](crate::Placed) modules on other ranks. Blocks until all ranks have taken the step.
    ///
    /// After the optimizer has computed the new weights, and all other
    /// [participants](dl_core::Participant) of this rank have agreed, the ranks vote. If one
    /// refuses, nothing changes on any rank.
    ///
    /// # Errors
    /// Those of [`Parts::train`](dl_core::Parts::train) of any rank, and a panic of `loss`: all ranks
    /// get the error of the lowest rank that failed, with its number. Then nothing has changed. Also
    /// those of the engine; and settings, frozen weights or rules of the optimizer that differ.
    pub fn train<T, L, M, O>(mut self, module: &M, optimizer: &O) -> Result<Vec<T>>
    where
        T: Data + Stored,
        L: Differentiable<Data = T, Delta = T::Delta>,
        F: FnMut(usize) -> L,
        M: Module + ?Sized,
        O: Optimizer + Clone + 'static,
    {
        let computed = self.computed();
        let losses = self.step(module, optimizer, computed)?;
        losses.into_iter().map(|(shape, numbers)| T::from_numbers(&shape, numbers)).collect()
    }

    /// Takes the step, given the losses and the sums of the parts of this rank. Ends with the losses
    /// of all parts.
    pub(crate) fn step<M, O>(&self, module: &M, optimizer: &O, computed: Computed) -> Result<Vec<Loss>>
    where
        M: Module + ?Sized,
        O: Optimizer + Clone + 'static,
    {
        let mut exchanges = self.cluster.exchanges()?;
        if self.cluster.size() == 1 {
            let (losses, sums) = computed?;
            let sum = total(self.parts, sums).wait()?;
            sum.check_within(module)?;
            return sum.effects().wait()?.step(optimizer).wait().map(|()| losses);
        }
        // Keeps the calls until all ranks have voted.
        let mut tokens = Vec::new();
        let (losses, mut sum) = self.summed(module, computed, optimizer.kind(), &mut exchanges, &mut tokens)?;
        if self.cluster.modules() > 0 && reads_deltas(optimizer) {
            let mine = sum.as_ref().map_err(Error::clone).and_then(|sum| self.norms(sum));
            let norms = exchanges.round(Round::Norms, mine)?;
            self.add_norms(sum.as_mut().map_err(|error| error.clone())?, &norms);
        }

        let shards = self.shards_state.then(|| Shards::new(self.cluster, module));
        let values = shards.as_ref().map(|shards| {
            let mine = sum.as_ref().map_err(Error::clone).and_then(|sum| shards.values(sum, optimizer));
            exchanges.round(Round::Values, mine)
        });
        let values = values.transpose()?.unwrap_or_default();

        // From here on, this rank must vote, and a rank that has its vote may call it.
        let count = exchanges.next();
        let _gate = self.cluster.server().map(|server| server.close_gate(count));
        let communication = self.cluster.communication().cloned();
        let recorded = Recorded::new(optimizer.clone());
        let (paths, weights) = self.own_rules(module, optimizer).into_iter().unzip();
        let fingerprints = Box::new(recorded.fingerprints(weights));
        let vote = Arc::new(Vote { communication, count, asked: AtomicBool::new(false), fingerprints, paths });
        let taken = sum.and_then(|sum| match &shards {
            None => sum.effects().wait()?.enlist(vote.clone()).step(&recorded).wait(),
            Some(shards) => {
                let (sum, optimizer) = shards.divided(sum, &recorded, values)?;
                sum.effects().wait()?.enlist(vote.clone()).step(&optimizer).wait()
            }
        });
        if let Err(error) = taken {
            let has_voted = vote.asked.load(Ordering::Relaxed);
            return Err(if has_voted { error } else { vote.exchange(Err(error.clone())).err().unwrap_or(error) });
        }
        Ok(losses)
    }

    /// The gradients of the sum or mean over the parts of all ranks. The ranks do not vote on a
    /// step with them. For benchmarks.
    #[doc(hidden)]
    pub fn backward<T, L, M>(mut self, module: &M) -> Result<SideEffects>
    where
        T: Data + Stored,
        L: Differentiable<Data = T, Delta = T::Delta>,
        F: FnMut(usize) -> L,
        M: Module + ?Sized,
    {
        let computed = self.computed();
        let (_, sum) = self.summed(module, computed, String::new(), &mut self.cluster.exchanges()?, &mut Vec::new())?;
        sum?.effects().wait()
    }

    /// The losses and the sums of the parts of this rank. A panic of `loss` is an error, because all
    /// other ranks wait for this one.
    fn computed<T, L>(&mut self) -> Computed
    where
        T: Data + Stored,
        L: Differentiable<Data = T, Delta = T::Delta>,
        F: FnMut(usize) -> L,
    {
        let own = self.cluster.own_parts(self.parts);
        let losses = own.clone().map(&mut self.loss);
        let is_mean = self.is_mean;
        let parts = catch_unwind(AssertUnwindSafe(|| if is_mean { Parts::mean(losses) } else { Parts::sum(losses) }))
            .map_err(Error::panic)?;
        let run = parts.among(self.parts, own.start).at_once(self.at_once).partial_sums();
        let (losses, sums) = self.seed.map_or(run.clone(), |seed| run.seed(seed)).wait()?;
        Ok((losses.iter().map(|loss| (loss.shape(), loss.numbers())).collect(), sums))
    }

    /// The losses of all parts, and the sum of their deltas. The outer error is that of all ranks.
    fn summed<M: Module + ?Sized>(
        &self,
        module: &M,
        mut computed: Computed,
        optimizer: String,
        exchanges: &mut Exchanges<'_>,
        tokens: &mut Vec<Token>,
    ) -> Result<(Vec<Loss>, Result<PartSum>)> {
        let mut slices = Slices::new(self.cluster, module);
        let contribution = computed.as_mut().map_err(|error| error.clone()).and_then(|(losses, sums)| {
            let nodes = self.encode(module, sums, &mut slices, tokens)?;
            let frozen = self.replicas(module).filter(Entry::is_frozen).map(|entry| entry.path().to_owned()).collect();
            let settings = (self.parts, u8::from(self.is_mean), self.seed, optimizer, slices.numbers(), frozen);
            Ok((settings, std::mem::take(losses), nodes))
        });
        let room = slices.room();
        let all = exchanges.post(Round::Sums, contribution, room, |to, message| slices.write(0, to, message));
        let all = exchanges.collect(all)?;
        compare(all.iter().map(|received| &received.value.0))?;
        let (_, own_sums) = computed?;
        let slices = slices.sum(exchanges, self.parts, &all)?;
        let (mut losses, mut nodes) = (Vec::new(), Vec::with_capacity(all.len()));
        for received in all {
            losses.extend(received.value.1);
            nodes.push(received.value.2);
        }
        let sum = slices.and_then(|(weights, deltas)| {
            let mut sum = self.sum(module, &nodes, own_sums)?;
            sum.push_dense(&weights, deltas);
            Ok(sum)
        });
        Ok((losses, sum))
    }
}

/// Refuses settings that are not those of rank 0.
fn compare<'a>(mut all: impl Iterator<Item = &'a Settings>) -> Result<()> {
    let Some(&(parts, is_mean, seed, ref optimizer, numbers, ref frozen)) = all.next() else { return Ok(()) };
    let text = |seed: Option<u64>| seed.map_or("no seed".to_owned(), |seed| format!("the seed {seed}"));
    let kind = |is_mean| if is_mean == 0 { "sum" } else { "mean" };
    for (rank, theirs) in (1..).zip(all) {
        let [theirs, ours] = match *theirs {
            (_, _, _, ref other, ..) if other != optimizer => [other, optimizer].map(|kind| format!("by {kind}")),
            (other, ..) if other != parts => [other, parts].map(|parts| format!("on {parts} parts")),
            (_, other, ..) if other != is_mean => [other, is_mean].map(|is_mean| format!("on a {}", kind(is_mean))),
            (_, _, other, ..) if other != seed => [other, seed].map(|seed| format!("with {}", text(seed))),
            (_, _, _, _, other, _) if other != numbers => {
                [other, numbers].map(|numbers| format!("on {numbers} numbers"))
            }
            (.., ref other) if other != frozen => {
                let differs = |path: &&String| other.contains(path) != frozen.contains(path);
                let path = other.iter().chain(frozen).find(differs).map_or("", String::as_str);
                let word = |frozen: &[String]| if frozen.iter().any(|known| known == path) { "" } else { "not " };
                [other, frozen].map(|frozen| format!("where `{path}` is {}frozen", word(frozen)))
            }
            _ => continue,
        };
        return Err(Error::invalid(format!("rank {rank} takes a step {theirs}, and rank 0 one {ours}")));
    }
    Ok(())
}

impl<F> ClusterStep<'_, F> {
    /// The sums as other ranks need them. Takes the calls of other ranks out of them.
    fn encode<M: Module + ?Sized>(
        &self,
        module: &M,
        sums: &mut [(TreeNode, PartSum)],
        slices: &mut Slices,
        tokens: &mut Vec<Token>,
    ) -> Result<Vec<NodeSum>> {
        let mut nodes = Vec::with_capacity(sums.len());
        for (node, of_node) in sums {
            let own_tokens = of_node.take::<Elsewhere>();
            let uses = sum(own_tokens.iter().flat_map(|token| token.uses.iter().cloned()));
            tokens.extend(own_tokens);
            let of_placed = self.cluster.server().map(|server| of_node.take_selected(|entry| server.has_entry(entry)));
            let in_slices = slices.take(of_node)?;
            nodes.push((*node, in_slices, of_node.to_bytes(module)?.into(), uses));
            of_placed.into_iter().for_each(|sum| of_node.extend(sum));
        }
        Ok(nodes)
    }

    /// The weights and buffers that all ranks have.
    fn replicas<M: Module + ?Sized>(&self, module: &M) -> impl Iterator<Item = Entry> {
        let server = self.cluster.server();
        let is_placed = move |entry: &Entry| server.is_some_and(|server| server.has_entry(entry.id()));
        module.entries().into_iter().filter(move |entry| entry.rank().is_none() && !is_placed(entry))
    }

    /// The weights that all ranks have and that have a rule of their own, by path.
    fn own_rules<M: Module + ?Sized>(&self, module: &M, optimizer: &dyn Optimizer) -> Vec<(String, WeightId)> {
        let with_rule = |entry: Entry| {
            let weight = entry.weight()?.id();
            optimizer.for_weight(weight).map(|_| (entry.path().to_owned(), weight))
        };
        self.replicas(module).filter_map(with_rule).collect()
    }

    /// The sum over the parts of all ranks, along the tree. The own sums have participants, and the
    /// deltas of modules of this rank that it has called itself.
    fn sum<M: Module + ?Sized>(
        &self,
        module: &M,
        all: &[Vec<NodeSum>],
        own: Vec<(TreeNode, PartSum)>,
    ) -> Result<PartSum> {
        let rank = self.cluster.rank();
        let (mut nodes, mut own) = (Vec::new(), own.into_iter());
        for (from, sums) in all.iter().enumerate() {
            for (node, _, bytes, uses) in sums {
                let of_node = if from == rank {
                    own.next().map(|(_, sum)| sum).expect("each own sum was encoded")
                } else {
                    PartSum::from_bytes(module, bytes)
                        .map_err(|error| error.context(format_args!("the deltas of rank {from}")))?
                };
                let mut of_this_rank = uses.clone();
                of_this_rank.retain(|(module, _)| rank_of(*module) == rank);
                nodes.push((
                    *node,
                    match self.cluster.server() {
                        Some(server) if !of_this_rank.is_empty() => {
                            PartSum::sum_of(vec![of_node, server.deltas_of_all(of_this_rank).wait()?]).wait()?
                        }
                        _ => of_node,
                    },
                ));
            }
        }
        total(self.parts, nodes).wait()
    }

    /// The norms of the deltas of the modules of this rank that the step changes.
    fn norms(&self, sum: &PartSum) -> Result<Vec<(u64, Vec<f64>)>> {
        let mut all = Vec::new();
        if let Some(server) = self.cluster.server() {
            for number in server.modules() {
                let placement = server.module(number)?;
                let norms = sum.norms(|id| placement.entries.iter().any(|entry: &Entry| entry.id() == id))?;
                if !norms.is_empty() {
                    all.push((number, norms));
                }
            }
        }
        Ok(all)
    }

    /// Adds the norms of the deltas on other ranks to the step, in the place of these deltas.
    fn add_norms(&self, sum: &mut PartSum, norms: &[Vec<(u64, Vec<f64>)>]) {
        for stand_in in self.cluster.stand_ins() {
            let module = stand_in.value().module;
            let found = norms.get(rank_of(module)).and_then(|all| all.iter().find(|(number, _)| *number == module));
            if let Some((_, norms)) = found {
                sum.push(&stand_in, Token { norms: Arc::new(norms.clone().into()), ..Token::default() });
            }
        }
    }
}

/// Whether an optimizer reads the deltas of a step before it begins.
fn reads_deltas(optimizer: &dyn Optimizer) -> bool {
    let reads = Cell::new(false);
    let deltas = |only_lazy: bool, _: &mut ChunkVisitor<'_>| {
        reads.set(reads.get() || !only_lazy);
        Ok(())
    };
    let steps = optimizer.memory().map_or(0, |memory| memory.steps());
    // An error will be that of the step.
    drop(optimizer.begin(&Step::new(steps, &deltas)));
    reads.get()
}

/// The vote of this rank among all.
struct Vote {
    communication: Option<Arc<Communication>>,
    count: u64,
    asked: AtomicBool,
    fingerprints: Box<dyn Fn() -> Fingerprints + Send + Sync>,
    /// The weights with a rule of their own.
    paths: Vec<String>,
}

/// The number of steps before, and the fingerprints of the rule.
type Agreement = (u64, Fingerprints);

impl Vote {
    fn exchange(&self, mine: Result<Agreement>) -> Result<Vec<Agreement>> {
        exchange(self.communication.as_deref(), Round::Votes, self.count, mine)
    }
}

impl Participant for Vote {
    fn vote<'a>(&'a self, step: &Step<'_>) -> Result<Box<dyn FnOnce() + 'a>> {
        // Relaxed: the same thread reads it.
        self.asked.store(true, Ordering::Relaxed);
        let all = self.exchange(Ok((step.steps(), (self.fingerprints)())))?;
        let (steps, fingerprints): (Vec<u64>, Vec<Fingerprints>) = all.into_iter().unzip();
        if let Some(other) = steps.iter().position(|&taken| taken != steps[0]) {
            return Err(Error::invalid(format!(
                "the optimizer of rank {other} has taken {} steps, and that of rank 0 has taken {}",
                steps[other], steps[0]
            )));
        }
        fingerprint::compare(&fingerprints, &self.paths)?;
        let communication = &self.communication;
        Ok(Box::new(move || communication.iter().for_each(|communication| communication.stepped(steps[0]))))
    }
}

impl<F> fmt::Debug for ClusterStep<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterStep").field("parts", &self.parts).finish_non_exhaustive()
    }
}
