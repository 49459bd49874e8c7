//! A `Trainer` on several ranks.

use super::support::{Net, bits_of};
use dl_core::{Differentiable, Error, Module, Result, Weight};
use dl_dist::Cluster;
use dl_nd::Nd;
use dl_optim::schedule::Linear;
use dl_optim::{AdamW, OptimizerExt, Sgd};
use dl_train::{Callback, EarlyStopping, Interrupt, Log, Outcome, Record, Stopped, Trainer};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

const EPOCHS: u64 = 3;
const PARTS: u64 = 4;
/// The last step of an epoch has two batches.
const BATCHES: usize = 10;

fn batches(epoch: u64) -> Result<impl Iterator<Item = Result<usize>>> {
    Ok((0..BATCHES).map(move |batch| Ok(BATCHES * epoch as usize + batch)))
}

/// All that a run changes, and what it reports.
type Ended = (Vec<u32>, Vec<Record>, u64, Option<f64>);

fn run(cluster: Option<&Cluster>, log: &Path) -> Result<Ended> {
    let (net, optimizer) = (Net::new()?, AdamW::new(Linear::new(0.001, 0.02, 4)).clip_norm(0.1).ema(0.9));
    let mut stopping = EarlyStopping::on("validation").patience(2).restoring(&net);
    let trainer = Trainer::new(&optimizer, EPOCHS).seed(5).callback(&mut stopping).callback(Log::csv(log));
    let trainer = trainer.validate(|| {
        let value = net.loss(7).predict().seed(1).wait()?;
        // Rank 0 determines it.
        Ok([("validation", value + cluster.map_or(0.0, |cluster| cluster.rank() as f32))])
    });
    let trainer = match cluster {
        Some(cluster) => trainer.across(cluster, PARTS, &net),
        None => trainer.parts(PARTS),
    };
    let Outcome { steps, epochs, .. } = trainer.run(batches, |batch| net.loss(batch))?;
    assert_eq!(steps, EPOCHS * 3);
    Ok((bits_of(&net), epochs, steps, stopping.best()))
}

#[test]
fn trainer_has_same_bits_on_any_number_of_ranks() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str| folder.path().join(name);
    let alone = run(None, &log("alone"))?;
    for ranks in [1, 2, 3, 4] {
        let path = log(&ranks.to_string());
        for ended in Cluster::run_on(ranks, |cluster| run(Some(cluster), &path))? {
            assert!(ended == alone, "{ranks} ranks: {ended:?} is not {alone:?}");
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), std::fs::read_to_string(log("alone")).unwrap());
    }
    Ok(())
}

/// Layers that were built before the run draw the same random numbers, too.
#[test]
fn layer_built_before_run_has_same_bits_on_any_number_of_ranks() -> Result<()> {
    let run = |cluster: Option<&Cluster>| {
        use dl_nd::ops::*;
        let w = dl_nd::NdWeight::new(Nd::from([[1.0_f32; 8]; 2]));
        let (before, sgd) = ((1.0 * &w).dropout(0.5), Sgd::new(0.1));
        let trainer = Trainer::new(&sgd, 1);
        let trainer = match cluster {
            Some(cluster) => trainer.across(cluster, PARTS, &w),
            None => trainer.parts(PARTS),
        };
        trainer.run(batches, |batch| {
            let drawn = (0..batch % 3).map(|_| (1.0 * &w).dropout(0.5).sum());
            drawn.fold((batch as f32 * &before).sum(), |sum, next| sum + next)
        })?;
        Ok(bits_of(&w))
    };
    let alone = run(None)?;
    for ranks in [2, 3] {
        assert_eq!(Cluster::run_on(ranks, |cluster| run(Some(cluster)))?, vec![alone.clone(); ranks]);
    }
    Ok(())
}

