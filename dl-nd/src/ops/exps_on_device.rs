//! Exponentials of lanes on a device: the steps of `ExpLanes` as pointwise programs, a fold and
//! sums.

use crate::device::{Comparison, Instruction, Program, SumOrder, View};
use crate::fusion::CHUNK_LEN;
use crate::ops::pointwise::binary;
use crate::tensor::{Element, Expr, Nd, Rank};
use dl_core::{Binary, Result, Unary};

/// The exponentials `exp(x − m)` of lanes, where `m` is the maximum of the lane, and their sums.
/// Maxima and sums keep the axis with length 1.
pub(crate) struct ExpsOnDevice<A: Element, D: Rank> {
    exps: Nd<A, D>,
    pub(crate) maxima: Nd<A, D>,
    pub(crate) sums: Nd<A, D>,
}

impl<A: Element, D: Rank> ExpsOnDevice<A, D> {
    /// Of a tensor on a device, along this axis.
    pub(crate) fn of(x: &Nd<A, D>, axis: usize) -> Result<Self> {
        ExpsOnDevice::with_sums(x, &[axis], |terms| terms.sum_in_order(axis, SumOrder::InRuns))
    }

    fn with_sums(x: &Nd<A, D>, axes: &[usize], sums: impl FnOnce(View) -> Result<View>) -> Result<Self> {
        let view = x.0.on_device()?.expect("it lies on a device");
        let maxima = Nd::from_view(view.fold_axes(Binary::Max, axes, f64::NEG_INFINITY)?);
        let exps = unary(Unary::Exp, binary(Binary::Sub, x, &maxima)?);
        let sums = Nd::from_view(sums(exps.0.on_device()?.expect("it lies on a device"))?);
        Ok(ExpsOnDevice { exps, maxima, sums })
    }

    pub(crate) fn ln_sums(&self) -> Result<Nd<A, D>> {
        Ok(unary(Unary::Ln, self.sums.clone()))
    }

    pub(crate) fn softmax(&self) -> Result<Nd<A, D>> {
        binary(Binary::Div, &self.exps, &self.sums)
    }

    /// The softmax, but 0 for a lane of −∞ only.
    pub(crate) fn softmax_or_zero(&self) -> Result<Nd<A, D>> {
        let (softmax, maxima) = (self.softmax()?.0.on_device()?, self.maxima.0.on_device()?);
        let (softmax, maxima) = softmax.zip(maxima).expect("they lie on a device");
        let (device, shape) = (softmax.device().clone(), softmax.shape.clone());
        let mut program = Program::new(A::ELEMENT);
        let (max, lowest, zero) = (program.load(maxima), program.number(f64::NEG_INFINITY), program.number(0.0));
        let hidden = program.compare(Comparison::Equal, max, lowest);
        let softmax = program.load(softmax);
        program.select(hidden, zero, softmax);
        program.run(&device, A::ELEMENT, &shape).map(Nd::from_view)
    }
}

/// The log-sum-exp along these axes, which are kept with length 1. Few terms are summed in runs, in
/// row-major order of the axes, many in the order of other sums, as on the host.
pub(crate) fn log_sum_exp<A: Element, D: Rank>(x: &Nd<A, D>, axes: &[usize]) -> Result<Nd<A, D>> {
    let exps = ExpsOnDevice::with_sums(x, axes, |terms| {
        if terms.len() >= CHUNK_LEN {
            return terms.sum_axes(axes);
        }
        let others = (0..terms.shape.len()).filter(|axis| !axes.contains(axis));
        let order: Vec<usize> = others.chain(axes.iter().copied()).collect();
        let mut reduced = terms.shape.clone();
        axes.iter().for_each(|&axis| reduced[axis] = 1);
        let count = axes.iter().map(|&axis| terms.shape[axis]).product();
        let rows = terms.permuted(&order).reshaped(&[reduced.iter().product(), count])?;
        rows.sum_in_order(1, SumOrder::InRuns)?.reshaped(&reduced)
    })?;
    let value = binary(Binary::Add, &exps.ln_sums()?, &exps.maxima)?.0.on_device()?;
    let (value, max) = value.zip(exps.maxima.0.on_device()?).expect("they lie on a device");
    let (device, shape) = (value.device().clone(), value.shape.clone());
    let mut program = Program::new(A::ELEMENT);
    let (value, max) = (program.load(value), program.load(max));
    let (size, largest) =
        (program.push(Instruction::Unary(Unary::Abs, max)), program.number(A::max_value().device_number()));
    let is_finite = program.compare(Comparison::LessEqual, size, largest);
    program.select(is_finite, value, max);
    program.run(&device, A::ELEMENT, &shape).map(Nd::from_view)
}

/// A pointwise operation on a tensor of a device.
pub(crate) fn unary<A: Element, D: Rank>(op: Unary, x: Nd<A, D>) -> Nd<A, D> {
    let shape = x.dim();
    Expr::Unary(op, x).of_shape(shape)
}
