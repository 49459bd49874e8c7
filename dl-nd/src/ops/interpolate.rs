//! Separable linear maps along the spatial axes: averages under windows, adaptive pooling,
//! upsampling.

use crate::device::{self, View, Work};
use crate::fusion::{CHUNK_LEN, RUN_LEN, add_assign, table};
use crate::kernels::{Window, around};
use crate::ops::window::{check_batch, size};
use crate::tensor::{Element, HasRank, Nd, Rank, tensor_of_shape, zeros};
use dl_core::simd::vectorized;
use dl_core::{Along, At, BuiltIn, Differentiable, Error, Layer, Primitive, Result, buffers, parallel};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

macro_rules! nearest {
    ($($name:ident $N:literal $rank:literal $axes:literal $from:literal $to:literal;)*) => {$(
        #[doc = concat!("The nearest elements of `", $axes, "` at so many positions along each spatial axis:")]
        /// element `⌊i·length / n⌋` for element `i` of `n`. PyTorch's
        /// `interpolate(mode="nearest")`.
        ///
        #[doc = concat!("```\n# use dl_core::Differentiable; use dl_nd::{Nd, ResampleOps};\nlet y = Nd::full(", $from, ", 1.0_f32).", stringify!($name))]
        #[doc = concat!("([4; ", $N, "]);\nassert_eq!(y.predict().wait()?, Nd::full(", $to, ", 1.0));\n# dl_core::Result::Ok(())\n```")]
        ///
        /// # Errors
        /// When the length of a spatial axis, or its new length, is 0.
        #[track_caller]
        fn $name(&self, size: [usize; $N]) -> Layer<Nd<A, D>>
        where
            D: HasRank<$rank>,
        {
            resample(stringify!($name), size.map(|length| AxisMap::Nearest { length }), self.layer())
        }
    )*};
}

