//! The peak of allocated memory stays bounded for wrong lengths and decompression bombs.

use dl_data::{Csv, Npz, Source, cifar, idx};
use dl_nd::Nd;
use dl_nd::ndarray::{Ix1, IxDyn};
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

#[path = "../../tests/memory/allocator.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod allocator;

#[global_allocator]
static COUNTING: allocator::Counting = allocator::Counting;

const MIB: isize = 1 << 20;

fn gzip(zeros: usize, head: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(head).unwrap();
    for _ in 0..zeros >> 16 {
        gzip.write_all(&[0; 1 << 16]).unwrap();
    }
    gzip.finish().unwrap()
}

/// A single test, since the allocator counts for the whole process.
#[test]
fn reader_memory_for_hostile_lengths_is_bounded() {
    // 2⁶⁰ elements declared in a few bytes
    let npy = |shape: &str| {
        let text = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}");
        [b"\x93NUMPY\x01\x00".as_slice(), &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat()
    };
    for shape in [
        "(1152921504606846976,)",
        "(4294967296, 4294967296)",
        "(100000000,)",
        "(0, 1152921504606846976, 1152921504606846976)",
    ] {
        let file = npy(shape);
        let (error, peak) = allocator::peak_of(|| Nd::<f64, IxDyn>::read_npy_from(&file[..], u64::MAX).unwrap_err());
        assert!(peak < MIB, "{shape}: {peak} bytes before {error}");
    }
    let huge_head = b"\x93NUMPY\x02\x00\xff\xff\xff\xff{";
    let (error, peak) = allocator::peak_of(|| Nd::<f64, IxDyn>::read_npy_from(&huge_head[..], u64::MAX).unwrap_err());
    assert!(peak < MIB && error.to_string().contains("4294967295 bytes"), "{peak}: {error}");
    let brackets = npy(&"(".repeat(60_000));
    assert!(Nd::<f64, IxDyn>::read_npy_from(&brackets[..], u64::MAX).is_err());

    let idx_head = [0, 0, 8, 3, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 1];
    let (error, peak) = allocator::peak_of(|| idx::read::<u8, IxDyn>(Source::memory("x.idx", &idx_head)).unwrap_err());
    assert!(peak < MIB, "{peak}: {error}");
    let in_gzip = gzip(0, &[0, 0, 8, 1, 0x7F, 0xFF, 0xFF, 0xFF]);
    let (error, peak) = allocator::peak_of(|| idx::read::<u8, Ix1>(Source::memory("x.gz", &in_gzip)).unwrap_err());
    assert!(peak < MIB && error.to_string().contains("truncated"), "{peak}: {error}");

    // 16 MiB of zeros in about 16 KiB
    let bomb = gzip(16 << 20, &[0, 0, 8, 1, 0x01, 0, 0, 0]);
    assert!(bomb.len() < 1 << 15);
    let limited = || Source::memory("bomb.gz", &bomb).limit(2 << 20);
    let (error, peak) = allocator::peak_of(|| idx::read::<u8, Ix1>(limited()).unwrap_err());
    assert!(peak < MIB && error.to_string().contains("at most 2097152 bytes"), "{peak}: {error}");
    let (error, peak) = allocator::peak_of(|| cifar::read_10(limited()).unwrap_err());
    assert!(peak < 8 * MIB && error.to_string().contains("raise `Source::limit`"), "{peak}: {error}");
    let (error, peak) = allocator::peak_of(|| Csv::new().read::<f32>(limited()).unwrap_err());
    assert!(peak < 8 * MIB && error.to_string().contains("raise `Source::limit`"), "{peak}: {error}");

    // 8 MB in 8 KB; a valid file needs memory for its elements, once
    let zeros = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/zeros.npz");
    let read = |limit| Npz::open(Source::file(zeros).limit(limit)).unwrap().read::<f64, Ix1>("zeros");
    let (error, peak) = allocator::peak_of(|| read(7_999_999).unwrap_err());
    assert!(peak < MIB && error.to_string().contains("the limit is 7999999 bytes"), "{peak}: {error}");
    assert_eq!(read(8_000_000).unwrap().len(), 1_000_000);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.idx");
    let length = 16 << 20;
    std::fs::write(&file, [&[0, 0, 8, 1], &(length as u32).to_be_bytes()[..], &vec![7; length]].concat()).unwrap();
    let (tensor, peak) = allocator::peak_of(|| idx::read::<u8, Ix1>(&file).unwrap());
    assert_eq!(tensor.view().iter().filter(|&&x| x == 7).count(), length);
    assert!(peak < length as isize + MIB, "{peak}");
}
