//! Gradient descent with momentum that records the bits of all updates.

use dl::{Chunk, Memory, Optimizer, Result, Sgd, Slot};
use std::sync::{Arc, Mutex};

/// Weights are updated in a fixed order, and so are the records.
#[derive(Clone)]
pub(crate) struct Witness {
    sgd: Sgd,
    bits: Arc<Mutex<Vec<u64>>>,
}

impl Witness {
    pub(crate) fn new(learning_rate: f64) -> Self {
        Witness { sgd: Sgd::new(learning_rate).momentum(0.9), bits: Arc::default() }
    }

    /// For each step and weight, a digest of its values, then of its momentum. Removes the records.
    pub(crate) fn take_bits(&self) -> Vec<u64> {
        std::mem::take(&mut *self.bits.lock().unwrap())
    }
}

impl Optimizer for Witness {
    fn slots(&self) -> &[Slot] {
        self.sgd.slots()
    }

    fn memory(&self) -> Option<&Memory> {
        self.sgd.memory()
    }

    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        let digests = match chunk {
            Chunk::F32 { values, deltas, slots } => {
                self.sgd.step(Chunk::F32 { values: &mut *values, deltas, slots: &mut [&mut *slots[0]] }, steps)?;
                [digest(values, |x| x.to_bits().into()), digest(slots[0], |x| x.to_bits().into())]
            }
            Chunk::F64 { values, deltas, slots } => {
                self.sgd.step(Chunk::F64 { values: &mut *values, deltas, slots: &mut [&mut *slots[0]] }, steps)?;
                [digest(values, |x| x.to_bits()), digest(slots[0], |x| x.to_bits())]
            }
        };
        self.bits.lock().unwrap().extend(digests);
        Ok(())
    }
}

/// FNV-1a over words.
fn digest<A: Copy>(numbers: &[A], bits: impl Fn(A) -> u64) -> u64 {
    numbers.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &x| (hash ^ bits(x)).wrapping_mul(0x0100_0000_01B3))
}
