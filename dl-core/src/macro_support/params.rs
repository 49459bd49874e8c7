//! The parameters of a body that runs anew in each pass: kept in one shared allocation, lent or
//! cloned to every run.

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;

/// A value that a lazy body can keep.
#[diagnostic::on_unimplemented(
    message = "a lazy `#[differentiable]` function cannot keep a `{Self}`",
    label = "this parameter is needed again in every pass",
    note = "its body runs anew in every pass, on any thread: what it keeps must be `Clone + Send + Sync + 'static`",
    note = "layers, weights and `Arc`s are cheap to clone; an `Rc` or a `RefCell` is for one thread only"
)]
pub trait CanBeKept {
    /// The type itself. Where there is none, the compiler says so once, and not of everything that
    /// comes after.
    type Kept: Send + Sync + 'static;

    /// The value itself.
    fn kept(self) -> Self::Kept;

    /// A copy of it.
    fn copied(&self) -> Self::Kept;

    /// A copy of what is kept.
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

/// Something behind a reference that a lazy body can keep a copy of.
#[diagnostic::on_unimplemented(
    message = "a lazy `#[differentiable]` function cannot keep a copy of this `{Self}`",
    label = "this parameter is needed again in every pass",
    note = "its body runs anew in every pass, on any thread: what is behind a reference must be `Clone + Send + Sync + 'static`"
)]
pub trait CanBeLent {
    /// Its copy.
    type Kept: Send + Sync + 'static;

    /// Its copy.
    fn kept(&self) -> Self::Kept;
}

#[diagnostic::do_not_recommend]
impl<T: ToOwned<Owned: Send + Sync + 'static> + ?Sized> CanBeLent for T {
    type Kept = T::Owned;

    fn kept(&self) -> T::Owned {
        self.to_owned()
    }
}

/// All parameters together.
pub fn keep<T>(parameters: T) -> Arc<T> {
    Arc::new(parameters)
}

/// Keeps a parameter given by value.
pub fn keep_value<T: CanBeKept<Kept = K>, K>(parameter: T) -> Given<K> {
    Given::new::<T>(parameter.kept())
}

/// Kept, and cloned for each run. It knows how by itself: so that a type that cannot be cloned is
/// spoken of once only.
pub struct Given<K> {
    kept: K,
    again: fn(&K) -> K,
}

impl<K> Given<K> {
    pub(super) fn new<T: CanBeKept<Kept = K>>(kept: K) -> Self {
        Given { kept, again: T::again }
    }

    /// What a run gets.
    pub fn take(&self) -> K {
        (self.again)(&self.kept)
    }
}

/// Keeps a copy of a parameter given by reference.
pub fn keep_reference<T: CanBeLent<Kept = K> + ?Sized, K>(parameter: &T) -> K {
    parameter.kept()
}

/// The same of one whose type cannot be written down.
pub fn keep_lent<T: CanBeLent<Kept = K> + ?Sized, K>(parameter: &T) -> Lent<T, K> {
    Lent(parameter.kept(), PhantomData)
}

/// Kept, and lent to each run. It knows as what.
pub struct Lent<T: ?Sized, K>(K, PhantomData<fn(&T)>);

impl<T: ?Sized, K: Borrow<T>> Lent<T, K> {
    /// What a run gets.
    pub fn take(&self) -> &T {
        self.0.borrow()
    }
}

/// Lends a kept parameter to a run.
pub fn lend<K: Borrow<T>, T: ?Sized>(kept: &K) -> &T {
    kept.borrow()
}
