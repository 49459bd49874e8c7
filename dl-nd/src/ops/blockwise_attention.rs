//! Attention whose scores exist one block at a time. The kernel is in `kernels/attention.rs`.

use crate::device::{View, common_place};
use crate::fusion::view_on;
use crate::kernels::{Head, HeadResult, attend, attend_deltas, nanoseconds_of_attention};
use crate::ops::attention::{NAME, without_hidden};
use crate::ops::attention_on_device::AttentionOnDevice;
use crate::ops::broadcast::sum_to;
use crate::ops::matmul::{MatMul, batch_of, matmul};
use crate::ops::rearrange::triangle;
use crate::ops::reduce::sum_keepdim;
use crate::ops::reshape::{ReshapeTarget, reshape, transpose};
use crate::ops::slice::narrow;
use crate::ops::softmax::softmax_or_zero;
use crate::tensor::{Element, Nd, Rank, check_size, dim_of};
use dl_core::{At, Binary, BuiltIn, Error, Layer, Pointwise, Primitive, Result};
use ndarray::{ArrayView2, ArrayViewD, Axis, Dimension, Ix1, IxDyn};
use std::marker::PhantomData;

/// The attention of scaled queries. The addend of the scores, if any, is 0 or −∞, and no gradient
/// flows to it.
#[track_caller]
pub(super) fn attend_blockwise<A: Element, D: MatMul<D, Product = D>>(
    operands: [Layer<Nd<A, D>>; 3],
    addend: Option<Layer<Nd<A, D>>>,
    causal: bool,
) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(Blockwise { causal, types: PhantomData }, operands.into_iter().chain(addend).collect())
}

/// Attention with scaled queries, block by block: its memory grows with the lengths, not with their
/// product. The operands are the queries, the keys, the values and, with a mask, an addend of the
/// scores that is 0 or −∞. The pullback computes the weights again. Its own derivatives are written
/// with whole matrices.
#[derive(Clone)]
struct Blockwise<A, D> {
    causal: bool,
    types: PhantomData<(A, D)>,
}

/// The batch axes of the operands of attention, and L, S, E and Ev.
fn lengths_of<A: Element, D: Rank>(operands: &[&Nd<A, D>]) -> Result<(IxDyn, [usize; 4])> {
    let [q, k, v] = [0, 1, 2].map(|index| operands[index].shape());
    if [q, k, v].iter().any(|shape| shape.len() < 2) {
        return Err(Error::shape(format!(
            "queries, keys and values of shapes {q:?}, {k:?} and {v:?} instead of [..., L, E]"
        )));
    }
    let turned = |shape: &[usize]| -> Vec<usize> {
        let (batch, matrix) = shape.split_at(shape.len() - 2);
        [batch, &[matrix[1], matrix[0]]].concat()
    };
    let (last, length) = (k.len() - 1, q[q.len() - 2]);
    let scores = [batch_of(q, &turned(k))?.slice(), &[length, k[last - 1]]].concat();
    let batch = batch_of(&scores, v)?;
    check_size::<A>(&[batch.slice(), &[length, v[v.len() - 1]]].concat())?;
    if let Some(mask) = operands.get(3) {
        let mask = mask.shape();
        let own = mask.iter().rev().zip(scores.iter().rev());
        if mask.iter().rev().skip(scores.len()).any(|&length| length != 1)
            || own.clone().any(|(&x, &to)| x != 1 && x != to)
        {
            // without the axes that `lift` added
            let mask = &mask[mask.iter().take_while(|&&length| length == 1).count().min(mask.len() - 1)..];
            return Err(Error::shape(format!("shape {mask:?} does not broadcast to {scores:?}")));
        }
    }
    Ok((batch, [length, k[last - 1], k[last], v[v.len() - 1]]))
}

/// The matrices of a batch, as which a tensor is repeated.
fn matrices<'a, A>(x: &'a ArrayViewD<'_, A>, batch: &IxDyn, matrix: [usize; 2]) -> Vec<ArrayView2<'a, A>> {
    fn collect<'a, A>(x: ArrayViewD<'a, A>, to: &mut Vec<ArrayView2<'a, A>>) {
        if x.ndim() == 2 {
            return to.push(x.into_dimensionality().expect("two axes"));
        }
        (0..x.shape()[0]).for_each(|index| collect(x.clone().index_axis_move(Axis(0), index), to));
    }
    let mut all = Vec::with_capacity(batch.size());
    let shape = [batch.slice(), &matrix].concat();
    collect(x.broadcast(shape).expect("the shapes were checked"), &mut all);
    all
}

