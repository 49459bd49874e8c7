//! Kernels of einsum on a device: views with labelled axes, in the order of those of the host.

use super::plan::{Label, Leg, Plan};
use crate::device::{Factors, Program, View, product};
use crate::gemm;
use crate::tensor::{Element, check_size};
use dl_core::{Binary, Result};
use std::marker::PhantomData;

/// A view with a distinct label for each axis.
pub(super) struct LabelledView<A> {
    view: View,
    labels: Vec<Label>,
    element: PhantomData<A>,
}

impl<A: Element> LabelledView<A> {
    fn new(view: View, labels: Vec<Label>) -> Self {
        LabelledView { view, labels, element: PhantomData }
    }

    /// As `Labelled::of`.
    pub(super) fn of(mut view: View, legs: &[Leg]) -> Self {
        let mut labels = Vec::new();
        for leg in legs {
            let axis = labels.len();
            match leg {
                None => view = view.without(axis),
                Some(label) => match labels.iter().position(|other| other == label) {
                    Some(first) => {
                        view.strides[first] += view.strides[axis];
                        view = view.without(axis);
                    }
                    None => labels.push(*label),
                },
            }
        }
        LabelledView::new(view, labels)
    }

    pub(super) fn has(&self, label: Label) -> bool {
        self.labels.contains(&label)
    }

    /// As `Labelled::sum_out`.
    pub(super) fn sum_out(mut self, needed: impl Fn(Label) -> bool) -> Result<Self> {
        for axis in (0..self.labels.len()).rev() {
            if !needed(self.labels[axis]) {
                self.labels.remove(axis);
                self.view = self.view.sum_along(axis)?.without(axis);
            }
        }
        Ok(self)
    }

    /// As `Labelled::contract`.
    pub(super) fn contract(self, other: Self, needed: impl Fn(Label) -> bool, last: Leg) -> Result<Self> {
        let swap = last.is_some_and(|last| self.has(last) && !other.has(last));
        let (left, right) = if swap { (other, self) } else { (self, other) };
        let (shared, rows): (Vec<Label>, Vec<Label>) = left.labels.iter().partition(|&&label| right.has(label));
        let (batch, inner): (Vec<Label>, Vec<Label>) = shared.into_iter().partition(|&label| needed(label));
        let columns: Vec<Label> = right.labels.iter().copied().filter(|&label| !left.has(label)).collect();

        let left = left.in_order(&[&batch[..], &rows, &inner].concat());
        let right = right.in_order(&[&batch[..], &inner, &columns].concat());
        let (b, m) = left.shape[..batch.len() + rows.len()].split_at(batch.len());
        let (k, n) = right.shape[batch.len()..].split_at(inner.len());
        let shape = [b, m, n].concat();
        check_size::<A>(&shape)?;
        let view = if inner.is_empty() {
            let device = left.device().clone();
            let (left, right) = (
                columns.iter().fold(left, |left, _| left.clone().inserted(left.shape.len())),
                rows.iter().fold(right, |right, _| right.inserted(batch.len())),
            );
            let mut product = Program::new(A::ELEMENT);
            let (a, b) = (product.load(left), product.load(right));
            product.binary(Binary::Mul, a, b);
            product.run(&device, A::ELEMENT, &shape)?
        } else {
            let [count, m, k, n] = [b, m, k, n].map(|lengths| lengths.iter().product::<usize>());
            let count: &[usize] = if batch.is_empty() { &[] } else { &[count] };
            let (a, b) = (left.reshaped(&[count, &[m, k]].concat())?, right.reshaped(&[count, &[k, n]].concat())?);
            product(Factors { a, b, row: None, relu: false, accumulators: gemm::accumulators::<A>() }, &shape)?
        };
        Ok(LabelledView::new(view, [batch, rows, columns].concat()))
    }

    fn in_order(self, labels: &[Label]) -> View {
        let place = |label| self.labels.iter().position(|other| other == label).expect("one of its labels");
        let axes: Vec<usize> = labels.iter().map(place).collect();
        self.view.permuted(&axes)
    }

    /// As `Labelled::into_output`.
    pub(super) fn into_output(self, plan: &Plan) -> Result<View> {
        let order = plan.order_in_output(&self.labels);
        let mut view = self.in_order(&order);
        for (axis, leg) in plan.output.iter().enumerate() {
            let first = plan.output[..axis].iter().position(|other| other == leg);
            view = match (leg, first) {
                (None, _) => view.inserted(axis),
                (Some(_), Some(first)) => on_diagonal(&view, first, axis)?,
                (Some(label), None) if order.contains(label) => view,
                (Some(label), None) => {
                    let view = view.inserted(axis);
                    let mut shape = view.shape.clone();
                    shape[axis] = plan.lengths[label];
                    view.broadcast(&shape)
                }
            };
        }
        Ok(view)
    }
}

/// A tensor with this diagonal of two axes, and zeros elsewhere.
fn on_diagonal(x: &View, first: usize, second: usize) -> Result<View> {
    let mut shape = x.shape.clone();
    shape.insert(second, shape[first]);
    let whole = View::new(x.device(), x.dtype, &shape)?;
    whole.fill(0.0)?;
    let mut diagonal = whole.clone();
    diagonal.strides[first] += diagonal.strides[second];
    x.copy_to(&diagonal.without(second))?;
    Ok(whole)
}
