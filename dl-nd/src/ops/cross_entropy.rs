//! Classification losses: cross entropy and negative log-likelihood.
//!
//! Axis 1 is the axis of the classes, as in PyTorch: logits `[batch, classes]` with labels
//! `[batch]`, or logits `[batch, classes, height, width]` with labels `[batch, height, width]`.

use crate::device::{Comparison, Instruction, Program, View};
use crate::fusion::view_on;
use crate::kernels::for_each_lane;
use crate::ops::axes::AxisList;
use crate::ops::expand_as::{per_channel, same_shape};
use crate::ops::exps_on_device::ExpsOnDevice;
use crate::ops::index::{Indices, gather, take};
use crate::ops::invalid::{check_fraction, invalid};
use crate::ops::loss_reduction::{Mean, Reduction};
use crate::ops::pointwise::binary;
use crate::ops::reduce::{ReduceForm, ReduceOp, sum_keepdim};
use crate::ops::reshape::{ReshapeTarget, reshape};
use crate::ops::softmax::{ExpLanes, SOFTMAX_NANOSECONDS, lanes, log_softmax, softmax, softmax_delta};
use crate::ops::{loss_reduction, reduce};
use crate::tensor::{Element, HasRank, Item, Nd, Rank, check_size, dim_of};
use dl_core::{
    Along, At, Binary, BuiltIn, DType, Differentiable, Error, Layer, Nothing, Pointwise, Primitive, Result, Weight,
};
use ndarray::{Array, ArrayBase, ArrayView, ArrayViewMut1, Axis, Data, Dimension, Ix1, Ix2, Ix3, Ix4, Ix5, IxDyn};
use std::marker::PhantomData;
use std::panic::Location;

/// Targets of [`cross_entropy`](crate::LossOps::cross_entropy) for logits of rank `D`: labels, with
/// the shape of the logits without axis 1, or class probabilities in the shape of the logits.
///
/// Labels are a tensor of `usize`, or a list of [`Indices`]. Gradients flow to probabilities.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{LossOps, Nd};
/// let images = Nd::<f64, _>::full([1, 2, 3, 3], 0.0); // two classes for each of 3 × 3 pixels
/// let loss = images.cross_entropy(Nd::full([1, 3, 3], 1_usize));
/// assert_eq!(loss.predict().wait()?, 2.0_f64.ln());
/// # dl_core::Result::Ok(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a target for logits of rank `{D}`",
    note = "labels are `usize` in a tensor of one axis less than the logits, or in a list; class probabilities have the type of the logits"
)]
pub trait ClassTargets<A: Element, D: Rank> {
    /// The rank of the labels and losses: one less than that of the logits.
    type Rank: Rank;

    #[doc(hidden)]
    #[track_caller]
    fn into_targets(self) -> Targets<A, D, Self::Rank>;
}

/// Labels, or class probabilities.
#[doc(hidden)]
#[derive(Debug)]
pub enum Targets<A: Element, D: Rank, E: Rank> {
    Labels(Layer<Nd<usize, E>>),
    Probabilities(Layer<Nd<A, D>>),
}

macro_rules! label_tensors {
    ($($E:ty: [$($Bound:tt)*];)*) => {$(
        label_tensors!(each $E: [$($Bound)*] Nd<usize, $E>, &Nd<usize, $E>, Layer<Nd<usize, $E>>, &Layer<Nd<usize, $E>>);
    )*};
    (each $E:ty: $bound:tt $($X:ty),*) => {$(
        label_tensors!(one $E: $bound $X);
    )*};
    (one $E:ty: [$($Bound:tt)*] $X:ty) => {
        impl<A: Element, D: $($Bound)*> ClassTargets<A, D> for $X {
            type Rank = $E;

            #[track_caller]
            fn into_targets(self) -> Targets<A, D, $E> {
                Targets::Labels(self.into_layer())
            }
        }
    };
}

