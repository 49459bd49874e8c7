//! Combining samples into a batch.

use dl_core::{Error, Result};
use dl_nd::ndarray::{Axis, stack};
use dl_nd::{Item, Nd, Rank, check_size};

/// Samples that can be combined into a batch.
///
/// Tensors are stacked along a new first axis: `[3, 32, 32]` becomes `[batch, 3, 32, 32]`. Numbers
/// and labels become a vector `[batch]`, arrays of numbers a matrix `[batch, N]`. Tuples are
/// collated member by member. Strings become a `Vec<String>`. Implement the trait for sample types
/// of your own.
///
/// ```
/// use dl_data::Collate;
/// use dl_nd::Nd;
/// let samples = vec![(Nd::from([1.0_f32, 2.0]), 0_usize), (Nd::from([3.0, 4.0]), 1)];
/// assert_eq!(Collate::collate(samples)?, (Nd::from([[1.0, 2.0], [3.0, 4.0]]), Nd::from([0_usize, 1])));
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "samples of type `{Self}` cannot be collated into a batch",
    note = "tensors, numbers, arrays of numbers, strings and tuples of these can; for your own type, implement `Collate`, or `map` the data set"
)]
pub trait Collate: Sized {
    /// The type of a batch.
    type Batch: Send + 'static;

    /// Combines the samples, in order.
    ///
    /// # Errors
    /// When there are no samples, or their shapes differ.
    fn collate(samples: Vec<Self>) -> Result<Self::Batch>;
}

fn first_sample<T>(samples: &[T]) -> Result<&T> {
    samples.first().ok_or_else(|| Error::invalid("no samples to collate: a batch needs at least 1"))
}

impl<A: Item, D: Rank> Collate for Nd<A, D>
where
    D::Larger: Rank,
{
    type Batch = Nd<A, D::Larger>;

    fn collate(samples: Vec<Self>) -> Result<Self::Batch> {
        let first = first_sample(&samples)?.shape();
        if let Some((position, other)) = samples.iter().enumerate().find(|(_, sample)| sample.shape() != first) {
            let other = other.shape();
            return Err(Error::shape(format!(
                "the sample at position {position} of the batch has shape {other:?}, the first one {first:?}: bring all to one shape with `map`"
            )));
        }
        check_size::<A>(&[&[samples.len()], first].concat())?;
        let views: Vec<_> = samples.iter().map(Nd::view).collect();
        Ok(stack(Axis(0), &views).expect("the shapes were checked").into())
    }
}

macro_rules! numbers {
    ($($A:ty),*) => {$(
        impl Collate for $A {
            type Batch = Nd<$A, dl_nd::ndarray::Ix1>;

            fn collate(samples: Vec<Self>) -> Result<Self::Batch> {
                first_sample(&samples)?;
                Ok(samples.into())
            }
        }
    )*};
}

numbers!(f32, f64, bool, u8, i32, i64, usize);

impl<A: Item, const N: usize> Collate for [A; N] {
    type Batch = Nd<A>;

    fn collate(samples: Vec<Self>) -> Result<Nd<A>> {
        first_sample(&samples)?;
        Nd::from_vec([samples.len(), N], samples.into_flattened())
    }
}

impl Collate for String {
    type Batch = Vec<String>;

    fn collate(samples: Vec<Self>) -> Result<Vec<String>> {
        first_sample(&samples)?;
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
                    #[allow(non_snake_case, reason = "each member has the name of its type parameter")]
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
