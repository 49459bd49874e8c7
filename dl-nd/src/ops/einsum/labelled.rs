//! Kernels of einsum: arrays with labelled axes.

use super::plan::{Label, Leg, Plan};
use crate::kernels::sum_along;
use crate::ops::matmul::product;
use crate::tensor::{Element, check_size, row_major_copy};
use dl_core::Result;
use ndarray::{ArcArray, ArrayD, ArrayViewD, Axis, IxDyn};

/// An array with a distinct label for each axis.
pub(super) struct Labelled<A> {
    array: ArcArray<A, IxDyn>,
    labels: Vec<Label>,
}

impl<A: Element> Labelled<A> {
    /// An operand without its unlabelled axes (of length 1), and with diagonals taken where a label
    /// repeats.
    pub(super) fn of(operand: &ArcArray<A, IxDyn>, legs: &[Leg]) -> Self {
        let (mut array, mut labels) = (operand.clone(), Vec::new());
        for leg in legs {
            let axis = labels.len();
            match leg {
                None => array = array.index_axis_move(Axis(axis), 0),
                Some(label) => match labels.iter().position(|other| other == label) {
                    Some(first) => array = diagonal(array.view(), first, axis).into_shared(),
                    None => labels.push(*label),
                },
            }
        }
        Labelled { array, labels }
    }

    pub(super) fn has(&self, label: Label) -> bool {
        self.labels.contains(&label)
    }

    /// Sums over all labels that are not needed.
    pub(super) fn sum_out(mut self, needed: impl Fn(Label) -> bool) -> Self {
        for axis in (0..self.labels.len()).rev() {
            if !needed(self.labels[axis]) {
                self.labels.remove(axis);
                self.array = sum_along(self.array.view(), axis).index_axis_move(Axis(axis), 0).into_shared();
            }
        }
        self
    }

    /// The product with another array, summed over the labels that both have and that are not
    /// needed. The factor with the label `last` provides the trailing axes of the result.
    pub(super) fn contract(self, other: Self, needed: impl Fn(Label) -> bool, last: Leg) -> Result<Self> {
        let swap = last.is_some_and(|last| self.has(last) && !other.has(last));
        let (left, right) = if swap { (other, self) } else { (self, other) };
        let (shared, rows): (Vec<Label>, Vec<Label>) = left.labels.iter().partition(|&&label| right.has(label));
        let (batch, inner): (Vec<Label>, Vec<Label>) = shared.into_iter().partition(|&label| needed(label));
        let columns: Vec<Label> = right.labels.iter().copied().filter(|&label| !left.has(label)).collect();

        let left = left.in_order(&[&batch[..], &rows, &inner].concat());
        let right = right.in_order(&[&batch[..], &inner, &columns].concat());
        let (b, m) = left.shape()[..batch.len() + rows.len()].split_at(batch.len());
        let (k, n) = right.shape()[batch.len()..].split_at(inner.len());
        let shape = [b, m, n].concat();
        check_size::<A>(&shape)?;
        let array = if inner.is_empty() {
            // no label to sum over: an outer product
            let ends = left.ndim()..left.ndim() + columns.len();
            let left = ends.fold(left.clone(), |left, end| left.insert_axis(Axis(end)));
            let right = rows.iter().fold(right.clone(), |right, _| right.insert_axis(Axis(batch.len())));
            &left * &right
        } else {
            // batched matrix product; without batch labels, a matrix product or a matrix-vector
            // product
            let [count, m, k, n] = [b, m, k, n].map(|lengths| lengths.iter().product::<usize>());
            let count: &[usize] = if batch.is_empty() { &[] } else { &[count] };
            let right_matrix = if batch.is_empty() && columns.is_empty() { &[k][..] } else { &[k, n] };
            let matrices = |array: &ArcArray<A, IxDyn>, matrix: &[usize]| {
                let shape = IxDyn(&[count, matrix].concat());
                // merging axes in place fails if they are not adjacent in memory
                array.clone().into_shape_with_order(shape.clone()).unwrap_or_else(|_| {
                    let copy = row_major_copy(array.view()).into_shape_with_order(shape);
                    copy.expect("as many elements").into_shared()
                })
            };
            let (left, right) = (matrices(&left, &[m, k]), matrices(&right, right_matrix));
            let product: ArrayD<A> = product(left.view(), right.view(), count)?;
            product.into_shape_clone(IxDyn(&shape)).expect("as many elements")
        };
        Ok(Labelled { array: array.into_shared(), labels: [batch, rows, columns].concat() })
    }

    /// The array with its axes permuted to the order of `labels`.
    fn in_order(self, labels: &[Label]) -> ArcArray<A, IxDyn> {
        let place = |label| self.labels.iter().position(|other| other == label).expect("one of its labels");
        let axes: Vec<usize> = labels.iter().map(place).collect();
        self.array.permuted_axes(axes)
    }

    /// The array as the output of a plan: axes in the order of the output, repeated along missing
    /// labels, and placed on diagonals where labels repeat.
    pub(super) fn into_output(self, plan: &Plan) -> ArcArray<A, IxDyn> {
        let order = plan.order_in_output(&self.labels);
        let mut array = self.in_order(&order);
        for (axis, leg) in plan.output.iter().enumerate() {
            let first = plan.output[..axis].iter().position(|other| other == leg);
            array = match (leg, first) {
                (None, _) => array.insert_axis(Axis(axis)),
                (Some(_), Some(first)) => on_diagonal(array.view(), first, axis).into_shared(),
                (Some(label), None) if order.contains(label) => array,
                (Some(label), None) => {
                    let array = array.insert_axis(Axis(axis));
                    let mut shape = array.raw_dim();
                    shape[axis] = plan.lengths[label];
                    array.broadcast(shape).expect("an axis of length 1").to_owned().into_shared()
                }
            };
        }
        array
    }
}

/// The diagonal of two axes of equal length, in place of the first axis.
fn diagonal<A: Element>(x: ArrayViewD<'_, A>, first: usize, second: usize) -> ArrayD<A> {
    let mut shape = x.shape().to_vec();
    let length = shape.remove(second);
    let mut diagonal = ArrayD::from_elem(shape, A::zero());
    for i in 0..length {
        let part = x.index_axis(Axis(second), i);
        diagonal.index_axis_mut(Axis(first), i).assign(&part.index_axis(Axis(first), i));
    }
    diagonal
}

/// The inverse of [`diagonal`]: an array with this diagonal and zeros elsewhere.
fn on_diagonal<A: Element>(x: ArrayViewD<'_, A>, first: usize, second: usize) -> ArrayD<A> {
    let length = x.shape()[first];
    let mut shape = x.shape().to_vec();
    shape.insert(second, length);
    let mut array = ArrayD::from_elem(shape, A::zero());
    for i in 0..length {
        let mut part = array.index_axis_mut(Axis(second), i);
        part.index_axis_mut(Axis(first), i).assign(&x.index_axis(Axis(first), i));
    }
    array
}
