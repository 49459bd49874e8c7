//! Command-line arguments. Every flag has a default.

use std::{num::NonZeroUsize, path::PathBuf, thread};

use clap::Parser;

/// Trains a gated network on handwritten digits: per image, only the better of two experts is ever
/// built.
#[derive(Clone, Debug, Parser)]
#[command(name = "gated_net")]
pub(crate) struct Args {
    /// How many times to go through the training images.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) epochs: u32,

    /// Seed of the split, the shuffles and the initial weights.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// The number of threads that execute nodes, including the main thread.
    #[arg(long, default_value_t = available_threads())]
    pub(crate) threads: NonZeroUsize,

    /// The data file: one image a line, 64 pixels (0..=16), then the label (0..=9).
    #[arg(long, default_value = "data/digits.csv")]
    pub(crate) data: PathBuf,

    /// Trains on a device, with the feature `gpu`.
    #[arg(long)]
    pub(crate) device: bool,

    /// The output file of the curve of loss and accuracy (SVG).
    #[arg(long, default_value = "target/gated_net.svg")]
    pub(crate) out: PathBuf,
}

impl Args {
    /// The path of the data file: as given if it exists, otherwise relative to the package, so that
    /// the working directory does not matter.
    pub(crate) fn data_path(&self) -> PathBuf {
        let in_package = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(&self.data);
        if !self.data.exists() && in_package.exists() { in_package } else { self.data.clone() }
    }
}

fn available_threads() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
