//! Programs at the edges of what is allowed: fewer parts than ranks, no rows, no numbers,
//! several clusters, modules that are called after their program has ended.

use super::support::{Expert, Net, bits_of};
use dl_core::{Differentiable, Error, Layer, Module, Result, Visitor, Weight};
use dl_dist::{Cluster, Placed};
use dl_nd::ndarray::Ix2;
use dl_nd::{Nd, NdLayer, NdWeight, init, ops::*};
use dl_nn::{Block, Linear};
use dl_optim::{Adam, Sgd};
use dl_train::Trainer;
use std::sync::Mutex;

fn trained(cluster: &Cluster, parts: usize) -> Result<(Vec<f32>, Vec<u32>)> {
    let (net, adam) = (Net::new()?, Adam::new(0.01));
    let mut losses = Vec::new();
    for step in 0..3 {
        losses.extend(cluster.mean(parts, |part| net.loss(part)).seed(step).train(&net, &adam)?);
    }
    cluster.compare(&net)?;
    Ok((losses, net.bits()))
}

#[test]
fn rank_without_part_takes_part_in_step() -> Result<()> {
    for parts in [1, 3] {
        let alone = Cluster::run_on(1, |cluster| trained(cluster, parts))?.swap_remove(0);
        for ranks in [5, 7] {
            assert_eq!(Cluster::run_on(ranks, |cluster| trained(cluster, parts))?, vec![alone.clone(); ranks]);
        }
    }
    Ok(())
}

#[test]
fn step_without_parts_is_error_on_all_ranks() {
    for ranks in [1, 3] {
        let errors = Cluster::run_on(ranks, |cluster| Ok(trained(cluster, 0).unwrap_err().to_string()));
        let errors = errors.unwrap();
        assert!(errors.iter().all(|error| *error == errors[0] && error.contains("part")), "{errors:?}");
    }
}

/// Weights with no numbers beside those that are summed in slices.
struct Wide {
    none: NdWeight<Ix2>,
    wide: Linear,
    last: NdWeight<Ix2>,
}

impl Module for Wide {
    fn visit(&self, visitor: &mut Visitor) {
        visitor.field("none", &self.none);
        visitor.field("wide", &self.wide);
        visitor.field("last", &self.last);
    }
}

#[test]
fn part_without_rows_and_weight_without_numbers_have_bits_of_one_process() -> Result<()> {
    let run = |cluster: &Cluster| {
        let empty = || NdWeight::<Ix2>::new(init::zeros([0, 3]));
        let net = Wide { none: empty(), wide: Linear::new(200, 200, &mut init::rng(1))?, last: empty() };
        let adam = Adam::new(0.01);
        for step in 0..2 {
            let loss = |part: usize| {
                let x: NdLayer = Layer::constant(Nd::full([part % 3, 200], 0.5)); // parts 0 and 3 have no rows
                net.wide.of(&x).square().sum() + net.none.square().sum() + net.last.square().sum()
            };
            cluster.sum(5, loss).seed(step).train(&net, &adam)?;
        }
        cluster.compare(&net)?;
        Ok(bits_of(&net))
    };
    let alone = Cluster::run_on(1, run)?.swap_remove(0);
    for ranks in [2, 3, 5] {
        assert_eq!(Cluster::run_on(ranks, run)?, vec![alone.clone(); ranks]);
    }
    Ok(())
}

#[test]
fn remote_expert_with_no_rows_has_value_and_derivatives() -> Result<()> {
    Cluster::run_on(2, |cluster| {
        let (far, adam, near) = (cluster.place(1, || Expert::new(0))?, Adam::new(0.1), Weight::new(1.0_f32));
        cluster.set_optimizer(&adam)?;
        if cluster.rank() == 0 {
            let x: NdLayer = Layer::constant(Nd::full([0, 6], 0.5));
            let y = far.of(&(&x * &near));
            assert_eq!(y.predict().wait()?.shape(), [0, 6]);
            assert_eq!((y.square().sum() + &near * 2.0).train(&adam).wait()?, 2.0);
            assert!(near.value() != 1.0);
        }
        Ok(())
    })?;
    Ok(())
}