/// Calls `compute` with the heads of attention, and with the matrices of the tensors after its
/// `inputs` operands.
fn with_heads<A: Element, D: Rank, R>(
    causal: bool,
    all: &[&Nd<A, D>],
    inputs: usize,
    compute: impl FnOnce(Vec<Head<'_, A>>, Vec<Vec<ArrayView2<'_, A>>>) -> R,
) -> Result<(D, R)> {
    let (operands, others) = all.split_at(inputs);
    let (batch, [length, keys, width, depth]) = lengths_of(operands)?;
    let views: Vec<_> = all.iter().map(|x| x.0.view().into_dyn()).collect();
    let shapes = [[length, width], [keys, width], [keys, depth], [length, keys]].into_iter().take(operands.len());
    let mut all = views.iter().zip(shapes.chain(others.iter().map(|_| [length, depth])));
    let mut next = || all.next().map(|(view, matrix)| matrices(view, &batch, matrix));
    let (q, k, v) = (next().expect("queries"), next().expect("keys"), next().expect("values"));
    let mut addends = if operands.len() > 3 { next() } else { None }.unwrap_or_default().into_iter();
    let heads = q.into_iter().zip(k).zip(v).map(|((q, k), v)| Head { q, k, v, addend: addends.next(), causal });
    let (heads, others) = (heads.collect(), std::iter::from_fn(next).collect());
    Ok((dim_of(&[batch.slice(), &[length, depth]].concat()), compute(heads, others)))
}

/// The operands on a device, broadcast to the batch axes, and the tensors after the first `inputs`
/// ones; none if they are on the host.
fn on_device<A: Element, D: Rank>(
    causal: bool,
    all: &[&Nd<A, D>],
    inputs: usize,
) -> Result<Option<(AttentionOnDevice<A>, Vec<View>)>> {
    let Some(device) = common_place(all.iter().map(|x| (x.0.device(), x.len())).collect::<Vec<_>>())? else {
        return Ok(None);
    };
    let (batch, [length, keys, width, depth]) = lengths_of(&all[..inputs])?;
    let shapes = [[length, width], [keys, width], [keys, depth], [length, keys]].into_iter().take(inputs);
    let shapes = shapes.chain(std::iter::repeat([length, depth]));
    let views = all.iter().zip(shapes).map(|(x, matrix)| {
        let mut view = view_on(device, x)?;
        while view.shape.len() > batch.ndim() + 2 {
            view = view.without(0);
        }
        Ok(view.broadcast(&[batch.slice(), &matrix].concat()))
    });
    let mut views = views.collect::<Result<Vec<_>>>()?.into_iter();
    let mut next = || views.next().expect("an operand");
    let (q, k, v) = (next(), next(), next());
    let addend = (inputs > 3).then(&mut next);
    let attention = AttentionOnDevice { q, k, v, addend, causal, element: PhantomData };
    Ok(Some((attention, views.collect())))
}

impl<A: Element, D: MatMul<D, Product = D>> Primitive for Blockwise<A, D> {
    type Operands = Vec<Layer<Nd<A, D>>>;
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        NAME
    }

    fn value(&self, operands: Vec<&Nd<A, D>>) -> Result<Nd<A, D>> {
        if let Some(attention) = on_device(self.causal, &operands, operands.len())? {
            return attention.0.value().map(Nd::from_view);
        }
        let (shape, elements) = with_heads(self.causal, &operands, operands.len(), |heads, _| attend(&heads))?;
        Ok(Nd::from_elements(shape, elements))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Vec<Option<Layer<Nd<A, D>>>> {
        let (batch, [length, keys, width, depth]) = lengths_of(&at.values).expect("the shapes were checked");
        let operands = at.operands.iter().chain([at.output, at.delta]).cloned().collect();
        let deltas = Layer::apply_built_in(BlockwiseDeltas { causal: self.causal, types: PhantomData }, operands);
        let mut start = 0;
        let each = [[length, width], [keys, width], [keys, depth]].into_iter().zip(&at.values).map(|(matrix, x)| {
            let shape = [batch.slice(), &matrix].concat();
            let len = shape.iter().product();
            start += len;
            let delta = reshape(&narrow(&deltas, 0, start - len, len), ReshapeTarget::Shape(dim_of::<D>(&shape)));
            Some(sum_to(delta, &shape, x.dim()))
        });
        each.chain(at.operands.iter().skip(3).map(|_| None)).collect()
    }

    fn cost(&self, operands: Vec<&Nd<A, D>>) -> f64 {
        let pending: f64 = operands.iter().map(|x| x.nanoseconds_to_compute()).sum();
        300.0 + pending + cost_of(&operands)
    }
}

fn cost_of<A: Element, D: Rank>(operands: &[&Nd<A, D>]) -> f64 {
    let Ok((batch, lengths)) = lengths_of(operands) else { return 0.0 };
    batch.size() as f64 * nanoseconds_of_attention::<A>(lengths)
}

impl<A: Element, D: MatMul<D, Product = D>> BuiltIn for Blockwise<A, D> {
    const IS_PURE: bool = true;
}

/// The deltas of the queries, keys and values, one after the other, as one vector. The operands are
/// those of [`Blockwise`], its value and the delta of that.
#[derive(Clone)]
struct BlockwiseDeltas<A, D> {
    causal: bool,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: MatMul<D, Product = D>> Primitive for BlockwiseDeltas<A, D> {
    type Operands = Vec<Layer<Nd<A, D>>>;
    type Output = Nd<A, Ix1>;

    fn name(&self) -> &'static str {
        NAME
    }