label_tensors! {
    Ix1: [HasRank<2>]; Ix2: [HasRank<3>]; Ix3: [HasRank<4>]; Ix4: [HasRank<5>]; Ix5: [HasRank<6>]; IxDyn: [Rank];
}

macro_rules! label_lists {
    ($([$($generics:tt)*] $X:ty),*) => {$(
        impl<A: Element, D: HasRank<2>, $($generics)*> ClassTargets<A, D> for $X {
            type Rank = Ix1;

            #[track_caller]
            fn into_targets(self) -> Targets<A, D, Ix1> {
                Targets::Labels(Indices::into_indices(self))
            }
        }
    )*};
}

label_lists!([] usize, [const N: usize] [usize; N], [const N: usize] &[usize; N], [] &[usize], [] Vec<usize>, [] &Vec<usize>);

macro_rules! probabilities {
    ($($X:ty),*) => {$(
        impl<A: Element, D: Rank> ClassTargets<A, D> for $X
        where
            D::Smaller: Rank,
        {
            type Rank = D::Smaller;

            #[track_caller]
            fn into_targets(self) -> Targets<A, D, D::Smaller> {
                Targets::Probabilities(self.into_layer())
            }
        }
    )*};
}

probabilities!(Nd<A, D>, &Nd<A, D>, Layer<Nd<A, D>>, &Layer<Nd<A, D>>, Weight<Nd<A, D>>, &Weight<Nd<A, D>>);

/// Settings of [`cross_entropy_with`](crate::LossOps::cross_entropy_with).
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{CrossEntropy, LossOps, Nd};
/// let settings = CrossEntropy::new().label_smoothing(0.1).weights(Nd::from([1.0, 2.0]));
/// let loss = Nd::from([[0.0_f64, 0.0]]).cross_entropy_with([0], &settings);
/// assert!((loss.predict().wait()? - 1.05 * 2.0_f64.ln()).abs() < 1e-12);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct CrossEntropy<A: Element, R = Mean> {
    label_smoothing: f64,
    ignore_index: Option<usize>,
    weights: Option<Layer<Nd<A, Ix1>>>,
    reduction: R,
}

impl<A: Element> CrossEntropy<A> {
    /// The defaults: the mean of all losses, no smoothing, no class weights, no ignored label.
    ///
    /// ```
    /// let settings = dl_nd::CrossEntropy::<f32>::new();
    /// ```
    pub fn new() -> Self {
        CrossEntropy { label_smoothing: 0.0, ignore_index: None, weights: None, reduction: Mean }
    }
}

impl<A: Element> Default for CrossEntropy<A> {
    fn default() -> Self {
        CrossEntropy::new()
    }
}

impl<A: Element, R: Reduction> CrossEntropy<A, R> {
    /// Mixes the targets with the uniform distribution: `(1 − ε) · target + ε / classes` (Szegedy
    /// et al., *Rethinking the Inception architecture*, 2016). It must lie between 0 and 1.
    ///
    /// ```
    /// let settings = dl_nd::CrossEntropy::<f32>::new().label_smoothing(0.1);
    /// ```
    #[must_use]
    pub fn label_smoothing(self, epsilon: f64) -> Self {
        CrossEntropy { label_smoothing: epsilon, ..self }
    }

    /// Ignores the positions with this label: their loss and their gradient are 0, and the mean
    /// excludes them. The label need not be a valid class.
    ///
    /// ```
    /// let settings = dl_nd::CrossEntropy::<f32>::new().ignore_index(255);
    /// ```
    #[must_use]
    pub fn ignore_index(self, label: usize) -> Self {
        CrossEntropy { ignore_index: Some(label), ..self }
    }

