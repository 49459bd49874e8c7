//! Pooling and resampling: values compared with plain loops, gradients with central differences,
//! and errors.

use crate::compare::{Open, close, last, strided, value};
use crate::faults::error_of;
use crate::gradient_check::{check_twice, mixed, numbers};
use dl_core::{Differentiable, Layer, Weight};
use dl_nd::{Nd, Pool, PoolOps, ResampleOps, ops::*};
use ndarray::{ArrayD, Ix3, Ix4, Ix5, IxDyn, indices};

/// A pooling over one to three spatial axes, depending on the shape. The last settings apply.
#[derive(Clone, Copy, Debug)]
struct Case {
    x: &'static [usize],
    kernel: [usize; 3],
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
    ceil: bool,
}

/// A case with the same settings along all axes.
const fn case(x: &'static [usize], [kernel, stride, padding, dilation]: [usize; 4], ceil: bool) -> Case {
    Case { x, kernel: [kernel; 3], stride: [stride; 3], padding: [padding; 3], dilation: [dilation; 3], ceil }
}

const CASES: &[Case] = &[
    case(&[2, 3, 6], [2, 2, 0, 1], false),
    case(&[1, 2, 7], [3, 2, 1, 1], false),
    case(&[1, 1, 6], [4, 3, 2, 1], true),
    case(&[1, 1, 7], [3, 3, 1, 1], true),
    case(&[1, 1, 6], [2, 5, 0, 1], true),
    case(&[1, 1, 6], [2, 1, 1, 3], false),
    case(&[1, 1, 5], [4, 2, 2, 3], true),
    case(&[1, 1, 1], [1, 1, 0, 1], false),
    case(&[2, 1, 4, 5], [2, 2, 1, 1], false),
    case(&[1, 2, 5, 4], [3, 1, 1, 1], true),
    case(&[1, 2, 1, 4], [1, 2, 0, 1], true),
    Case {
        x: &[1, 1, 5, 6],
        kernel: [1, 3, 2],
        stride: [1, 2, 3],
        padding: [0, 1, 0],
        dilation: [1, 1, 2],
        ceil: false,
    },
    Case {
        x: &[1, 1, 5, 6],
        kernel: [1, 3, 2],
        stride: [1, 2, 3],
        padding: [0, 1, 1],
        dilation: [1, 2, 2],
        ceil: true,
    },
    case(&[1, 2, 2, 3, 4], [2, 1, 1, 1], false),
    Case {
        x: &[1, 1, 3, 2, 4],
        kernel: [2, 1, 3],
        stride: [2, 1, 2],
        padding: [1, 0, 1],
        dilation: [1, 1, 1],
        ceil: true,
    },
];

impl Case {
    fn pool<const N: usize>(&self) -> Pool<N> {
        let pool = Pool::new(last(self.kernel)).stride(last(self.stride));
        pool.padding(last(self.padding)).dilation(last(self.dilation)).ceil_mode(self.ceil)
    }

    fn max(&self, x: &Layer<Open>) -> Layer<Open> {
        match self.x.len() {
            3 => x.max_pool1d(self.pool()),
            4 => x.max_pool2d(self.pool()),
            _ => x.max_pool3d(self.pool()),
        }
    }

    fn mean(&self, x: &Layer<Open>, count_include_pad: bool) -> Layer<Open> {
        match self.x.len() {
            3 => x.avg_pool1d(self.pool().count_include_pad(count_include_pad)),
            4 => x.avg_pool2d(self.pool().count_include_pad(count_include_pad)),
            _ => x.avg_pool3d(self.pool().count_include_pad(count_include_pad)),
        }
    }

