//! A failure on one rank is an error on all of them, and changes nothing on any.

use super::faults::{Fault, Line, Shared};
use super::support::Net;
use dl_core::{
    Chunk, Differentiable, Do, Error, Layer, Memory, Optimizer, Participant, Result, Slot, Step, Tape, Weight,
};
use dl_dist::Cluster;
use dl_optim::schedule::Cosine;
use dl_optim::{Adam, Groups, OptimizerExt, Sgd};
use std::sync::Arc;

/// Runs a step that must fail on all ranks with the same error and change nothing, between two steps
/// that succeed. Returns the error.
fn refused<O: Optimizer + Clone + 'static>(
    ranks: usize,
    optimizer: impl Fn(&Cluster) -> O + Sync,
    loss: impl Fn(&Cluster, &Net, usize) -> Layer<f32> + Sync,
) -> Error {
    let errors = Cluster::run_on(ranks, |cluster| {
        let (net, optimizer, adam) = (Net::new()?, optimizer(cluster), Adam::new(0.01));
        cluster.mean(4, |part| net.loss(part)).seed(1).train(&net, &adam)?;
        let before = net.bits();
        let error = cluster.mean(4, |part| loss(cluster, &net, part)).seed(2).train(&net, &optimizer).unwrap_err();
        assert!(net.bits() == before, "a refused step changes nothing on rank {}", cluster.rank());
        cluster.mean(4, |part| net.loss(part)).seed(2).train(&net, &adam)?;
        assert!(net.bits() != before && adam.memory().unwrap().steps() == 2);
        cluster.compare(&net)?;
        Ok(error)
    })
    .unwrap();
    for error in &errors {
        assert_eq!(error.to_string(), errors[0].to_string());
    }
    errors[0].clone()
}

#[test]
fn error_in_part_is_error_on_all_ranks() {
    for ranks in [2, 3] {
        let fails = |_: &Cluster, net: &Net, part: usize| match part {
            0 => net.loss(part),
            _ => Layer::from(Do::<f32>::fail(Error::shape(format!("sample {part} is broken")))),
        };
        let error = refused(ranks, |_| Adam::new(0.01), fails);
        assert!(error.is_shape() && error.to_string().contains("sample 1 is broken"), "{error}");
        assert!(error.to_string().contains("part 1") && error.to_string().contains("failures.rs"), "{error}");
    }
}

#[test]
fn panic_in_part_is_error_on_all_ranks() {
    let falls_over = |_: &Cluster, net: &Net, part: usize| match part {
        3 => Layer::dynamic(|| async { panic!("the part falls over") }),
        _ => net.loss(part),
    };
    let error = refused(2, |_| Adam::new(0.01), falls_over);
    assert!(error.is_panic() && error.to_string().contains("rank 1: part 3"), "{error}");
}

/// An optimizer that refuses every step on one rank.
#[derive(Clone)]
pub(crate) struct Refusing(pub(crate) Adam, pub(crate) bool);

impl Optimizer for Refusing {
    fn memory(&self) -> Option<&Memory> {
        self.0.memory()
    }

    fn slots(&self) -> &[Slot] {
        self.0.slots()
    }

    fn begin<'o>(&'o self, step: &Step<'_>) -> Result<Option<Box<dyn Optimizer + 'o>>> {
        if self.1 { Err(Error::invalid("the optimizer refuses")) } else { self.0.begin(step) }
    }

    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        self.0.step(chunk, steps)
    }
}

#[test]
fn refusal_of_one_optimizer_is_error_on_all_ranks() {
    for refusing in 0..3 {
        let optimizer = |cluster: &Cluster| Refusing(Adam::new(0.01), cluster.rank() == refusing);
        let error = refused(3, optimizer, |_, net, part| net.loss(part));
        assert!(error.to_string().contains(&format!("rank {refusing}: the optimizer refuses")), "{error}");
    }
}

