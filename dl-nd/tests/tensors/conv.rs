//! Convolutions against plain loops, their gradients against central differences, and their errors.

use crate::compare::{Open, close, last, strided, value};
use crate::faults::error_of;
use crate::gradient_check::{check, check_twice, mixed, numbers};
use dl_core::{Differentiable, Layer, Weight};
use dl_nd::{Conv, ConvOps, Nd, ops::*};
use dl_optim::Sgd;
use ndarray::{ArrayD, Axis, Ix4, IxDyn};

/// A convolution over one to three spatial axes, depending on the shapes. The last settings apply.
#[derive(Clone, Copy, Debug)]
struct Case {
    x: &'static [usize],
    w: &'static [usize],
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
    groups: usize,
}

/// A case with the same stride, padding and dilation along all axes.
const fn case(
    x: &'static [usize],
    w: &'static [usize],
    [stride, padding, dilation]: [usize; 3],
    groups: usize,
) -> Case {
    Case { x, w, stride: [stride; 3], padding: [padding; 3], dilation: [dilation; 3], groups }
}

const CASES: &[Case] = &[
    case(&[2, 3, 5], &[4, 3, 2], [1, 0, 1], 1),
    case(&[2, 4, 6], &[2, 2, 3], [2, 1, 1], 2),
    case(&[1, 1, 7], &[1, 1, 3], [3, 3, 2], 1),
    case(&[1, 2, 1], &[2, 2, 1], [1, 0, 1], 1),
    case(&[1, 2, 2], &[1, 2, 2], [1, 4, 1], 1),
    case(&[1, 2, 3], &[2, 2, 2], [100, 350, 51], 1),
    case(&[2, 2, 4, 3], &[3, 2, 2, 2], [1, 0, 1], 1),
    case(&[1, 2, 4, 3], &[3, 2, 1, 1], [1, 0, 1], 1),
    case(&[1, 2, 4, 4], &[2, 1, 3, 3], [2, 1, 1], 2),
    case(&[2, 3, 2, 3], &[3, 1, 1, 1], [1, 0, 7], 3),
    Case { x: &[1, 2, 5, 4], w: &[2, 2, 2, 3], stride: [1, 2, 1], padding: [0, 1, 2], dilation: [1, 1, 2], groups: 1 },
    Case { x: &[1, 4, 1, 5], w: &[2, 2, 1, 2], stride: [1, 1, 3], padding: [0, 0, 2], dilation: [1, 3, 1], groups: 2 },
    case(&[1, 2, 3, 2, 2], &[2, 2, 2, 2, 1], [1, 0, 1], 1),
    Case {
        x: &[1, 2, 2, 3, 4],
        w: &[2, 1, 2, 1, 2],
        stride: [2, 1, 3],
        padding: [1, 0, 2],
        dilation: [1, 2, 3],
        groups: 2,
    },
];

impl Case {
    fn spatial(&self) -> usize {
        self.x.len() - 2
    }

    fn options<const N: usize>(&self) -> Conv<N> {
        let conv = Conv::new().stride(last(self.stride)).padding(last(self.padding));
        conv.dilation(last(self.dilation)).groups(self.groups)
    }

    fn conv(&self, x: &Layer<Open>, w: &Layer<Open>) -> Layer<Open> {
        match self.spatial() {
            1 => x.conv1d(w, self.options()),
            2 => x.conv2d(w, self.options()),
            _ => x.conv3d(w, self.options()),
        }
    }

    fn conv_transpose(&self, y: &Layer<Open>, w: &Layer<Open>, output_padding: [usize; 3]) -> Layer<Open> {
        match self.spatial() {
            1 => y.conv_transpose1d(w, self.options().output_padding(last(output_padding))),
            2 => y.conv_transpose2d(w, self.options().output_padding(last(output_padding))),
            _ => y.conv_transpose3d(w, self.options().output_padding(last(output_padding))),
        }
    }

