//! Fingerprints of the rules by which the ranks take a step. They travel with the votes, so a step by
//! another learning rate on one rank is refused by all.

use crate::communication::lock;
use dl_core::{Chunk, ChunkElement, Error, LazyChunk, Optimizer, Result, Step, WeightId, forward_optimizer};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock};

/// The fingerprints of a rank: of the learning rate, if the step is plain gradient descent; of the
/// rule in single and in double precision; and of the rule of each weight that has one of its own, by
/// path. `None` if the rank has not used the rule.
pub(crate) type Fingerprints = Vec<Option<u64>>;

/// Those that are not of single weights.
const COMMON: usize = 3;

/// The fingerprints that are recorded in a step.
#[derive(Default)]
struct Seen {
    common: [OnceLock<u64>; COMMON],
    of_weights: Mutex<HashMap<WeightId, u64>>,
}

/// An optimizer whose rule is recorded when it takes a step.
#[derive(Clone)]
pub(crate) struct Recorded<O> {
    optimizer: O,
    seen: Arc<Seen>,
}

impl<O> Recorded<O> {
    pub(crate) fn new(optimizer: O) -> Self {
        Recorded { optimizer, seen: Arc::default() }
    }

    /// A function that returns the fingerprints, once the new weights have been computed. `weights`
    /// are those that have a rule of their own, in the same order on all ranks.
    pub(crate) fn fingerprints(&self, weights: Vec<WeightId>) -> impl Fn() -> Fingerprints + Send + Sync + 'static {
        let seen = self.seen.clone();
        move || {
            let of_weights = lock(&seen.of_weights);
            let common = seen.common.iter().map(|seen| seen.get().copied());
            common.chain(weights.iter().map(|weight| of_weights.get(weight).copied())).collect()
        }
    }
}

impl<O: Optimizer> Optimizer for Recorded<O> {
    forward_optimizer!(this => this.optimizer; slots memory for_weight step descent decays_weights notes kind);

    fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        let rule = self.optimizer.begin(step)?.unwrap_or_else(|| Box::new(&self.optimizer));
        let rate = rule.descent().and_then(Result::ok).map_or(u64::MAX, f64::to_bits);
        let _ = self.seen.common[0].set(rate);
        Ok(Some(Box::new(Begun { rule, seen: &self.seen })))
    }
}

/// The rule of a step.
struct Begun<'o> {
    rule: Box<dyn Optimizer + 'o>,
    seen: &'o Seen,
}

impl Optimizer for Begun<'_> {
    forward_optimizer!(this => this.rule; slots memory begin descent decays_weights notes kind);

    fn for_weight<'s>(&'s self, weight: WeightId) -> Option<Box<dyn Optimizer + 's>> {
        let own = self.rule.for_weight(weight)?;
        lock(&self.seen.of_weights).entry(weight).or_insert_with(|| {
            let mut hasher = DefaultHasher::new();
            (fingerprint::<f32>(&*own), fingerprint::<f64>(&*own)).hash(&mut hasher);
            hasher.finish()
        });
        // A rule may count its chunks: the one above has had two.
        self.rule.for_weight(weight)
    }

    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        let _ = match chunk {
            Chunk::F32 { .. } => self.single(),
            Chunk::F64 { .. } => self.seen.common[2].get_or_init(|| fingerprint::<f64>(&self.rule)),
        };
        self.rule.step(chunk, steps)
    }

    fn step_lazy(&self, chunk: &mut LazyChunk, steps: u64) -> Result<()> {
        self.single();
        self.rule.step_lazy(chunk, steps)
    }
}

