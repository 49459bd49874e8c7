//! Kernels that are divided among threads, and that copy strided lanes in groups, give the elements
//! of a plain loop: for each axis, for lanes that fill no group, for transposed operands.

use dl_core::{Data, Differentiable, Layer};
use dl_nd::ndarray::{Array, ArrayD, Axis, Ix3, IxDyn};
use dl_nd::{Nd, ops::*};
use std::cmp::Ordering;

/// Numbers with many ties, zeros of both signs, and a few NaN.
fn tensors() -> Vec<Nd<f32, IxDyn>> {
    let shapes: [&[usize]; 5] = [&[37, 41, 29], &[3, 1, 20_011], &[70_001], &[33_000, 2], &[4, 0, 3]];
    let number = |i: usize| match i * 7919 % 1013 {
        0 => -0.0,
        1 => f32::NAN,
        n => (n as f32 - 400.0) / 250.0,
    };
    let of = |shape: &&[usize]| {
        let len = shape.iter().product();
        ArrayD::from_shape_vec(shape.to_vec(), (0..len).map(number).collect()).expect("one each")
    };
    let arrays: Vec<ArrayD<f32>> = shapes.iter().map(of).collect();
    let transposed = arrays.iter().map(|array| array.clone().reversed_axes().into());
    arrays.iter().cloned().map(Nd::from).chain(transposed).collect()
}

/// Compares lanes of a result with the reference: all if there are at most 1,000, otherwise one of 7 (at
/// most 3,000) or of 37, and the last 16. Groups of lanes have 8 or 16. `DL_SWEEP=1` takes all.
fn check<B: Copy + std::fmt::Debug + Into<f64>>(
    name: &str,
    op: impl Fn(&Nd<f32, IxDyn>, isize) -> Array<B, IxDyn>,
    reference: impl Fn(&[f32]) -> Vec<B>,
) {
    for x in tensors() {
        for axis in 0..x.shape().len() {
            let y = op(&x, axis as isize);
            let view = x.view();
            let lanes = view.lanes(Axis(axis)).into_iter().len();
            let every = match lanes {
                _ if std::env::var_os("DL_SWEEP").is_some() => 1,
                ..=1000 => 1,
                1001..=3000 => 7,
                _ => 37,
            };
            let is_checked = |lane: usize| lane.is_multiple_of(every) || lane + 16 >= lanes;
            let pairs = view.lanes(Axis(axis)).into_iter().zip(y.lanes(Axis(axis)));
            for (_, (x, y)) in pairs.enumerate().filter(|&(lane, _)| is_checked(lane)) {
                let wanted = reference(&x.to_vec());
                let bits = |y: &B| (*y).into().to_bits();
                let is_nan = |y: &B| (*y).into().is_nan();
                let same = |(y, wanted): (&B, &B)| bits(y) == bits(wanted) || is_nan(y) && is_nan(wanted);
                assert!(y.len() == wanted.len() && y.iter().zip(&wanted).all(same), "{name}, {axis}: {y:?} of {x:?}");
            }
        }
    }
}

fn value<T: Data>(layer: Layer<T>) -> T {
    layer.predict().wait().expect("a value")
}

fn numbers(layer: Layer<Nd<f32, IxDyn>>) -> ArrayD<f32> {
    value(layer).into_array()
}

fn indices(layer: Layer<Nd<usize, IxDyn>>) -> ArrayD<u32> {
    value(layer).into_array().mapv(|index| index as u32)
}

/// NaN is greatest, equal elements keep their order.
fn order(x: &[f32], descending: bool) -> Vec<u32> {
    let compare = |a: f32, b: f32| a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
    let mut order: Vec<u32> = (0..x.len() as u32).collect();
    order.sort_by(|&i, &j| {
        let order: Ordering = compare(x[i as usize], x[j as usize]);
        if descending { order.reverse() } else { order }
    });
    order
}

#[test]
fn sorting_along_any_axis_orders_each_lane() {
    check("argsort", |x, axis| indices(x.argsort(axis, false)), |x| order(x, false));
    check("descending", |x, axis| indices(x.argsort(axis, true)), |x| order(x, true));
    let sorted = |x: &[f32]| order(x, false).into_iter().map(|i| x[i as usize]).collect();
    check("sort", |x, axis| numbers(x.sort(axis, false).0), sorted);
    for k in [0, 1, 2] {
        let fits = |x: &Nd<f32, IxDyn>, axis: isize| k.min(x.shape()[axis as usize]);
        check("topk", |x, axis| indices(x.topk(axis, fits(x, axis)).1), |x| order(x, true)[..k.min(x.len())].to_vec());
    }
}