/// Adaptive average pooling and upsampling to a given size, on layers, weights and plain tensors.
///
/// The axes of batch and channels are unchanged.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, ResampleOps};
/// let x = Nd::from_vec([1, 1, 2, 2], vec![1.0, 2.0, 3.0, 4.0])?;
/// assert_eq!(x.adaptive_avg_pool2d([1, 1]).predict().wait()?, Nd::full([1, 1, 1, 1], 2.5));
/// assert_eq!(x.upsample_bilinear([4, 4], false).predict().wait()?.shape(), [1, 1, 4, 4]);
/// # dl_core::Result::Ok(())
/// ```
pub trait ResampleOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// Adaptive average pooling over one axis: `[batch, channels, length]` gives
    /// `[batch, channels, size]`. See [`adaptive_avg_pool2d`](ResampleOps::adaptive_avg_pool2d).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ResampleOps};
    /// let y = Nd::from([[[1.0, 3.0, 5.0]]]).adaptive_avg_pool1d([2]);
    /// assert_eq!(y.predict().wait()?, Nd::from([[[2.0, 4.0]]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when the spatial axis has length 0, unless `size` is 0.
    #[track_caller]
    fn adaptive_avg_pool1d(&self, size: [usize; 1]) -> Layer<Nd<A, D>>
    where
        D: HasRank<3>,
    {
        resample("adaptive_avg_pool1d", size.map(|length| AxisMap::Adaptive { length }), self.layer())
    }

    /// Adaptive average pooling over two axes: `[batch, channels, height, width]` gives
    /// `[batch, channels, size[0], size[1]]`. Along each axis, element `i` of `n` is the mean of
    /// the elements from `⌊i·length / n⌋` (included) to `⌈(i + 1)·length / n⌉` (excluded), as in
    /// PyTorch.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ResampleOps};
    /// let x = Nd::from_vec([1, 1, 2, 2], vec![1.0, 2.0, 3.0, 4.0])?;
    /// assert_eq!(x.adaptive_avg_pool2d([1, 2]).predict().wait()?, Nd::from_vec([1, 1, 1, 2], vec![2.0, 3.0])?);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when a spatial axis has length 0, unless its new length is 0, too.
    #[track_caller]
    fn adaptive_avg_pool2d(&self, size: [usize; 2]) -> Layer<Nd<A, D>>
    where
        D: HasRank<4>,
    {
        resample("adaptive_avg_pool2d", size.map(|length| AxisMap::Adaptive { length }), self.layer())
    }

    /// Adaptive average pooling over three axes: `[batch, channels, depth, height, width]` gives
    /// `[batch, channels, size[0], size[1], size[2]]`. See
    /// [`adaptive_avg_pool2d`](ResampleOps::adaptive_avg_pool2d).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ResampleOps};
    /// let y = Nd::full([1, 2, 5, 4, 3], 1.0_f32).adaptive_avg_pool3d([2, 2, 2]);
    /// assert_eq!(y.predict().wait()?.shape(), [1, 2, 2, 2, 2]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// A shape error when a spatial axis has length 0, unless its new length is 0, too.
    #[track_caller]
    fn adaptive_avg_pool3d(&self, size: [usize; 3]) -> Layer<Nd<A, D>>
    where
        D: HasRank<5>,
    {
        resample("adaptive_avg_pool3d", size.map(|length| AxisMap::Adaptive { length }), self.layer())
    }

    /// Linear interpolation: `[batch, channels, length]` gives `[batch, channels, size]`. See
    /// [`upsample_bilinear`](ResampleOps::upsample_bilinear).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ResampleOps};
    /// let x = Nd::from([[[0.0, 4.0]]]);
    /// assert_eq!(x.upsample_linear([4], false).predict().wait()?, Nd::from([[[0.0, 1.0, 3.0, 4.0]]]));
    /// assert_eq!(x.upsample_linear([5], true).predict().wait()?, Nd::from([[[0.0, 1.0, 2.0, 3.0, 4.0]]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the length of the spatial axis, or its new length, is 0.
    #[track_caller]
    fn upsample_linear(&self, size: [usize; 1], align_corners: bool) -> Layer<Nd<A, D>>
    where
        D: HasRank<3>,
    {
        resample("upsample_linear", size.map(|length| AxisMap::Linear { length, align_corners }), self.layer())
    }

    /// Bilinear interpolation: `[batch, channels, height, width]` gives
    /// `[batch, channels, size[0], size[1]]`. PyTorch's `interpolate(mode="bilinear")`.
    ///
    /// Along each axis, element `i` of `n` is interpolated at a position of the input. With
    /// `align_corners`, the position is `i·(length − 1) / (n − 1)`, so that the centres of the
    /// first and last elements coincide. Without, it is `(i + ½)·length / n − ½`, but at least 0,
    /// so that the outer edges of the first and last elements coincide. Downsampling applies no
    /// antialiasing filter.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ResampleOps};
    /// let x = Nd::from_vec([1, 1, 2, 2], vec![0.0, 2.0, 4.0, 6.0])?;
    /// let y = x.upsample_bilinear([3, 3], true);
    /// assert_eq!(y.predict().wait()?, Nd::from_vec([1, 1, 3, 3], vec![0.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 5.0, 6.0])?);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the length of a spatial axis, or its new length, is 0.
    #[track_caller]
    fn upsample_bilinear(&self, size: [usize; 2], align_corners: bool) -> Layer<Nd<A, D>>
    where
        D: HasRank<4>,
    {
        resample("upsample_bilinear", size.map(|length| AxisMap::Linear { length, align_corners }), self.layer())
    }

    /// Trilinear interpolation: `[batch, channels, depth, height, width]` gives
    /// `[batch, channels, size[0], size[1], size[2]]`. See
    /// [`upsample_bilinear`](ResampleOps::upsample_bilinear).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ResampleOps};
    /// let y = Nd::full([1, 2, 2, 2, 2], 1.0_f32).upsample_trilinear([4, 3, 2], false);
    /// assert_eq!(y.predict().wait()?, Nd::full([1, 2, 4, 3, 2], 1.0));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the length of a spatial axis, or its new length, is 0.
    #[track_caller]
    fn upsample_trilinear(&self, size: [usize; 3], align_corners: bool) -> Layer<Nd<A, D>>
    where
        D: HasRank<5>,
    {
        resample("upsample_trilinear", size.map(|length| AxisMap::Linear { length, align_corners }), self.layer())
    }

    /// Bicubic interpolation: `[batch, channels, height, width]` gives
    /// `[batch, channels, size[0], size[1]]`, by cubic convolution with `a = −¾` (Keys, 1981). The
    /// positions are those of [`upsample_bilinear`](ResampleOps::upsample_bilinear), but may be
    /// below 0. PyTorch's `interpolate(mode="bicubic")`.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, ResampleOps};
    /// let x = Nd::from_vec([1, 1, 1, 3], vec![0.0, 2.0, 4.0])?;
    /// let y = x.upsample_bicubic([1, 5], true).predict().wait()?;
    /// assert_eq!((y[[0, 0, 0, 0]], y[[0, 0, 0, 2]], y[[0, 0, 0, 4]]), (0.0, 2.0, 4.0));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the length of a spatial axis, or its new length, is 0.
    #[track_caller]
    fn upsample_bicubic(&self, size: [usize; 2], align_corners: bool) -> Layer<Nd<A, D>>
    where
        D: HasRank<4>,
    {
        resample("upsample_bicubic", size.map(|length| AxisMap::Cubic { length, align_corners }), self.layer())
    }

    nearest! {
        upsample_nearest1d 1 3 "[batch, channels, length]" "[1, 1, 2]" "[1, 1, 4]";
        upsample_nearest2d 2 4 "[batch, channels, height, width]" "[1, 1, 2, 3]" "[1, 1, 4, 4]";
        upsample_nearest3d 3 5 "[batch, channels, depth, height, width]" "[1, 1, 2, 3, 5]" "[1, 1, 4, 4, 4]";
    }
}

