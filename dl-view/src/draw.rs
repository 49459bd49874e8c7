//! The method `graph` of layers.

use crate::graph::Graph;
use dl_core::record::{NodeKind, PassRecord, Recorder, Span};
use dl_core::{Differentiable, Do, Error};

/// Draws everything that can be predicted.
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
    /// Runs a `predict` and returns a picture of it. The picture of a
    /// [gradient](dl_core::Layer::gradient) shows the differentiated computation and the backward
    /// pass.
    ///
    /// # Errors
    /// Those of the `predict`. For a picture of a failed pass, [record](Do::recorded) it and pass
    /// the record to [`Graph::of`].
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
                let pass = merged(recorder.take().passes).ok_or_else(|| Error::invalid("nothing was evaluated"))?;
                Ok(Graph::of(&pass).backward(true))
            }
        })
    }
}

impl<L: Differentiable> Draw for L {}

/// Merges the passes of one run into one record. A gradient may run in a pass of its own, if the
/// outer pass keeps no values. Passes without operations are dropped, since they add nothing to the
/// others.
fn merged(mut passes: Vec<PassRecord>) -> Option<PassRecord> {
    let works = |pass: &PassRecord| pass.nodes.iter().any(|node| node.kind == NodeKind::Operation);
    if passes.iter().any(works) {
        passes.retain(works);
    }
    passes.into_iter().reduce(|mut all, pass| {
        let before = all.nodes.len() as u32;
        (all.began, all.ended) = (all.began.min(pass.began), all.ended.max(pass.ended));
        all.nodes.extend(pass.nodes.into_iter().map(|mut node| {
            node.operands.iter_mut().chain(&mut node.looked_at).chain(&mut node.became).for_each(|id| *id += before);
            node
        }));
        let moved = |node: Option<u32>| node.map(|id| id + before);
        all.decisions.extend(pass.decisions.into_iter().map(|mut decision| {
            decision.node = moved(decision.node);
            decision
        }));
        all.spans.extend(pass.spans.into_iter().map(|span| Span { node: moved(span.node), ..span }));
        all
    })
}