#[test]
fn sorting_integers_and_bools_orders_negative_numbers_first() {
    let x = Nd::from(vec![3_i64, i64::MIN, -1, i64::MAX, 0, -1]);
    assert_eq!(value(x.argsort(0, false)), Nd::from(vec![1, 2, 5, 4, 0, 3]));
    assert_eq!(value(x.argsort(0, true)), Nd::from(vec![3, 0, 4, 2, 5, 1]));
    let x = Nd::from(vec![3_i32, i32::MIN, -1, i32::MAX, 0]);
    assert_eq!(value(x.argsort(0, false)), Nd::from(vec![1, 2, 4, 0, 3]));
    assert_eq!(value(Nd::from(vec![true, false, true]).argsort(0, true)), Nd::from(vec![0, 2, 1]));
    assert_eq!(
        value(Nd::from(vec![0.5_f64, f64::NAN, -0.0, 0.0, -1.0]).argsort(0, false)),
        Nd::from(vec![4, 2, 3, 0, 1])
    );
}

#[test]
fn extremum_along_any_axis_is_first_of_each_lane() {
    let longest = |x: Nd<f32, IxDyn>| x.shape().contains(&0);
    let find = |largest: bool| {
        move |x: &[f32]| {
            let beats = |x: f32, best: f32| (if largest { x > best } else { x < best }) || x.is_nan() && !best.is_nan();
            let best = (1..x.len()).fold(0, |best, i| if beats(x[i], x[best]) { i } else { best });
            if x.is_empty() { Vec::new() } else { vec![best as u32] }
        }
    };
    let or_empty = |x: &Nd<f32, IxDyn>, axis: isize, op: &dyn Fn() -> Layer<Nd<usize, IxDyn>>| {
        let mut shape = x.shape().to_vec();
        if !longest(x.clone()) {
            return indices(op());
        }
        shape[axis as usize] = shape[axis as usize].min(1);
        ArrayD::zeros(shape)
    };
    check("argmax", |x, axis| or_empty(x, axis, &|| x.argmax_keepdim(axis)), find(true));
    check("argmin", |x, axis| or_empty(x, axis, &|| x.argmin_keepdim(axis)), find(false));
}

#[test]
fn scans_along_any_axis_are_those_of_each_lane() {
    let product = |x: &[f32]| {
        // in `f64`: a product that underflows in `f32` may grow again
        let mut state = 1.0;
        let step = |&x: &f32| {
            state = f64::from(x) * state + 0.0;
            state as f32
        };
        x.iter().map(step).collect::<Vec<f32>>()
    };
    check("cumprod", |x, axis| numbers(x.cumprod(axis)), product);
    let extremum = |largest: bool| {
        move |x: &[f32]| {
            let mut best = 0;
            let step = |i: usize| {
                let beats = if largest { x[i] >= x[best] } else { x[i] <= x[best] };
                best = if x[i].is_nan() || beats { i } else { best };
                best as u32
            };
            (0..x.len()).map(step).collect::<Vec<u32>>()
        }
    };
    check("cummax", |x, axis| indices(x.cummax(axis).1), extremum(true));
    check("cummin", |x, axis| indices(x.cummin(axis).1), extremum(false));
    let alone = |x: &[f32]| value(Nd::from(x.to_vec()).logcumsumexp(0)).into_array().to_vec();
    check("logcumsumexp", |x, axis| numbers(x.logcumsumexp(axis)), alone);
    let alone = |x: &[f32]| value(Nd::from(x.to_vec()).cumsum(0)).into_array().to_vec();
    check("cumsum", |x, axis| numbers(x.cumsum(axis)), alone);
}

#[test]
fn moved_elements_are_those_of_each_lane() {
    let roll = |x: &[f32]| {
        let mut x = x.to_vec();
        let by = 2 % x.len().max(1);
        x.rotate_right(by);
        x
    };
    check("roll", |x, axis| numbers(x.roll(axis, 2)), roll);
    let twice = |x: &[f32]| [x, x].concat();
    check("concat", |x, axis| numbers(concat(axis, [x, x])), twice);
    let pad = |x: &Nd<f32, IxDyn>, axis: isize| {
        let mut widths = vec![(0, 0); x.shape().len()];
        widths[axis as usize] = (1, 2);
        numbers(x.pad(&widths, 5.0))
    };
    check("pad", pad, |x| [&[5.0], x, &[5.0, 5.0]].concat());
    let cast = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    check("cast", |x, _| value(x.cast::<f64>()).into_array(), cast);
    for x in tensors() {
        let mask = value(x.greater(0.0));
        let wanted: Vec<f32> = x.view().iter().copied().filter(|&x| x > 0.0).collect();
        assert_eq!(value(x.masked_select(&mask)).into_array().to_vec(), wanted);
        let floats: Vec<f32> = x.view().iter().map(|&x| f32::from(x > 0.0)).collect();
        assert_eq!(value(mask.to_floats::<f32>()).into_array().iter().copied().collect::<Vec<_>>(), floats);
        if x.shape().len() < 2 || x.shape().contains(&0) {
            continue;
        }
        let axes = x.shape().len();
        for k in [-1, 0, 3] {
            let (lower, upper) = (numbers(x.tril(k)), numbers(x.triu(k)));
            for ((place, &x), (&lower, &upper)) in x.view().indexed_iter().zip(lower.iter().zip(&upper)) {
                let right = place[axes - 1] as isize - place[axes - 2] as isize - k;
                let same = |y: f32, kept: bool| y.to_bits() == if kept { x.to_bits() } else { 0 };
                assert!(same(lower, right <= 0) && same(upper, right >= 0), "{place:?}");
            }
        }
    }
}

