//! Every reader on random and on damaged files: it must not panic, and its results must satisfy the
//! checks of `fuzz/readers.rs`.
//!
//! Each reader gets 3000 inputs; `DL_FUZZ_RUNS=1000000 cargo test --release --test all
//! mutations::` runs a million. A failing input is saved in the temporary folder.

use flate2::{Compression, write::GzEncoder};
use std::io::{Cursor, Write};
use std::path::PathBuf;
use test_support::fuzz::Fuzz;
use zip::write::{SimpleFileOptions, ZipWriter};

#[path = "../fuzz/readers.rs"]
mod readers;

fn fixture(name: &str) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect();
    std::fs::read(path).unwrap()
}

fn mutate(name: &str, reader: fn(&[u8]), good: &[Vec<u8>], words: &[&str], wrap: fn(&[u8]) -> Vec<u8>) {
    Fuzz { name: &format!("data-{name}"), reader, good, words, wrap }.run();
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
    let files = ["ramp.webp", "rgb.webp", "alpha.webp", "alpha-ramp.webp", "animated.webp"].map(fixture);
    let words = ["RIFF", "WEBP", "VP8 ", "VP8L", "VP8X", "ALPH", "ANIM", "ANMF", "EXIF", "ICCP"];
    mutate("webp", readers::image, &files, &words, with_right_length);
    let files = ["rgb.bmp", "grey.bmp", "alpha.bmp", "palette.bmp", "mono.bmp", "runs.bmp", "runs4.bmp", "bits16.bmp"];
    mutate("bmp", readers::image, &files.map(fixture), &["BM", "\0\0\0\0", "\x28\0\0\0", "\x7C\0\0\0"], unwrapped);
    let files = ["palette.gif", "interlaced.gif", "grey.gif", "animated.gif", "transparent.gif", "offset.gif"];
    mutate("gif", readers::image, &files.map(fixture), &["GIF87a", "GIF89a", "!\u{9}", ",", ";"], unwrapped);
}

/// Corrects the length in the header of a WebP, since a wrong one is refused at once.
fn with_right_length(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= 12 {
        let length = bytes.len() as u32 - 8;
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
    }
    bytes
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
