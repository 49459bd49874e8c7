//! The fully connected layer `x · W + b` as one operation, with an optional fused ReLU.

use crate::device::{self, Factors, View, common_place};
use crate::fusion::RUN_LEN;
use crate::gemm::{self, Epilogue, MatrixRef};
use crate::kernels::sum_of_rows;
use crate::ops::add_n::sum_present;
use crate::ops::axes::AxisList;
use crate::ops::broadcast::broadcast_to;
use crate::ops::matmul::{MatMul, batch_of, delta_of_left, delta_of_right, matmul, product_op};
use crate::ops::pointwise::binary;
use crate::ops::reduce::{ReduceForm, ReduceOp, reduce};
use crate::ops::reshape::{ReshapeTarget, is_transposition, lift, reshape, reshape_to, transpose};
use crate::tensor::{Element, Nd, Rank, Storage, check_size};
use dl_core::{
    Along, At, Binary, BlockOp, BuiltIn, CotangentSink, Error, Immediate, Layer, Pointwise, Primitive, Result,
};
use ndarray::{Array, ArrayView2, Ix1, Ix2};
use std::marker::PhantomData;

#[track_caller]
pub(crate) fn linear<A: Element, D: MatMul<Ix2, Product = D>>(
    x: Layer<Nd<A, D>>,
    weight: Layer<Nd<A, Ix2>>,
    bias: Layer<Nd<A, Ix1>>,
    relu: bool,
) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(Linear { relu, types: PhantomData }, (x, weight, bias))
}

/// (x, W, b) ↦ x · W + b, or max(x · W + b, 0) with `relu`. All axes of `x` but the last count as
/// rows.
///
/// The gradient of the ReLU needs the result only: an element of the result is positive exactly
/// where its input was. The pre-activation is therefore not kept.
#[derive(Clone)]
struct Linear<A, D> {
    relu: bool,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Linear<A, D> {
    /// Multiplies `d` by the derivative of the ReLU at the result `y`. Maps the delta of `y` to the
    /// delta of `x · W + b`, and the tangent of `x · W + b` to the tangent of `y`.
    #[track_caller]
    fn gate(&self, y: &Layer<Nd<A, D>>, d: &Layer<Nd<A, D>>) -> Layer<Nd<A, D>> {
        if self.relu { Nd::binary(Binary::Gate, d, y) } else { d.clone() }
    }
}

/// (x, W, b), or their deltas.
type Operands<A, D> = (Layer<Nd<A, D>>, Layer<Nd<A, Ix2>>, Layer<Nd<A, Ix1>>);

impl<A: Element, D: MatMul<Ix2, Product = D>> Primitive for Linear<A, D> {
    type Operands = Operands<A, D>;
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        if self.relu { "linear_relu" } else { "linear" }
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
        *shape.slice_mut().last_mut().expect("the last axis was checked") = columns;
        check_size::<A>(shape.slice())?;
        let rows = rows_of(x.shape());
        let places = [(x.0.device(), usize::MAX), (weight.0.device(), usize::MAX), (bias.0.device(), usize::MAX)];
        if common_place(places)?.is_some() {
            let view = |view: Option<View>| view.expect("it lies on the device");
            let (a, b) = (view(x.0.on_device()?).reshaped(&[rows, depth])?, view(weight.0.on_device()?));
            let row = view(bias.0.on_device()?).contiguous()?;
            let factors = Factors { a, b, row: Some(&row), relu: self.relu, accumulators: gemm::accumulators::<A>() };
            return device::product(factors, shape.slice()).map(|view| Nd(Storage::from_view(view)));
        }
        let bias = bias.0.as_standard_layout();
        let bias = bias.as_slice().expect("in standard layout");
        let x = x.0.to_shape([rows, depth]).expect("as many elements");
        let finish = if self.relu { Epilogue::Relu } else { Epilogue::None };
        Ok(gemm::product(MatrixRef::row(&x.view()), MatrixRef::row(&weight.view()), Some(bias), finish, shape).into())
    }

    fn pullback(
        &self,
        at: &At<'_, Self>,
    ) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nd<A, Ix2>>>, Option<Layer<Nd<A, Ix1>>>) {
        let (x, weight, _) = at.values;
        let d = self.gate(at.output, at.delta);
        let (dx, dw, db) = deltas(at.operands, (x.dim(), weight.dim()), &d);
        (Some(dx), Some(dw), Some(db))
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        let ((x, weight, _), (dx, dw, db)) = (along.operands, along.tangents);
        let sum = sum_present([
            dx.as_ref().map(|dx| matmul("matmul", dx.clone(), weight.clone())),
            dw.as_ref().map(|dw| matmul("matmul", x.clone(), dw.clone())),
            db.as_ref().map(|db| broadcast_to(&lift(db), along.value.dim())),
        ])?;
        Some(self.gate(along.output, &sum))
    }

    fn cost(&self, (x, weight, _): (&Nd<A, D>, &Nd<A, Ix2>, &Nd<A, Ix1>)) -> f64 {
        let [depth, columns] = [0, 1].map(|axis| weight.shape()[axis]);
        let pending = x.nanoseconds_to_compute() + weight.nanoseconds_to_compute();
        150.0 + pending + gemm::nanoseconds::<A>(rows_of(x.shape()), depth, columns)
    }
}

