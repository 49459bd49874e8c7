//! Data sets of image files in one folder per class (feature `images`).

use crate::dataset::{Dataset, out_of_range};
use crate::error::read_error;
use crate::source::{Source, unreadable};
use dl_core::{Error, Result};
use dl_nd::Nd;
use dl_nd::ndarray::Ix3;
use image::imageops::FilterType;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};
use std::fs;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A data set of image files in one folder per class: `root/cat/1.png`, `root/dog/x.jpg`. A sample
/// is a pair of an image `[channels, height, width]`, from 0 to 1, and the index of its class.
/// Classes and files are in alphabetical order.
///
/// [`open`](ImageFolder::open) lists the files; an image is read and decoded when its sample is
/// read. By default, images have three channels and keep their own sizes.
///
/// ```
/// use dl_data::{Dataset, ImageFolder, Loader};
/// # let temporary = tempfile::tempdir().unwrap();
/// # let root = temporary.path();
/// # for (class, level) in [("cat", 0), ("dog", 255)] {
/// #     std::fs::create_dir(root.join(class)).unwrap();
/// #     for name in ["1.png", "2.png", "3.png"] {
/// #         image::GrayImage::from_pixel(5, 7, image::Luma([level])).save(root.join(class).join(name)).unwrap();
/// #     }
/// # }
/// let folder = ImageFolder::open(root)?.size(64, 64).grey(true).limit(ImageFolder::LIMIT / 2);
/// assert_eq!((folder.classes(), folder.labels()), (&["cat".to_owned(), "dog".to_owned()][..], &[0, 0, 0, 1, 1, 1][..]));
/// assert_eq!((folder.root(), folder.files().len()), (root, 6));
///
/// let labels = folder.labels().to_vec();
/// let [train, test] = folder.split_by_class(&labels, [0.67, 0.33], 1)?;
/// let loader = Loader::new(train, 4).shuffle(true).prefetch(8).threads(4);
/// for batch in loader.epoch(0)? {
///     let (images, labels) = batch?;
///     assert_eq!((images.shape(), labels.len()), (&[4, 1, 64, 64][..], 4));
/// }
/// # let _ = test;
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageFolder {
    root: PathBuf,
    classes: Vec<String>,
    files: Vec<PathBuf>,
    labels: Vec<usize>,
    grey: bool,
    size: Option<(u32, u32)>,
    limit: u64,
}

impl ImageFolder {
    /// The default limit in bytes for a file and for decoding it: 256 MiB.
    pub const LIMIT: u64 = 256 << 20;

    /// Lists the files of all classes. Entries with a leading dot in the name are skipped.
    ///
    /// # Errors
    /// When a folder cannot be read, there are no class folders, a class folder is empty, a name is
    /// not valid UTF-8, or a file is not `.png`, `.jpg` or `.jpeg`.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        let root = root.as_ref().to_owned();
        let (mut classes, mut files, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        for (class, folder) in entries(&root)? {
            if !folder.is_dir() {
                let advice = "put the images of each class into a folder of its own";
                return Err(read_error(
                    &root.display().to_string(),
                    class,
                    "a folder for each class",
                    "a file",
                    advice,
                ));
            }
            for (name, file) in entries(&folder)? {
                if format_of(&file).is_none() || !file.is_file() {
                    let advice = "remove it, or start its name with a dot";
                    let found = "another file or folder";
                    return Err(read_error(
                        &folder.display().to_string(),
                        name,
                        "a .png, .jpg or .jpeg file",
                        found,
                        advice,
                    ));
                }
                files.push(file);
                labels.push(classes.len());
            }
            if labels.last() != Some(&classes.len()) {
                let advice = "remove the folder, or put images into it";
                return Err(read_error(&root.display().to_string(), class, "images in each folder", "none", advice));
            }
            classes.push(class);
        }
        if classes.is_empty() {
            let advice = "put the images of each class into a folder of its own";
            return Err(read_error(&root.display().to_string(), "the folder", "folders of classes", "none", advice));
        }
        Ok(ImageFolder { root, classes, files, labels, grey: false, size: None, limit: Self::LIMIT })
    }

    /// Whether images are converted to greyscale, with one channel; off by default.
    pub fn grey(mut self, grey: bool) -> Self {
        self.grey = grey;
        self
    }

