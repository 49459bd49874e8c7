//! Tests of tensors, one module for each topic. They form one program, which compiles and links
//! faster than one program each.

// helpers shared by several modules
mod compare;
mod faults;
mod gradient_check;

mod accuracy;
mod attention;
mod axes;
mod conv;
mod conveniences;
mod ctc;
mod derivatives;
mod device;
mod device_networks;
mod device_steps;
mod divided;
mod embedding;
mod errors;
mod facts;
mod fusion;
mod generic;
mod gradients;
mod init;
mod losses;
mod masks;
mod nets;
#[cfg(feature = "npy")]
mod npy;
mod optimizers;
mod pool;
mod products;
mod small_deltas;
mod spread;
mod stored;
mod sums;
mod threads;
mod waiting;
