//! The bodies of the fuzz targets: each reads bytes as one kind of file and checks the invariants
//! of the result. `cargo fuzz` runs them, and `tests/mutations.rs` runs them on stable Rust.

use dl_data::{Csv, Npz, Source, cifar, idx, read_image};
use dl_nd::ndarray::{Ix1, IxDyn};
use dl_nd::{Item, Nd};

/// The limit on the bytes that a reader accepts, after decompression.
const LIMIT: u64 = 1 << 20;

fn source(bytes: &[u8]) -> Source<'_> {
    Source::memory("the file", bytes).limit(LIMIT)
}

/// Checks the message of an error; returns the value of a success.
fn checked<T, E: std::fmt::Display>(result: Result<T, E>) -> Option<T> {
    result.map_err(|error| assert_message(&error.to_string())).ok()
}

/// An error must be a single line that names the file.
fn assert_message(text: &str) {
    assert!(text.starts_with("the file: ") && !text.contains('\n') && text.len() < 4096, "{text:?}");
}

/// Checks that a tensor is no larger than the limit.
fn bounded<A: Item>(tensor: &Nd<A, IxDyn>) {
    assert!((tensor.len() * size_of::<A>()) as u64 <= LIMIT, "{:?}", tensor.shape());
}

/// Reads CSV with several settings.
pub(crate) fn csv(bytes: &[u8]) {
    let settings = [
        Csv::new(),
        Csv::new().label("kind"),
        Csv::new().features([1, 0]).label_below(2, 3),
        Csv::new().header(false).missing(true).label_of(0, ["a", "b"]).delimiter(b';').comment(b'#'),
        Csv::new().header(false).target(1),
    ];
    for csv in settings {
        let Some(frame) = checked(csv.read::<f32>(source(bytes))) else { continue };
        let rows = frame.features.shape()[0];
        assert!(rows > 0 && frame.targets.shape()[0] == rows);
        assert!(frame.labels.is_empty() || frame.labels.len() == rows);
        assert!(frame.labels.iter().all(|&label| label < frame.classes.len().max(3)));
        assert!(frame.features.view().iter().all(|x| !x.is_infinite()));
    }
}

/// Reads a `.npy` tensor as several element types.
pub(crate) fn npy(bytes: &[u8]) {
    fn read<A: dl_nd::NpyItem>(bytes: &[u8]) {
        match Nd::<A, IxDyn>::read_npy_from(bytes, LIMIT) {
            Ok(tensor) => bounded(&tensor),
            Err(error) => assert!(error.to_string().len() < 4096),
        }
    }
    read::<f32>(bytes);
    read::<f64>(bytes);
    read::<i64>(bytes);
    read::<u8>(bytes);
    read::<bool>(bytes);
}

/// Reads all tensors of a `.npz` archive.
pub(crate) fn npz(bytes: &[u8]) {
    let Some(mut npz) = checked(Npz::open(source(bytes))) else { return };
    for name in npz.names().to_vec() {
        checked(npz.read::<f64, IxDyn>(&name)).iter().for_each(bounded);
        checked(npz.read::<i64, IxDyn>(&name)).iter().for_each(bounded);
        checked(npz.read::<f32, Ix1>(&name));
    }
}

/// Reads an IDX file as a tensor, as images and as labels.
pub(crate) fn idx(bytes: &[u8]) {
    checked(idx::read::<u8, IxDyn>(source(bytes))).iter().for_each(bounded);
    checked(idx::read::<i32, IxDyn>(source(bytes)));
    checked(idx::read::<f64, Ix1>(source(bytes)));
    let labels = [0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9];
    checked(idx::read_labelled(source(bytes), Source::memory("the file", &labels), 10));
    checked(idx::read_labelled(Source::memory("the file", &labels), source(bytes), 10));
}

/// Reads a file of CIFAR-10 and of CIFAR-100.
pub(crate) fn cifar(bytes: &[u8]) {
    if let Some((images, labels)) = checked(cifar::read_10(source(bytes))) {
        assert!(images.shape()[0] == labels.len() && labels.iter().all(|&label| label < 10));
    }
    if let Some(data) = checked(cifar::read_100(source(bytes))) {
        assert!(data.coarse.iter().all(|&label| label < 20) && data.fine.iter().all(|&label| label < 100));
    }
}

/// Reads an image of any format.
pub(crate) fn image(bytes: &[u8]) {
    for (grey, size) in [(false, None), (true, Some((4, 4)))] {
        let Some(image) = checked(read_image(source(bytes), grey, size)) else { continue };
        assert_eq!(image.shape()[0], if grey { 1 } else { 3 });
        assert!(image.view().iter().all(|pixel| (0.0..=1.0).contains(pixel)));
    }
}
