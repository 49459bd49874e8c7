//! Modules on other ranks: the bits of one process, and messages to those ranks only that are asked.

use super::support::{Expert, assert_all_released, bits_of};
use dl_core::{Differentiable, Layer, Module as _, Optimizer, Parts, Result};
use dl_dist::{Cluster, Placed, remote};
use dl_macros::Module;
use dl_nd::{Nd, NdLayer, init, ops::*};
use dl_nn::{Block, Linear, MixtureOfExperts};
use dl_optim::schedule::Cosine;
use dl_optim::{Adam, AdamW, OptimizerExt, Sgd};

/// A trunk, a mixture of experts, and a head.
#[derive(Clone, Module)]
#[module(crate = dl_core)]
struct Net<M> {
    trunk: Linear,
    mixture: MixtureOfExperts<M>,
    head: Linear,
}

impl<M: Block + Clone + 'static> Net<M> {
    fn new(experts: impl FnOnce() -> Result<Vec<M>>, k: usize) -> Result<Self> {
        let rng = &mut init::rng(5);
        let trunk = Linear::new(4, 6, rng)?;
        let experts = experts()?;
        Ok(Net { trunk, mixture: MixtureOfExperts::new(experts, 6, k, rng)?, head: Linear::new(6, 3, rng)? })
    }

    fn loss(&self, batch: usize) -> Layer<f32> {
        let numbers = (0..20).map(|i| ((7 * batch + 3 * i * i) % 11) as f32 / 11.0 - 0.4).collect();
        let x = Nd::from_vec([5, 4], numbers).expect("five rows of four");
        let labels: Vec<usize> = (0..5).map(|i| (batch + i) % 3).collect();
        self.head.of(self.mixture.of(self.trunk.of(x).tanh())).cross_entropy(labels)
    }
}

const EXPERTS: usize = 5;
const STEPS: u64 = 6;

fn near() -> Result<Net<Expert>> {
    Net::new(|| (0..EXPERTS).map(Expert::new).collect(), 2)
}

fn far(cluster: &Cluster) -> Result<Net<Placed<Expert>>> {
    Net::new(|| cluster.spread(0..EXPERTS, Expert::new), 2)
}

/// Trains on rank 0, with experts on all ranks.
fn trained_by_rank_0<O: Optimizer + Clone + 'static>(ranks: usize, optimizer: impl Fn() -> O + Sync) -> Result<()> {
    let (expected, near) = {
        let (net, optimizer) = (near()?, optimizer());
        let losses = (0..STEPS).map(|step| net.loss(step as usize).train(&optimizer).wait());
        (losses.collect::<Result<Vec<f32>>>()?, net)
    };
    let trained = Cluster::run_on(ranks, |cluster| {
        let (net, optimizer) = (far(cluster)?, optimizer());
        cluster.set_optimizer(&optimizer)?;
        let mut losses = Vec::new();
        if cluster.rank() == 0 {
            for step in 0..STEPS {
                losses.push(net.loss(step as usize).train(&optimizer).wait()?);
            }
            assert_eq!(net.names(), near.names());
            // asks the other ranks
            assert!(bits_of(&net) == bits_of(&near), "the weights on {ranks} ranks");
        }
        Ok(losses)
    })?;
    assert_eq!(trained[0], expected, "{ranks} ranks");
    Ok(())
}

#[test]
fn step_of_one_rank_with_remote_experts_has_bits_of_one_process() -> Result<()> {
    for ranks in [1, 2, 3] {
        trained_by_rank_0(ranks, || Sgd::new(0.1))?;
        trained_by_rank_0(ranks, || Adam::new(0.01))?;
        trained_by_rank_0(ranks, || Sgd::new(Cosine::new(0.2, STEPS)))?;
        trained_by_rank_0(ranks, || AdamW::new(Cosine::new(0.05, STEPS)).clip_norm(0.05))?;
        trained_by_rank_0(ranks, || Adam::new(0.01).weight_decay(0.1).refuse_non_finite().clip_norm(0.2))?;
    }
    Ok(())
}

