//! Values as bytes: numbers in little-endian order, and sequences with their length before them.
//!
//! A reader checks every length against the bytes that are left before it takes memory.

use crate::error::data::{ErrorClass, ErrorData, PlaceData};
use crate::error::{Error, Result};
use crate::storage::numbers::{DType, DeltaNumbers, Numbers};

/// A value with a form as bytes.
pub trait Wire: Sized {
    /// Appends the bytes of this value.
    fn write(&self, to: &mut Vec<u8>);

    /// Takes a value from the front of the bytes.
    ///
    /// # Errors
    /// If the bytes are not those of such a value.
    fn read(from: &mut &[u8]) -> Result<Self>;

    /// The bytes of this value.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }

    /// The value with these bytes.
    ///
    /// # Errors
    /// If they are not those of such a value, or if some are left over.
    fn from_bytes(mut bytes: &[u8]) -> Result<Self> {
        let value = Self::read(&mut bytes)?;
        if bytes.is_empty() { Ok(value) } else { Err(Error::invalid(format!("{} bytes are left over", bytes.len()))) }
    }
}

/// Takes so many bytes from the front.
fn take<'a>(from: &mut &'a [u8], len: usize) -> Result<&'a [u8]> {
    let (taken, rest) = from
        .split_at_checked(len)
        .ok_or_else(|| Error::invalid(format!("the bytes end early: {len} expected, {} left", from.len())))?;
    *from = rest;
    Ok(taken)
}

/// A length, each element of which has at least `size` bytes.
fn read_len(from: &mut &[u8], size: usize) -> Result<usize> {
    let len = u64::read(from)?;
    let fits = usize::try_from(len).ok().filter(|len| len.checked_mul(size).is_some_and(|bytes| bytes <= from.len()));
    fits.ok_or_else(|| {
        Error::invalid(format!("the bytes end early: {len} elements expected, {} bytes left", from.len()))
    })
}

macro_rules! numbers {
    ($($T:ident),*) => {$(
        impl Wire for $T {
            fn write(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }

            fn read(from: &mut &[u8]) -> Result<Self> {
                Ok($T::from_le_bytes(take(from, size_of::<$T>())?.try_into().expect("the bytes of one number")))
            }
        }
    )*};
}

numbers!(u8, u32, u64, f32, f64);

impl Wire for usize {
    fn write(&self, to: &mut Vec<u8>) {
        (*self as u64).write(to);
    }

    fn read(from: &mut &[u8]) -> Result<Self> {
        let number = u64::read(from)?;
        usize::try_from(number).map_err(|_| Error::invalid(format!("{number} is too large for this machine")))
    }
}

impl Wire for String {
    fn write(&self, to: &mut Vec<u8>) {
        self.len().write(to);
        to.extend_from_slice(self.as_bytes());
    }

    fn read(from: &mut &[u8]) -> Result<Self> {
        let len = read_len(from, 1)?;
        String::from_utf8(take(from, len)?.to_vec()).map_err(|_| Error::invalid("a text is not in UTF-8"))
    }
}

impl Wire for Box<[u8]> {
    fn write(&self, to: &mut Vec<u8>) {
        self.len().write(to);
        to.extend_from_slice(self);
    }

    fn read(from: &mut &[u8]) -> Result<Self> {
        let len = read_len(from, 1)?;
        Ok(take(from, len)?.into())
    }
}

impl<V: Wire> Wire for Vec<V> {
    fn write(&self, to: &mut Vec<u8>) {
        self.len().write(to);
        self.iter().for_each(|value| value.write(to));
    }

    fn read(from: &mut &[u8]) -> Result<Self> {
        let len = read_len(from, 1)?;
        (0..len).map(|_| V::read(from)).collect()
    }
}

impl<V: Wire> Wire for Option<V> {
    fn write(&self, to: &mut Vec<u8>) {
        u8::from(self.is_some()).write(to);
        self.iter().for_each(|value| value.write(to));
    }

    fn read(from: &mut &[u8]) -> Result<Self> {
        match u8::read(from)? {
            0 => Ok(None),
            1 => V::read(from).map(Some),
            other => Err(Error::invalid(format!("the byte {other} is neither 0 nor 1"))),
        }
    }
}

macro_rules! tuples {
    ($($($V:ident $number:tt),+;)*) => {$(
        impl<$($V: Wire),+> Wire for ($($V,)+) {
            fn write(&self, to: &mut Vec<u8>) {
                $(self.$number.write(to);)+
            }

            fn read(from: &mut &[u8]) -> Result<Self> {
                Ok(($($V::read(from)?,)+))
            }
        }
    )*};
}

