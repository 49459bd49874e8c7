//! Products: `matmul` of all ranks, `linear`, `dot`, `outer` and `einsum`, against loops and
//! central differences.

use crate::gradient_check::{check_twice, mixed, numbers};
use dl_core::{Differentiable, Error, Layer, Weight};
use dl_nd::{MatMul, Nd, Rank, einsum, init, ops::*};
use ndarray::{ArrayD, Axis, Dimension, IntoDimension, Ix1, Ix2, Ix3, IxDyn};
use rand::Rng;
use std::collections::BTreeMap;

type Open = Nd<f64, IxDyn>;

fn value<D: Rank>(layer: &Layer<Nd<f64, D>>) -> ArrayD<f64> {
    layer.predict().wait().expect("the layer has a value").into_array().into_dyn()
}

fn assert_close(what: &str, found: &ArrayD<f64>, expected: &ArrayD<f64>) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    for ((index, &found), &expected) in found.indexed_iter().zip(expected) {
        assert!(
            (found - expected).abs() < 1e-12 * (1.0 + expected.abs()),
            "{what} at {index:?}: {found}, not {expected}"
        );
    }
}

/// The product of tensors with at least two axes, computed by loops.
fn by_loops(a: &ArrayD<f64>, b: &ArrayD<f64>) -> ArrayD<f64> {
    let rank = a.ndim().max(b.ndim());
    let padded = |x: &ArrayD<f64>| {
        let shape = [&vec![1; rank - x.ndim()], x.shape()].concat();
        x.to_shape(shape).unwrap().to_owned()
    };
    let (a, b) = (padded(a), padded(b));
    let mut shape: Vec<usize> = a.shape().iter().zip(b.shape()).map(|(&a, &b)| if a == 1 { b } else { a }).collect();
    shape[rank - 2] = a.shape()[rank - 2];
    shape[rank - 1] = b.shape()[rank - 1];
    ArrayD::from_shape_fn(shape, |index| {
        let at = |x: &ArrayD<f64>, row: usize, column: usize| {
            let mut place: Vec<usize> = index.slice().iter().zip(x.shape()).map(|(&i, &n)| i.min(n - 1)).collect();
            (place[rank - 2], place[rank - 1]) = (row, column);
            x[&place[..]]
        };
        (0..a.shape()[rank - 1]).map(|i| at(&a, index[rank - 2], i) * at(&b, i, index[rank - 1])).sum()
    })
}

/// Checks value and gradients of a product, for static and dynamic ranks, and for operands with the
/// last two axes in either memory order.
fn product<S, T>(left: S, right: T)
where
    S: IntoDimension + Clone,
    T: IntoDimension + Clone,
    S::Dim: Rank + MatMul<T::Dim>,
    T::Dim: Rank,
    IxDyn: MatMul<T::Dim, Product = IxDyn>,
{
    let a = Weight::new(numbers(left, -1.0, 1.0, 1));
    let b = Weight::new(numbers(right, -1.0, 1.0, 2));
    let (left, right) = (a.value().shape().to_vec(), b.value().shape().to_vec());
    let what = format!("{left:?} · {right:?}");
    let (row, column) = (left.len() == 1, right.len() == 1);
    let expected = {
        let (mut a, mut b) = (a.value().into_array().into_dyn(), b.value().into_array().into_dyn());
        if row {
            a = a.insert_axis(Axis(0));
        }
        if column {
            b = b.insert_axis(Axis(1));
        }
        let product = by_loops(&a, &b);
        let rank = product.ndim();
        let product = if column { product.index_axis_move(Axis(rank - 1), 0) } else { product };
        if row { product.index_axis_move(Axis(rank - 2), 0) } else { product }
    };
    let loss = a.matmul(&b);
    assert_close(&what, &value(&loss), &expected);
    assert_close(&what, &value(&open(a.to_dyn(), b.to_dyn())), &expected);
    assert_close(&what, &value(&a.to_dyn().matmul(&b)), &expected);
    for loss in [mixed(&loss), mixed(&open(a.to_dyn(), b.to_dyn()))] {
        check_twice(&what, &loss, &a);
        check_twice(&what, &loss, &b);
    }
    if row || column {
        return;
    }
    let (a, b) = (transposed_weight(a.value()), transposed_weight(b.value()));
    let loss = a.transpose(-2, -1).matmul(b.transpose(-2, -1));
    assert_close(&what, &value(&loss), &expected);
    check_twice(&what, &mixed(&loss), &a);
    check_twice(&what, &mixed(&loss), &b);
}

