//! Every reader on random and on damaged files: it must not panic, and its results must satisfy the
//! checks of `fuzz/readers.rs`.
//!
//! Each reader gets 3000 inputs; `DL_FUZZ_RUNS=1000000 cargo test --release --test mutations` runs
//! a million. A failing input is saved in the temporary folder.
#![cfg(feature = "images")]

use dl_data::rand::seq::IndexedRandom;
use dl_data::rand::{Rng, RngCore};
use dl_data::{Draw, Rng as Generator};
use flate2::{Compression, write::GzEncoder};
use std::io::{Cursor, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use zip::write::{SimpleFileOptions, ZipWriter};

#[path = "../fuzz/readers.rs"]
mod readers;

fn fixture(name: &str) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect();
    std::fs::read(path).unwrap()
}

fn runs() -> usize {
    std::env::var("DL_FUZZ_RUNS").map_or(3000, |runs| runs.parse().expect("DL_FUZZ_RUNS is a number"))
}

/// Runs a reader on valid files, random bytes and damaged files. `wrap` packs the bytes, for
/// instance into gzip, before they are read.
fn mutate(name: &str, reader: fn(&[u8]), good: &[Vec<u8>], words: &[&str], wrap: fn(&[u8]) -> Vec<u8>) {
    for file in good {
        reader(&wrap(file));
        reader(file);
    }
    for run in 0..runs() {
        let mut rng = Draw { seed: 1, epoch: 0 }.rng(run);
        let bytes = if rng.random_ratio(1, 20) { random(&mut rng) } else { damaged(&mut rng, good, words) };
        // In three of four runs the damage is inside an intact wrapper.
        let bytes = if rng.random_ratio(1, 4) { bytes } else { wrap(&bytes) };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| reader(&bytes))) {
            let kept = std::env::temp_dir().join(format!("dl-data-{name}-{run}"));
            std::fs::write(&kept, &bytes).unwrap();
            eprintln!("{name}: run {run} failed; its input is in {}", kept.display());
            resume_unwind(panic);
        }
    }
}

fn random(rng: &mut Generator) -> Vec<u8> {
    let mut bytes = vec![0; rng.random_range(0..300)];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn damaged(rng: &mut Generator, good: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut bytes = good.choose(rng).unwrap().clone();
    for _ in 0..rng.random_range(1..6) {
        let place = rng.random_range(0..=bytes.len());
        let end = rng.random_range(place..=bytes.len().min(place + 40));
        match rng.random_range(0..9) {
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
                // extreme lengths, in both byte orders
                let number = [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 1_u64 << 60, u64::MAX]
                    .choose(rng)
                    .unwrap();
                let width = *[1, 2, 4, 8].choose(rng).unwrap();
                let little = &number.to_le_bytes()[..width];
                let number = if rng.random() { little.to_vec() } else { little.iter().rev().copied().collect() };
                let end = bytes.len().min(place + width);
                bytes.splice(place..end, number);
            }
            _ => {
                if let Some(word) = words.choose(rng) {
                    bytes.splice(place..end.min(place + word.len()), word.bytes());
                }
            }
        }
    }
    bytes
}

fn unwrapped(bytes: &[u8]) -> Vec<u8> {
    bytes.to_vec()
}

fn in_gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn in_zip(bytes: &[u8]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("a.npy", SimpleFileOptions::default()).unwrap();
    zip.write_all(bytes).unwrap();
    zip.finish().unwrap().into_inner()
}

#[test]
fn csv_reader_with_damaged_input_does_not_panic() {
    let good = [
        "x,y,kind\n1,2,a\n3,4,b\n5.5,-6e3,a\n",
        "0;1\r\na;2\r\n\r\nb;?\r\n",
        "x,y,kind\n\"1\",\"2\",\"a\nb\"\n# no\n,NA,\u{e9}",
        "1,2,0\n3,4,2",
    ];
    let good = good.map(|text| text.as_bytes().to_vec());
    let words = [
        "\"",
        "\n",
        "\r\n",
        ",",
        ";",
        "nan",
        "inf",
        "1e999",
        "kind",
        "\u{feff}",
        "\u{fffd}",
        "-",
        "?",
        "#",
        "99999999999999999999",
        "\0",
    ];
    mutate("csv", readers::csv, &good, &words, unwrapped);
}

const IN_NPY: [&str; 16] = [
    "<f8",
    ">f4",
    "|b1",
    "|O",
    "<f4",
    "<i8",
    "'",
    "(",
    ")",
    "[",
    "{",
    "True",
    "False",
    "1152921504606846976",
    "4294967296,",
    "0, ",
];

/// The `.npy` files of an archive.
fn npy_files() -> Vec<Vec<u8>> {
    let mut archive = zip::ZipArchive::new(Cursor::new(fixture("plain.npz"))).unwrap();
    let mut files = Vec::new();
    for number in 0..archive.len() {
        let mut file = Vec::new();
        std::io::copy(&mut archive.by_index(number).unwrap(), &mut file).unwrap();
        files.push(file);
    }
    files
}

#[test]
fn npy_reader_with_damaged_input_does_not_panic() {
    mutate("npy", readers::npy, &npy_files(), &IN_NPY, unwrapped);
}

#[test]
fn npz_reader_with_damaged_input_does_not_panic() {
    mutate("npz", readers::npz, &npy_files(), &IN_NPY, in_zip);
    let archives = ["plain.npz", "compressed.npz", "zeros.npz", "objects.npz", "twice.npz", "other.npz"].map(fixture);
    mutate(
        "npz",
        readers::npz,
        &archives,
        &["PK\x01\x02", "PK\x03\x04", "PK\x05\x06", "PK\x06\x06", "PK\x06\x07", ".npy", "../"],
        unwrapped,
    );
}

#[test]
fn idx_reader_with_damaged_input_does_not_panic() {
    let files = ["images.idx", "labels.idx", "shorts.idx", "ints.idx", "floats.idx", "doubles.idx"].map(fixture);
    mutate("idx", readers::idx, &files, &["\x08", "\x0D", "\0\0"], unwrapped);
    mutate("idx", readers::idx, &files, &["\x08", "\x0D", "\0\0"], in_gzip);
}

#[test]
fn cifar_reader_with_damaged_input_does_not_panic() {
    let files = ["cifar10.bin", "cifar100.bin"].map(fixture);
    mutate("cifar", readers::cifar, &files, &["\x09", "\x14"], unwrapped);
}

#[test]
fn image_reader_with_damaged_input_does_not_panic() {
    let files = ["rgb.png", "grey.png", "palette.png", "alpha.png", "deep.png", "ramp.jpg", "grey.jpg"].map(fixture);
    mutate("image", readers::image, &files, &["IHDR", "IDAT", "IEND", "PLTE", "tRNS"], with_right_checksums);
}

/// Corrects the checksum of each chunk of a PNG, since the decoder stops at the first wrong one.
fn with_right_checksums(bytes: &[u8]) -> Vec<u8> {
    let (mut bytes, mut start) = (bytes.to_vec(), 8);
    while bytes.starts_with(b"\x89PNG") && bytes.len() >= start + 12 {
        let length = u32::from_be_bytes(bytes[start..start + 4].try_into().unwrap()) as usize;
        let Some(end) = (start + 8).checked_add(length).filter(|end| end + 4 <= bytes.len()) else { break };
        let mut checksum = flate2::Crc::new();
        checksum.update(&bytes[start + 4..end]);
        bytes[end..end + 4].copy_from_slice(&checksum.sum().to_be_bytes());
        start = end + 4;
    }
    bytes
}
