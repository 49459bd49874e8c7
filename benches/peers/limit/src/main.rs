//! A lower bound for the times: hand-written implementations without a framework, for processors
//! with AVX-512 or AVX2.
//!
//! Buffers are preallocated, weights have the layout the kernels need, and gradients are added to
//! the weights in place. Bias, activation and pooling are fused into the products. The second
//! thread spins instead of being woken.

#![allow(unsafe_op_in_unsafe_fn, unused_unsafe, reason = "hand-written kernels: all of it is")]
#![allow(
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    clippy::needless_range_loop,
    reason = "tiles are index arithmetic"
)]

mod conv;
mod kernel;
mod mlp;
mod paper;
mod pointwise;
mod prediction;
mod scalars;
mod team;
mod tree_lstm;
mod vector;

const _: () = assert!(
    cfg!(all(target_feature = "avx2", target_feature = "fma")),
    "build it with RUSTFLAGS=\"-C target-cpu=native\" on a processor with AVX2"
);

fn main() {
    let mut bench = common::Bench::from_arguments();
    let team = team::Team::new(bench.threads);
    bench.run("w1", |bench| {
        for columns in [1, 2, 4] {
            for skip in [false, true] {
                paper::w1(bench, &team, columns, skip);
            }
        }
    });
    bench.run("w2", scalars::w2);
    bench.run("w3", |bench| pointwise::w3(bench, &team));
    bench.run("w5", |bench| mlp::w5(bench, &team));
    bench.run("w6", |bench| conv::w6(bench, &team));
    bench.run("w7", tree_lstm::w7);
    bench.run("w8", prediction::w8);
    // the second thread spins for ever
    std::process::exit(0);
}