tuples! {
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
}

impl Wire for DType {
    fn write(&self, to: &mut Vec<u8>) {
        (*self as u8).write(to);
    }

    fn read(from: &mut &[u8]) -> Result<Self> {
        let number = u8::read(from)?;
        let known = [DType::Bool, DType::U8, DType::I32, DType::I64, DType::U64, DType::F32, DType::F64];
        let dtype = known.into_iter().find(|&dtype| dtype as u8 == number);
        dtype.ok_or_else(|| Error::invalid(format!("{number} is no element type")))
    }
}

impl Wire for Numbers {
    fn write(&self, to: &mut Vec<u8>) {
        self.dtype().write(to);
        (self.len() * self.dtype().size()).write(to);
        self.append_le_bytes(to);
    }

    fn read(from: &mut &[u8]) -> Result<Self> {
        let dtype = DType::read(from)?;
        let len = read_len(from, 1)?;
        Numbers::from_le_bytes(dtype, take(from, len)?)
    }
}

impl Wire for DeltaNumbers {
    fn write(&self, to: &mut Vec<u8>) {
        self.shape.write(to);
        self.rows.write(to);
        self.numbers.write(to);
    }

    fn read(from: &mut &[u8]) -> Result<Self> {
        Ok(DeltaNumbers { shape: Wire::read(from)?, rows: Wire::read(from)?, numbers: Wire::read(from)? })
    }
}

impl Wire for PlaceData {
    fn write(&self, to: &mut Vec<u8>) {
        self.file.write(to);
        (self.line, self.column).write(to);
    }

    fn read(from: &mut &[u8]) -> Result<Self> {
        Ok(PlaceData { file: String::read(from)?, line: u32::read(from)?, column: u32::read(from)? })
    }
}

/// How deep errors in encoded errors may be nested: a reader must not use up its stack.
const MAX_DEPTH: u32 = 64;

impl Wire for ErrorData {
    fn write(&self, to: &mut Vec<u8>) {
        (self.class as u8).write(to);
        self.message.write(to);
        self.context.write(to);
        self.rank.write(to);
        self.op.write(to);
        self.place.write(to);
        self.calls.write(to);
        let inner: Vec<&ErrorData> = self.origin.iter().map(|origin| &**origin).chain(&self.others).collect();
        u8::from(self.origin.is_some()).write(to);
        inner.len().write(to);
        inner.into_iter().for_each(|error| error.write(to));
    }

    fn read(from: &mut &[u8]) -> Result<Self> {
        read_error(from, 0)
    }
}

fn read_error(from: &mut &[u8], depth: u32) -> Result<ErrorData> {
    if depth > MAX_DEPTH {
        return Err(Error::invalid("an encoded error is nested too deeply"));
    }
    let number = u8::read(from)?;
    let class = ErrorClass::ALL.into_iter().find(|&class| class as u8 == number);
    let mut error = ErrorData {
        class: class.ok_or_else(|| Error::invalid(format!("{number} is no kind of error")))?,
        message: Wire::read(from)?,
        context: Wire::read(from)?,
        rank: Wire::read(from)?,
        op: Wire::read(from)?,
        place: Wire::read(from)?,
        calls: Wire::read(from)?,
        origin: None,
        others: Vec::new(),
    };
    let has_origin = Option::<()>::read(from)?.is_some();
    let inner = read_len(from, 1)?;
    for number in 0..inner {
        let of_inner = read_error(from, depth + 1)?;
        if has_origin && number == 0 {
            error.origin = Some(Box::new(of_inner));
        } else {
            error.others.push(of_inner);
        }
    }
    if has_origin && error.origin.is_none() {
        return Err(Error::invalid("the origin of an encoded error is missing"));
    }
    Ok(error)
}

impl Wire for () {
    fn write(&self, _: &mut Vec<u8>) {}

    fn read(_: &mut &[u8]) -> Result<Self> {
        Ok(())
    }
}

impl ErrorData {
    /// The error as bytes.
    ///
    /// ```
    /// use dl_core::{Error, ErrorData};
    /// let data = Error::shape("[2] and [3]").data();
    /// assert_eq!(ErrorData::decode(&data.encode())?, data);
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        self.to_bytes()
    }

    /// The error with these bytes.
    ///
    /// # Errors
    /// If the bytes are not those of an encoded error.
    ///
    /// ```
    /// assert!(dl_core::ErrorData::decode(b"not an error").unwrap_err().is_invalid());
    /// ```
    pub fn decode(bytes: &[u8]) -> Result<ErrorData> {
        ErrorData::from_bytes(bytes)
    }
}