fn trained_by_all<O: Optimizer + Clone + 'static>(parts: usize, optimizer: impl Fn() -> O + Sync) -> Result<()> {
    let (expected, near) = {
        let (net, optimizer, mut losses) = (near()?, optimizer(), Vec::new());
        for step in 0..STEPS as usize {
            let of_parts = (0..parts).map(|part| net.loss(10 * step + part));
            losses.extend(Parts::mean(of_parts).train(&optimizer).seed(step as u64).wait()?);
        }
        (losses, net)
    };
    for ranks in [1, 2, 3, 4] {
        let trained = Cluster::run_on(ranks, |cluster| {
            let (net, optimizer, mut losses) = (far(cluster)?, optimizer(), Vec::new());
            cluster.compare(&net)?;
            for step in 0..STEPS as usize {
                let loss = |part| net.loss(10 * step + part);
                losses.extend(cluster.mean(parts, loss).at_once(2).seed(step as u64).train(&net, &optimizer)?);
            }
            cluster.compare(&net)?;
            assert!(bits_of(&net) == bits_of(&near), "{parts} parts on {ranks} ranks");
            cluster.compare(&net)?;
            assert_all_released(cluster);
            Ok(losses)
        })?;
        trained.iter().for_each(|losses| assert_eq!(*losses, expected, "{parts} parts on {ranks} ranks"));
    }
    Ok(())
}

#[test]
fn step_of_all_ranks_with_remote_experts_has_bits_of_one_process() -> Result<()> {
    for parts in [1, 5, 8] {
        trained_by_all(parts, || Adam::new(0.01))?;
    }
    trained_by_all(6, || Sgd::new(0.1))?;
    trained_by_all(6, || AdamW::new(Cosine::new(0.05, STEPS)).clip_norm(0.05))
}

#[test]
fn dropout_in_remote_expert_draws_same_numbers_on_any_number_of_ranks() -> Result<()> {
    let trained = |ranks| {
        Cluster::run_on(ranks, |cluster| {
            let expert = |number| Ok(Expert { dropout: 0.4, ..Expert::new(number)? });
            let net = Net::new(|| cluster.spread(0..EXPERTS, expert), 2)?;
            let adam = Adam::new(0.02);
            let mut losses = Vec::new();
            for step in 0..3 {
                losses.extend(cluster.sum(4, |part| net.loss(part)).seed(step).train(&net, &adam)?);
            }
            Ok(losses)
        })
    };
    let expected = trained(1)?.swap_remove(0);
    for ranks in [2, 3] {
        assert_eq!(trained(ranks)?[ranks - 1], expected, "{ranks} ranks");
    }
    Ok(())
}

#[test]
fn expert_that_no_sample_selects_gets_no_message() -> Result<()> {
    Cluster::run_on(3, |cluster| {
        let experts: Vec<Placed<Expert>> = cluster.spread(0..3, Expert::new)?;
        let adam = Adam::new(0.01);
        cluster.set_optimizer(&adam)?;
        if cluster.rank() == 0 {
            let x: NdLayer = Layer::constant(Nd::full([1, 6], 0.5));
            for step in 0..10 {
                let chosen = 1 + step % 2;
                let sent = [1, 2].map(|rank| cluster.sent_to(rank));
                experts[chosen].of(&x).square().mean().train(&adam).wait()?;
                experts[chosen].of(&x).predict().wait()?;
                let now = [1, 2].map(|rank| cluster.sent_to(rank));
                assert!(now[chosen - 1].calls > sent[chosen - 1].calls);
                assert_eq!(now[2 - chosen], sent[2 - chosen], "step {step}");
            }
        }
        Ok(())
    })?;
    Ok(())
}

