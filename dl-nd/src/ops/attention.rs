//! Scaled dot-product attention.

use crate::kernels::{Head, HeadResult, attend, attend_deltas, nanoseconds_of_attention};
use crate::ops::broadcast::sum_to;
use crate::ops::compare::choose;
use crate::ops::dropout::dropout;
use crate::ops::expand_as::expand_like;
use crate::ops::matmul::{MatMul, batch_of, matmul};
use crate::ops::rearrange::triangle;
use crate::ops::reduce::sum_keepdim;
use crate::ops::reshape::{MovementOps, ReshapeTarget, lift, reshape, transpose};
use crate::ops::slice::narrow;
use crate::ops::softmax::softmax_or_zero;
use crate::tensor::{Element, Nd, Rank, check_size, dim_of};
use dl_core::{Along, At, Binary, BuiltIn, Differentiable, Error, Layer, Pointwise, Primitive, Result};
use ndarray::{ArrayView2, ArrayViewD, Axis, Dimension, Ix1, IxDyn};
use std::marker::PhantomData;

const NAME: &str = "scaled_dot_product_attention";

/// `softmax(q · kᵀ / √E) · v` (Vaswani et al., *Attention is all you need*, 2017), for queries
/// `[…, L, E]`, keys `[…, S, E]` and values `[…, S, Ev]`. The result has the shape `[…, L, Ev]`.
/// PyTorch's function of the same name.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, scaled_dot_product_attention};
/// let (q, k) = (Nd::from([[0.0, 0.0]]), Nd::from([[1.0, 2.0], [3.0, 4.0]]));
/// let mean = scaled_dot_product_attention(q, k, Nd::from([[1.0], [3.0]]));
/// assert_eq!(mean.predict().wait()?, Nd::from([[2.0]]));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// A shape error when the shapes do not match.
#[track_caller]
pub fn scaled_dot_product_attention<A: Element, D: MatMul<D, Product = D>>(
    q: impl Differentiable<Data = Nd<A, D>>,
    k: impl Differentiable<Data = Nd<A, D>>,
    v: impl Differentiable<Data = Nd<A, D>>,
) -> Layer<Nd<A, D>> {
    scaled_dot_product_attention_with(q, k, v, &Attention::new())
}

/// [`scaled_dot_product_attention`] with settings: masks, another scale, dropout.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Attention, Nd, scaled_dot_product_attention_with};
/// let x = Nd::from([[1.0], [3.0]]);
/// let past = scaled_dot_product_attention_with(&x, &x, &x, &Attention::new().causal().scale(0.0));
/// assert_eq!(past.predict().wait()?, Nd::from([[1.0], [2.0]]));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// Those of [`scaled_dot_product_attention`], a shape error when the mask or the bias does not
/// broadcast to `[…, L, S]`, and those of [`dropout`](crate::DropoutOps::dropout).
#[track_caller]
pub fn scaled_dot_product_attention_with<A: Element, D: MatMul<D, Product = D>>(
    q: impl Differentiable<Data = Nd<A, D>>,
    k: impl Differentiable<Data = Nd<A, D>>,
    v: impl Differentiable<Data = Nd<A, D>>,
    settings: &Attention<A>,
) -> Layer<Nd<A, D>> {
    let (q, k, v) = (q.into_layer(), k.into_layer(), v.into_layer());
    let q = match settings.scale {
        Some(scale) => Nd::with_number(Binary::Mul, &q, scale, false),
        None => scale_queries(q),
    };
    if settings.bias.is_some() || settings.dropout != 0.0 {
        let mut weights = softmax_or_zero(scores(&q, &k, settings), -1);
        if settings.dropout != 0.0 {
            weights = dropout(weights, settings.dropout);
        }
        return matmul(NAME, weights, v);
    }
    let [zero, nothing] = [A::zero(), A::neg_infinity()].map(|number| Layer::constant(Nd::single(number)));
    let addend = settings.mask.as_ref().map(|mask| choose(lift(mask), zero, nothing));
    let operands = [q, k, v].into_iter().chain(addend).collect();
    Layer::apply_built_in(Blockwise { causal: settings.causal, types: PhantomData }, operands)
}

