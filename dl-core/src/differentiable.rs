//! The type class of everything that can be differentiated.

use crate::data::{Data, Trainable};
use crate::deferred::{Belongs, Do};
use crate::extract::ExtractValue;
use crate::layer::Layer;
use crate::optimizer::Optimizer;
use crate::pass::{self, Purpose};
use crate::reverse;
use crate::tape::Tape;
use crate::weight::Weight;

/// Anything with data, a delta and a forward: plain values, weights, layers, and types of your own.
///
/// The paper calls this type class `DeepLearning`. To make a type of your own differentiable, say what its data is and how to
/// run it forward; usually that is the forward of some layer made from its parts:
///
/// ```
/// use dl_core::{Differentiable, Do, Sgd, Tape, Weight};
///
/// /// A weight that is never negative.
/// struct Positive(Weight<f64>);
///
/// impl Differentiable for Positive {
///     type Data = f64;
///     type Delta = f64;
///     fn forward(&self) -> Do<Tape<f64, f64>> {
///         self.0.exp().forward()
///     }
/// }
///
/// let p = Positive(Weight::new(0.0));
/// assert_eq!((p.layer() + 1.0).predict().wait()?, 2.0);
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not differentiable",
    note = "layers, weights, `f32`, `f64` and tensors are; implement `Differentiable` for a type of your own"
)]
pub trait Differentiable {
    /// The type of the forward value.
    type Data: Data<Delta = Self::Delta>;
    /// The type of the derivative.
    type Delta: Data<Delta = Self::Delta>;

    /// The forward pass: a computation of the value together with its backward.
    ///
    /// Nothing is computed before it is awaited. In a running pass it is part of that pass, otherwise it is a pass of its own. A tape
    /// that was made in a `predict` has no backward: that pass keeps no values for it.
    fn forward(&self) -> Do<Tape<Self::Data, Self::Delta>>;

    /// This, as a layer.
    #[track_caller]
    fn layer(&self) -> Layer<Self::Data> {
        Layer::from(self.forward())
    }

    /// This, as a layer, without a clone where none is needed.
    #[track_caller]
    fn into_layer(self) -> Layer<Self::Data>
    where
        Self: Sized,
    {
        self.layer()
    }

    /// Computes the value, in a new pass.
    ///
    /// # Errors
    /// Whatever goes wrong on the way: shapes that do not fit, an error or a panic of user code.
    #[track_caller]
    fn predict(&self) -> Do<Self::Data> {
        let layer = self.layer();
        Do::starting(Belongs::Own(Purpose::Predict), move || layer.extract())
    }

    /// One training step, in a new pass: computes the value, the deltas of all weights that it depends on, and lets the
    /// optimizer step them. Ends with the value, as it was before the step.
    ///
    /// A value that is not a single number is trained as the sum of its elements.
    ///
    /// # Errors
    /// As [`predict`](Differentiable::predict), and those of the optimizer. Then no weight has changed.
    #[track_caller]
    fn train<O: Optimizer + Clone + 'static>(&self, optimizer: &O) -> Do<Self::Data> {
        let layer = self.layer();
        let optimizer = optimizer.clone();
        Do::starting(Belongs::Own(Purpose::Train), move || {
            let (layer, optimizer) = (layer.clone(), optimizer.clone());
            async move {
                let root = layer.any().clone();
                let value = ExtractValue::new(root.clone()).await?;
                let pass = pass::current().expect("a training step runs in its pass");
                let one = reverse::one(&root, &value)?;
                reverse::side_effects(&pass, &root, reverse::Delta::Ready(one))?.evaluate(&pass, &optimizer).await?;
                Ok(value.into())
            }
        })
    }
}

impl<T: Data> Differentiable for Layer<T> {
    type Data = T;
    type Delta = T::Delta;

    fn forward(&self) -> Do<Tape<T, T::Delta>> {
        let layer = self.clone();
        Do::from_fn(move || {
            let layer = layer.clone();
            async move {
                let value = ExtractValue::new(layer.any().clone()).await?;
                Ok(Tape::of_layer(value, layer.into_any()))
            }
        })
    }

    fn layer(&self) -> Layer<T> {
        self.clone()
    }

    fn into_layer(self) -> Layer<T> {
        self
    }
}

impl<T: Trainable> Differentiable for Weight<T> {
    type Data = T;
    type Delta = T::Delta;

    fn forward(&self) -> Do<Tape<T, T::Delta>> {
        self.to_layer().forward()
    }

    fn layer(&self) -> Layer<T> {
        self.to_layer()
    }
}

impl<X: Differentiable + ?Sized> Differentiable for &X {
    type Data = X::Data;
    type Delta = X::Delta;

    fn forward(&self) -> Do<Tape<Self::Data, Self::Delta>> {
        (**self).forward()
    }

    #[track_caller]
    fn layer(&self) -> Layer<Self::Data> {
        (**self).layer()
    }
}
