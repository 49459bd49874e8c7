//! Triangles, diagonals, rolls and cumulative sums. All are linear.

use crate::device::{Comparison, Instruction, Program, ScanOp, View};
use crate::kernels::{around, fill, in_memory_order, inverse, scan, zip_in_parts};
use crate::ops::axes::axis_of;
use crate::ops::reshape::reshape_to;
use crate::tensor::{Element, HasRank, Nd, Rank, check_size, filled_array};
use dl_core::{Along, At, Binary, BuiltIn, Differentiable, Error, Layer, Primitive, Result, buffers};
use ndarray::{Array1, ArrayD, ArrayView2, Axis, Ix1, Ix2};
use std::marker::PhantomData;

/// Triangles, diagonals, rolls and cumulative sums.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{ArrangeOps, Nd};
/// let x = Nd::from([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(x.tril(0).predict().wait()?, Nd::from([[1.0, 0.0], [3.0, 4.0]]));
/// assert_eq!(x.cumsum(0).predict().wait()?, Nd::from([[1.0, 2.0], [4.0, 6.0]]));
/// # dl_core::Result::Ok(())
/// ```
pub trait ArrangeOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// The lower triangle of each matrix (the last two axes), up to and including the diagonal `k`;
    /// zeros elsewhere. Diagonal 0 is the main one, positive `k` are above it.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{ArrangeOps, Nd};
    /// let x = Nd::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.tril(-1).predict().wait()?, Nd::from([[0.0, 0.0], [3.0, 0.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when there are fewer than two axes.
    #[track_caller]
    fn tril(&self, k: isize) -> Layer<Nd<A, D>> {
        triangle(self.layer(), true, k, A::zero())
    }

    /// The upper triangle of each matrix (the last two axes), from the diagonal `k` on; zeros
    /// elsewhere. Diagonal 0 is the main one, positive `k` are above it.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{ArrangeOps, Nd};
    /// let x = Nd::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.triu(0).predict().wait()?, Nd::from([[1.0, 2.0], [0.0, 4.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when there are fewer than two axes.
    #[track_caller]
    fn triu(&self, k: isize) -> Layer<Nd<A, D>> {
        triangle(self.layer(), false, k, A::zero())
    }

    /// The square matrix with this vector, of shape `[n]`, on its diagonal `k`, and zeros
    /// elsewhere: shape `[n + |k|, n + |k|]`. Diagonal 0 is the main one, positive `k` are above
    /// it.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{ArrangeOps, Nd};
    /// assert_eq!(Nd::from([1.0, 2.0]).diag(0).predict().wait()?, Nd::from([[1.0, 0.0], [0.0, 2.0]]));
    /// assert_eq!(Nd::from([1.0]).diag(1).predict().wait()?, Nd::from([[0.0, 1.0], [0.0, 0.0]]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn diag(&self, k: isize) -> Layer<Nd<A, Ix2>>
    where
        D: HasRank<1>,
    {
        Layer::apply_built_in(Diag { k, shape: None, types: PhantomData }, (self.layer(),))
    }

    /// The diagonal `k` of a matrix, a vector. Diagonal 0 is the main one, positive `k` are above
    /// it.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{ArrangeOps, Nd};
    /// let x = Nd::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.diagonal(0).predict().wait()?, Nd::from([1.0, 4.0]));
    /// assert_eq!(x.diagonal(-1).predict().wait()?, Nd::from([3.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[track_caller]
    fn diagonal(&self, k: isize) -> Layer<Nd<A, Ix1>>
    where
        D: HasRank<2>,
    {
        Layer::apply_built_in(Diagonal { k, types: PhantomData }, (self.layer(),))
    }

    /// Shifts the elements by `shift` positions along an axis, cyclically: elements shifted beyond
    /// the last position reappear at the first one. A negative axis counts from the last one. The
    /// axis comes first, as in every method here; in PyTorch and NumPy the shift does.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{ArrangeOps, Nd};
    /// assert_eq!(Nd::from([1.0, 2.0, 3.0]).roll(0, 1).predict().wait()?, Nd::from([3.0, 1.0, 2.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn roll(&self, axis: isize, shift: isize) -> Layer<Nd<A, D>> {
        Layer::apply_built_in(Roll { axis, shift, types: PhantomData }, (self.layer(),))
    }

    /// The cumulative sums along an axis: `yᵢ = x₀ + … + xᵢ`. A negative axis counts from the last
    /// one. The sums are compensated (Neumaier, 1974).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{ArrangeOps, Nd};
    /// assert_eq!(Nd::from([1.0, 2.0, 3.0]).cumsum(0).predict().wait()?, Nd::from([1.0, 3.0, 6.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such axis.
    #[track_caller]
    fn cumsum(&self, axis: isize) -> Layer<Nd<A, D>> {
        Layer::apply_built_in(Cumsum { axis, from_end: false, types: PhantomData }, (self.layer(),))
    }
}

