//! From samples to a batch.

use dl_core::{Error, Result};
use dl_nd::ndarray::{Axis, stack};
use dl_nd::{Item, Nd, Rank};

/// Samples that can be put together to a batch.
///
/// Tensors are stacked along a new first axis, `[3, 32, 32]` to `[batch, 3, 32, 32]`; numbers,
/// labels among them, become a vector; tuples are put together member by member; texts stay apart.
/// A sample of your own type says itself what a batch of it is.
///
/// ```
/// use dl_data::Collate;
/// use dl_nd::Nd;
/// let samples = vec![(Nd::from([1.0_f32, 2.0]), 0_usize), (Nd::from([3.0, 4.0]), 1)];
/// assert_eq!(Collate::collate(samples)?, (Nd::from([[1.0, 2.0], [3.0, 4.0]]), Nd::from([0_usize, 1])));
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "samples of type `{Self}` cannot be put together to a batch",
    note = "tensors, numbers, arrays of numbers, texts and tuples of those can; for a type of your own write `impl Collate`, or `map` the data set"
)]
pub trait Collate: Sized {
    /// What they make.
    type Batch: Send + 'static;

    /// Puts them together, in this order.
    ///
    /// # Errors
    /// When there are none, or they do not fit together.
    fn collate(samples: Vec<Self>) -> Result<Self::Batch>;
}

fn some<T>(samples: &[T]) -> Result<&T> {
    samples.first().ok_or_else(|| Error::invalid("a batch of no samples"))
}

impl<A: Item, D: Rank> Collate for Nd<A, D>
where
    D::Larger: Rank,
{
    type Batch = Nd<A, D::Larger>;

    fn collate(samples: Vec<Self>) -> Result<Self::Batch> {
        let first = some(&samples)?.shape();
        if let Some((place, other)) = samples.iter().enumerate().find(|(_, sample)| sample.shape() != first) {
            let other = other.shape();
            return Err(Error::shape(format!(
                "the sample at place {place} of the batch has the shape {other:?}, the first one {first:?}: bring all to one shape with `map`"
            )));
        }
        let views: Vec<_> = samples.iter().map(Nd::view).collect();
        let batch = stack(Axis(0), &views).map_err(|error| Error::shape(error.to_string()))?;
        Ok(batch.into())
    }
}

macro_rules! numbers {
    ($($A:ty),*) => {$(
        impl Collate for $A {
            type Batch = Nd<$A, dl_nd::ndarray::Ix1>;

            fn collate(samples: Vec<Self>) -> Result<Self::Batch> {
                some(&samples)?;
                Ok(samples.into())
            }
        }
    )*};
}

numbers!(f32, f64, bool, u8, i32, i64, usize);

impl<A: Item, const N: usize> Collate for [A; N] {
    type Batch = Nd<A>;

    fn collate(samples: Vec<Self>) -> Result<Nd<A>> {
        some(&samples)?;
        Nd::from_vec([samples.len(), N], samples.into_flattened())
    }
}

impl Collate for String {
    type Batch = Vec<String>;

    fn collate(samples: Vec<Self>) -> Result<Vec<String>> {
        some(&samples)?;
        Ok(samples)
    }
}

macro_rules! tuples {
    ($($T:ident $t:ident),*) => {
        impl<$($T: Collate),*> Collate for ($($T,)*) {
            type Batch = ($($T::Batch,)*);

            fn collate(samples: Vec<Self>) -> Result<Self::Batch> {
                $(let mut $t = Vec::with_capacity(samples.len());)*
                for sample in samples {
                    #[allow(non_snake_case, reason = "a member is named after its type")]
                    let ($($T,)*) = sample;
                    $($t.push($T);)*
                }
                Ok(($($T::collate($t)?,)*))
            }
        }
    };
}

tuples!(A a, B b);
tuples!(A a, B b, C c);
tuples!(A a, B b, C c, D d);
