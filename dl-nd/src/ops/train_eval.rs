//! Layers that behave differently in training.

use dl_core::{Data, Layer, Mode};

/// One layer in passes that train, another one in passes that evaluate.
#[track_caller]
pub(crate) fn train_or_eval<T: Data>(train: Layer<T>, evaluate: Layer<T>) -> Layer<T> {
    // both are written here and now, so that their errors point to the line of the user
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
