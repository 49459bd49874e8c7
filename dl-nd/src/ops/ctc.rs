//! Connectionist temporal classification (CTC): the loss of a sequence of labels that is shorter
//! than its input and not aligned with it.
//!
//! An alignment has a class for each time step. It stands for the labels that remain when equal
//! neighbours are merged and blanks are removed. Its states are the labels with a blank before,
//! between and after them; in a time step it stays, moves on by one state, or skips the blank
//! between two different labels. The loss is `−ln Σ exp(Σ x)` over all alignments.
//!
//! Source: Graves et al., *Connectionist temporal classification: labelling unsegmented sequence
//! data with recurrent neural networks*, 2006.

use crate::fusion::{canonicalize_nan, map_in_place, sum_in_order};
use crate::kernels::LANE_GROUP;
use crate::ops::index::gather;
use crate::ops::join::stack;
use crate::ops::loss_reduction::{Mean, Reduction};
use crate::ops::reduce::{ReduceOps, total};
use crate::ops::reshape::{MovementOps, ReshapeTarget, reshape};
use crate::ops::slice::{SliceOps, narrow};
use crate::tensor::{Element, Nd, Rank, check_size, dim_of, filled_array};
use dl_core::simd::vectorized;
use dl_core::{Along, At, Binary, BuiltIn, Error, Layer, Pointwise, Primitive, Result, Unary, parallel};
use ndarray::{Array, Array3, ArrayView2, ArrayView3, Axis, Ix1, Ix2, Ix3};
use std::marker::PhantomData;
use std::sync::Arc;

/// Settings of [`ctc_with`](crate::LossOps::ctc_with).
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Ctc, LossOps, Nd, Sum};
/// // two inputs of three time steps and two classes, of which the second is the blank
/// let x = Nd::<f64, _>::full([2, 3, 2], 0.5_f64.ln());
/// let settings = Ctc::new().blank(1).input_lengths([3, 2]).reduction(Sum);
/// // 6 of 8 alignments are one label, as are 3 of 4
/// assert!((x.ctc_with([[0], [0]], &settings).predict().wait()? + 2.0 * 0.75_f64.ln()).abs() < 1e-12);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Ctc<R = Mean> {
    blank: usize,
    input_lengths: Option<Vec<usize>>,
    zero_infinity: bool,
    reduction: R,
}

impl Ctc {
    /// The defaults: class 0 is the blank, all inputs have all time steps, and the reduction is the
    /// mean.
    ///
    /// ```
    /// let settings = dl_nd::Ctc::new();
    /// ```
    pub fn new() -> Self {
        Ctc { blank: 0, input_lengths: None, zero_infinity: false, reduction: Mean }
    }
}

impl Default for Ctc {
    fn default() -> Self {
        Ctc::new()
    }
}

impl<R: Reduction> Ctc<R> {
    /// The class that stands for no label. Targets must not contain it.
    ///
    /// ```
    /// let settings = dl_nd::Ctc::new().blank(28);
    /// ```
    #[must_use]
    pub fn blank(self, class: usize) -> Self {
        Ctc { blank: class, ..self }
    }

    /// The number of time steps of each input of the batch. Later steps are padding: they do not
    /// count, and their gradient is 0.
    ///
    /// ```
    /// let settings = dl_nd::Ctc::new().input_lengths([50, 43]);
    /// ```
    #[must_use]
    pub fn input_lengths(self, lengths: impl IntoIterator<Item = usize>) -> Self {
        Ctc { input_lengths: Some(lengths.into_iter().collect()), ..self }
    }

    /// Whether an infinite loss counts as 0, with a gradient of 0; off by default. The loss is
    /// infinite if the target is too long for the input, or if all its alignments have the
    /// log-probability −∞. The gradient is then NaN, unless this is on.
    ///
    /// ```
    /// let settings = dl_nd::Ctc::new().zero_infinity(true);
    /// ```
    #[must_use]
    pub fn zero_infinity(self, zero_infinity: bool) -> Self {
        Ctc { zero_infinity, ..self }
    }

    /// Sets the reduction; the default is the mean.
    ///
    /// ```
    /// let settings = dl_nd::Ctc::new().reduction(dl_nd::Each);
    /// ```
    #[must_use]
    pub fn reduction<S: Reduction>(self, reduction: S) -> Ctc<S> {
        let Ctc { blank, input_lengths, zero_infinity, .. } = self;
        Ctc { blank, input_lengths, zero_infinity, reduction }
    }
}

