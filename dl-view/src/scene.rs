//! A picture before layout: items, the edges between them, and the boxes around the items of a
//! function.

/// A picture without positions.
#[derive(Default)]
pub(crate) struct Scene {
    pub(crate) items: Vec<Item>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) boxes: Vec<FunctionBox>,
    /// The lines above the picture; the first line is the title.
    pub(crate) head: Vec<String>,
}

/// One drawn shape: a layer, or several folded ones.
pub(crate) struct Item {
    pub(crate) look: Look,
    /// The lines of the name.
    pub(crate) name: Vec<String>,
    /// Further lines, in a smaller font.
    pub(crate) details: Vec<String>,
    /// The text of the tooltip.
    pub(crate) hover: String,
    /// The index of the enclosing box.
    pub(crate) within: Option<usize>,
    /// The time, relative to that of the item with the longest time.
    pub(crate) share: f64,
    pub(crate) outcome: Outcome,
}

/// The outcome of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// It has a value, or no failure is recorded.
    Computed,
    Failed,
    /// A value it depends on failed.
    NotComputed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Look {
    Operation,
    Backward,
    /// A folded function.
    Function,
    BackwardFunction,
    Weight,
    Constant,
    Random,
    /// A decision on extracted values.
    Decision,
    /// The arm taken.
    Taken,
    NotTaken,
}

pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) flow: Flow,
    pub(crate) label: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Flow {
    /// A value is read by an operation.
    Data,
    /// A value is extracted for a decision.
    Extracted,
    /// Control flow: from a decision to its arm, and from there to the next step.
    Control,
    /// Invisible; places items that were built after a decision below it.
    Rank,
}

/// A frame around the items of a function.
pub(crate) struct FunctionBox {
    pub(crate) name: String,
    pub(crate) hover: String,
    pub(crate) within: Option<usize>,
}

impl Look {
    pub(crate) fn is_backward(self) -> bool {
        matches!(self, Look::Backward | Look::BackwardFunction)
    }
}
