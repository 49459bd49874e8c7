//! Data sets of image files in one folder per class (feature `images`).

use crate::dataset::{Dataset, out_of_range};
use crate::error::read_error;
use crate::image_file::{EXTENSIONS, read_image};
use crate::source::{Source, unreadable};
use dl_core::Result;
use dl_nd::Nd;
use dl_nd::ndarray::Ix3;
use std::fs;
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
    /// not valid UTF-8, or the name of a file does not end with that of a format: `.png`, `.jpg`,
    /// `.jpeg`, `.webp`, `.bmp` or `.gif`.
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
                if !has_extension(&file) || !file.is_file() {
                    let advice = "remove it, or start its name with a dot";
                    let found = "another file or folder";
                    return Err(read_error(
                        &folder.display().to_string(),
                        name,
                        "a .png, .jpg, .jpeg, .webp, .bmp or .gif file",
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

/// Whether the name ends with that of an image format.
fn has_extension(file: &Path) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|found| EXTENSIONS.iter().any(|known| found.eq_ignore_ascii_case(known)))
}