impl<X, A: Element, D: Rank> ResampleOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

/// A linear map along one axis.
#[derive(Clone, Copy)]
pub(crate) enum AxisMap {
    /// The mean under a window.
    Mean { window: Window, ceil: bool, count_include_pad: bool },
    /// The mean of each of `length` bins.
    Adaptive { length: usize },
    /// Linear interpolation at `length` positions.
    Linear { length: usize, align_corners: bool },
    /// Cubic convolution at `length` positions.
    Cubic { length: usize, align_corners: bool },
    /// The nearest element for each of `length` positions.
    Nearest { length: usize },
}

impl AxisMap {
    /// The length of the axis after the map.
    pub(crate) fn outputs(self, shape: &[usize], axis: usize) -> Result<usize> {
        let is_empty = shape[axis] == 0;
        match self {
            AxisMap::Mean { window, ceil, .. } => window.outputs(shape, axis, ceil),
            AxisMap::Adaptive { length } if length == 0 || !is_empty => Ok(length),
            AxisMap::Linear { length: 0, .. } | AxisMap::Cubic { length: 0, .. } | AxisMap::Nearest { length: 0 } => {
                Err(Error::invalid(format!("a new length of 0 along axis {axis}; it must be at least 1")))
            }
            AxisMap::Linear { length, .. } | AxisMap::Cubic { length, .. } | AxisMap::Nearest { length }
                if !is_empty =>
            {
                Ok(length)
            }
            _ => Err(Error::shape(format!("axis {axis} of {shape:?} has length 0"))),
        }
    }

    /// The terms of output element `at` of `outputs`: the indices of input elements, of `length`,
    /// with their nonzero factors.
    fn terms(self, at: usize, length: usize, outputs: usize) -> Vec<(usize, f64)> {
        let mean = |positions: &mut dyn ExactSizeIterator<Item = usize>, count: usize| -> Vec<(usize, f64)> {
            positions.map(|place| (place, 1.0 / count as f64)).collect()
        };
        match self {
            AxisMap::Mean { window, count_include_pad, .. } => {
                let mut positions = window.positions(at, length);
                let count = if count_include_pad { window.taps(at, length) } else { positions.len() };
                mean(&mut positions, count)
            }
            AxisMap::Adaptive { .. } => {
                let mut bin = bin(at, length, outputs);
                let count = bin.len();
                mean(&mut bin, count)
            }
            AxisMap::Linear { align_corners, .. } => {
                let place = place(at, length, outputs, align_corners).max(0.0);
                let first = (place as usize).min(length - 1);
                let rest = if first + 1 < length { place - first as f64 } else { 0.0 };
                let mut terms = vec![(first, 1.0 - rest), (first + 1, rest)];
                terms.retain(|&(_, factor)| factor != 0.0);
                terms
            }
            AxisMap::Cubic { align_corners, .. } => {
                let place = place(at, length, outputs, align_corners);
                let taps = (-1..=2).map(|tap| place.floor() + f64::from(tap));
                // elements beyond either end are those at the end
                taps.map(|tap| (tap.max(0.0) as usize, cubic(tap - place)))
                    .map(|(tap, f)| (tap.min(length - 1), f))
                    .collect()
            }
            AxisMap::Nearest { .. } => vec![(bin(at, length, outputs).start, 1.0)],
        }
    }