    /// Resizes all images to this size by bilinear interpolation; the aspect ratio is not kept.
    pub fn size(mut self, height: u32, width: u32) -> Self {
        self.size = Some((height, width));
        self
    }

    /// Sets the limit in bytes for a file and for decoding it.
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// The names of the classes, in alphabetical order.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The index of the class of each image.
    pub fn labels(&self) -> &[usize] {
        &self.labels
    }

    /// The files, in the order of the samples.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The folder passed to [`open`](ImageFolder::open).
    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Dataset for ImageFolder {
    type Item = (Nd<f32, Ix3>, usize);

    fn len(&self) -> usize {
        self.files.len()
    }

    fn get(&self, index: usize) -> Result<Self::Item> {
        let file = self.files.get(index).ok_or_else(|| out_of_range(index, self.files.len()))?;
        Ok((read_image(Source::file(file).limit(self.limit), self.grey, self.size)?, self.labels[index]))
    }
}

/// The names and paths of the entries of a folder, in alphabetical order.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let name = folder.display().to_string();
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| unreadable(&name, error))? {
        let entry = entry.map_err(|error| unreadable(&name, error))?;
        let Ok(entry_name) = entry.file_name().into_string() else {
            let found = format!("{:?}", entry.file_name());
            return Err(read_error(&name, "the folder", "names in UTF-8", found, "rename it"));
        };
        if !entry_name.starts_with('.') {
            entries.push((entry_name, entry.path()));
        }
    }
    entries.sort_unstable();
    Ok(entries)
}

fn format_of(file: &Path) -> Option<ImageFormat> {
    let extension = file.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "png" => Some(ImageFormat::Png),
        "jpg" | "jpeg" => Some(ImageFormat::Jpeg),
        _ => None,
    }
}

