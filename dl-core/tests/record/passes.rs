//! Which passes are recorded, and that recording has no side effects.

use super::support::{RULE, checked, counted, magnitude, names, on_threads, record, twice};
use dl_core::record::{Direction, Recorder, SpanWork};
use dl_core::{Differentiable, Do, Layer, Weight};
use dl_optim::{Adam, Sgd};

/// A small network with dynamic nodes, random numbers and checkpoints.
fn loss(weights: &[Weight<f64>], x: f64) -> Layer<f64> {
    let noise = dl_core::Seed::draw();
    let noise = Layer::dynamic(move || {
        let noise = noise.clone();
        async move { Ok(Layer::constant((noise.extract().await?.get() % 7) as f64)) }
    });
    let hidden: Vec<Layer<f64>> = weights.iter().map(|w| magnitude(twice(w * x)).tanh().checkpoint()).collect();
    (hidden.into_iter().sum::<Layer<f64>>() - 0.1 * noise).square()
}

#[test]
fn recording_changes_neither_results_nor_counters() {
    let train = |threads: usize, recorder: Option<&Recorder>| {
        on_threads(threads, || {
            let weights: Vec<Weight<f64>> = (0..8).map(|at| Weight::new(0.3 - 0.1 * f64::from(at))).collect();
            let adam = Adam::new(0.01);
            let mut counts = Vec::new();
            for step in 0..20_u32 {
                let run = loss(&weights, 1.0 / f64::from(1 + step)).train(&adam).seed(step.into());
                let run = recorder.map_or(run.clone(), |recorder| run.recorded(recorder));
                let (_, counters) = run.counted().wait().unwrap();
                counts.push((counters.nodes, counters.evaluations));
            }
            (weights.iter().map(|w| w.value().to_bits()).collect::<Vec<_>>(), counts)
        })
    };
    let plain = train(1, None);
    for threads in [1, 2] {
        let recorder = Recorder::new();
        assert_eq!(train(threads, Some(&recorder)), plain, "{threads} threads");
        let recording = checked(recorder.take());
        let nodes = recording.passes.iter().map(counted);
        assert!(nodes.eq(plain.1.iter().map(|&(nodes, _)| nodes)));
    }
}

#[test]
fn concurrent_passes_have_separate_records() {
    let (recorder, w) = (Recorder::new(), Weight::new(1.0_f64));
    let (few, many) = (twice(w.layer()), (0..50).fold(w.layer(), |y, _| twice(y)));
    std::thread::scope(|scope| {
        for y in [&few, &many] {
            scope.spawn(|| {
                for _ in 0..20 {
                    y.predict().recorded(&recorder).wait().unwrap();
                }
            });
        }
    });
    let recording = checked(recorder.take());
    let mut sizes: Vec<usize> = recording.passes.iter().map(|pass| pass.nodes.len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [[2; 20], [51; 20]].concat());
    assert!(recording.passes.iter().all(|pass| pass.spans.iter().all(|span| span.thread < 2)));
}

#[test]
fn nested_passes_are_recorded() {
    let (recorder, w) = (Recorder::new(), Weight::new(2.0_f64));
    let outer = Layer::dynamic(move || {
        let w = w.clone();
        async move {
            let inner = twice(w.layer()).predict().await?;
            let waited = twice(w.layer() + inner).predict().wait()?;
            Ok(w.sin() + waited)
        }
    });
    outer.predict().recorded(&recorder).wait().unwrap();
    let recording = checked(recorder.take());
    let [around, first, second] = &recording.passes[..] else { panic!("{recording:?}") };
    assert_eq!((names(first), names(second)), (vec!["weight", "twice"], vec!["weight", "add", "twice"]));
    assert!(names(around).contains(&"sin"));
    assert!(first.ended <= second.began && second.ended <= around.ended);
    outer.predict().wait().unwrap();
    assert!(recorder.take().passes.is_empty(), "the pass was not recorded");
}

#[test]
fn backward_and_step_in_parts_are_recorded() {
    let (recorder, w) = (Recorder::new(), Weight::new(1.0_f64));
    let effects = twice(w.layer()).square().backward().recorded(&recorder).wait().unwrap();
    let doubled = 2.0 * effects.clone() + effects;
    doubled.step(&Sgd::new(0.1)).recorded(&recorder).wait().unwrap();
    assert!(w.value() < 1.0);
    let recording = checked(recorder.take());
    let works: Vec<Vec<SpanWork>> =
        recording.passes.iter().map(|pass| pass.spans.iter().map(|span| span.work).collect()).collect();
    assert!(works[0].contains(&SpanWork::Backward) && works[0].contains(&SpanWork::Kernel), "{works:?}");
    assert_eq!(works[1], [SpanWork::Commit]);
    let nodes = recording.passes[0].nodes.iter();
    let backward: Vec<_> = nodes.filter(|node| node.direction == Direction::Backward).collect();
    assert!(backward.len() >= 3);
    assert!(backward.iter().all(|node| [file!(), RULE].contains(&node.place.file())), "{backward:?}");
}

#[test]
fn pass_resumed_after_take_begins_new_record() {
    let (recorder, w) = (Recorder::new(), Weight::new(1.0_f64));
    let tape = twice(w.layer()).forward().recorded(&recorder).wait().unwrap();
    let first = checked(recorder.take());
    assert_eq!(first.passes.iter().map(names).collect::<Vec<_>>(), [["weight", "twice"]]);
    tape.backward(Do::now(1.0)).step(&Sgd::new(0.25)).wait().unwrap();
    assert_eq!(w.value(), 0.5);
    let second = checked(recorder.take());
    let [pass] = &second.passes[..] else { panic!("{second:?}") };
    assert!(names(pass).len() > 2 && names(pass).contains(&"twice"));
    assert!(pass.spans.iter().any(|span| span.work == SpanWork::Backward));
    assert!(pass.spans.iter().any(|span| span.work == SpanWork::Commit), "the step belongs to the pass of the tape");
}

#[test]
fn pass_outlives_its_recorder() {
    let w = Weight::new(1.0_f64);
    let run = twice(w.layer()).predict().recorded(&Recorder::new());
    assert_eq!(run.wait().unwrap(), 2.0);
    assert!(format!("{:?}", Recorder::new()).contains("passes: 0"));
    assert_eq!(record(run).1.nodes.len(), 2);
}