/// A weight that holds the transposes of these matrices. Transposed again, it has the same elements
/// with other strides.
fn transposed_weight<D: Rank>(x: Nd<f64, D>) -> Weight<Nd<f64, D>> {
    let transposed = x.transpose(-2, -1).predict().wait().expect("matrices").into_array();
    Weight::new(Nd::from(transposed.as_standard_layout().into_owned()))
}

fn open(a: Layer<Open>, b: Layer<Open>) -> Layer<Open> {
    a.matmul(b)
}

#[test]
fn matmul_of_all_ranks_matches_loops() {
    product(3, 3);
    product(3, [3, 2]);
    product([2, 3], 3);
    product([2, 3], [3, 2]);
    product([2, 2, 3], [2, 3, 2]);
    product([2, 2, 3], [3, 2]);
    product([2, 3], [2, 3, 2]);
    product([2, 2, 3], 3);
    product(3, [2, 3, 2]);
    product([2, 1, 2, 3], [3, 3, 2]);
    product([1, 3, 2, 2], [2, 1, 2, 1]);
    product([2, 1, 2, 3], 3);
    product(3, [2, 1, 3, 2]);
    product([2, 1, 1, 2, 2], [2, 2]);
    product([1, 2], [2, 1, 2, 1, 2, 2]);
}

#[test]
fn matmul_with_lengths_0_and_1_matches_loops() {
    for [batch, m, k, n] in [[0, 2, 3, 2], [2, 0, 3, 2], [2, 2, 0, 2], [2, 2, 3, 0], [1, 1, 1, 1], [2, 1, 3, 1]] {
        product([batch, m, k], [batch, k, n]);
        product([batch, m, k], [k, n]);
        product([m, k], [batch, k, n]);
        product([batch, m, k], [1, k, n]);
        product([batch, m, k], k);
        product(k, [batch, k, n]);
    }
}

#[test]
fn matmul_with_one_dynamic_rank_matches_static_ranks() {
    let a = Weight::new(numbers([2, 2, 3], -1.0, 1.0, 1));
    let b = Weight::new(numbers([2, 3, 2], -1.0, 1.0, 2));
    let v = Weight::new(numbers(3, -1.0, 1.0, 3));
    let products: [(Layer<Open>, ArrayD<f64>); 4] = [
        (a.matmul(b.to_dyn()), value(&a.matmul(&b))),
        (a.to_dyn().matmul(&b), value(&a.matmul(&b))),
        (v.to_dyn().matmul(&b), value(&v.matmul(&b))),
        (a.matmul(v.to_dyn()), value(&a.matmul(&v))),
    ];
    for (product, expected) in products {
        assert_eq!(value(&product), expected);
        check_twice("one dynamic rank", &mixed(&product), &a);
        check_twice("one dynamic rank", &mixed(&product), &b);
        check_twice("one dynamic rank", &mixed(&product), &v);
    }
}

