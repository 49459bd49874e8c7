//! Serializable data: arrays of numbers of one type.
//!
//! ```
//! use dl_core::{DType, Numbers, Stored};
//! let x = 1.5_f32;
//! assert_eq!((f32::DTYPE, Stored::shape(&x)), (DType::F32, vec![]));
//! let bytes = x.numbers().to_le_bytes();
//! assert_eq!(bytes, 1.5_f32.to_le_bytes());
//! assert_eq!(f32::from_numbers(&[], Numbers::from_le_bytes(DType::F32, &bytes)?)?, 1.5);
//! # dl_core::Result::Ok(())
//! ```

use crate::error::{Error, Result};
use crate::graph::data::Data;
use crate::storage::row::{Row, append};
use std::any::Any;
use std::fmt;

/// Data that consist of an array of numbers of one type. Weights and buffers of a
/// [`Module`](crate::Module) must have such data, and can be written to files.
///
/// For a type of your own, define how its numbers are laid out in a row:
///
/// ```
/// use dl_core::{DType, Data, Error, Nothing, Numbers, Result, Stored, StoredElement};
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Point([f64; 2]);
///
/// impl Data for Point {
///     type Delta = Nothing;
///     fn one(&self) -> Nothing {
///         Nothing
///     }
/// }
///
/// impl Stored for Point {
///     const DTYPE: DType = DType::F64;
///     fn shape(&self) -> Vec<usize> {
///         vec![2]
///     }
///     fn numbers(&self) -> Numbers {
///         Numbers::F64(self.0.to_vec())
///     }
///     fn from_numbers(_: &[usize], numbers: Numbers) -> Result<Point> {
///         let numbers = f64::row_of(numbers)?;
///         Ok(Point(numbers.try_into().map_err(|_| Error::shape("a point has two numbers"))?))
///     }
/// }
///
/// let point = Point([1.0, 2.0]);
/// assert_eq!(Point::from_numbers(&[2], point.numbers())?, point);
/// # Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an array of numbers: no file could hold it",
    note = "weights and buffers of a module hold `f32`, `f64`, a tensor (`Nd`), a `Table`, or a type of your own that implements `Stored`"
)]
pub trait Stored: Data {
    /// The type of the numbers.
    const DTYPE: DType;

    /// The lengths of the axes; none for a single number.
    fn shape(&self) -> Vec<usize>;

    /// The numbers in row-major order.
    fn numbers(&self) -> Numbers;

    /// The value of this shape with these numbers, in row-major order.
    ///
    /// # Errors
    /// When the numbers are of another type, or their number does not match the shape.
    fn from_numbers(shape: &[usize], numbers: Numbers) -> Result<Self>;

    /// The value on another place, of a type that the data type knows; the same value if it is
    /// always on the host.
    ///
    /// # Errors
    /// When it cannot lie there.
    #[doc(hidden)]
    fn moved(&self, _place: &dyn Any) -> Result<Self> {
        Ok(self.clone())
    }

    /// The numbers of a delta of such a value; `None` if it has no such form. By default only data
    /// that are their own deltas have one.
    ///
    /// ```
    /// use dl_core::{Numbers, Stored};
    /// assert_eq!(f64::delta_numbers(&0.5).unwrap().numbers, Numbers::F64(vec![0.5]));
    /// ```
    fn delta_numbers(delta: &Self::Delta) -> Option<DeltaNumbers> {
        let delta = (delta as &dyn Any).downcast_ref::<Self>()?;
        Some(DeltaNumbers { shape: delta.shape(), rows: None, numbers: delta.numbers() })
    }

    /// The inverse of [`delta_numbers`](Stored::delta_numbers).
    ///
    /// ```
    /// use dl_core::Stored;
    /// assert_eq!(f64::delta_from_numbers(f64::delta_numbers(&0.5).unwrap())?, 0.5);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`from_numbers`](Stored::from_numbers); and if there is no such form.
    fn delta_from_numbers(delta: DeltaNumbers) -> Result<Self::Delta> {
        let own: Option<Box<Self::Delta>> = match delta.rows {
            Some(_) => None,
            None => (Box::new(Self::from_numbers(&delta.shape, delta.numbers)?) as Box<dyn Any>).downcast().ok(),
        };
        own.map(|own| *own).ok_or_else(|| Error::invalid("these numbers are not those of a delta of this type"))
    }

    /// Whether every delta has a [`delta_row`](Stored::delta_row).
    #[doc(hidden)]
    const HAS_DELTA_ROW: bool = false;

    /// The numbers of a delta in row-major order, to be changed, for types with deltas that are added
    /// number by number. A sum of such deltas can be cut into slices.
    #[doc(hidden)]
    fn delta_row(_: &mut Self::Delta) -> Option<Row<'_>> {
        None
    }
}

