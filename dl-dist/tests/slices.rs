//! Deltas that are large enough to be added in slices.

use super::faults::{Fault, Line, Shared};
use super::support::bits_of;
use dl_core::{Layer, Module, Parts, Result, Visitor, Weight};
use dl_dist::Cluster;
use dl_nd::{Nd, NdLayer, init, ops::*};
use dl_nn::{BatchNorm, Embedding, Linear};
use dl_optim::{AdamW, OptimizerExt, Sgd};
use std::sync::Arc;

const WIDTH: usize = 61;

/// Its dense deltas have 5 · 61 · 62 numbers, more than 64 KB.
struct Net {
    words: Embedding,
    /// One of them for each part.
    branches: Vec<Linear>,
    norm: BatchNorm,
    scale: Weight<f32>,
    never: Linear,
}

impl Module for Net {
    fn visit(&self, visitor: &mut Visitor) {
        visitor.field("words", &self.words);
        visitor.field("branches", &self.branches);
        visitor.field("norm", &self.norm);
        visitor.field("scale", &self.scale);
        visitor.field("never", &self.never);
    }
}

impl Net {
    fn new() -> Result<Net> {
        let rng = &mut init::rng(8);
        Ok(Net {
            words: Embedding::new(40, WIDTH, rng)?,
            branches: (0..4).map(|_| Linear::new(WIDTH, WIDTH, rng)).collect::<Result<_>>()?,
            norm: BatchNorm::new(WIDTH)?,
            scale: Weight::new(0.7),
            never: Linear::new(WIDTH, WIDTH, rng)?,
        })
    }

    /// The branches are used by parts of several ranks, of one rank, or of none.
    fn loss(&self, step: usize, part: usize) -> Layer<f32> {
        let ids: Vec<usize> = (0..5).map(|i| (7 * part + 3 * step + i * i) % 40).collect();
        let branch = &self.branches[[part % 3, part / 2 % 3, 3, 0][step]];
        let hidden: NdLayer = self.norm.of(branch.of(self.words.of(ids))).tanh() * &self.scale;
        self.branches[step % 2].of(hidden).square().mean()
    }
}

const STEPS: usize = 4;

fn optimizer() -> impl dl_core::Optimizer + Clone + 'static {
    AdamW::new(0.01).clip_norm(0.1)
}

#[test]
fn sums_in_slices_have_same_bits_on_any_number_of_ranks() -> Result<()> {
    for parts in [1, 3, 5, 8] {
        let (alone, adam) = (Net::new()?, optimizer());
        for step in 0..STEPS {
            Parts::mean((0..parts).map(|part| alone.loss(step, part))).train(&adam).wait()?;
        }
        let untouched = Net::new()?;
        assert!(bits_of(&alone.never) == bits_of(&untouched.never) && bits_of(&alone) != bits_of(&untouched));
        for ranks in [2, 3, 4] {
            let trained = Cluster::run_on(ranks, |cluster| {
                let (net, adam) = (Net::new()?, optimizer());
                for step in 0..STEPS {
                    cluster.mean(parts, |part| net.loss(step, part)).train(&net, &adam)?;
                }
                // the sums and their slices, and the vote
                let other = (cluster.rank() + 1) % ranks;
                assert_eq!(cluster.sent_to(other).exchanges, 3 * STEPS as u64);
                Ok(bits_of(&net))
            })?;
            assert!(trained.iter().all(|bits| *bits == bits_of(&alone)), "{parts} parts on {ranks} ranks");
        }
    }
    Ok(())
}

/// A weight of so many rows of 800 bytes, and a small one that one part uses.
type Large = (Weight<Nd<f64>>, Weight<f64>);

fn large(rows: usize) -> Result<Large> {
    let numbers = (0..100 * rows).map(|number| (number % 10_007) as f64).collect();
    Ok((Weight::new(Nd::from_vec([rows, 100], numbers)?), Weight::new(0.5)))
}

