//! `layer.graph()`.

use crate::graph::Graph;
use dl_core::record::{NodeKind, PassRecord, Recorder, Span};
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
    /// A picture of a `predict`, which this runs. Of a [gradient](dl_core::Layer::gradient) it
    /// shows both: what is differentiated, and the way back.
    ///
    /// # Errors
    /// Those of the `predict`. For a picture of a pass that failed, have it
    /// [recorded](Do::recorded): [`Graph::of`] shows where.
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
                let pass = united(recorder.take().passes).ok_or_else(|| Error::invalid("nothing was evaluated"))?;
                Ok(Graph::of(&pass).backward(true))
            }
        })
    }
}

impl<L: Differentiable> Draw for L {}

/// What the passes of one run did, as if it were one pass. Gradients are computed in passes of
/// their own, if the one that asks for them keeps no values; a pass without operations has nothing
/// more to show than they have.
fn united(mut passes: Vec<PassRecord>) -> Option<PassRecord> {
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
