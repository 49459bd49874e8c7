//! Checks a device: whether it has the bits of the host, and how fast it is.
//!
//! ```sh
//! cargo run --release -p monadic-dl-gpu --example check            # all
//! cargo run --release -p monadic-dl-gpu --example check -- --small # on a device without a GPU
//! cargo run --release -p monadic-dl-gpu --example check -- ratios  # one of bits, bench, ratios
//! ```
//!
//! `run.sh` runs it on a machine that has no Rust, and PyTorch with the same workloads if it is
//! there.

#![forbid(unsafe_code)]

mod bits;
mod ratios;
mod workloads;

use dl_core::Result;
use dl_nd::Nd;
use ndarray::Ix2;

/// How large the problems are.
#[derive(Clone, Copy)]
struct Size {
    small: bool,
}

impl Size {
    fn of(self, full: usize, small: usize) -> usize {
        if self.small { small } else { full }
    }
}

/// A matrix of numbers of either sign, whose sums and products are rounded.
fn matrix(shape: [usize; 2], seed: usize, scale: f32) -> Nd {
    let number = |i: usize| (((i * 7919 + seed * 104_729) % 20_011) as f32 / 10_005.3 - 1.0) * scale;
    Nd::<f32, Ix2>::from_vec(shape, (0..shape[0] * shape[1]).map(number).collect()).expect("one number each")
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let size = Size { small: has("--small") };
    let device = dl_gpu::open()?;
    println!("{}", device.name());
    let all = !["bits", "bench", "ratios"].into_iter().any(has);
    if all || has("bits") {
        bits::check(&device, size)?;
    }
    if all || has("bench") {
        workloads::measure(&device, size)?;
    }
    if all || has("ratios") {
        ratios::measure(&device)?;
    }
    Ok(())
}
