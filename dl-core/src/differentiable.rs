//! The type class of everything that can be differentiated.

use crate::commit::commit;
use crate::data::{Data, Trainable};
use crate::deferred::{AtOnce, Belongs, Do, Recipe};
use crate::delta::Delta;
use crate::error::Result;
use crate::extract::{self, ExtractValue};
use crate::layer::Layer;
use crate::node::{Kept, KeptFuture};
use crate::optimizer::Optimizer;
use crate::pass::{self, Begun, Pass, Purpose, Settings};
use crate::reverse::{self, AnyDelta, When};
use crate::side_effects::SideEffects;
use crate::tape::Tape;
use crate::value::Value;
use crate::weight::Weight;

/// Anything with data, a delta and a forward: plain values, weights, layers, and types of your own.
///
/// The paper calls this type class `DeepLearning`. To make a type of your own differentiable, say
/// what its data is and how to run it forward; usually that is the forward of some layer made from
/// its parts:
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
    type Delta: Delta;

    /// The forward pass: a computation of the value together with its backward.
    ///
    /// Nothing is computed before it is awaited. In a running pass it is part of that pass,
    /// otherwise it is a pass of its own. A tape that was made in a `predict` has no backward: that
    /// pass keeps no values for it.
    fn forward(&self) -> Do<Tape<Self::Data, Self::Delta>>;

    /// This, as a layer.
    #[track_caller]
    fn layer(&self) -> Layer<Self::Data> {
        Layer::from(self.forward())
    }

    /// This, as a layer, without a clone where none is needed.
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

    /// The value, if the pass that the calling code runs in has it already.
    #[doc(hidden)]
    fn value_at_hand(&self) -> Option<Result<Self::Data>> {
        None
    }

    /// Computes the value, in a new pass.
    ///
    /// # Errors
    /// Whatever goes wrong on the way: shapes that do not fit, an error or a panic of user code.
    #[track_caller]
    fn predict(&self) -> Do<Self::Data> {
        Do::new(Predict(self.layer()))
    }

    /// Forward and backward, in a new pass, and no step yet: what a training step would do to the
    /// weights. Such side effects can be added up, scaled, clipped and looked at, and are taken in
    /// one step: see [`SideEffects`].
    ///
    /// # Errors
    /// As [`predict`](Differentiable::predict).
    ///
    /// ```
    /// use dl_core::{Differentiable, Sgd, Weight};
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

    /// One training step, in a new pass: computes the value, the deltas of all weights that it
    /// depends on, and lets the optimizer step them. Ends with the value, as it was before the
    /// step.
    ///
    /// A value that is not a single number is trained as the sum of its elements.
    ///
    /// # Errors
    /// As [`predict`](Differentiable::predict), and those of the optimizer. Then no weight has
    /// changed.
    #[track_caller]
    fn train<O: Optimizer + Clone + 'static>(&self, optimizer: &O) -> Do<Self::Data> {
        Do::new(Train(self.layer(), optimizer.clone()))
    }
}

/// Computes the value of a layer.
struct Predict<T>(Layer<T>);

impl<T: Data> Recipe<T> for Predict<T> {
    fn belongs(&self) -> Belongs {
        Belongs::Own(Purpose::Predict)
    }

    fn start(&self) -> KeptFuture<Result<T>> {
        Kept::future(self.0.extract())
    }

    fn run_at_once(&self, settings: &Settings) -> AtOnce<T> {
        let root = self.0.any();
        match Pass::begin(Purpose::Predict, settings, root, |_, _, number| Value::from(number).into()) {
            Begun::Number(value) => AtOnce::Done(Ok(value)),
            Begun::Value(pass, value) => {
                pass.do_without();
                let value = value.and_then(|value| extract::hand_out(value, root));
                AtOnce::Done(pass.part().and(value))
            }
            Begun::Pending(pass) => AtOnce::Begun(pass),
        }
    }
}

/// Computes the value of a layer, and writes down the deltas.
struct Backward<T>(Layer<T>);

impl<T: Data> Recipe<SideEffects> for Backward<T> {
    fn belongs(&self) -> Belongs {
        Belongs::Own(Purpose::Train)
    }

    fn start(&self) -> KeptFuture<Result<SideEffects>> {
        let root = self.0.any().clone();
        Kept::future(async move {
            let value = ExtractValue::new(root.clone()).await?;
            let pass = pass::current().expect("a backward runs in its pass");
            let one = reverse::one(&root, &value)?;
            reverse::side_effects(&pass, &root, AnyDelta::Ready(one), When::Asked)
        })
    }
}

/// Takes a training step.
struct Train<T, O>(Layer<T>, O);

impl<T: Data, O: Optimizer + Clone + 'static> Recipe<T> for Train<T, O> {
    fn belongs(&self) -> Belongs {
        Belongs::Own(Purpose::Step)
    }

    fn start(&self) -> KeptFuture<Result<T>> {
        let (layer, optimizer) = (self.0.clone(), self.1.clone());
        Kept::future(async move {
            let value = ExtractValue::new(layer.any().clone()).await?;
            let pass = pass::current().expect("a training step runs in its pass");
            let one = reverse::one(layer.any(), &value)?;
            let effects = reverse::side_effects(&pass, layer.any(), AnyDelta::Ready(one), When::AtOnce)?;
            // before the step: what can fail must not have changed anything
            let value = extract::hand_out(value, layer.any())?;
            effects.take(&pass, &optimizer).await?;
            Ok(value)
        })
    }

    fn run_at_once(&self, settings: &Settings) -> AtOnce<T> {
        // a number is there at once, and so are its deltas
        let step = Pass::begin(Purpose::Step, settings, self.0.any(), |state, index, number| {
            let deltas = reverse::deltas_of_number(state, index, number);
            commit(&self.1, deltas, &[]).map(|()| Value::from(number).into())
        });
        match step {
            Begun::Number(result) => AtOnce::Done(result),
            // the deltas of other operations take a future
            Begun::Value(pass, _) | Begun::Pending(pass) => AtOnce::Begun(pass),
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
        let value = pass::with_current(|pass| pass?.value_at_hand(self.any()))?;
        Some(value.and_then(|value| extract::hand_out(value, self.any())))
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