    /// Pools by loops. `reduce` gets the elements under a window, and their number including
    /// padding.
    fn by_loops(&self, x: &Open, reduce: impl Fn(&[f64], usize) -> f64) -> Open {
        let (spatial, front) = (x.shape().len() - 2, 5 - x.shape().len());
        let mut shape = x.shape().to_vec();
        for (axis, length) in shape[2..].iter_mut().enumerate() {
            let at = front + axis;
            let padded = (*length + 2 * self.padding[at]) as f64;
            let span = (self.dilation[at] * (self.kernel[at] - 1) + 1) as f64;
            let quotient = (padded - span) / self.stride[at] as f64;
            let last = if self.ceil { quotient.ceil() } else { quotient.floor() } as usize;
            let starts_behind = self.ceil && last * self.stride[at] >= *length + self.padding[at];
            *length = last + usize::from(!starts_behind);
        }
        let window = |y: IxDyn| {
            let (mut elements, mut count) = (Vec::new(), 0);
            for tap in indices(IxDyn(&self.kernel[front..])) {
                let place: Vec<usize> = (0..spatial)
                    .map(|axis| y[2 + axis] * self.stride[front + axis] + tap[axis] * self.dilation[front + axis])
                    .collect();
                let is_there = |axis: usize| place[axis] < x.shape()[2 + axis] + 2 * self.padding[front + axis];
                count += usize::from((0..spatial).all(is_there));
                let padded = (0..spatial).map(|axis| place[axis].wrapping_sub(self.padding[front + axis]));
                let place: Vec<usize> = [y[0], y[1]].into_iter().chain(padded).collect();
                elements.extend(x.view().get(&place[..]));
            }
            reduce(&elements, count)
        };
        Nd::from(ArrayD::from_shape_fn(shape, window))
    }

    fn x(&self) -> Open {
        numbers(IxDyn(self.x), -1.0, 1.0, 1)
    }
}

