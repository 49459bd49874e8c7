//! Decoding of images, compared with Pillow (`fixtures/make.py`), and folders of images.

use dl_data::{Dataset, ImageFolder, Loader, Npz, Source, read_image};
use dl_nd::Nd;
use dl_nd::ndarray::Ix3;
use std::fs;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect()
}

/// The largest difference of two elements, in steps of a byte.
fn difference(found: &Nd<f32, Ix3>, expected: &Nd<u8, Ix3>) -> f32 {
    assert_eq!(found.shape(), expected.shape());
    let pairs = found.view().into_iter().zip(expected.view());
    pairs.map(|(found, &expected)| (found * 255.0 - f32::from(expected)).abs()).fold(0.0, f32::max)
}

#[test]
fn decoded_images_match_pillow() {
    let mut decoded = Npz::open(fixture("decoded.npz")).unwrap();
    for name in decoded.names().to_vec() {
        let found = read_image(fixture(&name), false, None).unwrap();
        // JPEG decoders may differ in rounding
        let tolerance = if name.ends_with(".jpg") { 3.0 } else { 1e-4 };
        let difference = difference(&found, &decoded.read(&name).unwrap());
        assert!(difference <= tolerance, "{name}: {difference}");
    }
    let mut decoded = Npz::open(fixture("decoded_more.npz")).unwrap();
    assert_eq!(decoded.names().len(), 19);
    for name in decoded.names().to_vec() {
        let found = read_image(fixture(&name), false, None).unwrap();
        let tolerance = if name.contains("ramp.webp") { 1.0 } else { 1e-4 };
        let difference = difference(&found, &decoded.read(&name).unwrap());
        assert!(difference <= tolerance, "{name}: {difference}");
    }
    let mut opaque = Npz::open(fixture("opaque.npz")).unwrap();
    assert!(difference(&read_image(fixture("alpha.png"), false, None).unwrap(), &opaque.read("alpha").unwrap()) < 1e-4);
    assert!(difference(&read_image(fixture("deep.png"), false, None).unwrap(), &opaque.read("deep").unwrap()) < 1e-4);
}

#[test]
fn grey_and_resized_images_have_requested_shape() {
    let colour = read_image(fixture("grey.png"), false, None).unwrap();
    let grey = read_image(fixture("grey.png"), true, None).unwrap();
    assert_eq!((colour.shape(), grey.shape()), (&[3, 6, 5][..], &[1, 6, 5][..]));
    assert_eq!(
        grey.view().index_axis(dl_nd::ndarray::Axis(0), 0),
        colour.view().index_axis(dl_nd::ndarray::Axis(0), 1)
    );
    assert_eq!(read_image(fixture("rgb.png"), false, Some((7, 3))).unwrap().shape(), [3, 7, 3]);
    assert!(read_image(fixture("rgb.png"), false, Some((0, 3))).unwrap_err().to_string().contains("0 × 3"));
    assert!(read_image(fixture("rgb.png"), false, Some((u32::MAX, u32::MAX))).is_err());
}

/// The canvas of an animation may be larger than its first frame.
#[test]
fn first_frame_of_gif_is_on_black() {
    let (frame, canvas) =
        ["transparent.gif", "offset.gif"].map(|name| read_image(fixture(name), false, None).unwrap()).into();
    assert_eq!((frame.shape(), canvas.shape()), (&[3, 6, 5][..], &[3, 9, 7][..]));
    for ((channel, y, x), &pixel) in canvas.view().indexed_iter() {
        let inside = (1..7).contains(&y) && (2..7).contains(&x);
        assert_eq!(pixel, if inside { frame[[channel, y - 1, x - 2]] } else { 0.0 }, "{y}, {x}");
    }
}

