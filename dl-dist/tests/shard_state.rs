//! The state of an optimizer with each weight on one rank only.

use super::support::{Expert, Net, bits_of};
use dl_core::{Chunk, Entry, Error, Memory, Module, Optimizer, Parts, Result, Weight, WeightHandle};
use dl_dist::{Cluster, Placed};
use dl_nd::{Nd, init, ops::*};
use dl_nn::{Block, Linear};
use dl_optim::schedule::Linear as LinearSchedule;
use dl_optim::{Adam, AdamW, OptimizerExt, Sgd};
use dl_train::{Checkpoints, Trainer};
use std::path::Path;
use std::sync::Mutex;

const STEPS: u64 = 4;
const PARTS: usize = 3;

/// The numbers in all slots that this optimizer has for the weights of a module.
fn numbers_in_slots(module: &impl Module, optimizer: &impl Optimizer) -> Result<usize> {
    let mut weights = module.weights();
    weights.retain(|entry| entry.tied_to().is_none());
    let handle = |entry: &Entry| Some((entry.path().to_owned(), entry.weight()?));
    let named: Vec<(String, WeightHandle)> = weights.iter().filter_map(handle).collect();
    let state = optimizer.state(&named)?;
    let len = |path: &str| weights.iter().find(|entry| entry.path() == path).map_or(0, |entry| entry.len());
    Ok(state.slots().map(|(path, _)| len(path)).sum())
}

fn same_bits_and_less_memory<O: Optimizer + Clone + 'static>(make: impl Fn() -> O + Sync) -> Result<()> {
    let (net, optimizer) = (Net::new()?, make());
    for step in 0..STEPS {
        let losses = (0..PARTS).map(|part| net.loss(10 * step as usize + part));
        Parts::mean(losses).train(&optimizer).seed(step).wait()?;
    }
    let (expected, all) = (bits_of(&net), numbers_in_slots(&net, &optimizer)?);
    for ranks in [1, 2, 3, 4] {
        let ended = Cluster::run_on(ranks, |cluster| {
            let (net, optimizer) = (Net::new()?, make());
            for step in 0..STEPS {
                let loss = |part| net.loss(10 * step as usize + part);
                cluster.mean(PARTS, loss).seed(step).shard_state().train(&net, &optimizer)?;
            }
            cluster.compare(&net)?;
            assert_eq!(optimizer.memory().expect("it has state").steps(), STEPS);
            Ok((bits_of(&net), numbers_in_slots(&net, &optimizer)?))
        })?;
        assert!(ended.iter().all(|(bits, _)| *bits == expected), "{ranks} ranks");
        // Whole weights are distributed, and the table has four fifths of the numbers.
        let slots: Vec<usize> = ended.iter().map(|(_, numbers)| *numbers).collect();
        assert_eq!(slots.iter().sum::<usize>(), all, "{slots:?}");
        assert!(ranks == 1 || slots.iter().all(|&numbers| numbers < all * 9 / 10), "{slots:?} of {all}");
    }
    Ok(())
}

#[test]
fn sharded_state_has_same_bits_and_each_slot_on_one_rank() -> Result<()> {
    same_bits_and_less_memory(|| AdamW::new(LinearSchedule::new(0.001, 0.02, 4)).clip_norm(0.1))?;
    same_bits_and_less_memory(|| Sgd::new(0.05).momentum(0.9).weight_decay(0.01).clip_norm(0.2))?;
    same_bits_and_less_memory(|| Adam::new(0.01).refuse_non_finite())
}

/// Equal layers are distributed evenly.
#[test]
fn sharded_state_of_equal_weights_is_divided_by_number_of_ranks() -> Result<()> {
    let slots = Cluster::run_on(4, |cluster| {
        let rng = &mut init::rng(2);
        let layers = (0..8).map(|_| Linear::<f32>::new(10, 10, rng)).collect::<Result<Vec<_>>>()?;
        let adam = Adam::new(0.01);
        let x = Nd::from([[0.5_f32; 10]]);
        let loss = |_| layers.iter().fold((1.0 * &x).clone(), |x, layer| layer.of(&x)).square().mean();
        cluster.mean(4, loss).shard_state().train(&layers, &adam)?;
        numbers_in_slots(&layers, &adam)
    })?;
    assert_eq!(slots, [2 * 2 * 110; 4]);
    Ok(())
}

/// A net with an expert on each rank.
fn train(cluster: &Cluster, shards: bool, folder: &Path, epochs: u64) -> Result<Vec<u32>> {
    let rng = &mut init::rng(4);
    let (input, output) = (Linear::new(6, 6, rng)?, Linear::new(6, 6, rng)?);
    let experts: Vec<Placed<Expert>> = cluster.spread(0..3, Expert::new)?;
    let net = (input, experts, output);
    let adam = Adam::new(0.01).clip_norm(0.3);
    let trainer = Trainer::new(&adam, epochs).across(cluster, 4, &net);
    let trainer = if shards { trainer.shard_state() } else { trainer };
    trainer.checkpoints(&Checkpoints::in_folder(folder), &net).every(2).run(
        |epoch| Ok((0..10).map(move |batch| Ok(10 * epoch as usize + batch))),
        |batch| {
            let x = net.0.of(&Nd::from([[1.0, -0.5, 0.25, 2.0, -1.0, 0.1 * batch as f32]])).relu();
            net.2.of(net.1[batch % 3].of(&x)).square().mean()
        },
    )?;
    Ok(bits_of(&net))
}