#[test]
fn pool_matches_loops() {
    for case in CASES {
        let x = strided(&case.x());
        let max = case.by_loops(&x, |elements, _| elements.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        close(&value(&case.max(&x.layer())), &max, &format!("maxima, {case:?}"));
        let with_padding = case.by_loops(&x, |elements, count| elements.iter().sum::<f64>() / count as f64);
        close(&value(&case.mean(&x.layer(), true)), &with_padding, &format!("means with padding, {case:?}"));
        let without = case.by_loops(&x, |elements, _| elements.iter().sum::<f64>() / elements.len().max(1) as f64);
        close(&value(&case.mean(&x.layer(), false)), &without, &format!("means without padding, {case:?}"));
    }
}

#[test]
fn pool_gradients_match_differences() {
    for case in CASES {
        let w = Weight::new(case.x());
        check_twice(&format!("maxima, {case:?}"), &mixed(&case.max(&w.layer()).square()), &w);
        for count_include_pad in [true, false] {
            let means = case.mean(&w.layer(), count_include_pad);
            check_twice(&format!("means, {case:?}, {count_include_pad}"), &mixed(&means.square()), &w);
        }
    }
}

#[test]
fn max_pool_gradient_flows_to_first_maximum() {
    let gradient = |x: [f64; 6], pool: Pool<1>| {
        let w = Weight::new(Nd::from([[x]]));
        let y = w.max_pool1d(pool);
        (value(&y).into_array().into_raw_vec_and_offset().0, value(&y.sum().gradient(&w)))
    };
    let (y, d) = gradient([1.0, 2.0, 2.0, 2.0, 1.0, 1.0], Pool::new(3).stride(1));
    assert_eq!((y, d), (vec![2.0; 4], Nd::from([[[0.0, 2.0, 1.0, 1.0, 0.0, 0.0]]])));
    // NaN counts as the maximum; as in PyTorch, the gradient flows to the last one
    let (y, d) = gradient([1.0, f64::NAN, 3.0, f64::NAN, 5.0, 2.0], Pool::new(4).stride(1));
    assert!(y.iter().all(|y| y.is_nan()));
    assert_eq!(d, Nd::from([[[0.0, 0.0, 0.0, 3.0, 0.0, 0.0]]]));
    let (y, d) = gradient([f64::NEG_INFINITY; 6], Pool::new(3).padding(1));
    assert_eq!((y, d), (vec![f64::NEG_INFINITY; 2], Nd::from([[[1.0, 0.0, 1.0, 0.0, 0.0, 0.0]]])));
}

#[test]
fn max_pool_window_over_padding_has_no_gradient() {
    let w = Weight::new(Nd::from([[[5.0]]]));
    let y = w.max_pool1d(Pool::new(2).padding(1).dilation(2));
    assert_eq!(value(&y), Nd::from([[[f64::NEG_INFINITY]]]));
    assert_eq!(value(&y.sum().gradient(&w)), Nd::from([[[0.0]]]));
    assert_eq!(value(&w.avg_pool1d(Pool::new(2).padding(1).dilation(2).count_include_pad(false))), Nd::from([[[0.0]]]));
}

#[test]
fn adaptive_pool_matches_loops() {
    for (length, bins) in [(1, 1), (1, 3), (5, 2), (5, 3), (5, 5), (5, 7), (6, 1), (4, 0)] {
        let w: Weight<Nd<f64, Ix3>> = Weight::new(numbers([2, 2, length], -1.0, 1.0, 1));
        let y = w.adaptive_avg_pool1d([bins]);
        let x = w.value();
        let mean = |(b, c, at): (usize, usize, usize)| {
            let bin = at * length / bins..((at + 1) * length).div_ceil(bins);
            let count = bin.len() as f64;
            bin.map(|place| x[[b, c, place]]).sum::<f64>() / count
        };
        let wanted = ndarray::Array3::from_shape_fn((2, 2, bins), mean);
        let what = format!("{length} to {bins}");
        close(&value(&y.to_dyn()), &Nd::from(wanted.into_dyn()), &what);
        check_twice(&what, &mixed(&y.square()), &w);
    }
    let w: Weight<Nd<f64, Ix4>> = Weight::new(numbers([1, 2, 3, 4], -1.0, 1.0, 1));
    check_twice("adaptive, two axes", &mixed(&w.adaptive_avg_pool2d([2, 3]).square()), &w);
    check_twice("adaptive, strided", &mixed(&w.permute([1, 0, 3, 2]).adaptive_avg_pool2d([2, 5]).square()), &w);
    let w: Weight<Nd<f64, Ix5>> = Weight::new(numbers([1, 1, 3, 2, 2], -1.0, 1.0, 1));
    check_twice("adaptive, three axes", &mixed(&w.adaptive_avg_pool3d([2, 1, 3]).square()), &w);
    let all = |x: &Weight<Nd<f64, Ix5>>| value(&(x.adaptive_avg_pool3d([1, 1, 1]).sum() - x.mean()));
    assert!(all(&w).abs() < 1e-12);
}

#[test]
fn upsample_matches_loops() {
    for (length, wanted) in [(1, 1), (1, 4), (2, 1), (3, 5), (4, 7), (5, 2), (4, 4), (3, 9)] {
        for align_corners in [false, true] {
            let w: Weight<Nd<f64, Ix3>> = Weight::new(numbers([2, 1, length], -1.0, 1.0, 1));
            let y = w.upsample_linear([wanted], align_corners);
            let x = w.value();
            let between = |(b, c, at): (usize, usize, usize)| {
                let (at, from, to) = (at as f64, length as f64, wanted as f64);
                let place = match align_corners {
                    true if wanted == 1 => 0.0,
                    true => at * (from - 1.0) / (to - 1.0),
                    false => ((at + 0.5) * from / to - 0.5).max(0.0),
                };
                let (first, rest) = ((place + 1e-12).floor(), place - (place + 1e-12).floor());
                let next = (first as usize + 1).min(length - 1);
                x[[b, c, first as usize]] * (1.0 - rest) + x[[b, c, next]] * rest
            };
            let by_loops = ndarray::Array3::from_shape_fn((2, 1, wanted), between);
            let what = format!("{length} to {wanted}, {align_corners}");
            close(&value(&y.to_dyn()), &Nd::from(by_loops.into_dyn()), &what);
            check_twice(&what, &mixed(&y.square()), &w);
        }
    }
    let w: Weight<Nd<f64, Ix4>> = Weight::new(numbers([1, 2, 2, 3], -1.0, 1.0, 1));
    let one_by_one = w.upsample_bilinear([5, 3], false).upsample_bilinear([5, 2], false);
    let both = w.upsample_bilinear([5, 2], false);
    close(&value(&both.to_dyn()), &value(&one_by_one.to_dyn()), "one axis after the other");
    check_twice("bilinear", &mixed(&w.upsample_bilinear([3, 7], true).square()), &w);
    check_twice("bilinear, strided", &mixed(&w.permute([1, 0, 3, 2]).upsample_bilinear([1, 3], true).square()), &w);
    let w: Weight<Nd<f64, Ix5>> = Weight::new(numbers([1, 1, 2, 2, 2], -1.0, 1.0, 1));
    check_twice("trilinear", &mixed(&w.upsample_trilinear([3, 1, 4], false).square()), &w);
}

#[test]
fn upsample_of_infinity_keeps_other_elements_finite() {
    let x = Nd::from([[[1.0_f32, f32::INFINITY, 2.0]]]);
    assert_eq!(value(&x.upsample_linear([3], false)), x);
}

#[test]
fn pool_with_empty_batch_or_channels_succeeds() {
    for shape in [[0, 2, 4, 4], [2, 0, 4, 4]] {
        let w = Weight::new(Nd::full(shape, 1.0_f32));
        let [batch, channels, ..] = shape;
        for y in [
            w.max_pool2d(Pool::new(2)),
            w.avg_pool2d(Pool::new(2)),
            w.adaptive_avg_pool2d([2, 2]),
            w.upsample_bilinear([2, 2], false),
        ] {
            assert_eq!(value(&y).shape(), [batch, channels, 2, 2]);
            assert_eq!(value(&y.sum().gradient(&w)).shape(), shape);
        }
    }
}

#[test]
fn pool_with_invalid_shapes_or_settings_returns_error() {
    let x: Nd<f32, Ix4> = Nd::full([1, 2, 4, 3], 1.0);
    type Wrong = (Pool<2>, &'static [&'static str]);
    let wrong: [Wrong; 8] = [
        (Pool::new(4), &["axis 3 of [1, 2, 4, 3]", "kernel of 4", "spans 4", "padding 0 there are 3"]),
        (Pool::new(2).dilation([5, 1]), &["axis 2", "spans 6"]),
        (Pool::new(3).padding(2), &["padding of 2 along axis 2", "half of the kernel, 3"]),
        (Pool::new([2, 0]), &["kernel of 0 along axis 3"]),
        (Pool::new(2).stride([0, 1]), &["stride of 0 along axis 2"]),
        (Pool::new(2).dilation(0), &["dilation of 0"]),
        (Pool::new(2).same_padding(), &["keeps the lengths", "stride of 1 instead of 2"]),
        (Pool::new(usize::MAX).padding(usize::MAX / 2), &["too large"]),
    ];
    for (pool, parts) in wrong {
        error_of(x.max_pool2d(pool), "max_pool2d", parts);
        error_of(x.avg_pool2d(pool), "avg_pool2d", parts);
    }
    let nothing: Nd<f32, Ix4> = Nd::full([1, 2, 0, 3], 1.0);
    error_of(nothing.max_pool2d(Pool::new(2).padding(1)), "max_pool2d", &["axis 2", "length 0"]);
    error_of(nothing.adaptive_avg_pool2d([1, 1]), "adaptive_avg_pool2d", &["axis 2 of [1, 2, 0, 3]", "length 0"]);
    error_of(nothing.upsample_bilinear([1, 1], true), "upsample_bilinear", &["axis 2 of [1, 2, 0, 3]", "length 0"]);
    error_of(x.upsample_bilinear([1, 0], true), "upsample_bilinear", &["length of 0", "axis 3"]);
    error_of(x.upsample_bilinear([usize::MAX, 2], true), "upsample_bilinear", &["too large"]);
    error_of(x.adaptive_avg_pool2d([usize::MAX, 2]), "adaptive_avg_pool2d", &["too large"]);
    let open = x.to_dyn();
    error_of(open.max_pool1d(Pool::new(2)), "max_pool1d", &["[1, 2, 4, 3] instead of [batch, channels, length]"]);
    error_of(open.avg_pool3d(Pool::new(2)), "avg_pool3d", &["[batch, channels, depth, height, width]"]);
    assert_eq!(value(&x.max_pool2d(Pool::new(2).stride(usize::MAX).ceil_mode(true))).shape(), [1, 2, 1, 1]);
}

