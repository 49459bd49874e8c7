//! `layer.graph()`.

use crate::graph::Graph;
use dl_core::record::Recorder;
use dl_core::{Differentiable, Do, Error};

/// Whatever can be predicted can be drawn.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_view::Draw;
/// let w = Weight::new(3.0_f64);
/// let graph = (&w * &w).sin().graph().wait()?;
/// assert!(graph.dot().contains("sin"));
/// # dl_core::Result::Ok(())
/// ```
pub trait Draw: Differentiable {
    /// A picture of a `predict`, which this runs.
    ///
    /// # Errors
    /// Those of the `predict`. For a picture of a pass that failed, have it [recorded](Do::recorded): [`Graph::of`] shows where.
    ///
    /// ```
    /// # use dl_core::{Differentiable, Weight};
    /// # use dl_view::Draw;
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("pass.svg");
    /// let y = Weight::new(3.0_f64).sin();
    /// y.graph().wait()?.save(path)?;
    /// # dl_core::Result::Ok(())
    /// ```
    fn graph(&self) -> Do<Graph> {
        let predict = self.predict();
        Do::from_fn(move || {
            let recorder = Recorder::new();
            let predict = predict.clone().recorded(&recorder);
            async move {
                predict.await?;
                let recording = recorder.take();
                recording.passes.first().map(Graph::of).ok_or_else(|| Error::invalid("nothing was evaluated"))
            }
        })
    }
}

impl<L: Differentiable> Draw for L {}
