//! Data sets, loaders and readers.
//!
//! Users reach it as `dl::data`, with the feature `data` of the `monadic-dl` package.
//!
//! ```
//! use dl_data::{Csv, Dataset, InMemory, Loader, Source};
//!
//! let file = "height,width,kind\n1.5,0.5,small\n7.0,6.5,large\n1.0,1.5,small\n6.0,8.5,large\n";
//! let frame = Csv::new().label("kind").read::<f32>(Source::memory("kinds.csv", file.as_bytes()))?;
//! assert_eq!(frame.classes, ["large", "small"]);
//!
//! let [train, test] = dl_data::split_by_class(&frame.labels, [0.5, 0.5], 1)?;
//! let data = InMemory(frame.features).zip(InMemory(frame.labels))?;
//! let loader = Loader::new(data.subset(train)?, 2).shuffle(true).seed(1);
//! for batch in loader.epoch(0)? {
//!     let (features, labels) = batch?;
//!     assert_eq!((features.shape(), labels.shape()), (&[2, 2][..], &[2][..]));
//! }
//! # let _ = test;
//! # dl_core::Result::Ok(())
//! ```
//!
//! # Words
//!
//! - *sample*: what a [`Dataset`] holds at an index: a tensor, a label, a pair of both.
//! - *batch*: samples that were put together, by [`Collate`].
//! - *epoch*: each sample once, in an order that depends on the seed and the number of the epoch;
//!   the batches of a [`Loader`].
//! - *position*: the epoch and the batch at which a run is; see [`Position`].
//! - *source*: where bytes come from, and how many of them are accepted; see [`Source`].
//!
//! # Readers
//!
//! | format | reader |
//! |---|---|
//! | CSV | [`Csv`] |
//! | `.npy` | [`Nd::read_npy`](dl_nd::Nd::read_npy) |
//! | `.npz` | [`Npz`] |
//! | IDX (MNIST) | [`idx`] |
//! | CIFAR-10 and CIFAR-100, binary | [`cifar`] |
//! | folders of PNG and JPEG files | `ImageFolder` (feature `images`) |
//!
//! Files are not trusted: no reader panics, takes more memory than some times what the file really
//! holds, or believes a length before the bytes are there. An error names the file, the place in
//! it, what was expected there and what was found.
//!
//! What it does not do: it downloads nothing, and writes no files.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `images` | folders of PNG and JPEG files as data sets: `ImageFolder`, `read_image` |

#![forbid(unsafe_code)]

mod adapt;
mod batches;
pub mod cifar;
mod collate;
mod csv;
mod dataset;
mod draw;
mod fault;
#[cfg(feature = "images")]
mod folder;
pub mod idx;
mod loader;
mod normalizer;
mod npz;
mod order;
mod source;
mod split;

pub use crate::csv::{Column, Csv, Frame};
pub use adapt::{Augmented, Concat, Mapped, Subset, Zip, concat};
pub use batches::Batches;
pub use collate::Collate;
pub use dataset::{Dataset, InMemory};
pub use draw::{Draw, Rng};
#[cfg(feature = "images")]
pub use folder::{ImageFolder, read_image};
pub use loader::{Loader, Position};
pub use normalizer::{Normalizer, unit};
pub use npz::Npz;
pub use rand;
pub use source::Source;
pub use split::{split, split_by_class};
