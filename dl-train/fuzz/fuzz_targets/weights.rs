#![no_main]

#[path = "../readers.rs"]
#[allow(dead_code, reason = "a target runs one reader")]
mod readers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| readers::weights(bytes));
