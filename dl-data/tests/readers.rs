//! Readers of IDX, CIFAR and NPZ, on files written by NumPy and gzip (`fixtures/make.py`) and on
//! damaged ones.

use dl_core::Result;
use dl_data::{Npz, Source, cifar, idx};
use dl_nd::ndarray::{Ix1, Ix2, Ix3, IxDyn};
use dl_nd::{Nd, Rank};
use std::path::PathBuf;

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect()
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

/// The message of an error, without the name of the file.
fn text<T: std::fmt::Debug>(result: Result<T>) -> String {
    let text = result.unwrap_err().to_string();
    text.strip_prefix("x: ").unwrap_or_else(|| panic!("{text:?} does not name the file")).to_owned()
}

fn x(bytes: &[u8]) -> Source<'_> {
    Source::memory("x", bytes)
}

#[test]
fn idx_of_every_type_is_read() {
    let images: Nd<u8, Ix3> = idx::read(fixture("images.idx")).unwrap();
    assert_eq!(images.shape(), [3, 4, 5]);
    assert!(images.view().iter().enumerate().all(|(place, &pixel)| usize::from(pixel) == place * 4));
    assert_eq!(idx::read::<u8, Ix3>(fixture("images.idx.gz")).unwrap(), images);
    assert_eq!(idx::read::<i32, _>(fixture("bytes.idx")).unwrap(), Nd::from([-1, 2]));
    assert_eq!(idx::read::<i32, _>(fixture("shorts.idx")).unwrap(), Nd::from([[-2, 300], [5, 6]]));
    assert_eq!(idx::read::<i32, _>(fixture("ints.idx")).unwrap(), Nd::from([-70000, 1]));
    assert_eq!(idx::read::<f32, _>(fixture("floats.idx")).unwrap(), Nd::from([1.5, -0.1]));
    assert_eq!(idx::read::<f64, IxDyn>(fixture("doubles.idx")).unwrap(), Nd::from([[1.5, -0.1]]).into_dyn());
}

#[test]
fn idx_images_and_labels_are_checked_against_each_other() {
    let (images, labels) = idx::read_labelled(fixture("images.idx.gz"), fixture("labels.idx.gz"), 10).unwrap();
    assert_eq!((images.shape(), labels), (&[3, 1, 4, 5][..], vec![7, 0, 9]));
    let (images, labels) = (bytes("images.idx"), bytes("labels.idx"));
    let read = |images: &[u8], labels: &[u8], classes| {
        text(idx::read_labelled(Source::memory("images", images), x(labels), classes))
    };
    assert!(read(&images, &labels, 9).starts_with("offset 10: expected a label below 9, found 9; "));
    let two = [0, 0, 8, 1, 0, 0, 0, 2, 1, 2];
    assert!(
        read(&images, &two, 10).starts_with("offset 4: expected 3 labels, one for each image of images, found 2; ")
    );
}

#[test]
fn malformed_idx_error_names_offset() {
    let good = bytes("images.idx");
    let read = |bytes: &[u8]| text(idx::read::<u8, Ix3>(x(bytes)));
    for length in 0..good.len() {
        let text = read(&good[..length]);
        assert!(text.contains("before the end of the file"), "{length}: {text}");
    }
    assert!(
        read(&[&good[..], &[0]].concat()).starts_with("offset 76: expected the end of the file, found more bytes; ")
    );
    assert!(
        read(b"P5 28 28").starts_with("offset 0: expected two zero bytes, the start of an IDX file, found 0x50 0x35; ")
    );
    let with = |place: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[place] = byte;
        read(&bytes)
    };
    assert!(with(2, 0x0D).starts_with("offset 2: expected elements of type u8, found f32 (0x0D); "));
    assert!(with(2, 0x20).starts_with("offset 2: expected elements of type u8, found the unknown type 0x20 (0x20); "));
    assert!(with(3, 2).starts_with("offset 3: expected a tensor with 3 axes, found 2 axes; "));
    assert!(with(4, 0xFF).starts_with("offset 16: expected 85563801660 bytes of elements"), "{}", with(4, 0xFF));
    let absurd = [&[0, 0, 8, 3][..], &[0xFF; 12]].concat();
    assert!(read(&absurd).starts_with("offset 4: expected a shape that fits in memory"), "{}", read(&absurd));

    let good = bytes("images.idx.gz");
    for length in 2..good.len() {
        let text = read(&good[..length]);
        assert!(text.contains("truncated"), "{length}: {text}");
    }
    // flip a bit of the checksum
    let mut flipped = good.clone();
    *flipped.iter_mut().nth_back(6).unwrap() ^= 1;
    assert!(read(&flipped).contains("expected a complete gzip file"), "{}", read(&flipped));
}

