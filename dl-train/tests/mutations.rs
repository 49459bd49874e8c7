//! Random and damaged files: loading must not panic, and its results must satisfy the checks of
//! `fuzz/readers.rs`.
//!
//! Each kind of file gets 3000 inputs; `DL_FUZZ_RUNS=1000000 cargo test --release --test all
//! mutations::` runs a million. A failing input is saved in the temporary folder.

use dl_core::{Differentiable, Result};
use dl_optim::Adam;
use dl_train::{Checkpoint, RngPlace, save_weights};
use serde_json::{Value, json};
use test_support::fuzz::Fuzz;

#[path = "../fuzz/readers.rs"]
mod readers;

const WORDS: [&str; 28] = [
    "F16",
    "BF16",
    "F32",
    "F64",
    "I64",
    "U64",
    "U8",
    "BOOL",
    "F4",
    "dtype",
    "shape",
    "data_offsets",
    "__metadata__",
    "[]",
    "[2]",
    "[0,8]",
    "1152921504606846976",
    "-1",
    "1e3",
    "\\u0000",
    "\\ud800",
    "module/model/",
    "optimizer/adam/",
    "slots/exp_avg/",
    "steps",
    "\"",
    "null",
    "{}",
];

fn mutate(name: &str, reader: fn(&[u8]), good: &[Vec<u8>]) {
    Fuzz { name: &format!("train-{name}"), reader, good, words: &WORDS, wrap: with_right_length }.run();
}

/// The length of the header is where its JSON ends.
fn with_right_length(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let Some(behind) = bytes.get(8..) else { return bytes };
    let mut values = serde_json::Deserializer::from_slice(behind).into_iter::<Value>();
    if values.next().is_some_and(|value| value.is_ok()) {
        let length = values.byte_offset() as u64;
        bytes[..8].copy_from_slice(&length.to_le_bytes());
    }
    bytes
}

/// The same file without its checksum, so that damage passes the checksum test.
fn without_checksum(bytes: &[u8]) -> Vec<u8> {
    let end = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..end]).unwrap();
    let head = &mut header["__metadata__"]["dl"];
    let mut json: Value = serde_json::from_str(head.as_str().unwrap()).unwrap();
    assert!(json.as_object_mut().unwrap().remove("crc32").is_some());
    *head = json!(json.to_string());
    let header = header.to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &bytes[end..]].concat()
}

fn with_and_without(path: &std::path::Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    vec![without_checksum(&bytes), bytes]
}

#[test]
fn weights_reader_with_damaged_input_does_not_panic() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors");
    save_weights(&readers::net(), &path)?;
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/torch.safetensors");
    let mut good = with_and_without(&path);
    good.push(std::fs::read(fixture).unwrap());
    mutate("weights", readers::weights, &good);
    Ok(())
}

#[test]
fn checkpoint_reader_with_damaged_input_does_not_panic() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let (net, adam) = (readers::net(), Adam::new(0.1));
    (&net.0 * &net.4).train(&adam).wait()?;
    Checkpoint::new()
        .module("model", &net)
        .optimizer("adam", &adam, &net)
        .number("best", 0.5)
        .count("epoch", 3)
        .text("note", "some words")
        .rng("order", RngPlace { seed: [1; 32], stream: 2, word: 3 })
        .save(&path)?;
    mutate("checkpoint", readers::checkpoint, &with_and_without(&path));
    Ok(())
}
