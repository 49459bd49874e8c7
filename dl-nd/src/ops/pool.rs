//! Pooling: the maximum or the mean of the elements under a moving window.

use crate::gemm;
use crate::kernels::{SPATIAL, Window, Windows2x2, pad_spatial, windows};
use crate::ops::interpolate::{AxisMap, bin, resample};
use crate::ops::window::{PerAxis, check_batch, size};
use crate::tensor::{Element, HasRank, Nd, Rank, tensor_of_shape, zeros};
use dl_core::{Along, At, BuiltIn, Data, Differentiable, Error, Layer, Nothing, Primitive, Result, parallel};
use std::iter::StepBy;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// The settings of a pooling window over `N` spatial axes, with PyTorch's names. The default is a
/// stride equal to the kernel size, padding 0 and dilation 1.
///
/// A number applies to all spatial axes; an array has one entry for each axis.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, Pool, PoolOps};
/// let x = Nd::from([[[1.0, 4.0, 2.0, 3.0]]]);
/// assert_eq!(x.max_pool1d(Pool::new(2)).predict().wait()?, Nd::from([[[4.0, 3.0]]]));
/// assert_eq!(x.max_pool1d(Pool::new(2).stride(1)).predict().wait()?, Nd::from([[[4.0, 4.0, 3.0]]]));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool<const N: usize> {
    kernel: [usize; N],
    stride: [usize; N],
    padding: [usize; N],
    dilation: [usize; N],
    ceil_mode: bool,
}

impl<const N: usize> Pool<N> {
    /// A window of this size, with a stride equal to the size.
    ///
    /// ```
    /// let halves = dl_nd::Pool::<2>::new([1, 2]);
    /// ```
    pub fn new(kernel: impl Into<PerAxis<N>>) -> Self {
        let kernel = kernel.into().0;
        Pool { kernel, stride: kernel, padding: [0; N], dilation: [1; N], ceil_mode: false }
    }

    /// Sets the stride: the number of elements by which the window moves.
    ///
    /// ```
    /// let overlapping = dl_nd::Pool::<2>::new(3).stride(2);
    /// ```
    pub fn stride(mut self, stride: impl Into<PerAxis<N>>) -> Self {
        self.stride = stride.into().0;
        self
    }

    /// Sets the padding at either end of each spatial axis: zeros for a mean, −∞ for a maximum. It
    /// must be at most half of the kernel size.
    ///
    /// ```
    /// let same = dl_nd::Pool::<2>::new(3).stride(1).padding(1); // keeps height and width
    /// ```
    pub fn padding(mut self, padding: impl Into<PerAxis<N>>) -> Self {
        self.padding = padding.into().0;
        self
    }

    /// Sets the dilation: the distance between neighbouring elements of the window.
    ///
    /// ```
    /// let wide = dl_nd::Pool::<1>::new(2).dilation(4);
    /// ```
    pub fn dilation(mut self, dilation: impl Into<PerAxis<N>>) -> Self {
        self.dilation = dilation.into().0;
        self
    }

    /// Whether a last, incomplete window counts. It must start before the padding at the end.
    ///
    /// ```
    /// let all = dl_nd::Pool::<2>::new(2).ceil_mode(true); // 5 elements are 3 windows
    /// ```
    pub fn ceil_mode(mut self, ceil_mode: bool) -> Self {
        self.ceil_mode = ceil_mode;
        self
    }

    /// For a mean: whether the padding counts in the divisor; by default it does. Call this last,
    /// as it returns an [`AvgPool`].
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, Pool, PoolOps};
    /// let (x, pool) = (Nd::from([[[6.0, 6.0]]]), Pool::new(2).stride(1).padding(1));
    /// assert_eq!(x.avg_pool1d(pool).predict().wait()?, Nd::from([[[3.0, 6.0, 3.0]]]));
    /// assert_eq!(x.avg_pool1d(pool.count_include_pad(false)).predict().wait()?, Nd::from([[[6.0, 6.0, 6.0]]]));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn count_include_pad(self, count_include_pad: bool) -> AvgPool<N> {
        AvgPool { pool: self, count_include_pad }
    }

    fn windows(self) -> [Window; N] {
        windows(self.kernel, self.stride, self.padding, self.dilation)
    }
}

