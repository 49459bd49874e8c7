//! Updates of buffers that a pass has computed.

use crate::graph::node_ref::NodeRef;
use crate::graph::value::Value;
use std::panic::Location;

/// The new value of a buffer, as computed by a pass.
pub(crate) struct Update {
    pub(crate) buffer: NodeRef,
    pub(crate) value: Value,
    pub(crate) place: &'static Location<'static>,
}