/// The scores of scaled queries, `[…, L, S]`; −∞ where a key is hidden.
#[track_caller]
fn scores<A: Element, D: MatMul<D, Product = D>>(
    q: &Layer<Nd<A, D>>,
    k: &Layer<Nd<A, D>>,
    settings: &Attention<A>,
) -> Layer<Nd<A, D>> {
    let mut scores = matmul(NAME, q.clone(), transpose(k, -2, -1));
    if let Some(bias) = &settings.bias {
        scores = Nd::binary(Binary::Add, &scores, &expand_like(NAME, bias, &scores));
    }
    if let Some(mask) = &settings.mask {
        let mask = expand_like(NAME, mask, &scores);
        scores = choose(mask, scores, Layer::constant(Nd::single(A::neg_infinity())));
    }
    if settings.causal {
        scores = triangle(scores, true, 0, A::neg_infinity());
    }
    scores
}

/// The settings of [`scaled_dot_product_attention_with`].
///
/// A query that must not attend to any key, because all of its scores are masked or −∞, has the
/// result 0 and no gradient.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Attention, Nd, scaled_dot_product_attention_with};
/// let x = Nd::from([[1.0], [3.0]]);
/// let mask = Nd::from([[false, true], [false, false]]);
/// let y = scaled_dot_product_attention_with(&x, &x, &x, &Attention::new().mask(mask));
/// assert_eq!(y.predict().wait()?, Nd::from([[3.0], [0.0]]));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Attention<A: Element> {
    causal: bool,
    mask: Option<Layer<Nd<bool, IxDyn>>>,
    bias: Option<Layer<Nd<A, IxDyn>>>,
    scale: Option<f64>,
    dropout: f64,
}

impl<A: Element> Attention<A> {
    /// No mask, no bias, the scale `1 / √E`, no dropout.
    ///
    /// ```
    /// let settings = dl_nd::Attention::<f32>::new();
    /// ```
    pub fn new() -> Self {
        Attention { causal: false, mask: None, bias: None, scale: None, dropout: 0.0 }
    }

    /// Query `i` attends to keys `0` to `i` only.
    ///
    /// ```
    /// let settings = dl_nd::Attention::<f32>::new().causal();
    /// ```
    #[must_use]
    pub fn causal(self) -> Self {
        Attention { causal: true, ..self }
    }

    /// A mask of the key positions that each query may attend to: `true` where it may. It must
    /// broadcast to the scores, `[…, L, S]`.
    ///
    /// ```
    /// use dl_nd::{Attention, Nd};
    /// let settings = Attention::<f32>::new().mask(Nd::from([true, true, false])); // the last key is padding
    /// ```
    #[must_use]
    #[track_caller]
    pub fn mask<D: Rank>(self, mask: impl Differentiable<Data = Nd<bool, D>>) -> Self {
        Attention { mask: Some(mask.to_dyn()), ..self }
    }

    /// A bias that is added to the scores. It must broadcast to `[…, L, S]`; −∞ masks a score.
    /// Gradients flow to it.
    ///
    /// ```
    /// use dl_nd::{Attention, Nd};
    /// let settings = Attention::new().bias(Nd::from([0.0_f32, -1.0, -2.0]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn bias<D: Rank>(self, bias: impl Differentiable<Data = Nd<A, D>>) -> Self {
        Attention { bias: Some(bias.to_dyn()), ..self }
    }

    /// The factor of the scores `q · kᵀ`.
    ///
    /// ```
    /// let settings = dl_nd::Attention::<f32>::new().scale(0.125);
    /// ```
    #[must_use]
    pub fn scale(self, scale: f64) -> Self {
        Attention { scale: Some(scale), ..self }
    }

    /// [Dropout](crate::DropoutOps::dropout) of the attention weights with probability `p`.
    ///
    /// ```
    /// let settings = dl_nd::Attention::<f32>::new().dropout(0.1);
    /// ```
    #[must_use]
    pub fn dropout(self, p: f64) -> Self {
        Attention { dropout: p, ..self }
    }
}