    /// The convolution by its definition, element by element.
    fn by_loops(&self, x: &Open, w: &Open) -> Open {
        let (spatial, front) = (self.spatial(), 3 - self.spatial());
        let (channels, outputs) = (w.shape()[1], w.shape()[0] / self.groups);
        let mut shape = vec![x.shape()[0], w.shape()[0]];
        for axis in 0..spatial {
            let (length, kernel, at) = (x.shape()[2 + axis], w.shape()[2 + axis], front + axis);
            let span = self.dilation[at] * (kernel - 1) + 1;
            shape.push((length + 2 * self.padding[at] - span) / self.stride[at] + 1);
        }
        let element = |y: IxDyn| {
            let mut sum = 0.0;
            for (tap, factor) in w.view().index_axis(Axis(0), y[1]).indexed_iter() {
                let mut place = vec![y[0], y[1] / outputs * channels + tap[0]];
                for axis in 0..spatial {
                    let at = front + axis;
                    let padded = y[2 + axis] * self.stride[at] + tap[1 + axis] * self.dilation[at];
                    place.push(padded.wrapping_sub(self.padding[at]));
                }
                sum += x.view().get(&place[..]).unwrap_or(&0.0) * factor;
            }
            sum
        };
        Nd::from(ArrayD::from_shape_fn(shape, element))
    }

    fn x(&self) -> Open {
        numbers(IxDyn(self.x), -1.0, 1.0, 1)
    }

    fn w(&self) -> Open {
        numbers(IxDyn(self.w), -1.0, 1.0, 2)
    }
}

#[test]
fn conv_matches_loops() {
    for case in CASES {
        let (x, w) = (case.x(), case.w());
        let wanted = case.by_loops(&x, &w);
        close(&value(&case.conv(&x.layer(), &w.layer())), &wanted, &format!("{case:?}"));
        let (x, w) = (strided(&x), strided(&w));
        close(&value(&case.conv(&x.layer(), &w.layer())), &wanted, &format!("{case:?}, strided"));
    }
}

#[test]
fn conv_over_many_blocks_matches_loops() {
    let square = case(&[2, 31, 17, 19], &[3, 31, 3, 3], [1, 1, 1], 1);
    let pointwise = case(&[1, 300, 200], &[2, 300, 1], [1, 0, 1], 1);
    for case in [square, pointwise] {
        let (x, w) = (case.x(), case.w());
        let y = case.conv(&x.layer(), &w.layer());
        close(&value(&y), &case.by_loops(&x, &w), &format!("{case:?}"));
        transposes(&case);
    }
}

/// Convolution, transposed convolution and weight gradient are the same trilinear form:
/// `d·(x ∗ w) = x·(∂/∂x) = w·(∂/∂w)`.
fn transposes(case: &Case) {
    let (x, w) = (Weight::new(case.x()), Weight::new(case.w()));
    let y = case.conv(&x.layer(), &w.layer());
    let d: Open = numbers(IxDyn(value(&y).shape()), -1.0, 1.0, 3);
    let form = (&y * &d).sum();
    let by_x = (form.gradient(&x) * &x).sum().predict().wait().unwrap();
    let by_w = (form.gradient(&w) * &w).sum().predict().wait().unwrap();
    let form = form.predict().wait().unwrap();
    assert!((by_x - form).abs() < 1e-9 && (by_w - form).abs() < 1e-9, "{case:?}: {form}, {by_x}, {by_w}");
}

#[test]
fn conv_transpose_equals_gradient_of_conv_input() {
    for case in CASES {
        let x = Weight::new(case.x());
        let w = case.w();
        let y = case.conv(&x.layer(), &w.layer());
        let d: Open = numbers(IxDyn(value(&y).shape()), -1.0, 1.0, 3);
        let gradient = value(&(y * &d).sum().gradient(&x));
        // the elements at the end that no window reaches, because the output length is rounded down
        let mut output_padding = [0; 3];
        for axis in 0..case.spatial() {
            let at = 3 - case.spatial() + axis;
            let span = case.dilation[at] * (case.w[2 + axis] - 1) + 1;
            output_padding[at] = (case.x[2 + axis] + 2 * case.padding[at] - span) % case.stride[at];
        }
        let transposed = |d: Open, w: Open| value(&case.conv_transpose(&d.layer(), &w.layer(), output_padding));
        close(&transposed(strided(&d), strided(&w)), &gradient, &format!("{case:?}, strided"));
        close(&transposed(d, w), &gradient, &format!("{case:?}"));
    }
}

