//! Reductions of tensors on a device.

use super::reduce::{Reduce, ReduceOp};
use crate::device::View;
use crate::ops::exps_on_device::log_sum_exp;
use crate::tensor::{Element, Expr, Nd, Rank, Storage};
use dl_core::{Binary, Result, Unary};

impl<A: Element, X, O> Reduce<A, X, O> {
    /// The value with reduced axes of length 1, and `count` as the divisor of a mean. The order of
    /// the additions is the host's, but nothing is divided first where a sum overflows.
    pub(super) fn on_device<D: Rank>(&self, view: View, axes: &[usize], count: f64) -> Result<Nd<A, D>> {
        let tensor = |view: View| Nd::<A, D>(Storage::from_view(view));
        let with_number = |op: Binary, x: Nd<A, D>, number: f64| {
            let shape = x.dim();
            Expr::WithNumber { op, number: A::of(number), left: false, x }.of_shape(shape)
        };
        let unary = |op: Unary, x: Nd<A, D>| {
            let shape = x.dim();
            Expr::Unary(op, x).of_shape(shape)
        };
        let squares = |view: View| -> Result<Nd<A, D>> {
            let squares = unary(Unary::Square, tensor(view)).0.on_device()?.expect("it lies on a device");
            squares.sum_axes(axes).map(tensor)
        };
        Ok(match self.op {
            ReduceOp::Sum => tensor(view.sum_axes(axes)?),
            ReduceOp::Mean => with_number(Binary::Div, tensor(view.sum_axes(axes)?), count),
            ReduceOp::Prod => tensor(view.fold_axes(Binary::Mul, axes, 1.0)?),
            ReduceOp::Amax => tensor(view.fold_axes(Binary::Max, axes, f64::NEG_INFINITY)?),
            ReduceOp::Amin => tensor(view.fold_axes(Binary::Min, axes, f64::INFINITY)?),
            ReduceOp::Norm => unary(Unary::Sqrt, squares(view)?),
            ReduceOp::MeanSquare => with_number(Binary::Div, squares(view)?, count),
            ReduceOp::RootMeanSquare => {
                let mean = with_number(Binary::Div, squares(view)?, count);
                unary(Unary::Sqrt, with_number(Binary::Add, mean, self.form.eps))
            }
            ReduceOp::LogSumExp => log_sum_exp(&tensor(view), axes)?,
        })
    }
}
