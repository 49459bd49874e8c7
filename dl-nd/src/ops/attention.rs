//! Scaled dot-product attention.

use crate::device::{Comparison, Program, View};
use crate::fusion::view_on;
use crate::ops::blockwise_attention::attend_blockwise;
use crate::ops::compare::choose;
use crate::ops::dropout::dropout;
use crate::ops::expand_as::expand_like;
use crate::ops::matmul::{MatMul, matmul};
use crate::ops::rearrange::triangle;
use crate::ops::reshape::{MovementOps, lift, transpose};
use crate::ops::softmax::softmax_or_zero;
use crate::tensor::{Element, Expr, Nd, Rank, row_major_copy};
use dl_core::{Along, At, Binary, BuiltIn, Differentiable, Error, Layer, Pointwise, Primitive, Result};
use ndarray::{ArrayD, Axis, IxDyn};
use std::marker::PhantomData;

pub(super) const NAME: &str = "scaled_dot_product_attention";

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
/// Without a bias and dropout the scores are computed block by block, forward and backward, so the
/// memory beyond operands and results is proportional to the lengths and not to their product (Dao
/// et al., *FlashAttention*, 2022). Derivatives of the gradient have the whole matrix.
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
    let [zero, nothing] = [A::zero(), A::neg_infinity()].map(|number| Layer::constant(Nd::single(number)));
    let addend = settings.mask.as_ref().map(|mask| choose(lift(mask), zero, nothing));
    if settings.bias.is_some() || settings.dropout != 0.0 {
        let [mut k, mut v] = [k, v];
        for addend in addend.iter().chain(&settings.bias.as_ref().map(lift)) {
            [k, v] = [k, v].map(|x| without_hidden(&x, addend));
        }
        let mut weights = softmax_or_zero(scores(&q, &k, settings), -1);
        if settings.dropout != 0.0 {
            weights = dropout(weights, settings.dropout);
        }
        return matmul(NAME, weights, v);
    }
    attend_blockwise([q, k, v], addend, settings.causal)
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
/// result 0 and no gradient. A key that a query does not see does not affect its result or any
/// derivative, even if key and value are infinite or NaN. With a bias or dropout, and in second
/// derivatives, this holds for keys that no query sees.
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
        if x.0.device().is_some() {
            return Ok(Expr::WithNumber { op: Binary::Mul, number: scale, left: false, x: x.clone() }.of_shape(x.dim()));
        }
        if x.0.as_slice().is_none() {
            let mut scaled = row_major_copy(x.view());
            scaled.mapv_inplace(|x| x * scale);
            return Ok(scaled.into());
        }
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

/// Keys or values `x`, `[…, S, E]`, with zeros in place of those that no query sees, if an element is
/// not finite: their weights of 0 would not hide it. The addend of the scores, `[…, L, S]`, is −∞
/// where a key is hidden.
#[track_caller]
pub(super) fn without_hidden<A: Element, D: Rank>(x: &Layer<Nd<A, D>>, addend: &Layer<Nd<A, D>>) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(WithoutHidden { always: false, types: PhantomData }, (x.clone(), addend.clone()))
}

#[derive(Clone)]
struct WithoutHidden<A, D> {
    /// Whether finite elements are replaced as well: in a delta or a tangent.
    always: bool,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> WithoutHidden<A, D> {
    fn is_identity(&self, x: &Nd<A, D>) -> bool {
        !self.always && x.0.device().is_none() && x.0.iter().all(|x| x.is_finite())
    }

    fn derivative(&self, x: &Nd<A, D>, addend: &Layer<Nd<A, D>>, delta: &Layer<Nd<A, D>>) -> Layer<Nd<A, D>> {
        match self.is_identity(x) {
            true => delta.clone(),
            false => Layer::apply_built_in(WithoutHidden { always: true, ..*self }, (delta.clone(), addend.clone())),
        }
    }
}

impl<A: Element, D: Rank> WithoutHidden<A, D> {
    /// The same on a device, where nothing is known of the elements.
    fn on_device(x: View, addend: View) -> Result<View> {
        let (device, rank) = (x.device().clone(), x.shape.len());
        let mut is_seen = Program::new(A::ELEMENT);
        let shape = addend.shape.clone();
        let (addend, nothing) = (is_seen.load(addend), is_seen.number(f64::NEG_INFINITY));
        is_seen.compare(Comparison::NotEqual, addend, nothing);
        let mut seen = is_seen.run(&device, A::ELEMENT, &shape)?;
        let any = |seen: View, axis: usize| seen.fold_axes(Binary::Max, &[axis], 0.0);
        while seen.shape.len() > rank {
            seen = any(seen, 0)?.without(0);
        }
        while seen.shape.len() < rank {
            seen = seen.inserted(0);
        }
        for axis in (0..rank - 1).filter(|&axis| axis == rank - 2 || x.shape[axis] == 1) {
            seen = any(seen, axis)?;
        }
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 2, rank - 1);
        let seen = seen.permuted(&order);
        if seen.shape.iter().zip(&x.shape).any(|(&seen, &length)| seen != 1 && seen != length) {
            return Ok(x);
        }
        let (mut kept, shape) = (Program::new(A::ELEMENT), x.shape.clone());
        let (seen, x, zero) = (kept.load(seen), kept.load(x), kept.number(0.0));
        kept.select(seen, x, zero);
        kept.run(&device, A::ELEMENT, &shape)
    }
}

impl<A: Element, D: Rank> Primitive for WithoutHidden<A, D> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<A, D>>);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        NAME
    }

    fn value(&self, (x, addend): (&Nd<A, D>, &Nd<A, D>)) -> Result<Nd<A, D>> {
        let rank = x.shape().len();
        // shapes that do not match are reported by the scores
        if rank < 2 || addend.shape().len() < 2 || self.is_identity(x) {
            return Ok(x.clone());
        }
        if let Some(view) = x.0.on_device()? {
            return Self::on_device(view, view_on(x.0.device().expect("it lies there"), addend)?).map(Nd::from_view);
        }
        let any = |seen: ArrayD<bool>, axis| seen.fold_axis(Axis(axis), false, |a, b| a | b);
        let mut seen = addend.0.view().into_dyn().mapv(|x| x != A::neg_infinity());
        while seen.ndim() > rank {
            seen = any(seen, 0);
        }
        while seen.ndim() < rank {
            seen = seen.insert_axis(Axis(0));
        }
        // over the queries, and over the axes along which the keys are repeated
        for axis in (0..rank - 1).filter(|&axis| axis == rank - 2 || x.shape()[axis] == 1) {
            seen = any(seen, axis).insert_axis(Axis(axis));
        }
        seen.swap_axes(rank - 2, rank - 1);
        let Some(seen) = seen.broadcast(x.shape()) else { return Ok(x.clone()) };
        let kept = x.0.iter().zip(seen.iter()).map(|(&x, &seen)| if seen { x } else { A::zero() });
        Ok(Nd::from_elements(x.dim(), kept.collect()))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nd<A, D>>>) {
        (Some(self.derivative(at.values.0, &at.operands.1, at.delta)), None)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        Some(self.derivative(along.values.0, &along.operands.1, along.tangents.0.as_ref()?))
    }

    fn cost(&self, (x, _): (&Nd<A, D>, &Nd<A, D>)) -> f64 {
        200.0 + 0.2 * x.len() as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for WithoutHidden<A, D> {
    const IS_PURE: bool = true;
}