#[track_caller]
pub(crate) fn ctc<A: Element, D: Rank, R: Reduction>(
    x: Layer<Nd<A, D>>,
    targets: impl IntoIterator<Item: AsRef<[usize]>>,
    settings: &Ctc<R>,
) -> Layer<R::Of<A, Ix1>> {
    let mut list = Vec::new();
    for target in targets {
        list.push(target.as_ref().to_vec());
    }
    let Ctc { blank, ref input_lengths, zero_infinity, reduction } = *settings;
    let by_length = reduction.is_mean();
    let batch = Batch { targets: list, blank, input_lengths: input_lengths.clone(), zero_infinity, by_length };
    Layer::apply_built_in(CtcOp { batch: Arc::new(batch), reduction, types: PhantomData }, (x,))
}

/// The targets of a batch, and how their losses are computed.
struct Batch {
    targets: Vec<Vec<usize>>,
    blank: usize,
    input_lengths: Option<Vec<usize>>,
    zero_infinity: bool,
    /// Whether each loss is divided by the number of its labels.
    by_length: bool,
}

impl Batch {
    /// Checks everything against the log-probabilities.
    fn check<'a, A: Element, D: Rank>(&self, x: &'a Nd<A, D>) -> Result<ArrayView3<'a, A>> {
        let Ok(x) = x.0.view().into_dimensionality::<Ix3>() else {
            let shape = x.shape();
            return Err(Error::shape(format!(
                "log-probabilities of shape {shape:?}; it must be [batch, time, classes]"
            )));
        };
        let (batch, steps, classes) = x.dim();
        if self.targets.len() != batch {
            return Err(Error::shape(format!("{} targets for a batch of {batch} inputs", self.targets.len())));
        }
        if self.blank >= classes {
            return Err(Error::invalid(format!(
                "the blank, {}, is not below the number of classes, {classes}",
                self.blank
            )));
        }
        for (number, target) in self.targets.iter().enumerate() {
            if let Some(place) = target.iter().position(|&label| label >= classes || label == self.blank) {
                let label = target[place];
                let why = match label == self.blank {
                    true => "is the blank".to_owned(),
                    false => format!("is not below the number of classes, {classes}"),
                };
                return Err(Error::invalid(format!("label {label} at index {place} of target {number} {why}")));
            }
        }
        if let Some(lengths) = &self.input_lengths {
            if lengths.len() != batch {
                return Err(Error::shape(format!("{} input lengths for a batch of {batch} inputs", lengths.len())));
            }
            if let Some(input) = lengths.iter().position(|&length| length > steps) {
                let length = lengths[input];
                return Err(Error::invalid(format!("the length of input {input} is {length}, of {steps} time steps")));
            }
        }
        Ok(x)
    }

    fn steps(&self, input: usize, all: usize) -> usize {
        self.input_lengths.as_ref().map_or(all, |lengths| lengths[input])
    }

    fn scale<A: Element>(&self, input: usize) -> A {
        A::of(if self.by_length { 1.0 / self.targets[input].len().max(1) as f64 } else { 1.0 })
    }

    /// The classes of the states of an alignment: blank, label, blank, …, label, blank.
    fn classes(&self, input: usize) -> Vec<usize> {
        let labels = self.targets[input].iter().flat_map(|&label| [label, self.blank]);
        std::iter::once(self.blank).chain(labels).collect()
    }

    /// The largest number of states of a target.
    fn most_states(&self) -> usize {
        2 * self.targets.iter().map(Vec::len).max().unwrap_or(0) + 1
    }

    /// The estimated time for each input.
    fn nanoseconds(&self, steps: usize) -> f64 {
        STATE_NANOSECONDS * (steps * self.most_states().next_multiple_of(LANE_GROUP)) as f64
    }

    /// The sum of the losses as a composition of operations, whose derivatives of any order are
    /// right for the inputs with a finite loss. All numbers are finite: `NEVER` stands for −∞.
    #[track_caller]
    fn composed<A: Element, D: Rank>(&self, x: &Layer<Nd<A, D>>, [batch, steps]: [usize; 2]) -> Layer<A> {
        const NEVER: f64 = -1e30;
        let states = self.most_states();
        let classes: Vec<_> = (0..batch).map(|input| self.classes(input)).collect();
        let class = |input: usize, state: usize| classes[input].get(state).copied().unwrap_or(self.blank);
        let allowed = |is: bool| A::of(if is { 0.0 } else { NEVER });
        let places = Array3::from_shape_fn((batch, steps, states), |(input, _, state)| class(input, state));
        let starts = Array::from_shape_fn((batch, states), |(_, state)| allowed(state < 2));
        let skips = Array::from_shape_fn((batch, states), |(input, state)| allowed(skips(&classes[input], state)));
        let ends = Array3::from_shape_fn((batch, steps, states), |(input, step, state)| {
            let states = classes[input].len();
            allowed(step + 1 == self.steps(input, steps) && state < states && state + 2 >= states)
        });
        let scales = (0..batch).map(|input| self.scale(input)).collect();
        let [starts, skips] = [starts, skips].map(|numbers| Layer::constant(Nd::<A, Ix2>::from(numbers)));
        let ends = Layer::constant(Nd::from(ends));
        let scales = Layer::constant(Nd::from_elements(dim_of::<Ix1>(&[batch]), scales));

        let x: Layer<Nd<A, Ix3>> = reshape(&x.clamp(NEVER, -NEVER), ReshapeTarget::Rank);
        let emissions = gather(2, x, Layer::constant(places.into()));
        let mut arrived = starts;
        let mut sums: Vec<Layer<Nd<A, Ix2>>> = Vec::new();
        for step in 0..steps {
            let emitted = reshape(&narrow(&emissions, 1, step, 1), ReshapeTarget::Remove(1));
            let sum = Nd::binary(Binary::Add, &arrived, &emitted);
            let moved = |by: usize| {
                let by = by.min(states);
                narrow(&sum, 1, 0, states - by).pad(&[(0, 0), (by, 0)], A::of(NEVER))
            };
            arrived = Nd::binary(Binary::LogAddExp, &sum, &moved(1));
            let skipped = Nd::binary(Binary::Add, &moved(2), &skips);
            arrived = Nd::binary(Binary::LogAddExp, &arrived, &skipped);
            sums.push(sum);
        }
        let likelihoods = Nd::binary(Binary::Add, &stack(1, sums), &ends).logsumexp_axis([1, 2]);
        let losses: Layer<Nd<A, Ix1>> = Nd::binary(Binary::Mul, &likelihoods.to_rank(), &scales).neg();
        total(losses)
    }
}