/// A delta as numbers: see [`Stored::delta_numbers`].
///
/// ```
/// use dl_core::{DeltaNumbers, Numbers};
/// // rows 3 and 7 of a table of shape [1000, 1]
/// let delta = DeltaNumbers { shape: vec![1000, 1], rows: Some(vec![3, 7]), numbers: Numbers::F32(vec![0.5, 1.0]) };
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DeltaNumbers {
    /// The lengths of the axes of the whole delta.
    pub shape: Vec<usize>,
    /// For a sparse delta the indices along axis 0 that it has, ascending. All others are zero.
    pub rows: Option<Vec<usize>>,
    /// The numbers in row-major order, of these rows or of all.
    pub numbers: Numbers,
}

/// A number that can be in a [`Stored`] array: `bool`, `u8`, `i32`, `i64`, `usize`, `f32`, `f64`.
///
/// ```
/// use dl_core::{Numbers, StoredElement};
/// assert_eq!(usize::into_numbers(vec![3, 4]), Numbers::U64(vec![3, 4]));
/// assert_eq!(usize::row_of(Numbers::U64(vec![3, 4]))?, [3, 4]);
/// assert!(f32::row_of(Numbers::U64(vec![3])).is_err());
/// # dl_core::Result::Ok(())
/// ```
pub trait StoredElement: Sized {
    /// The type of the number in a file.
    ///
    /// ```
    /// use dl_core::{DType, StoredElement};
    /// assert_eq!((f32::ELEMENT, usize::ELEMENT), (DType::F32, DType::U64));
    /// ```
    const ELEMENT: DType;

    /// Converts a row of these numbers to [`Numbers`], without copying where possible.
    fn into_numbers(row: Vec<Self>) -> Numbers;

    /// Converts [`Numbers`] back to a row.
    ///
    /// # Errors
    /// When the numbers are of another type. Numbers are not converted between types.
    fn row_of(numbers: Numbers) -> Result<Vec<Self>>;
}

