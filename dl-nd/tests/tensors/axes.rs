//! Kernels along an axis, and elementwise ones, against plain loops: every axis, several layouts,
//! lengths around the sizes of blocks and chunks, and empty tensors.

use crate::compare::value;
use dl_core::{Data, Differentiable, Layer, Weight};
use dl_nd::ndarray::{ArrayD, ArrayViewMut1, Axis, IxDyn, Slice};
use dl_nd::{Element, Nd, ops::*};

type Open<A> = Nd<A, IxDyn>;

/// Numbers between −2 and 2, in no order, of which some are equal.
fn numbers<A: Element>(shape: &[usize]) -> Open<A> {
    let len: usize = shape.iter().product();
    let number = |i: usize| A::of(((i * 7919 + 13) % 1013) as f64 / 256.0 - 2.0);
    Nd::from_vec(IxDyn(shape), (0..len).map(number).collect()).expect("one each")
}

fn indices(shape: &[usize], below: usize) -> Open<usize> {
    let len: usize = shape.iter().product();
    Nd::from_vec(IxDyn(shape), (0..len).map(|i| (i * 7919 + 5) % below).collect()).expect("one each")
}

/// The same elements in row-major and in column-major order, and with other axes in between.
fn layouts<A: Element>(x: &Open<A>) -> Vec<Open<A>> {
    let reversed = value(&x.t()).into_array().as_standard_layout().into_owned().reversed_axes();
    let mut wide = ArrayD::from_elem(x.shape().iter().map(|&length| 2 * length + 1).collect::<Vec<_>>(), A::nan());
    let mut inside = wide.view_mut();
    (0..x.shape().len()).for_each(|axis| inside.slice_axis_inplace(Axis(axis), Slice::new(1, None, 2)));
    inside.assign(&x.view());
    let mut inside = wide.into_shared();
    (0..x.shape().len()).for_each(|axis| inside.slice_axis_inplace(Axis(axis), Slice::new(1, None, 2)));
    let all = vec![x.clone(), Nd::from(reversed.into_dyn()), Nd::from(inside)];
    assert!(all.iter().all(|other| other == x));
    all
}

const SMALL: [&[usize]; 5] = [&[7], &[3, 5, 4], &[1, 40, 1], &[2, 1, 33, 3], &[600, 2]];
/// Of more than one chunk.
const LARGE: [&[usize]; 5] = [&[70_001], &[300, 257], &[2, 150, 200], &[40_000, 2], &[3, 30_000]];

/// Every shape with each axis: the small ones in all layouts, the large ones in row-major order.
fn cases<A: Element>() -> impl Iterator<Item = (Open<A>, usize)> {
    let all = SMALL.iter().flat_map(|shape| layouts(&numbers::<A>(shape)));
    let all = all.chain(LARGE.iter().map(|shape| numbers(shape)));
    all.flat_map(|x| (0..x.shape().len()).map(move |axis| (x.clone(), axis)))
}

fn bits<A: Element>(x: &Open<A>) -> Vec<u64> {
    x.view().iter().map(|&x| Into::<f64>::into(x.to_f64().expect("a number")).to_bits()).collect()
}

/// A result is the same on one and on several threads, to the bit.
fn on_threads<T: Data>(layer: impl Fn() -> Layer<T> + Sync, same: impl Fn(&T, &T) -> bool) -> T {
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| value(&layer()))
    };
    let one = on(1);
    assert!(same(&on(3), &one), "one thread and three");
    one
}

