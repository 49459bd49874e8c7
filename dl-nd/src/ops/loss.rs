//! Loss functions. The elementwise losses of two tensors of one shape are implemented here, the
//! losses of classification in `cross_entropy.rs`, that of sequences of labels in `ctc.rs`.

use crate::ops::cross_entropy::{ClassTargets, CrossEntropy, cross_entropy, nll};
use crate::ops::ctc::{Ctc, ctc};
use crate::ops::expand_as::{expand_like, same_shape};
use crate::ops::invalid::invalid;
use crate::ops::loss_reduction::{Mean, Reduction, reduce};
use crate::ops::reshape::MovementOps;
use crate::tensor::{Element, HasRank, Nd, Rank};
use dl_core::{Differentiable, Error, Layer, Term};
use ndarray::{Ix1, IxDyn};

macro_rules! losses {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident $with:ident($($number:ident = $sample:literal)?): $example:literal, |$x:ident, $y:ident| $loss:expr;
    )*) => {
        /// Loss functions.
        ///
        /// Each has two forms: the mean over all elements, a number (`mse`), and a form with a
        /// [`Reduction`] and, for some losses, further settings (`mse_with`). The gradient flows to
        /// both tensors. Operands are not broadcast: shapes that differ are an error.
        ///
        /// ```
        /// use dl_core::Differentiable;
        /// use dl_nd::{LossOps, Nd, Sum};
        /// let (x, y) = (Nd::from([1.0, 2.0]), Nd::from([3.0, 5.0]));
        /// assert_eq!(x.mse(&y).predict().wait()?, 6.5);
        /// assert_eq!(x.mse_with(&y, Sum).predict().wait()?, 13.0);
        /// # dl_core::Result::Ok(())
        /// ```
        pub trait LossOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
            /// The mean of `−ln softmax(logits)[label]`, for logits of shape `[batch, classes]` or
            /// `[batch, classes, …]` and labels of shape `[batch]` or `[batch, …]`. The target can
            /// also be a tensor of class probabilities, in the shape of the logits. This is
            /// PyTorch's `cross_entropy`.
            ///
            /// ```
            /// # use dl_core::Differentiable; use dl_nd::{Nd, LossOps};
            /// let logits = Nd::from([[0.0_f64, 0.0], [0.0, 0.0]]);
            /// assert_eq!(logits.cross_entropy([0, 1]).predict().wait()?, 2.0_f64.ln());
            /// assert_eq!(logits.cross_entropy(Nd::from([[0.5, 0.5], [0.0, 1.0]])).predict().wait()?, 2.0_f64.ln());
            /// # dl_core::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// When the shapes do not match, the batch is empty, or a label is not below the number
            /// of classes.
            #[track_caller]
            fn cross_entropy<T: ClassTargets<A, D>>(&self, target: T) -> Layer<A> {
                cross_entropy(self.layer(), target, &CrossEntropy::new())
            }

            /// [`cross_entropy`](LossOps::cross_entropy) with settings: weights of classes, label
            /// smoothing, a label that is ignored, another reduction.
            ///
            /// ```
            /// # use dl_core::Differentiable; use dl_nd::{CrossEntropy, Each, LossOps, Nd};
            /// let logits = Nd::from([[0.0_f64, 0.0], [0.0, 0.0]]);
            /// let settings = CrossEntropy::new().ignore_index(255).reduction(Each);
            /// assert_eq!(logits.cross_entropy_with([0, 255], &settings).predict().wait()?, Nd::from([2.0_f64.ln(), 0.0]));
            /// # dl_core::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// As [`cross_entropy`](LossOps::cross_entropy); also when a setting is invalid, and
            /// for a mean when all labels are ignored.
            #[track_caller]
            fn cross_entropy_with<T: ClassTargets<A, D>, R: Reduction>(&self, target: T, settings: &CrossEntropy<A, R>) -> Layer<R::Of<A, T::Rank>> {
                cross_entropy(self.layer(), target, settings)
            }

            /// The mean negative log-likelihood, `−x[label]`, of log-probabilities `x` of shape
            /// `[batch, classes]` or `[batch, classes, …]`, such as
            /// [`log_softmax`](crate::SoftmaxOps::log_softmax) returns. For logits, see
            /// [`cross_entropy`](LossOps::cross_entropy). This is PyTorch's `nll_loss`.
            ///
            /// ```
            /// # use dl_core::Differentiable; use dl_nd::{Nd, LossOps};
            /// assert_eq!(Nd::from([[-1.0, -2.0], [-3.0, -4.0]]).nll([1, 0]).predict().wait()?, 2.5);
            /// # dl_core::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// As [`cross_entropy`](LossOps::cross_entropy).
            #[track_caller]
            fn nll<T: ClassTargets<A, D>>(&self, target: T) -> Layer<A> {
                nll("nll", self.layer(), target, &CrossEntropy::new())
            }

            /// [`nll`](LossOps::nll) with the settings of
            /// [`cross_entropy_with`](LossOps::cross_entropy_with).
            ///
            /// ```
            /// # use dl_core::Differentiable; use dl_nd::{CrossEntropy, LossOps, Nd, Sum};
            /// let loss = Nd::from([[-1.0, -2.0], [-3.0, -4.0]]).nll_with([1, 0], &CrossEntropy::new().reduction(Sum));
            /// assert_eq!(loss.predict().wait()?, 5.0);
            /// # dl_core::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// As [`cross_entropy_with`](LossOps::cross_entropy_with).
            #[track_caller]
            fn nll_with<T: ClassTargets<A, D>, R: Reduction>(&self, target: T, settings: &CrossEntropy<A, R>) -> Layer<R::Of<A, T::Rank>> {
                nll("nll", self.layer(), target, settings)
            }

            /// The CTC loss of log-probabilities of shape `[batch, time, classes]`, such as
            /// [`log_softmax(-1)`](crate::SoftmaxOps::log_softmax) returns, with a list of labels
            /// for each input: `−ln` of the probability of all alignments of the labels with the
            /// time steps. Class 0 is the blank, which is no label. Each loss is divided by the
            /// number of its labels (at least 1); then the mean over the batch is taken.
            ///
            /// This is PyTorch's `ctc_loss`. Its gradient there is right after a log-softmax only;
            /// here it is that of the log-probabilities.
            ///
            /// ```
            /// # use dl_core::Differentiable; use dl_nd::{LossOps, Nd};
            /// // each of the 4 alignments of two time steps has the probability ¼
            /// let x = Nd::<f64, _>::full([2, 2, 2], 0.5_f64.ln());
            /// let targets = [vec![1], vec![]]; // 3 alignments, 1 alignment
            /// let loss = x.ctc(&targets).predict().wait()?;
            /// assert!((loss + (0.75_f64.ln() + 0.25_f64.ln()) / 2.0).abs() < 1e-12);
            /// # dl_core::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// When the number of targets is not that of the inputs, the batch is empty, or a label
            /// is the blank or not below the number of classes.
            #[track_caller]
            fn ctc(&self, targets: impl IntoIterator<Item: AsRef<[usize]>>) -> Layer<A>
            where
                D: HasRank<3>,
            {
                ctc(self.layer(), targets, &Ctc::new())
            }

            /// [`ctc`](LossOps::ctc) with settings: the blank, the lengths of the inputs, losses
            /// that are infinite, another reduction.
            ///
            /// ```
            /// # use dl_core::Differentiable; use dl_nd::{Ctc, Each, LossOps, Nd};
            /// let x = Nd::<f64, _>::full([2, 2, 2], 0.5_f64.ln());
            /// // equal neighbours need a blank between them, for which there is no time
            /// let settings = Ctc::new().input_lengths([1, 2]).zero_infinity(true).reduction(Each);
            /// let loss = x.ctc_with([&[1][..], &[1, 1]], &settings);
            /// assert_eq!(loss.predict().wait()?, Nd::from([2_f64.ln(), 0.0]));
            /// # dl_core::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// As [`ctc`](LossOps::ctc); also when the blank is not below the number of classes,
            /// and when the number of input lengths is not that of the inputs, or one is above the
            /// number of time steps.
            #[track_caller]
            fn ctc_with<R: Reduction>(
                &self,
                targets: impl IntoIterator<Item: AsRef<[usize]>>,
                settings: &Ctc<R>,
            ) -> Layer<R::Of<A, Ix1>>
            where
                D: HasRank<3>,
            {
                ctc(self.layer(), targets, settings)
            }

            $(
                $(#[doc = $doc])+
                ///
                #[doc = concat!(
                    "```\n# use dl_core::Differentiable; use dl_nd::{LossOps, Nd};\n",
                    "let loss = Nd::from([0.5_f64, 2.0]).", stringify!($name), "(Nd::from([1.0, 0.0])",
                    $(", ", stringify!($sample),)?
                    ");\nassert_eq!(loss.predict().wait()?, ", $example, ");\n# dl_core::Result::Ok(())\n```"
                )]
                ///
                /// # Errors
                /// A shape error when the shapes differ, or there are no elements.
                #[track_caller]
                fn $name(&self, target: impl Differentiable<Data = Nd<A, D>> $(, $number: f64)?) -> Layer<A> {
                    self.$with(target, $($number,)? Mean)
                }

                #[doc = concat!("[`", stringify!($name), "`](LossOps::", stringify!($name), ") with another [`Reduction`] than the mean.")]
                ///
                #[doc = concat!(
                    "```\n# use dl_core::Differentiable; use dl_nd::{Each, LossOps, Nd};\n",
                    "let loss = Nd::from([0.5_f64]).", stringify!($with), "(Nd::from([0.5])",
                    $(", ", stringify!($sample),)?
                    ", Each);\nassert_eq!(loss.predict().wait()?.shape(), [1]);\n# dl_core::Result::Ok(())\n```"
                )]
                ///
                /// # Errors
                /// A shape error when the shapes differ, or a mean is over no elements; an error
                /// when a setting is invalid.
                #[track_caller]
                fn $with<R: Reduction>(
                    &self,
                    target: impl Differentiable<Data = Nd<A, D>>,
                    $($number: f64,)?
                    reduction: R,
                ) -> Layer<R::Of<A, D>> {
                    $(if let Err(error) = positive(stringify!($number), $number) {
                        return invalid(stringify!($name), error);
                    })?
                    elementwise(stringify!($name), reduction, [self.layer(), target.into_layer()], |$x, $y| $loss)
                }
            )*

            /// The mean of the binary cross entropy `−(y · ln σ(x) + (1 − y) · ln(1 − σ(x)))` of
            /// logits `x` and probabilities `y`, without overflow or cancellation. This is
            /// PyTorch's `binary_cross_entropy_with_logits`.
            ///
            /// ```
            /// # use dl_core::Differentiable; use dl_nd::{LossOps, Nd};
            /// assert_eq!(Nd::from([1e4, -1e4]).bce_with_logits(Nd::from([1.0, 1.0])).predict().wait()?, 5e3);
            /// # dl_core::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// A shape error when the shapes differ, or there are no elements.
            #[track_caller]
            fn bce_with_logits(&self, target: impl Differentiable<Data = Nd<A, D>>) -> Layer<A> {
                self.bce_with_logits_with(target, &Bce::new())
            }

            /// [`bce_with_logits`](LossOps::bce_with_logits) with settings: a weight of the
            /// positive class, another reduction.
            ///
            /// ```
            /// # use dl_core::Differentiable; use dl_nd::{Bce, LossOps, Nd, Sum};
            /// let loss = Nd::from([1e4, -1e4]).bce_with_logits_with(Nd::from([1.0, 1.0]), &Bce::new().reduction(Sum));
            /// assert_eq!(loss.predict().wait()?, 1e4);
            /// # dl_core::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// As [`bce_with_logits`](LossOps::bce_with_logits); also when the weights do not
            /// broadcast to the logits.
            #[track_caller]
            fn bce_with_logits_with<R: Reduction>(
                &self,
                target: impl Differentiable<Data = Nd<A, D>>,
                settings: &Bce<A, R>,
            ) -> Layer<R::Of<A, D>> {
                const NAME: &str = "bce_with_logits";
                let x = self.layer();
                let weight = match &settings.pos_weight {
                    Some(weight) => Some(Term(expand_like(NAME, weight, &x))),
                    None => None,
                };
                elementwise(NAME, settings.reduction, [x, target.into_layer()], |x, y| {
                    // a term with probability or weight 0 does not count, even if the logit is infinite
                    let positive = y.strong_mul(&(-x).softplus());
                    let positive = match &weight {
                        Some(weight) => weight.strong_mul(&positive),
                        None => positive,
                    };
                    positive + (1.0 - y).strong_mul(&x.softplus())
                })
            }
        }
    };
}

