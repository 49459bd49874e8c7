//! Deferred pointwise operations: the policy which operations are deferred, and their realization.

use super::on_device::compute_all_on_device;
use super::program::{MAX_RESULTS, vector_nanoseconds};
use super::{compute, compute_all, sum};
use crate::device::common_place;
use crate::tensor::{Element, Expr, Item, LazyTensor, Nd, Rank};
use dl_core::{Binary, Error, Result, parallel};
use std::sync::{Arc, LazyLock};

/// Whether an operation with so many elements is deferred. Deferring costs about as much as
/// computing a small tensor. The environment variable `DL_FUSE_FROM` sets another threshold;
/// results do not depend on it.
pub(crate) fn should_defer(len: usize) -> bool {
    static FROM: LazyLock<usize> = LazyLock::new(|| {
        let from = std::env::var("DL_FUSE_FROM").ok().and_then(|from| from.parse().ok());
        from.unwrap_or(1 << 12)
    });
    len >= *FROM
}

/// Whether a tensor is on the host and is not large: a part of a basic block.
pub(crate) fn is_small<A: Item, D: Rank>(x: &Nd<A, D>) -> bool {
    x.0.device().is_none() && !should_defer(x.len())
}

/// Expressions with more operations are computed before they are extended, so that the depth of an
/// expression is bounded.
const MAX_FUSED_OPS: usize = 32;

/// Whether a lazy tensor is fused into an expression that has `length` operations so far. A tensor
/// of another shape is broadcast; it is small, and is computed first.
fn fuses_into<A: Element, D: Rank>(lazy: &LazyTensor<A, D>, length: &mut usize, of_same_shape: bool) -> bool {
    let goes = of_same_shape && *length + lazy.length() <= MAX_FUSED_OPS;
    *length += if goes { lazy.length() } else { 0 };
    goes
}

impl<A: Element, D: Rank> Expr<A, D> {
    /// The result as a tensor of this shape: lazy if it is large or on a device, otherwise computed
    /// now. Operands on different places raise an error.
    pub(crate) fn of_shape(self, shape: D) -> Nd<A, D> {
        let operands = self.operands().into_iter().map(|x| (x.0.device(), x.len()));
        let place = common_place(operands.collect::<Vec<_>>()).unwrap_or_else(|error| error.raise()).cloned();
        let (mut length, mut nanoseconds) = (1, vector_nanoseconds(self.cost()));
        for lazy in self.operands().into_iter().filter_map(Nd::lazy) {
            if fuses_into(lazy, &mut length, *lazy.shape() == shape) {
                nanoseconds += lazy.nanoseconds();
            } else {
                lazy.try_compute().unwrap_or_else(Error::raise);
            }
        }
        let large = place.is_some() || should_defer(shape.size());
        let lazy = LazyTensor::new(shape, length, nanoseconds, self, place);
        if large { Nd::from_lazy(Arc::new(lazy)) } else { Nd(compute(&lazy)) }
    }

    /// The cost of the operation per element.
    fn cost(&self) -> f64 {
        match self {
            Expr::Repeat(_) => Binary::Add.cost(),
            Expr::Unary(op, _) => op.cost(),
            Expr::Binary(op, ..) | Expr::WithNumber { op, .. } => op.cost(),
        }
    }

    pub(crate) fn operands(&self) -> Vec<&Nd<A, D>> {
        match self {
            Expr::Repeat(x) | Expr::Unary(_, x) | Expr::WithNumber { x, .. } => vec![x],
            Expr::Binary(_, a, b) => vec![a, b],
        }
    }
}

/// The estimated time before an operation with these operands can be deferred: that of the pending
/// operands that are not fused into its expression.
pub(crate) fn nanoseconds_until_deferred<A: Element, D: Rank>(len: usize, operands: &[&Nd<A, D>]) -> f64 {
    let mut length = 1;
    let pending = operands.iter().filter_map(|x| x.lazy());
    let computed = pending.filter(|lazy| !fuses_into(lazy, &mut length, lazy.shape().size() == len));
    computed.map(|lazy| lazy.nanoseconds_to_compute()).sum()
}

/// The pending lazy tensors among these tensors, each once.
fn pending<'a, A: Element, D: Rank>(tensors: &[&'a Nd<A, D>]) -> Vec<&'a LazyTensor<A, D>> {
    let mut pending: Vec<&LazyTensor<A, D>> = Vec::new();
    for lazy in tensors.iter().filter_map(|tensor| tensor.lazy()) {
        if !pending.iter().any(|&other| std::ptr::eq(other, &**lazy)) {
            pending.push(lazy);
        }
    }
    pending
}

/// Sums the elements of a lazy tensor without storing them. Pending tensors of the same shape among
/// `others` are computed in the same run.
pub(crate) fn sum_and_realize<A: Element, D: Rank>(summed: &LazyTensor<A, D>, others: &[&Nd<A, D>]) -> A {
    let mut together = pending(others);
    together.retain(|lazy| lazy.shape() == summed.shape() && !std::ptr::eq(*lazy, summed));
    together.truncate(MAX_RESULTS - 1);
    sum(summed, &together)
}

/// Computes the pending tensors among these. Tensors of one shape are computed together, up to the
/// maximum number of results of a program.
pub(crate) fn realize<A: Element, D: Rank>(tensors: &[&Nd<A, D>]) {
    let mut pending = pending(tensors);
    if pending.iter().any(|lazy| lazy.device().is_some()) {
        return realize_on_devices(&pending).unwrap_or_else(|error| error.raise());
    }
    pending.sort_by(|a, b| a.shape().slice().cmp(b.shape().slice()));
    let same = pending.chunk_by(|a, b| a.shape() == b.shape());
    let programs: Vec<&[&LazyTensor<A, D>]> = same.flat_map(|same| same.chunks(MAX_RESULTS)).collect();
    let nanoseconds: f64 = pending.iter().map(|lazy| lazy.nanoseconds_to_compute()).sum();
    parallel::for_each(programs.len(), nanoseconds / programs.len() as f64, |program| match programs[program] {
        [lazy] => {
            lazy.compute();
        }
        together => {
            let computed = compute_all(together);
            together.iter().zip(computed).for_each(|(lazy, elements)| lazy.keep(elements));
        }
    });
}

/// The same for tensors of devices: one kernel for tensors of one shape on one device.
fn realize_on_devices<A: Element, D: Rank>(pending: &[&LazyTensor<A, D>]) -> Result<()> {
    let mut left: Vec<&LazyTensor<A, D>> = pending.to_vec();
    while let Some(&first) = left.first() {
        let Some(device) = first.device() else {
            first.compute();
            left.remove(0);
            continue;
        };
        let is_beside = |lazy: &&LazyTensor<A, D>| {
            lazy.shape() == first.shape() && lazy.device().is_some_and(|other| Arc::ptr_eq(other, device))
        };
        let mut together: Vec<_> = left.iter().copied().filter(is_beside).collect();
        together.truncate(MAX_RESULTS);
        left.retain(|lazy| !together.iter().any(|other| std::ptr::eq(*lazy, *other)));
        let computed = compute_all_on_device(&together)?;
        together.iter().zip(computed).for_each(|(lazy, elements)| lazy.keep(elements));
    }
    Ok(())
}
