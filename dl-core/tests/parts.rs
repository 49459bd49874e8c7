//! A step on a batch in parts: the sum along a fixed tree, one commit, the mean of buffers.

use dl_core::parts::{PartSum, TreeNode, total};
use dl_core::{
    Buffer, Data, Differentiable, Do, Error, Layer, Nothing, Optimizer, Parts, Result, Seed, SideEffects, Weight,
};
use dl_optim::{Adam, OptimizerExt, Sgd, schedule::Cosine};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

fn net() -> Vec<Weight<f32>> {
    (0..6).map(|i| Weight::new(0.3 + 0.17 * i as f32)).collect()
}

fn bits(net: &[Weight<f32>]) -> Vec<u32> {
    net.iter().map(|weight| weight.value().to_bits()).collect()
}

fn sample(part: usize) -> (f32, f32) {
    (0.1 + 0.37 * part as f32, (part as f32 * 1.7).sin())
}

/// A loss of one part. Each part leaves out one of the weights.
fn loss(net: &[Weight<f32>], part: usize) -> Layer<f32> {
    let (x, y) = sample(part);
    let used = net.iter().enumerate().filter(|(i, _)| part % net.len() != *i);
    let score: Layer<f32> = used.map(|(i, weight)| (weight * x + i as f32 * 0.1).tanh() * weight).sum();
    (score - y).square()
}

fn losses(net: &[Weight<f32>], parts: usize) -> Vec<Layer<f32>> {
    (0..parts).map(|part| loss(net, part)).collect()
}

/// The deltas of one part, computed by themselves.
fn delta(net: &[Weight<f32>], part: usize, weight: usize) -> Option<f32> {
    loss(net, part).backward().wait().unwrap().delta(&net[weight]).wait().unwrap()
}

/// The sum of these parts in the order of the tree.
fn tree(terms: &[Option<f32>]) -> Option<f32> {
    if terms.len() == 1 {
        return terms[0];
    }
    let half = terms.len().next_power_of_two() / 2;
    match (tree(&terms[..half]), tree(&terms[half..])) {
        (Some(left), Some(right)) => Some(left + right),
        (one, other) => one.or(other),
    }
}

#[test]
fn deltas_are_sums_along_tree() {
    for parts in [1, 2, 3, 5, 6, 7, 8, 13] {
        let net = net();
        let (values, effects) = Parts::sum(losses(&net, parts)).value_and_backward().wait().unwrap();
        for (part, value) in values.iter().enumerate() {
            assert_eq!(value.to_bits(), loss(&net, part).predict().wait().unwrap().to_bits());
        }
        for weight in 0..net.len() {
            let terms: Vec<Option<f32>> = (0..parts).map(|part| delta(&net, part, weight)).collect();
            let ours = effects.delta(&net[weight]).wait().unwrap();
            assert_eq!(ours.map(f32::to_bits), tree(&terms).map(f32::to_bits), "weight {weight} of {parts} parts");
            // as a plain loop in double precision, but for the roundings of single precision
            let exact: f64 = terms.iter().flatten().map(|&term| f64::from(term)).sum();
            let size: f64 = terms.iter().flatten().map(|&term| f64::from(term.abs())).sum();
            let bound = f64::from(f32::EPSILON) * size * (parts as f64).log2().ceil();
            assert!((f64::from(ours.unwrap_or(0.0)) - exact).abs() <= bound);
        }
    }
}

/// Ten steps with all that counts steps or looks at all deltas.
fn trained(parts: usize, at_once: usize) -> (Vec<u32>, u64) {
    let (net, adam) = (net(), Adam::new(Cosine::new(0.05, 12)));
    let optimizer = adam.clone().clip_norm(0.5).ema(0.9);
    for _ in 0..10 {
        Parts::mean(losses(&net, parts)).at_once(at_once).train(&optimizer).wait().unwrap();
    }
    (bits(&net), adam.memory().unwrap().steps())
}

#[test]
fn bits_do_not_depend_on_threads_or_parts_at_once() {
    for parts in [1, 3, 8] {
        let expected = trained(parts, 1);
        assert_eq!(expected.1, 10);
        for threads in [1, 2, 4] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            for at_once in [1, 2, 5, 100] {
                assert!(pool.install(|| trained(parts, at_once)) == expected, "{parts}: {threads} threads, {at_once}");
            }
        }
    }
}

#[test]
fn mean_is_sum_of_scaled_losses() {
    for parts in [1, 3, 4] {
        let (mean, sum) = (net(), net());
        Parts::mean(losses(&mean, parts)).train(&Sgd::new(0.1)).wait().unwrap();
        let scaled = losses(&sum, parts).into_iter().map(|loss| loss * (1.0 / parts as f64) as f32);
        Parts::sum(scaled).train(&Sgd::new(0.1)).wait().unwrap();
        assert_eq!(bits(&mean), bits(&sum));
    }
}

