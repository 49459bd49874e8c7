//! A type-erased forward value, as the executor stores it: scalars inline, other data behind one
//! pointer.

use crate::graph::data::Data;
use crate::graph::erased_arc::ErasedArc;

/// A value of some [`Data`] type. The code that created it knows the type: layers are built typed
/// and erased afterwards.
#[derive(Clone)]
pub struct Value(pub(crate) Repr);

#[derive(Clone)]
pub(crate) enum Repr {
    F32(f32),
    F64(f64),
    Any(ErasedArc),
}

impl Value {
    /// Stores a value that is not a scalar.
    pub fn boxed<T: Data>(data: T) -> Self {
        Value(Repr::Any(ErasedArc::new(data)))
    }

    /// Reads a value that was stored by [`Value::boxed`].
    pub fn unboxed<T: Data>(&self) -> &T {
        match &self.0 {
            Repr::Any(any) => any.downcast_ref().expect("a layer holds the type that it was built with"),
            _ => unreachable!("a layer holds the type that it was built with"),
        }
    }

    /// The data, if they are of type `T` and not a scalar.
    pub(crate) fn try_get<T: Data>(&self) -> Option<&T> {
        match &self.0 {
            Repr::Any(any) => any.downcast_ref(),
            _ => None,
        }
    }

    pub(crate) fn get<T: Data>(&self) -> &T {
        T::from_value(self)
    }

    /// Changes the data, in place if this is the only handle to them.
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

    /// Moves the data out, or clones them if there is another handle.
    pub(crate) fn into<T: Data>(self) -> T {
        match self.0 {
            Repr::Any(any) => any.into_data().expect("a layer holds the type that it was built with"),
            _ => T::from_value(&self).clone(),
        }
    }
}