    /// The matrix of the map as sparse rows.
    fn matrix(self, length: usize, outputs: usize) -> Vec<Vec<(usize, f64)>> {
        (0..outputs).map(|at| self.terms(at, length, outputs)).collect()
    }
}

/// The number of terms up to which the error of a rounded factor of a mean does not matter.
const SHORT: usize = 16;

/// A row of a sparse matrix: the columns of its terms with their factors, and the divisor of their
/// sum.
struct Row<A> {
    terms: Vec<(usize, A)>,
    divisor: A,
}

impl<A: Element> Row<A> {
    /// A row with these factors. Those of a long mean are rounded, each by the same error, so its
    /// sum is divided instead.
    fn of(terms: Vec<(usize, f64)>) -> Row<A> {
        let factor = terms.first().map_or(1.0, |&(_, factor)| factor);
        let count = factor.recip().round();
        if terms.len() > SHORT && 1.0 / count == factor && terms.iter().all(|term| term.1 == factor) {
            let one = A::of(1.0);
            return Row { terms: terms.into_iter().map(|(place, _)| (place, one)).collect(), divisor: A::of(count) };
        }
        Row { terms: terms.into_iter().map(|(place, factor)| (place, A::of(factor))).collect(), divisor: A::of(1.0) }
    }

    /// The terms with the divisor in their factors, for a sum that overflows.
    fn divided(&self) -> Vec<(usize, A)> {
        self.terms.iter().map(|&(place, factor)| (place, factor / self.divisor)).collect()
    }
}

/// The elements of bin `at` of `outputs`.
pub(crate) fn bin(at: usize, length: usize, outputs: usize) -> Range<usize> {
    // in 128 bits, as the products may overflow
    let (at, length, outputs) = (at as u128, length as u128, outputs as u128);
    (at * length / outputs) as usize..((at + 1) * length).div_ceil(outputs) as usize
}

/// The position in the input, of this length, at which output element `at` is interpolated.
fn place(at: usize, length: usize, outputs: usize, align_corners: bool) -> f64 {
    let (at, length, outputs) = (at as f64, length as f64, outputs as f64);
    match align_corners {
        true if outputs == 1.0 => 0.0,
        true => at * (length - 1.0) / (outputs - 1.0),
        false => ((2.0 * at + 1.0) * length - outputs) / (2.0 * outputs),
    }
}

/// The weight of an element at this distance in cubic convolution (Keys, 1981), with `a = −¾`.
fn cubic(distance: f64) -> f64 {
    const A: f64 = -0.75;
    match distance.abs() {
        x @ ..=1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
        x => ((x - 5.0) * x + 8.0) * x * A - 4.0 * A,
    }
}

/// The transpose of a sparse matrix with `columns` columns.
fn transpose_rows(rows: &[Vec<(usize, f64)>], columns: usize) -> Vec<Vec<(usize, f64)>> {
    let mut transposed = vec![Vec::new(); columns];
    for (row, terms) in rows.iter().enumerate() {
        for &(column, factor) in terms {
            transposed[column].push((row, factor));
        }
    }
    transposed
}

/// Applies one map along each spatial axis.
#[track_caller]
pub(crate) fn resample<A: Element, D: Rank, const N: usize>(
    name: &'static str,
    maps_by_axis: [AxisMap; N],
    x: Layer<Nd<A, D>>,
) -> Layer<Nd<A, D>> {
    Layer::apply_built_in(
        Resample { name, maps_by_axis: maps_by_axis.into(), back_to: None, element: PhantomData },
        (x,),
    )
}

#[derive(Clone)]
struct Resample<A, D> {
    name: &'static str,
    /// One map for each spatial axis.
    maps_by_axis: Arc<[AxisMap]>,
    /// The shape of the result, for the transposed map.
    back_to: Option<D>,
    element: PhantomData<A>,
}

impl<A: Element, D: Rank> Resample<A, D> {
    /// The shape of the result.
    fn shape(&self, from: &[usize]) -> Result<Vec<usize>> {
        if let Some(shape) = &self.back_to {
            return Ok(shape.slice().to_vec());
        }
        check_batch("input", from, self.maps_by_axis.len())?;
        let mut shape = from.to_vec();
        for (axis, map) in (2..).zip(&*self.maps_by_axis) {
            shape[axis] = map.outputs(from, axis)?;
        }
        size::<A>(&shape)?;
        Ok(shape)
    }
}