/// The partial sums of these parts of ten, as they are and through their bytes.
fn partial(net: &Vec<Weight<f32>>, buffer: &Buffer<f32>, parts: std::ops::Range<usize>) -> Vec<(TreeNode, PartSum)> {
    let losses = parts.clone().map(|part| loss(net, part).updating(buffer, Layer::constant(sample(part).0)));
    let (_, sums) = Parts::sum(losses).among(10, parts.start).partial_sums().wait().unwrap();
    let module = (net, buffer);
    let copy = |sum: PartSum| PartSum::from_bytes(&module, &sum.to_bytes(&module).unwrap()).unwrap();
    sums.into_iter().map(|(node, sum)| (node, copy(sum))).collect()
}

#[test]
fn bits_do_not_depend_on_order_or_grouping_of_parts() {
    let (net, buffer) = (net(), Buffer::new(0.0));
    let total_of = |ranges: &[std::ops::Range<usize>]| {
        let nodes: Vec<(TreeNode, PartSum)> =
            ranges.iter().flat_map(|range| partial(&net, &buffer, range.clone())).collect();
        total(10, nodes).wait().unwrap().to_bytes(&(&net, &buffer)).unwrap()
    };
    let whole = total_of(&[0..4, 4..10]);
    assert!(total_of(&[5..10, 0..5]) == whole);
    assert!(total_of(&[9..10, 3..7, 0..3, 7..9]) == whole);
    assert!(total_of(&(0..10).rev().map(|part| part..part + 1).collect::<Vec<_>>()) == whole);
}

#[test]
fn buffer_takes_mean_of_parts() {
    let (w, mean, steps) = (Weight::new(1.0_f64), Buffer::new(0.0_f64), Buffer::new(0.0_f64));
    for parts in [1, 2, 3, 7, 49] {
        let steps_before = steps.value();
        let loss = |part: usize| {
            let loss = (part as f64 * &w).updating(&steps, steps.layer() + 1.0);
            if part.is_multiple_of(2) { loss.updating(&mean, Layer::constant(0.1 * part as f64)) } else { loss }
        };
        Parts::sum((0..parts).map(loss)).train(&Sgd::new(1e-3)).wait().unwrap();
        let even: Vec<f64> = (0..parts).step_by(2).map(|part| 0.1 * part as f64).collect();
        let exact = even.iter().sum::<f64>() / even.len() as f64;
        assert!((mean.value() - exact).abs() < 1e-14, "{} instead of {exact}", mean.value());
        assert_eq!(steps.value(), steps_before + 1.0); // equal values stay what they are
    }
}

/// Data without arithmetic.
#[derive(Clone, Debug, PartialEq)]
struct Word(&'static str);

impl Data for Word {
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }
}

#[test]
fn buffer_without_mean_is_written_by_one_part_only() {
    let (w, word) = (Weight::new(1.0_f64), Buffer::new(Word("none")));
    let loss = |word_of: fn(usize) -> Option<Word>| {
        let (w, word) = (w.clone(), word.clone());
        Parts::sum((0..3).map(move |part| match word_of(part) {
            Some(new) => (&w * 1.0).updating(&word, Layer::constant(new)),
            None => &w * 1.0,
        }))
    };
    let error = loss(|_| Some(Word("each"))).train(&Sgd::new(0.5)).wait().unwrap_err();
    assert!(error.to_string().contains("written twice"), "{error}");
    assert_eq!((w.value(), word.value()), (1.0, Word("none")));
    loss(|part| (part == 1).then_some(Word("one"))).train(&Sgd::new(0.5)).wait().unwrap();
    assert_eq!((w.value(), word.value()), (-0.5, Word("one")));
}

#[test]
fn buffer_written_twice_in_one_part_is_error() {
    let (w, mean) = (Weight::new(1.0_f64), Buffer::new(0.0_f64));
    let twice = |_: usize| {
        let once = (&w * 1.0).updating(&mean, Layer::constant(1.0));
        once.clone() + (&w * 2.0).updating(&mean, Layer::constant(3.0))
    };
    for parts in [1, 2] {
        let error = Parts::sum((0..parts).map(twice)).train(&Sgd::new(0.5)).wait().unwrap_err();
        assert!(error.to_string().contains("written twice"), "{error}");
        assert_eq!((w.value(), mean.value()), (1.0, 0.0));
    }
}

