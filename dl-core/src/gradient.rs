//! The gradient of a layer is a layer.
//!
//! ```
//! use dl_core::{Differentiable, Weight};
//! let w = Weight::new(2.0_f64);
//! let cube = &w * &w * &w;
//! let slope = cube.gradient(&w); // 3w²
//! let curvature = slope.gradient(&w); // 6w
//! assert_eq!(slope.predict().wait()?, 12.0);
//! assert_eq!(curvature.predict().wait()?, 12.0);
//! # dl_core::Result::Ok(())
//! ```

use crate::data::{Data, Trainable};
use crate::deferred::{Belongs, Do};
use crate::differentiable::Differentiable;
use crate::error::Result;
use crate::extract::ExtractValue;
use crate::layer::Layer;
use crate::pass::{self, Keep, Purpose};
use crate::reverse::{self, Delta};
use crate::weight::Weight;

impl<T: Data> Layer<T> {
    /// The derivative of this layer (of the sum of its elements) with respect to a weight, as a layer.
    ///
    /// In a `predict`, whose pass keeps no values to look back at, the gradient is computed in a pass of its own: what it shares
    /// with the rest is then evaluated in both.
    ///
    /// It can be predicted, trained on, and differentiated again. It is zero when this layer does not depend on the weight, or
    /// the weight is frozen.
    #[track_caller]
    pub fn gradient<W: Trainable>(&self, weight: &Weight<W>) -> Layer<W::Delta> {
        let (this, weight) = (self.clone(), weight.clone());
        Layer::dynamic(move || {
            let (this, weight) = (this.clone(), weight.clone());
            async move {
                match pass::current().map(|pass| pass.keep()) {
                    // the deltas of this pass may be differentiated again
                    Some(Keep::Values) => derive(this, weight).await,
                    // a pass that forgets its values cannot look back: take one that keeps them
                    _ => {
                        let derived = Do::starting(Belongs::Own(Purpose::Derive), move || {
                            let (this, weight) = (this.clone(), weight.clone());
                            async move { derive(this, weight).await?.extract().await }
                        });
                        Ok(Layer::constant(derived.await?))
                    }
                }
            }
        })
    }
}

/// Evaluates the layer in the current pass and writes down the delta of the weight.
async fn derive<T: Data, W: Trainable>(layer: Layer<T>, weight: Weight<W>) -> Result<Layer<W::Delta>> {
    let root = layer.into_any();
    let value = ExtractValue::new(root.clone()).await?;
    let pass = pass::current().expect("an extract ends in its pass");
    let one = Delta::Lazy(Delta::Ready(reverse::one(&root, &value)?).into_layer(&root));
    let effects = reverse::side_effects(&pass, &root, one)?;
    Ok(match effects.delta_of(weight.to_layer().any())? {
        Some(delta) => Layer::from_any(delta),
        None => {
            let weight = weight.layer().extract().await?;
            W::Delta::scale(&Layer::constant(weight.one()), 0.0)
        }
    })
}