/// The factor of a mean is rounded, and so are its products. Their errors are the same in all terms.
#[test]
fn mean_of_equal_numbers_under_window_is_that_number() {
    for len in [17, 100, 1000, 300_000] {
        let x: Nd<f32, Ix3> = Nd::full([1, 1, len], 3.0);
        let w = Weight::new(x);
        for y in [w.avg_pool1d(Pool::new(len)), w.adaptive_avg_pool1d([1])] {
            let (mean, slope) = (value(&y), value(&(y * len as f32).sum().gradient(&w)));
            assert_eq!(mean, Nd::from([[[3.0]]]), "{len}");
            assert!(
                slope.view().iter().all(|slope| (slope - 1.0).abs() <= f32::EPSILON),
                "{len}: {}",
                slope[[0, 0, 0]]
            );
        }
    }
    let w: Weight<Nd<f32, Ix4>> = Weight::new(Nd::full([1, 9, 300, 40], 1.0));
    let planes =
        [w.avg_pool2d(Pool::new([300, 40])), w.adaptive_avg_pool2d([1, 1]), w.avg_pool2d(Pool::new([100, 20]))];
    for y in planes {
        assert!(value(&y).view().iter().all(|&mean| mean == 1.0));
    }
    let w: Weight<Nd<f32, Ix5>> = Weight::new(Nd::full([2, 1, 30, 20, 50], 1.0));
    for y in [w.avg_pool3d(Pool::new([30, 20, 50])), w.adaptive_avg_pool3d([1, 1, 1])] {
        assert!(value(&y).view().iter().all(|&mean| mean == 1.0));
    }
    // the sum of the contributions of all windows that contain an element
    let w: Weight<Nd<f32, Ix3>> = Weight::new(Nd::full([8, 1, 3000], 1.0));
    let slope = value(&w.avg_pool1d(Pool::new(1000).stride(1)).sum().gradient(&w));
    assert!((0..8).all(|lane| slope[[lane, 0, 1500]] == 1.0), "{}", slope[[0, 0, 1500]]);
}

