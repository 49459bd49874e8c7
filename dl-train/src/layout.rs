//! The layout of the weights in a file.

use dl_core::{Entry, Numbers};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How the weights of a file are named and laid out. A file of this crate says which; for any other
/// file, [`Load::torch`](crate::Load::torch) or [`Load::layout`](crate::Load::layout) does.
///
/// ```
/// use dl_nd::init;
/// use dl_nn::Linear;
/// use dl_train::{Layout, Load, save_torch};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("linear.safetensors");
/// let linear = || Linear::<f32>::new(2, 2, &mut init::rng(1));
/// save_torch(&linear()?, &path)?;
/// let error = Load::strict().layout(Layout::Native).weights(&linear()?, &path).unwrap_err();
/// assert!(error.to_string().contains("has the names and layouts of PyTorch"));
/// Load::strict().layout(Layout::Torch).weights(&linear()?, &path)?;
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// The paths and the shapes that the module has here.
    #[default]
    Native,
    /// Those of a `state_dict` of PyTorch, as the module declares them
    /// ([`Torch`](dl_core::Torch)).
    Torch,
}

impl Layout {
    pub(crate) fn is_native(&self) -> bool {
        *self == Layout::Native
    }

    /// The path of a weight or a buffer in the file.
    pub(crate) fn path(self, entry: &Entry) -> &str {
        match self {
            Layout::Native => entry.path(),
            Layout::Torch => entry.torch_path(),
        }
    }

    /// Whether the last two axes of this weight or buffer are exchanged in the file.
    pub(crate) fn exchanges(self, entry: &Entry) -> bool {
        self == Layout::Torch && is_exchanged_in_torch(entry)
    }

    /// The shape of a weight or a buffer in the file.
    pub(crate) fn shape(self, entry: &Entry) -> Vec<usize> {
        let mut shape = entry.shape();
        if self.exchanges(entry) {
            let rank = shape.len();
            shape.swap(rank - 2, rank - 1);
        }
        shape
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layout::Native => "the names and layouts of this library",
            Layout::Torch => "the names and layouts of PyTorch",
        })
    }
}

pub(crate) fn is_exchanged_in_torch(entry: &Entry) -> bool {
    entry.is_transposed_in_torch() && entry.shape().len() >= 2
}

/// Numbers of this shape with the last two axes exchanged.
pub(crate) fn with_axes_exchanged(shape: &[usize], numbers: &Numbers) -> Numbers {
    let [.., rows, columns] = *shape else { return numbers.clone() };
    let matrices = (0..numbers.len()).step_by((rows * columns).max(1));
    let places = move |start| (0..columns).flat_map(move |j| (0..rows).map(move |i| start + i * columns + j));
    numbers.pick(matrices.flat_map(places))
}