macro_rules! numbers {
    ($($(#[doc = $doc:literal])+ $Variant:ident $T:ident $from:expr;)*) => {
        /// The type of the numbers of an array.
        ///
        /// ```
        /// use dl_core::DType;
        /// assert_eq!((DType::F32.to_string(), DType::F32.size()), ("f32".to_owned(), 4));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum DType {
            $($(#[doc = $doc])+ $Variant,)*
        }

        impl DType {
            /// The size of a number in bytes.
            pub fn size(self) -> usize {
                match self {
                    $(DType::$Variant => size_of::<$T>(),)*
                }
            }

            /// Its name in Rust.
            ///
            /// ```
            /// assert_eq!(dl_core::DType::I64.name(), "i64");
            /// ```
            pub fn name(self) -> &'static str {
                match self {
                    $(DType::$Variant => stringify!($T),)*
                }
            }
        }

        /// A row of numbers of one type.
        ///
        /// ```
        /// use dl_core::{DType, Numbers};
        /// let numbers = Numbers::I32(vec![1, -1]);
        /// assert_eq!((numbers.dtype(), numbers.len()), (DType::I32, 2));
        /// assert_eq!(numbers.to_le_bytes(), [1, 0, 0, 0, 255, 255, 255, 255]);
        /// ```
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Numbers {
            $($(#[doc = $doc])+ $Variant(Vec<$T>),)*
        }

        impl Numbers {
            /// The type of the numbers.
            pub fn dtype(&self) -> DType {
                match self {
                    $(Numbers::$Variant(_) => DType::$Variant,)*
                }
            }

            /// The number of numbers.
            pub fn len(&self) -> usize {
                match self {
                    $(Numbers::$Variant(row) => row.len(),)*
                }
            }

            /// The numbers at these places.
            ///
            /// ```
            /// use dl_core::Numbers;
            /// let matrix = Numbers::F64(vec![1.0, 2.0, 3.0, 4.0]);
            /// assert_eq!(matrix.pick([0, 2, 1, 3]), Numbers::F64(vec![1.0, 3.0, 2.0, 4.0]));
            /// ```
            ///
            /// # Panics
            /// If a place is beyond the end.
            pub fn pick(&self, places: impl IntoIterator<Item = usize>) -> Numbers {
                match self {
                    $(Numbers::$Variant(row) => Numbers::$Variant(places.into_iter().map(|place| row[place]).collect()),)*
                }
            }

            /// Appends numbers of the same type.
            ///
            /// ```
            /// use dl_core::Numbers;
            /// let mut numbers = Numbers::F64(vec![1.0]);
            /// numbers.append(Numbers::F64(vec![2.0]))?;
            /// assert_eq!(numbers, Numbers::F64(vec![1.0, 2.0]));
            /// assert!(numbers.append(Numbers::F32(vec![2.0])).is_err());
            /// # dl_core::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// When the type differs. Then nothing has changed.
            pub fn append(&mut self, others: Numbers) -> Result<()> {
                match (self, others) {
                    $((Numbers::$Variant(row), Numbers::$Variant(mut others)) => row.append(&mut others),)*
                    (row, others) => return Err(wrong_type(row.dtype(), &others)),
                }
                Ok(())
            }

            /// The bytes of the numbers, in little-endian order; a truth value is the byte 0 or 1.
            pub fn to_le_bytes(&self) -> Vec<u8> {
                let mut bytes = Vec::new();
                self.append_le_bytes(&mut bytes);
                bytes
            }

            pub(crate) fn append_le_bytes(&self, to: &mut Vec<u8>) {
                match self {
                    $(Numbers::$Variant(row) => append(row, to, |x| number_bytes!($T x)),)*
                }
            }

            /// The numbers with these bytes, in little-endian order.
            ///
            /// ```
            /// use dl_core::{DType, Numbers};
            /// assert_eq!(Numbers::from_le_bytes(DType::Bool, &[1, 0])?, Numbers::Bool(vec![true, false]));
            /// assert!(Numbers::from_le_bytes(DType::F64, &[1, 0]).is_err());
            /// # dl_core::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// When the bytes end within a number, or a truth value is neither 0 nor 1.
            pub fn from_le_bytes(dtype: DType, bytes: &[u8]) -> Result<Numbers> {
                let (len, size) = (bytes.len(), dtype.size());
                if len % size != 0 {
                    return Err(Error::invalid(format!("{len} bytes are not a multiple of {size}, the size of `{dtype}`")));
                }
                Ok(match dtype {
                    $(DType::$Variant => Numbers::$Variant($from(bytes)?),)*
                })
            }
        }

        $(
            impl StoredElement for $T {
                const ELEMENT: DType = DType::$Variant;

                fn into_numbers(row: Vec<$T>) -> Numbers {
                    Numbers::$Variant(row)
                }

                fn row_of(numbers: Numbers) -> Result<Vec<$T>> {
                    match numbers {
                        Numbers::$Variant(row) => Ok(row),
                        other => Err(wrong_type(DType::$Variant, &other)),
                    }
                }
            }
        )*
    };
}

macro_rules! number_bytes {
    (bool $x:ident) => {
        [u8::from($x)]
    };
    ($T:ident $x:ident) => {
        $x.to_le_bytes()
    };
}

macro_rules! from_bytes {
    ($T:ident) => {
        |bytes: &[u8]| Result::Ok(bytes.as_chunks().0.iter().map(|&number| $T::from_le_bytes(number)).collect())
    };
}

numbers! {
    /// Truth values.
    Bool bool |bytes: &[u8]| bytes.iter().map(|byte| match byte {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Error::invalid(format!("the byte [{other}] is no truth value: it must be 0 or 1"))),
    }).collect::<Result<Vec<bool>>>();
    /// Bytes.
    U8 u8 from_bytes!(u8);
    /// Whole numbers of 32 bits.
    I32 i32 from_bytes!(i32);
    /// Whole numbers of 64 bits.
    I64 i64 from_bytes!(i64);
    /// Indices and labels, `usize` in memory.
    U64 u64 from_bytes!(u64);
    /// Single precision.
    F32 f32 from_bytes!(f32);
    /// Double precision.
    F64 f64 from_bytes!(f64);
}

fn wrong_type(wanted: DType, found: &Numbers) -> Error {
    Error::invalid(format!("expected numbers of type `{wanted}`, found `{}`: numbers are not converted", found.dtype()))
}

impl StoredElement for usize {
    const ELEMENT: DType = DType::U64;

    fn into_numbers(row: Vec<usize>) -> Numbers {
        // `usize` has at most 64 bits
        Numbers::U64(row.into_iter().map(|index| index as u64).collect())
    }

    fn row_of(numbers: Numbers) -> Result<Vec<usize>> {
        let index = |index| {
            usize::try_from(index)
                .map_err(|_| Error::invalid(format!("{index} is too large for an index on this machine")))
        };
        u64::row_of(numbers)?.into_iter().map(index).collect()
    }
}

impl Numbers {
    /// Whether there are no numbers.
    ///
    /// ```
    /// assert!(dl_core::Numbers::F64(Vec::new()).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

macro_rules! scalars {
    ($($T:ident),*) => {$(
        impl Stored for $T {
            const DTYPE: DType = <$T as StoredElement>::ELEMENT;

            fn shape(&self) -> Vec<usize> {
                Vec::new()
            }

            fn numbers(&self) -> Numbers {
                <$T as StoredElement>::into_numbers(vec![*self])
            }

            fn from_numbers(shape: &[usize], numbers: Numbers) -> Result<$T> {
                match (shape, &<$T as StoredElement>::row_of(numbers)?[..]) {
                    ([], [number]) => Ok(*number),
                    (_, row) => Err(Error::shape(format!("{} numbers of shape {shape:?} are not a single number", row.len()))),
                }
            }

            const HAS_DELTA_ROW: bool = true;

            fn delta_row(delta: &mut $T) -> Option<Row<'_>> {
                Some(std::slice::from_mut(delta).into())
            }
        }
    )*};
}

scalars!(f32, f64);
