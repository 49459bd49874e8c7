//! Generates random programs as annotated functions, which `tests/programs.rs` includes.
//!
//! `DL_PROGRAMS=200` sets their number, `DL_PROGRAMS_SEED=17` their seed.

#[allow(unreachable_pub, reason = "it is the library of this package")]
#[path = "src/lib.rs"]
mod programs;

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/lib.rs");
    let count = number("DL_PROGRAMS", 25);
    let seed = number("DL_PROGRAMS_SEED", 7);
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    std::fs::write(folder.join("programs.rs"), programs::source(seed, count as usize)).expect("a file");
}

fn number(variable: &str, default: u64) -> u64 {
    println!("cargo::rerun-if-env-changed={variable}");
    std::env::var(variable).map_or(default, |number| number.parse().unwrap_or_else(|_| panic!("{variable}: no number")))
}