#[test]
fn failed_part_changes_nothing_and_is_named() {
    let (net, buffer, adam) = (net(), Buffer::new(1.0_f32), Adam::new(0.1));
    let before = bits(&net);
    for at_once in [1, 4] {
        let parts = (0..4).map(|part| match part {
            0 | 1 => loss(&net, part).updating(&buffer, buffer.layer() * 2.0),
            _ => Layer::from(Do::<f32>::fail(Error::invalid(format!("sample {part} is broken")))),
        });
        let error = Parts::sum(parts).at_once(at_once).train(&adam).wait().unwrap_err();
        assert!(error.to_string().starts_with("part 2: ") && error.to_string().contains("sample 2"), "{error}");
        assert_eq!((bits(&net), buffer.value(), adam.memory().unwrap().is_empty()), (before.clone(), 1.0, true));
    }
    assert!(Parts::<f32>::sum(Vec::<Layer<f32>>::new()).train(&adam).wait().unwrap_err().is_invalid());
}

/// The seeds that the parts of a step draw.
fn drawn(step: u64, parts: usize, at_once: usize) -> Vec<Vec<u64>> {
    let seen: Vec<Buffer<Seed>> =
        (0..2 * parts).map(|_| Buffer::new(Seed::draw().predict().seed(0).wait().unwrap())).collect();
    let w = Weight::new(1.0_f64);
    let loss =
        |part: usize| (&w * 1.0).updating(&seen[2 * part], Seed::draw()).updating(&seen[2 * part + 1], Seed::draw());
    Parts::sum((0..parts).map(loss)).at_once(at_once).train(&Sgd::new(0.1)).seed(step).wait().unwrap();
    seen.chunks(2).map(|two| two.iter().map(|seed| seed.value().get()).collect()).collect()
}

#[test]
fn each_part_draws_its_own_numbers() {
    let draws = drawn(7, 3, 1);
    let mut all: Vec<u64> = draws.concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 6);
    // they depend on the seed of the step and the number of the part, and on nothing else
    assert_eq!(drawn(7, 3, 3), draws);
    assert_eq!(drawn(7, 5, 2)[..3], draws);
    assert!(drawn(8, 3, 1).iter().zip(&draws).all(|(other, this)| other != this));
    // part 0 is a step without parts
    let (w, seen) = (Weight::new(1.0_f64), Buffer::new(Seed::draw().predict().seed(0).wait().unwrap()));
    (&w * 1.0).updating(&seen, Seed::draw()).train(&Sgd::new(0.1)).seed(7).wait().unwrap();
    assert_eq!(seen.value().get(), draws[0][0]);
}

#[test]
fn parts_are_evaluated_one_after_other_and_release_their_values() {
    #[derive(Clone)]
    struct Large(Arc<AtomicUsize>, Arc<AtomicUsize>);
    /// Counts the values that are alive.
    #[derive(Debug)]
    struct Alive(Arc<AtomicUsize>);
    impl Clone for Alive {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, SeqCst);
            Alive(self.0.clone())
        }
    }
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }
    impl Data for Alive {
        type Delta = Nothing;
        fn one(&self) -> Nothing {
            Nothing
        }
    }
    impl dl_core::Primitive for Large {
        type Operands = (Layer<f64>,);
        type Output = Alive;
        fn name(&self) -> &'static str {
            "large"
        }
        fn value(&self, _: (&f64,)) -> Result<Alive> {
            let alive = self.0.fetch_add(1, SeqCst) + 1;
            self.1.fetch_max(alive, SeqCst);
            Ok(Alive(self.0.clone()))
        }
        fn pullback(&self, _: &dl_core::At<'_, Self>) -> dl_core::Deltas<Self> {
            (None,)
        }
    }
    /// x, given a large value.
    struct With;
    impl dl_core::Primitive for With {
        type Operands = (Layer<f64>, Layer<Alive>);
        type Output = f64;
        fn name(&self) -> &'static str {
            "with"
        }
        fn value(&self, (x, _): (&f64, &Alive)) -> Result<f64> {
            Ok(*x)
        }
        fn pullback(&self, at: &dl_core::At<'_, Self>) -> dl_core::Deltas<Self> {
            (Some(at.delta.clone()), None)
        }
    }
    let (alive, most, w) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Weight::new(1.0_f64));
    let loss = |part: usize| {
        let large = Layer::apply(Large(alive.clone(), most.clone()), (&w * part as f64,));
        Layer::apply(With, (&w * 2.0, large))
    };
    Parts::sum((0..16).map(loss)).train(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!((alive.load(SeqCst), most.load(SeqCst)), (0, 1));
}

#[test]
fn step_inside_of_pass_and_gradients_of_parts_compose() {
    let (net, twin) = (net(), net());
    let nested = Do::from_fn({
        let net = net.clone();
        move || {
            let net = net.clone();
            async move { Parts::sum(losses(&net, 3)).train(&Sgd::new(0.1)).await }
        }
    });
    nested.seed(1).wait().unwrap();
    let (_, effects) = Parts::sum(losses(&twin, 3)).value_and_backward().wait().unwrap();
    (effects + SideEffects::none()).step(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(bits(&net), bits(&twin));
}
