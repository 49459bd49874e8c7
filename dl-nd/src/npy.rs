//! Tensors as `.npy` files, NumPy's format for one array (feature `npy`).

mod header;

use crate::element::{Item, Rank};
use crate::nd::Nd;
use dl_core::{Error, Result};
use header::Header;
use ndarray::{ArrayD, IxDyn, ShapeBuilder};
use npyz::{AutoSerialize, DType, Deserialize, TypeRead, WriterBuilder};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Error as IoError, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// What can be in a `.npy` file: `f32`, `f64`, `bool`, `u8`, `i32` and `i64`. Indices are read as `i64`, for
/// [`to_indices`](Nd::to_indices).
///
/// ```
/// fn can_be_saved<A: dl_nd::NpyItem>(_: A) {}
/// can_be_saved(1.0_f32);
/// ```
pub trait NpyItem: Item + AutoSerialize + Deserialize {}

macro_rules! items {
    ($($A:ty),*) => { $(impl NpyItem for $A {})* };
}

items!(f32, f64, bool, u8, i32, i64);

impl<A: NpyItem, D: Rank> Nd<A, D> {
    /// Reads a `.npy` file.
    ///
    /// ```
    /// use dl_nd::Nd;
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("x.npy");
    /// let x = Nd::from([[1.0_f32, 2.0], [3.0, 4.0]]);
    /// x.write_npy(&path)?;
    /// assert_eq!(Nd::<f32>::read_npy(&path)?, x);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the file cannot be read, is no such file, is cut short or too long, or holds elements of another type or a tensor of another
    /// rank.
    pub fn read_npy(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        file.and_then(|(bytes, file)| read(file, bytes, true))
            .map_err(|error| Error::invalid(format!("{}: {error}", path.display())))
    }

    /// Reads a tensor in the format of a `.npy` file to the end of a stream, for instance an entry of an archive. Elements of more than `limit`
    /// bytes are refused; below that, memory is taken as they come, not as the header says.
    ///
    /// ```
    /// use dl_nd::Nd;
    /// let npy = b"\x93NUMPY\x01\x00\x38\x00{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}\n\x05\x06";
    /// assert_eq!(Nd::read_npy_from(&npy[..], 2)?, Nd::from([5_u8, 6]));
    /// assert!(Nd::<u8>::read_npy_from(&npy[..], 1).unwrap_err().to_string().contains("limit"));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`read_npy`](Nd::read_npy), and when there are more elements than the limit allows.
    pub fn read_npy_from(source: impl Read, limit: u64) -> Result<Self> {
        read(source, limit, false).map_err(|error| Error::invalid(error.to_string()))
    }

    /// Writes a `.npy` file: whole, or not at all. A file of that name is replaced, and its permissions stay; of a symbolic link, the file that it leads to.
    ///
    /// ```
    /// use dl_nd::Nd;
    /// let folder = tempfile::tempdir()?;
    /// Nd::from([1.0_f64, 2.0]).write_npy(folder.path().join("x.npy"))?;
    /// assert!(Nd::from([1.0_f64]).write_npy(folder.path().join("no/such/folder.npy")).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the file cannot be written; the old one is then still there.
    pub fn write_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        write(self, path).map_err(|error| Error::invalid(format!("{}: {error}", path.display())))
    }
}

/// The elements of a file are at most as long as it is; of a stream nobody knows, so the room for them grows as they come.
fn read<A: NpyItem, D: Rank>(source: impl Read, limit: u64, known: bool) -> std::result::Result<Nd<A, D>, IoError> {
    /// This many elements have room at first, in a stream.
    const AT_FIRST: usize = 1 << 13;

    let mut source = BufReader::new(source);
    let Header { descr, fortran, shape } = Header::read(&mut source)?;
    let dtype = DType::Plain(descr.parse().map_err(|error| IoError::other(format!("the type {descr:?}: {error}")))?);
    let element = A::reader(&dtype).map_err(IoError::other)?;
    let size = shape.iter().try_fold(1_usize, |size, &length| size.checked_mul(length));
    let Some(size) = size.filter(|&size| (size as u64).saturating_mul(size_of::<A>() as u64) <= limit) else {
        let reason = if known { "the file has" } else { "the limit is" };
        return Err(IoError::other(format!("{reason} {limit} bytes, too few for a tensor of shape {shape:?}")));
    };
    let mut elements = Vec::new();
    elements.try_reserve_exact(if known { size } else { size.min(AT_FIRST) }).map_err(IoError::other)?;
    for place in 0..size {
        elements.push(element.read_one(&mut source).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                IoError::other(format!("it is cut short: it ends in element {place} of {size}"))
            }
            _ => error,
        })?);
    }
    if !source.fill_buf()?.is_empty() {
        return Err(IoError::other(format!("more bytes follow the {size} elements of shape {shape:?}")));
    }
    let array = ArrayD::from_shape_vec(IxDyn(&shape).set_f(fortran), elements).map_err(IoError::other)?;
    let array = array.into_dimensionality().map_err(|_| {
        IoError::other(format!("a tensor of shape {shape:?} instead of one with {} axes", D::NDIM.unwrap_or(0)))
    })?;
    Ok(array.into())
}

fn write<A: NpyItem, D: Rank>(x: &Nd<A, D>, path: &Path) -> std::result::Result<(), IoError> {
    let permissions = match fs::metadata(path) {
        Ok(found) if found.is_file() => Some(found.permissions()),
        Ok(_) => return Err(IoError::other("what is there is no ordinary file, and stays as it is")),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let path = target(path);
    let (mut file, view) = (new_file(folder_of(&path))?, x.view());
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    let shape: Vec<u64> = x.shape().iter().map(|&length| length as u64).collect();
    let mut buffer = BufWriter::new(file.as_file_mut());
    let mut npy = npyz::WriteOptions::new().default_dtype().shape(&shape).writer(&mut buffer).begin_nd()?;
    npy.extend(view.iter())?;
    npy.finish()?;
    buffer.flush()?;
    drop(buffer);
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Where symbolic links lead to, although there may be no file yet. They end somewhere, or there would be no metadata.
fn target(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    while let Ok(next) = fs::read_link(&path) {
        path = folder_of(&path).join(next);
    }
    path
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// With the permissions of any new file, not with those of a secret.
fn new_file(folder: &Path) -> std::result::Result<NamedTempFile, IoError> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}