/// The settings of average pooling: a [`Pool`] and
/// [`count_include_pad`](Pool::count_include_pad).
///
/// ```
/// use dl_nd::{AvgPool, Pool};
/// assert_eq!(AvgPool::<2>::from(Pool::new(2)), Pool::new(2).count_include_pad(true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvgPool<const N: usize> {
    pool: Pool<N>,
    count_include_pad: bool,
}

impl<const N: usize> From<Pool<N>> for AvgPool<N> {
    fn from(pool: Pool<N>) -> Self {
        pool.count_include_pad(true)
    }
}

macro_rules! adaptive_max_pools {
    ($($name:ident $N:literal $rank:literal $axes:literal $from:literal $to:literal;)*) => {$(
        #[doc = concat!("The maxima of so many bins along each spatial axis of `", $axes, "`. The bins are those of")]
        /// [`adaptive_avg_pool2d`](crate::ResampleOps::adaptive_avg_pool2d), the gradient that of
        /// [`max_pool2d`](PoolOps::max_pool2d).
        ///
        #[doc = concat!("```\n# use dl_core::Differentiable; use dl_nd::{Nd, PoolOps};\nlet y = Nd::full(", $from, ", 1.0_f32).", stringify!($name))]
        #[doc = concat!("([2; ", $N, "]);\nassert_eq!(y.predict().wait()?, Nd::full(", $to, ", 1.0));\n# dl_core::Result::Ok(())\n```")]
        ///
        /// # Errors
        /// A shape error when a spatial axis has length 0, unless its new length is 0, too.
        #[track_caller]
        fn $name(&self, size: [usize; $N]) -> Layer<Nd<A, D>>
        where
            D: HasRank<$rank>,
        {
            maxima(stringify!($name), self.layer(), size.map(Region::Bins))
        }
    )*};
}

