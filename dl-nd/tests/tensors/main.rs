//! Tensors, one file for each of their concerns. It is one program, as most of what each file needs
//! is compiled for all of them.

// what several of them check with
mod compare;
mod faults;
mod gradient_check;

mod accuracy;
mod conv;
mod derivatives;
mod embedding;
mod errors;
mod facts;
mod fusion;
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