/// Whether an alignment may skip the state before this one: a blank between different labels. An
/// alignment may start with its first label, as if a blank were skipped.
fn skips(classes: &[usize], state: usize) -> bool {
    state % 2 == 1 && state < classes.len() && (state == 1 || classes[state] != classes[state - 2])
}

/// The estimated time for a state in a time step.
const STATE_NANOSECONDS: f64 = 8.0;

/// The states of an alignment in front of the first one, so that each has two before it.
const FRONT: usize = 2;

/// The sums of all alignments that have come to a state, time step by time step.
struct Trellis<A> {
    /// In order of the states.
    classes: Vec<usize>,
    /// 0 for a state that may be reached by a skip, −∞ for all others.
    skips: Vec<A>,
    /// The log-probabilities of the alignments up to this time step, for each state, with [`FRONT`]
    /// states before the first, less `offset`. The largest is 0.
    sums: Vec<A>,
    /// The same without the log-probability of the last time step.
    arrived: Vec<A>,
    offset: f64,
    exps: Vec<A>,
}

impl<A: Element> Trellis<A> {
    fn new(classes: Vec<usize>) -> Self {
        let width = classes.len().next_multiple_of(LANE_GROUP);
        let skips =
            (0..width).map(|state| if skips(&classes, state) { A::zero() } else { A::neg_infinity() }).collect();
        let mut sums = vec![A::neg_infinity(); FRONT + width];
        // before the first step, an alignment is in front of its first state
        sums[FRONT - 1] = A::zero();
        Trellis { classes, skips, sums, arrived: vec![A::zero(); width], offset: 0.0, exps: vec![A::zero(); 3 * width] }
    }

