//! Runs file readers on random and on corrupted bytes.

use rand::seq::IndexedRandom;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A reader, and the files to corrupt.
#[derive(Clone, Copy)]
pub struct Fuzz<'a> {
    /// The name of the test. If the reader panics, its input is saved under this name.
    pub name: &'a str,
    /// The reader. It panics if the result is wrong.
    pub reader: fn(&[u8]),
    /// Valid files.
    pub good: &'a [Vec<u8>],
    /// Strings with a meaning in the format.
    pub words: &'a [&'a str],
    /// Wraps the bytes in a container, so that the container is intact.
    pub wrap: fn(&[u8]) -> Vec<u8>,
}

impl Fuzz<'_> {
    /// Runs the reader on 3,000 files; `DL_FUZZ_RUNS` sets another number. Each file is a function
    /// of its number.
    pub fn run(&self) {
        for file in self.good {
            (self.reader)(&(self.wrap)(file));
            (self.reader)(file);
        }
        let runs = std::env::var("DL_FUZZ_RUNS").map_or(3000, |runs| runs.parse().expect("DL_FUZZ_RUNS is a number"));
        for run in 0..runs {
            let mut rng = ChaCha8Rng::seed_from_u64(run);
            let bytes = if rng.random_ratio(1, 20) { random(&mut rng) } else { self.damaged(&mut rng) };
            let bytes = if rng.random_ratio(1, 4) { bytes } else { (self.wrap)(&bytes) };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.reader)(&bytes))) {
                let kept = std::env::temp_dir().join(format!("dl-{}-{run}", self.name));
                std::fs::write(&kept, &bytes).unwrap();
                eprintln!("{}: run {run} failed; its input is in {}", self.name, kept.display());
                resume_unwind(panic);
            }
        }
    }

    fn damaged(&self, rng: &mut ChaCha8Rng) -> Vec<u8> {
        let mut bytes = self.good.choose(rng).unwrap().clone();
        for _ in 0..rng.random_range(1..6) {
            let place = rng.random_range(0..=bytes.len());
            let end = rng.random_range(place..=bytes.len().min(place + 40));
            match rng.random_range(0..10) {
                0 => bytes.truncate(place),
                1 if place < bytes.len() => bytes[place] ^= 1 << rng.random_range(0..8),
                2 if place < bytes.len() => bytes[place] = rng.random(),
                3 => drop(bytes.drain(place..end)),
                4 => {
                    let piece = bytes[place..end].to_vec();
                    let to = rng.random_range(0..=bytes.len());
                    bytes.splice(to..to, piece);
                }
                5 => {
                    let other = self.good.choose(rng).unwrap();
                    let from = rng.random_range(0..=other.len());
                    bytes.truncate(place);
                    bytes.extend_from_slice(&other[from..]);
                }
                6 => {
                    let number = number(rng);
                    bytes.splice(place..bytes.len().min(place + number.len()), number);
                }
                7 => {
                    let digits: Vec<usize> = (0..bytes.len()).filter(|&place| bytes[place].is_ascii_digit()).collect();
                    if let Some(&place) = digits.choose(rng) {
                        bytes[place] = rng.random_range(b'0'..=b'9');
                    }
                }
                _ => {
                    if let Some(word) = self.words.choose(rng) {
                        bytes.splice(place..end.min(place + word.len()), word.bytes());
                    }
                }
            }
        }
        bytes
    }
}

fn random(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = vec![0; rng.random_range(0..300)];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// A length that may overflow, or the bits of a special float, in either byte order.
fn number(rng: &mut ChaCha8Rng) -> Vec<u8> {
    const NUMBERS: [u64; 11] =
        [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 1 << 60, 0x7FF0 << 48, u64::MAX];
    let number = NUMBERS.choose(rng).unwrap();
    let width = *[1, 2, 4, 8].choose(rng).unwrap();
    let little = &number.to_le_bytes()[..width];
    if rng.random() { little.to_vec() } else { little.iter().rev().copied().collect() }
}
