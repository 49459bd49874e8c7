//! Layers with the initial weights that all libraries share.

use crate::common::Numbers;
use dl::nd::HasRank;
use dl::nn::Linear;
use dl::prelude::*;

/// A fully connected layer with a bias of zeros.
pub(crate) fn dense(numbers: &mut Numbers, inputs: usize, outputs: usize) -> Linear {
    let weight = Nd::from_vec([inputs, outputs], numbers.weight(inputs, outputs)).expect("as many numbers as it takes");
    Linear { weight: Weight::new(weight), bias: Some(Weight::new(Nd::full([outputs], 0.0))) }
}

/// A tensor of uniform random numbers.
pub(crate) fn uniform<const N: usize, D: HasRank<N>>(numbers: &mut Numbers, shape: [usize; N], bound: f32) -> Nd<f32, D>
where
    [usize; N]: dl::nd::ndarray::IntoDimension<Dim = D>,
{
    let count = shape.iter().product();
    Nd::from_vec(shape, numbers.uniform(count, bound)).expect("as many numbers as it takes")
}
