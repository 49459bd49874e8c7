//! What a fully connected layer computes, as one operation.

use crate::accurate::{RUN, sum_of_rows};
use crate::axes::AxisList;
use crate::broadcast::broadcast_to;
use crate::element::{Element, Rank};
use crate::gemm::{self, Matrix};
use crate::matmul::{MatMul, batch_of, delta_of_right, matmul, pull_back};
use crate::movement::{Target, lift, reshape, reshape_to};
use crate::nd::{Nd, check_size};
use crate::reduce::{Form, What, reduce};
use crate::sum::sum_of;
use dl_core::{Along, At, Error, Layer, Now, Primitive, Result, Sums};
use ndarray::{Array, ArrayView2, Ix1, Ix2};
use std::marker::PhantomData;

#[track_caller]
pub(crate) fn linear<A: Element, D: MatMul<Ix2, Product = D>>(
    x: Layer<Nd<A, D>>,
    weight: Layer<Nd<A, Ix2>>,
    bias: Layer<Nd<A, Ix1>>,
) -> Layer<Nd<A, D>> {
    Layer::apply(Linear(PhantomData), (x, weight, bias))
}

/// (x, W, b) ↦ x · W + b, where all axes of `x` but the last count as rows.
struct Linear<A, D>(PhantomData<(A, D)>);

impl<A: Element, D: MatMul<Ix2, Product = D>> Primitive for Linear<A, D> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<A, Ix2>>, Layer<Nd<A, Ix1>>);
    type Output = Nd<A, D>;
    const IS_PLAIN: bool = true;

    fn name(&self) -> &'static str {
        "linear"
    }

    fn value(&self, (x, weight, bias): (&Nd<A, D>, &Nd<A, Ix2>, &Nd<A, Ix1>)) -> Result<Nd<A, D>> {
        batch_of(x.shape(), weight.shape())?;
        let [depth, columns] = [0, 1].map(|axis| weight.shape()[axis]);
        if bias.shape() != [columns] {
            return Err(Error::shape(format!(
                "a bias of length {} for a weight of shape {:?}, which has {columns} columns",
                bias.len(),
                weight.shape(),
            )));
        }
        let mut shape = x.dim();
        *shape.slice_mut().last_mut().expect("the last axis was looked at") = columns;
        check_size::<A>(shape.slice())?;
        let rows = rows_of(x.shape());
        let bias = bias.0.as_standard_layout();
        let bias = bias.as_slice().expect("in standard layout");
        let x = x.0.to_shape([rows, depth]).expect("as many elements");
        Ok(gemm::product(Matrix::row(&x.view()), Matrix::row(&weight.view()), Some(bias), shape).into())
    }

    fn pullback(
        &self,
        at: &At<'_, Self>,
    ) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nd<A, Ix2>>>, Option<Layer<Nd<A, Ix1>>>) {
        let ((x, weight, _), (x_value, weight_value, bias_value)) = (at.operands, at.values);
        let shapes = (x_value.dim(), weight_value.dim());
        let (dx, dw) = pull_back((x.clone(), weight.clone()), shapes, at.value.shape(), at.delta);
        let db = delta_of_bias(at.delta, rows_of(x_value.shape()), bias_value.len());
        (Some(dx), Some(dw), Some(db))
    }

    fn pull_back_now(&self, at: &Now<'_, Self>, sums: &mut Sums<'_>) -> bool {
        let (x, weight, _) = at.values;
        let (rows, [depth, columns]) = (rows_of(x.shape()), [0, 1].map(|axis| weight.shape()[axis]));
        let Some(d) = at.delta.0.as_slice().filter(|_| at.delta.formula().is_none()) else { return false };
        if sums.is_weight(0) || !sums.is_short(150.0 + gemm::nanoseconds::<A>(rows, columns, depth)) {
            return false;
        }
        if sums.wants(0) {
            let d = ArrayView2::from_shape((rows, columns), d).expect("as many elements");
            let weight = weight.view().reversed_axes();
            sums.count(1);
            sums.add(0, Nd::from(gemm::product(Matrix::row(&d), Matrix::column(&weight), None, x.dim())));
        }
        if sums.wants(1) {
            sums.add_layer(1, delta_of_right(&at.operands().0, [rows, depth, columns], &at.delta_layer()));
        }
        if sums.wants(2) {
            match rows {
                1 => {
                    let delta = at.delta.array().into_shape_with_order(columns).expect("as many elements");
                    sums.count(1);
                    sums.add(2, Nd::from(delta));
                }
                // what is no matrix yet would be reshaped, which counts
                2..=RUN if at.delta.shape().len() == 2 => {
                    sums.count(1);
                    sums.add(2, Nd::from(Array::from_vec(sum_of_rows(d.chunks_exact(columns.max(1)), columns))));
                }
                _ => sums.add_layer(2, delta_of_bias(&at.delta_layer(), rows, columns)),
            }
        }
        true
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        let ((x, weight, _), (dx, dw, db)) = (along.operands, along.tangents);
        sum_of([
            dx.as_ref().map(|dx| matmul("matmul", dx.clone(), weight.clone())),
            dw.as_ref().map(|dw| matmul("matmul", x.clone(), dw.clone())),
            db.as_ref().map(|db| broadcast_to(&lift(db), along.value.dim())),
        ])
    }

    fn cost(&self, (x, weight, _): (&Nd<A, D>, &Nd<A, Ix2>, &Nd<A, Ix1>)) -> f64 {
        let [depth, columns] = [0, 1].map(|axis| weight.shape()[axis]);
        let pending = x.nanoseconds_to_compute() + weight.nanoseconds_to_compute();
        150.0 + pending + gemm::nanoseconds::<A>(rows_of(x.shape()), depth, columns)
    }
}

#[track_caller]
fn delta_of_bias<A: Element, D: Rank>(d: &Layer<Nd<A, D>>, rows: usize, columns: usize) -> Layer<Nd<A, Ix1>> {
    match rows {
        1 => reshape(d, Target::Shape(Ix1(columns))),
        _ => reduce(reshape_to(d, Ix2(rows, columns)), What::Sum, AxisList::one(0), Form::of("sum_axis", false)),
    }
}

/// All axes but the last count as rows.
fn rows_of(shape: &[usize]) -> usize {
    shape.split_last().map_or(1, |(_, rows)| rows.iter().product())
}