    /// A weight for each class, `[classes]`, which scales the losses of the class. With labels, the
    /// mean is divided by the sum of the weights of all labels; a sum of 0 is an error. A class of
    /// weight 0 does not count, even if its logit is −∞.
    ///
    /// ```
    /// use dl_nd::{CrossEntropy, Nd};
    /// let settings = CrossEntropy::new().weights(Nd::from([1.0, 0.5]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn weights(self, weights: impl Differentiable<Data = Nd<A, Ix1>>) -> Self {
        CrossEntropy { weights: Some(weights.into_layer()), ..self }
    }

    /// Sets the reduction; the default is the mean.
    ///
    /// ```
    /// use dl_nd::{CrossEntropy, Each};
    /// let settings = CrossEntropy::<f32>::new().reduction(Each);
    /// ```
    #[must_use]
    pub fn reduction<S: Reduction>(self, reduction: S) -> CrossEntropy<A, S> {
        let CrossEntropy { label_smoothing, ignore_index, weights, .. } = self;
        CrossEntropy { label_smoothing, ignore_index, weights, reduction }
    }

    fn is_plain(&self) -> bool {
        self.label_smoothing == 0.0 && self.ignore_index.is_none() && self.weights.is_none()
    }

    fn check<D: Rank, E: Rank>(&self, targets: &Targets<A, D, E>) -> Result<()> {
        if matches!((self.ignore_index, targets), (Some(_), Targets::Probabilities(_))) {
            return Err(Error::invalid("`ignore_index` requires labels as targets, not class probabilities"));
        }
        check_fraction("label_smoothing", self.label_smoothing)
    }
}

#[track_caller]
pub(crate) fn cross_entropy<A: Element, D: Rank, T: ClassTargets<A, D>, R: Reduction>(
    logits: Layer<Nd<A, D>>,
    target: T,
    settings: &CrossEntropy<A, R>,
) -> Layer<R::Of<A, T::Rank>> {
    const NAME: &str = "cross_entropy";
    match target.into_targets() {
        Targets::Labels(labels) if settings.is_plain() => Layer::apply_built_in(
            CrossEntropyOp { reduction: settings.reduction, place: Location::caller(), types: PhantomData },
            (logits, labels),
        ),
        targets => likelihood(NAME, log_softmax(logits, 1), targets, settings),
    }
}

#[track_caller]
pub(crate) fn nll<A: Element, D: Rank, T: ClassTargets<A, D>, R: Reduction>(
    name: &'static str,
    x: Layer<Nd<A, D>>,
    target: T,
    settings: &CrossEntropy<A, R>,
) -> Layer<R::Of<A, T::Rank>> {
    likelihood(name, x, target.into_targets(), settings)
}