impl<A: Element, D: Rank> Primitive for Resample<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let mut shape = x.shape().to_vec();
        let wanted = self.shape(&shape)?;
        if let (0, Some(view)) = (x.len() * wanted.iter().product::<usize>(), x.0.on_device()?) {
            let zeros = View::new(view.device(), A::ELEMENT, &wanted)?;
            zeros.fill(0.0)?;
            return Ok(Nd::from_view(zeros));
        }
        if x.is_empty() || wanted.contains(&0) {
            return Ok(tensor_of_shape(&wanted, zeros(wanted.iter().product())));
        }
        let mut maps: Vec<_> = (2..).zip(&*self.maps_by_axis).collect();
        if wanted.iter().product::<usize>() > x.len() {
            // the last axis is the most expensive, so it comes first, while the tensor is small
            maps.reverse();
        }
        // maps that shrink the tensor come before all others
        maps.sort_by_key(|&(axis, _)| wanted[axis] >= shape[axis]);
        let rows_of = |map: AxisMap, from: usize, to: usize| -> Vec<Row<A>> {
            let rows = match self.back_to {
                None => map.matrix(from, to),
                Some(_) => transpose_rows(&map.matrix(to, from), to),
            };
            rows.into_iter().map(Row::of).collect()
        };
        if let Some(mut view) = x.0.on_device()? {
            for (axis, &map) in maps {
                view = apply_rows_on_device(&rows_of(map, shape[axis], wanted[axis]), view, axis)?;
                shape[axis] = wanted[axis];
            }
            return Ok(Nd::from_view(view));
        }
        let x = x.0.as_standard_layout();
        let mut elements: Option<Vec<A>> = None;
        for (axis, &map) in maps {
            let rows = rows_of(map, shape[axis], wanted[axis]);
            let x = elements.as_deref().unwrap_or_else(|| x.as_slice().expect("in standard layout"));
            elements = Some(apply_rows(&rows, x, &shape, axis));
            shape[axis] = wanted[axis];
        }
        Ok(tensor_of_shape(&wanted, elements.expect("there is a spatial axis")))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        let back_to = if self.back_to.is_none() { Some(at.values.0.dim()) } else { None };
        let transposed =
            Resample { name: self.name, maps_by_axis: self.maps_by_axis.clone(), back_to, element: PhantomData };
        (Some(Layer::apply_built_in(transposed, (at.delta.clone(),))),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        Some(Layer::apply_built_in(self.clone(), (along.tangents.0.clone()?,)))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        let wanted = self.shape(x.shape()).map_or(0, |shape| shape.iter().product());
        200.0 + self.maps_by_axis.len() as f64 * 2.0 * x.len().max(wanted) as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for Resample<A, D> {}

/// The number of contiguous lanes that are computed together if sums are long: each sum waits for
/// its additions.
const LANES: usize = 8;

/// The product of a sparse matrix with each vector along an axis.
fn apply_rows<A: Element>(rows: &[Row<A>], x: &[A], shape: &[usize], axis: usize) -> Vec<A> {
    let [before, length, inner] = around(shape, axis);
    let (outputs, terms) = (rows.len(), rows.iter().map(|row| &row.terms[..]).collect::<Vec<_>>().concat());
    let lanes = if inner == 1 && terms.len() > LANES * outputs { LANES } else { 1 };
    let nanoseconds = 0.5 * (terms.len() * inner) as f64;
    let each = (CHUNK_LEN / (length.max(outputs) * inner)).max(1).next_multiple_of(lanes);
    let mut y = buffers::take_filled(before * outputs * inner);
    let mut parts: Vec<_> = x.chunks(each * length * inner).zip(y.chunks_mut(each * outputs * inner)).collect();
    parallel::for_each_mut(&mut parts, nanoseconds * each as f64, |_, (x, y)| {
        if inner == 1 {
            let groups = x.chunks(lanes * length).zip(y.chunks_mut(lanes * outputs));
            return groups.for_each(|(x, y)| match x.len() == LANES * length {
                true => apply_to_lanes::<A, LANES>(rows, &terms, x, y),
                false => {
                    let lanes = x.chunks(length).zip(y.chunks_mut(outputs));
                    lanes.for_each(|(x, y)| apply_to_lanes::<A, 1>(rows, &terms, x, y));
                }
            });
        }
        for (x, y) in x.chunks(length * inner).zip(y.chunks_mut(outputs * inner)) {
            y.fill(A::zero());
            for (row, y) in rows.iter().zip(y.chunks_exact_mut(inner)) {
                add_row(&row.terms, x, y);
                if row.divisor != A::of(1.0) {
                    y.iter_mut().for_each(|y| *y = *y / row.divisor);
                    if y.iter().any(|y| !y.is_finite()) {
                        let mut sums = zeros(y.len());
                        add_row(&row.divided(), x, &mut sums);
                        y.iter_mut().zip(sums).filter(|(y, _)| !y.is_finite()).for_each(|(y, sum)| *y = sum);
                    }
                }
            }
        }
    });
    y
}

/// The same on a device, to which the matrix is copied.
fn apply_rows_on_device<A: Element>(rows: &[Row<A>], x: View, axis: usize) -> Result<View> {
    let of = x.contiguous()?;
    let device = of.device().clone();
    let ([before, length, inner], outputs) = (around(&of.shape, axis), rows.len());
    let mut starts = vec![0];
    rows.iter().for_each(|row| starts.push(starts[starts.len() - 1] + row.terms.len()));
    starts.extend(rows.iter().flat_map(|row| row.terms.iter().map(|&(place, _)| place)));
    let divisors = rows.iter().map(|row| row.divisor);
    let factors: Vec<A> = divisors.chain(rows.iter().flat_map(|row| row.terms.iter().map(|term| term.1))).collect();
    let (starts, factors) = (table(&device, starts)?, table(&device, factors)?);
    let mut shape = of.shape.clone();
    shape[axis] = outputs;
    let to = View::new(&device, A::ELEMENT, &shape)?;
    let (starts, factors) = (&starts, &factors);
    let rows = device::SparseProduct { of: &of, to: &to, starts, factors, before, length, outputs, inner };
    device.launch(&Work::SparseProduct(rows))?;
    Ok(to)
}

/// The product of a sparse matrix with contiguous lanes. `terms` are those of all rows.
fn apply_to_lanes<A: Element, const N: usize>(rows: &[Row<A>], mut terms: &[(usize, A)], x: &[A], y: &mut [A]) {
    let (length, outputs) = (x.len() / N, rows.len());
    let lanes: [&[A]; N] = std::array::from_fn(|lane| &x[lane * length..][..length]);
    for (at, row) in rows.iter().enumerate() {
        let (these, others) = terms.split_at(row.terms.len());
        terms = others;
        let mut sums = sum_of_row(these, lanes, length);
        if row.divisor != A::of(1.0) {
            sums = sums.map(|sum| sum / row.divisor);
            if sums.iter().any(|sum| !sum.is_finite()) {
                let divided = sum_of_row(&row.divided(), lanes, length);
                sums = std::array::from_fn(|lane| if sums[lane].is_finite() { sums[lane] } else { divided[lane] });
            }
        }
        (0..N).for_each(|lane| y[lane * outputs + at] = sums[lane]);
    }
}

/// The product of a row with lanes of this length. The terms of a long row are summed in halves.
#[inline(always)]
fn sum_of_row<A: Element, const N: usize>(row: &[(usize, A)], lanes: [&[A]; N], length: usize) -> [A; N] {
    if row.len() > RUN_LEN {
        return sum_of_halves(row, lanes, length);
    }
    let mut sums = [A::zero(); N];
    for &(place, factor) in row {
        assert!(place < length, "the matrix has a column for each element");
        for lane in 0..N {
            sums[lane] = sums[lane] + factor * lanes[lane][..length][place];
        }
    }
    sums
}

fn sum_of_halves<A: Element, const N: usize>(row: &[(usize, A)], lanes: [&[A]; N], length: usize) -> [A; N] {
    let (left, right) = row.split_at(row.len() / 2);
    let (left, right) = (sum_of_row(left, lanes, length), sum_of_row(right, lanes, length));
    std::array::from_fn(|lane| left[lane] + right[lane])
}

/// Adds the product of a row with vectors that are interleaved in `x`. The terms of a long row are
/// summed in halves.
fn add_row<A: Element>(row: &[(usize, A)], x: &[A], y: &mut [A]) {
    if row.len() > RUN_LEN {
        let (left, right) = row.split_at(row.len() / 2);
        let mut sum = zeros(y.len());
        add_row(left, x, y);
        add_row(right, x, &mut sum);
        return add_assign(y, &sum);
    }
    vectorized(
        #[inline(always)]
        || {
            for &(place, factor) in row {
                let x = &x[place * y.len()..];
                for (y, &x) in y.iter_mut().zip(x) {
                    *y = *y + factor * x;
                }
            }
        },
    );
}