#[test]
fn conv_gradients_match_differences() {
    for case in CASES {
        let (x, w) = (Weight::new(case.x()), Weight::new(case.w()));
        let y = case.conv(&x.layer(), &w.layer());
        check_all(&format!("{case:?}"), &mixed(&y), &mixed(&y.square()), &x, &w);
    }
}

/// Checks first and second derivatives, pure and mixed, of `linear` and `squares`.
fn check_all(what: &str, linear: &Layer<f64>, squares: &Layer<f64>, x: &Weight<Open>, w: &Weight<Open>) {
    check_twice(what, squares, x);
    check_twice(what, squares, w);
    check(&format!("mixed derivative of {what}"), &mixed(&squares.gradient(x)), w);
    // the weight gradient as a function of its own, and its derivatives
    let by_w = linear.gradient(w).square();
    check(&format!("derivative of the gradient of {what}"), &mixed(&by_w), x);
    let twice = mixed(&mixed(&linear.gradient(w)).gradient(x).square());
    check(&format!("third derivative of {what}"), &twice, w);
}

#[test]
fn conv_transpose_gradients_match_differences() {
    let cases = [
        (case(&[2, 2, 3], &[2, 3, 2], [2, 0, 1], 1), 1),
        (case(&[1, 4, 2, 3], &[4, 1, 3, 3], [2, 1, 1], 2), 0),
        (case(&[1, 2, 2, 2], &[2, 2, 2, 2], [1, 1, 3], 1), 2),
        (case(&[1, 1, 2, 1, 2], &[1, 2, 2, 2, 2], [3, 1, 2], 1), 2),
    ];
    for (case, output_padding) in cases {
        let (y, w) = (Weight::new(case.x()), Weight::new(case.w()));
        let x = case.conv_transpose(&y.layer(), &w.layer(), [output_padding; 3]);
        check_all(&format!("transposed {case:?}"), &mixed(&x), &mixed(&x.square()), &y, &w);
    }
}

#[test]
fn conv_transpose_output_padding_extends_end() {
    let (x, w) = (Nd::from([[[1.0, 2.0]]]), Nd::from([[[1.0, 1.0]]]));
    let y = x.conv_transpose1d(&w, Conv::new().dilation(3).output_padding(2));
    assert_eq!(y.predict().wait().unwrap(), Nd::from([[[1.0, 2.0, 0.0, 1.0, 2.0, 0.0, 0.0]]]));
}

#[test]
fn conv_with_empty_batch_or_channels_succeeds() {
    let shapes = |x: [usize; 4], w: [usize; 4]| {
        let (x, w) = (Weight::new(Nd::full(x, 1.0_f32)), Weight::new(Nd::full(w, 1.0_f32)));
        let y = x.conv2d(&w, Conv::new().padding(1));
        let of = |layer: &Layer<Nd<f32, Ix4>>| layer.predict().wait().unwrap();
        let (dx, dw) = (y.sum().gradient(&x), y.sum().gradient(&w));
        assert_eq!((of(&dx).shape(), of(&dw).shape()), (x.value().shape(), w.value().shape()));
        y.sum().train(&Sgd::new(0.1)).wait().unwrap();
        of(&y)
    };
    assert_eq!(shapes([0, 2, 3, 3], [4, 2, 3, 3]).shape(), [0, 4, 3, 3]);
    assert_eq!(shapes([2, 0, 3, 3], [4, 0, 3, 3]), Nd::full([2, 4, 3, 3], 0.0));
    assert_eq!(shapes([2, 1, 3, 3], [0, 1, 3, 3]).shape(), [2, 0, 3, 3]);
    let none = Nd::full([0, 2, 3, 3], 1.0).conv_transpose2d(Nd::full([2, 5, 2, 2], 1.0_f32), Conv::new().stride(2));
    assert_eq!(none.predict().wait().unwrap().shape(), [0, 5, 6, 6]);
}