/// `−Σ w·t·x` over the classes, with class weights `w`, targets `t` and log-probabilities `x`. For
/// labels, `t` is one-hot.
#[track_caller]
fn likelihood<A: Element, D: Rank, E: Rank, R: Reduction>(
    name: &'static str,
    x: Layer<Nd<A, D>>,
    targets: Targets<A, D, E>,
    settings: &CrossEntropy<A, R>,
) -> Layer<R::Of<A, E>> {
    if let Err(error) = settings.check(&targets) {
        return invalid(name, error);
    }
    let weighted = match &settings.weights {
        // a weight of 0 removes a class, even if its logit is −∞
        Some(weights) => Nd::binary(Binary::StrongMul, &per_channel(name, weights, &x), &x),
        None => x.clone(),
    };
    // all of these keep the class axis, with length 1
    let (at_target, mask, weights) = match targets {
        Targets::Probabilities(probabilities) => {
            let probabilities = same_shape(name, &probabilities, &x);
            (sum_keepdim(Nd::binary(Binary::StrongMul, &probabilities, &weighted), 1), None, None)
        }
        Targets::Labels(labels) => {
            let ignored = settings.ignore_index;
            let (at_least_one, place) = (settings.reduction.is_mean(), Location::caller());
            let op = LabelIndices { name, ignored, at_least_one, place, types: PhantomData };
            let label_indices: Layer<Nd<usize, D>> = Layer::apply_built_in(op, (x.clone(), labels.clone()));
            let mask = match ignored {
                Some(ignored) => {
                    Some(Layer::apply_built_in(LabelMask { name, ignored, types: PhantomData }, (labels,)))
                }
                None => None,
            };
            let weights = match (&settings.weights, &mask) {
                (Some(weights), None) => Some(take(name, 0, weights.clone(), label_indices.clone())),
                (Some(weights), Some(mask)) => {
                    Some(Nd::binary(Binary::Mul, &take(name, 0, weights.clone(), label_indices.clone()), mask))
                }
                (None, mask) => mask.clone(),
            };
            (gather(1, weighted.clone(), label_indices), mask, weights)
        }
    };
    let smoothing = settings.label_smoothing;
    let likelihoods = match smoothing {
        0.0 => at_target,
        _ => {
            let mean = reduce::reduce(weighted, ReduceOp::Mean, AxisList::one(1), ReduceForm::of(name, true));
            let at_target = Nd::with_number(Binary::Mul, &at_target, 1.0 - smoothing, false);
            Nd::binary(Binary::Add, &at_target, &Nd::with_number(Binary::Mul, &mean, smoothing, false))
        }
    };
    let losses = likelihoods.neg();
    let losses = match &mask {
        Some(mask) => Nd::binary(Binary::StrongMul, mask, &losses),
        None => losses,
    };
    let losses: Layer<Nd<A, E>> = reshape(&losses, ReshapeTarget::Remove(1));
    match weights {
        Some(weights) => settings.reduction.weighted(name, losses, weights),
        None => loss_reduction::reduce(name, losses, settings.reduction),
    }
}

/// Checks that the labels have the shape of the logits without axis 1, and that each is a valid
/// class or ignored.
fn check<S: Data<Elem = usize>, E: Dimension>(
    labels: &ArrayBase<S, E>,
    logits: &[usize],
    ignored: Option<usize>,
) -> Result<()> {
    let classes = check_shapes(labels.shape(), logits)?;
    check_labels(labels.view(), classes, ignored)
}

