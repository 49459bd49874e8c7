//! Random programs with branches that depend on values, on random numbers of ranks: no hang, and the
//! bits of one rank. `DL_DIST_PROGRAMS` is their number, `DL_DIST_SEED` the first one.

use super::support::{Expert, assert_all_released, bits_of};
use dl_core::{Layer, Result, Weight};
use dl_dist::{Cluster, Placed};
use dl_nd::{Nd, NdLayer, ops::*};
use dl_nn::Block;
use dl_optim::{Adam, OptimizerExt};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((x ^ (x >> 31)) % end as u64) as usize
    }
}

/// A net of experts and a weight that each rank has.
#[derive(Clone)]
struct Net {
    experts: Arc<Vec<Placed<Expert>>>,
    scale: Weight<f32>,
}

impl Net {
    fn value(&self, random: &mut Random, x: &NdLayer, depth: usize) -> NdLayer {
        let expert = random.below(self.experts.len());
        if depth == 0 {
            return self.experts[expert].of(x);
        }
        match random.below(6) {
            0 => self.experts[expert].of(&self.value(random, x, depth - 1)),
            1 => self.value(random, x, depth - 1) + self.value(random, x, depth - 1),
            2 => (&self.value(random, x, depth - 1) * &self.scale).tanh(),
            3 => x.clone(),
            _ => {
                let (net, x, random) = (self.clone(), x.clone(), random.clone());
                Layer::dynamic(move || {
                    let (net, x, mut random) = (net.clone(), x.clone(), random.clone());
                    async move {
                        let is_left = x.mean().extract().await? > 0.0;
                        random.below(2 + usize::from(is_left));
                        Ok(net.value(&mut random, &x, depth - 1))
                    }
                })
            }
        }
    }
}

/// The losses of some steps and the final bits.
fn run(cluster: &Cluster, program: u64) -> Result<(Vec<f32>, Vec<u32>)> {
    let random = &mut Random(program);
    let experts = cluster.spread(0..1 + random.below(4), Expert::new)?;
    let net = Net { experts: Arc::new(experts), scale: Weight::new(0.9) };
    let adam = Adam::new(0.02);
    let (parts, depth) = (1 + random.below(4), random.below(4));
    let (clips, mut losses) = (random.below(2) == 0, Vec::new());
    for step in 0..2 {
        let loss = |part: usize| {
            let random = &mut Random(program ^ (100 + 10 * step + part as u64));
            let x: NdLayer = Layer::constant(Nd::full([1, 6], (part as f32 - 1.0) / 4.0));
            net.value(random, &x, depth).square().mean()
        };
        let of_step = cluster.sum(parts, loss).at_once(1 + parts / 2);
        let module = (&*net.experts, &net.scale);
        losses.extend(if clips {
            of_step.train(&module, &adam.clone().clip_norm(0.1))?
        } else {
            of_step.train(&module, &adam)?
        });
    }
    cluster.compare(&net.scale)?;
    let bits = bits_of(&(&*net.experts, &net.scale));
    cluster.compare(&net.scale)?; // the others read from this rank
    assert_all_released(cluster);
    Ok((losses, bits))
}

#[test]
fn random_programs_on_any_number_of_ranks_have_bits_of_one_rank() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (first, programs) = (number("DL_DIST_SEED", 1_u64), number("DL_DIST_PROGRAMS", 100));
    for program in first..first + programs {
        let (sender, receiver) = channel();
        let ranks = 2 + (program % 3) as usize;
        std::thread::spawn(move || {
            let expected = Cluster::run_on(1, |cluster| run(cluster, program));
            sender.send((expected, Cluster::run_on(ranks, |cluster| run(cluster, program)))).ok();
        });
        let ended = receiver.recv_timeout(Duration::from_secs(60));
        let (expected, all) = ended.unwrap_or_else(|_| panic!("program {program} hangs on {ranks} ranks"));
        let (expected, all) =
            (expected.unwrap().swap_remove(0), all.unwrap_or_else(|error| panic!("{program}: {error}")));
        assert!(all.iter().all(|ended| *ended == expected), "program {program} on {ranks} ranks");
    }
}
