//! Data sets, batch loaders and file readers.
//!
//! `monadic-dl` re-exports this crate as `dl::data` (feature `data`).
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
//! # Terms
//!
//! - *sample*: the item of a [`Dataset`] at one index: a tensor, a label, or a tuple of these.
//! - *batch*: several samples combined by [`Collate`].
//! - *epoch*: one pass over all samples, in an order that depends on the seed and the epoch number;
//!   one iterator of [`Batches`].
//! - *position*: epoch and batch at which a run continues; see [`Position`].
//! - *source*: a file or bytes in memory, with a limit on the number of bytes read; see [`Source`].
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
//! | PNG, JPEG, WebP, BMP, GIF; folders of them | `read_image`, `ImageFolder` (feature `images`) |
//!
//! Files are untrusted input. A reader never panics on a malformed file. Its memory use is bounded
//! by a small multiple of the actual content, up to the limit of the [`Source`]: a length in a
//! header is checked before it is used for an allocation. An error names the file, the position in
//! it, the expected and the found content, and a remedy.
//!
//! The crate neither downloads files nor writes data sets.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `images` | data sets of PNG, JPEG, WebP, BMP and GIF files: `ImageFolder`, `read_image` |

#![forbid(unsafe_code)]

mod adapters;
mod batches;
pub mod cifar;
mod collate;
mod csv;
mod dataset;
mod draw;
mod error;
#[cfg(feature = "images")]
mod folder;
pub mod idx;
#[cfg(feature = "images")]
mod image_file;
mod loader;
mod normalizer;
mod npz;
mod on_device;
mod order;
mod source;
mod split;

pub use crate::csv::{Column, Csv, Frame};
pub use adapters::{Augmented, Concat, Mapped, Subset, Zip, concat};
pub use batches::Batches;
pub use collate::Collate;
pub use dataset::{Dataset, InMemory};
pub use draw::{Draw, Rng};
#[cfg(feature = "images")]
pub use folder::ImageFolder;
#[cfg(feature = "images")]
pub use image_file::read_image;
pub use loader::{Loader, Position};
pub use normalizer::{Normalizer, unit};
pub use npz::Npz;
pub use on_device::{OnDevice, ToDevice};
pub use rand;
pub use source::Source;
pub use split::{split, split_by_class};
