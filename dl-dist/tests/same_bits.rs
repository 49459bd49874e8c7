//! The same bits on any number of ranks, and without any.

use super::support::Net;
use dl_core::{Module, Parts, Result, Weight};
use dl_dist::Cluster;
use dl_optim::schedule::Linear;
use dl_optim::{AdamW, OptimizerExt, Sgd};

const STEPS: u64 = 4;

fn optimizer() -> impl dl_core::Optimizer + Clone + 'static {
    AdamW::new(Linear::new(0.001, 0.02, 4)).clip_norm(0.1).ema(0.9)
}

/// The bits of the weights and buffers, of the state of the optimizer, and of all losses.
type Trained = (Vec<u32>, u64, Vec<u32>);

fn alone(parts: usize) -> Result<Trained> {
    let (net, optimizer, mut losses) = (Net::new()?, optimizer(), Vec::new());
    for step in 0..STEPS {
        let of_parts = (0..parts).map(|part| net.loss(10 * step as usize + part));
        losses.extend(Parts::mean(of_parts).train(&optimizer).seed(step).wait()?);
    }
    ended(&net, &optimizer, losses)
}

fn on(cluster: &Cluster, parts: usize) -> Result<Trained> {
    let (net, optimizer, mut losses) = (Net::new()?, optimizer(), Vec::new());
    cluster.compare(&net)?;
    for step in 0..STEPS {
        let loss = |part| net.loss(10 * step as usize + part);
        losses.extend(cluster.mean(parts, loss).at_once(2).seed(step).train(&net, &optimizer)?);
    }
    cluster.compare(&net)?;
    ended(&net, &optimizer, losses)
}

fn ended(net: &Net, optimizer: &impl dl_core::Optimizer, losses: Vec<f32>) -> Result<Trained> {
    let steps = optimizer.memory().expect("it has state").steps();
    Ok((net.bits(), steps, losses.into_iter().map(f32::to_bits).collect()))
}

#[test]
fn training_has_same_bits_on_any_number_of_ranks() -> Result<()> {
    for parts in [1, 3, 8] {
        let expected = alone(parts)?;
        assert_eq!((expected.1, expected.2.len()), (STEPS, STEPS as usize * parts));
        for ranks in [1, 2, 3, 4] {
            for trained in Cluster::run_on(ranks, |cluster| on(cluster, parts))? {
                assert!(trained == expected, "{parts} parts on {ranks} ranks");
            }
        }
    }
    Ok(())
}

#[test]
fn rank_evaluates_its_own_parts_only() -> Result<()> {
    let evaluated = Cluster::run_on(3, |cluster| {
        let (w, mut mine) = (Weight::new(1.0_f64), Vec::new());
        let loss = |part: usize| {
            mine.push(part);
            &w * part as f64
        };
        let losses = cluster.sum(7, loss).train(&w, &Sgd::new(0.5))?;
        assert_eq!((losses, w.value()), ((0..7).map(f64::from).collect(), 1.0 - 0.5 * 21.0));
        Ok(mine)
    })?;
    assert_eq!(evaluated, [vec![0, 1], vec![2, 3], vec![4, 5, 6]]);
    Ok(())
}

#[test]
fn ranks_may_train_different_weights() -> Result<()> {
    // each part uses another weight; the ranks never touch the same one
    let values = Cluster::run_on(2, |cluster| {
        let weights: Vec<Weight<f64>> = (0..4).map(|i| Weight::new(f64::from(i))).collect();
        cluster.sum(3, |part| weights[part].square()).train(&weights, &Sgd::new(0.25))?;
        Ok(weights.iter().map(Weight::value).collect::<Vec<f64>>())
    })?;
    assert_eq!(values, [[0.0, 0.5, 1.0, 3.0], [0.0, 0.5, 1.0, 3.0]]);
    Ok(())
}

#[test]
fn compare_names_rank_and_path() {
    let error = |ranks, module: fn(&Cluster) -> Vec<Weight<f32>>| {
        Cluster::run_on(ranks, |cluster| cluster.compare(&module(cluster))).unwrap_err().to_string()
    };
    let other_bits =
        error(3, |cluster| vec![Weight::new(1.0), Weight::new(if cluster.rank() == 2 { -0.0 } else { 0.0 })]);
    assert!(other_bits.contains("rank 2: `1` differs"), "{other_bits}");
    let longer = error(2, |cluster| (0..=cluster.rank()).map(|_| Weight::new(1.0)).collect());
    assert!(longer.contains("rank 1: `1` differs"), "{longer}");
    let net = Net::new().unwrap();
    assert_eq!(net.names().len(), 8);
}