/// The labels beside logits on a device, with a class axis of length 1. A read of what
/// is computed from them reports one that is no class, as an error of this operation.
fn labels_on_device<E: Rank>(
    logits: &View,
    labels: &Nd<usize, E>,
    ignored: Option<usize>,
    (name, place): (&'static str, &'static Location<'static>),
) -> Result<View> {
    let classes = check_shapes(labels.shape(), &logits.shape)?;
    let (labels, shape) = (view_on(logits.device(), labels)?, labels.shape().to_vec());
    let error = move |number: usize, label| {
        let mut rest = number;
        let place_of = |&length: &usize| {
            let at = rest % length;
            rest /= length;
            at
        };
        let mut at: Vec<usize> = shape.iter().rev().map(place_of).collect();
        at.reverse();
        no_class(label, &at, classes).at_location(name, place)
    };
    Ok(labels.checked_below(classes, ignored, Box::new(error))?.inserted(1))
}

/// The number of classes, if labels of this shape fit the logits.
fn check_shapes(labels: &[usize], logits: &[usize]) -> Result<usize> {
    let Some(&classes) = logits.get(1) else {
        return Err(Error::shape(format!(
            "logits of shape {logits:?} have no axis of classes (axis 1): `unsqueeze(0)` makes a batch of one vector"
        )));
    };
    if labels != without_classes(logits) {
        let count: usize = labels.iter().product();
        return Err(Error::shape(format!(
            "{count} labels, of shape {labels:?}, for logits of shape {logits:?}, which take labels of shape {:?}",
            without_classes(logits)
        )));
    }
    Ok(classes)
}

fn check_labels<E: Dimension>(labels: ArrayView<'_, usize, E>, classes: usize, ignored: Option<usize>) -> Result<()> {
    let is_class = |label: usize| label < classes || Some(label) == ignored;
    if labels.iter().all(|&label| is_class(label)) {
        return Ok(());
    }
    let labels = labels.into_dyn();
    let (place, label) = labels.indexed_iter().find(|&(_, &label)| !is_class(label)).expect("one label is invalid");
    Err(no_class(*label, place.slice(), classes))
}

fn no_class(label: usize, place: &[usize], classes: usize) -> Error {
    let place = if let [place] = place { place.to_string() } else { format!("{place:?}") };
    Error::invalid(format!("label {label} at index {place} is not below the number of classes, {classes}"))
}

/// The shape of labels and losses: the shape of the logits without axis 1.
fn without_classes(logits: &[usize]) -> Vec<usize> {
    [&logits[..1], &logits[2..]].concat()
}

/// The shape of the labels with a class axis of length 1 inserted.
fn with_class_axis<D: Rank>(labels: &[usize]) -> D {
    dim_of(&[&labels[..1], &[1], &labels[1..]].concat())
}

/// One-hot encoding of labels, `[labels, classes]`: 1 at the label of each row, 0 elsewhere.
///
/// ```
/// use dl_nd::{Nd, one_hot};
/// assert_eq!(one_hot::<f32>([2, 0], 3)?, Nd::from([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// When a label is not below `classes`; a shape error when the tensor does not fit into memory.
pub fn one_hot<A: Element>(labels: impl IntoIterator<Item = usize>, classes: usize) -> Result<Nd<A, Ix2>> {
    let labels: Vec<usize> = labels.into_iter().collect();
    check_labels(ArrayView::from(&labels), classes, None)?;
    check_size::<A>(&[labels.len(), classes])?;
    let mut array = Array::from_elem((labels.len(), classes), A::of(0.0));
    for (row, &label) in labels.iter().enumerate() {
        array[[row, label]] = A::of(1.0);
    }
    Ok(array.into())
}

/// `−ln softmax(logits)[label]`, reduced, as one kernel.
#[derive(Clone)]
struct CrossEntropyOp<A, D, E, R> {
    reduction: R,
    place: &'static Location<'static>,
    types: PhantomData<(A, D, E)>,
}

impl<A: Element, D: Rank, E: Rank, R: Reduction> Primitive for CrossEntropyOp<A, D, E, R> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<usize, E>>);
    type Output = R::Of<A, E>;

    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn value(&self, (logits, labels): (&Nd<A, D>, &Nd<usize, E>)) -> Result<R::Of<A, E>> {
        if let Some(view) = logits.0.on_device()? {
            let at = labels_on_device(&view, labels, None, (self.name(), self.place))?;
            let exps = ExpsOnDevice::of(logits, 1)?;
            let at_label = Nd::from_view(view.gather(1, &at)?);
            let losses = binary(Binary::Add, &exps.ln_sums()?, &binary(Binary::Sub, &exps.maxima, &at_label)?)?;
            let losses = losses.0.on_device()?.expect("it lies on a device").without(1);
            return self.reduction.fold(Nd::from_view(losses), logits.shape());
        }
        check(&labels.0, logits.shape(), None)?;
        let (dim, labels, classes) = (labels.dim(), labels_in_order(labels), logits.shape()[1]);
        let mut losses = vec![A::zero(); labels.len()];
        let to = losses.iter_mut().map(|loss| ArrayViewMut1::from(std::slice::from_mut(loss)));
        let all = logits.0.lanes(Axis(1)).into_iter().zip(to);
        for_each_lane(all, (labels.len(), classes), SOFTMAX_NANOSECONDS, |first, lanes| {
            let exps = ExpLanes::of(lanes.iter().map(|(x, _)| x.view()));
            let logarithms = exps.ln_sums();
            for (lane, (x, loss)) in lanes.iter_mut().enumerate() {
                loss[0] = logarithms[lane] + (exps.maxima[lane] - x[labels[first + lane]]);
            }
        });
        self.reduction.fold(Nd::from_elements(dim, losses), logits.shape())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nd<Nothing, E>>>) {
        // (softmax − one_hot) · d
        let gradient = Layer::apply_built_in(CrossEntropyGradient(PhantomData), at.operands.clone());
        let place = at.values.0.device().cloned();
        let each = self.reduction.unfold(at.delta, with_class_axis::<D>(at.values.1.shape()), place);
        (Some(Nd::binary(Binary::StrongMul, &each, &gradient)), None)
    }

    fn cost(&self, (logits, _): (&Nd<A, D>, &Nd<usize, E>)) -> f64 {
        logits.nanoseconds_to_read() + 300.0 + SOFTMAX_NANOSECONDS * logits.len() as f64
    }
}

