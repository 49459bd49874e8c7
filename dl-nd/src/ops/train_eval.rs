//! Layers that behave differently in training and in evaluation.

use dl_core::{Data, Layer, Mode};

/// A dynamic layer that resolves to `train` in training mode and to `evaluate` otherwise.
#[track_caller]
pub(crate) fn train_or_eval<T: Data>(train: Layer<T>, evaluate: Layer<T>) -> Layer<T> {
    // both layers are built by the caller, so that their errors carry the caller's location
    Layer::dynamic(move || {
        let layers = (train.clone(), evaluate.clone());
        async move {
            Ok(match Mode::current() {
                Some(Mode::Train) => layers.0,
                _ => layers.1,
            })
        }
    })
}