    /// Moves on by a time step with these log-probabilities of the classes.
    fn advance(&mut self, probability: impl Fn(usize) -> A) {
        let Trellis { classes, skips, sums, arrived, exps, .. } = self;
        let width = arrived.len();
        vectorized(
            #[inline(always)]
            || {
                let (stay, rest) = exps.split_at_mut(width);
                let (step, skip) = rest.split_at_mut(width);
                for state in 0..width {
                    let (a, b, c) = (sums[state + 2], sums[state + 1], sums[state] + skips[state]);
                    let largest = if a > b { a } else { b };
                    let largest = if c > largest { c } else { largest };
                    let largest = if largest == A::neg_infinity() { A::zero() } else { largest };
                    arrived[state] = largest;
                    (stay[state], step[state], skip[state]) = (a - largest, b - largest, c - largest);
                }
            },
        );
        map_in_place(Unary::Exp, exps);
        vectorized(
            #[inline(always)]
            || {
                let (stay, rest) = exps.split_at_mut(width);
                let (step, skip) = rest.split_at(width);
                for state in 0..width {
                    stay[state] = stay[state] + step[state] + skip[state];
                }
            },
        );
        map_in_place(Unary::Ln, &mut exps[..width]);
        sums[..FRONT].fill(A::neg_infinity());
        let mut largest = A::neg_infinity();
        for (state, to) in sums[FRONT..].iter_mut().enumerate() {
            arrived[state] = arrived[state] + exps[state];
            *to = match classes.get(state) {
                Some(&class) => arrived[state] + probability(class),
                None => A::neg_infinity(),
            };
            largest = if *to > largest { *to } else { largest };
        }
        if largest.is_finite() {
            sums.iter_mut().for_each(|sum| *sum = *sum - largest);
            self.offset += largest.to_f64().expect("a number");
        }
    }

    /// The log-probability of all alignments that end here.
    fn likelihood(&self) -> A {
        let last = FRONT + self.classes.len() - 1;
        let likelihood = Binary::LogAddExp.value(self.sums[last], self.sums[last - 1]);
        canonicalize_nan(A::of(likelihood.to_f64().expect("a number") + self.offset))
    }
}

/// The loss of an input `[time, classes]`.
fn loss<A: Element>(x: ArrayView2<'_, A>, classes: Vec<usize>) -> A {
    if x.nrows() < classes.len() / 2 {
        return A::infinity();
    }
    let mut trellis = Trellis::new(classes);
    x.rows().into_iter().for_each(|row| trellis.advance(|class| row[class]));
    -trellis.likelihood()
}

/// Adds the gradient of the loss of an input `[time, classes]`, times `scale`, to `to`: minus the
/// probability that an alignment has the class at the time. Over the states of a time step, it is
/// the softmax of the sums over the alignments up to the state and from the state on.
fn add_gradient<A: Element>(x: ArrayView2<'_, A>, classes: Vec<usize>, scale: A, if_infinite: A, to: &mut [A]) {
    let (steps, states) = (x.nrows(), classes.len());
    let mut forward = Trellis::new(classes);
    let mut sums = Vec::new();
    if steps >= states / 2 {
        sums.reserve_exact(steps * states);
        for row in x.rows() {
            forward.advance(|class| row[class]);
            sums.extend_from_slice(&forward.sums[FRONT..][..states]);
        }
    }
    if sums.is_empty() && steps > 0 || forward.likelihood() == A::neg_infinity() {
        to[..steps * x.ncols()].fill(if_infinite);
        return;
    }
    let mut backward = Trellis::new(forward.classes.iter().rev().copied().collect());
    let rows = x.rows().into_iter().zip(sums.chunks_exact_mut(states)).zip(to.chunks_exact_mut(x.ncols().max(1)));
    for ((row, both), to) in rows.rev() {
        backward.advance(|class| row[class]);
        let mut largest = A::neg_infinity();
        for (sum, &after) in both.iter_mut().zip(backward.arrived[..states].iter().rev()) {
            *sum = *sum + after;
            largest = if *sum > largest { *sum } else { largest };
        }
        both.iter_mut().for_each(|sum| *sum = *sum - largest);
        map_in_place(Unary::Exp, both);
        let factor = scale / sum_in_order(both);
        for (&class, &exp) in forward.classes.iter().zip(&*both) {
            to[class] = to[class] - exp * factor;
        }
    }
}

#[derive(Clone)]
struct CtcOp<A, D, R> {
    batch: Arc<Batch>,
    reduction: R,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank, R: Reduction> Primitive for CtcOp<A, D, R> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = R::Of<A, Ix1>;

