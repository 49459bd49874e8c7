//! Pooling: the maximum or the mean of the elements under a moving window.

use crate::kernels::{Window, windows};
use crate::ops::interpolate::{AxisMap, resample};
use crate::ops::invalid::invalid;
use crate::ops::max_pool::{Region, maxima};
use crate::ops::window::{PerAxis, check_padding};
use crate::tensor::{Element, HasRank, Nd, Rank};
use dl_core::{Differentiable, Error, Layer, Result};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pool<const N: usize> {
    kernel: [usize; N],
    stride: [usize; N],
    /// `None` keeps the lengths.
    padding: Option<[usize; N]>,
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
        Pool { kernel, stride: kernel, padding: Some([0; N]), dilation: [1; N], ceil_mode: false }
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
        self.padding = Some(padding.into().0);
        self
    }

    /// Sets the padding that keeps the lengths, for a stride of 1. If it is odd, it is longer at the
    /// end, as that of PyTorch's convolutions with `padding="same"`.
    ///
    /// ```
    /// # use dl_core::Differentiable; use dl_nd::{Nd, Pool, PoolOps};
    /// let y = Nd::from([[[1.0, 4.0, 2.0, 3.0]]]).max_pool1d(Pool::new(2).stride(1).same_padding());
    /// assert_eq!(y.predict().wait()?, Nd::from([[[4.0, 4.0, 3.0, 3.0]]]));
    /// # dl_core::Result::Ok(())
    /// ```
    pub fn same_padding(mut self) -> Self {
        self.padding = None;
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

    fn check(&self) -> Result<()> {
        check_padding(self.padding.as_ref().map(|padding| &padding[..]), &self.stride)?;
        let settings = self.padding.iter().flatten().zip(&self.kernel);
        match (2..).zip(settings).find(|(_, (padding, kernel))| **padding > *kernel / 2) {
            None => Ok(()),
            Some((axis, (padding, kernel))) => Err(Error::invalid(format!(
                "a padding of {padding} along axis {axis} is more than half of the kernel, {kernel}"
            ))),
        }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// size, a spatial axis has length 0, kernel, stride or dilation is 0, or a stride is not 1 with
    /// [`same_padding`](Pool::same_padding).
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

#[track_caller]
fn avg_pool<A: Element, D: Rank, const N: usize>(x: Layer<Nd<A, D>>, avg: AvgPool<N>) -> Layer<Nd<A, D>> {
    let AvgPool { pool, count_include_pad } = avg;
    let rule = |window| AxisMap::Mean { window, ceil: pool.ceil_mode, count_include_pad };
    let name = ["avg_pool1d", "avg_pool2d", "avg_pool3d"][N - 1];
    match pool.check() {
        Ok(()) => resample(name, pool.windows().map(rule), x),
        Err(error) => invalid(name, error),
    }
}

#[track_caller]
fn max_pool<A: Element, D: Rank, const N: usize>(x: Layer<Nd<A, D>>, pool: Pool<N>) -> Layer<Nd<A, D>> {
    let regions = pool.windows().map(|window| Region::Window(window, pool.ceil_mode));
    let name = ["max_pool1d", "max_pool2d", "max_pool3d"][N - 1];
    match pool.check() {
        Ok(()) => maxima(name, x, regions),
        Err(error) => invalid(name, error),
    }
}