#[test]
fn cifar_10_and_100_are_read() {
    let pixel = |image: usize, place: usize| ((image * 3072 + place) * 7 % 251) as u8;
    let (images, labels) = cifar::read_10(fixture("cifar10.bin")).unwrap();
    assert_eq!(labels, [3, 9]);
    assert_eq!(images.shape(), [2, 3, 32, 32]);
    assert!(images.view().indexed_iter().all(|((image, c, y, x), &p)| p == pixel(image, (c * 32 + y) * 32 + x)));
    let data = cifar::read_100(fixture("cifar100.bin")).unwrap();
    assert_eq!((data.coarse, data.fine), (vec![19, 0], vec![99, 5]));
    assert_eq!(data.images, images);
}

#[test]
fn malformed_cifar_error_names_image() {
    let good = bytes("cifar10.bin");
    for length in [1, 2, 3072, 3074, 6145] {
        let text = text(cifar::read_10(x(&good[..length])));
        assert!(
            text.contains(&format!("expected 3072 bytes of pixels of image {}", length / 3073)),
            "{length}: {text}"
        );
    }
    let mut flipped = good.clone();
    flipped[3073] = 10;
    let text_of = text(cifar::read_10(x(&flipped)));
    assert!(text_of.starts_with("offset 3073: expected the label of image 1, below 10, found 10; "), "{text_of}");
    let text_of = text(cifar::read_100(x(&good)));
    assert!(
        text_of.starts_with("offset 3074: expected the coarse label of image 1, below 20") || text_of.contains("label"),
        "{text_of}"
    );
    let (images, labels) = cifar::read_10(x(&[])).unwrap();
    assert!(images.is_empty() && labels.is_empty());
}

#[test]
fn npz_written_by_numpy_is_read() {
    for name in ["plain.npz", "compressed.npz"] {
        let mut npz = Npz::open(fixture(name)).unwrap();
        assert_eq!(npz.names(), ["features", "labels", "columns"]);
        let features: Nd<f64, Ix2> = npz.read("features").unwrap();
        assert_eq!(features, Nd::from([[1.5, -2.0, 3.0], [4.0, f64::INFINITY, 6.25]]));
        let labels: Nd<i64, Ix1> = npz.read("labels").unwrap();
        assert_eq!(labels.to_indices().unwrap(), Nd::from([2_usize, 0]));
        assert_eq!(npz.read::<f32, IxDyn>("columns").unwrap(), Nd::from([[1.0, 2.0], [3.0, 4.0]]).into_dyn());
        let again: Nd<f64, Ix2> = npz.read("features").unwrap();
        assert_eq!(again, features, "tensors can be read repeatedly and in any order");
    }
}

fn npz_error<D: Rank>(bytes: &[u8], tensor: &str) -> String {
    text(Npz::open(x(bytes)).and_then(|mut npz| npz.read::<f64, D>(tensor)))
}

