//! Counter-based random numbers: one generator per purpose, seed, epoch and index.

use rand::SeedableRng;

/// The generator of augmentations, splits and orders: ChaCha with 8 rounds. Its output is
/// specified, so a seed gives the same numbers on every platform.
///
/// ```
/// use dl_data::{Draw, Rng, rand::RngCore};
/// let mut rng: Rng = Draw { seed: 1, epoch: 0 }.rng(5);
/// assert_eq!(rng.next_u64(), Draw { seed: 1, epoch: 0 }.rng(5).next_u64());
/// ```
pub type Rng = rand_chacha::ChaCha8Rng;

/// The seed and the epoch that determine the random numbers of a sample.
///
/// ```
/// use dl_data::{Dataset, Draw, InMemory};
/// assert_eq!(InMemory(vec![7, 8]).drawn(1, Draw { seed: 1, epoch: 3 })?, 8);   // a vector has no random part
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Draw {
    /// The seed of the loader.
    pub seed: u64,
    /// The epoch, from 0.
    pub epoch: u64,
}

impl Draw {
    /// The generator for the sample at `index`.
    ///
    /// ```
    /// use dl_data::{Draw, rand::RngCore};
    /// let draw = Draw { seed: 1, epoch: 0 };
    /// assert_ne!(draw.rng(5).next_u64(), draw.rng(6).next_u64());
    /// ```
    pub fn rng(self, index: usize) -> Rng {
        generator(Purpose::Augment, self, index as u64)
    }

    /// The draw for the data set inside an augmentation. Its numbers must differ from those of the
    /// augmentation itself.
    pub(crate) fn inner(self) -> Draw {
        Draw { seed: self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32) ^ 0xD1B5_4A32_D192_ED03, ..self }
    }
}

/// The purpose of a generator. Different purposes share no random numbers.
pub(crate) enum Purpose {
    Split = 1,
    Shuffle = 2,
    Augment = 3,
}

/// All inputs fit into the key of ChaCha, so no hash is needed.
pub(crate) fn generator(purpose: Purpose, draw: Draw, index: u64) -> Rng {
    let mut key = [0; 32];
    for (bytes, number) in key.chunks_exact_mut(8).zip([draw.seed, draw.epoch, index, purpose as u64]) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    Rng::from_seed(key)
}