#[test]
fn linear_matches_matmul_plus_bias() {
    let weight = Weight::new(numbers((3, 2), -1.0, 1.0, 2));
    let bias = Weight::new(numbers(2, -1.0, 1.0, 3));
    fn check<D: Rank + MatMul<Ix2, Product = D>>(
        what: &str,
        x: &Weight<Nd<f64, D>>,
        weight: &Weight<Nd<f64, Ix2>>,
        bias: &Weight<Nd<f64, Ix1>>,
    ) {
        let y = x.linear(weight, bias);
        assert_eq!(value(&y), value(&(x.matmul(weight) + bias.lift::<D>())), "{what}: in steps");
        let loss = mixed(&y);
        check_twice(what, &loss, x);
        check_twice(what, &loss, weight);
        check_twice(what, &loss, bias);
        // a weight in the layout of PyTorch
        let turned = Weight::new(Nd::from(weight.value().view().t().as_standard_layout().into_owned()));
        for of_turned in [x.linear(turned.transpose(0, 1), bias), x.linear(turned.t(), bias)] {
            assert_eq!(value(&of_turned), value(&y), "{what}: a transposed weight");
            let loss = mixed(&of_turned);
            check_twice(what, &loss, x);
            check_twice(what, &loss, &turned);
            check_twice(what, &loss, bias);
        }
        // the transposition is a layer like others
        for layer in [turned.transpose(0, 1), turned.t(), turned.transpose(-1, -2)] {
            let by_product = mixed(&(x.matmul(&layer) + bias.lift::<D>()));
            let gradient = value(&mixed(&x.linear(&layer, bias)).gradient(&layer));
            assert_close(what, &gradient, &value(&by_product.gradient(&layer)));
            assert!(gradient.view().iter().any(|&x| x != 0.0), "{what}");
        }
    }
    let x = Weight::new(numbers((4, 3), -1.0, 1.0, 1));
    check("a matrix", &x, &weight, &bias);
    check("a row", &Weight::new(numbers((1, 3), -1.0, 1.0, 1)), &weight, &bias);
    check("a vector", &Weight::new(numbers(3, -1.0, 1.0, 1)), &weight, &bias);
    check("a batch", &Weight::new(numbers((2, 4, 3), -1.0, 1.0, 1)), &weight, &bias);
    check("open", &Weight::new(numbers(IxDyn(&[2, 4, 3]), -1.0, 1.0, 1)), &weight, &bias);
    // large enough to be divided into chunks, and one without columns
    let (tall, broad) = (numbers((600, 3), -1.0, 1.0, 6), numbers((3, 70), -1.0, 1.0, 7));
    let along = numbers(70, -1.0, 1.0, 8);
    assert_eq!(value(&tall.linear(&broad, &along)), value(&(tall.matmul(&broad) + along.layer().lift::<Ix2>())));
    assert_eq!(value(&tall.linear(numbers((3, 0), 0.0, 1.0, 1), numbers(0, 0.0, 1.0, 1))).shape(), [600, 0]);
    // operands that are not in row-major order
    let transposed = Weight::new(numbers((3, 4), -1.0, 1.0, 1));
    for w in [&transposed, &weight] {
        check_twice("transposed", &mixed(&transposed.t().linear(weight.flip(vec![0]), bias.flip(vec![0]))), w);
    }
    let steps = transposed.t().matmul(weight.flip(vec![0])) + bias.flip(vec![0]).lift::<Ix2>();
    assert_eq!(value(&transposed.t().linear(weight.flip(vec![0]), bias.flip(vec![0]))), value(&steps));
    // the accumulation chain starts with the bias; beyond one k-block, the result is rounded
    // differently from the product plus bias
    let (long, wide) = (numbers((5, 1300), -1.0, 1.0, 4), numbers((1300, 2), -1.0, 1.0, 5));
    let steps = long.matmul(&wide) + bias.lift::<Ix2>();
    assert_close("many terms", &value(&long.linear(&wide, &bias)), &value(&steps));
}

