//! Hand-written backwards.

use crate::autodiff::gradients::SideEffects;
use crate::graph::node::AnyBackward;
use crate::graph::node_ref::NodeRef;
use std::sync::Arc;

/// Maps the delta of a node to gradients of weights. Graph and executor store it as [`AnyBackward`].
struct CustomBackward(Box<dyn Fn(NodeRef) -> SideEffects + Send + Sync>);

pub(crate) fn new(backward: impl Fn(NodeRef) -> SideEffects + Send + Sync + 'static) -> AnyBackward {
    Arc::new(CustomBackward(Box::new(backward)))
}

pub(crate) fn call(backward: &AnyBackward, delta: NodeRef) -> SideEffects {
    let CustomBackward(backward) = backward.downcast_ref().expect("every `AnyBackward` is made by `new`");
    backward(delta)
}