#[test]
fn optimizers_with_other_counts_of_steps_are_error() {
    let optimizer = |cluster: &Cluster| {
        let adam = Adam::new(0.01);
        if cluster.rank() == 1 {
            Weight::new(1.0_f32).train(&adam).wait().unwrap();
        }
        adam
    };
    let error = refused(2, optimizer, |_, net, part| net.loss(part));
    assert!(error.to_string().contains("the optimizer of rank 1 has taken 1 steps"), "{error}");
}

/// Refuses every step.
struct No;

impl Participant for No {
    fn vote<'a>(&'a self, _: &Step<'_>) -> Result<Box<dyn FnOnce() + 'a>> {
        Err(Error::invalid("the participant refuses"))
    }
}

#[test]
fn refusal_of_participant_of_one_part_is_error_on_all_ranks() {
    let with_participant = |_: &Cluster, net: &Net, part: usize| match part {
        2 => {
            let far = Layer::from(
                Do::now(()).map(|()| Tape::new(1.0_f32, |_| dl_core::SideEffects::none().enlist(Arc::new(No)))),
            );
            net.loss(part) * far
        }
        _ => net.loss(part),
    };
    let error = refused(2, |_| Adam::new(0.01), with_participant);
    assert!(error.to_string().contains("rank 1: the participant refuses"), "{error}");
}

#[test]
fn weight_outside_of_module_is_error_on_all_ranks() {
    for ranks in [1, 2] {
        let outside = Weight::new(1.0_f32);
        let error = refused(ranks, |_| Adam::new(0.01), |_, net, part| net.loss(part) * &outside);
        assert!(error.to_string().contains("outside of this module"), "{error}");
        assert_eq!(outside.value(), 1.0);
    }
}

#[test]
fn rank_that_panics_or_ends_early_ends_the_others() {
    let train = |cluster: &Cluster, w: &Weight<f64>| cluster.sum(3, |part| w * part as f64).train(w, &Sgd::new(0.1));
    let error = Cluster::run_on(3, |cluster| {
        let w = Weight::new(1.0_f64);
        assert!(cluster.rank() != 1, "rank one gives up");
        train(cluster, &w)
    })
    .unwrap_err();
    assert!(error.is_panic() && error.to_string().contains("rank 1: panicked: rank one gives up"), "{error}");

    let error = Cluster::run_on(2, |cluster| {
        let w = Weight::new(1.0_f64);
        train(cluster, &w)?;
        let second = if cluster.rank() == 0 { train(cluster, &w).map(drop) } else { Ok(()) };
        assert_eq!(w.value(), 1.0 - 0.1 * 3.0);
        second
    })
    .unwrap_err();
    assert!(error.to_string().contains("rank 1 has ended"), "{error}");
}

#[test]
fn step_with_other_kind_of_optimizer_is_error() {
    let error = Cluster::run_on(2, |cluster| {
        let w = Weight::new(1.0_f64);
        let step = cluster.sum(2, |_| &w * 1.0);
        let ended = if cluster.rank() == 0 { step.train(&w, &Sgd::new(0.1)) } else { step.train(&w, &Adam::new(0.1)) };
        assert_eq!(w.value(), 1.0);
        ended
    });
    assert!(error.unwrap_err().to_string().contains("rank 1 takes a step by Adam, and rank 0 one by Sgd"));
}

