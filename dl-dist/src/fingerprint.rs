//! Fingerprints of the rules by which the ranks take a step. They travel with the votes, so a step by
//! another learning rate on one rank is refused by all.

use dl_core::{Chunk, ChunkElement, LazyChunk, Optimizer, Result, Step, forward_optimizer};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// The fingerprints of a rank: of the learning rate, if the step is plain gradient descent, and of the
/// rule in single and in double precision. `None` if the rank has not used the rule in that precision.
pub(crate) type Fingerprints = Vec<Option<u64>>;

/// An optimizer whose rule is recorded when it takes a step.
#[derive(Clone)]
pub(crate) struct Recorded<O> {
    optimizer: O,
    seen: Arc<[OnceLock<u64>; 3]>,
}

impl<O> Recorded<O> {
    pub(crate) fn new(optimizer: O) -> Self {
        Recorded { optimizer, seen: Arc::default() }
    }

    /// A function that returns the fingerprints, once the new weights have been computed.
    pub(crate) fn fingerprints(&self) -> impl Fn() -> Fingerprints + Send + Sync + 'static {
        let seen = self.seen.clone();
        move || seen.iter().map(|seen| seen.get().copied()).collect()
    }
}

impl<O: Optimizer> Optimizer for Recorded<O> {
    forward_optimizer!(this => this.optimizer; slots memory for_weight step descent decays_weights notes kind);

    fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        let rule = self.optimizer.begin(step)?.unwrap_or_else(|| Box::new(&self.optimizer));
        let rate = rule.descent().and_then(Result::ok).map_or(u64::MAX, f64::to_bits);
        let _ = self.seen[0].set(rate);
        Ok(Some(Box::new(Begun { rule, seen: &self.seen })))
    }
}

/// The rule of a step.
struct Begun<'o> {
    rule: Box<dyn Optimizer + 'o>,
    seen: &'o [OnceLock<u64>; 3],
}

impl Optimizer for Begun<'_> {
    forward_optimizer!(this => this.rule; slots memory begin for_weight descent decays_weights notes kind);

    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        let _ = match chunk {
            Chunk::F32 { .. } => self.seen[1].get_or_init(|| fingerprint::<f32>(&self.rule)),
            Chunk::F64 { .. } => self.seen[2].get_or_init(|| fingerprint::<f64>(&self.rule)),
        };
        self.rule.step(chunk, steps)
    }

    fn step_lazy(&self, chunk: &mut LazyChunk, steps: u64) -> Result<()> {
        self.rule.step_lazy(chunk, steps)
    }
}

/// A number of what a rule does with two elements, which are those of no weight.
fn fingerprint<T: ChunkElement + Into<f64>>(rule: &dyn Optimizer) -> u64 {
    let (mut values, deltas) = ([0.0, 1.0].map(T::of), [1.0, 0.5].map(T::of));
    let mut slots = vec![[0.25, 0.5].map(T::of); rule.slots().len()];
    let mut rows: Vec<&mut [T]> = slots.iter_mut().map(|slot| &mut slot[..]).collect();
    let ended = rule.step(T::chunk(&mut values, &deltas, &mut rows), 1);
    let mut hasher = DefaultHasher::new();
    ended.is_ok().hash(&mut hasher);
    values.iter().chain(slots.iter().flatten()).for_each(|&number| number.into().to_bits().hash(&mut hasher));
    hasher.finish()
}

/// The first rank with a rule that is not that of a lower rank, and the lower rank.
pub(crate) fn differing(all: &[Fingerprints]) -> Option<(usize, usize)> {
    (0..all.len()).find_map(|rank| {
        let differs = |lower: &usize| {
            all[*lower]
                .iter()
                .zip(&all[rank])
                .any(|(ours, theirs)| ours.is_some() && theirs.is_some() && ours != theirs)
        };
        (0..rank).find(differs).map(|lower| (rank, lower))
    })
}