#[test]
fn resampling_of_many_lanes_is_that_of_each_lane() {
    let x: Nd<f32, _> =
        Nd::from_vec([3, 35, 700], (0..3 * 35 * 700).map(|i| (i * 37 % 101) as f32 * 0.1).collect()).expect("one each");
    let lane = |i: usize| Nd::from_vec([1, 1, 700], x.view().iter().copied().skip(i * 700).take(700).collect());
    type Resample<'a> = &'a dyn Fn(&Nd<f32, Ix3>) -> Layer<Nd<f32, Ix3>>;
    let ops: [Resample<'_>; 3] =
        [&|x| x.upsample_linear([900], false), &|x| x.adaptive_avg_pool1d([7]), &|x| x.upsample_nearest1d([333])];
    for op in ops {
        let whole = value(op(&x)).into_array();
        for (i, row) in whole.rows().into_iter().enumerate() {
            let alone = value(op(&lane(i).expect("one each"))).into_array();
            assert!(row.iter().zip(&alone).all(|(a, b)| a.to_bits() == b.to_bits()), "lane {i}");
        }
    }
}

#[test]
fn scattered_sums_along_any_axis_are_those_of_each_lane() {
    for (distinct, x) in [2, 1013].into_iter().flat_map(|distinct| tensors().into_iter().map(move |x| (distinct, x))) {
        let x: Nd<f32, IxDyn> = x.view().mapv(|x| if x.is_nan() { 0.1 } else { x }).into();
        for axis in (0..x.shape().len()).filter(|_| !x.shape().contains(&0)) {
            let length = x.shape()[axis];
            let mut at = 0;
            let index = |_: &f32| {
                at += 1;
                at * at * 7919 % distinct % length
            };
            let table: Nd<usize, IxDyn> = x.view().as_standard_layout().map(index).into();
            let y = numbers(x.scatter_add(axis as isize, &table, &x));
            let (of_x, of_table) = (x.view(), table.view());
            let lanes = of_x.lanes(Axis(axis)).into_iter().zip(of_table.lanes(Axis(axis)));
            let some = x.len() / length / 200 + 1;
            for ((x, table), y) in lanes.zip(y.lanes(Axis(axis))).step_by(some) {
                let (x, table) = (Nd::from(x.to_vec()), Nd::from(table.to_vec()));
                let alone = value(x.scatter_add(0, &table, &x)).into_array();
                assert!(y.iter().zip(&alone).all(|(a, b)| a.to_bits() == b.to_bits()), "{distinct} along {axis}");
            }
        }
    }
}

#[test]
fn log_sum_exp_of_many_elements_is_that_of_each_lane() {
    let rows = 70_usize;
    let mut x = Array::from_shape_fn((rows, 900), |(i, j)| (i * 31 + j * 7919 % 1013) as f32 * 0.01);
    for (row, number) in [(0, f32::NAN), (1, f32::INFINITY), (2, f32::NEG_INFINITY), (3, 1e38), (4, -1e38)] {
        x.row_mut(row).fill(number);
    }
    x[[5, 7]] = f32::NAN;
    x[[6, 7]] = f32::NEG_INFINITY;
    let y = value(Nd::from(x.clone()).logsumexp_axis(1));
    let z = value(Nd::from(x.clone().reversed_axes()).logsumexp_axis(0));
    for (i, row) in x.rows().into_iter().enumerate() {
        let alone = value(Nd::from(row.to_vec()).logsumexp());
        for y in [y[i], z[i]] {
            let close = (y - alone).abs() <= 4e-7 * alone.abs();
            assert!(y == alone || y.is_nan() && alone.is_nan() || close, "{i}: {y} and {alone}");
        }
    }
    let finite = x.slice(dl_nd::ndarray::s![7.., ..]).to_owned();
    let wanted = finite.iter().map(|&x| f64::from(x).exp()).sum::<f64>().ln() as f32;
    assert!((value(Nd::from(finite).logsumexp()) / wanted - 1.0).abs() < 4e-7);
    assert!(value(Nd::from(x).logsumexp()).is_nan());
}

#[test]
fn masks_and_indices_take_memory_of_dropped_ones() {
    let x = Nd::<f32, _>::full([300, 1000], 0.5);
    let place = |mask: &Nd<bool, _>| mask.view().as_ptr();
    let first = value(x.greater(0.0));
    let before = place(&first);
    drop(first);
    assert_eq!(place(&value(x.greater(1.0))), before);
    let first = value(x.argsort(1, false));
    let before = first.view().as_ptr();
    drop(first);
    assert_eq!(value(x.argsort(1, true)).view().as_ptr(), before);
}
