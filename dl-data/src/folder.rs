//! Folders of images: a folder for each class (feature `images`).

use crate::dataset::{Dataset, no_sample};
use crate::fault::fault;
use crate::source::{Source, unreadable};
use dl_core::{Error, Result};
use dl_nd::Nd;
use dl_nd::ndarray::Ix3;
use image::imageops::FilterType;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};
use std::fs;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The images in the folders of a folder, which are their classes: `root/cat/1.png`,
/// `root/dog/x.jpg`. A sample is the image as `[channels, height, width]` between 0 and 1, and the
/// number of its class in alphabetical order.
///
/// Opening it lists the files; an image is read and decoded when it is asked for. Images come in
/// colour, three channels, and in their own sizes, if nothing else is said.
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
    /// The memory for decoding one image, in bytes, if nothing else is said: 256 MiB.
    pub const LIMIT: u64 = 256 << 20;

    /// Lists the files of all classes. Files and folders whose name begins with a dot do not count.
    ///
    /// # Errors
    /// When a folder cannot be read, there are no folders of classes or one is empty, a name is not
    /// UTF-8, or there is a file that is no `.png`, `.jpg` or `.jpeg`.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        let root = root.as_ref().to_owned();
        let (mut classes, mut files, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        for (class, folder) in entries(&root)? {
            if !folder.is_dir() {
                let advice = "put the images of each class into a folder of its own";
                return Err(fault(&root.display().to_string(), class, "a folder for each class", "a file", advice));
            }
            for (name, file) in entries(&folder)? {
                if format_of(&file).is_none() || !file.is_file() {
                    let advice = "move it away, or begin its name with a dot";
                    let found = "something else";
                    return Err(fault(
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
                let advice = "remove the folder, or put images there";
                return Err(fault(&root.display().to_string(), class, "images in each folder", "none", advice));
            }
            classes.push(class);
        }
        if classes.is_empty() {
            let advice = "put the images of each class into a folder of its own";
            return Err(fault(&root.display().to_string(), "the folder", "folders of classes", "none", advice));
        }
        Ok(ImageFolder { root, classes, files, labels, grey: false, size: None, limit: Self::LIMIT })
    }

    /// Whether images are read as grey ones, with one channel.
    pub fn grey(mut self, grey: bool) -> Self {
        self.grey = grey;
        self
    }

    /// All images in this size, whatever their own was (bilinear; proportions are not kept).
    pub fn size(mut self, height: u32, width: u32) -> Self {
        self.size = Some((height, width));
        self
    }

    /// At most so many bytes for a file, and for decoding it.
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// The names of the classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The class of each image.
    pub fn labels(&self) -> &[usize] {
        &self.labels
    }

    /// The files, in the order of the samples.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The folder that was opened.
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
        let file = self.files.get(index).ok_or_else(|| no_sample(index, self.files.len()))?;
        Ok((read_image(Source::file(file).limit(self.limit), self.grey, self.size)?, self.labels[index]))
    }
}

/// What is in a folder, by name, in alphabetical order.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let name = folder.display().to_string();
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| unreadable(&name, error))? {
        let entry = entry.map_err(|error| unreadable(&name, error))?;
        let Ok(of_entry) = entry.file_name().into_string() else {
            let found = format!("{:?}", entry.file_name());
            return Err(fault(&name, "the folder", "names in UTF-8", found, "rename it"));
        };
        if !of_entry.starts_with('.') {
            entries.push((of_entry, entry.path()));
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

/// Reads one PNG or JPEG file, which its first bytes tell, as `[channels, height, width]` between 0
/// and 1: in colour or grey, in this `(height, width)` or its own.
///
/// ```
/// use dl_data::{Source, read_image};
/// let error = read_image(Source::memory("x.png", b"no image"), false, None).unwrap_err();
/// assert!(error.to_string().starts_with("x.png: offset 0: expected a PNG or JPEG image"));
/// ```
///
/// # Errors
/// When the file cannot be read, is no such image, is damaged as far as the format tells (a JPEG
/// has no checksum, but its end is looked for), or needs more memory than the limit of the source.
pub fn read_image<'a>(source: impl Into<Source<'a>>, grey: bool, size: Option<(u32, u32)>) -> Result<Nd<f32, Ix3>> {
    let source = source.into();
    let limit = source.limit_in_bytes();
    if let Some((height, width)) =
        size.filter(|&(height, width)| height == 0 || width == 0 || bytes_of(height, width) > limit)
    {
        return Err(Error::invalid(format!(
            "a size of {height} × {width}: it must be 1 × 1 at least, and within the limit of {limit} bytes"
        )));
    }
    let name = source.name().to_owned();
    let damaged = |expected: &str, found: &dyn std::fmt::Display| {
        fault(&name, "offset 0", expected, found, "get the file again: it is damaged, or no such image")
    };
    let mut file = source.open_anywhere()?;
    let Ends { size: bytes, first, last } = Ends::of(&mut file).map_err(|error| unreadable(&name, error))?;
    if bytes > limit {
        let expected = format!("at most {limit} bytes in the file");
        return Err(fault(&name, "offset 0", expected, bytes, "raise the limit if you trust the file"));
    }
    let format = match first.as_slice() {
        [0x89, b'P', b'N', b'G', ..] => ImageFormat::Png,
        [0xFF, 0xD8, 0xFF, ..] => ImageFormat::Jpeg,
        _ => return Err(damaged("a PNG or JPEG image", &"other bytes")),
    };
    // the decoder fills what is missing with grey
    let end = last.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    if format == ImageFormat::Jpeg
        && !last[..end].ends_with(&[0xFF, 0xD9])
        && !reaches_end(&mut file).map_err(|error| unreadable(&name, error))?
    {
        return Err(damaged("a JPEG image that is whole", &"one without the mark of its end"));
    }
    let mut reader = ImageReader::with_format(file, format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(limit);
    reader.limits(limits.clone());
    let mut decoder = reader.into_decoder().map_err(|error| damaged("an image", &error))?;
    let (width, height) = decoder.dimensions();
    if bytes_of(height, width) > limit {
        let expected = format!("an image that decodes within {limit} bytes");
        let found = format_args!("one of {height} × {width} pixels");
        return Err(fault(&name, "offset 0", expected, found, "raise the limit if you trust the file"));
    }
    decoder.set_limits(limits).map_err(|error| damaged("an image", &error))?;
    let mut image = DynamicImage::from_decoder(decoder).map_err(|error| damaged("an image that is whole", &error))?;
    if let Some((height, width)) = size {
        image = image.resize_exact(width, height, FilterType::Triangle);
    }
    tensor(image, grey)
}

/// What is at both ends of a file.
struct Ends {
    size: u64,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Ends {
    /// Looks, and goes back to the beginning.
    fn of(file: &mut (impl Read + Seek)) -> io::Result<Ends> {
        const LONG: u64 = 64;

        let size = file.seek(SeekFrom::End(0))?;
        let mut part = |start: u64| {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(start))?;
            file.take(LONG).read_to_end(&mut bytes)?;
            io::Result::Ok(bytes)
        };
        let (first, last) = (part(0)?, part(size.saturating_sub(LONG))?);
        file.rewind()?;
        Ok(Ends { size, first, last })
    }
}

/// Whether the segments of a JPEG lead to the mark of its end. Something else may follow there, the
/// film of a telephone for instance. Goes back to the beginning.
fn reaches_end(file: &mut (impl Read + Seek)) -> io::Result<bool> {
    fn walk(mut file: BufReader<impl Read + Seek>) -> io::Result<()> {
        let mut byte = [0];
        loop {
            // to the next mark, through the numbers of a scan; a mark may begin with more than one
            // such byte
            while byte[0] != 0xFF {
                file.read_exact(&mut byte)?;
            }
            while byte[0] == 0xFF {
                file.read_exact(&mut byte)?;
            }
            match byte[0] {
                0xD9 => return Ok(()),
                // a byte of a scan, and marks with nothing in them
                0 | 1 | 0xD0..=0xD8 => {}
                _ => {
                    let mut length = [0; 2];
                    file.read_exact(&mut length)?;
                    file.seek_relative(i64::from(u16::from_be_bytes(length)) - 2)?;
                }
            }
        }
    }

    let walked = walk(BufReader::new(&mut *file));
    file.rewind()?;
    match walked {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        walked => walked.map(|()| true),
    }
}

/// What an image of this size takes as numbers.
fn bytes_of(height: u32, width: u32) -> u64 {
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
