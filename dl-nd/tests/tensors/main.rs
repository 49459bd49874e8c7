//! Tensors, one file for each of their concerns. It is one program, as most of what each file needs is compiled for all of them.

mod accuracy;
mod compare;
mod conv;
mod derivatives;
mod embedding;
mod errors;
mod facts;
mod faults;
mod fusion;
mod gradient_check;
mod gradients;
mod init;
mod losses;
mod nets;
#[cfg(feature = "npy")]
mod npy;
mod optimizers;
mod pool;
mod products;
mod small_deltas;
mod stored;
mod sums;
mod threads;
mod waiting;