impl Begun<'_> {
    /// The fingerprint in single precision, which is that of weights on a device, too.
    fn single(&self) -> &u64 {
        self.seen.common[1].get_or_init(|| fingerprint::<f32>(&self.rule))
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

/// Refuses rules that differ. `paths` are those of the weights that have a rule of their own.
///
/// # Errors
/// Names the first rank with a rule that is not that of a lower rank, and the lower rank.
pub(crate) fn compare(all: &[Fingerprints], paths: &[String]) -> Result<()> {
    let pairs = (0..all.len()).flat_map(|rank| (0..rank).map(move |lower| (rank, lower)));
    let differing = |(rank, lower): (usize, usize)| {
        let differ =
            |(ours, theirs): (&Option<u64>, &Option<u64>)| ours.is_some() && theirs.is_some() && ours != theirs;
        all[lower].iter().zip(&all[rank]).position(differ).map(|rule| (rank, lower, rule))
    };
    let Some((rank, lower, rule)) = pairs.into_iter().find_map(differing) else { return Ok(()) };
    let path = rule.checked_sub(COMMON).and_then(|weight| paths.get(weight));
    let weight = path.map_or("a weight".to_owned(), |path| format!("the weight `{path}`"));
    Err(Error::invalid(format!(
        "the optimizers of rank {rank} and rank {lower} would change {weight} in different ways: their learning \
         rates, schedules, clipping or other settings differ"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dl_core::{Binary, LaterNumber, Lazy, LazyNumbers, Unary};
    use dl_optim::{Groups, Sgd};

    #[test]
    fn differing_rule_names_ranks_and_weight() {
        let of = |common: u64, own: Option<u64>| vec![Some(common), None, None, own];
        let paths = ["hidden.bias".to_owned()];
        compare(&[of(1, None), of(1, Some(2)), of(1, Some(2))], &paths).unwrap();
        let text = |all: &[Fingerprints]| compare(all, &paths).unwrap_err().to_string();
        let error = text(&[of(1, None), of(1, Some(2)), of(1, Some(3))]);
        assert!(error.contains("rank 2 and rank 1 would change the weight `hidden.bias`"), "{error}");
        let error = text(&[of(1, None), of(2, None)]);
        assert!(error.contains("rank 1 and rank 0 would change a weight in"), "{error}");
    }

    /// Numbers of a device, which are not computed.
    struct OnDevice;

    impl LazyNumbers for OnDevice {
        fn unary(&self, _: Unary) -> Lazy {
            Lazy::new(OnDevice)
        }

        fn binary(&self, _: Binary, _: &Lazy) -> Lazy {
            Lazy::new(OnDevice)
        }

        fn with_number(&self, _: Binary, _: f64, _: bool) -> Lazy {
            Lazy::new(OnDevice)
        }

        fn norm(&self) -> Result<LaterNumber> {
            Ok(Box::new(|| Ok(0.0)))
        }
    }

    #[test]
    fn rule_for_weight_on_device_has_fingerprint_of_single_precision() {
        let seen = |rate: f64, on_device: bool| {
            let recorded = Recorded::new(Sgd::new(rate));
            let begun = recorded.begin(&Step::new(0, &|_, _| Ok(()))).unwrap().unwrap();
            let ended = match on_device {
                true => begun.step_lazy(&mut LazyChunk::new(Lazy::new(OnDevice), Lazy::new(OnDevice), []), 1),
                false => begun.step(f32::chunk(&mut [1.0], &[2.0], &mut []), 1),
            };
            ended.unwrap();
            recorded.fingerprints(Vec::new())()[1].expect("the rule was used")
        };
        assert_eq!(seen(0.1, true), seen(0.1, false));
        assert_ne!(seen(0.1, true), seen(0.2, true));
    }

    /// A rule that refuses its second chunk.
    struct Once(OnceLock<()>);

    impl Optimizer for Once {
        fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
            self.0.set(()).map_err(|()| Error::invalid("a second chunk"))
        }
    }

    /// Has a rule for each weight.
    #[derive(Clone)]
    struct Rules;

    impl Optimizer for Rules {
        fn for_weight<'o>(&'o self, _: WeightId) -> Option<Box<dyn Optimizer + 'o>> {
            Some(Box::new(Once(OnceLock::new())))
        }

        fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
            unreachable!("each weight has a rule of its own")
        }
    }

    #[test]
    fn rule_of_weight_is_recorded_and_not_used_up() {
        use dl_core::{Differentiable, Weight};
        let weights = [1.0, 2.0].map(Weight::<f64>::new);
        let step = |recorded: &Recorded<Groups>| {
            (&weights[0] * &weights[1]).train(recorded).wait().unwrap();
            recorded.fingerprints(weights.iter().map(Weight::id).collect())()
        };
        let groups = |rate| Groups::new(Sgd::new(0.1)).with([&weights[1]], Sgd::new(rate));
        let [one, two] = [0.2, 0.3].map(|rate| step(&Recorded::new(groups(rate))));
        assert!(one[COMMON].is_some() && one[COMMON] == two[COMMON] && one[COMMON + 1] != two[COMMON + 1]);

        let recorded = Recorded::new(Rules);
        (&weights[0] * 2.0).train(&recorded).wait().unwrap();
        assert!(recorded.fingerprints(vec![weights[0].id()])()[COMMON].is_some());
    }
}