#[test]
fn remote_step_is_three_requests_and_two_messages_without_answer() -> Result<()> {
    Cluster::run_on(2, |cluster| {
        let expert = cluster.place(1, || Expert::new(0))?;
        let adam = Adam::new(0.01);
        cluster.set_optimizer(&adam)?;
        if cluster.rank() == 0 {
            let x: NdLayer = Layer::constant(Nd::full([1, 6], 0.5));
            let before = cluster.sent_to(1).calls;
            for _ in 0..10 {
                expert.of(&x).square().mean().train(&adam).wait()?;
            }
            expert.of(&x).predict().wait()?; // the messages before it have been sent
            // call, derivatives, vote; decision, release
            assert_eq!(cluster.sent_to(1).calls - before, 51);
        }
        Ok(())
    })?;
    Ok(())
}

#[test]
fn derivative_with_respect_to_argument_flows_through_remote_expert() -> Result<()> {
    let local = Expert::new(0)?;
    let x: NdLayer = Layer::constant(Nd::full([2, 6], 0.5));
    let gradient = |y: NdLayer| y.square().mean().gradient(&x).predict().wait();
    let expected = gradient(Block::of(&local, &x))?;
    Cluster::run_on(2, |cluster| {
        let expert = cluster.place(1, || Expert::new(0))?;
        assert_eq!(gradient(expert.of(&x))?, expected);
        // two calls in one pass
        let twice = |expert: &dyn Block| gradient(expert.of(&expert.of(&x)));
        assert_eq!(twice(&expert)?, twice(&local)?);
        let second = expert.of(&x).square().mean().gradient(&x).square().mean().gradient(&x).predict().wait();
        if cluster.rank() == 0 {
            assert!(second.unwrap_err().to_string().contains("second derivative"));
        }
        Ok(())
    })?;
    Ok(())
}

#[test]
fn scaled_added_and_clipped_effects_of_remote_experts_equal_those_of_one_process() -> Result<()> {
    let x: NdLayer = Layer::constant(Nd::full([2, 6], 0.5));
    let step = |experts: &[&dyn Block], adam: &Adam| {
        let effects = |expert: &dyn Block| expert.of(&expert.of(&x)).square().mean().backward().wait();
        let all = 0.5 * (effects(experts[0])? + effects(experts[1])?) + effects(experts[0])?;
        let norm = all.norm().wait()?;
        all.clip_norm(0.01).wait()?.step(adam).wait()?;
        Result::Ok(norm)
    };
    let (near, adam) = ([Expert::new(0)?, Expert::new(1)?], Adam::new(0.05));
    let expected = [step(&[&near[0], &near[1]], &adam)?, step(&[&near[0], &near[1]], &adam)?];
    Cluster::run_on(2, |cluster| {
        let far = [cluster.place(1, || Expert::new(0))?, cluster.place(1, || Expert::new(1))?];
        let adam = Adam::new(0.05);
        cluster.set_optimizer(&adam)?;
        if cluster.rank() == 0 {
            for expected in expected {
                // The norm of the whole is not added up in the same order.
                let norm = step(&[&far[0], &far[1]], &adam)?;
                assert!((norm / expected - 1.0).abs() < 1e-6, "{norm} instead of {expected}");
            }
            let same = bits_of(&far).into_iter().zip(bits_of(&near));
            assert!(same.map(|(a, b)| (f32::from_bits(a) - f32::from_bits(b)).abs()).all(|d| d < 1e-6));
        }
        Ok(())
    })?;
    Ok(())
}

/// An expert with running statistics.
#[derive(Clone, Module)]
#[module(crate = dl_core)]
struct Normed {
    expert: Expert,
    norm: dl_nn::BatchNorm,
}

impl Normed {
    fn new(number: usize) -> Result<Normed> {
        Ok(Normed { expert: Expert::new(number)?, norm: dl_nn::BatchNorm::new(6)? })
    }
}

