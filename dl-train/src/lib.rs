//! Checkpoints: weights in files, and whole training runs that go on where they stopped. A
//! [`Trainer`] that takes them, with what goes along: [`metrics`], logs, early stopping, progress,
//! curves.
//!
//! Users reach it as `dl::train`, with the feature `train` of the `monadic-dl` package. [`Trainer`]
//! has an example of its own; checkpoints work with any loop:
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
//!     latest.skipped.iter().for_each(|error| eprintln!("passed over: {error}"));
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
//! Files are in the format of [safetensors](https://huggingface.co/docs/safetensors), which Python
//! reads and writes.
//!
//! # Words
//!
//! - *checkpoint*: a file with all that a run needs to go on ([`Checkpoint`], [`Saved`]); not to be
//!   confused with the marks of `Layer::checkpoint`, which save memory in a training step.
//! - *file of weights*: weights and buffers alone, by their paths ([`save_weights`], [`Load`]).
//! - *record*: the numbers of a step or an epoch, by name ([`Record`]). *Callbacks* see them
//!   ([`Callback`]).
//! - *step*: the number by which checkpoints in a folder are ordered ([`Checkpoints`]).
//!
//! # Promises
//!
//! - A run that goes on from a checkpoint is bit-identical to one that never stopped.
//! - A file is there whole or not at all, whenever the program or the machine stops.
//! - All is checked before anything is set; what fails changes nothing.
//! - Files are not trusted: no panic, no more memory than what is asked for has, and some times the
//!   header of the file. An error names the file and the entry.
//!
//! What it does not do: it transposes nothing (the `weight` of `dl_nn::Linear` is the transpose of
//! PyTorch's), knows no `.pt` files, and puts no net together from a file.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `terminal` | `Progress`, a bar; `Interrupt::on_ctrl_c` |
//! | `plot` | `plot`: curves as SVG and PNG |

#![forbid(unsafe_code)]

mod callback;
mod checkpoint;
mod checkpoints;
mod early_stopping;
mod file;
mod interrupt;
mod load;
mod log;
pub mod metrics;
#[cfg(feature = "plot")]
pub mod plot;
#[cfg(feature = "terminal")]
mod progress;
mod record;
mod report;
mod saved;
mod tensorboard;
mod trainer;
mod weights;

pub use callback::Callback;
pub use checkpoint::{Checkpoint, RngPlace};
pub use checkpoints::{Checkpoints, Latest};
pub use early_stopping::EarlyStopping;
pub use interrupt::Interrupt;
pub use load::Load;
pub use log::Log;
#[cfg(feature = "terminal")]
pub use progress::Progress;
pub use record::Record;
pub use report::{Misfit, Report};
pub use saved::{Restore, Saved};
pub use tensorboard::TensorBoard;
pub use trainer::{Outcome, Place, Stopped, Trainer};
pub use weights::{load_weights, save_weights};
