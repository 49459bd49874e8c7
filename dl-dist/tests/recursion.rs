//! Calls from rank to rank and back, on a pool of one worker that all ranks share.

use super::support::{Expert, assert_all_released};
use dl_core::{Differentiable, Do, Layer, Result, Visitor};
use dl_dist::{Cluster, Placed, remote};
use dl_nd::{Nd, NdLayer, ndarray::Ix2, ops::*};
use dl_nn::Block;
use dl_optim::{Adam, Sgd};
use std::sync::{Arc, Once, OnceLock};

/// An expert that calls another one before.
#[derive(Clone)]
struct Link {
    own: Expert,
    before: Arc<OnceLock<Placed<Link>>>,
}

impl dl_core::Module for Link {
    fn visit(&self, visitor: &mut Visitor) {
        visitor.field("own", &self.own); // not the other one, which is elsewhere in the net
    }
}

#[remote(crate = dl_dist)]
impl Block for Link {
    fn of(&self, x: &NdLayer) -> NdLayer {
        match self.before.get() {
            Some(before) => self.own.of(&before.of(x).tanh()),
            None => self.own.of(x),
        }
    }
}

/// Links of a chain, on two ranks in turns: each calls the one before.
fn chain(cluster: &Cluster, links: usize) -> Result<Vec<Placed<Link>>> {
    let links = cluster.spread(0..links, |n| Ok(Link { own: Expert::new(n)?, before: Arc::default() }))?;
    for pair in links.windows(2) {
        if let Some(link) = pair[1].get() {
            link.before.set(pair[0].clone()).expect("it is set once");
        }
    }
    // No rank may call a link that is not linked yet.
    cluster.compare::<[f32; 0]>(&[])?;
    Ok(links)
}

/// Makes the pool of this program.
fn with_one_worker() {
    static POOL: Once = Once::new();
    POOL.call_once(|| {
        rayon::ThreadPoolBuilder::new().num_threads(1).build_global().expect("the pool is not in use yet")
    });
}

fn input(number: usize) -> NdLayer {
    Layer::constant(Nd::full([1, 6], number as f32 / 10.0))
}

#[test]
fn hundred_recursive_calls_at_once_on_small_pool_end() -> Result<()> {
    with_one_worker();
    let expected = Cluster::run(|cluster| {
        let links = chain(cluster, 5)?;
        (0..100).map(|n| links[4].of(&input(n)).predict().wait()).collect::<Result<Vec<Nd>>>()
    })?;
    let values = Cluster::run_on(2, |cluster| {
        let links = chain(cluster, 5)?;
        Do::join((0..100).map(|n| links[4].of(&input(n)).predict())).wait()
    })?;
    assert_eq!(values, [expected.clone(), expected]);
    Ok(())
}

#[test]
fn recursive_training_on_all_ranks_has_bits_of_one_process() -> Result<()> {
    with_one_worker();
    let trained = |ranks| {
        Cluster::run_on(ranks, |cluster| {
            let links = chain(cluster, 4)?;
            let adam = Adam::new(0.02);
            let mut losses = Vec::new();
            for _ in 0..4 {
                let loss = |part: usize| links[3 - part % 2].of(&input(part)).square().mean();
                losses.extend(cluster.sum(6, loss).train(&links, &adam)?);
            }
            cluster.compare(&links)?;
            assert_all_released(cluster);
            Ok(losses)
        })
    };
    let expected = trained(1)?.swap_remove(0);
    for ranks in [2, 3] {
        trained(ranks)?.iter().for_each(|losses| assert_eq!(*losses, expected, "{ranks} ranks"));
    }
    Ok(())
}

#[test]
fn step_of_one_rank_through_two_others_has_bits_of_one_process() -> Result<()> {
    with_one_worker();
    let trained = |ranks: usize, owners: [usize; 2]| {
        Cluster::run_on(ranks, |cluster| {
            let make = |n| move || Ok(Link { own: Expert::new(n)?, before: Arc::default() });
            let links = [cluster.place(owners[0], make(0))?, cluster.place(owners[1], make(1))?];
            if let Some(link) = links[1].get() {
                link.before.set(links[0].clone()).expect("it is set once");
            }
            let adam = Adam::new(0.02);
            cluster.set_optimizer(&adam)?;
            cluster.compare::<[f32; 0]>(&[])?;
            let mut losses = Vec::new();
            if cluster.rank() == 0 {
                for n in 0..4 {
                    losses.push(links[1].of(&input(n)).square().mean().train(&adam).wait()?);
                }
            }
            Ok(losses)
        })
    };
    let expected = trained(1, [0, 0])?.swap_remove(0);
    assert_eq!(trained(3, [2, 1])?[0], expected);
    assert_eq!(trained(2, [1, 1])?[0], expected);
    // The rank that takes the step is called back.
    let error = trained(2, [0, 1]).unwrap_err();
    assert!(error.to_string().contains("take the step on all ranks"), "{error}");
    Ok(())
}

#[derive(Clone)]
struct Same;

impl dl_core::Module for Same {
    fn visit(&self, _: &mut Visitor) {}
}

#[remote(crate = dl_dist)]
impl Block<Ix2, f64> for Same {
    fn of(&self, x: &NdLayer<Ix2, f64>) -> NdLayer<Ix2, f64> {
        x + 1.0
    }
}

#[test]
fn large_arguments_in_both_directions_arrive() -> Result<()> {
    with_one_worker();
    let rows = if std::env::var("DL_SWEEP").is_ok() { 8 * 1024 } else { 1024 }; // 64 MB, or 8
    let sums = Cluster::run_on(2, |cluster| {
        let blocks = [cluster.place(0, || Ok(Same))?, cluster.place(1, || Ok(Same))?];
        let x = Nd::<f64, Ix2>::full([rows, 1024], 2.0);
        let there = blocks[1 - cluster.rank()].of(&Layer::constant(x)).predict().wait()?;
        Ok(there.view().sum())
    })?;
    assert_eq!(sums, [3.0 * (rows * 1024) as f64; 2]);
    Ok(())
}

#[test]
fn values_of_dropped_calls_are_released() -> Result<()> {
    with_one_worker();
    Cluster::run_on(2, |cluster| {
        let links = chain(cluster, 4)?;
        let tapes: Vec<_> = (0..10).map(|n| links[3].of(&input(n)).forward().wait()).collect::<Result<_>>()?;
        cluster.compare::<[f32; 0]>(&[])?;
        assert!(cluster.open_calls() > 0);
        drop(tapes);
        // The futures of these are dropped at any point of their calls.
        for polls in 0..200 {
            let mut run = Box::pin(links[3].of(&input(polls)).forward().run());
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            for _ in 0..polls % 7 {
                if run.as_mut().poll(&mut cx).is_ready() {
                    break;
                }
                std::thread::yield_now();
            }
        }
        links[3].of(&input(1)).square().mean().train(&Sgd::new(0.0)).wait().err();
        assert_all_released(cluster);
        Ok(())
    })?;
    Ok(())
}