#[test]
fn batch_that_fails_on_one_rank_is_error_on_all() {
    for failing in 0..BATCHES {
        let ended = Mutex::new(Vec::new());
        let error = Cluster::run_on(3, |cluster| {
            let w = Weight::new(1.0_f64);
            let read = |batch: usize| if batch == failing { Err(Error::invalid("no such file")) } else { Ok(batch) };
            let ran = Trainer::new(&Sgd::new(0.1), 1)
                .across(cluster, PARTS, &w)
                .run(|_| Ok((0..BATCHES).map(read)), |batch| batch as f64 * &w);
            ended.lock().unwrap().push((ran.as_ref().unwrap_err().to_string(), w.value().to_bits()));
            ran
        });
        let ended = ended.into_inner().unwrap();
        assert!(error.unwrap_err().to_string().contains("no such file"));
        assert!(ended.iter().all(|one| *one == ended[0] && one.0.contains("no such file")), "{ended:?}");
        assert!(ended[0].0.starts_with(&format!("epoch 0, step {}", failing / PARTS as usize)), "{ended:?}");
    }
}

/// Records how the run ended, and fails in an epoch.
struct FailsOnRank<'a>(&'a Cluster, usize);

impl Callback for FailsOnRank<'_> {
    fn epoch(&mut self, _: &Record) -> Result<ControlFlow<()>> {
        if self.0.rank() == self.1 { Err(Error::invalid("the disk is full")) } else { Ok(ControlFlow::Continue(())) }
    }
}

#[test]
fn callback_that_fails_on_one_rank_is_error_on_all() {
    for rank in 0..2 {
        let ended = Mutex::new(Vec::new());
        let ran = Cluster::run_on(2, |cluster| {
            let w = Weight::new(1.0_f64);
            let trainer = Trainer::new(&Sgd::new(0.1), 2).across(cluster, PARTS, &w);
            let ran = trainer.callback(FailsOnRank(cluster, rank)).run(batches, |batch| batch as f64 * &w);
            ended.lock().unwrap().push(ran.as_ref().unwrap_err().to_string());
            ran
        });
        assert!(ran.is_err());
        let expected = format!("rank {rank}: the disk is full");
        assert!(ended.into_inner().unwrap().iter().all(|error| error.contains(&expected)), "rank {rank}");
    }
}

#[test]
fn interrupt_of_one_rank_stops_all_after_same_step() -> Result<()> {
    let outcomes = Cluster::run_on(3, |cluster| {
        let (w, interrupt) = (Weight::new(1.0_f64), Interrupt::new());
        let trainer = Trainer::new(&Sgd::new(0.001), 9).across(cluster, PARTS, &w).interrupt(&interrupt);
        let loss = |batch| {
            if batch == 16 {
                interrupt.request(); // in step 4, on the rank that evaluates this batch
            }
            &w * &w
        };
        let outcome = trainer.run(batches, loss)?;
        Ok((outcome.stopped, outcome.steps, w.value()))
    })?;
    assert_eq!((outcomes[0].0, outcomes[0].1), (Stopped::Interrupted, 5));
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
    Ok(())
}

#[test]
fn refused_step_names_operation_on_all_ranks() {
    let ended = Mutex::new(Vec::new());
    let ran = Cluster::run_on(3, |cluster| {
        let w = Weight::new(1.0_f64);
        let trainer = Trainer::new(&Sgd::new(0.1), 1).across(cluster, PARTS, &w).refuse_non_finite();
        // The third part of the second step has the logarithm of a negative number.
        let ran = trainer.run(batches, |batch| if batch == 6 { (&w - 9.0).ln() } else { 0.0 * &w });
        ended.lock().unwrap().push((ran.as_ref().unwrap_err().to_string(), w.value()));
        ran
    });
    assert!(ran.unwrap_err().is_not_finite());
    for (error, value) in ended.into_inner().unwrap() {
        assert!(error.contains("epoch 0, step 1: the step was refused") && error.contains("ln: its value"), "{error}");
        assert_eq!(value, 1.0);
    }
}

#[test]
fn replicas_that_differ_are_refused_before_first_step() {
    let ran = Cluster::run_on(2, |cluster| {
        let w = [Weight::new(cluster.rank() as f64)];
        assert_eq!(w.names(), ["0"]);
        Trainer::new(&Sgd::new(0.1), 1).across(cluster, PARTS, &w).run(batches, |_| w[0].square())
    });
    assert!(ran.unwrap_err().to_string().contains("rank 1: `0` differs from that of rank 0"));
}
