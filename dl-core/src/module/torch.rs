//! The names and layouts of weights in a `state_dict` of PyTorch.

/// How PyTorch names and lays out a part of a [`Module`](crate::Module). A module declares it where
/// it differs from its own; `#[derive(Module)]` has the options `torch = "…"` and `transposed`.
///
/// ```
/// use dl_core::{Module, Torch, Visitor, Weight};
///
/// struct Block {
///     attention: Vec<Weight<f64>>,
///     steps: Vec<Weight<f64>>,
///     mean: Weight<f64>,
/// }
///
/// impl Module for Block {
///     fn visit(&self, visitor: &mut Visitor) {
///         visitor.field_in_torch("attention", Torch::same().named("self_attn"), &self.attention);
///         visitor.field_in_torch("steps", Torch::same().named("weight_l{0}"), &self.steps);
///         visitor.field_in_torch("mean", Torch::same().named("running.mean").transposed(), &self.mean);
///     }
/// }
///
/// let one = || vec![Weight::new(1.0)];
/// let block = Block { attention: one(), steps: one(), mean: Weight::new(0.0) };
/// let entries = block.entries();
/// assert_eq!(entries[0].torch_path(), "self_attn.0");
/// assert_eq!(entries[1].torch_path(), "weight_l0");
/// assert_eq!(entries[2].torch_path(), "running.mean");
/// assert!(entries[2].is_transposed_in_torch());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torch<'a> {
    name: Option<&'a str>,
    transposed: bool,
}

impl<'a> Torch<'a> {
    /// The name and the layout of this library.
    pub const fn same() -> Self {
        Torch { name: None, transposed: false }
    }

    /// PyTorch's name of the part. It may have dots; if it is empty, the names below the part follow
    /// that of the module. `{0}`, `{1}` … stand for the first, the second … name below the part.
    #[must_use]
    pub const fn named(self, name: &'a str) -> Self {
        Torch { name: Some(name), ..self }
    }

    /// The last two axes of the weights of the part are exchanged in PyTorch: a `[in, out]` here is
    /// `[out, in]` there. Weights with fewer axes are not affected.
    #[must_use]
    pub const fn transposed(self) -> Self {
        Torch { transposed: true, ..self }
    }

    pub(super) const fn is_transposed(self) -> bool {
        self.transposed
    }

    /// The path from the module to a weight at the path `below` the part.
    pub(super) fn path(self, own: &str, below: &str) -> String {
        let names: Vec<&str> = below.split('.').filter(|name| !name.is_empty()).collect();
        let (mut path, mut used) = (self.name.unwrap_or(own).to_owned(), 0);
        for (number, name) in names.iter().enumerate().filter(|_| self.name.is_some()) {
            let place = format!("{{{number}}}");
            if path.contains(&place) {
                path = path.replace(&place, name);
                used = number + 1;
            }
        }
        join(&path, &names[used..].join("."))
    }
}

/// Joins two paths, each of which may be empty.
pub(super) fn join(path: &str, below: &str) -> String {
    let dot = if path.is_empty() || below.is_empty() { "" } else { "." };
    format!("{path}{dot}{below}")
}
