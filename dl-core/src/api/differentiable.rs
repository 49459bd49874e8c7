//! The type class of differentiable values.

use crate::api::deferred::Do;
use crate::api::extract;
use crate::api::tape::Tape;
use crate::api::weight::Weight;
use crate::autodiff::cotangent::AnyDelta;
use crate::autodiff::gradients::SideEffects;
use crate::autodiff::reverse::{self, When};
use crate::error::Result;
use crate::exec::computation::{Computation, PassChoice, SyncRun};
use crate::exec::extract::ExtractValue;
use crate::exec::{self, Begun, Pass, Purpose, Settings};
use crate::graph::data::{Data, Trainable};
use crate::graph::delta::Delta;
use crate::graph::inline_box::{InlineBox, InlineFuture};
use crate::graph::layer::Layer;
use crate::graph::node_ref::NodeRef;
use crate::graph::value::Value;
use crate::step::commit::commit;
use crate::step::optimizer::Optimizer;

/// A value with data, a delta and a forward pass: plain values, weights, layers, and user types.
///
/// The paper calls this type class `DeepLearning`. To make a type differentiable, define its data
/// and its forward pass; usually that is the forward pass of a layer made from its parts:
///
/// ```
/// use dl_core::{Differentiable, Do, Tape, Weight};
/// use dl_optim::Sgd;
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
    type Delta: Delta;

    /// The forward pass: a computation of the value together with its backward pass.
    ///
    /// Nothing is computed before it is awaited. It joins a running pass, or starts a new one if
    /// there is none. A tape made in a `predict` has no backward pass, because `predict` retains no
    /// values for it.
    fn forward(&self) -> Do<Tape<Self::Data, Self::Delta>>;

    /// This value as a layer.
    #[track_caller]
    fn layer(&self) -> Layer<Self::Data> {
        Layer::from(self.forward())
    }

    /// This value as a layer, without a clone where none is needed.
    ///
    /// ```
    /// use dl_core::{Differentiable, Layer, Weight};
    /// fn doubled(x: impl Differentiable<Data = f64, Delta = f64>) -> Layer<f64> {
    ///     x.into_layer() * 2.0
    /// }
    /// assert_eq!(doubled(1.0).predict().wait()? + doubled(Weight::new(2.0)).predict().wait()?, 6.0);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn into_layer(self) -> Layer<Self::Data>
    where
        Self: Sized,
    {
        self.layer()
    }

    /// The value, if the current pass has already computed it.
    #[doc(hidden)]
    fn value_at_hand(&self) -> Option<Result<Self::Data>> {
        None
    }

    /// Computes the value in a new pass.
    ///
    /// # Errors
    /// Any error of the pass: shapes that do not fit, an error or a panic of user code.
    #[track_caller]
    fn predict(&self) -> Do<Self::Data> {
        Do::new(Predict(self.layer()))
    }

    /// Runs forward and backward in a new pass, without a step. The result holds the gradients of
    /// the weights, which can be added, scaled, clipped and inspected, and applied in one step: see
    /// [`SideEffects`].
    ///
    /// # Errors
    /// Those of [`predict`](Differentiable::predict).
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// use dl_optim::Sgd;
    /// let w = Weight::new(1.0_f64);
    /// let effects = (&w * 2.0).backward().wait()? + 0.5 * (&w * 10.0).backward().wait()?;
    /// effects.step(&Sgd::new(0.1)).wait()?;
    /// assert!((w.value() - 0.3).abs() < 1e-12);
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn backward(&self) -> Do<SideEffects> {
        Do::new(Backward(self.layer()))
    }

    /// The value, and the gradients as [`backward`](Differentiable::backward) returns them, from
    /// one pass.
    ///
    /// # Errors
    /// Those of [`predict`](Differentiable::predict).
    ///
    /// ```
    /// use dl_core::{Differentiable, Weight};
    /// let w = Weight::new(3.0_f64);
    /// let (value, effects) = (&w * &w).value_and_backward().wait()?;
    /// assert_eq!((value, effects.delta(&w).wait()?), (9.0, Some(6.0)));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn value_and_backward(&self) -> Do<(Self::Data, SideEffects)> {
        let layer = self.layer();
        Do::starting(PassChoice::New(Purpose::Train), move || {
            let layer = layer.clone();
            async move {
                let (value, effects) = backward(layer.any().clone()).await?;
                Ok((extract::into_data(value, layer.any())?, effects))
            }
        })
    }

    /// Takes one training step in a new pass: computes the value and the deltas of all weights that
    /// it depends on, and lets the optimizer update these weights. The result is the value before
    /// the step.
    ///
    /// If the value is not a single number, the loss is the sum of its elements.
    ///
    /// # Errors
    /// Those of [`predict`](Differentiable::predict) and of the optimizer. Then no weight has
    /// changed.
    #[track_caller]
    fn train<O: Optimizer + Clone + 'static>(&self, optimizer: &O) -> Do<Self::Data> {
        Do::new(Train(self.layer(), optimizer.clone()))
    }
}

