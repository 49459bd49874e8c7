//! Random and damaged files: loading must not panic, and its results must satisfy the checks of
//! `fuzz/readers.rs`.
//!
//! Each kind of file gets 3000 inputs; `DL_FUZZ_RUNS=1000000 cargo test --release --test mutations`
//! runs a million. A failing input is saved in the temporary folder.

use dl_core::{Differentiable, Result};
use dl_optim::Adam;
use dl_train::{Checkpoint, RngPlace, save_weights};
use rand::seq::IndexedRandom;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

#[path = "../fuzz/readers.rs"]
mod readers;

fn runs() -> u64 {
    std::env::var("DL_FUZZ_RUNS").map_or(3000, |runs| runs.parse().expect("DL_FUZZ_RUNS is a number"))
}

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
    good.iter().for_each(|file| reader(file));
    for run in 0..runs() {
        let mut rng = ChaCha8Rng::seed_from_u64(run);
        let bytes = match rng.random_ratio(1, 20) {
            true => random(&mut rng),
            false => damaged(&mut rng, good),
        };
        // in three of four runs the length of the header is corrected, so that the damage gets
        // further
        let bytes = if rng.random_ratio(1, 4) { bytes } else { with_right_length(bytes) };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| reader(&bytes))) {
            let kept = std::env::temp_dir().join(format!("dl-train-{name}-{run}"));
            std::fs::write(&kept, &bytes).unwrap();
            eprintln!("{name}: run {run} failed; its input is in {}", kept.display());
            resume_unwind(panic);
        }
    }
}

fn random(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = vec![0; rng.random_range(0..300)];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn damaged(rng: &mut ChaCha8Rng, good: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = good.choose(rng).unwrap().clone();
    for _ in 0..rng.random_range(1..5) {
        let place = rng.random_range(0..=bytes.len());
        let end = rng.random_range(place..=bytes.len().min(place + 40));
        match rng.random_range(0..10) {
            0 => bytes.truncate(place),
            1 if place < bytes.len() => bytes[place] ^= 1 << rng.random_range(0..8),
            2 if place < bytes.len() => bytes[place] = rng.random(),
            3 => drop(bytes.drain(place..end)),
            4 => {
                let piece = bytes[place..end].to_vec();
                let to = rng.random_range(0..=bytes.len());
                bytes.splice(to..to, piece);
            }
            5 => {
                let other = good.choose(rng).unwrap();
                let from = rng.random_range(0..=other.len());
                bytes.truncate(place);
                bytes.extend_from_slice(&other[from..]);
            }
            6 => {
                let number = [0, 1, 0x7FF0 << 48, 0x7FFF_FFFF, 0xFFFF_FFFF, 1_u64 << 60, u64::MAX].choose(rng).unwrap();
                let end = bytes.len().min(place + 8);
                bytes.splice(place..end, number.to_le_bytes());
            }
            // replace a digit: shapes and offsets
            7 => {
                let digits: Vec<usize> = (8..bytes.len()).filter(|&place| bytes[place].is_ascii_digit()).collect();
                if let Some(&place) = digits.choose(rng) {
                    bytes[place] = rng.random_range(b'0'..=b'9');
                }
            }
            _ => {
                let word = WORDS.choose(rng).unwrap();
                bytes.splice(place..end.min(place + word.len()), word.bytes());
            }
        }
    }
    bytes
}

/// Sets the length of the header to the end of its JSON.
fn with_right_length(mut bytes: Vec<u8>) -> Vec<u8> {
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