impl<X, A: Element, D: Rank> ArrangeOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

/// The estimated time to copy `len` elements, in nanoseconds.
fn cost(len: usize) -> f64 {
    200.0 + len as f64
}

/// The lower or upper triangle of each matrix, with `other` elsewhere.
#[track_caller]
pub(crate) fn triangle<A: Element, D: Rank>(x: Layer<Nd<A, D>>, lower: bool, k: isize, other: A) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(Triangle { lower, k, other, rank: PhantomData }, (x,))
}

#[derive(Clone)]
struct Triangle<A, D> {
    lower: bool,
    k: isize,
    other: A,
    rank: PhantomData<D>,
}

impl<A: Element, D: Rank> Primitive for Triangle<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        if self.lower { "tril" } else { "triu" }
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let axes = x.shape().len();
        if axes < 2 {
            return Err(Error::shape(format!(
                "a tensor of shape {:?} has no triangles: it must have at least two axes",
                x.shape()
            )));
        }
        if let Some(view) = x.0.on_device()? {
            return self.on_device(view).map(Nd::from_view);
        }
        let (rows, columns) = (x.shape()[axes - 2], x.shape()[axes - 1].max(1));
        let whole = x.0.as_standard_layout();
        let whole = whole.as_slice().expect("in row-major order");
        let kept = fill(whole.len(), columns, |first, to| {
            for (row, to) in (first / columns..).zip(to.chunks_exact_mut(columns)) {
                // the first column above the diagonal `k`
                let above = ((row % rows) as isize).saturating_add(self.k).saturating_add(isize::from(self.lower));
                let (below, above) = to.split_at_mut(usize::try_from(above).unwrap_or(0).min(columns));
                let from = &whole[row * columns..][..columns];
                let (copied, from, dropped) =
                    if self.lower { (below, from, above) } else { (above, &from[below.len()..], below) };
                copied.copy_from_slice(&from[..copied.len()]);
                dropped.fill(self.other);
            }
        });
        Ok(Nd::from_elements(x.dim(), kept))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (Some(triangle(at.delta.clone(), self.lower, self.k, A::zero())),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        self.pullback(&along.at(along.tangents.0.as_ref()?)).0
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        cost(x.len())
    }
}

impl<A: Element, D: Rank> Triangle<A, D> {
    fn on_device(&self, x: View) -> Result<View> {
        let (device, shape) = (x.device().clone(), x.shape.clone());
        let mut program = Program::new(A::ELEMENT);
        let [row, column] = [2, 1].map(|last| program.push(Instruction::Position(shape.len() - last)));
        let k = program.number(self.k as f64);
        let diagonal = program.binary(Binary::Add, row, k);
        let op = if self.lower { Comparison::LessEqual } else { Comparison::GreaterEqual };
        let mask = program.compare(op, column, diagonal);
        let (x, other) = (program.load(x), program.number(self.other.device_number()));
        program.select(mask, x, other);
        program.run(&device, A::ELEMENT, &shape)
    }
}

impl<A: Element, D: Rank> BuiltIn for Triangle<A, D> {
    const IS_PURE: bool = true;
}