#[test]
fn mean_of_largest_numbers_under_window_does_not_overflow() {
    let numbers = (0..3 * 8 * 50 * 60).map(|i| if i == 3500 { f32::INFINITY } else { 3e38 });
    let x: Nd<f32, Ix4> = Nd::from_vec([3, 8, 50, 60], numbers.collect()).unwrap();
    for y in [x.avg_pool2d(Pool::new([50, 60])), x.adaptive_avg_pool2d([1, 1])] {
        for (i, mean) in value(&y).view().iter().enumerate() {
            assert!(if i == 1 { *mean == f32::INFINITY } else { (mean / 3e38 - 1.0).abs() < 1e-6 }, "{i}: {mean}");
        }
    }
}

#[test]
fn same_padding_keeps_lengths_and_counts_taps_inside() {
    let x: Nd<f64, Ix3> = Nd::from([[[1.0, 2.0, 4.0, 8.0, 16.0]]]);
    let even = Pool::new(4).stride(1).same_padding();
    assert_eq!(value(&x.max_pool1d(even)), Nd::from([[[4.0, 8.0, 16.0, 16.0, 16.0]]]));
    assert_eq!(value(&x.avg_pool1d(even)), Nd::from([[[1.75, 3.75, 7.5, 7.0, 6.0]]]));
    let inside = value(&x.avg_pool1d(even.count_include_pad(false)).to_dyn());
    close(
        &inside,
        &Nd::from([[[7.0 / 3.0, 3.75, 7.5, 28.0 / 3.0, 12.0]]]).to_dyn().predict().wait().unwrap(),
        "inside",
    );
    // a dilation longer than the axis
    assert_eq!(value(&x.max_pool1d(Pool::new(3).stride(1).dilation(50).same_padding())), x);
    assert_eq!(value(&x.max_pool1d(Pool::new(1).same_padding())), x);
    let w = Weight::new(x);
    check_twice("same padding", &mixed(&w.avg_pool1d(even.count_include_pad(false)).square()), &w);
}