/// Pooling of layers, weights and plain tensors.
///
/// Batch and channels are unchanged. The length of each spatial axis of the result is, as in
/// PyTorch's `MaxPool2d`,
///
/// `length′ = ⌊(length + 2·padding − dilation·(kernel − 1) − 1) / stride⌋ + 1`
///
/// With [`ceil_mode`](Pool::ceil_mode) the quotient is rounded up, as long as the last window does
/// not start in the padding at the end.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, Pool, PoolOps};
/// let x = Nd::from_vec([1, 1, 2, 4], vec![1.0, 2.0, 5.0, 6.0, 3.0, 4.0, 7.0, 8.0])?;
/// assert_eq!(x.max_pool2d(Pool::new(2)).predict().wait()?, Nd::from_vec([1, 1, 1, 2], vec![4.0, 8.0])?);
/// assert_eq!(x.avg_pool2d(Pool::new(2)).predict().wait()?, Nd::from_vec([1, 1, 1, 2], vec![2.5, 6.5])?);
/// # dl_core::Result::Ok(())
/// ```
pub trait PoolOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    adaptive_max_pools! {
        adaptive_max_pool1d 1 3 "[batch, channels, length]" "[1, 1, 5]" "[1, 1, 2]";
        adaptive_max_pool2d 2 4 "[batch, channels, height, width]" "[1, 1, 5, 4]" "[1, 1, 2, 2]";
        adaptive_max_pool3d 3 5 "[batch, channels, depth, height, width]" "[1, 1, 5, 4, 3]" "[1, 1, 2, 2, 2]";
    }

    /// The maximum under a window over `[batch, channels, length]`. See
    /// [`max_pool2d`](PoolOps::max_pool2d).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, Pool, PoolOps};
    /// let y = Nd::from([[[1.0, 4.0, 2.0, 3.0]]]).max_pool1d(Pool::new(2));
    /// assert_eq!(y.predict().wait()?, Nd::from([[[4.0, 3.0]]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`max_pool2d`](PoolOps::max_pool2d).
    #[track_caller]
    fn max_pool1d(&self, pool: Pool<1>) -> Layer<Nd<A, D>>
    where
        D: HasRank<3>,
    {
        max_pool(self.layer(), pool)
    }

    /// The maximum under a window over `[batch, channels, height, width]`, or NaN if the window
    /// contains one. Padding counts as −∞. The gradient flows to the first maximum; of several NaN,
    /// to the last one, as in PyTorch.
    ///
    /// ```
    /// # use dl_core::{Differentiable, Weight}; use dl_optim::Sgd; use dl_nd::{Nd, ops::*, Pool, PoolOps};
    /// let w = Weight::new(Nd::from_vec([1, 1, 2, 2], vec![3.0, 5.0, 5.0, 1.0])?);
    /// w.max_pool2d(Pool::new(2)).sum().train(&Sgd::new(1.0)).wait()?;
    /// assert_eq!(w.value(), Nd::from_vec([1, 1, 2, 2], vec![3.0, 4.0, 5.0, 1.0])?);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When the window is longer than the padded input, the padding is more than half of the kernel
    /// size, a spatial axis has length 0, or kernel, stride or dilation is 0.
    #[track_caller]
    fn max_pool2d(&self, pool: Pool<2>) -> Layer<Nd<A, D>>
    where
        D: HasRank<4>,
    {
        max_pool(self.layer(), pool)
    }

    /// The maximum under a window over `[batch, channels, depth, height, width]`. See
    /// [`max_pool2d`](PoolOps::max_pool2d).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, Pool, PoolOps};
    /// let y = Nd::full([1, 1, 4, 4, 4], 1.0_f32).max_pool3d(Pool::new([1, 2, 4]));
    /// assert_eq!(y.predict().wait()?.shape(), [1, 1, 4, 2, 1]);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`max_pool2d`](PoolOps::max_pool2d).
    #[track_caller]
    fn max_pool3d(&self, pool: Pool<3>) -> Layer<Nd<A, D>>
    where
        D: HasRank<5>,
    {
        max_pool(self.layer(), pool)
    }

    /// The mean under a window over `[batch, channels, length]`. See
    /// [`avg_pool2d`](PoolOps::avg_pool2d).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, Pool, PoolOps};
    /// let y = Nd::from([[[1.0, 4.0, 2.0, 3.0]]]).avg_pool1d(Pool::new(2));
    /// assert_eq!(y.predict().wait()?, Nd::from([[[2.5, 2.5]]]));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`max_pool2d`](PoolOps::max_pool2d).
    #[track_caller]
    fn avg_pool1d(&self, pool: impl Into<AvgPool<1>>) -> Layer<Nd<A, D>>
    where
        D: HasRank<3>,
    {
        avg_pool(self.layer(), pool.into())
    }

    /// The mean under a window over `[batch, channels, height, width]`. Padding counts as zeros, or
    /// is excluded: see [`count_include_pad`](Pool::count_include_pad).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, Pool, PoolOps};
    /// let y = Nd::full([1, 1, 2, 2], 9.0).avg_pool2d(Pool::new(3).padding(1));
    /// assert!((y.predict().wait()?[[0, 0, 0, 0]] - 4.0_f64).abs() < 1e-12);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`max_pool2d`](PoolOps::max_pool2d).
    #[track_caller]
    fn avg_pool2d(&self, pool: impl Into<AvgPool<2>>) -> Layer<Nd<A, D>>
    where
        D: HasRank<4>,
    {
        avg_pool(self.layer(), pool.into())
    }

    /// The mean under a window over `[batch, channels, depth, height, width]`. See
    /// [`avg_pool2d`](PoolOps::avg_pool2d).
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, Pool, PoolOps};
    /// let y = Nd::full([1, 1, 4, 4, 4], 1.0_f32).avg_pool3d(Pool::new([1, 2, 4]));
    /// assert_eq!(y.predict().wait()?, Nd::full([1, 1, 4, 2, 1], 1.0));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`max_pool2d`](PoolOps::max_pool2d).
    #[track_caller]
    fn avg_pool3d(&self, pool: impl Into<AvgPool<3>>) -> Layer<Nd<A, D>>
    where
        D: HasRank<5>,
    {
        avg_pool(self.layer(), pool.into())
    }
}