losses! {
    /// The mean of the squared differences `(x − y)²`. This is PyTorch's `mse_loss`.
    mse mse_with(): "2.125", |x, y| (x - y).square();
    /// The mean of the absolute differences `|x − y|`; the derivative at 0 is 0. This is PyTorch's
    /// `l1_loss`.
    l1 l1_with(): "1.25", |x, y| (x - y).abs();
    /// The mean of the Huber losses of `e = x − y`: `½ e²` where `|e| ≤ delta`, and
    /// `delta · (|e| − ½ delta)` elsewhere. This is PyTorch's `huber_loss`. `delta` must be
    /// positive.
    huber huber_with(delta = 1.0): "0.8125", |x, y| {
        let e = x - y;
        let near = Term(e.0.clamp(-delta, delta));
        &near * (e - 0.5 * &near)
    };
    /// The mean of the terms `y · (ln y − x)` of the Kullback–Leibler divergence of probabilities
    /// `y` from *log-probabilities* `x`; a term is 0 where `y` is 0. This is PyTorch's `kl_div`.
    /// The divergence itself is the sum of the terms over the classes; its mean over a batch is
    /// `kl_div_with(y, BatchMean)` ([`BatchMean`](crate::BatchMean)).
    kl_div kl_div_with(): "-0.25", |x, y| y.xlogy(y) - y.strong_mul(x);
}

