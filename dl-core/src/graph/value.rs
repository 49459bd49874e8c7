//! A forward value with its type forgotten, as the executor stores it: scalars inline, everything
//! else behind one pointer.

use crate::graph::data::Data;
use crate::graph::erased_arc::Shared;

/// A value of some [`Data`] type. The type is known to whoever made it: every layer is built typed
/// and erased afterwards.
#[derive(Clone)]
pub struct Value(pub(crate) Repr);

#[derive(Clone)]
pub(crate) enum Repr {
    F32(f32),
    F64(f64),
    Any(Shared),
}

impl Value {
    /// Stores a value that is no scalar.
    pub fn boxed<T: Data>(data: T) -> Self {
        Value(Repr::Any(Shared::new(data)))
    }

    /// Reads a value that was stored by [`Value::boxed`].
    pub fn unboxed<T: Data>(&self) -> &T {
        match &self.0 {
            Repr::Any(any) => any.downcast_ref().expect("a layer holds the type that it was built with"),
            _ => unreachable!("a layer holds the type that it was built with"),
        }
    }

    /// The data, if they are of this type and no number.
    pub(crate) fn try_get<T: Data>(&self) -> Option<&T> {
        match &self.0 {
            Repr::Any(any) => any.downcast_ref(),
            _ => None,
        }
    }

    pub(crate) fn get<T: Data>(&self) -> &T {
        T::from_value(self)
    }

    /// Changes the data, in place if nobody else holds them.
    #[inline]
    pub(crate) fn change<T: Data>(&mut self, change: impl FnOnce(&mut T)) {
        if let Repr::Any(any) = &mut self.0
            && let Some(data) = any.downcast_mut()
        {
            return change(data);
        }
        let mut data = self.get::<T>().clone();
        change(&mut data);
        *self = data.into_value();
    }

    /// Takes the data out, without a copy when nobody else holds it.
    pub(crate) fn into<T: Data>(self) -> T {
        match self.0 {
            Repr::Any(any) => any.into_data().expect("a layer holds the type that it was built with"),
            _ => T::from_value(&self).clone(),
        }
    }
}