impl<A: Element, D: Rank, E: Rank, R: Reduction> BuiltIn for CrossEntropyOp<A, D, E, R> {
    const IS_PURE: bool = true;
    const CAN_BE_LATER: bool = true;
}

/// The labels in row-major order.
fn labels_in_order<E: Rank>(labels: &Nd<usize, E>) -> Vec<usize> {
    labels.0.iter().copied().collect()
}

/// The softmax minus the one-hot labels. The labels must be valid.
#[derive(Clone)]
struct CrossEntropyGradient<A, D, E>(PhantomData<(A, D, E)>);

impl<A: Element, D: Rank, E: Rank> Primitive for CrossEntropyGradient<A, D, E> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<usize, E>>);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn value(&self, (logits, labels): (&Nd<A, D>, &Nd<usize, E>)) -> Result<Nd<A, D>> {
        if let Some(view) = logits.0.on_device()? {
            let softmax = ExpsOnDevice::of(logits, 1)?.softmax()?.0.on_device()?.expect("it lies on a device");
            let labels = view_on(view.device(), labels)?.inserted(1);
            let mut program = Program::new(A::ELEMENT);
            let (class, label) = (program.push(Instruction::Position(1)), program.load(labels));
            let is_label = program.compare(Comparison::Equal, class, label);
            let (y, one) = (program.load(softmax), program.number(1.0));
            let less = program.binary(Binary::Sub, y, one);
            program.select(is_label, less, y);
            return program.run(view.device(), A::ELEMENT, logits.shape()).map(Nd::from_view);
        }
        let labels = labels_in_order(labels);
        lanes(logits, 1, |first, lanes| {
            let softmaxes = ExpLanes::of(lanes.iter().map(|(x, _)| x.view())).softmax();
            for (lane, (_, y)) in lanes.iter_mut().enumerate() {
                softmaxes.write(lane, y.view_mut());
                let label = labels[first + lane];
                y[label] = y[label] - A::of(1.0);
            }
        })
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nd<Nothing, E>>>) {
        (Some(softmax_delta(at.delta, &softmax(at.operands.0.clone(), 1), 1)), None)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        self.pullback(&along.at(along.tangents.0.as_ref()?)).0
    }

    fn cost(&self, (logits, _): (&Nd<A, D>, &Nd<usize, E>)) -> f64 {
        300.0 + SOFTMAX_NANOSECONDS * logits.len() as f64
    }
}

impl<A: Element, D: Rank, E: Rank> BuiltIn for CrossEntropyGradient<A, D, E> {
    const IS_PURE: bool = true;
}

/// (x, labels) ↦ the labels, checked against the shape of `x`, with a class axis of length 1. The
/// ignored label is replaced by class 0.
#[derive(Clone)]
struct LabelIndices<A, D, E> {
    name: &'static str,
    ignored: Option<usize>,
    /// Whether at least one label must not be ignored, as for the mean.
    at_least_one: bool,
    place: &'static Location<'static>,
    types: PhantomData<(A, D, E)>,
}