#[test]
fn clusters_of_one_process_are_independent() -> Result<()> {
    let alone = Cluster::run_on(1, |cluster| trained(cluster, 4))?.swap_remove(0);
    std::thread::scope(|scope| {
        let all: Vec<_> = [2, 3].map(|ranks| scope.spawn(move || Cluster::run_on(ranks, |c| trained(c, 4)))).into();
        for ended in all {
            assert!(ended.join().unwrap()?.iter().all(|one| *one == alone));
        }
        Ok(())
    })?;
    // one inside of a rank of another one, with placed modules in both
    let values = Cluster::run_on(2, |outer| {
        let far = outer.place(1, || Expert::new(0))?;
        let x: NdLayer = Layer::constant(Nd::full([1, 6], 0.5));
        let inner = Cluster::run_on(2, |inner| {
            let own = inner.place(0, || Expert::new(0))?;
            own.of(&far.of(&x)).predict().wait()
        })?;
        Ok(inner)
    })?;
    let first = &values[0][0];
    assert!(values.iter().flatten().all(|value| value == first));
    Ok(())
}

#[test]
fn placed_module_that_is_called_after_its_program_is_error() -> Result<()> {
    let kept: Mutex<Vec<Placed<Expert>>> = Mutex::default();
    Cluster::run_on(2, |cluster| {
        let placed = cluster.place(1, || Expert::new(0))?;
        kept.lock().unwrap().push(placed);
        Ok(())
    })?;
    let x: NdLayer = Layer::constant(Nd::full([1, 6], 0.5));
    let kept = kept.into_inner().unwrap();
    let (here, there): (Vec<_>, Vec<_>) = kept.iter().partition(|placed| placed.get().is_some());
    assert_eq!(here[0].of(&x).predict().wait()?.shape(), [1, 6]);
    let error = there[0].of(&x).predict().wait().unwrap_err();
    assert!(error.to_string().contains("rank 1 has ended") && error.to_string().contains("edges.rs"), "{error}");
    Ok(())
}

#[test]
fn panic_of_loss_itself_is_error_on_all_ranks_and_changes_nothing() -> Result<()> {
    for ranks in [1, 2, 3] {
        let loss = |w: &Weight<f64>, part: usize, last: usize| {
            assert!(part <= last, "no such part");
            w * part as f64
        };
        let (net, sgd) = (|| Weight::new(1.0_f64), Sgd::new(0.1));
        let errors = Cluster::run_on(ranks, |cluster| {
            let w = net();
            let error = cluster.sum(6, |part| loss(&w, part, 4)).train(&w, &sgd).unwrap_err();
            assert_eq!(w.value(), 1.0);
            cluster.sum(6, |part| loss(&w, part, 5)).train(&w, &sgd)?;
            assert!(w.value() != 1.0 && error.is_panic());
            let error_of_trainer = Trainer::new(&sgd, 1)
                .across(cluster, 6, &w)
                .run(|_| Ok((0..6).map(Ok)), |part| loss(&w, part, 3))
                .unwrap_err();
            assert!(error_of_trainer.is_panic() && error_of_trainer.to_string().contains("no such part"));
            Ok(error.to_string())
        })?;
        let of_rank = if ranks == 1 { String::new() } else { format!("rank {}: ", ranks - 1) };
        assert_eq!(errors, vec![format!("{of_rank}panicked: no such part"); ranks]);
    }
    Ok(())
}

#[test]
fn owner_that_does_not_exist_is_error_on_all_ranks() {
    let ended = Cluster::run_on(2, |cluster| Ok(cluster.place(2, || Expert::new(0)).unwrap_err().to_string()));
    for error in ended.unwrap() {
        assert!(error.contains("there is no rank 2: the program has 2"), "{error}");
    }
    assert!(Cluster::run_on(0, |_| Ok(())).unwrap_err().to_string().contains("at least one rank"));
}

#[test]
fn weight_that_is_frozen_on_one_rank_only_is_error_on_all() {
    for frozen in 0..2 {
        let ended = Cluster::run_on(2, |cluster| {
            let net = [1.0, 2.0].map(Weight::<f64>::new);
            if cluster.rank() == frozen {
                net[1].freeze();
            }
            let taken = cluster.sum(2, |_| &net[0] * &net[1]).train(&net, &Sgd::new(0.1));
            Ok((taken.map_err(|error: Error| error.to_string()), net.each_ref().map(Weight::value)))
        });
        for (taken, values) in ended.unwrap() {
            assert_eq!(values, [1.0, 2.0]);
            let error = taken.unwrap_err();
            assert!(error.contains("`1`") && error.contains("frozen"), "{error}");
        }
    }
}