impl<X, A: Element, D: Rank> PoolOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

/// The number of windows along an axis.
pub(crate) fn outputs(window: Window, shape: &[usize], axis: usize, ceil: bool) -> Result<usize> {
    let (padding, kernel) = (window.padding, window.kernel);
    let outputs = window.outputs(shape, axis, ceil)?;
    if padding > kernel / 2 {
        return Err(Error::invalid(format!(
            "a padding of {padding} along axis {axis} is more than half of the kernel, {kernel}"
        )));
    }
    Ok(outputs)
}

#[track_caller]
fn avg_pool<A: Element, D: Rank, const N: usize>(x: Layer<Nd<A, D>>, avg: AvgPool<N>) -> Layer<Nd<A, D>> {
    let AvgPool { pool, count_include_pad } = avg;
    let rule = |window| AxisMap::Mean { window, ceil: pool.ceil_mode, count_include_pad };
    resample(["avg_pool1d", "avg_pool2d", "avg_pool3d"][N - 1], pool.windows().map(rule), x)
}

#[track_caller]
fn max_pool<A: Element, D: Rank, const N: usize>(x: Layer<Nd<A, D>>, pool: Pool<N>) -> Layer<Nd<A, D>> {
    let regions = pool.windows().map(|window| Region::Window(window, pool.ceil_mode));
    maxima(["max_pool1d", "max_pool2d", "max_pool3d"][N - 1], x, regions)
}

/// The maximum of each region of each channel.
#[track_caller]
fn maxima<A: Element, D: Rank, const N: usize>(
    name: &'static str,
    x: Layer<Nd<A, D>>,
    regions: [Region; N],
) -> Layer<Nd<A, D>> {
    let positions = Layer::apply_built_in(MaxPool { name, regions: regions.into(), types: PhantomData }, (x.clone(),));
    Layer::apply_built_in(GatherMaxima { missing: A::neg_infinity(), rank: PhantomData }, (x, positions))
}

/// For each window of a max pooling, the position of its maximum in the same sample and channel.
#[derive(Clone)]
struct MaxPositions {
    shape: Arc<[usize]>,
    positions: PositionTable,
}

#[derive(Clone)]
enum PositionTable {
    /// Row-major indices into the channel.
    Flat(Arc<Vec<u32>>),
    /// Positions 0 to 3 within windows of 2 × 2.
    Windows2x2(Windows2x2, Arc<Vec<u8>>),
}

impl MaxPositions {
    fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The estimated time to gather or scatter one element, in nanoseconds.
    fn nanoseconds_each(&self) -> f64 {
        match self.positions {
            PositionTable::Flat(_) => 1.5,
            PositionTable::Windows2x2(..) => 0.5,
        }
    }
}

/// The position of the maximum of a window that covers padding only.
const NO_POSITION: u32 = u32::MAX;

/// Positions are not differentiable; their delta is [`Nothing`].
impl Data for MaxPositions {
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }

    fn bytes(&self) -> usize {
        match &self.positions {
            PositionTable::Flat(positions) => size_of_val(&positions[..]),
            PositionTable::Windows2x2(_, positions) => positions.len(),
        }
    }
}

/// The regions along one axis that a maximum is taken over.
#[derive(Clone, Copy)]
enum Region {
    /// A moving window, and whether the last one may be incomplete.
    Window(Window, bool),
    /// So many bins.
    Bins(usize),
}

impl Region {
    const POINT: Region = Region::Window(Window::POINT, false);

    /// The number of regions.
    fn outputs(self, shape: &[usize], axis: usize) -> Result<usize> {
        match self {
            Region::Window(window, ceil) => outputs(window, shape, axis, ceil),
            Region::Bins(length) => AxisMap::Adaptive { length }.outputs(shape, axis),
        }
    }