impl<X, A: Element, D: Rank> LossOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

/// Computes a loss for each pair of elements and reduces the losses.
#[track_caller]
fn elementwise<A: Element, D: Rank, R: Reduction>(
    name: &'static str,
    reduction: R,
    [x, y]: [Layer<Nd<A, D>>; 2],
    loss: impl FnOnce(&Term<Layer<Nd<A, D>>>, &Term<Layer<Nd<A, D>>>) -> Term<Layer<Nd<A, D>>>,
) -> Layer<R::Of<A, D>> {
    let y = same_shape(name, &y, &x);
    reduce(name, loss(&Term(x), &Term(y)).0, reduction)
}

fn positive(what: &str, number: f64) -> dl_core::Result<()> {
    if number > 0.0 {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} is {number}; it must be above 0")))
}

/// The settings of [`bce_with_logits_with`](LossOps::bce_with_logits_with).
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Bce, Each, LossOps, Nd};
/// let settings = Bce::new().pos_weight(Nd::from([1.0, 3.0])).reduction(Each);
/// let loss = Nd::from([[-1e4, -1e4]]).bce_with_logits_with(Nd::from([[1.0, 1.0]]), &settings);
/// assert_eq!(loss.predict().wait()?, Nd::from([[1e4, 3e4]]));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Bce<A: Element, R = Mean> {
    pos_weight: Option<Layer<Nd<A, IxDyn>>>,
    reduction: R,
}