/// Applies a function to each lane, in place.
fn by_lanes<A: Element>(x: &Open<A>, axis: usize, mut change: impl FnMut(ArrayViewMut1<'_, A>)) -> Open<A> {
    let mut x = x.clone().into_array();
    x.lanes_mut(Axis(axis)).into_iter().for_each(&mut change);
    x.into()
}

fn extrema_and_products<A: Element>() {
    for (x, last) in cases::<A>().filter(|(x, _)| x.len() < 1_000 || size_of::<A>() == 4) {
        // one axis, and it together with the ones before
        for axes in [vec![last as isize], (0..=last as isize).collect(), vec![0, last as isize]] {
            let axes = if axes[0] == axes[axes.len() - 1] { vec![axes[0]] } else { axes };
            let what = format!("{:?}, {axes:?}", x.shape());
            let fold = |x: &Open<A>, start: A, of: fn(A, A) -> A| {
                axes.iter().fold(x.clone().into_array(), |x, &axis| {
                    let axis = Axis(axis as usize);
                    x.fold_axis(axis, start, |&all, &x| of(all, x)).insert_axis(axis)
                })
            };
            let largest = on_threads(|| x.amax_keepdim(axes.clone()), |a, b| bits(a) == bits(b));
            assert_eq!(largest, fold(&x, A::neg_infinity(), A::max).into(), "{what}");
            let smallest = on_threads(|| x.amin_keepdim(axes.clone()), |a, b| bits(a) == bits(b));
            assert_eq!(smallest, fold(&x, A::infinity(), A::min).into(), "{what}");
            // signs: the product is exact
            let signs = Nd::from(x.view().mapv(|x| if x < A::zero() { -A::of(1.0) } else { A::of(1.0) }));
            let product = value(&signs.prod_keepdim(axes.clone()));
            assert_eq!(product, fold(&signs, A::of(1.0), |all, x| all * x).into(), "{what}");
        }
    }
}

#[test]
fn extrema_and_products_match_loops() {
    extrema_and_products::<f32>();
    extrema_and_products::<f64>();
}

#[test]
fn nan_anywhere_makes_extremum_nan() {
    for len in [1, 5, 31, 32, 33, 100, 70_000] {
        for place in [0, len / 2, len - 1] {
            let mut x = numbers::<f32>(&[len]).into_vec();
            x[place] = f32::NAN;
            let row = Nd::from(x);
            let columns = value(&row.reshape([len, 1]).expand([len, 20]));
            assert!(value(&row.amax()).is_nan() && value(&row.amin()).is_nan(), "{place} of {len}");
            let both = [columns.amax_axis(0), columns.amin_axis(0)].map(|x| value(&x));
            assert!(both.iter().all(|x| x.view().iter().all(|x| x.is_nan())), "{place} of {len}");
        }
    }
}

#[test]
fn fold_of_no_elements_is_neutral_or_error() {
    for shape in [[0, 3], [3, 0], [0, 0]] {
        let x = numbers::<f32>(&shape);
        let of_first = value(&x.prod_axis(vec![0]));
        assert!(of_first.shape() == &shape[1..] && of_first.view().iter().all(|&x| x == 1.0), "{shape:?}");
        assert_eq!(x.amax_axis(vec![0]).predict().wait().is_err(), shape[0] == 0, "{shape:?}");
        assert_eq!(value(&x.prod()), 1.0);
        assert_eq!(value(&x.cumsum(0)).shape(), shape);
        assert_eq!(value(&x.softmax(0)).shape(), shape);
    }
}

/// Neumaier's sum, one lane at a time.
fn running_sum<A: Element>(mut lane: ArrayViewMut1<'_, A>) {
    let (mut sum, mut error) = (A::zero(), A::zero());
    for x in &mut lane {
        let next = sum + *x;
        let lost = if sum.abs() >= x.abs() { (sum - next) + *x } else { (*x - next) + sum };
        error = if lost.is_finite() { error + lost } else { error };
        sum = next;
        *x = sum + error;
    }
}

fn cumulative_sums<A: Element>() {
    for (x, axis) in cases::<A>() {
        let (what, w) = (format!("{:?}, axis {axis}", x.shape()), Weight::new(x.clone()));
        let sums = w.cumsum(axis as isize);
        let found = on_threads(|| sums.clone(), |a, b| bits(a) == bits(b));
        assert_eq!(bits(&found), bits(&by_lanes(&x, axis, running_sum)), "{what}");
        // the gradient sums from the end
        let factors = numbers::<A>(x.shape());
        let backwards = by_lanes(&factors, axis, |mut lane| {
            lane.invert_axis(Axis(0));
            running_sum(lane);
        });
        assert_eq!(value(&sums.vjp(&w, &factors.layer())), backwards, "{what}");
    }
}

#[test]
fn cumulative_sum_along_any_axis_has_bits_of_loop() {
    cumulative_sums::<f32>();
    cumulative_sums::<f64>();
}

/// The softmax along an axis has the bits of that along the last axis of the permuted tensor.
fn softmaxes<A: Element>() {
    for (x, axis) in cases::<A>() {
        let rank = x.shape().len();
        let mut order: Vec<usize> = (0..rank).collect();
        order.remove(axis);
        order.push(axis);
        let permuted = Nd::from(x.clone().into_array().permuted_axes(order.clone()).as_standard_layout().into_owned());
        let back: Vec<usize> =
            (0..rank).map(|axis| order.iter().position(|&at| at == axis).expect("an axis")).collect();
        let pairs = [
            (x.softmax(axis as isize), permuted.softmax(-1)),
            (x.log_softmax(axis as isize), permuted.log_softmax(-1)),
        ];
        for (found, wanted) in pairs {
            let found = on_threads(|| found.clone(), |a, b| bits(a) == bits(b));
            let wanted = Nd::from(value(&wanted).into_array().permuted_axes(back.clone()));
            assert_eq!(bits(&found), bits(&wanted), "{:?}, axis {axis}", x.shape());
        }
    }
}

#[test]
fn softmax_along_any_axis_has_bits_of_last_axis() {
    softmaxes::<f32>();
    softmaxes::<f64>();
    // −∞ and NaN in some lanes
    for len in [3, 200] {
        let mut rows = vec![numbers::<f32>(&[20]).into_vec(); len];
        rows.iter_mut().for_each(|row| row[3] = f32::NEG_INFINITY);
        rows[len - 1][5] = f32::NAN;
        rows[0][7] = f32::NEG_INFINITY;
        let x = Nd::from_vec([len, 20], rows.concat()).expect("one each");
        let (found, wanted) = (value(&x.softmax(0)), value(&x.t().softmax(1).t()));
        let same = |(a, b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan();
        assert!(found.view().iter().zip(wanted.view()).all(same), "{found:?} instead of {wanted:?}");
        assert!(found[[0, 3]].is_nan() && found[[0, 5]].is_nan() && found[[0, 7]] == 0.0);
    }
}

fn selections<A: Element>() {
    // without optimization, indices of dynamic rank take long
    for (x, axis) in cases::<A>().filter(|(x, _)| x.len() < 1_000 || size_of::<A>() == 4) {
        let (shape, along, what) = (x.shape(), Axis(axis), format!("{:?}, axis {axis}", x.shape()));
        let list = indices(&[if x.len() < 1_000 { 23 } else { 5 }], shape[axis]).into_vec();
        let w = Weight::new(x.clone());
        let taken = w.index_select(axis as isize, &list);
        let wanted = x.view().select(along, &list);
        assert_eq!(on_threads(|| taken.clone(), |a, b| a == b), wanted.clone().into(), "{what}");
        let factors = numbers::<A>(wanted.shape());
        let mut sums = ArrayD::from_elem(shape, A::zero());
        for (part, &index) in factors.view().axis_iter(along).zip(&list) {
            sums.index_axis_mut(along, index).zip_mut_with(&part, |sum, &part| *sum = *sum + part);
        }
        let gradient = taken.vjp(&w, &factors.layer());
        assert_eq!(on_threads(|| gradient.clone(), |a, b| a == b), sums.into(), "{what}");
        // the indices are as long as the tensor along other axes, or shorter
        for shorter in 0..if x.len() < 1_000 { 2 } else { 1 } {
            let mut places: Vec<usize> = shape.iter().map(|&length| (length - shorter).max(1)).collect();
            places[axis] = if x.len() < 1_000 { 9 } else { 3 };
            gathers(&w, &x, axis, &indices(&places, shape[axis]));
        }
    }
}

fn gathers<A: Element>(w: &Weight<Open<A>>, x: &Open<A>, axis: usize, places: &Open<usize>) {
    let source = numbers::<A>(places.shape());
    let (mut wanted, mut sums) = (ArrayD::from_elem(places.shape(), A::zero()), x.clone().into_array());
    let mut delta = ArrayD::from_elem(x.shape(), A::zero());
    for (place, &index) in places.view().indexed_iter() {
        let mut from = place.clone();
        from[axis] = index;
        wanted[&place] = x.view()[&from];
        sums[&from] = sums[&from] + source.view()[&place];
        delta[&from] = delta[&from] + source.view()[&place];
    }
    let (what, axis) = (format!("{:?}, axis {axis}, indices {:?}", x.shape(), places.shape()), axis as isize);
    let gathered = w.gather(axis, places);
    assert_eq!(on_threads(|| gathered.clone(), |a, b| a == b), wanted.into(), "{what}");
    let gradient = gathered.vjp(w, &source.layer());
    assert_eq!(on_threads(|| gradient.clone(), |a, b| a == b), delta.into(), "{what}");
    let scattered = w.scatter_add(axis, places, &source);
    assert_eq!(on_threads(|| scattered.clone(), |a, b| a == b), sums.into(), "{what}");
}

#[test]
fn selection_along_any_axis_matches_loop() {
    selections::<f32>();
    selections::<f64>();
}

#[test]
fn selection_of_nothing_is_empty() {
    let x = Weight::new(numbers::<f32>(&[3, 4]));
    let none: Open<usize> = indices(&[0, 4], 3);
    assert_eq!(value(&x.index_select(0, Vec::new())).shape(), [0, 4]);
    assert_eq!(value(&x.gather(0, &none)).shape(), [0, 4]);
    assert_eq!(value(&x.scatter_add(0, &none, numbers(&[0, 4]))), x.value());
    let gradient = x.index_select(0, Vec::new()).sum() + x.gather(0, &none).sum();
    assert_eq!(value(&gradient.gradient(&x)), Nd::full(IxDyn(&[3, 4]), 0.0));
    let flat = numbers::<f32>(&[3, 0]);
    assert_eq!(value(&flat.index_select(0, [2, 2])).shape(), [2, 0]);
}

#[test]
fn masks_and_choices_match_loops() {
    for (x, axis) in cases::<f32>().filter(|(_, axis)| *axis == 0) {
        let shape = x.shape();
        let row = numbers::<f32>(&[shape[shape.len() - 1]]);
        let whole = Nd::from(numbers::<f32>(shape).view().mapv(|x| 0.5 - x));
        for (y, wide) in [(&whole, whole.clone()), (&row, value(&row.expand(shape)))] {
            let wide = wide.into_vec();
            let by_pairs = |of: fn(f32, f32) -> bool| -> Vec<bool> {
                x.view().iter().zip(&wide).map(|(&a, &b)| of(a, b)).collect()
            };
            let less = on_threads(|| x.less(y), |a, b| a == b);
            let (is_less, is_equal) = (by_pairs(|a, b| a < b), by_pairs(|a, b| a == b));
            let equal = value(&x.equal(y));
            assert_eq!((less.clone().into_vec(), equal.clone().into_vec()), (is_less.clone(), is_equal.clone()));
            let both = |of: fn(bool, bool) -> bool| -> Vec<bool> {
                is_less.iter().zip(&is_equal).map(|(&a, &b)| of(a, b)).collect()
            };
            assert_eq!(value(&less.logical_and(&equal)).into_vec(), both(|a, b| a & b), "{shape:?}, {axis}");
            assert_eq!(value(&less.logical_or(&equal)).into_vec(), both(|a, b| a | b), "{shape:?}");
            assert_eq!(value(&less.logical_not()).into_vec(), both(|a, _| !a), "{shape:?}");
            let chosen = on_threads(|| where_(&less, &x, y), |a, b| a == b).into_vec();
            let wanted: Vec<f32> = x.view().iter().zip(&wide).map(|(&a, &b)| if a < b { a } else { b }).collect();
            assert_eq!(chosen, wanted, "{shape:?}");
            let chosen = value(&where_(&less, 0.25, &x)).into_vec();
            let wanted: Vec<f32> =
                x.view().iter().zip(&is_less).map(|(&a, &less)| if less { 0.25 } else { a }).collect();
            assert_eq!(chosen, wanted, "{shape:?}");
        }
    }
}

/// Selects a row.
type Lookup = fn(&Weight<Open<f32>>, usize) -> Layer<Open<f32>>;

/// Forty lookups of one row each: their deltas are added in one tensor, as those of slices.
#[test]
fn deltas_of_many_lookups_are_one_sum() {
    for (rows, width) in [(20, 3), (300, 100)] {
        let w = Weight::new(numbers::<f32>(&[rows, width]));
        let (count, at) = (40, |i: usize| i * 7 % rows);
        let ways: [(&str, Lookup); 4] = [
            ("embedding", |w, row| IndexOps::embedding(w, [row]).to_rank()),
            ("index_select", |w, row| w.index_select(0, [row])),
            ("gather", |w, row| w.gather(0, Nd::full(IxDyn(&[1, w.value().shape()[1]]), row))),
            ("slice", |w, row| w.slice_axis(0, row as isize..row as isize + 1)),
        ];
        let mut peaks = Vec::new();
        for (name, lookup) in ways {
            let loss = (0..count).map(|i| (lookup(&w, at(i)) * (i as f32)).sum()).sum::<Layer<f32>>();
            let mut wanted = vec![0.0_f32; rows * width];
            (0..count).for_each(|i| wanted[at(i) * width..][..width].iter_mut().for_each(|x| *x += i as f32));
            let (gradient, counters) = loss.gradient(&w).predict().counted().wait().expect("a gradient");
            assert_eq!(gradient.into_vec(), wanted, "{name}");
            let start = w.value();
            loss.train(&dl_optim::Sgd::new(1.0)).wait().expect("a step");
            let stepped: Vec<f32> = start.view().iter().zip(&wanted).map(|(x, delta)| x - delta).collect();
            assert_eq!(w.value().into_vec(), stepped, "{name}");
            w.set(start);
            peaks.push((name, counters.bytes_peak));
        }
        // one tensor as large as the weight for each lookup would take forty of them
        assert!(rows < 100 || peaks.iter().all(|&(_, peak)| peak < 12 * 4 * rows * width), "{peaks:?}");
    }
}

/// Batches of small matrices have the bits of single products.
#[test]
fn batch_of_small_products_has_bits_of_single_products() {
    for [batch, m, k, n] in [[1000, 4, 4, 4], [3, 1, 5, 2], [700, 2, 3, 1], [5, 40, 7, 33], [0, 2, 2, 2]] {
        let (a, b) = (numbers::<f32>(&[batch, m, k]), numbers::<f32>(&[batch, k, n]));
        let all = on_threads(|| a.matmul(&b), |a, b| bits(a) == bits(b));
        for i in 0..batch {
            let [left, right] = [&a, &b].map(|x| value(&x.row(i as isize)));
            assert_eq!(bits(&value(&all.row(i as isize))), bits(&value(&left.matmul(&right))), "{i}");
        }
    }
}
