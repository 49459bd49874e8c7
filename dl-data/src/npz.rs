//! Archives of tensors (`.npz`), as written by `numpy.savez` and `numpy.savez_compressed`.

use crate::error::{list, quoted, read_error};
use crate::source::{ReadSeek, Source};
use dl_core::{Error, Result};
use dl_nd::{Nd, NpyItem, Rank};
use std::fmt::{self, Display};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

/// The suffix of the entry of a tensor in the archive.
const SUFFIX: &str = ".npy";

/// A `.npz` file. Its tensors are read one by one.
///
/// A tensor larger than the [limit](Source::limit) of the source, in bytes, is refused. Below the
/// limit, memory grows as the elements are read.
///
/// ```
/// use dl_data::Npz;
/// use dl_nd::{Nd, ndarray::{Ix1, Ix2}};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("digits.npz");
/// # let mut archive = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
/// # let mut add = |name: &str, write: &dyn Fn(&std::path::Path)| {
/// #     let file = folder.path().join(name);
/// #     write(&file);
/// #     archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
/// #     std::io::Write::write_all(&mut archive, &std::fs::read(file).unwrap()).unwrap();
/// # };
/// # add("images.npy", &|file| Nd::from([[0.5_f32, 0.25], [0.0, 1.0]]).write_npy(file).unwrap());
/// # add("labels.npy", &|file| Nd::from([3_i64, 7]).write_npy(file).unwrap());
/// # archive.finish().unwrap();
/// let mut npz = Npz::open(&*path)?;
/// let images: Nd<f32, Ix2> = npz.read("images")?;
/// let labels: Nd<i64, Ix1> = npz.read("labels")?;
/// assert_eq!((images.shape(), labels.to_indices()?), (&[2, 2][..], Nd::from([3, 7])));
/// # dl_core::Result::Ok(())
/// ```
pub struct Npz<'a> {
    name: String,
    archive: ZipArchive<Box<dyn ReadSeek + 'a>>,
    names: Vec<String>,
    limit: u64,
}

impl<'a> Npz<'a> {
    /// Opens the archive and reads its table of contents.
    ///
    /// # Errors
    /// When the file cannot be read, is not a zip archive, holds an entry that is not a tensor, or
    /// holds two entries of the same name.
    pub fn open(source: impl Into<Source<'a>>) -> Result<Self> {
        let source = source.into();
        let (name, limit) = (source.name().to_owned(), source.limit_in_bytes());
        let archive =
            ZipArchive::new(source.open_seekable()?).map_err(|error| damaged(&name, "the archive", &error))?;
        if archive.has_duplicate_names() {
            let advice = "write the file again, with a distinct name for each tensor";
            return Err(read_error(&name, "table of contents", "distinct names", "the same name twice", advice));
        }
        let mut names = Vec::with_capacity(archive.len());
        for (number, raw) in archive.file_names_raw().enumerate() {
            let place = format_args!("entry {number}");
            let Ok(entry) = std::str::from_utf8(raw) else {
                let found = quoted(&String::from_utf8_lossy(raw));
                return Err(read_error(
                    &name,
                    place,
                    "a name in UTF-8",
                    found,
                    "write the file again, with names in UTF-8",
                ));
            };
            let Some(tensor) = entry.strip_suffix(SUFFIX) else {
                let advice = "remove entries that are not tensors, or check that this is a .npz file";
                return Err(read_error(&name, place, "a name that ends in .npy", quoted(entry), advice));
            };
            names.push(tensor.to_owned());
        }
        Ok(Npz { name, archive, names, limit })
    }

    /// The names of the tensors, in the order of the file.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("empty.npz");
    /// # std::fs::write(&path, b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0").unwrap();
    /// assert!(dl_data::Npz::open(&path)?.names().is_empty());
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads the tensor called `tensor`. Tensors can be read in any order and repeatedly.
    ///
    /// # Errors
    /// When there is no such tensor, it is damaged or larger than the limit, or its element type or
    /// rank differs from `A` and `D`.
    pub fn read<A: NpyItem, D: Rank>(&mut self, tensor: &str) -> Result<Nd<A, D>> {
        let entry = format!("entry `{tensor}`");
        let Some(number) = self.names.iter().position(|name| name == tensor) else {
            let found = format!("only {}", list(&self.names));
            return Err(read_error(&self.name, &entry, "a tensor of this name", found, "use one of these names"));
        };
        let bytes = self.archive.by_index(number).map_err(|error| damaged(&self.name, &entry, &error))?;
        if !matches!(bytes.compression(), CompressionMethod::Stored | CompressionMethod::Deflated) {
            let error = ZipError::UnsupportedArchive("an entry is neither stored nor deflated");
            return Err(damaged(&self.name, &entry, &error));
        }
        Nd::read_npy_from(bytes, self.limit).map_err(|error| {
            let advice =
                "get the file again if it is damaged; if it is too large and you trust it, raise `Source::limit`";
            Error::invalid(format!("{}: {entry}: {error}; {advice}", self.name).replace('\n', " "))
        })
    }
}

impl fmt::Debug for Npz<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Npz").field("name", &self.name).field("names", &self.names).finish_non_exhaustive()
    }
}

fn damaged(name: &str, place: impl Display, error: &ZipError) -> Error {
    let (expected, advice) = match error {
        ZipError::UnsupportedArchive(_) | ZipError::CompressionMethodNotSupported(_) => {
            ("an archive of NumPy", "write the file again with `numpy.savez` or `numpy.savez_compressed`")
        }
        _ => ("a complete zip archive", "get the file again: it is damaged, or not a .npz file"),
    };
    read_error(name, place, expected, error, advice)
}