impl<A: Element> Bce<A> {
    /// The mean, without weights.
    ///
    /// ```
    /// let settings = dl_nd::Bce::<f32>::new();
    /// ```
    pub fn new() -> Self {
        Bce { pos_weight: None, reduction: Mean }
    }
}

impl<A: Element> Default for Bce<A> {
    fn default() -> Self {
        Bce::new()
    }
}

impl<A: Element, R> Bce<A, R> {
    /// The factor of the positive term `−y · ln σ(x)`: a tensor that broadcasts to the logits, for
    /// instance a vector `[classes]`. PyTorch's `pos_weight`.
    ///
    /// ```
    /// use dl_nd::{Bce, Nd};
    /// let settings = Bce::new().pos_weight(Nd::from([1.0, 3.0]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn pos_weight<D: Rank>(self, weight: impl Differentiable<Data = Nd<A, D>>) -> Self {
        Bce { pos_weight: Some(weight.to_dyn()), ..self }
    }

    /// Sets the reduction; the default is [`Mean`].
    ///
    /// ```
    /// use dl_nd::{Bce, Sum};
    /// let settings = Bce::<f32>::new().reduction(Sum);
    /// ```
    #[must_use]
    pub fn reduction<S: Reduction>(self, reduction: S) -> Bce<A, S> {
        Bce { pos_weight: self.pos_weight, reduction }
    }
}