#[test]
fn step_with_other_settings_of_optimizer_is_error_on_all_ranks() {
    type Net = [Weight<f64>; 2];
    fn refused<O: Optimizer + Clone + 'static>(optimizer: impl Fn(usize, &Net) -> O + Sync, at: usize) -> String {
        let ended = Cluster::run_on(3, |cluster| {
            let net = [1.0, 2.0].map(Weight::new);
            let optimizer = optimizer(cluster.rank(), &net);
            for step in 0..=at {
                let before = net.each_ref().map(Weight::value);
                let taken = cluster.sum(3, |_| &net[0] * 4.0 * &net[1]).train(&net, &optimizer);
                let is_same = net.each_ref().map(Weight::value) == before;
                assert_eq!((taken.is_err(), is_same), (step == at, step == at), "{taken:?}");
                if let Err(error) = taken {
                    assert!(error.to_string().contains("settings differ"), "{error}");
                    return Ok(error.to_string());
                }
            }
            unreachable!("the last step is refused")
        });
        let texts = ended.unwrap();
        texts.iter().for_each(|text| assert_eq!(*text, texts[0]));
        texts[0].clone()
    }
    refused(|rank, _| Sgd::new(if rank == 2 { 0.1 } else { 0.2 }), 0);
    refused(|rank, _| Sgd::new(0.1).momentum(if rank == 1 { 0.9 } else { 0.0 }), 0);
    refused(|rank, _| Adam::new(if rank == 0 { 0.1 } else { 0.1 + 1e-12 }), 0);
    refused(|rank, _| Adam::new(Cosine::new(0.1, if rank == 1 { 50 } else { 60 })), 1);
    refused(|rank, _| Sgd::new(0.1).clip_norm(if rank == 1 { 1.0 } else { 2.0 }), 0);

    // a group with a rule of its own
    let in_group = |rate: f64| move |net: &Net| Groups::new(Sgd::new(0.1)).with([&net[1]], Sgd::new(rate));
    let text = refused(|rank, net| in_group(if rank == 2 { 0.3 } else { 0.2 })(net), 0);
    assert!(text.contains("rank 2 and rank 0 would change the weight `1`"), "{text}");
    refused(|rank, net| in_group(0.2)(net).clip_norm(if rank == 1 { 1.0 } else { 2.0 }), 0);
    let scheduled = |rank| Adam::new(Cosine::new(0.1, if rank == 1 { 50 } else { 60 }));
    refused(|rank, net| Groups::new(Adam::new(0.1)).with([&net[1]], scheduled(rank)), 1);
    // another weight in the group
    refused(|rank, net| Groups::new(Sgd::new(0.1)).with([&net[usize::from(rank == 1)]], Sgd::new(0.2)), 0);
}

#[test]
fn ranks_that_do_different_things_get_error_that_names_both() {
    let error = Cluster::run_on(2, |cluster| {
        let w = Weight::new(1.0_f64);
        match cluster.rank() {
            0 => cluster.sum(2, |_| &w * 1.0).train(&w, &Sgd::new(0.1)).map(drop),
            _ => cluster.compare(&w),
        }
    });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("rank 1 compares a module, and rank 0 begins a step: all ranks must do the same"), "{text}");
}

#[test]
fn other_number_of_parts_is_error() {
    let error = Cluster::run_on(2, |cluster| {
        let w = Weight::new(1.0_f64);
        let ended = cluster.sum(2 + cluster.rank(), |part| &w * part as f64).train(&w, &Sgd::new(0.1));
        assert_eq!(w.value(), 1.0);
        ended
    });
    assert!(error.unwrap_err().to_string().contains("parts"));
}

#[test]
fn lost_message_leaves_whole_steps_only() {
    // three steps have twelve messages; after the last one nothing is lost
    for lost in 0..=12 {
        let shared = Arc::new(Shared::default());
        let run = |rank| {
            let engine = Line::new(rank, lost, Fault::Fail, &shared);
            move || {
                let (cluster, w) = (Cluster::with(engine), Weight::new(1.0_f64));
                let step = |_: usize| cluster.sum(4, |part| &w * part as f64).train(&w, &Sgd::new(0.1)).is_ok();
                let taken = (0..3).take_while(|&number| step(number)).count();
                (taken, w.value())
            }
        };
        let (one, two) = (run(0), run(1));
        let [one, two] =
            std::thread::scope(|scope| [scope.spawn(one), scope.spawn(two)].map(|thread| thread.join().unwrap()));
        assert_eq!(one, two, "message {lost} is lost");
        assert_eq!(one.0, if lost == 12 { 3 } else { lost / 4 });
        let mut expected = 1.0;
        (0..one.0).for_each(|_| expected -= 0.1 * 6.0);
        assert!((one.1 - expected).abs() < 1e-12);
    }
}
