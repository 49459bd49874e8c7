//! Errors of other ranks: they name the rank, the line there and the line of the call, and nothing
//! changes.

use super::failures::Refusing;
use super::support::{Expert, bits_of};
use dl_core::{Differentiable, Layer, Module, Participant, Result, Step, Visitor, Weight};
use dl_dist::{Cluster, Placed, remote};
use dl_nd::{Nd, NdLayer, ops::*};
use dl_nn::Block;
use dl_optim::Adam;
use std::sync::{Arc, Mutex};

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Shape,
    Panic,
    PanicWhileBuilding,
    Backward,
}

#[derive(Clone)]
struct Broken(Expert, Fault);

impl Module for Broken {
    fn visit(&self, visitor: &mut Visitor) {
        self.0.visit(visitor);
    }
}

const LINE_OF_BLOCK: u32 = line!() + 4;

#[remote(crate = dl_dist)]
impl Block for Broken {
    fn of(&self, x: &NdLayer) -> NdLayer {
        match self.1 {
            Fault::Shape => self.0.of(x).reshape([7, 11]),
            Fault::Panic => Layer::dynamic(|| async { panic!("the expert falls over") }),
            Fault::PanicWhileBuilding => panic!("the expert falls over"),
            Fault::Backward => self.0.of(x).with_rule(
                |y| y.clone(),
                |_, _, _| Layer::dynamic(|| async { Err(dl_core::Error::not_finite("the derivative is not finite")) }),
            ),
        }
    }
}

