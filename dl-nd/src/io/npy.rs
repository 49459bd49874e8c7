//! Tensors as `.npy` files, NumPy's format for one array (feature `npy`).

mod header;

use crate::tensor::{Item, Nd, Rank, check_size};
use dl_core::{Error, Result, files};
use header::Header;
use ndarray::{ArrayD, IxDyn, ShapeBuilder};
use npyz::{AutoSerialize, DType, Deserialize, TypeRead, WriterBuilder};
use std::io::{BufRead, BufReader, Error as IoError, ErrorKind, Read};
use std::path::Path;

/// Element types of `.npy` files: `f32`, `f64`, `bool`, `u8`, `i32` and `i64`. Indices are read as
/// `i64` and converted by [`to_indices`](Nd::to_indices).
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
    /// When the file cannot be read, is not a `.npy` file, is truncated, has trailing bytes, or
    /// contains another element type or rank.
    pub fn read_npy(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = files::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        file.and_then(|(bytes, file)| read(file, bytes, true))
            .map_err(|error| Error::invalid(format!("{}: {error}", path.display())))
    }

    /// Reads a tensor in `.npy` format from a stream, such as an entry of an archive, up to its
    /// end. Tensors of more than `limit` bytes are rejected. Below that, memory is allocated as
    /// elements arrive, whatever the size in the header.
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
    /// Those of [`read_npy`](Nd::read_npy), and when the elements take more than `limit` bytes.
    pub fn read_npy_from(source: impl Read, limit: u64) -> Result<Self> {
        read(source, limit, false).map_err(|error| Error::invalid(error.to_string()))
    }

    /// Writes a `.npy` file atomically. An existing file of that name is replaced and keeps its
    /// permissions; a symbolic link is followed.
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
    /// When the file cannot be written; an existing file is then unchanged.
    pub fn write_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        let shape: Vec<u64> = self.shape().iter().map(|&length| length as u64).collect();
        let view = self.view();
        files::write(path.as_ref(), |file| {
            let mut npy = npyz::WriteOptions::new().default_dtype().shape(&shape).writer(file).begin_nd()?;
            npy.extend(view.iter())?;
            npy.finish()
        })
    }
}

/// Reads header and elements. The elements must take at most `limit` bytes. The limit is the size
/// of the file if `is_file`. For a stream it is an upper bound only, so the vector grows as
/// elements arrive.
fn read<A: NpyItem, D: Rank>(source: impl Read, limit: u64, is_file: bool) -> std::result::Result<Nd<A, D>, IoError> {
    /// Initial capacity, in elements, for a stream.
    const INITIAL_CAPACITY: usize = 1 << 13;

    let mut source = BufReader::new(source);
    let Header { descr, fortran, shape } = Header::read(&mut source)?;
    let dtype = DType::Plain(descr.parse().map_err(|error| IoError::other(format!("the type {descr:?}: {error}")))?);
    let Ok(element) = A::reader(&dtype) else {
        return Err(IoError::other(format!(
            "elements of type {descr:?} cannot be read as {}: read another type, or convert them with NumPy's `astype`",
            std::any::type_name::<A>()
        )));
    };
    let size = shape.iter().try_fold(1_usize, |size, &length| size.checked_mul(length));
    let Some(size) = size.filter(|&size| (size as u64).saturating_mul(size_of::<A>() as u64) <= limit) else {
        let reason = if is_file { "the file has" } else { "the limit is" };
        return Err(IoError::other(format!("{reason} {limit} bytes, too few for a tensor of shape {shape:?}")));
    };
    check_size::<A>(&shape).map_err(IoError::other)?;
    let mut elements = Vec::new();
    let initial = if is_file { size } else { size.min(INITIAL_CAPACITY) };
    elements.try_reserve_exact(initial).map_err(|_| IoError::other(format!("no memory for {size} elements")))?;
    for place in 0..size {
        elements.push(element.read_one(&mut source).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                IoError::other(format!("the data is truncated: it ends within element {place} of {size}"))
            }
            _ => error,
        })?);
    }
    if !source.fill_buf()?.is_empty() {
        return Err(IoError::other(format!("more bytes follow the {size} elements of shape {shape:?}")));
    }
    let array = ArrayD::from_shape_vec(IxDyn(&shape).set_f(fortran), elements).expect("the size was checked");
    let array = array.into_dimensionality().map_err(|_| {
        IoError::other(format!("a tensor of shape {shape:?} instead of one with {} axes", D::NDIM.unwrap_or(0)))
    })?;
    Ok(array.into())
}