    /// The indices of the elements in region `at` of `outputs`.
    fn positions(self, at: usize, length: usize, outputs: usize) -> StepBy<Range<usize>> {
        match self {
            Region::Window(window, _) => window.positions(at, length),
            Region::Bins(_) => bin(at, length, outputs).step_by(1),
        }
    }
}

/// Finds the position of the first maximum in each region.
struct MaxPool<A, D> {
    name: &'static str,
    regions: Arc<[Region]>,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for MaxPool<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = MaxPositions;

    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<MaxPositions> {
        check_batch("input", x.shape(), self.regions.len())?;
        let mut shape = x.shape().to_vec();
        for (axis, region) in (2..).zip(&*self.regions) {
            shape[axis] = region.outputs(x.shape(), axis)?;
        }
        let len = size::<u32>(&shape)?;
        if len == 0 {
            return Ok(MaxPositions { shape: shape.into(), positions: PositionTable::Flat(Arc::default()) });
        }
        let (lengths, outputs) = (pad_spatial(&x.shape()[2..], 1), pad_spatial(&shape[2..], 1));
        let regions = pad_spatial(&self.regions, Region::POINT);
        let x = x.0.as_standard_layout();
        let x = x.as_slice().expect("in standard layout");
        let channels: Vec<&[A]> = x.chunks_exact(lengths.iter().product()).collect();
        let each = len / channels.len();
        let positions = if let Some(windows_2x2) = windows_2x2(regions, lengths, outputs) {
            let positions = for_each_channel(&channels, each, 0, 0.25, |channel, positions| {
                windows_2x2.first_maxima(channel, positions)
            });
            PositionTable::Windows2x2(windows_2x2, Arc::new(positions))
        } else {
            if channels[0].len() >= NO_POSITION as usize {
                return Err(Error::shape(format!(
                    "a channel of shape {lengths:?} has too many elements for 32-bit positions"
                )));
            }
            let axes: [Vec<_>; SPATIAL] = std::array::from_fn(|axis| {
                (0..outputs[axis]).map(|at| regions[axis].positions(at, lengths[axis], outputs[axis])).collect()
            });
            let nanoseconds = self.nanoseconds(1);
            let find = |channel: &[A], positions: &mut [u32]| first_maxima(channel, lengths, &axes, positions);
            PositionTable::Flat(Arc::new(for_each_channel(&channels, each, NO_POSITION, nanoseconds, find)))
        };
        Ok(MaxPositions { shape: shape.into(), positions })
    }

    fn pullback(&self, _: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (None,)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + self.nanoseconds(x.len())
    }
}

impl<A: Element, D: Rank> BuiltIn for MaxPool<A, D> {
    const IS_PURE: bool = true;
}

impl<A, D> MaxPool<A, D> {
    /// The estimated time for `len` input elements, in nanoseconds.
    fn nanoseconds(&self, len: usize) -> f64 {
        let overlap = |region: &Region| match region {
            Region::Window(window, _) => window.kernel as f64 / window.stride as f64,
            Region::Bins(_) => 1.0,
        };
        let each: f64 = self.regions.iter().map(overlap).product();
        len as f64 * each.max(1.0)
    }
}

/// The regions as windows of 2 × 2, if that is what they are.
fn windows_2x2(regions: [Region; SPATIAL], lengths: [usize; SPATIAL], outputs: [usize; SPATIAL]) -> Option<Windows2x2> {
    let mut windows = [Window::POINT; SPATIAL];
    for (to, region) in windows.iter_mut().zip(regions) {
        let Region::Window(window, _) = region else { return None };
        *to = window;
    }
    Windows2x2::of(windows, lengths, outputs)
}

/// Calls `find` for each channel, which writes `each` positions, initially `nowhere`. `nanoseconds`
/// is the estimated time per input element.
fn for_each_channel<A: Element, P: Copy + Send>(
    channels: &[&[A]],
    each: usize,
    nowhere: P,
    nanoseconds: f64,
    find: impl Fn(&[A], &mut [P]) + Sync,
) -> Vec<P> {
    let mut positions = vec![nowhere; channels.len() * each];
    let mut parts: Vec<&mut [P]> = positions.chunks_exact_mut(each).collect();
    let nanoseconds = nanoseconds * channels[0].len() as f64;
    parallel::for_each_mut(&mut parts, nanoseconds, |i, positions| find(channels[i], positions));
    positions
}