/// Reads a PNG or JPEG file as a tensor `[channels, height, width]` with elements from 0 to 1. The
/// format is detected by the first bytes of the file. With `grey` the image has one channel instead
/// of three. `size` is the `(height, width)` to resize to; `None` keeps the size. An image is turned
/// and mirrored as the orientation in its EXIF data says.
///
/// ```
/// use dl_data::{Source, read_image};
/// let error = read_image(Source::memory("x.png", b"no image"), false, None).unwrap_err();
/// assert!(error.to_string().starts_with("x.png: offset 0: expected a PNG or JPEG image"));
/// ```
///
/// # Errors
/// When the file cannot be read, is not a PNG or JPEG image, is detectably damaged, or needs more
/// memory than the limit of the source. JPEG has no checksum; only its end marker is checked.
pub fn read_image<'a>(source: impl Into<Source<'a>>, grey: bool, size: Option<(u32, u32)>) -> Result<Nd<f32, Ix3>> {
    let source = source.into();
    let limit = source.limit_in_bytes();
    if let Some((height, width)) =
        size.filter(|&(height, width)| height == 0 || width == 0 || decoded_size(height, width) > limit)
    {
        return Err(Error::invalid(format!(
            "a size of {height} × {width}: it must be at least 1 × 1, and the image must fit in {limit} bytes"
        )));
    }
    let name = source.name().to_owned();
    let damaged = |expected: &str, found: &dyn std::fmt::Display| {
        read_error(&name, "offset 0", expected, found, "get the file again: it is damaged, or not a PNG or JPEG image")
    };
    let failed = |error: ImageError| match error {
        ImageError::Limits(_) => {
            let expected = format!("an image that decodes within {limit} bytes");
            read_error(&name, "offset 0", expected, "one that needs more", "raise the limit if you trust the file")
        }
        ImageError::Unsupported(what) => {
            read_error(&name, "offset 0", "a common kind of image", what, "convert it to a PNG file in RGB or grey")
        }
        error => damaged("a complete image", &error),
    };
    let mut file = source.open_seekable()?;
    let Ends { size: bytes, first, last } = Ends::of(&mut file).map_err(|error| unreadable(&name, error))?;
    if bytes > limit {
        let expected = format!("at most {limit} bytes in the file");
        return Err(read_error(&name, "offset 0", expected, bytes, "raise the limit if you trust the file"));
    }
    let format = match first.as_slice() {
        [0x89, b'P', b'N', b'G', ..] => ImageFormat::Png,
        [0xFF, 0xD8, 0xFF, ..] => ImageFormat::Jpeg,
        _ => return Err(damaged("a PNG or JPEG image", &"other bytes")),
    };
    // The decoder fills missing parts with grey, so the end marker is checked here.
    let end = last.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    if format == ImageFormat::Jpeg
        && !last[..end].ends_with(&[0xFF, 0xD9])
        && !has_end_marker(&mut file).map_err(|error| unreadable(&name, error))?
    {
        return Err(damaged("a complete JPEG image", &"no end-of-image marker"));
    }
    let mut reader = ImageReader::with_format(file, format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(limit);
    reader.limits(limits.clone());
    let mut decoder = reader.into_decoder().map_err(failed)?;
    let (width, height) = decoder.dimensions();
    if decoded_size(height, width) > limit {
        let expected = format!("an image that decodes within {limit} bytes");
        let found = format_args!("one of {height} × {width} pixels");
        return Err(read_error(&name, "offset 0", expected, found, "raise the limit if you trust the file"));
    }
    decoder.set_limits(limits).map_err(failed)?;
    let orientation = decoder.orientation().map_err(failed)?;
    let mut image = DynamicImage::from_decoder(decoder).map_err(failed)?;
    image.apply_orientation(orientation);
    if let Some((height, width)) = size {
        image = image.resize_exact(width, height, FilterType::Triangle);
    }
    tensor(image, grey)
}

/// The size of a file, and its first and last bytes.
struct Ends {
    size: u64,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Ends {
    /// Reads both ends, then rewinds the file.
    fn of(file: &mut (impl Read + Seek)) -> io::Result<Ends> {
        const LENGTH: u64 = 64;

        let size = file.seek(SeekFrom::End(0))?;
        let mut part = |start: u64| {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(start))?;
            file.take(LENGTH).read_to_end(&mut bytes)?;
            io::Result::Ok(bytes)
        };
        let (first, last) = (part(0)?, part(size.saturating_sub(LENGTH))?);
        file.rewind()?;
        Ok(Ends { size, first, last })
    }
}

/// Whether the segments of a JPEG lead to its end marker. Other data may follow the marker, such as
/// the video of a motion photo. Rewinds the file.
fn has_end_marker(file: &mut (impl Read + Seek)) -> io::Result<bool> {
    fn scan(mut file: BufReader<impl Read + Seek>) -> io::Result<()> {
        let mut byte = [0];
        loop {
            // Skip the entropy-coded data up to the next marker. A marker may start with several
            // 0xFF bytes.
            while byte[0] != 0xFF {
                file.read_exact(&mut byte)?;
            }
            while byte[0] == 0xFF {
                file.read_exact(&mut byte)?;
            }
            match byte[0] {
                0xD9 => return Ok(()),
                // A stuffed byte of a scan, or a marker without a segment.
                0 | 1 | 0xD0..=0xD8 => {}
                _ => {
                    let mut length = [0; 2];
                    file.read_exact(&mut length)?;
                    file.seek_relative(i64::from(u16::from_be_bytes(length)) - 2)?;
                }
            }
        }
    }

    let scanned = scan(BufReader::new(&mut *file));
    file.rewind()?;
    match scanned {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        scanned => scanned.map(|()| true),
    }
}

/// The bytes of a decoded image with three `f32` channels.
fn decoded_size(height: u32, width: u32) -> u64 {
    (u64::from(height) * u64::from(width)).saturating_mul(3 * size_of::<f32>() as u64)
}

fn tensor(image: DynamicImage, grey: bool) -> Result<Nd<f32, Ix3>> {
    let (height, width) = (image.height() as usize, image.width() as usize);
    let (channels, pixels) =
        if grey { (1, image.into_luma16().into_raw()) } else { (3, image.into_rgb16().into_raw()) };
    let mut planes = Vec::with_capacity(pixels.len());
    for channel in 0..channels {
        planes.extend(pixels.iter().skip(channel).step_by(channels).map(|&pixel| f32::from(pixel) / 65535.0));
    }
    Nd::from_vec([channels, height, width], planes)
}
