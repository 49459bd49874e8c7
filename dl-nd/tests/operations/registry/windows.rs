//! Convolution, pooling and resampling.

use super::ops;
use crate::case::Args;
use crate::draw::{Draw, Sample};
use dl_nd::{AvgPool, Pool};
use dl_nd::{Conv, ConvTranspose, ops::*};
use serde_json::{Value, json};

/// The argument `name`, a setting for each spatial axis.
fn each<const N: usize>(args: &Args, name: &str) -> [usize; N] {
    args.lengths(name).try_into().expect("one for each axis")
}

/// Whether the padding keeps the lengths.
fn is_same(args: &Args) -> bool {
    args.0["padding"] == "same"
}

/// Padding at both ends, or sometimes that which keeps the lengths, if all strides are 1.
fn padding<const N: usize>(draw: &mut Draw, windows: &[Window; N]) -> Value {
    match windows.iter().all(|window| window.stride == 1) && draw.flip() {
        true => json!("same"),
        false => json!(windows.each_ref().map(|window| window.padding).to_vec()),
    }
}

fn conv<const N: usize>(args: &Args) -> Conv<N> {
    let conv = Conv::new().stride(each(args, "stride")).dilation(each(args, "dilation")).groups(args.count("groups"));
    if is_same(args) { conv.same_padding() } else { conv.padding(each(args, "padding")) }
}

fn conv_transpose<const N: usize>(args: &Args) -> ConvTranspose<N> {
    conv(args).output_padding(each(args, "output_padding"))
}

fn pool<const N: usize>(args: &Args) -> Pool<N> {
    let pool = Pool::new(each(args, "kernel")).stride(each(args, "stride")).ceil_mode(args.flag("ceil"));
    if is_same(args) { pool.same_padding() } else { pool.padding(each(args, "padding")) }
}

fn avg_pool<const N: usize>(args: &Args) -> AvgPool<N> {
    pool(args).count_include_pad(args.flag("count_include_pad"))
}

/// A window along one axis, and a length of the padded axis that holds at least one window.
struct Window {
    kernel: usize,
    stride: usize,
    dilation: usize,
    padding: usize,
    length: usize,
}

impl Window {
    fn draw(draw: &mut Draw, longest: usize) -> Self {
        let (kernel, stride, dilation) = (draw.between(1..=longest), draw.between(1..=2), draw.between(1..=2));
        let padding = draw.between(0..=kernel / 2);
        let least = (dilation * (kernel - 1) + 1).saturating_sub(2 * padding).max(1);
        Window { kernel, stride, dilation, padding, length: draw.between(least..=least + 1) }
    }
}

fn convolved<const N: usize>(draw: &mut Draw) -> Sample {
    let windows: [Window; N] = std::array::from_fn(|_| Window::draw(draw, if N == 1 { 3 } else { 2 }));
    let (batch, groups, channels, out) =
        (draw.between(1..=2), draw.between(1..=2), draw.between(1..=2), draw.between(1..=2));
    let args = json!({
        "stride": windows.each_ref().map(|window| window.stride).to_vec(),
        "padding": padding(draw, &windows),
        "dilation": windows.each_ref().map(|window| window.dilation).to_vec(),
        "groups": groups,
    });
    let x = [&[batch, groups * channels][..], &windows.each_ref().map(|window| window.length)].concat();
    let w = [&[groups * out, channels][..], &windows.each_ref().map(|window| window.kernel)].concat();
    Draw::sample(args, [draw.numbers(&x, -2.0, 2.0), draw.numbers(&w, -2.0, 2.0)])
}

/// A transposed convolution. The padding must not exceed the span of the kernel, and the output
/// padding must be less than the stride.
fn convolved_back<const N: usize>(draw: &mut Draw) -> Sample {
    let windows: [Window; N] = std::array::from_fn(|_| Window::draw(draw, 2));
    let (batch, groups, channels, out) = (draw.between(1..=2), draw.between(1..=2), 1, draw.between(1..=2));
    let args = json!({
        "stride": windows.each_ref().map(|window| window.stride).to_vec(),
        "padding": windows.each_ref().map(|window| window.padding * (window.dilation - 1)).to_vec(),
        "dilation": windows.each_ref().map(|window| window.dilation).to_vec(),
        "output_padding": windows.each_ref().map(|window| window.stride - 1).to_vec(),
        "groups": groups,
    });
    let x = [&[batch, groups * channels][..], &windows.each_ref().map(|window| window.length)].concat();
    let w = [&[groups * channels, out][..], &windows.each_ref().map(|window| window.kernel)].concat();
    Draw::sample(args, [draw.numbers(&x, -2.0, 2.0), draw.numbers(&w, -2.0, 2.0)])
}

