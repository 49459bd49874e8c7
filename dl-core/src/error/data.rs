//! Errors as plain data, to be sent to another process.

use crate::error::{Error, ErrorKind};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// The kind of an error: what the `is_*` predicates of [`Error`] test.
///
/// ```
/// use dl_core::{Error, ErrorClass};
/// assert_eq!(Error::shape("[2] and [3]").data().class, ErrorClass::Shape);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// Shapes did not match.
    Shape,
    /// User code or an operation panicked.
    Panic,
    /// A number was not finite.
    NotFinite,
    /// An argument was invalid.
    Invalid,
    /// A computation that can run only once was run again.
    RanTwice,
    /// The pass ended before the value was computed.
    Cancelled,
    /// An error of user code.
    Other,
}

impl ErrorClass {
    pub(crate) const ALL: [ErrorClass; 7] = [
        ErrorClass::Shape,
        ErrorClass::Panic,
        ErrorClass::NotFinite,
        ErrorClass::Invalid,
        ErrorClass::RanTwice,
        ErrorClass::Cancelled,
        ErrorClass::Other,
    ];
}

/// A place in a source file.
///
/// ```
/// use dl_core::{Differentiable, Do, Error, Layer};
/// let error = Layer::from(Do::<f64>::fail(Error::invalid("no"))).predict().wait().unwrap_err();
/// let place = error.data().place.unwrap();
/// assert_eq!(place.to_string(), error.place().unwrap().to_string());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlaceData {
    /// The path of the file, as the compiler was called with it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl From<&Location<'_>> for PlaceData {
    fn from(place: &Location<'_>) -> Self {
        PlaceData { file: place.file().to_owned(), line: place.line(), column: place.column() }
    }
}

impl fmt::Display for PlaceData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// An [`Error`] as plain data, which can be [encoded](ErrorData::encode), sent, and turned into an
/// error again. The new error has the same kind, the same text and the same
/// [others](Error::others); it displays the operation, the place and the chain of calls of the old
/// one. [`Error::op`], [`Error::place`] and [`Error::calls`] are of the program that runs, so they
/// are those of the layer that passed the new error on, if there is one.
///
/// ```
/// use dl_core::{Differentiable, Do, Error, ErrorData, Layer};
/// let far = Layer::from(Do::<f64>::fail(Error::shape("[2] and [3]"))).predict().wait().unwrap_err();
/// let bytes = far.data().encode();
///
/// let error = ErrorData::decode(&bytes)?.into_error();
/// assert!(error.is_shape());
/// assert_eq!((error.to_string(), error.data()), (far.to_string(), far.data()));
/// // passed on by a layer, it has two places
/// let near = Layer::from(Do::<f64>::fail(error)).predict().wait().unwrap_err();
/// assert!(near.to_string().contains(&far.to_string()) && near.place().is_some());
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorData {
    /// The kind.
    pub class: ErrorClass,
    /// The message, without operation and place.
    pub message: String,
    /// The words of [`Error::context`], outermost first.
    pub context: Option<String>,
    /// The rank on which it occurred: see [`Error::rank`].
    pub rank: Option<usize>,
    /// The name of the operation that failed.
    pub op: Option<String>,
    /// The place where it was written.
    pub place: Option<PlaceData>,
    /// The annotated functions in which it was written, the innermost first, each with the place
    /// where it was called.
    pub calls: Vec<(String, PlaceData)>,
    /// The error of another program that this one passes on; `message` is empty then.
    pub origin: Option<Box<ErrorData>>,
    /// Other failures of the same pass.
    pub others: Vec<ErrorData>,
}

impl fmt::Display for ErrorData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.context.iter().chain(&self.op).try_for_each(|word| write!(f, "{word}: "))?;
        match &self.origin {
            Some(origin) => origin.fmt(f)?,
            None => f.write_str(&self.message)?,
        }
        self.place.iter().try_for_each(|place| write!(f, " (at {place})"))
    }
}

impl ErrorData {
    /// The error again.
    ///
    /// ```
    /// use dl_core::Error;
    /// let far = Error::invalid("axis 3 of a matrix");
    /// assert!(far.data().into_error().is_invalid());
    /// ```
    // Not `From`: if errors could be made from two types, `?` in a closure without a return type
    // would not compile.
    #[must_use]
    pub fn into_error(mut self) -> Error {
        let others = std::mem::take(&mut self.others).into_iter().map(ErrorData::into_error).collect();
        Error::of_kind(Arc::new(ErrorKind::Far(Box::new(self))), others)
    }

    /// Writes the chain of calls, one line for each.
    pub(super) fn chain(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        if let Some(origin) = &self.origin {
            origin.chain(f, indent)?;
        }
        self.calls.iter().try_for_each(|(function, from)| write!(f, "\n{indent}in `{function}`, called at {from}"))
    }
}

impl Error {
    /// This error as plain data.
    ///
    /// ```
    /// use dl_core::{Error, ErrorClass};
    /// let data = Error::invalid("axis 3 of a matrix").context("batch 7").data();
    /// assert_eq!((data.class, &data.message[..]), (ErrorClass::Invalid, "axis 3 of a matrix"));
    /// assert_eq!(data.to_string(), "batch 7: axis 3 of a matrix");
    /// ```
    pub fn data(&self) -> ErrorData {
        let origin = match &*self.0.kind {
            ErrorKind::Far(origin) => Some(origin.clone()),
            _ => None,
        };
        // An error with a rank of its own has a context.
        let is_plain = self.0.context.is_none() && self.0.site.is_none();
        let others = self.0.others.iter().map(Error::data).collect();
        match origin {
            Some(origin) if is_plain => ErrorData { others, ..*origin },
            origin => ErrorData {
                class: self.class(),
                message: if origin.is_some() { String::new() } else { self.0.kind.to_string() },
                context: self.0.context.as_deref().map(str::to_owned),
                rank: self.rank(),
                op: self.0.op.map(str::to_owned),
                place: self.place().map(PlaceData::from),
                calls: self.calls().frames().map(|call| (call.function.to_owned(), call.from.into())).collect(),
                origin,
                others,
            },
        }
    }

    pub(super) fn class(&self) -> ErrorClass {
        match &*self.0.kind {
            ErrorKind::Shape(_) => ErrorClass::Shape,
            ErrorKind::Panic(_) => ErrorClass::Panic,
            ErrorKind::NotFinite(_) => ErrorClass::NotFinite,
            ErrorKind::Invalid(_) => ErrorClass::Invalid,
            ErrorKind::RanTwice => ErrorClass::RanTwice,
            ErrorKind::Cancelled => ErrorClass::Cancelled,
            ErrorKind::Far(origin) => origin.class,
            ErrorKind::Other(_) => ErrorClass::Other,
        }
    }
}