    fn name(&self) -> &'static str {
        "ctc"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<R::Of<A, Ix1>> {
        let array = self.batch.check(x)?;
        let mut losses = vec![A::zero(); array.len_of(Axis(0))];
        parallel::for_each_mut(&mut losses, self.batch.nanoseconds(array.len_of(Axis(1))), |input, to| {
            let steps = self.batch.steps(input, array.len_of(Axis(1)));
            let x = array.index_axis(Axis(0), input);
            let loss = loss(x.slice_axis(Axis(0), (..steps).into()), self.batch.classes(input));
            let is_dropped = self.batch.zero_infinity && loss == A::infinity();
            *to = if is_dropped { A::zero() } else { loss * self.batch.scale(input) };
        });
        self.reduction.fold(Nd::from_elements(dim_of(&[losses.len()]), losses), x.shape())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let gradient = CtcGradient { batch: self.batch.clone(), types: PhantomData };
        let gradient = Layer::apply_built_in(gradient, at.operands.clone());
        let each = self.reduction.unfold(at.delta, per_input::<D>(at.values.0.shape()), None);
        (Some(Nd::binary(Binary::StrongMul, &each, &gradient)),)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        300.0
            + x.nanoseconds_to_compute()
            + x.shape()
                .first()
                .map_or(0.0, |&batch| batch as f64 * self.batch.nanoseconds(x.shape().get(1).copied().unwrap_or(0)))
    }
}

impl<A: Element, D: Rank, R: Reduction> BuiltIn for CtcOp<A, D, R> {
    const IS_PURE: bool = true;
}

/// The shape of a number for each input, which broadcasts to the log-probabilities.
fn per_input<D: Rank>(shape: &[usize]) -> D {
    dim_of(&[shape[0], 1, 1])
}

/// The gradient of each loss. The operand must have been checked.
#[derive(Clone)]
struct CtcGradient<A, D> {
    batch: Arc<Batch>,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for CtcGradient<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "ctc"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let array = self.batch.check(x)?;
        let (_, steps, classes) = array.dim();
        check_size::<A>(&[steps, self.batch.most_states().min(2 * steps + 1)])?;
        let mut gradient = filled_array(x.dim(), A::zero());
        let to = gradient.as_slice_mut().expect("in row-major order");
        let mut inputs: Vec<_> = to.chunks_exact_mut((steps * classes).max(1)).collect();
        parallel::for_each_mut(&mut inputs, 3.0 * self.batch.nanoseconds(steps), |input, to| {
            let x = array.index_axis(Axis(0), input);
            let x = x.slice_axis(Axis(0), (..self.batch.steps(input, steps)).into());
            let if_infinite = if self.batch.zero_infinity { A::zero() } else { A::nan() };
            add_gradient(x, self.batch.classes(input), self.batch.scale(input), if_infinite, to);
        });
        Ok(gradient.into())
    }

    /// The product with the Hessian of the sum of all losses, which is symmetric. It is that of a
    /// composition of operations. Where the loss is infinite, or does not depend on the input, the
    /// gradient of the first time step is NaN or 0, and so is the product.
    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let (x, shape) = (&at.operands.0, at.value.shape());
        if at.value.is_empty() {
            return (None,);
        }
        let first = at.value.0.view().into_dimensionality::<Ix3>().expect("three axes");
        let first = first.index_axis_move(Axis(1), 0);
        let kept = |row: ndarray::ArrayView1<'_, A>| match row.iter().fold(A::zero(), |sum, &x| sum + x) {
            sum if sum == A::zero() || sum.is_nan() => sum,
            _ => A::of(1.0),
        };
        let kept = first.rows().into_iter().map(kept).collect();
        let kept = Layer::constant(Nd::from_elements(per_input::<D>(shape), kept));
        let along = Nd::binary(Binary::StrongMul, &kept, at.delta);
        (Some(self.batch.composed(x, [shape[0], shape[1]]).hvp(x, &along)),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        self.pullback(&along.at(along.tangents.0.as_ref()?)).0
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        300.0 + x.nanoseconds_to_compute() + 3.0 * x.shape()[0] as f64 * self.batch.nanoseconds(x.shape()[1])
    }
}

impl<A: Element, D: Rank> BuiltIn for CtcGradient<A, D> {
    const IS_PURE: bool = true;
}