#[test]
fn trainer_with_sharded_state_resumes_on_other_number_of_ranks() -> Result<()> {
    let all = tempfile::tempdir().unwrap();
    let folder = |name: &str| all.path().join(name);
    let whole = Cluster::run_on(1, |cluster| train(cluster, false, &folder("whole"), 4))?.swap_remove(0);
    for (before, after, shards) in [(3, 2, true), (2, 4, true), (3, 1, true), (2, 3, false)] {
        let run = folder(&format!("{before} {after} {shards}"));
        Cluster::run_on(before, |cluster| train(cluster, true, &run, 2))?;
        for bits in Cluster::run_on(after, |cluster| train(cluster, shards, &run, 4))? {
            assert!(bits == whole, "{before} ranks, then {after}");
        }
        let latest = |run: &Path| Checkpoints::in_folder(run).latest().map(|latest| latest.unwrap().saved);
        let (one, other) = (folder("one"), folder("other"));
        latest(&run)?.save(&one)?;
        latest(&folder("whole"))?.save(&other)?;
        assert!(std::fs::read(one).unwrap() == std::fs::read(other).unwrap(), "{before} ranks, then {after}");
    }
    Ok(())
}

#[test]
fn average_of_weights_with_sharded_state_is_error_on_all_ranks() {
    let errors = Mutex::new(0);
    let ran = Cluster::run_on(3, |cluster| {
        let net = [1.0, 2.0].map(Weight::<f64>::new);
        let adam = Adam::new(0.1).ema(0.9);
        let ran = cluster.sum(3, |_| &net[0] * &net[1]).shard_state().train(&net, &adam);
        assert!(ran.as_ref().unwrap_err().to_string().contains("leave out `shard_state`, or `ema`"));
        assert_eq!(net.map(|weight| weight.value()), [1.0, 2.0]);
        *errors.lock().unwrap() += 1;
        ran
    });
    assert!(ran.is_err() && errors.into_inner().unwrap() == 3);
}

/// Fails for the weights of a rank.
#[derive(Clone)]
struct FailsHere(Memory, bool);

impl Optimizer for FailsHere {
    fn memory(&self) -> Option<&Memory> {
        Some(&self.0)
    }

    fn step(&self, chunk: Chunk<'_>, _: u64) -> Result<()> {
        if self.1 {
            return Err(Error::invalid("no memory for slots"));
        }
        if let Chunk::F64 { values, deltas, .. } = chunk {
            values.iter_mut().zip(deltas).for_each(|(value, delta)| *value -= 0.5 * delta);
        }
        Ok(())
    }
}

#[test]
fn owner_that_fails_is_error_on_all_ranks_and_changes_nothing() -> Result<()> {
    for failing in 0..2 {
        let values = Cluster::run_on(2, |cluster| {
            let net = [1.0, 2.0].map(Weight::<f64>::new);
            let step = |fails| {
                let optimizer = FailsHere(Memory::new(), fails);
                let ran = cluster.sum(2, |_| &net[0] * &net[1]).shard_state().train(&net, &optimizer);
                (ran.map(drop).map_err(|error| error.to_string()), optimizer.0.steps())
            };
            let (failed, steps) = step(cluster.rank() == failing);
            let error = failed.unwrap_err();
            assert!(error.contains(&format!("rank {failing}")) && error.contains("no memory for slots"), "{error}");
            assert_eq!((steps, net[0].value(), net[1].value()), (0, 1.0, 2.0));
            assert_eq!(step(false), (Ok(()), 1)); // the next step is taken
            Ok([net[0].value(), net[1].value()])
        })?;
        assert_eq!(values, [[1.0 - 0.5 * 4.0, 2.0 - 0.5 * 2.0]; 2]);
    }
    Ok(())
}

#[test]
fn frozen_weight_stays_with_sharded_state() -> Result<()> {
    let values = Cluster::run_on(2, |cluster| {
        let net = [1.0, 2.0, 3.0].map(Weight::<f64>::new);
        net[1].freeze();
        let loss = |_| (&net[0] * &net[1]) * &net[2];
        cluster.mean(2, loss).shard_state().train(&net, &Sgd::new(0.5).momentum(0.5))?;
        Ok(net.map(|weight| weight.value()))
    })?;
    assert_eq!(values, [[1.0 - 3.0, 2.0, 3.0 - 1.0]; 2]);
    Ok(())
}