/// Windows are padded or dilated, not both, as a window that covers padding only has no maximum.
fn pooled<const N: usize>(draw: &mut Draw, dilated: bool) -> Sample {
    let windows: [Window; N] = std::array::from_fn(|_| {
        let window = Window::draw(draw, if N == 1 { 3 } else { 2 });
        match dilated && draw.flip() {
            true => Window { padding: 0, length: window.length + 2 * window.padding, ..window },
            false => Window { dilation: 1, ..window },
        }
    });
    let args = json!({
        "kernel": windows.each_ref().map(|window| window.kernel).to_vec(),
        "stride": windows.each_ref().map(|window| window.stride).to_vec(),
        "padding": padding(draw, &windows),
        "dilation": windows.each_ref().map(|window| window.dilation).to_vec(),
        "ceil": draw.flip(),
        "count_include_pad": draw.flip(),
    });
    let x = [&[draw.between(1..=2), 1][..], &windows.each_ref().map(|window| window.length)].concat();
    Draw::sample(args, [draw.numbers(&x, -2.0, 2.0)])
}

fn resized<const N: usize>(draw: &mut Draw) -> Sample {
    let size: [usize; N] = std::array::from_fn(|_| draw.between(1..=4));
    let lengths: [usize; N] = std::array::from_fn(|_| draw.between(1..=4));
    let args = json!({ "size": size.to_vec(), "align_corners": draw.flip() });
    let x = [&[draw.between(1..=2), 1][..], &lengths].concat();
    Draw::sample(args, [draw.numbers(&x, -2.0, 2.0)])
}

ops! {
    "conv1d", Some(convolved::<1>), |args, x| x[0].conv1d(&x[1], conv(args));
    "conv2d", Some(convolved::<2>), |args, x| x[0].conv2d(&x[1], conv(args));
    "conv3d", Some(convolved::<3>), |args, x| x[0].conv3d(&x[1], conv(args));
    "conv_transpose1d", Some(convolved_back::<1>), |args, x| x[0].conv_transpose1d(&x[1], conv_transpose(args));
    "conv_transpose2d", Some(convolved_back::<2>), |args, x| x[0].conv_transpose2d(&x[1], conv_transpose(args));
    "conv_transpose3d", Some(convolved_back::<3>), |args, x| x[0].conv_transpose3d(&x[1], conv_transpose(args));
    "max_pool1d", Some(|draw| pooled::<1>(draw, true)), |args, x| x[0].max_pool1d(pool(args).dilation(each(args, "dilation")));
    "max_pool2d", Some(|draw| pooled::<2>(draw, true)), |args, x| x[0].max_pool2d(pool(args).dilation(each(args, "dilation")));
    "max_pool3d", Some(|draw| pooled::<3>(draw, true)), |args, x| x[0].max_pool3d(pool(args).dilation(each(args, "dilation")));
    "avg_pool1d", Some(|draw| pooled::<1>(draw, false)), |args, x| x[0].avg_pool1d(avg_pool(args));
    "avg_pool2d", Some(|draw| pooled::<2>(draw, false)), |args, x| x[0].avg_pool2d(avg_pool(args));
    "avg_pool3d", Some(|draw| pooled::<3>(draw, false)), |args, x| x[0].avg_pool3d(avg_pool(args));
    "adaptive_avg_pool1d", Some(resized::<1>), |args, x| x[0].adaptive_avg_pool1d(each(args, "size"));
    "adaptive_avg_pool2d", Some(resized::<2>), |args, x| x[0].adaptive_avg_pool2d(each(args, "size"));
    "adaptive_avg_pool3d", Some(resized::<3>), |args, x| x[0].adaptive_avg_pool3d(each(args, "size"));
    "adaptive_max_pool1d", Some(resized::<1>), |args, x| x[0].adaptive_max_pool1d(each(args, "size"));
    "adaptive_max_pool2d", Some(resized::<2>), |args, x| x[0].adaptive_max_pool2d(each(args, "size"));
    "adaptive_max_pool3d", Some(resized::<3>), |args, x| x[0].adaptive_max_pool3d(each(args, "size"));
    "upsample_nearest1d", Some(resized::<1>), |args, x| x[0].upsample_nearest1d(each(args, "size"));
    "upsample_nearest2d", Some(resized::<2>), |args, x| x[0].upsample_nearest2d(each(args, "size"));
    "upsample_nearest3d", Some(resized::<3>), |args, x| x[0].upsample_nearest3d(each(args, "size"));
    "upsample_bicubic", Some(resized::<2>), |args, x| x[0].upsample_bicubic(each(args, "size"), args.flag("align_corners"));
    "upsample_linear", Some(resized::<1>), |args, x| x[0].upsample_linear(each(args, "size"), args.flag("align_corners"));
    "upsample_bilinear", Some(resized::<2>), |args, x| x[0].upsample_bilinear(each(args, "size"), args.flag("align_corners"));
    "upsample_trilinear", Some(resized::<3>), |args, x| x[0].upsample_trilinear(each(args, "size"), args.flag("align_corners"));
}