#[test]
fn linear_with_incompatible_shapes_returns_error() {
    let (x, weight) = (Nd::full([2, 3], 1.0), Nd::full([3, 4], 1.0));
    for (layer, parts) in [
        (x.linear(&weight, Nd::full([1], 1.0)), ["linear: a bias of length 1", "[3, 4]", "4 columns"]),
        (x.linear(Nd::full([2, 4], 1.0), Nd::full([4], 1.0)), ["linear: [2, 3] and [2, 4] do not fit", "axis 1", "2"]),
    ] {
        let (error, text) = message(layer);
        assert!(error.is_shape() && error.op() == Some("linear"), "{text}");
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn dot_and_outer_match_definition() {
    let a = Weight::new(numbers(3, -1.0, 1.0, 1));
    let b = Weight::new(numbers(3, -1.0, 1.0, 2));
    let c = Weight::new(numbers(2, -1.0, 1.0, 3));
    let rank: Layer<Nd<f64, Ix2>> = a.outer(&c);
    for (what, loss) in [
        ("dot", a.dot(&b).square()),
        ("dot, open", a.to_dyn().dot(&b).square()),
        ("dot with itself", a.dot(&a)),
        ("outer", mixed(&rank)),
        ("outer, open", mixed(&a.to_dyn().outer(c.to_dyn()))),
    ] {
        for w in [&a, &b, &c] {
            check_twice(what, &loss, w);
        }
    }
    let none = Nd::full([0], 1.0_f64);
    assert_eq!(none.dot(&none).predict().wait().unwrap(), 0.0);
    assert_eq!(none.outer(&a).predict().wait().unwrap().shape(), [0, 3]);
}

fn message<T: dl_core::Data + std::fmt::Debug>(layer: Layer<T>) -> (Error, String) {
    let error = layer.predict().wait().expect_err("the layer should fail");
    let text = error.to_string();
    (error, text)
}

#[test]
fn matmul_with_incompatible_shapes_returns_error() {
    let ones = |shape: &[usize]| Nd::full(IxDyn(shape), 1.0_f64);
    for (left, right, parts) in [
        (
            &[2, 3][..],
            &[4, 3][..],
            "[2, 3] and [4, 3] do not fit: axis 1 of the left one has length 3, axis 0 of the right one 4",
        ),
        (&[5, 2, 3], &[5, 4, 2], "axis 2 of the left one has length 3, axis 1 of the right one 4"),
        (&[5, 2, 3], &[4], "axis 2 of the left one has length 3, axis 0 of the right one 4"),
        (&[3], &[5, 4, 2], "axis 0 of the left one has length 3, axis 1 of the right one 4"),
        (
            &[5, 2, 3],
            &[7, 4, 3, 2],
            "batch axes of [5, 2, 3] and [7, 4, 3, 2] do not broadcast: axis 0 of the left one has length 5, axis 1 of the right one 4",
        ),
        (&[], &[3], "[] and [3]"),
        (&[3], &[], "[3] and []"),
    ] {
        let (error, text) = message(ones(left).matmul(ones(right)));
        assert!(error.is_shape() && error.op() == Some("matmul") && text.contains(parts), "{text}");
    }
    let (error, text) = message(Nd::from([1.0_f64]).dot(Nd::from([1.0, 2.0])));
    assert!(error.op() == Some("dot") && text.contains("[1] and [2]"), "{text}");
    let (error, text) = message(ones(&[2, 2]).dot(Nd::from([1.0, 2.0])));
    assert!(error.is_shape() && text.contains("[2, 2]"), "{text}");
    let side = 1 << 40;
    let (error, text) = message(Nd::<f64, _>::full([side, 0], 0.0).matmul(Nd::full([0, side], 0.0)));
    assert!(error.is_shape() && text.contains("too large"), "{text}");
    let (error, text) = message(einsum("ij,jk", [ones(&[side, 0]), ones(&[0, side])]));
    assert!(error.is_shape() && text.contains("too large"), "{text}");
}

/// The definition of `einsum`, by loops: for every assignment of indices to letters, the product of
/// the operands is added to the output.
fn einsum_by_loops(inputs: &[Vec<char>], output: &[char], operands: &[ArrayD<f64>]) -> ArrayD<f64> {
    let mut lengths = BTreeMap::new();
    for (labels, operand) in inputs.iter().zip(operands) {
        for (&label, &length) in labels.iter().zip(operand.shape()) {
            let known = lengths.entry(label).or_insert(length);
            if *known == 1 {
                *known = length;
            }
        }
    }
    let letters: Vec<char> = lengths.keys().copied().collect();
    let shape: Vec<usize> = output.iter().map(|label| lengths[label]).collect();
    let mut sum = ArrayD::zeros(shape);
    let all: Vec<usize> = lengths.values().copied().collect();
    for index in ndarray::indices(IxDyn(&all)) {
        let number = |label: &char| index[letters.iter().position(|letter| letter == label).unwrap()];
        let product: f64 = inputs
            .iter()
            .zip(operands)
            .map(|(labels, operand)| {
                let place: Vec<usize> =
                    labels.iter().zip(operand.shape()).map(|(label, &length)| number(label).min(length - 1)).collect();
                operand[&place[..]]
            })
            .product();
        let place: Vec<usize> = output.iter().map(number).collect();
        sum[&place[..]] += product;
    }
    sum
}

/// The text of a specification with these labels of operands and output.
fn specification_text(inputs: &[Vec<char>], output: &[char]) -> String {
    let inputs: Vec<String> = inputs.iter().map(|labels| labels.iter().collect()).collect();
    format!("{}->{}", inputs.join(","), output.iter().collect::<String>())
}

/// A tensor with a random memory order of its axes.
fn with_random_layout(shape: &[usize], rng: &mut impl Rng) -> Open {
    let mut order: Vec<usize> = (0..shape.len()).collect();
    for axis in (1..order.len()).rev() {
        order.swap(axis, rng.random_range(0..=axis));
    }
    let in_memory: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, &axis)| back[axis] = place);
    let tensor = numbers(IxDyn(&in_memory), -1.0, 1.0, rng.random());
    let array = tensor.into_array().into_shared().permuted_axes(back);
    assert_eq!(array.shape(), shape);
    Nd::from(array)
}

