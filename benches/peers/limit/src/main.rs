//! What is possible: the same mathematics by hand, without a framework, for processors with AVX-512
//! or AVX2.
//!
//! Buffers are there from the start, weights lie as they are needed, gradients go straight into the
//! weights; bias, activation and pooling are part of the products. A second thread waits in a loop
//! instead of being woken.

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
    // the helper waits for ever
    std::process::exit(0);
}