/// Computes the value of a layer.
struct Predict<T>(Layer<T>);

impl<T: Data> Computation<T> for Predict<T> {
    fn pass_choice(&self) -> PassChoice {
        PassChoice::New(Purpose::Predict)
    }

    fn start(&self) -> InlineFuture<Result<T>> {
        InlineBox::future(self.0.extract())
    }

    fn try_run_sync(&self, settings: &Settings) -> SyncRun<T> {
        let root = self.0.any();
        match Pass::begin(Purpose::Predict, settings, root, |_, _, number| Value::from(number).into()) {
            Begun::Number(value) => SyncRun::Completed(Ok(value)),
            Begun::Value(pass, value) => {
                let value = value.and_then(|value| extract::into_data(value, root));
                SyncRun::Completed(pass.part().and(value))
            }
            Begun::Pending(pass) => SyncRun::Started(pass),
        }
    }
}

/// Computes the value of a layer, and builds the deltas as layers.
struct Backward<T>(Layer<T>);

impl<T: Data> Computation<SideEffects> for Backward<T> {
    fn pass_choice(&self) -> PassChoice {
        PassChoice::New(Purpose::Train)
    }

    fn start(&self) -> InlineFuture<Result<SideEffects>> {
        let run = backward(self.0.any().clone());
        InlineBox::future(async move { Ok(run.await?.1) })
    }
}

/// The value of this layer in the current pass, and the deltas as layers.
async fn backward(root: NodeRef) -> Result<(Value, SideEffects)> {
    let value = ExtractValue::new(root.clone()).await?;
    let pass = exec::current().expect("a backward runs in its pass");
    let one = reverse::one(&root, &value)?;
    let effects = reverse::side_effects(&pass, &root, AnyDelta::Ready(one), When::Asked)?;
    Ok((value, effects))
}

/// Takes a training step.
struct Train<T, O>(Layer<T>, O);

impl<T: Data, O: Optimizer + Clone + 'static> Computation<T> for Train<T, O> {
    fn pass_choice(&self) -> PassChoice {
        PassChoice::New(Purpose::Step)
    }

    fn start(&self) -> InlineFuture<Result<T>> {
        let (layer, optimizer) = (self.0.clone(), self.1.clone());
        InlineBox::future(async move {
            let value = ExtractValue::new(layer.any().clone()).await?;
            let pass = exec::current().expect("a training step runs in its pass");
            let one = reverse::one(layer.any(), &value)?;
            let effects = reverse::side_effects(&pass, layer.any(), AnyDelta::Ready(one), When::AtOnce)?;
            // Must precede the step: an error here must leave everything unchanged.
            let value = extract::into_data(value, layer.any())?;
            effects.apply_in(&pass, &optimizer).await?;
            Ok(value)
        })
    }

    fn try_run_sync(&self, settings: &Settings) -> SyncRun<T> {
        // Scalar arithmetic is computed in the first traversal, and so are its deltas.
        let step = Pass::begin(Purpose::Step, settings, self.0.any(), |state, index, number| {
            let deltas = reverse::deltas_of_number(state, index, number);
            commit(&self.1, deltas, &[], &[]).map(|()| Value::from(number).into())
        });
        match step {
            Begun::Number(result) => SyncRun::Completed(result),
            // The deltas of other operations require a future.
            Begun::Value(pass, _) | Begun::Pending(pass) => SyncRun::Started(pass),
        }
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

    fn value_at_hand(&self) -> Option<Result<T>> {
        let value = exec::with_current(|pass| pass?.value_at_hand(self.any()))?;
        Some(value.and_then(|value| extract::into_data(value, self.any())))
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

    fn value_at_hand(&self) -> Option<Result<Self::Data>> {
        (**self).value_at_hand()
    }
}