#[test]
fn einsum_of_random_specifications_matches_loops() {
    let mut rng = init::rng(7);
    for round in 0..400 {
        let lengths = [0; 5].map(|_| if rng.random_ratio(1, 12) { 0 } else { rng.random_range(1..4) });
        let letters = ['b', 'a', 'Z', 'k', 'x'];
        let mut inputs = Vec::new();
        let mut operands = Vec::new();
        for _ in 0..rng.random_range(1..=4) {
            let picked: Vec<usize> = (0..rng.random_range(0..=4)).map(|_| rng.random_range(0..5)).collect();
            // some axes have length 1 and broadcast
            let single: Vec<bool> = (0..5).map(|_| rng.random_ratio(1, 8)).collect();
            let shape: Vec<usize> = picked.iter().map(|&i| if single[i] { 1 } else { lengths[i] }).collect();
            inputs.push(picked.iter().map(|&i| letters[i]).collect::<Vec<char>>());
            operands.push(with_random_layout(&shape, &mut rng));
        }
        let mut output: Vec<char> = Vec::new();
        for label in inputs.iter().flatten() {
            if !output.contains(label) && rng.random_ratio(1, 2) {
                output.insert(rng.random_range(0..=output.len()), *label);
            }
        }
        let specification = specification_text(&inputs, &output);
        let arrays: Vec<ArrayD<f64>> = operands.iter().map(|operand| operand.view().to_owned()).collect();
        let what =
            format!("round {round}: {specification} of {:?}", arrays.iter().map(|a| a.shape()).collect::<Vec<_>>());
        let expected = einsum_by_loops(&inputs, &output, &arrays);
        let weights: Vec<Weight<Open>> = operands.into_iter().map(Weight::new).collect();
        let layer = einsum(&specification, &weights);
        assert_close(&what, &value(&layer), &expected);
        if round % 4 == 0 {
            let loss = mixed(&layer);
            for weight in &weights {
                check_twice(&what, &loss, weight);
            }
        }
    }
}

/// The value of a specification. Compares its gradients with central differences, too.
fn checked(specification: &str, shapes: &[&[usize]]) -> ArrayD<f64> {
    let mut rng = init::rng(3);
    let weights: Vec<Weight<Open>> =
        shapes.iter().map(|shape| Weight::new(with_random_layout(shape, &mut rng))).collect();
    let layer = einsum(specification, &weights);
    for weight in &weights {
        check_twice(specification, &mixed(&layer), weight);
    }
    value(&layer)
}

#[test]
fn einsum_of_every_kind_of_specification_has_known_value() {
    for (specification, shapes, shape) in [
        ("ij,jk->ik", &[&[2, 3][..], &[3, 4]][..], &[2, 4][..]),
        ("ij,jk", &[&[2, 3], &[3, 4]], &[2, 4]),
        (" i j , j k -> k i ", &[&[2, 3], &[3, 4]], &[4, 2]),
        ("bij,bjk->bik", &[&[2, 2, 3], &[2, 3, 2]], &[2, 2, 2]),
        ("ba", &[&[2, 3]], &[3, 2]),
        ("aB", &[&[2, 3]], &[3, 2]),
        ("ii->i", &[&[3, 3]], &[3]),
        ("ii", &[&[3, 3]], &[]),
        ("iji->ji", &[&[2, 3, 2]], &[3, 2]),
        ("iii->i", &[&[2, 2, 2]], &[2]),
        ("i,j->ij", &[&[2], &[3]], &[2, 3]),
        ("i,i->", &[&[3], &[3]], &[]),
        ("ij,ij->ij", &[&[2, 3], &[2, 3]], &[2, 3]),
        ("i,->i", &[&[2], &[]], &[2]),
        ("", &[&[]], &[]),
        ("ij->", &[&[2, 3]], &[]),
        ("ij,jk,kl,lm->im", &[&[2, 3], &[3, 2], &[2, 3], &[3, 2]], &[2, 2]),
        ("ij,ik,il->jkl", &[&[2, 2], &[2, 2], &[2, 2]], &[2, 2, 2]),
        ("...ij,...jk->...ik", &[&[2, 3, 2], &[2, 2]], &[2, 3, 2]),
        ("...ij,...jk", &[&[2, 1, 2, 2], &[3, 2, 2]], &[2, 3, 2, 2]),
        ("i...,i...->...", &[&[2, 3], &[2, 2, 1]], &[2, 3]),
        ("...i->i", &[&[2, 2, 3]], &[3]),
        ("i->i...", &[&[3]], &[3]),
        ("i...j", &[&[2, 2, 3]], &[2, 2, 3]),
        ("...ii->...i", &[&[2, 3, 3]], &[2, 3]),
        ("...,...", &[&[2, 3], &[3]], &[2, 3]),
        ("ij,ij->ij", &[&[1, 3], &[2, 3]], &[2, 3]),
        ("ij,jk->ik", &[&[2, 0], &[0, 3]], &[2, 3]),
    ] {
        assert_eq!(checked(specification, shapes).shape(), shape, "{specification}");
    }
}

