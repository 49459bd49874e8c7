//! The error type: a message, the operation that failed, and the place in user code where it was
//! written.
//!
//! ```
//! use dl_core::{Differentiable, Error, Layer};
//!
//! let error = Error::invalid("the label 12 is not below the number of classes, 10");
//! assert!(error.is_invalid());
//! assert!(error.to_string().contains("label 12"));
//! ```

pub(crate) mod branch;
pub(crate) mod call_context;
pub(crate) mod call_stack;
pub(crate) mod call_tree;
pub(crate) mod data;
pub(crate) mod direction;

use crate::error::call_context::Site;
use crate::error::call_stack::Calls;
use crate::error::data::{ErrorClass, ErrorData};
use dl_parallel::panic_payload::drop_payload;
use std::cell::Cell;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// A result whose error is [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

type Boxed = Box<dyn std::error::Error + Send + Sync>;

/// The error of a pass.
///
/// An error is detected during a pass (inside `predict`, `train`, …), but it points to the place in
/// user code where the operation was written: its [`op`](Error::op) and [`place`](Error::place). It
/// is cheap to clone, because one failure may be returned to several waiters. Test it with the
/// `is_*` predicates, or for an error of your own with [`downcast_ref`](Error::downcast_ref), not
/// by its text.
///
/// ```
/// use dl_core::{Differentiable, Do, Error, Layer};
/// let error = Layer::from(Do::<f64>::fail(Error::shape("[2] and [3]"))).predict().wait().unwrap_err();
/// assert!(error.is_shape() && !error.is_invalid() && !error.is_not_finite());
/// assert!(!error.is_panic() && !error.is_cancelled() && !error.is_ran_twice());
/// assert_eq!(Do::now(()).map(|()| -> f64 { panic!("oh") }).wait().unwrap_err().is_panic(), true);
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: Arc<ErrorKind>,
    /// The words of [`Error::context`], outermost first.
    context: Option<Arc<str>>,
    op: Option<&'static str>,
    site: Option<Site>,
    /// See [`Error::rank`].
    rank: Option<usize>,
    /// Other failures in parallel branches, in the order of the program, each once.
    others: Vec<Error>,
}

thread_local! {
    /// The error of the last panic that [`Error::raise`] has begun in this thread.
    static RAISED: Cell<Option<Error>> = const { Cell::new(None) };
}

/// The maximum number of other failures that an error holds.
const MAX_OTHERS: usize = 16;

#[derive(Debug, thiserror::Error)]
enum ErrorKind {
    #[error("{0}")]
    Shape(String),
    #[error("panicked: {0}")]
    Panic(String),
    #[error("{0}")]
    NotFinite(String),
    #[error("{0}")]
    Invalid(String),
    #[error(
        "this computation was made from a future, which can run only once; make it with `Do::from_fn` to run it again"
    )]
    RanTwice,
    #[error("the pass ended, or its future was dropped, before this value was computed")]
    Cancelled,
    /// The error of another program.
    #[error("{0}")]
    Far(Box<ErrorData>),
    #[error(transparent)]
    Other(Boxed),
}

impl Error {
    fn new(kind: ErrorKind) -> Self {
        Self::of_kind(Arc::new(kind), Vec::new())
    }

    fn of_kind(kind: Arc<ErrorKind>, others: Vec<Error>) -> Self {
        Error(Arc::new(Inner { kind, context: None, op: None, site: None, rank: None, others }))
    }