impl<A: Element> Default for Attention<A> {
    fn default() -> Self {
        Attention::new()
    }
}

#[track_caller]
fn scale_queries<A: Element, D: Rank>(x: Layer<Nd<A, D>>) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(ScaleQueries(PhantomData), (x,))
}

/// `x / √E`, where `E` is the length of the last axis.
#[derive(Clone)]
struct ScaleQueries<A, D>(PhantomData<(A, D)>);

impl<A: Element, D: Rank> Primitive for ScaleQueries<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        NAME
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let Some(&length) = x.shape().last() else {
            return Err(Error::shape("queries of shape [] instead of [..., L, E]"));
        };
        let scale = A::of((length as f64).sqrt().recip());
        Ok(x.0.mapv(|x| x * scale).into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (Some(scale_queries(at.delta.clone())),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        self.pullback(&along.at(along.tangents.0.as_ref()?)).0
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + 0.5 * x.len() as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for ScaleQueries<A, D> {
    const IS_PURE: bool = true;
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

/// Calls `compute` with the heads of attention, and with the matrices of the operands after them.
fn with_heads<A: Element, D: Rank, R>(
    causal: bool,
    (operands, others): (&[&Nd<A, D>], &[&Nd<A, D>]),
    compute: impl FnOnce(Vec<Head<'_, A>>, Vec<Vec<ArrayView2<'_, A>>>) -> R,
) -> Result<(D, R)> {
    let (batch, [length, keys, width, depth]) = lengths_of(operands)?;
    let views: Vec<_> = operands.iter().chain(others).map(|x| x.0.view().into_dyn()).collect();
    let shapes = [[length, width], [keys, width], [keys, depth], [length, keys]].into_iter().take(operands.len());
    let mut all = views.iter().zip(shapes.chain(others.iter().map(|_| [length, depth])));
    let mut next = || all.next().map(|(view, matrix)| matrices(view, &batch, matrix));
    let (q, k, v) = (next().expect("queries"), next().expect("keys"), next().expect("values"));
    let mut addends = if operands.len() > 3 { next() } else { None }.unwrap_or_default().into_iter();
    let heads = q.into_iter().zip(k).zip(v).map(|((q, k), v)| Head { q, k, v, addend: addends.next(), causal });
    let (heads, others) = (heads.collect(), std::iter::from_fn(next).collect());
    Ok((dim_of(&[batch.slice(), &[length, depth]].concat()), compute(heads, others)))
}

impl<A: Element, D: MatMul<D, Product = D>> Primitive for Blockwise<A, D> {
    type Operands = Vec<Layer<Nd<A, D>>>;
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        NAME
    }

    fn value(&self, operands: Vec<&Nd<A, D>>) -> Result<Nd<A, D>> {
        let (shape, elements) = with_heads(self.causal, (&operands, &[]), |heads, _| attend(&heads))?;
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
        let (_, elements) = with_heads(self.causal, all.split_at(all.len() - 2), |heads, results| {
            let [outputs, deltas] = <[_; 2]>::try_from(results).expect("the value and its delta");
            let results = outputs.into_iter().zip(deltas).map(|(output, delta)| HeadResult { output, delta });
            attend_deltas(&heads, &results.collect::<Vec<_>>())
        })?;
        Ok(Nd::from_elements(Ix1(elements.len()), elements))
    }

    /// The product of the deltas with their delta `g` is `F = Σ P·(A·B + C) − Σ r(A)·r(B)` with the
    /// weights `P`, `A = g_q·kᵀ + q·g_kᵀ`, `B = d·vᵀ`, `C = d·g_vᵀ` and the sums `r(X) = Σ P·X` over
    /// the keys. These are the derivatives of `F`.
    fn pullback(&self, at: &At<'_, Self>) -> Vec<Option<Layer<Nd<A, D>>>> {
        let inputs = at.operands.len() - 2;
        let [q, k, v] = [0, 1, 2].map(|index| &at.operands[index]);
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