#[test]
fn einsum_over_no_elements_is_zero() {
    assert_eq!(checked("ij,jk->ik", &[&[2, 0], &[0, 3]]), ArrayD::<f64>::zeros(vec![2, 3]));
    assert_eq!(checked("ij->i", &[&[2, 0]]), ArrayD::<f64>::zeros(vec![2]));
}

#[test]
fn einsum_with_repeated_operand_has_correct_gradient() {
    let w = Weight::new(numbers(IxDyn(&[3, 3]), -1.0, 1.0, 1));
    check_twice("w·w", &mixed(&einsum("ij,jk->ik", [&w, &w])), &w);
    check_twice("sum of w³", &mixed(&einsum("ij,ij,ij->", [&w, &w, &w])), &w);
    check_twice("of its diagonal", &mixed(&einsum("ii,ij->j", [&w, &w])), &w);
}

#[test]
fn einsum_transpose_returns_view() {
    let x = numbers(IxDyn(&[2, 3]), -1.0, 1.0, 1);
    let transposed = einsum("ij->ji", [&x]).predict().wait().unwrap();
    assert_eq!(transposed.view().as_ptr(), x.view().as_ptr());
}

#[test]
fn einsum_with_invalid_specification_returns_error() {
    let ones = |shape: &&[usize]| Nd::full(IxDyn(shape), 1.0_f64);
    for (specification, shapes, parts, is_shape) in [
        ("ij->ik", &[&[2, 3][..]][..], &["`ij->ik`", "output names `k`", "no operand"][..], false),
        ("ij->ii", &[&[2, 3]], &["output names `i` twice"], false),
        ("ij,jk", &[&[2, 3]], &["for 2 operands", "there are 1"], false),
        ("ij", &[], &["for 1 operands", "there are 0"], false),
        (
            "ij,jk",
            &[&[2, 3], &[4, 5]],
            &["`j` has length 3 in operand 0, of shape [2, 3]", "4 in operand 1, of shape [4, 5]"],
            true,
        ),
        ("ijk", &[&[2, 3]], &["operand 0 should have 3 axes", "[2, 3], with 2 axes"], true),
        ("ij,k...", &[&[2, 3], &[]], &["operand 1 should have 1 axes or more", "[]"], true),
        ("ii->i", &[&[1, 3]], &["`i` occurs twice in operand 0", "lengths 1 and 3"], true),
        ("...i,...i", &[&[2, 4], &[3, 4]], &["axis -1 of `...` has length 2 in operand 0", "3 in operand 1"], true),
        ("i1", &[&[2, 3]], &["`1` is not a label"], false),
        ("iß", &[&[2, 3]], &["`ß` is not a label"], false),
        ("i.", &[&[2, 3]], &["`.` is not a label"], false),
        ("i->j->k", &[&[2]], &["`-` is not a label"], false),
        ("i->i,i", &[&[2]], &["`,` is not a label"], false),
        ("...i...", &[&[2]], &["`...` occurs twice in `...i...`"], false),
    ] {
        let (error, text) = message(einsum(specification, shapes.iter().map(ones)));
        assert_eq!((error.op(), error.is_shape(), error.is_invalid()), (Some("einsum"), is_shape, !is_shape), "{text}");
        for part in parts {
            assert!(text.contains(part), "{text} should contain {part}");
        }
    }
}

#[test]
fn f32_products_match_known_values() {
    let a = Nd::from([[1.0_f32, 2.0], [3.0, 4.0]]);
    let product: Nd<f32, Ix2> = a.matmul(&a).predict().wait().unwrap();
    let sums = einsum("ij,jk->ik", [a.to_dyn(), a.to_dyn()]).to_rank::<Ix2>();
    assert_eq!(sums.predict().wait().unwrap(), product);
    let batch: Nd<f32, Ix3> = a.unsqueeze(0).matmul(a.unsqueeze(0)).predict().wait().unwrap();
    assert_eq!(batch.view().index_axis(Axis(0), 0), product.view());
    let rows: Nd<f32, Ix1> = a.matmul(Nd::from([1.0, 0.0])).predict().wait().unwrap();
    assert_eq!(rows, Nd::from([1.0, 3.0]));
}