    /// An error of shapes that do not match. `message` names the shapes; the runtime adds the
    /// operation and its place.
    ///
    /// ```
    /// assert!(dl_core::Error::shape("[2, 3] and [4, 5] do not fit").is_shape());
    /// ```
    pub fn shape(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Shape(message.into()))
    }

    /// An error of an invalid argument: a label out of range, an axis that does not exist, a
    /// setting.
    ///
    /// ```
    /// assert!(dl_core::Error::invalid("axis 3 of a matrix").is_invalid());
    /// ```
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid(message.into()))
    }

    /// An error of a number that is not finite where it must be.
    ///
    /// ```
    /// assert!(dl_core::Error::not_finite("the delta of a weight is NaN").is_not_finite());
    /// ```
    pub fn not_finite(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFinite(message.into()))
    }

    /// Any other error, for instance of user code inside a `#[differentiable]` function.
    ///
    /// A boxed [`Error`] is unboxed.
    ///
    /// ```
    /// use dl_core::Error;
    /// let parse = "x".parse::<f64>().unwrap_err();
    /// assert_eq!(Error::other(parse).to_string(), "invalid float literal");
    /// assert!(Error::other(Error::shape("…")).is_shape());
    /// ```
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        match error.into().downcast::<Error>() {
            Ok(own) => *own,
            Err(foreign) => Self::new(ErrorKind::Other(foreign)),
        }
    }

    pub(crate) fn ran_twice() -> Self {
        Self::new(ErrorKind::RanTwice)
    }

    pub(crate) fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled)
    }

    /// The error of a caught panic, with the message of the panic.
    #[doc(hidden)]
    pub fn panic(payload: Box<dyn std::any::Any + Send>) -> Self {
        let message = match payload.downcast::<String>() {
            Ok(text) => match RAISED.take().filter(|raised| raised.to_string() == *text) {
                Some(raised) => return raised,
                None => *text,
            },
            Err(payload) => match payload.downcast::<&'static str>() {
                Ok(text) => (*text).to_owned(),
                Err(payload) => {
                    drop_payload(payload);
                    "(a payload that is not text)".to_owned()
                }
            },
        };
        Self::new(ErrorKind::Panic(message))
    }

    /// Panics with this message, where a function has no other way to report an error. Where a pass
    /// catches the panic, this error is that of the operation.
    #[doc(hidden)]
    #[cold]
    pub fn raise<R>(self) -> R {
        let message = self.to_string();
        RAISED.set(Some(self));
        panic!("{message}")
    }

    /// Adds the operation and the source location, unless a deeper one is known already.
    #[doc(hidden)]
    pub fn at_location(self, op: &'static str, location: &'static Location<'static>) -> Self {
        self.at(op, location)
    }

    /// Adds the operation and the place, unless the error already has those of an inner operation.
    pub(crate) fn at(self, op: &'static str, site: impl Into<Site>) -> Self {
        if self.0.site.is_some() {
            return self;
        }
        Error(Arc::new(Inner { op: Some(op), site: Some(site.into()), ..Inner::clone(&self.0) }))
    }

    /// This error, with that of an operand further to the right added to its others.
    pub(crate) fn and(self, right: &Error) -> Self {
        let mut others = self.0.others.clone();
        for other in std::iter::once(right).chain(&right.0.others) {
            let known = Arc::ptr_eq(&other.0.kind, &self.0.kind)
                || others.iter().any(|known| Arc::ptr_eq(&known.0.kind, &other.0.kind));
            if !known && others.len() < MAX_OTHERS {
                let without_others = Inner { others: Vec::new(), ..Inner::clone(&other.0) };
                others.push(Error(Arc::new(without_others)));
            }
        }
        if others.len() == self.0.others.len() {
            return self;
        }
        Error(Arc::new(Inner { others, ..Inner::clone(&self.0) }))
    }

    /// This error added to the others of `left`, the error of an operand further to the left, if
    /// there is one.
    pub(crate) fn added_to(&self, left: Option<Error>) -> Error {
        left.map_or_else(|| self.clone(), |left| left.and(self))
    }

    /// All values, or the leftmost error with the other errors added to it.
    pub(crate) fn all<T>(results: impl IntoIterator<Item = Result<T>>) -> Result<Vec<T>> {
        let mut failed: Option<Error> = None;
        let mut values = Vec::new();
        for result in results {
            match result {
                Ok(value) => values.push(value),
                Err(error) => failed = Some(error.added_to(failed)),
            }
        }
        failed.map_or(Ok(values), Err)
    }

    /// Other failures of the same pass, of operands further to the right, in the order of the
    /// program. At most 16 are kept.
    ///
    /// ```
    /// use dl_core::{Differentiable, Do, Error, Layer};
    /// let fails = |what: &'static str| Layer::from(Do::<f64>::fail(Error::invalid(what)));
    /// let error = (fails("the left one") + fails("the right one")).predict().wait().unwrap_err();
    /// assert!(error.to_string().contains("the left one"));
    /// assert!(error.others()[0].to_string().contains("the right one"));
    /// ```
    pub fn others(&self) -> &[Error] {
        &self.0.others
    }

    /// The same error, of the same kind, with a description of its context before its text.
    ///
    /// ```
    /// let error = dl_core::Error::shape("[2] and [3]").context("sample 7").context("batch 1");
    /// assert!(error.is_shape());
    /// assert_eq!(error.to_string(), "batch 1: sample 7: [2] and [3]");
    /// ```
    pub fn context(&self, words: impl fmt::Display) -> Self {
        let context = match &self.0.context {
            Some(inner) => format!("{words}: {inner}"),
            None => words.to_string(),
        };
        Error(Arc::new(Inner { context: Some(context.into()), ..Inner::clone(&self.0) }))
    }

    /// The rank on which the error occurred, if the program runs on [several
    /// ranks](https://docs.rs/monadic-dl-dist). The text has its number, too.
    ///
    /// ```
    /// assert_eq!(dl_core::Error::invalid("…").rank(), None);
    /// ```
    pub fn rank(&self) -> Option<usize> {
        match &*self.0.kind {
            ErrorKind::Far(origin) => self.0.rank.or(origin.rank),
            _ => self.0.rank,
        }
    }

    /// This error as that of a rank, unless it has occurred on another rank and was passed on.
    #[doc(hidden)]
    pub fn of_rank(self, rank: usize) -> Self {
        if self.rank().is_some() {
            return self;
        }
        let named = self.context(format_args!("rank {rank}"));
        Error(Arc::new(Inner { rank: Some(rank), ..Inner::clone(&named.0) }))
    }

    /// The name of the operation that failed, if the error is that of an operation.
    ///
    /// ```
    /// assert_eq!(dl_core::Error::shape("…").op(), None);
    /// ```
    pub fn op(&self) -> Option<&'static str> {
        self.0.op
    }

    /// The place in user code where the operation that failed was written.
    ///
    /// ```
    /// assert!(dl_core::Error::shape("…").place().is_none());
    /// ```
    pub fn place(&self) -> Option<&'static Location<'static>> {
        self.0.site.map(|site| site.place)
    }

    /// The annotated functions in which the operation that failed was written, the innermost first.
    /// Together with [`place`](Error::place), this is a backtrace that contains user code only. A
    /// derivative has the chain of its operation. The chain is empty outside of `#[differentiable]`
    /// functions.
    ///
    /// `{error:#}` and `{error:?}` show the chain, a line for each call; `{error}` is one line.
    ///
    /// ```
    /// use dl_core::{Calls, Error};
    /// assert_eq!(Error::shape("…").calls(), Calls::default());
    /// ```
    pub fn calls(&self) -> Calls {
        self.0.site.map_or_else(Calls::default, |site| site.calls)
    }

    /// The error of your own, or of another library, that this error wraps, if it is of type `E`.
    ///
    /// ```
    /// use dl_core::Error;
    /// use std::io;
    /// let error = Error::other(io::Error::from(io::ErrorKind::NotFound)).context("batch 7");
    /// assert_eq!(error.downcast_ref::<io::Error>().map(io::Error::kind), Some(io::ErrorKind::NotFound));
    /// assert!(error.downcast_ref::<std::num::ParseFloatError>().is_none());
    /// ```
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match &*self.0.kind {
            ErrorKind::Other(error) => error.downcast_ref(),
            _ => None,
        }
    }

    /// Whether shapes did not match.
    pub fn is_shape(&self) -> bool {
        self.class() == ErrorClass::Shape
    }

    /// Whether user code or an operation panicked.
    pub fn is_panic(&self) -> bool {
        self.class() == ErrorClass::Panic
    }

    /// Whether a number was not finite.
    pub fn is_not_finite(&self) -> bool {
        self.class() == ErrorClass::NotFinite
    }

    /// Whether an argument was invalid.
    pub fn is_invalid(&self) -> bool {
        self.class() == ErrorClass::Invalid
    }

    /// Whether a computation that can run only once was run again.
    pub fn is_ran_twice(&self) -> bool {
        self.class() == ErrorClass::RanTwice
    }

    /// Whether the pass ended or was cancelled before the value was computed.
    pub fn is_cancelled(&self) -> bool {
        self.class() == ErrorClass::Cancelled
    }
}

