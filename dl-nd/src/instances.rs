//! Instances of generic functions that most programs need, compiled with this crate.
//!
//! Without optimisation, a crate reuses the instances that the crates below it contain. So a debug build
//! of a program compiles its own code, and not once more the operations of tensors. Optimised builds do
//! not share instances: they do without this module.

use crate::ndarray::{Ix1, Ix2, Ix3, Ix4, IxDyn};
use crate::{Conv, Element, Nd, NdLayer, NdWeight, Pool, Rank, concat, ops::*};
use dl_core::{Differentiable, Layer, Optimizer, Result};
use std::sync::Arc;

fn of_any_rank<A: Element, D: Rank>(w: &NdWeight<D, A>) -> NdLayer<D, A> {
    let x = w.relu() + w.sigmoid() * w.tanh();
    let x = x.softmax(-1) - x.log_softmax(-1);
    let x = x.layer_norm(1, 1e-5).dropout(0.1).transpose(0, -1).slice_axis(0, ..);
    concat(0, [x.clone(), x])
}

fn network<A: Element>(
    w: &NdWeight<Ix2, A>,
    bias: &NdWeight<Ix1, A>,
    heads: &NdWeight<Ix3, A>,
    images: &NdWeight<Ix4, A>,
    any: &NdWeight<IxDyn, A>,
) -> Layer<A> {
    let x = of_any_rank(w).linear(w, bias).linear_relu(w, bias).matmul(w);
    let x = x.embedding([0]).row(0) + x.sum_axis(0) - of_any_rank(bias);
    let y = of_any_rank(heads).matmul(heads).reshape([2, 2]);
    let z = of_any_rank(images).conv2d(images, Conv::new()).max_pool2d(Pool::new(2)).flatten_rows();
    let v = of_any_rank(any).matmul(any).to_rank::<Ix2>();
    let cross_entropy = (y + z + v).cross_entropy([0]);
    x.square().mean() + cross_entropy
}

fn weight<A: Element, D: Rank>(tensor: &Nd<A, IxDyn>) -> Result<NdWeight<D, A>> {
    Ok(NdWeight::new(tensor.to_rank::<D>().predict().wait()?))
}

fn step<A: Element>(tensor: &Nd<A, IxDyn>, optimizer: &Arc<dyn Optimizer>) -> Result<A> {
    let loss = network(&weight(tensor)?, &weight(tensor)?, &weight(tensor)?, &weight(tensor)?, &weight(tensor)?);
    loss.train(optimizer).wait()
}

/// The operations that most networks consist of, with all that a training step needs of them. No program
/// calls it.
pub fn instances(single: &Nd<f32, IxDyn>, double: &Nd<f64, IxDyn>, optimizer: &Arc<dyn Optimizer>) -> Result<f64> {
    Ok(f64::from(step(single, optimizer)?) + step(double, optimizer)?)
}
