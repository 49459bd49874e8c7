//! The parameters of a body that runs once per pass: stored in one shared allocation, and borrowed
//! or cloned by each run.

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;

/// A value that a lazy body can store.
#[diagnostic::on_unimplemented(
    message = "a lazy `#[differentiable]` function cannot keep a `{Self}`",
    label = "this parameter is needed again in every pass",
    note = "its body runs anew in every pass, on any thread: what it keeps must be `Clone + Send + Sync + 'static`; \
            on a type parameter or an `impl …`, write these bounds",
    note = "layers, weights and `Arc`s are cheap to clone; take an `Arc` instead of an `Rc`, an `Arc<Mutex<…>>` instead of a \
            `Mutex` or a `RefCell`, an `Arc<dyn … + Send + Sync>` instead of a `Box<dyn …>`"
)]
pub trait CanBeKept {
    /// The type itself. An associated type, because the compiler then reports a missing
    /// implementation once instead of at every use.
    type Kept: Send + Sync + 'static;

    /// The value itself.
    fn kept(self) -> Self::Kept;

    /// A clone of the value.
    fn copied(&self) -> Self::Kept;

    /// A clone of the stored value.
    fn again(kept: &Self::Kept) -> Self::Kept;
}

#[diagnostic::do_not_recommend]
impl<T: Clone + Send + Sync + 'static> CanBeKept for T {
    type Kept = T;

    fn kept(self) -> T {
        self
    }

    fn copied(&self) -> T {
        self.clone()
    }

    fn again(kept: &T) -> T {
        kept.clone()
    }
}

/// A referent of which a lazy body can store a copy.
#[diagnostic::on_unimplemented(
    message = "a lazy `#[differentiable]` function cannot keep a copy of this `{Self}`",
    label = "this parameter is needed again in every pass",
    note = "its body runs anew in every pass, on any thread: what is behind a reference must be `Clone + Send + Sync + 'static`; \
            on a type parameter or an `impl …`, write these bounds",
    note = "take an `Arc` instead of an `Rc`, an `Arc<Mutex<…>>` instead of a `Mutex` or a `RefCell`, \
            an `Arc<dyn … + Send + Sync>` instead of a `Box<dyn …>`"
)]
pub trait CanBeLent {
    /// The type of the copy.
    type Kept: Send + Sync + 'static;

    /// The copy.
    fn kept(&self) -> Self::Kept;
}

#[diagnostic::do_not_recommend]
impl<T: ToOwned<Owned: Send + Sync + 'static> + ?Sized> CanBeLent for T {
    type Kept = T::Owned;

    fn kept(&self) -> T::Owned {
        self.to_owned()
    }
}

/// Stores all parameters in one allocation.
pub fn keep<T>(parameters: T) -> Arc<T> {
    Arc::new(parameters)
}

/// Stores a parameter passed by value.
pub fn keep_value<T: CanBeKept<Kept = K>, K>(parameter: T) -> ClonedParam<K> {
    ClonedParam::new::<T>(parameter.kept())
}

/// A stored value that is cloned for each run. The clone function is stored with it, so that a type
/// that cannot be cloned is reported only once.
pub struct ClonedParam<K> {
    kept: K,
    again: fn(&K) -> K,
}

impl<K> ClonedParam<K> {
    pub(super) fn new<T: CanBeKept<Kept = K>>(kept: K) -> Self {
        ClonedParam { kept, again: T::again }
    }

    /// A clone for one run.
    pub fn take(&self) -> K {
        (self.again)(&self.kept)
    }
}

/// Stores a copy of a parameter passed by reference.
pub fn keep_reference<T: CanBeLent<Kept = K> + ?Sized, K>(parameter: &T) -> K {
    parameter.kept()
}

/// Does so for a parameter type that cannot be named.
pub fn keep_lent<T: CanBeLent<Kept = K> + ?Sized, K>(parameter: &T) -> BorrowedParam<T, K> {
    BorrowedParam(parameter.kept(), PhantomData)
}

/// A stored copy that is borrowed by each run as a `T`.
pub struct BorrowedParam<T: ?Sized, K>(K, PhantomData<fn(&T)>);

impl<T: ?Sized, K: Borrow<T>> BorrowedParam<T, K> {
    /// The reference for one run.
    pub fn take(&self) -> &T {
        self.0.borrow()
    }
}

/// Borrows a stored parameter for one run.
pub fn lend<K: Borrow<T>, T: ?Sized>(kept: &K) -> &T {
    kept.borrow()
}