    fn value(&self, all: Vec<&Nd<A, D>>) -> Result<Nd<A, Ix1>> {
        if let Some((attention, others)) = on_device(self.causal, &all, all.len() - 2)? {
            let [output, delta] = <[_; 2]>::try_from(others).expect("the value and its delta");
            return attention.deltas(output, delta).map(Nd::from_view);
        }
        let (_, elements) = with_heads(self.causal, &all, all.len() - 2, |heads, results| {
            let [outputs, deltas] = <[_; 2]>::try_from(results).expect("the value and its delta");
            let results = outputs.into_iter().zip(deltas).map(|(output, delta)| HeadResult { output, delta });
            attend_deltas(&heads, &results.collect::<Vec<_>>())
        })?;
        Ok(Nd::from_elements(Ix1(elements.len()), elements))
    }

    /// The product of the deltas with their delta `g` is `F = Σ P·(A·B + C) − Σ r(A)·r(B)` with the
    /// weights `P`, `A = g_q·kᵀ + q·g_kᵀ`, `B = d·vᵀ`, `C = d·g_vᵀ` and the sums `r(X) = Σ P·X`
    /// over the keys. These are the derivatives of `F`.
    fn pullback(&self, at: &At<'_, Self>) -> Vec<Option<Layer<Nd<A, D>>>> {
        let inputs = at.operands.len() - 2;
        let (q, [mut k, mut v]) = (&at.operands[0], [1, 2].map(|index| at.operands[index].clone()));
        if inputs > 3 {
            [k, v] = [k, v].map(|x| without_hidden(&x, &at.operands[3]));
        }
        let (k, v) = (&k, &v);
        let d = &at.operands[inputs + 1];
        let (batch, [length, keys, width, depth]) = lengths_of(&at.values[..inputs]).expect("the shapes were checked");
        let whole = |matrix: [usize; 2]| [batch.slice(), &matrix].concat();
        let mut start = 0;
        let [gq, gk, gv] = [[length, width], [keys, width], [keys, depth]].map(|matrix| {
            let shape = whole(matrix);
            let len = shape.iter().product();
            start += len;
            reshape(&narrow(at.delta, 0, start - len, len), ReshapeTarget::Shape(dim_of::<D>(&shape)))
        });
        let product = |a: &Layer<Nd<A, D>>, b: &Layer<Nd<A, D>>| matmul(NAME, a.clone(), b.clone());
        let turned = |x: &Layer<Nd<A, D>>| transpose(x, -2, -1);
        let [add, sub, mul] = [Binary::Add, Binary::Sub, Binary::StrongMul]
            .map(|op| move |a: &Layer<Nd<A, D>>, b: &Layer<Nd<A, D>>| Nd::binary(op, a, b));
        let mut scores = product(q, &turned(k));
        if inputs > 3 {
            scores = add(&scores, &at.operands[3]);
        }
        if self.causal {
            scores = triangle(scores, true, 0, A::neg_infinity());
        }
        let p = &softmax_or_zero(scores, -1);
        let sum = |x: &Layer<Nd<A, D>>| sum_keepdim(mul(p, x), -1);
        let centred = |x: &Layer<Nd<A, D>>| mul(p, &sub(x, &sum(x)));
        let a = &add(&product(&gq, &turned(k)), &product(q, &turned(&gk)));
        let (b, c) = (&product(d, &turned(v)), &product(d, &turned(&gv)));
        let of_p = sub(&add(&mul(a, b), c), &add(&mul(a, &sum(b)), &mul(b, &sum(a))));
        let (of_scores, of_a, of_b) = (centred(&of_p), centred(b), centred(a));
        let deltas = [
            (add(&product(&of_scores, k), &product(&of_a, &gk)), [length, width]),
            (add(&product(&turned(&of_scores), q), &product(&turned(&of_a), &gq)), [keys, width]),
            (product(&turned(&of_b), d), [keys, depth]),
        ];
        let each =
            deltas.into_iter().zip(&at.values).map(|((delta, matrix), x)| sum_to(delta, &whole(matrix), x.dim()));
        let of_delta = add(&product(&of_b, v), &product(p, &gv));
        // the value is a function of the other operands, and counted with them
        let others = (3..=inputs).map(|_| None);
        each.map(Some).chain(others).chain([Some(of_delta)]).collect()
    }

    fn cost(&self, all: Vec<&Nd<A, D>>) -> f64 {
        let pending: f64 = all.iter().map(|x| x.nanoseconds_to_compute()).sum();
        300.0 + pending + 3.0 * cost_of(&all[..all.len() - 2])
    }
}

impl<A: Element, D: MatMul<D, Product = D>> BuiltIn for BlockwiseDeltas<A, D> {
    const IS_PURE: bool = true;
}
