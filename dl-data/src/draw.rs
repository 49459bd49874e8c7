//! Random numbers by position: which generator is used for what.

use rand::SeedableRng;

/// The generator of augmentations, splits and orders: ChaCha, whose stream is specified, so that a
/// seed means the same on every platform.
///
/// ```
/// use dl_data::{Draw, Rng, rand::RngCore};
/// let mut rng: Rng = Draw { seed: 1, epoch: 0 }.rng(5);
/// assert_eq!(rng.next_u64(), Draw { seed: 1, epoch: 0 }.rng(5).next_u64());
/// ```
pub type Rng = rand_chacha::ChaCha8Rng;

/// In which run, by its seed, and in which epoch a sample is drawn.
///
/// ```
/// use dl_data::{Dataset, Draw, InMemory};
/// assert_eq!(InMemory(vec![7, 8]).drawn(1, Draw { seed: 1, epoch: 3 })?, 8);   // nothing random in a vector
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
    /// The generator for the sample of this index.
    ///
    /// ```
    /// use dl_data::{Draw, rand::RngCore};
    /// let draw = Draw { seed: 1, epoch: 0 };
    /// assert_ne!(draw.rng(5).next_u64(), draw.rng(6).next_u64());
    /// ```
    pub fn rng(self, index: usize) -> Rng {
        generator(Purpose::Augment, self, index as u64)
    }

    /// The draw of what lies below an augmentation, which must not meet the same numbers.
    pub(crate) fn below(self) -> Draw {
        Draw { seed: self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32) ^ 0xD1B5_4A32_D192_ED03, ..self }
    }
}

/// What random numbers are for: no two purposes share any.
pub(crate) enum Purpose {
    Split = 1,
    Shuffle = 2,
    Augment = 3,
}

/// The key of ChaCha has room for all that a generator depends on, so nothing needs to be hashed.
pub(crate) fn generator(purpose: Purpose, draw: Draw, index: u64) -> Rng {
    let mut key = [0; 32];
    for (bytes, number) in key.chunks_exact_mut(8).zip([draw.seed, draw.epoch, index, purpose as u64]) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    Rng::from_seed(key)
}