fn ones(shape: [usize; 4]) -> Nd<f32, Ix4> {
    Nd::full(shape, 1.0)
}

/// The convolution of an input of shape `[2, 3, 8, 8]`.
#[track_caller]
fn conv(w: [usize; 4], conv: Conv<2>) -> Layer<Nd<f32, Ix4>> {
    ones([2, 3, 8, 8]).conv2d(ones(w), conv)
}

#[test]
fn conv_with_invalid_shapes_or_settings_returns_error() {
    let op = "conv2d";
    let takes = "input of shape [2, 3, 8, 8] has 3 channels, but a weight of shape [8, 4, 3, 3] with 1 group takes 4";
    assert!(error_of(conv([8, 4, 3, 3], Conv::new()), op, &[takes]).is_shape());
    error_of(conv([4, 1, 3, 3], Conv::new().groups(3)), op, &["[4, 1, 3, 3]", "length 4", "3 groups"]);
    error_of(conv([4, 2, 3, 3], Conv::new().groups(usize::MAX)), op, &["groups"]);
    assert!(error_of(conv([4, 3, 3, 3], Conv::new().groups(0)), op, &["groups is 0"]).is_invalid());
    assert!(error_of(conv([4, 3, 3, 3], Conv::new().stride([1, 0])), op, &["stride of 0 along axis 3"]).is_invalid());
    error_of(conv([4, 3, 3, 3], Conv::new().dilation([0, 1])), op, &["dilation of 0 along axis 2"]);
    error_of(conv([4, 3, 0, 3], Conv::new()), op, &["kernel of 0 along axis 2"]);
    let parts = ["axis 3 of [2, 3, 8, 8]", "kernel of 5", "dilation 3 spans 13", "padding 2 there are 12"];
    assert!(error_of(conv([4, 3, 3, 5], Conv::new().dilation(3).padding(2)), op, &parts).is_shape());
    let parts = ["keeps the lengths", "stride of 1 instead of 2"];
    assert!(error_of(conv([4, 3, 3, 3], Conv::new().same_padding().stride([1, 2])), op, &parts).is_invalid());
    for huge in [usize::MAX, usize::MAX / 2, usize::MAX / 4, 1 << 61] {
        error_of(conv([4, 3, 3, 3], Conv::new().same_padding().dilation(huge)), op, &["axis 2 of [2, 3, 8, 8]"]);
        error_of(conv([4, 3, 3, 3], Conv::new().padding(huge)), op, &["too large"]);
        error_of(conv([4, 3, 3, 3], Conv::new().dilation(huge)), op, &["axis 2 of [2, 3, 8, 8]"]);
        let strided = conv([4, 3, 3, 3], Conv::new().stride(huge));
        assert_eq!(strided.predict().wait().unwrap().shape(), [2, 4, 1, 1]);
    }
    error_of(ones([1, 1, 0, 4]).conv2d(ones([1, 1, 1, 1]), Conv::new().padding(1)), op, &["axis 2", "length 0"]);
}

#[test]
fn conv_with_wrong_dynamic_rank_returns_error() {
    let (x, w) = (Nd::full(IxDyn(&[2, 3]), 1.0_f32), Nd::full(IxDyn(&[1, 3, 3]), 1.0_f32));
    error_of(x.conv2d(&w, Conv::new()), "conv2d", &["[2, 3] instead of [batch, channels, height, width]"]);
    let x = Nd::full([2, 3, 4, 4], 1.0_f32);
    error_of(x.conv2d(&w, Conv::new()), "conv2d", &["weight of shape [1, 3, 3] has 3 axes instead of 4"]);
    let w = Nd::full(IxDyn(&[1, 3, 3, 3]), 1.0_f32);
    assert_eq!(x.conv2d(&w, Conv::new()).predict().wait().unwrap().shape(), [2, 1, 2, 2]);
}