#[test]
fn error_of_remote_expert_names_rank_and_both_lines() -> Result<()> {
    for fault in [Fault::Shape, Fault::Panic, Fault::PanicWhileBuilding, Fault::Backward] {
        Cluster::run_on(2, |cluster| {
            let far = cluster.place(1, || Ok(Broken(Expert::new(0)?, fault)))?;
            let (near, adam) = (Weight::new(1.0_f32), Adam::new(0.01));
            cluster.set_optimizer(&adam)?;
            if cluster.rank() == 1 {
                return Ok(());
            }
            let before = bits_of(&far);
            let x: NdLayer = Layer::constant(Nd::full([1, 6], 0.5));
            let line = line!() + 1;
            let loss = far.of(&(&x * &near)).square().mean();
            let error = loss.train(&adam).wait().unwrap_err();
            let text = error.to_string();
            assert!(text.contains("rank 1") && text.contains(&format!("errors.rs:{line}:")), "{text}");
            match fault {
                Fault::Shape => {
                    assert!(error.is_shape() && text.contains(&format!("errors.rs:{LINE_OF_BLOCK}:")), "{text}");
                }
                Fault::Backward => assert!(error.is_not_finite(), "{text}"),
                Fault::Panic | Fault::PanicWhileBuilding => {
                    assert!(error.is_panic() && text.contains("the expert falls over"), "{text}");
                }
            }
            assert!(near.value() == 1.0 && bits_of(&far) == before);
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn refusal_of_optimizer_on_other_rank_changes_nothing() -> Result<()> {
    for refusing in [0, 1, 2] {
        Cluster::run_on(3, |cluster| {
            let experts: Vec<Placed<Expert>> = cluster.spread(0..3, Expert::new)?;
            let near = Weight::new(1.0_f32);
            let adam = Adam::new(0.01);
            cluster.set_optimizer(&Refusing(adam.clone(), cluster.rank() == refusing))?;
            cluster.compare(&near)?;
            if cluster.rank() == 0 {
                let x: NdLayer = Layer::constant(Nd::full([1, 6], 0.5));
                let of = |number: usize| experts[number].of(&(&x * &near)).square().mean();
                let before = bits_of(&experts);
                let step = (of(0) + of(1) + of(2)).train(&Refusing(adam.clone(), refusing == 0)).wait();
                let text = step.unwrap_err().to_string();
                assert!(text.contains("the optimizer refuses"), "{text}");
                assert!(refusing == 0 || text.contains(&format!("rank {refusing}")), "{text}");
                assert!(near.value() == 1.0 && bits_of(&experts) == before);
                // A step on the others is taken.
                let others = (0..3).filter(|&number| number == 0 || number != refusing);
                others.map(of).sum::<Layer<f32>>().train(&adam).wait()?;
                assert!(near.value() != 1.0 && bits_of(&experts) != before);
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn rank_without_optimizer_refuses_step() -> Result<()> {
    Cluster::run_on(2, |cluster| {
        let far = cluster.place(1, || Expert::new(0))?;
        if cluster.rank() == 0 {
            let x: NdLayer = Layer::constant(Nd::full([1, 6], 0.5));
            let error = far.of(&x).square().mean().train(&Adam::new(0.01)).wait().unwrap_err();
            assert!(error.to_string().contains("rank 1: there is no optimizer"), "{error}");
        }
        Ok(())
    })?;
    Ok(())
}

#[test]
fn transformation_around_clip_norm_is_refused_across_ranks() -> Result<()> {
    use dl_optim::OptimizerExt;
    Cluster::run_on(2, |cluster| {
        let far = cluster.place(1, || Expert::new(0))?;
        let adam = Adam::new(0.01).clip_norm(1.0).weight_decay(0.1);
        cluster.set_optimizer(&adam)?;
        if cluster.rank() == 0 {
            let x: NdLayer = Layer::constant(Nd::full([1, 6], 0.5));
            let error = far.of(&x).square().mean().train(&adam).wait().unwrap_err();
            assert!(error.to_string().contains("call `clip_norm` last"), "{error}");
        }
        Ok(())
    })?;
    Ok(())
}

#[test]
fn failing_or_different_placement_is_error_on_all_ranks() {
    let ended = Cluster::run_on(2, |cluster| {
        let placed = cluster.place(1, || -> Result<Expert> { Err(dl_core::Error::invalid("too large")) });
        assert!(placed.unwrap_err().to_string().contains("rank 1: too large"));
        cluster.spread(cluster.rank()..2, Expert::new).map(drop)
    });
    assert!(ended.unwrap_err().to_string().contains("place other modules"));
    let ended = Cluster::run_on(2, |cluster| match cluster.rank() {
        0 => cluster.set_optimizer(&Adam::new(0.01)),
        _ => cluster.set_optimizer(&dl_optim::Sgd::new(0.01)),
    });
    assert!(ended.unwrap_err().to_string().contains("rank 1 sets the optimizer Sgd, and rank 0 sets Adam"));
}

/// Takes another step in its vote.
struct Nested(Layer<f32>, Adam, Mutex<Option<String>>);

impl Participant for Nested {
    fn vote<'a>(&'a self, _: &Step<'_>) -> Result<Box<dyn FnOnce() + 'a>> {
        let error = self.0.train(&self.1).wait().unwrap_err();
        *self.2.lock().unwrap() = Some(error.to_string());
        Ok(Box::new(|| ()))
    }
}

#[test]
fn second_step_of_owner_before_decision_is_refused() -> Result<()> {
    Cluster::run_on(2, |cluster| {
        let far = [cluster.place(1, || Expert::new(0))?, cluster.place(1, || Expert::new(1))?];
        let adam = Adam::new(0.01);
        cluster.set_optimizer(&adam)?;
        if cluster.rank() == 0 {
            let x: NdLayer = Layer::constant(Nd::full([1, 6], 0.5));
            let loss = |far: &Placed<Expert>| far.of(&x).square().mean();
            let before = [bits_of(&far[0]), bits_of(&far[1])];
            let nested = Arc::new(Nested(loss(&far[1]), Adam::new(0.01), Mutex::default()));
            loss(&far[0]).backward().wait()?.enlist(nested.clone()).step(&adam).wait()?;
            let error = nested.2.lock().unwrap().take().expect("it was asked");
            assert!(error.contains("rank 1") && error.contains("one step at a time"), "{error}");
            assert!(bits_of(&far[0]) != before[0] && bits_of(&far[1]) == before[1]);
            loss(&far[1]).train(&adam).wait()?;
            assert!(bits_of(&far[1]) != before[1]);
        }
        Ok(())
    })?;
    Ok(())
}

#[test]
fn owner_that_fails_ends_calls_of_others() {
    let ended = Cluster::run_on(2, |cluster| {
        let far = cluster.place(1, || Expert::new(0))?;
        if cluster.rank() == 1 {
            return Err(dl_core::Error::invalid("rank one gives up"));
        }
        let x: NdLayer = Layer::constant(Nd::full([1, 6], 0.5));
        loop {
            far.of(&x).predict().wait()?; // ends with an error
        }
        #[allow(unreachable_code, reason = "the type of the result")]
        Ok(())
    });
    assert!(ended.unwrap_err().to_string().contains("rank 1: rank one gives up"));
}

#[test]
fn error_that_travels_has_number_of_one_rank() {
    for failing in 0..3 {
        let ended = Cluster::run_on(3, |cluster| {
            let w = Weight::new(1.0_f64);
            let loss = |part: usize| match part == failing {
                true => Layer::from(dl_core::Do::<f64>::fail(dl_core::Error::invalid("no such sample"))),
                false => &w * 2.0,
            };
            cluster.sum(3, loss).train(&w, &Adam::new(0.1))
        });
        let text = ended.unwrap_err().to_string();
        assert!(text.starts_with(&format!("rank {failing}: part {failing}: ")), "{text}");
        assert_eq!(text.matches("rank ").count(), 1, "{text}");
    }
}

#[test]
fn error_whose_text_begins_as_that_of_another_rank_gets_its_own_rank() {
    let ended = Cluster::run_on(2, |cluster| match cluster.rank() {
        0 => cluster.compare(&Weight::new(1.0_f64)).map_err(|error| error.context("comparing")),
        _ => cluster.compare::<Weight<f64>>(&Weight::new(1.0)).and(Err(dl_core::Error::invalid("rank 7: of my own"))),
    });
    let error = ended.unwrap_err();
    assert_eq!((error.rank(), error.to_string()), (Some(1), "rank 1: rank 7: of my own".to_owned()));

    let ended = Cluster::run_on(2, |cluster| {
        let w = Weight::new(1.0_f64);
        let loss = |part: usize| match part {
            1 => Layer::from(dl_core::Do::<f64>::fail(dl_core::Error::invalid("no such sample"))),
            _ => &w * 2.0,
        };
        let error = cluster.sum(2, loss).train(&w, &Adam::new(0.1)).unwrap_err();
        assert_eq!(error.rank(), Some(1));
        Err::<(), _>(error.context("epoch 3"))
    });
    let error = ended.unwrap_err();
    assert!(error.rank() == Some(1) && error.to_string().starts_with("epoch 3: rank 1: part 1: "), "{error}");
}