impl<A: Element, D: Rank, E: Rank> Primitive for LabelIndices<A, D, E> {
    type Operands = (Layer<Nd<A, D>>, Layer<Nd<usize, E>>);
    type Output = Nd<usize, D>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, (x, labels): (&Nd<A, D>, &Nd<usize, E>)) -> Result<Nd<usize, D>> {
        if let Some(view) = x.0.on_device()? {
            let labels = labels_on_device(&view, labels, self.ignored, (self.name, self.place))?;
            if self.at_least_one && labels.is_empty() {
                return Err(Error::shape(format!("the mean over an empty batch, of shape {:?}", x.shape())));
            }
            let Some(ignored) = self.ignored else { return Ok(Nd::from_view(labels)) };
            // that not all are ignored is seen by their weights
            let shape = labels.shape.clone();
            let mut program = Program::new(DType::U64);
            let (label, zero) = (program.load(labels), program.number(0.0));
            let ignored = program.number(ignored.device_number());
            let is_ignored = program.compare(Comparison::Equal, label, ignored);
            program.select(is_ignored, zero, label);
            return program.run(view.device(), DType::U64, &shape).map(Nd::from_view);
        }
        check(&labels.0, x.shape(), self.ignored)?;
        if self.at_least_one && labels.0.iter().all(|&label| Some(label) == self.ignored) {
            let shape = x.shape();
            return Err(match self.ignored {
                Some(ignored) if !labels.is_empty() => {
                    Error::invalid(format!("all labels are {ignored}, which is ignored: the mean is undefined"))
                }
                _ => Error::shape(format!("the mean over an empty batch, of shape {shape:?}")),
            });
        }
        let classes = labels.0.mapv(|label| if Some(label) == self.ignored { 0 } else { label });
        Ok(classes.into_shape_clone(with_class_axis::<D>(labels.shape())).expect("as many elements").into())
    }

    fn pullback(&self, _: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nd<Nothing, E>>>) {
        (None, None)
    }

    fn cost(&self, (_, labels): (&Nd<A, D>, &Nd<usize, E>)) -> f64 {
        200.0 + labels.len() as f64
    }
}

impl<A: Element, D: Rank, E: Rank> BuiltIn for LabelIndices<A, D, E> {
    const IS_PURE: bool = true;
}

/// (labels) ↦ 0 for the ignored label, 1 for all others, with a class axis of length 1.
#[derive(Clone)]
struct LabelMask<A, D, E> {
    name: &'static str,
    ignored: usize,
    types: PhantomData<(A, D, E)>,
}

impl<A: Element, D: Rank, E: Rank> Primitive for LabelMask<A, D, E> {
    type Operands = (Layer<Nd<usize, E>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, (labels,): (&Nd<usize, E>,)) -> Result<Nd<A, D>> {
        if labels.shape().is_empty() {
            return Err(Error::shape("a label without axes, for logits with a batch axis and a class axis"));
        }
        if let Some(view) = labels.0.on_device()? {
            let view = view.inserted(1);
            let (device, shape) = (view.device().clone(), view.shape.clone());
            let mut program = Program::new(DType::U64);
            let (label, ignored) = (program.load(view), program.number(self.ignored.device_number()));
            program.compare(Comparison::NotEqual, label, ignored);
            return program.run(&device, A::ELEMENT, &shape).map(Nd::from_view);
        }
        let mask = labels.0.mapv(|label| if label == self.ignored { A::zero() } else { A::of(1.0) });
        let mask =
            mask.into_dyn().into_shape_clone(with_class_axis::<IxDyn>(labels.shape())).expect("as many elements");
        let wrong_axes = || format!("labels of shape {:?} have too many or too few axes", labels.shape());
        mask.into_dimensionality().map(Nd::from).map_err(|_| Error::shape(wrong_axes()))
    }

    fn pullback(&self, _: &At<'_, Self>) -> (Option<Layer<Nd<Nothing, E>>>,) {
        (None,)
    }

    fn cost(&self, (labels,): (&Nd<usize, E>,)) -> f64 {
        200.0 + labels.len() as f64
    }
}

impl<A: Element, D: Rank, E: Rank> BuiltIn for LabelMask<A, D, E> {
    const IS_PURE: bool = true;
}