/// The positions on the diagonal `k` of a matrix of this shape.
fn positions(k: isize, [rows, columns]: [usize; 2]) -> impl Iterator<Item = [usize; 2]> {
    let (down, right) = (k.min(0).unsigned_abs(), k.max(0).unsigned_abs());
    let length = rows.saturating_sub(down).min(columns.saturating_sub(right));
    (0..length).map(move |i| [i + down, i + right])
}

/// A matrix with a vector on a diagonal.
#[derive(Clone)]
struct Diag<A, D> {
    k: isize,
    /// The shape of the matrix; by default, the smallest square that holds the diagonal.
    shape: Option<[usize; 2]>,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for Diag<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, Ix2>;

    fn name(&self) -> &'static str {
        "diag"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, Ix2>> {
        if let Some(view) = x.0.on_device()?.filter(|view| view.shape.len() == 1) {
            let side = view.len().saturating_add(self.k.unsigned_abs());
            let shape = self.shape.unwrap_or([side; 2]);
            check_size::<A>(&shape)?;
            let matrix = View::new(view.device(), A::ELEMENT, &shape)?;
            matrix.fill(0.0)?;
            view.copy_to(&matrix.clone().diagonal(self.k))?;
            return Ok(Nd::from_view(matrix));
        }
        let Ok(vector) = x.0.view().into_dimensionality::<Ix1>() else {
            return Err(Error::shape(format!("a tensor of shape {:?} is not a vector", x.shape())));
        };
        let side = vector.len().saturating_add(self.k.unsigned_abs());
        let shape = self.shape.unwrap_or([side; 2]);
        check_size::<A>(&shape)?;
        let mut matrix = filled_array(ndarray::Dim(shape), A::zero());
        for (position, &element) in positions(self.k, shape).zip(&vector) {
            matrix[position] = element;
        }
        Ok(matrix.into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let delta: Layer<Nd<A, Ix1>> =
            Layer::apply_built_in(Diagonal { k: self.k, types: PhantomData }, (at.delta.clone(),));
        (Some(reshape_to(&delta, at.values.0.dim())),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, Ix2>>> {
        Some(Layer::apply_built_in(self.clone(), (along.tangents.0.clone()?,)))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        cost(x.len().saturating_mul(x.len()))
    }
}

impl<A: Element, D: Rank> BuiltIn for Diag<A, D> {
    const IS_PURE: bool = true;
}

/// A diagonal of a matrix.
#[derive(Clone)]
struct Diagonal<A, D> {
    k: isize,
    types: PhantomData<(A, D)>,
}

fn as_matrix<A: Element, D: Rank>(x: &Nd<A, D>) -> Result<ArrayView2<'_, A>> {
    x.0.view()
        .into_dimensionality()
        .map_err(|_| Error::shape(format!("a tensor of shape {:?} is not a matrix", x.shape())))
}

impl<A: Element, D: Rank> Primitive for Diagonal<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, Ix1>;

    fn name(&self) -> &'static str {
        "diagonal"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, Ix1>> {
        if let Some(view) = x.0.on_device()?.filter(|view| view.shape.len() == 2) {
            return Ok(Nd::from_view(view.diagonal(self.k)));
        }
        let matrix = as_matrix(x)?;
        let (rows, columns) = matrix.dim();
        Ok(positions(self.k, [rows, columns]).map(|position| matrix[position]).collect::<Array1<A>>().into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let &[rows, columns] = at.values.0.shape() else { unreachable!("the rank was checked") };
        let delta: Layer<Nd<A, Ix2>> = Layer::apply_built_in(
            Diag { k: self.k, shape: Some([rows, columns]), types: PhantomData },
            (at.delta.clone(),),
        );
        (Some(reshape_to(&delta, at.values.0.dim())),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, Ix1>>> {
        Some(Layer::apply_built_in(self.clone(), (along.tangents.0.clone()?,)))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        cost(x.shape().first().copied().unwrap_or(0))
    }
}

impl<A: Element, D: Rank> BuiltIn for Diagonal<A, D> {
    const IS_PURE: bool = true;
}

#[derive(Clone)]
struct Roll<A, D> {
    axis: isize,
    shift: isize,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for Roll<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "roll"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let axis = axis_of(self.axis, x.shape())?;
        let length = x.shape()[axis];
        if length == 0 {
            return Ok(x.clone());
        }
        let shift = self.shift.rem_euclid(length as isize) as usize;
        if let Some(view) = x.0.on_device()? {
            let rolled = View::new(view.device(), A::ELEMENT, x.shape())?;
            let part = |view: &View, start: usize, length: usize| view.clone().sliced(axis, start, length, 1);
            part(&view, length - shift, shift).copy_to(&part(&rolled, 0, shift))?;
            part(&view, 0, length - shift).copy_to(&part(&rolled, shift, length - shift))?;
            return Ok(Nd::from_view(rolled));
        }
        let mut rolled: Nd<A, D> = Nd::from_elements(x.dim(), buffers::take_filled(x.len()));
        let (start, end) = rolled.0.array_mut().view_mut().into_dyn().split_at(Axis(axis), shift);
        let (first, last) = x.0.view().into_dyn().split_at(Axis(axis), length - shift);
        zip_in_parts(start, last, |to, &x| *to = x);
        zip_in_parts(end, first, |to, &x| *to = x);
        Ok(rolled)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let shape = at.values.0.shape();
        let length = shape[axis_of(self.axis, shape).expect("the axis was checked")] as isize;
        let shift = if length == 0 { 0 } else { -self.shift.rem_euclid(length) };
        let back = Roll { axis: self.axis, shift, types: PhantomData };
        (Some(Layer::apply_built_in(back, (at.delta.clone(),))),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        Some(Layer::apply_built_in(self.clone(), (along.tangents.0.clone()?,)))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        cost(x.len())
    }
}

impl<A: Element, D: Rank> BuiltIn for Roll<A, D> {
    const IS_PURE: bool = true;
}

#[derive(Clone)]
struct Cumsum<A, D> {
    axis: isize,
    /// Whether to sum from the last element to the first.
    from_end: bool,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for Cumsum<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "cumsum"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let axis = axis_of(self.axis, x.shape())?;
        if let Some(view) = x.0.on_device()? {
            return view.scan(ScanOp::Sum, None, axis, self.from_end).map(Nd::from_view);
        }
        let (ordered, order) = in_memory_order(x.0.view().into_dyn());
        let place = order.iter().position(|&other| other == axis).expect("it is one of the axes");
        let mut sums = buffers::take_filled(ordered.len());
        let elements = (ordered.as_slice().expect("in row-major order"), &mut sums[..]);
        // the second state accumulates the rounding errors of the sum (Neumaier, 1974)
        let zeros = (A::zero(), A::zero());
        scan(
            elements,
            around(ordered.shape(), place),
            self.from_end,
            1.0,
            zeros,
            #[inline(always)]
            |_, x, to: &mut A, sum: &mut A, error: &mut A| {
                let next = *sum + x;
                let lost = if sum.abs() >= x.abs() { (*sum - next) + x } else { (x - next) + *sum };
                *error = if lost.is_finite() { *error + lost } else { *error };
                *sum = next;
                *to = next + *error;
            },
        );
        let sums = ArrayD::from_shape_vec(ordered.shape(), sums).expect("as many elements");
        let sums = sums.permuted_axes(inverse(&order));
        Ok(sums.into_dimensionality().expect("the same rank").into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let back = Cumsum { axis: self.axis, from_end: !self.from_end, types: PhantomData };
        (Some(Layer::apply_built_in(back, (at.delta.clone(),))),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        Some(Layer::apply_built_in(self.clone(), (along.tangents.0.clone()?,)))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        cost(x.len())
    }
}

impl<A: Element, D: Rank> BuiltIn for Cumsum<A, D> {
    const IS_PURE: bool = true;
}