/// Writes the positions of the first maxima in one channel. For each axis, the last argument lists
/// the indices under each window. NaN counts as the largest number.
fn first_maxima<A: Element>(
    channel: &[A],
    [_, height, width]: [usize; SPATIAL],
    [planes, lines, columns]: &[Vec<impl Iterator<Item = usize> + Clone>; SPATIAL],
    positions: &mut [u32],
) {
    let mut positions = positions.iter_mut();
    for planes in planes {
        for lines in lines {
            for columns in columns {
                let mut first: Option<(usize, A)> = None;
                for plane in planes.clone() {
                    for line in lines.clone() {
                        for column in columns.clone() {
                            let position = (plane * height + line) * width + column;
                            let element = channel[position];
                            if first.is_none_or(|(_, max)| element > max || element.is_nan()) {
                                first = Some((position, element));
                            }
                        }
                    }
                }
                *positions.next().expect("one position for each window") =
                    first.map_or(NO_POSITION, |(position, _)| position as u32);
            }
        }
    }
}

/// Gathers the elements at the positions; `missing` where a window covers padding only.
struct GatherMaxima<A, D> {
    missing: A,
    rank: PhantomData<D>,
}

impl<A: Element, D: Rank> Primitive for GatherMaxima<A, D> {
    type Operands = (Layer<Nd<A, D>>, Layer<MaxPositions>);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "gather_places"
    }

    fn value(&self, (x, positions): (&Nd<A, D>, &MaxPositions)) -> Result<Nd<A, D>> {
        let (shape, len) = (&positions.shape, positions.len());
        if len == 0 {
            return Ok(tensor_of_shape(shape, Vec::new()));
        }
        let x = x.0.as_standard_layout();
        let x = x.as_slice().expect("in standard layout");
        let channels = shape[0] * shape[1];
        let (channel, windows) = (x.len() / channels, len / channels);
        let elements = gemm::fill_chunks(len, windows, positions.nanoseconds_each() * windows as f64, |i, elements| {
            let (x, part) = (&x[i * channel..(i + 1) * channel], i * windows..(i + 1) * windows);
            match &positions.positions {
                PositionTable::Windows2x2(windows_2x2, positions) => windows_2x2.gather(x, &positions[part], elements),
                PositionTable::Flat(positions) => {
                    for (to, &position) in elements.iter_mut().zip(&positions[part]) {
                        *to = x.get(position as usize).copied().unwrap_or(self.missing);
                    }
                }
            }
        });
        Ok(tensor_of_shape(shape, elements))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nothing>>) {
        let (shape, element) = (at.values.0.dim(), PhantomData);
        (Some(Layer::apply_built_in(ScatterMaxima { shape, element }, (at.delta.clone(), at.operands.1.clone()))), None)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        let gather = GatherMaxima { missing: A::zero(), rank: PhantomData };
        Some(Layer::apply_built_in(gather, (along.tangents.0.clone()?, along.operands.1.clone())))
    }

    fn cost(&self, (_, positions): (&Nd<A, D>, &MaxPositions)) -> f64 {
        200.0 + positions.nanoseconds_each() * positions.len() as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for GatherMaxima<A, D> {
    const IS_PURE: bool = true;
}

/// The transpose of [`GatherMaxima`]: scatters elements, with addition, into zeros of this shape.
#[derive(Clone)]
struct ScatterMaxima<A, D> {
    shape: D,
    element: PhantomData<A>,
}

impl<A: Element, D: Rank> Primitive for ScatterMaxima<A, D> {
    type Operands = (Layer<Nd<A, D>>, Layer<MaxPositions>);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "scatter_places"
    }

    fn value(&self, (y, positions): (&Nd<A, D>, &MaxPositions)) -> Result<Nd<A, D>> {
        let (shape, len) = (&positions.shape, positions.len());
        if len == 0 {
            return Ok(tensor_of_shape(self.shape.slice(), zeros(self.shape.size())));
        }
        let y = y.0.as_standard_layout();
        let y = y.as_slice().expect("in standard layout");
        let channels = shape[0] * shape[1];
        let (channel, windows) = (self.shape.size() / channels, len / channels);
        let nanoseconds = 0.3 * channel as f64 + positions.nanoseconds_each() * windows as f64;
        let x = gemm::fill_chunks(self.shape.size(), channel, nanoseconds, |i, x: &mut [A]| {
            let part = i * windows..(i + 1) * windows;
            match &positions.positions {
                PositionTable::Windows2x2(windows_2x2, positions) => {
                    windows_2x2.scatter(&y[part.clone()], &positions[part], x)
                }
                PositionTable::Flat(positions) => {
                    x.fill(A::zero());
                    for (&y, &position) in y[part.clone()].iter().zip(&positions[part]) {
                        if position != NO_POSITION {
                            let x = &mut x[position as usize];
                            *x = *x + y;
                        }
                    }
                }
            }
        });
        Ok(tensor_of_shape(self.shape.slice(), x))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nothing>>) {
        let gather = GatherMaxima { missing: A::of(0.0), rank: PhantomData };
        (Some(Layer::apply_built_in(gather, (at.delta.clone(), at.operands.1.clone()))), None)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        Some(Layer::apply_built_in(self.clone(), (along.tangents.0.clone()?, along.operands.1.clone())))
    }

    fn cost(&self, (_, positions): (&Nd<A, D>, &MaxPositions)) -> f64 {
        200.0 + 0.3 * self.shape.size() as f64 + positions.nanoseconds_each() * positions.len() as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for ScatterMaxima<A, D> {
    const IS_PURE: bool = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_2x2_match_general_windows() {
        let lengths @ [planes, height, width] = [2, 5, 7];
        let outputs @ [_, lines, columns] = [planes, height / 2, width / 2];
        let numbers: [f32; 4] = [1.0, 2.0, 2.0, f32::NAN];
        let half = Window { kernel: 2, stride: 2, padding: 0, dilation: 1 };
        let windows = [Window::POINT, half, half];
        let windows_2x2 = Windows2x2::of(windows, lengths, outputs).expect("the windows are 2 by 2");
        let mut state = 1_u32;
        for _ in 0..500 {
            let draw = |_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                numbers[(state >> 28) as usize % 4]
            };
            let channel: Vec<f32> = (0..planes * height * width).map(draw).collect();
            let axes: [Vec<_>; SPATIAL] = std::array::from_fn(|axis| {
                (0..outputs[axis]).map(|at| windows[axis].positions(at, lengths[axis])).collect()
            });
            let mut positions = vec![0; planes * lines * columns];
            first_maxima(&channel, lengths, &axes, &mut positions);
            let mut in_squares = vec![0; positions.len()];
            windows_2x2.first_maxima(&channel, &mut in_squares);
            let position = |(square, in_square): (usize, &u8)| {
                let (plane, line, column) = (square / columns / lines, square / columns % lines, square % columns);
                let (below, right) = (usize::from(in_square / 2), usize::from(in_square % 2));
                ((plane * height + 2 * line + below) * width + 2 * column + right) as u32
            };
            let found: Vec<u32> = in_squares.iter().enumerate().map(position).collect();
            assert_eq!(found, positions, "{channel:?}");

            let mut gathered = vec![0.0; positions.len()];
            windows_2x2.gather(&channel, &in_squares, &mut gathered);
            let bits = |number: f32| number.to_bits();
            assert!(gathered.iter().map(|&x| bits(x)).eq(positions.iter().map(|&at| bits(channel[at as usize]))));
            let mut scattered = vec![7.0; channel.len()];
            windows_2x2.scatter(&gathered, &in_squares, &mut scattered);
            let mut wanted = vec![0.0_f32; channel.len()];
            positions.iter().zip(&gathered).for_each(|(&at, &x)| wanted[at as usize] += x);
            assert!(scattered.into_iter().map(bits).eq(wanted.into_iter().map(bits)), "{channel:?}");
        }
    }
}
