//! A net with all that a step may change, and an expert.

#![allow(dead_code, reason = "each test program uses a part of it")]

use dl_core::{Layer, Module, Numbers, Result, Visitor};
use dl_dist::{Cluster, remote};
use dl_nd::{NdLayer, init, ops::*};
use dl_nn::{BatchNorm, Block, Embedding, Linear};
use std::time::Duration;

pub(crate) struct Net {
    words: Embedding,
    hidden: Linear,
    norm: BatchNorm,
}

impl Module for Net {
    fn visit(&self, visitor: &mut Visitor) {
        visitor.field("words", &self.words);
        visitor.field("hidden", &self.hidden);
        visitor.field("norm", &self.norm);
        visitor.field("tied", &self.hidden.weight);
    }
}

const WIDTH: usize = 12;
const PART: usize = 4;

impl Net {
    pub(crate) fn new() -> Result<Net> {
        let rng = &mut init::rng(3);
        Ok(Net {
            words: Embedding::new(50, WIDTH, rng)?,
            hidden: Linear::new(WIDTH, WIDTH, rng)?,
            norm: BatchNorm::new(WIDTH)?,
        })
    }

    /// Needs a seed.
    pub(crate) fn loss(&self, part: usize) -> Layer<f32> {
        let ids: Vec<usize> = (0..PART).map(|i| (7 * part + i * i) % 50).collect();
        let hidden = self.norm.of(self.hidden.of(self.words.of(ids))).relu().dropout(0.3);
        self.hidden.of(hidden).square().mean()
    }

    pub(crate) fn bits(&self) -> Vec<u32> {
        bits_of(self)
    }
}

/// The bits of all weights and buffers.
pub(crate) fn bits_of(module: &impl Module) -> Vec<u32> {
    let bits = |numbers| match numbers {
        Numbers::F32(row) => row.into_iter().map(f32::to_bits).collect::<Vec<u32>>(),
        other => panic!("{other:?}"),
    };
    module.entries().iter().flat_map(|entry| bits(entry.numbers())).collect()
}

/// A block of two layers, `[batch, 6] → [batch, 6]`.
#[derive(Clone, Debug, dl_macros::Module)]
#[module(crate = dl_core)]
pub(crate) struct Expert {
    pub(crate) hidden: Linear,
    pub(crate) output: Linear,
    pub(crate) dropout: f64,
}

impl Expert {
    pub(crate) fn new(number: usize) -> Result<Expert> {
        let rng = &mut init::rng(100 + number as u64);
        Ok(Expert { hidden: Linear::new(6, 10, rng)?, output: Linear::new(10, 6, rng)?, dropout: 0.0 })
    }
}

#[remote(crate = dl_dist)]
impl Block for Expert {
    fn of(&self, x: &NdLayer) -> NdLayer {
        let hidden = self.hidden.of(x).relu();
        let hidden = if self.dropout > 0.0 { hidden.dropout(self.dropout) } else { hidden };
        self.output.of(hidden)
    }
}

/// Waits until no call of another rank is kept. A release may have to go through several ranks.
#[track_caller]
pub(crate) fn assert_all_released(cluster: &Cluster) {
    for _ in 0..2_000 {
        if cluster.open_calls() == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{} calls are kept on rank {}", cluster.open_calls(), cluster.rank());
}