/// `jpeg` with an EXIF segment that holds this orientation, 1 to 8.
fn oriented(jpeg: &[u8], orientation: u8) -> Vec<u8> {
    let tiff = [&b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0"[..], &[orientation], &[0; 7]].concat();
    let exif = [b"Exif\0\0", &tiff[..]].concat();
    [&jpeg[..2], &[0xFF, 0xE1, 0, exif.len() as u8 + 2], &exif, &jpeg[2..]].concat()
}

/// Where an element of the turned image is in the stored one.
type Place = fn(usize, usize) -> (usize, usize);

#[test]
fn exif_orientation_turns_and_mirrors_image() {
    let good = fs::read(fixture("grey.jpg")).unwrap();
    let read = |bytes: &[u8]| read_image(Source::memory("x", bytes), false, None).unwrap().into_array();
    let plain = read(&good);
    assert_eq!(plain.shape(), [3, 6, 5]);
    // the place in the file of the pixel that is shown at `(y, x)`
    let places: [Place; 8] = [
        |y, x| (y, x),
        |y, x| (y, 4 - x),
        |y, x| (5 - y, 4 - x),
        |y, x| (5 - y, x),
        |y, x| (x, y),
        |y, x| (5 - x, y),
        |y, x| (5 - x, 4 - y),
        |y, x| (x, 4 - y),
    ];
    for (orientation, place) in (1..).zip(places) {
        let shown = read(&oriented(&good, orientation));
        assert_eq!(shown.shape(), if orientation < 5 { [3, 6, 5] } else { [3, 5, 6] }, "{orientation}");
        for ((_, y, x), &pixel) in shown.indexed_iter() {
            let (row, column) = place(y, x);
            assert_eq!(pixel, plain[[0, row, column]], "orientation {orientation} at {y}, {x}");
        }
    }
}

/// Motion photos append a video to the image.
#[test]
fn jpeg_with_trailing_data_is_read() {
    for name in ["ramp.jpg", "grey.jpg"] {
        let good = fs::read(fixture(name)).unwrap();
        let image = read_image(Source::memory("x", &good), false, None).unwrap();
        let with_video = [&good[..], b"\0\0\0\x18ftypmp42", &[0x7F; 100]].concat();
        assert_eq!(read_image(Source::memory("x", &with_video), false, None).unwrap(), image);
        // The end marker is missing; the application segment contains its bytes.
        let truncated = [&good[..2], &[0xFF, 0xE1, 0, 6, 0xFF, 0xD9, 0xFF, 0xD9], &good[2..good.len() - 2]].concat();
        let error = read_image(Source::memory("x", &truncated), false, None).unwrap_err();
        assert!(error.to_string().contains("no end-of-image marker"), "{error}");
    }
}

#[test]
fn truncated_or_oversized_image_is_error() {
    for name in ["rgb.png", "palette.png", "ramp.jpg", "grey.jpg"] {
        let good = fs::read(fixture(name)).unwrap();
        for length in 0..good.len() {
            let error = read_image(Source::memory("x", &good[..length]), false, None);
            // The last chunk of a PNG (IEND) holds no image data.
            if let Err(error) = error {
                assert!(error.to_string().starts_with("x: offset 0: expected "), "{error}");
            } else {
                assert!(
                    name.ends_with(".png") && length >= good.len() - 12,
                    "{name} cut to {length} of {} bytes",
                    good.len()
                );
            }
        }
    }
    // Of these formats the end may be missing: then the image must be right.
    for name in [
        "ramp.webp",
        "rgb.webp",
        "alpha.webp",
        "alpha-ramp.webp",
        "animated.webp",
        "rgb.bmp",
        "alpha.bmp",
        "palette.bmp",
        "mono.bmp",
        "runs.bmp",
        "runs4.bmp",
        "bits16.bmp",
        "palette.gif",
        "interlaced.gif",
        "animated.gif",
        "offset.gif",
    ] {
        let good = fs::read(fixture(name)).unwrap();
        let image = read_image(fixture(name), false, None).unwrap();
        let mut read = 0;
        for length in 0..good.len() {
            match read_image(Source::memory("x", &good[..length]), false, None) {
                Ok(part) => {
                    assert_eq!(part, image, "{name} cut to {length} of {} bytes", good.len());
                    read += 1;
                }
                Err(error) => assert!(error.to_string().starts_with("x: offset 0: expected "), "{error}"),
            }
        }
        assert!(read == 0 || !name.ends_with(".webp") && (read < 4 || name == "animated.gif"), "{name}: {read}");
    }
    let mut large = fs::read(fixture("rgb.png")).unwrap();
    large[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    let mut checksum = flate2::Crc::new();
    checksum.update(&large[12..29]);
    large[29..33].copy_from_slice(&checksum.sum().to_be_bytes());
    let error = read_image(Source::memory("x", &large).limit(1 << 20), false, None).unwrap_err().to_string();
    assert!(error.contains("65536 × 65536") || error.contains("imit"), "{error}");
}

/// Files whose header has another size than the image, and a chunk that claims to be long.
#[test]
fn sizes_in_headers_are_checked_before_memory_is_taken() {
    let read = |bytes: &[u8]| read_image(Source::memory("x", bytes).limit(1 << 20), false, None);
    let with = |name: &str, at: usize, new: &[u8]| {
        let mut bytes = fs::read(fixture(name)).unwrap();
        bytes[at..at + new.len()].copy_from_slice(new);
        bytes
    };
    for (large, shape) in [
        (with("rgb.bmp", 18, &[0xFF, 0xFF, 0, 0, 0xFF, 0xFF, 0, 0]), "65535 × 65535"),
        (with("palette.gif", 6, &[0xFF; 4]), "65535 × 65535"),
        (with("rgb.webp", 21, &[0xFE, 0xBF, 0xFF, 0x0F]), "16383 × 16383"),
        (with("ramp.webp", 26, &[0xFF, 0x3F, 0xFF, 0x3F]), "16383 × 16383"),
        (with("animated.webp", 24, &[0xFF, 0x3F, 0, 0xFF, 0x1F, 0]), "8192 × 16384"),
    ] {
        let error = read(&large).unwrap_err().to_string();
        assert!(error.contains(shape) && error.ends_with("raise the limit if you trust the file"), "{error}");
    }
    // a frame that is larger than its canvas
    let error = read(&with("offset.gif", 38, &[0xFF; 4])).unwrap_err().to_string();
    assert!(error.contains("decodes within 1048576 bytes"), "{error}");
    // no pixels
    for empty in [with("rgb.bmp", 18, &[0; 4]), with("rgb.bmp", 22, &[0; 4]), with("palette.gif", 6, &[0; 2])] {
        let error = read(&empty).unwrap_err().to_string();
        assert!(error.starts_with("x: offset 0: expected "), "{error}");
    }
    // an EXIF chunk of two gigabytes
    let good = fs::read(fixture("alpha-ramp.webp")).unwrap();
    let mut long = [&good[..], b"EXIF\xFF\xFF\xFF\x7FII*\0"].concat();
    let length = long.len() as u32 - 8;
    long[4..8].copy_from_slice(&length.to_le_bytes());
    long[20] |= 8;
    let error = read(&long).unwrap_err().to_string();
    assert!(error.contains("expected a complete WebP image, found a chunk beyond the end"), "{error}");
    // other data may follow
    assert_eq!(read(&[&good[..], &[7; 100]].concat()).unwrap(), read(&good).unwrap());
}

fn copy(folder: &Path, files: &[(&str, &str)]) {
    for (from, to) in files {
        let to = folder.join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(fixture(from), to).unwrap();
    }
}

#[test]
fn image_folder_lists_classes_and_files_in_order() {
    let root = tempfile::tempdir().unwrap();
    copy(
        root.path(),
        &[("rgb.png", "b/2.png"), ("grey.png", "b/1.PNG"), ("ramp.jpg", "a/x.jpeg"), ("ramp.jpg", ".hidden/x.jpeg")],
    );
    fs::write(root.path().join("b/.DS_Store"), "").unwrap();
    let folder = ImageFolder::open(root.path()).unwrap();
    assert_eq!(folder.classes(), ["a", "b"]);
    assert_eq!(folder.labels(), [0, 1, 1]);
    let names: Vec<_> = folder.files().iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["x.jpeg", "1.PNG", "2.png"]);
    assert_eq!(folder.get(2).unwrap(), (read_image(fixture("rgb.png"), false, None).unwrap(), 1));
    assert!(folder.get(3).is_err());

    let uneven = Loader::new(folder.clone(), 3).epoch(0).unwrap().next().unwrap().unwrap_err();
    assert!(uneven.is_shape(), "{uneven}");
    let loader = Loader::new(folder.grey(true).size(8, 8), 3).prefetch(1);
    let (images, labels) = loader.epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!((images.shape(), labels), (&[3, 1, 8, 8][..], Nd::from([0_usize, 1, 1])));

    fs::write(root.path().join("b/2.png"), "no image").unwrap();
    let error = loader.epoch(0).unwrap().next().unwrap().unwrap_err().to_string();
    assert!(
        error.starts_with("epoch 0, batch 0: sample 2: ")
            && error.contains("2.png: offset 0: expected a PNG, JPEG, WebP, BMP or GIF image"),
        "{error}"
    );
}

#[test]
fn malformed_image_folder_is_error() {
    let root = tempfile::tempdir().unwrap();
    let error = || ImageFolder::open(root.path()).unwrap_err().to_string();
    assert!(error().contains("expected folders of classes, found none"));
    copy(root.path(), &[("rgb.png", "a/1.png"), ("rgb.png", "1.png")]);
    assert!(error().contains("1.png: expected a folder for each class, found a file"), "{}", error());
    fs::remove_file(root.path().join("1.png")).unwrap();
    fs::write(root.path().join("a/notes.txt"), "").unwrap();
    assert!(error().contains("notes.txt: expected a .png, .jpg, .jpeg, .webp, .bmp or .gif file"));
    fs::remove_file(root.path().join("a/notes.txt")).unwrap();
    fs::create_dir(root.path().join("b")).unwrap();
    assert!(error().contains("b: expected images in each folder, found none"));
    assert!(
        ImageFolder::open("/no/such/folder").unwrap_err().to_string().starts_with("/no/such/folder: cannot be read")
    );
}

#[test]
fn limit_of_memory_is_not_called_damage() {
    for name in ["rgb.png", "grey.jpg", "deep.png", "rgb.webp", "ramp.webp", "rgb.bmp", "palette.gif", "offset.gif"] {
        let size = fs::metadata(fixture(name)).unwrap().len();
        for limit in 1..4 * size {
            let Err(error) = read_image(Source::file(fixture(name)).limit(limit), false, None) else { continue };
            let text = error.to_string();
            assert!(text.ends_with("raise the limit if you trust the file"), "{limit}: {text}");
        }
    }
}
