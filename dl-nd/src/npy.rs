//! Tensors as `.npy` files, NumPy's format for one array (feature `npy`).

use crate::element::{Item, Rank};
use crate::nd::Nd;
use dl_core::{Error, Result};
use ndarray::{ArrayD, IxDyn, ShapeBuilder};
use npyz::{AutoSerialize, Deserialize, NpyFile, Order, WriterBuilder};
use std::fs::File;
use std::io::{BufReader, BufWriter, Error as IoError, Write};
use std::panic::catch_unwind;
use std::path::Path;
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
        read(path).map_err(|error| Error::invalid(format!("{}: {error}", path.display())))
    }

    /// Writes a `.npy` file: whole, or not at all. A file of that name is replaced.
    ///
    /// # Errors
    /// When the file cannot be written; the old one is then still there.
    pub fn write_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        write(self, path).map_err(|error| Error::invalid(format!("{}: {error}", path.display())))
    }
}

fn read<A: NpyItem, D: Rank>(path: &Path) -> std::result::Result<Nd<A, D>, IoError> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    // the product of absurd lengths overflows in the reader
    let npy =
        catch_unwind(|| NpyFile::new(BufReader::new(file))).map_err(|_| IoError::other("the shape is absurd"))??;
    let shape: Vec<usize> = npy.shape().iter().map(|&length| usize::try_from(length).unwrap_or(usize::MAX)).collect();
    let size = shape.iter().try_fold(1_usize, |size, &length| size.checked_mul(length));
    let Some(size) = size.filter(|&size| (size as u64).saturating_mul(size_of::<A>() as u64) <= bytes) else {
        return Err(IoError::other(format!("the file has {bytes} bytes, too few for a tensor of shape {shape:?}")));
    };
    let order = npy.order();
    let mut elements = Vec::with_capacity(size);
    let mut data = npy.data::<A>().map_err(IoError::other)?;
    for element in &mut data {
        elements.push(element?);
    }
    let array =
        ArrayD::from_shape_vec(IxDyn(&shape).set_f(order == Order::Fortran), elements).map_err(IoError::other)?;
    let array = array.into_dimensionality().map_err(|_| {
        IoError::other(format!("a tensor of shape {shape:?} instead of one with {} axes", D::NDIM.unwrap_or(0)))
    })?;
    Ok(array.into())
}

fn write<A: NpyItem, D: Rank>(x: &Nd<A, D>, path: &Path) -> std::result::Result<(), IoError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (mut file, view) = (NamedTempFile::new_in(folder)?, x.view());
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
