//! `.npz`: several tensors in a zip archive, as `numpy.savez` and `numpy.savez_compressed` write
//! them.

use crate::fault::{fault, list, quoted};
use crate::source::{ReadSeek, Source};
use dl_core::{Error, Result};
use dl_nd::{Nd, NpyItem, Rank};
use std::fmt::{self, Display};
use zip::ZipArchive;
use zip::result::ZipError;

/// The file behind the name of a tensor.
const SUFFIX: &str = ".npy";

/// Tensors of a `.npz` file, read one by one.
///
/// A tensor of more bytes than the [limit](Source::limit) of the source is refused; below that,
/// memory is taken as its elements come.
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
    /// Reads the table of contents.
    ///
    /// # Errors
    /// When the file cannot be read, is no zip archive, holds anything but tensors, or two of the
    /// same name.
    pub fn open(source: impl Into<Source<'a>>) -> Result<Self> {
        let source = source.into();
        let (name, limit) = (source.name().to_owned(), source.limit_in_bytes());
        let archive =
            ZipArchive::new(source.open_anywhere()?).map_err(|error| damaged(&name, "the archive", &error))?;
        if archive.has_duplicate_names() {
            let advice = "write the file anew, with a name for each tensor";
            return Err(fault(&name, "table of contents", "a name for each entry", "the same name twice", advice));
        }
        let mut names = Vec::with_capacity(archive.len());
        for (number, raw) in archive.file_names_raw().enumerate() {
            let place = format_args!("entry {number}");
            let Ok(entry) = std::str::from_utf8(raw) else {
                let found = quoted(&String::from_utf8_lossy(raw));
                return Err(fault(&name, place, "a name in UTF-8", found, "write the file anew with such names"));
            };
            let Some(tensor) = entry.strip_suffix(SUFFIX) else {
                let advice = "take out what is no tensor, or look whether this is a .npz file";
                return Err(fault(&name, place, "a name that ends in .npy", quoted(entry), advice));
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

    /// Reads the tensor of this name.
    ///
    /// # Errors
    /// When there is none, it is damaged or larger than the limit, or has elements of another type
    /// or another rank.
    pub fn read<A: NpyItem, D: Rank>(&mut self, tensor: &str) -> Result<Nd<A, D>> {
        let entry = format!("entry `{tensor}`");
        let Some(number) = self.names.iter().position(|name| name == tensor) else {
            let found = format!("only {}", list(&self.names));
            return Err(fault(&self.name, &entry, "a tensor of this name", found, "take one of those"));
        };
        let bytes = self.archive.by_index(number).map_err(|error| damaged(&self.name, &entry, &error))?;
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
    fault(name, place, "a zip archive that is whole", error, "get the file again: it is damaged, or not a .npz file")
}