#[test]
fn conv_transpose_with_invalid_shapes_or_settings_returns_error() {
    let ones = |shape: [usize; 3]| Nd::full(shape, 1.0_f32);
    let x = ones([1, 2, 4]);
    let op = "conv_transpose1d";
    let parts = ["[1, 2, 4] has 2 channels", "[3, 1, 2] with 1 group takes 3"];
    error_of(x.conv_transpose1d(ones([3, 1, 2]), Conv::new()), op, &parts);
    let parts = ["output padding of 2", "axis 2", "stride, 2", "dilation, 1"];
    error_of(x.conv_transpose1d(ones([2, 1, 2]), Conv::new().stride(2).output_padding(2)), op, &parts);
    let parts = ["axis 2 of [1, 2, 4]", "makes 5", "padding of 3"];
    error_of(x.conv_transpose1d(ones([2, 1, 2]), Conv::new().padding(3)), op, &parts);
    error_of(ones([1, 2, 0]).conv_transpose1d(ones([2, 1, 3]), Conv::new()), op, &["axis 2", "length 0"]);
    for huge in [usize::MAX, usize::MAX / 4, 1 << 61] {
        error_of(x.conv_transpose1d(ones([2, 1, 2]), Conv::new().stride(huge)), op, &["too large"]);
        error_of(x.conv_transpose1d(ones([2, 1, 2]), Conv::new().padding(huge)), op, &["axis 2"]);
    }
    error_of(x.conv_transpose1d(ones([2, 1, 2]), Conv::new().groups(5)), op, &["5 groups"]);
    let nothing = ones([2, 0, 4]);
    error_of(nothing.conv_transpose1d(ones([0, 5, 2]), Conv::new().groups(usize::MAX)), op, &["too large"]);
    let none = nothing.conv_transpose1d(ones([0, 0, 2]), Conv::new().groups(usize::MAX));
    assert_eq!(none.predict().wait().unwrap().shape(), [2, 0, 5]);
}

/// More taps than a block of patches has rows; more samples than chunks.
#[test]
fn conv_with_many_taps_or_samples_matches_loops() {
    let taps = case(&[1, 60, 5, 6], &[3, 60, 3, 3], [1, 1, 1], 1);
    let samples = case(&[19, 2, 5, 4], &[3, 2, 3, 3], [1, 1, 1], 1);
    for case in [taps, samples] {
        let (x, w) = (case.x(), case.w());
        close(&value(&case.conv(&x.layer(), &w.layer())), &case.by_loops(&x, &w), &format!("{case:?}"));
        transposes(&case);
    }
}

/// An even kernel reaches one element further at the end.
#[test]
fn conv_with_same_padding_equals_conv_of_padded_input() {
    for (x, w, dilation) in
        [([2, 3, 5, 4], [4, 3, 2, 4], 1), ([1, 2, 6, 6], [2, 2, 4, 3], 3), ([1, 1, 2, 9], [1, 1, 6, 1], 7)]
    {
        let ends = |axis: usize| {
            let both: usize = dilation * (w[axis] - 1);
            (both / 2, both.div_ceil(2))
        };
        let weight = |shape, seed| -> Weight<Nd<f64, Ix4>> { Weight::new(numbers(shape, -1.0, 1.0, seed)) };
        let (x, w) = (weight(x, 1), weight(w, 2));
        let conv = Conv::new().dilation(dilation);
        let same = x.conv2d(&w, conv.same_padding());
        let padded = x.pad(&[(0, 0), (0, 0), ends(2), ends(3)], 0.0).conv2d(&w, conv);
        assert_eq!(value(&same).shape()[2..], x.value().shape()[2..]);
        close(&value(&same.to_dyn()), &value(&padded.to_dyn()), "value");
        let slopes = |y: &Layer<Nd<f64, Ix4>>| [mixed(&y.square()).gradient(&x), mixed(&y.square()).gradient(&w)];
        for (found, wanted) in slopes(&same).iter().zip(slopes(&padded)) {
            close(&value(&found.to_dyn()), &value(&wanted.to_dyn()), "gradient");
        }
        // the transposed convolution keeps the lengths, too
        let (y, back) = (Weight::new(value(&same)), w.value());
        let transposed = y.conv_transpose2d(&back, conv.same_padding());
        close(&value(&transposed.to_dyn()), &value(&(same * y.value()).sum().gradient(&x).to_dyn()), "transposed");
    }
}