impl Error {
    /// Writes the message, with context, operation and place, in one line.
    fn message(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(context) = &self.0.context {
            write!(f, "{context}: ")?;
        }
        if let Some(op) = self.0.op {
            write!(f, "{op}: ")?;
        }
        write!(f, "{}", self.0.kind)?;
        self.place().map_or(Ok(()), |place| write!(f, " (at {place})"))
    }

    /// Writes the chain of calls, one line per call.
    fn chain(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        if let ErrorKind::Far(origin) = &*self.0.kind {
            origin.chain(f, indent)?;
        }
        self.calls().frames().try_for_each(|call| write!(f, "\n{indent}{call}"))
    }
}

/// One line; `{error:#}` adds a line for each of its [`calls`](Error::calls).
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message(f)?;
        match self.0.others.len() {
            0 => {}
            n => write!(f, "; and {n} more failed in parallel")?,
        }
        if f.alternate() { self.chain(f, "  ") } else { Ok(()) }
    }
}

/// The message and its [`calls`](Error::calls), then the same for each of the
/// [`others`](Error::others). `fn main() -> dl::Result<()>` prints this.
///
/// ```
/// use dl_core::{Differentiable, Do, Error, Layer};
/// let fails = |what: &'static str| Layer::from(Do::<f64>::fail(Error::invalid(what)));
/// let error = (fails("the left one") + fails("the right one")).predict().wait().unwrap_err();
/// let text = format!("{error:?}");
/// assert!(text.starts_with("computation: the left one (at "));
/// assert!(text.contains("\nand in parallel:\n  computation: the right one (at "));
/// ```
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message(f)?;
        self.chain(f, "  ")?;
        let mut others = self.0.others.iter();
        others.try_for_each(|other| {
            f.write_str("\nand in parallel:\n  ")?;
            other.message(f)?;
            other.chain(f, "    ")
        })
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0.kind {
            ErrorKind::Other(error) => error.source(),
            _ => None,
        }
    }
}