#[test]
fn malformed_npz_error_names_entry() {
    let good = bytes("compressed.npz");
    for length in 0..good.len() {
        let text = npz_error::<Ix2>(&good[..length], "features");
        assert!(text.contains("expected a complete zip archive"), "{length}: {text}");
    }
    let text = npz_error::<Ix2>(&good, "feature");
    assert!(
        text.starts_with(
            "entry `feature`: expected a tensor of this name, found only \"features\", \"labels\", \"columns\"; "
        ),
        "{text}"
    );
    let text = npz_error::<Ix2>(&good, "labels");
    assert!(text.starts_with("entry `labels`: ") && text.contains("i8"), "{text}");
    let text = npz_error::<Ix1>(&good, "features");
    assert!(text.starts_with("entry `features`: a tensor of shape [2, 3] instead of one with 1 axes"), "{text}");
    let objects = bytes("objects.npz");
    assert!(npz_error::<Ix1>(&objects, "objects").contains('O'), "{}", npz_error::<Ix1>(&objects, "objects"));
    assert!(npz_error::<Ix1>(&objects, "records").contains("a structured type: save each of its fields"));
    assert!(
        npz_error::<Ix1>(&bytes("twice.npz"), "a")
            .starts_with("table of contents: expected distinct names, found the same name twice")
    );
    assert!(
        npz_error::<Ix1>(&bytes("other.npz"), "a")
            .starts_with("entry 0: expected a name that ends in .npy, found \"readme.txt\"")
    );
    // flip a bit of an element: the checksum of the archive must not match
    let mut flipped = bytes("plain.npz");
    let place = flipped.windows(8).position(|window| window == 1.5_f64.to_le_bytes()).unwrap();
    flipped[place] ^= 1;
    let text = npz_error::<Ix2>(&flipped, "features");
    assert!(text.to_lowercase().contains("checksum"), "{text}");
}

#[test]
fn npz_with_any_flipped_bit_is_error_or_unchanged() {
    let good = bytes("compressed.npz");
    let expected: Nd<f64, Ix2> = Npz::open(x(&good)).unwrap().read("features").unwrap();
    for place in 0..good.len() * 8 {
        let mut flipped = good.clone();
        flipped[place / 8] ^= 1 << (place % 8);
        if let Ok(features) = Npz::open(x(&flipped)).and_then(|mut npz| npz.read::<f64, Ix2>("features")) {
            assert_eq!(features, expected, "bit {place}");
        }
    }
}

/// Opening a named pipe waits until another program writes to it.
#[cfg(unix)]
#[test]
fn named_pipe_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("pipe", &link).unwrap();
    for path in [pipe, link] {
        let name = path.display().to_string();
        let errors = test_support::watched(move || {
            [
                idx::read::<u8, Ix1>(&path).map(|_| ()),
                dl_data::Csv::new().read::<f64>(&path).map(|_| ()),
                Npz::open(&path).map(|_| ()),
                Nd::<f64>::read_npy(&path).map(|_| ()),
                #[cfg(feature = "images")]
                dl_data::read_image(&path, false, None).map(|_| ()),
            ]
        });
        for error in errors.map(Result::unwrap_err) {
            let text = error.to_string();
            assert!(text.starts_with(&name) && text.contains("this is a named pipe, not a regular file"), "{text}");
        }
    }
}

#[test]
fn shape_too_large_for_memory_is_named() {
    // no elements, but lengths with a product above the address space
    let lengths = [0, u32::MAX, u32::MAX, u32::MAX].map(u32::to_be_bytes).concat();
    let idx = [&[0, 0, 8, 4][..], &lengths].concat();
    let npy = |shape: &str| {
        let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}}}");
        [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes()].concat()
    };
    let huge = 1_u64 << 40;
    for error in [
        text(idx::read::<u8, IxDyn>(x(&idx))),
        Nd::<u8, IxDyn>::read_npy_from(&npy(&format!("(0, {huge}, {huge})"))[..], 8).unwrap_err().to_string(),
        dl_data::Collate::collate(vec![Nd::<f64>::full([0, 1 << 62], 0.0); 2]).unwrap_err().to_string(),
    ] {
        assert!(error.starts_with("a tensor of shape [") && error.ends_with("is too large for the memory"), "{error}");
    }
}

#[test]
fn npz_of_unknown_compression_says_how_to_write_it() {
    let mut bytes = bytes("compressed.npz");
    // the method of each entry, in its own header and in the table of contents
    for (header, offset) in [(*b"PK\x03\x04", 8), (*b"PK\x01\x02", 10)] {
        let places: Vec<_> = (0..bytes.len() - 4).filter(|&place| bytes[place..place + 4] == header).collect();
        places.iter().for_each(|place| bytes[place + offset] = 97);
    }
    let text = npz_error::<Ix2>(&bytes, "features");
    assert!(text.contains("`numpy.savez`") && !text.contains("damaged"), "{text}");
}
