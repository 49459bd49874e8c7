//! CIFAR-10 and CIFAR-100 in the binary version: labels and colour images of 32 × 32 pixels.
//!
//! ```no_run
//! use dl_data::{Dataset, InMemory, Loader, cifar};
//!
//! let train = cifar::read_100("cifar-100-binary/train.bin")?;
//! let data = InMemory(train.images).zip(InMemory(train.fine))?.map(|(image, label)| Ok((dl_data::unit(&image), label)));   // [3, 32, 32], from 0 to 1
//! let loader = Loader::new(data, 16).by_class(train.coarse).shuffle(true).prefetch(4);
//! # dl_core::Result::Ok(())
//! ```

use crate::source::{Input, Source};
use dl_core::Result;
use dl_nd::Nd;
use dl_nd::ndarray::Ix4;

/// Bytes per image: three planes (red, green, blue), each row by row.
const PIXELS: usize = 3 * 32 * 32;

/// The images of CIFAR-100 and their two labels.
///
/// ```
/// use dl_data::{Source, cifar};
/// let mut file = vec![19, 99];
/// file.extend([0; 3072]);
/// let data = cifar::read_100(Source::memory("one.bin", &file))?;
/// assert_eq!((data.coarse, data.fine), (vec![19], vec![99]));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Cifar100 {
    /// `[n, 3, 32, 32]`: images, channels (red, green, blue), rows, columns.
    pub images: Nd<u8, Ix4>,
    /// The superclass of each image, below 20.
    pub coarse: Vec<usize>,
    /// The class of each image, below 100.
    pub fine: Vec<usize>,
}

/// Reads a file of CIFAR-100. Each record is a coarse label, a fine label and the pixels.
///
/// ```
/// use dl_data::{Source, cifar};
/// let mut file = vec![20, 99]; // coarse labels are 0 to 19
/// file.extend([0; 3072]);
/// assert!(cifar::read_100(Source::memory("one.bin", &file)).unwrap_err().to_string().contains("coarse label"));
/// ```
///
/// # Errors
/// When the file cannot be read, ends within a record, or a label is out of range.
pub fn read_100<'a>(source: impl Into<Source<'a>>) -> Result<Cifar100> {
    let (images, [coarse, fine]) = records(source.into(), [("coarse label", 20), ("fine label", 100)])?;
    Ok(Cifar100 { images, coarse, fine })
}

/// Reads a file of CIFAR-10. Each record is a label and the pixels. Returns the images
/// `[n, 3, 32, 32]` and the labels, below 10. Join the files of the training set with
/// [`concat`](crate::concat).
///
/// ```
/// use dl_data::{Source, cifar};
/// let mut file = vec![3];
/// file.extend([255; 3072]);
/// let (images, labels) = cifar::read_10(Source::memory("one.bin", &file))?;
/// assert_eq!((images.shape(), labels), (&[1, 3, 32, 32][..], vec![3]));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// As [`read_100`].
pub fn read_10<'a>(source: impl Into<Source<'a>>) -> Result<(Nd<u8, Ix4>, Vec<usize>)> {
    let (images, [labels]) = records(source.into(), [("label", 10)])?;
    Ok((images, labels))
}

/// The images, and one vector of labels for each kind of label.
type Records<const N: usize> = (Nd<u8, Ix4>, [Vec<usize>; N]);

/// Reads all records. `kinds` holds the name and the number of classes of each label in a record.
fn records<const N: usize>(source: Source<'_>, kinds: [(&str, u8); N]) -> Result<Records<N>> {
    let mut input = source.open()?;
    let (mut pixels, mut labels) = (Vec::new(), [const { Vec::new() }; N]);
    if let Some(size) = input.size() {
        pixels.reserve_exact(size as usize / (N + PIXELS) * PIXELS);
    }
    while !input.is_at_end()? {
        let number = labels[0].len();
        for ((name, classes), labels) in kinds.iter().zip(&mut labels) {
            labels.push(label(&mut input, name, *classes, number)?);
        }
        let start = pixels.len();
        pixels.resize(start + PIXELS, 0);
        input.fill(&mut pixels[start..], &format!("pixels of image {number}"))?;
    }
    let images = Nd::from_vec([labels[0].len(), 3, 32, 32], pixels).map_err(|error| error.context(&input.name))?;
    Ok((images, labels))
}

fn label(input: &mut Input<'_>, name: &str, classes: u8, number: usize) -> Result<usize> {
    let offset = input.offset();
    let [label] = input.array(&format!("the {name} of image {number}"))?;
    if label >= classes {
        let expected = format!("the {name} of image {number}, below {classes}");
        return Err(input.error_at(
            offset,
            &expected,
            label,
            "check that the file is of this CIFAR data set, in the binary version",
        ));
    }
    Ok(label.into())
}
