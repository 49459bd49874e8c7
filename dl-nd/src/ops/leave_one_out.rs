//! The products of all other factors: the slopes of a product.

use crate::device::{Comparison, Place};
use crate::fusion;
use crate::kernels;
use crate::ops::axes::Axes;
use crate::ops::compare::compare_with;
use crate::ops::convert::DiscreteOps;
use crate::ops::reduce::{ReduceForm, ReduceOp, reduce};
use crate::ops::reshape::{MovementOps, permute, reshape_to};
use crate::ops::slice::{SliceOps, narrow};
use crate::tensor::{Element, Nd, Rank};
use dl_core::{Binary, Layer, Pointwise, Unary};
use ndarray::IxDyn;

/// Whether no factor is 0 and no product has overflowed or underflowed: a mask with one element.
pub(super) fn are_normal<A: Element, D: Rank>(
    factors: &Layer<Nd<A, D>>,
    products: &Layer<Nd<A, D>>,
) -> Layer<Nd<bool, D>> {
    let least = |mask: Layer<Nd<bool, D>>| -> Layer<Nd<A, D>> {
        let form = ReduceForm::of("prod", true);
        reduce(mask.to_floats::<A>(), ReduceOp::Amin, Axes::<D>::into_list(..), form)
    };
    let sizes = Nd::unary(Unary::Abs, products);
    let all = [
        least(compare_with(Comparison::NotEqual, factors, A::zero())),
        least(compare_with(Comparison::GreaterEqual, &sizes, A::min_positive_value())),
        least(compare_with(Comparison::LessEqual, &sizes, A::max_value())),
    ];
    let [a, b, c] = all;
    compare_with(Comparison::NotEqual, &Nd::binary(Binary::Mul, &Nd::binary(Binary::Mul, &a, &b), &c), A::zero())
}

/// For each element, the product of the other elements of its reduction.
pub(super) fn leave_one_out<A: Element, D: Rank>(
    x: &Layer<Nd<A, D>>,
    shape: D,
    axes: &[usize],
    place: Place,
) -> Layer<Nd<A, D>> {
    // arrange the elements of each reduction along the last axis: [kept, n]
    let order: Vec<usize> = (0..shape.ndim()).filter(|axis| !axes.contains(axis)).chain(axes.iter().copied()).collect();
    let order_of = |axes: &[usize]| axes.iter().map(|&axis| axis as isize).collect();
    let moved: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
    let n: usize = axes.iter().map(|&axis| shape[axis]).product();
    let rows = shape.size() / n.max(1);
    if shape.size() == 0 {
        return x.clone();
    }
    // padded with ones to a power of two
    let width = n.next_power_of_two();
    let lists: Layer<Nd<A, IxDyn>> = reshape_to(&permute(&x.to_dyn(), order_of(&order)), IxDyn(&[rows, n]));
    let lists = lists.pad(&[(0, 0), (0, width - n)], A::of(1.0));
    // a tree of products: the leaves are the elements, a parent is the product of a pair
    let pairs = |level: &Layer<Nd<A, IxDyn>>, width: usize| reshape_to(level, IxDyn(&[rows, width / 2, 2]));
    let mut tree = vec![lists];
    for k in 0..width.ilog2() {
        let pairs: Layer<Nd<A, IxDyn>> = pairs(&tree[k as usize], width >> k);
        let products = Nd::binary(Binary::Mul, &narrow(&pairs, 2, 0, 1), &narrow(&pairs, 2, 1, 1));
        tree.push(reshape_to(&products, IxDyn(&[rows, width >> (k + 1)])));
    }
    // top down: the product of all elements outside a node is that of its parent times its sibling
    let mut outside: Layer<Nd<A, IxDyn>> = Layer::constant(fusion::filled_on(IxDyn(&[rows, 1]), A::of(1.0), place));
    for k in (0..width.ilog2()).rev() {
        let others = pairs(&tree[k as usize], width >> k).flip(vec![-1]);
        let above = reshape_to(&outside, IxDyn(&[rows, width >> (k + 1), 1]));
        outside = reshape_to(&Nd::binary(Binary::Mul, &above, &others), IxDyn(&[rows, width >> k]));
    }
    let products = narrow(&outside, 1, 0, n);
    permute(&reshape_to(&products, IxDyn(&moved)), order_of(&kernels::inverse(&order))).to_rank()
}