impl<A: Element, D: MatMul<Ix2, Product = D>> BuiltIn for Linear<A, D> {
    const IS_PURE: bool = true;

    fn is_by_rows(&self, has_rows: &[bool], (x, ..): (&Nd<A, D>, &Nd<A, Ix2>, &Nd<A, Ix1>), _: &Nd<A, D>) -> bool {
        has_rows == [true, false, false] && x.shape().len() > 1
    }

    fn block_op(&self, (x, weight, _): (&Nd<A, D>, &Nd<A, Ix2>, &Nd<A, Ix1>), value: &Nd<A, D>) -> Option<BlockOp> {
        let [depth, columns] = [0, 1].map(|axis| weight.shape()[axis]);
        product_op((x, weight), [rows_of(x.shape()), depth, columns], [false; 2], self.relu, value)
    }

    fn immediate_pullback(&self, at: &Immediate<'_, Self>, sink: &mut CotangentSink<'_>) -> bool {
        let (x, weight, _) = at.values;
        let (rows, [depth, columns]) = (rows_of(x.shape()), [0, 1].map(|axis| weight.shape()[axis]));
        if x.0.device().is_some() {
            return false;
        }
        let is_now = !sink.is_weight(0) && sink.is_short(150.0 + gemm::nanoseconds::<A>(rows, columns, depth));
        if !self.relu && (!is_now || at.delta.0.as_slice().is_none()) {
            return false;
        }
        // the gate is computed once and shared by all three deltas
        let gated: Nd<A, D>;
        let (delta, layer) = if self.relu {
            gated = binary(Binary::Gate, at.delta, at.value).expect("the shapes are equal");
            sink.count(1);
            (&gated, Layer::constant(gated.clone()))
        } else {
            (at.delta, at.delta_layer())
        };
        let elements = if is_now { delta.0.as_slice() } else { None };
        let Some(d) = elements else {
            let (dx, dw, db) = deltas(&at.operands(), (x.dim(), weight.dim()), &layer);
            if sink.wants(0) {
                sink.add_layer(0, dx);
            }
            if sink.wants(1) {
                sink.add_layer(1, dw);
            }
            if sink.wants(2) {
                sink.add_layer(2, db);
            }
            return true;
        };
        if sink.wants(0) {
            let d = ArrayView2::from_shape((rows, columns), d).expect("as many elements");
            let weight = weight.view().reversed_axes();
            let dx = gemm::product(MatrixRef::row(&d), MatrixRef::column(&weight), None, Epilogue::None, x.dim());
            sink.count(1);
            sink.add(0, Nd::from(dx));
        }
        if sink.wants(1) {
            sink.add_layer(1, delta_of_weight(&at.operands(), [rows, depth, columns], &layer));
        }
        if sink.wants(2) {
            match rows {
                1 => {
                    let delta = delta.array().into_shape_with_order(columns).expect("as many elements");
                    sink.count(1);
                    sink.add(2, Nd::from(delta));
                }
                // a delta of another rank is reshaped first, which counts as one more operation
                2..=RUN_LEN if delta.shape().len() == 2 => {
                    sink.count(1);
                    sink.add(2, Nd::from(Array::from_vec(sum_of_rows(d.chunks_exact(columns.max(1)), columns))));
                }
                _ => sink.add_layer(2, delta_of_bias(&layer, rows, columns)),
            }
        }
        true
    }
}

/// The deltas of `x`, `W` and `b`, from the delta `d` of `x · W + b`.
#[track_caller]
fn deltas<A: Element, D: MatMul<Ix2, Product = D>>(
    operands: &Operands<A, D>,
    (shape, weight): (D, Ix2),
    d: &Layer<Nd<A, D>>,
) -> Operands<A, D> {
    let lengths @ [rows, _, columns] = [rows_of(shape.slice()), weight[0], weight[1]];
    let dx = reshape_to(&delta_of_left(&operands.1, [rows, columns], d), shape);
    (dx, delta_of_weight(operands, lengths, d), delta_of_bias(d, rows, columns))
}

/// The delta of `W`. That of a transposition is computed in the layout of the matrix, which is a
/// weight in the layout of PyTorch.
#[track_caller]
fn delta_of_weight<A: Element, D: MatMul<Ix2, Product = D>>(
    (x, weight, _): &Operands<A, D>,
    [rows, depth, columns]: [usize; 3],
    d: &Layer<Nd<A, D>>,
) -> Layer<Nd<A, Ix2>> {
    match is_transposition(weight) {
        true => transpose(&delta_of_right(d, [rows, columns, depth], x), 0, 1),
        false => delta_of_right(x, [rows, depth, columns], d),
    }
}

#[track_caller]
fn delta_of_bias<A: Element, D: Rank>(d: &Layer<Nd<A, D>>, rows: usize, columns: usize) -> Layer<Nd<A, Ix1>> {
    match rows {
        1 => reshape(d, ReshapeTarget::Shape(Ix1(columns))),
        _ => reduce(
            reshape_to(d, Ix2(rows, columns)),
            ReduceOp::Sum,
            AxisList::one(0),
            ReduceForm::of("sum_axis", false),
        ),
    }
}

/// The number of rows: the product of all lengths but the last.
fn rows_of(shape: &[usize]) -> usize {
    shape.split_last().map_or(1, |(_, rows)| rows.iter().product())
}
