//! The parameters of a body that runs anew in each pass: kept in one shared allocation, lent or cloned to every run.

use std::borrow::Borrow;
use std::sync::Arc;

/// A value that a lazy body can keep.
#[diagnostic::on_unimplemented(
    message = "a lazy `#[differentiable]` function cannot keep a `{Self}`",
    label = "this parameter is needed again in every pass",
    note = "its body runs anew in every pass, on any thread: what it keeps must be `Clone + Send + Sync + 'static`",
    note = "layers, weights and `Arc`s are cheap to clone; an `Rc` or a `RefCell` is for one thread only"
)]
pub trait CanBeKept: Clone + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Clone + Send + Sync + 'static> CanBeKept for T {}

/// Something behind a reference that a lazy body can keep a copy of.
#[diagnostic::on_unimplemented(
    message = "a lazy `#[differentiable]` function cannot keep a copy of this `{Self}`",
    label = "this parameter is needed again in every pass",
    note = "its body runs anew in every pass, on any thread: what is behind a reference must be `Clone + Send + Sync + 'static`"
)]
pub trait CanBeLent: ToOwned {}

#[diagnostic::do_not_recommend]
impl<T: ToOwned<Owned: Send + Sync + 'static> + ?Sized> CanBeLent for T {}

/// All parameters together.
pub fn keep<T: Send + Sync + 'static>(parameters: T) -> Arc<T> {
    Arc::new(parameters)
}

/// Keeps a parameter given by value.
pub fn keep_value<T: CanBeKept>(parameter: T) -> T {
    parameter
}

/// Keeps a copy of a parameter given by reference.
pub fn keep_reference<T: CanBeLent + ?Sized>(parameter: &T) -> T::Owned {
    parameter.to_owned()
}

/// Lends a kept parameter to a run.
pub fn lend<T: ToOwned + ?Sized>(kept: &T::Owned) -> &T {
    kept.borrow()
}