fn loss((large, small): &Large, part: usize) -> Layer<f64> {
    let x = (1.0 + part as f64) * large.square().mean();
    if part == 2 { x + small } else { x }
}

/// The rows of slices of three pieces on two ranks.
const ROWS: usize = 3_000;

#[test]
fn sums_in_pieces_have_same_bits_on_any_number_of_ranks() -> Result<()> {
    let trained = |ranks| {
        Cluster::run_on(ranks, |cluster| {
            let (net, adam) = (large(ROWS)?, optimizer());
            for _ in 0..2 {
                cluster.sum(5, |part| loss(&net, part)).train(&net, &adam)?;
            }
            let bits = net.0.value().view().iter().map(|number| number.to_bits()).collect::<Vec<_>>();
            Ok((bits, net.1.value(), cluster.sent_to(cluster.rank() ^ 1).exchanges))
        })
    };
    let alone = trained(1)?.swap_remove(0);
    // the pieces, their sums two rounds later, and the vote
    for (ranks, exchanges) in [(2, 2 * (3 + 2 + 1)), (4, 2 * (2 + 2 + 1))] {
        for (bits, small, sent) in trained(ranks)? {
            assert!(bits == alone.0 && small == alone.1, "{ranks} ranks");
            assert_eq!(sent, exchanges, "{ranks} ranks");
        }
    }
    Ok(())
}

/// Two ranks take steps, whose messages are so many.
fn whole_steps_only(rows: usize, steps: usize, messages: usize, faults: &[Fault]) -> Result<()> {
    let run = |at: usize, fault: Fault| {
        let shared = Arc::new(Shared::default());
        let program = |rank| {
            let (cluster, net) = (Cluster::with(Line::new(rank, at, fault, &shared)), large(rows).unwrap());
            let step = |_: &usize| cluster.sum(3, |part| loss(&net, part)).train(&net, &Sgd::new(0.1)).is_ok();
            ((0..steps).take_while(step).count(), net.0.value(), net.1.value())
        };
        std::thread::scope(|scope| [0, 1].map(|rank| scope.spawn(move || program(rank))).map(|run| run.join().unwrap()))
    };
    let mut expected = Vec::new();
    let net = large(rows)?;
    for _ in 0..=steps {
        expected.push((net.0.value(), net.1.value()));
        Parts::sum((0..3).map(|part| loss(&net, part))).train(&Sgd::new(0.1)).wait()?;
    }
    for &fault in faults {
        for at in 0..=steps * messages {
            let [one, two] = run(at, fault);
            assert_eq!(one.0, if fault == Fault::Fail { at / messages } else { steps }, "{fault:?} at message {at}");
            assert!(one == two && (one.1, one.2) == expected[one.0], "{fault:?} at message {at}");
        }
    }
    Ok(())
}

#[test]
fn fault_at_any_message_of_slices_leaves_whole_steps_only() -> Result<()> {
    whole_steps_only(100, 3, 6, &[Fault::Fail, Fault::Double, Fault::Late])
}

#[test]
fn fault_at_any_message_of_pieces_leaves_whole_steps_only() -> Result<()> {
    whole_steps_only(ROWS, 1, 12, &[Fault::Fail])
}

#[test]
fn other_number_of_numbers_is_error() {
    let error = Cluster::run_on(2, |cluster| {
        let weights: Vec<Weight<Nd<f32>>> =
            (0..=cluster.rank()).map(|_| Weight::new(Nd::full([200, 100], 1.0))).collect();
        let ended = cluster.sum(2, |_| weights[0].square().sum()).train(&weights, &Sgd::new(0.1));
        assert_eq!(weights[0].value().view()[[0, 0]], 1.0);
        ended
    });
    assert!(error.unwrap_err().to_string().contains("on 40000 numbers, and rank 0 one on 20000 numbers"));
}
