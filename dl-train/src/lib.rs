//! Checkpoints in safetensors files, from which a training run resumes bit-identically, and a
//! [`Trainer`] with [`metrics`], logs, early stopping, progress and plots. A [`Batcher`] serves the
//! trained network.
//!
//! `monadic-dl` re-exports this crate as `dl::train` (feature `train`). The example below uses
//! checkpoints in a hand-written loop; see [`Trainer`] for the provided one.
//!
//! ```
//! use dl_core::{Differentiable, Weight};
//! use dl_optim::Adam;
//! use dl_train::{Checkpoint, Checkpoints, load_weights, save_weights};
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path().join("run");
//! let (net, adam) = ([Weight::new(3.0_f64), Weight::new(4.0)], Adam::new(0.1));
//!
//! let checkpoints = Checkpoints::in_folder(&folder).keep(3);
//! let mut step = 0;
//! if let Some(latest) = checkpoints.latest()? {
//!     latest.skipped.iter().for_each(|error| eprintln!("skipped: {error}"));
//!     latest.saved.restore().module("model", &net).optimizer("adam", &adam, &net).apply()?;
//!     step = latest.step;
//! }
//! while step < 10 {
//!     (&net[0] * &net[1]).train(&adam).wait()?;
//!     step += 1;
//!     checkpoints.save(step, &Checkpoint::new().module("model", &net).optimizer("adam", &adam, &net))?;
//! }
//!
//! save_weights(&net, folder.join("net.safetensors"))?;
//! load_weights(&net, folder.join("net.safetensors"))?;
//! # dl_core::Result::Ok(())
//! ```
//!
//! Files use the [safetensors](https://huggingface.co/docs/safetensors) format, which Python
//! libraries read and write.
//!
//! # Terms
//!
//! - *checkpoint*: a file with the complete state of a training run ([`Checkpoint`], [`Saved`]). It
//!   is unrelated to `Layer::checkpoint`, which saves memory in a training step.
//! - *file of weights*: the weights and buffers of a module by path ([`save_weights`], [`Load`]),
//!   or with the names and the layouts of PyTorch ([`save_torch`], [`Load::torch`]).
//! - *record*: the named numbers of a step or an epoch ([`Record`]), passed to each [`Callback`].
//! - *step*: the number of training steps taken; it orders the checkpoints in a folder
//!   ([`Checkpoints`]).
//!
//! # Guarantees
//!
//! - A run that resumes from a checkpoint is bit-identical to an uninterrupted one.
//! - Files are written atomically: after a crash of the program or the machine, a file is either
//!   complete or absent.
//! - Loading validates everything before it changes anything; on error nothing has changed.
//! - Files are untrusted input. Loading never panics on a malformed file. Its memory use is bounded
//!   by the tensors requested and a small multiple of the header. An error names the file and the
//!   tensor.
//!
//! The crate does not read `.pt` and `.bin` files of PyTorch, and does not construct a module from a
//! file.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `terminal` | `Progress`, a progress bar; `Interrupt::on_ctrl_c` |
//! | `plot` | `plot`: plots of training curves as SVG and PNG |

#![forbid(unsafe_code)]

mod batcher;
mod callback;
mod checkpoint;
mod checkpoints;
mod early_stopping;
mod file;
mod interrupt;
mod layout;
mod load;
mod log;
pub mod metrics;
mod names;
#[cfg(feature = "plot")]
pub mod plot;
#[cfg(feature = "terminal")]
mod progress;
mod record;
mod report;
mod saved;
mod sharded;
mod share;
mod tensorboard;
mod trainer;
mod weights;

pub use batcher::{Batcher, Batching, QueueFull};
pub use callback::Callback;
pub use checkpoint::{Checkpoint, RngPlace};
pub use checkpoints::{Checkpoints, Latest};
pub use early_stopping::EarlyStopping;
pub use interrupt::Interrupt;
pub use layout::Layout;
pub use load::Load;
pub use log::Log;
pub use names::Names;
#[cfg(feature = "terminal")]
pub use progress::Progress;
pub use record::Record;
pub use report::{Misfit, Report};
pub use saved::{Restore, Saved};
pub use sharded::Sharded;
pub use tensorboard::TensorBoard;
pub use trainer::{Outcome, Place, Stopped, Trainer};
pub use weights::{load_weights, save_torch, save_torch_as, save_weights};
