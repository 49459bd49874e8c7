//! What a picture shows, before anybody knows where: items, edges between them, and boxes around
//! the items of a function.

/// A picture without places.
#[derive(Default)]
pub(crate) struct Scene {
    pub(crate) items: Vec<Item>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) boxes: Vec<FunctionBox>,
    /// What is said above the picture; the first line is the title.
    pub(crate) head: Vec<String>,
}

/// What is drawn as one: a layer, or several that were folded.
pub(crate) struct Item {
    pub(crate) look: Look,
    /// What it is called.
    pub(crate) name: Vec<String>,
    /// What else is said of it, smaller.
    pub(crate) details: Vec<String>,
    /// What is said to who asks.
    pub(crate) hover: String,
    /// In which box it is.
    pub(crate) within: Option<usize>,
    /// Its time, as a share of that of the item that took longest.
    pub(crate) share: f64,
    pub(crate) outcome: Outcome,
}

/// What became of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// It has a value, or nothing is said against it.
    Computed,
    Failed,
    /// Something failed that it needs.
    NotComputed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Look {
    Operation,
    Backward,
    /// A function, folded.
    Function,
    BackwardFunction,
    Weight,
    Constant,
    Random,
    /// Looks at values.
    Decision,
    /// The arm that was taken.
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
    /// A value goes into an operation.
    Data,
    /// A decision looked at a value.
    Looked,
    /// A decision leads to what comes next.
    Way,
    /// Not drawn: what was built after a decision stands below it.
    Below,
}

/// Around the items of a function.
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