#[remote(crate = dl_dist)]
impl Block for Normed {
    fn of(&self, x: &NdLayer) -> NdLayer {
        self.norm.of(self.expert.of(x))
    }
}

#[test]
fn buffers_of_remote_expert_have_values_of_one_process() -> Result<()> {
    let x = |part: usize| {
        Layer::constant(Nd::from_vec([3, 6], (0..18).map(|i| ((i * i + part) % 7) as f32).collect()).unwrap())
    };
    let (near, adam) = (Normed::new(0)?, Adam::new(0.05));
    let of_near = |part| near.of(&x(part)).square().mean();
    for _ in 0..2 {
        of_near(7).train(&adam).wait()?;
        Parts::sum((0..3).map(of_near)).train(&adam).wait()?;
    }
    for ranks in [2, 3] {
        Cluster::run_on(ranks, |cluster| {
            let (far, adam) = (cluster.place(1, || Normed::new(0))?, Adam::new(0.05));
            let of_far = |part| far.of(&x(part)).square().mean();
            for _ in 0..2 {
                // One part is on the last rank, so that the owner is another one on three ranks.
                cluster.sum(1, |_| of_far(7)).train(&far, &adam)?;
                cluster.sum(3, of_far).train(&far, &adam)?;
            }
            assert!(bits_of(&far) == bits_of(&near), "{ranks} ranks");
            cluster.compare::<[f32; 0]>(&[])
        })?;
        Cluster::run_on(ranks, |cluster| {
            let (far, adam) = (cluster.place(1, || Normed::new(0))?, Adam::new(0.05));
            cluster.set_optimizer(&adam)?;
            if cluster.rank() == 0 {
                let (near, alone) = (Normed::new(0)?, Adam::new(0.05));
                for _ in 0..3 {
                    near.of(&x(1)).square().mean().train(&alone).wait()?;
                    far.of(&x(1)).square().mean().train(&adam).wait()?;
                }
                assert!(bits_of(&far) == bits_of(&near), "{ranks} ranks, step of one");
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn frozen_remote_expert_does_not_change() -> Result<()> {
    Cluster::run_on(2, |cluster| {
        let (far, adam) = (cluster.place(1, || Expert::new(0))?, Adam::new(0.05));
        cluster.set_optimizer(&adam)?;
        far.get().into_iter().for_each(|expert| expert.hidden.freeze());
        cluster.compare::<[f32; 0]>(&[])?;
        if cluster.rank() == 0 {
            let x: NdLayer = Layer::constant(Nd::full([2, 6], 0.5));
            let before = bits_of(&far);
            far.of(&x).square().mean().train(&adam).wait()?;
            let after = bits_of(&far);
            let weights = far.weights();
            let frozen: usize =
                weights.iter().filter(|entry| entry.path().starts_with("hidden")).map(|entry| entry.len()).sum();
            assert!(before[..frozen] == after[..frozen] && before[frozen..] != after[frozen..]);
        }
        Ok(())
    })?;
    Ok(())
}

#[test]
fn predict_is_one_message_and_keeps_nothing_on_owner() -> Result<()> {
    let x: NdLayer = Layer::constant(Nd::full([2, 6], 0.5));
    let expected = Block::of(&Expert::new(0)?, &x).predict().wait()?;
    Cluster::run_on(2, |cluster| {
        // In evaluation, dropout does nothing.
        let far = cluster.place(1, || Ok(Expert { dropout: 0.5, ..Expert::new(0)? }))?;
        if cluster.rank() == 0 {
            let before = cluster.sent_to(1).calls;
            for _ in 0..10 {
                assert_eq!(far.of(&x).predict().wait()?, expected);
            }
            assert_eq!(cluster.sent_to(1).calls - before, 10);
        }
        cluster.compare::<[f32; 0]>(&[])?;
        assert_eq!(cluster.open_calls(), 0);
        Ok(())
    })?;
    Ok(())
}
