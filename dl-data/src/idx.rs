//! IDX, the file format of MNIST and similar data sets: a magic number, the lengths of the axes and
//! the elements, all big-endian. Files may be compressed with gzip.
//!
//! ```no_run
//! use dl_data::{Dataset, InMemory, Loader, idx};
//!
//! let (images, labels) = idx::read_labelled("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", 10)?;
//! let data = InMemory(images).zip(InMemory(labels))?.map(|(image, label)| Ok((dl_data::unit(&image), label)));   // [1, 28, 28], from 0 to 1
//! let loader = Loader::new(data, 64).shuffle(true).prefetch(4);
//! # dl_core::Result::Ok(())
//! ```

use crate::source::Source;
use dl_core::Result;
use dl_nd::ndarray::{Ix1, Ix3, Ix4, IxDyn};
use dl_nd::{Item, Nd, Rank};

/// The element types that can be read from an IDX file: `u8`, `i32`, `f32` and `f64`. `i8` and
/// `i16` in a file are read as `i32`.
///
/// ```
/// fn can_be_read<A: dl_data::idx::IdxItem>(_: A) {}
/// can_be_read(1_u8);
/// ```
pub trait IdxItem: Item {
    #[doc(hidden)]
    const NAME: &'static str;

    /// The decoder for elements with this type code, or `None` if `Self` cannot represent them.
    #[doc(hidden)]
    fn of_type(code: u8) -> Option<Decoder<Self>>;
}

/// The number of bytes of an element, and the function that decodes them.
#[doc(hidden)]
pub type Decoder<A> = (usize, fn(&[u8]) -> A);

/// The bytes of one number, as an array.
fn bytes<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

macro_rules! items {
    ($($A:ty: $($code:literal $B:ty),+;)*) => {$(
        impl IdxItem for $A {
            const NAME: &'static str = stringify!($A);

            fn of_type(code: u8) -> Option<Decoder<Self>> {
                match code {
                    $($code => Some((size_of::<$B>(), |number| <$A>::from(<$B>::from_be_bytes(bytes(number))))),)*
                    _ => None,
                }
            }
        }
    )*};
}

items! {
    u8: 0x08 u8;
    i32: 0x09 i8, 0x0B i16, 0x0C i32;
    f32: 0x0D f32;
    f64: 0x0E f64;
}

fn type_name(code: u8) -> String {
    match code {
        0x08 => "u8",
        0x09 => "i8",
        0x0B => "i16",
        0x0C => "i32",
        0x0D => "f32",
        0x0E => "f64",
        _ => return format!("the unknown type 0x{code:02X}"),
    }
    .to_owned()
}

/// Reads an IDX file as a tensor. With rank `IxDyn`, any number of axes is accepted.
///
/// ```
/// use dl_data::{Source, idx};
/// use dl_nd::Nd;
/// let file = [0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 1, 7, 8];
/// assert_eq!(idx::read::<u8, _>(Source::memory("two.idx", &file))?, Nd::from([[7_u8], [8]]));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// When the file cannot be read, is not an IDX file, is truncated or too long, or its element type
/// or rank differs from `A` and `D`.
pub fn read<'a, A: IdxItem, D: Rank>(source: impl Into<Source<'a>>) -> Result<Nd<A, D>> {
    let mut input = source.into().open()?;
    let [first, second, code, rank] = input.array("the magic number")?;
    if (first, second) != (0, 0) {
        let found = format_args!("{first:#04X} {second:#04X}");
        return Err(input.error_at(
            0,
            "two zero bytes, the start of an IDX file",
            found,
            "check that this is an IDX file",
        ));
    }
    let Some((size, decode)) = A::of_type(code) else {
        let found = format_args!("{} (0x{code:02X})", type_name(code));
        return Err(input.error_at(
            2,
            &format!("elements of type {}", A::NAME),
            found,
            "read it as a tensor of that type",
        ));
    };
    if let Some(expected) = D::NDIM.filter(|&ndim| ndim != usize::from(rank)) {
        let advice = "read it as a tensor of that rank, or of rank `IxDyn`";
        return Err(input.error_at(3, &format!("a tensor with {expected} axes"), format_args!("{rank} axes"), advice));
    }
    let mut shape = Vec::with_capacity(rank.into());
    for axis in 0..rank {
        shape.push(u32::from_be_bytes(input.array(&format!("the length of axis {axis}"))?) as usize);
    }
    let length = shape.iter().try_fold(size as u64, |length, &axis| length.checked_mul(axis as u64));
    let elements = match length {
        Some(length) => input.numbers(length, size, decode, &format!("elements of shape {shape:?}"))?,
        None => {
            let found = format_args!("{shape:?}");
            return Err(input.error_at(4, "a shape that fits in memory", found, "get the file again: it is damaged"));
        }
    };
    input.expect_end("the file is longer than its header says: get it again, or check how it was written")?;
    let tensor = Nd::from_vec(IxDyn(&shape), elements).map_err(|error| error.context(&input.name))?;
    Ok(tensor.into_array().into_dimensionality().expect("the rank was checked").into())
}

/// Reads images and their labels from two files. Returns the images as `[n, 1, height, width]`,
/// ready for convolutions, and one label per image.
///
/// ```
/// use dl_data::{Source, idx};
/// let images = [0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 10, 20]; // one image of 1 × 2 pixels
/// let labels = [0, 0, 8, 1, 0, 0, 0, 1, 7];
/// let read = |classes| idx::read_labelled(Source::memory("images", &images), Source::memory("labels", &labels), classes);
/// let (images, labels) = read(10)?;
/// assert_eq!((images.shape(), labels), (&[1, 1, 1, 2][..], vec![7]));
/// assert!(read(5).is_err());
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// As [`read`], and when the numbers of images and labels differ, or a label is not below
/// `classes`.
pub fn read_labelled<'a, 'b>(
    images: impl Into<Source<'a>>,
    labels: impl Into<Source<'b>>,
    classes: usize,
) -> Result<(Nd<u8, Ix4>, Vec<usize>)> {
    /// The offset of the labels in a file of a vector.
    const START: u64 = 8;

    let (images, labels) = (images.into(), labels.into());
    let (image_file, label_file) = (images.name().to_owned(), labels.name().to_owned());
    let error_at = |offset: u64, expected: &str, found: &dyn std::fmt::Display, advice: &str| {
        crate::error::read_error(&label_file, format_args!("offset {offset}"), expected, found, advice)
    };
    let labels: Nd<u8, Ix1> = read(labels)?;
    let images: Nd<u8, Ix3> = read(images)?;
    if images.shape()[0] != labels.len() {
        let expected = format!("{} labels, one for each image of {image_file}", images.shape()[0]);
        return Err(error_at(4, &expected, &labels.len(), "use two files of the same part: training or test"));
    }
    let labels: Vec<usize> = labels.view().iter().map(|&label| usize::from(label)).collect();
    if let Some((index, label)) = labels.iter().enumerate().find(|(_, label)| **label >= classes) {
        let expected = format!("a label below {classes}");
        return Err(error_at(
            START + index as u64,
            &expected,
            label,
            "pass the right number of classes, or get the file again",
        ));
    }
    let [n, height, width] = [0, 1, 2].map(|axis| images.shape()[axis]);
    Ok((Nd::from_vec([n, 1, height, width], images.into_vec())?, labels))
}
