//! Matrix products and `einsum`.

use super::{Drawn, Scalar, ops};
use crate::draw::{Draw, Sample};
use dl_nd::{einsum, ops::*};
use serde_json::json;
use std::collections::BTreeMap;

/// Vectors, matrices or batches of matrices.
const MATRICES: Drawn = Some(|draw| {
    let [m, k, n] = [(); 3].map(|()| draw.between(0..=3));
    let [left, right] = draw.pair();
    let left =
        if draw.between(0..=3) == 0 { vec![k] } else { [&left[left.len().saturating_sub(2)..], &[m, k]].concat() };
    let right =
        if draw.between(0..=3) == 0 { vec![k] } else { [&right[right.len().saturating_sub(2)..], &[k, n]].concat() };
    Draw::sample(json!({}), [draw.numbers(&left, -1.5, 1.5), draw.numbers(&right, -1.5, 1.5)])
});

/// Rows, a weight and a bias.
const AFFINE: Drawn = Some(|draw| {
    let [m, k, n] = [(); 3].map(|()| draw.between(0..=3));
    let x = [&draw.pair()[0][..], &[m, k]].concat();
    let x = if draw.between(0..=3) == 0 { vec![k] } else { x };
    Draw::sample(json!({}), [x, vec![k, n], vec![n]].map(|shape| draw.numbers(&shape, -1.5, 1.5)))
});

fn vectors(draw: &mut Draw, lengths: [usize; 2]) -> Sample {
    Draw::sample(json!({}), lengths.map(|length| draw.numbers(&[length], -1.5, 1.5)))
}

/// An `einsum` expression with random lengths of its letters. Some lengths are 1 in one operand,
/// and broadcast.
fn summed(draw: &mut Draw) -> Sample {
    let expression = draw.one_of([
        "ij,jk->ik",
        "ij,jk",
        "ij->ji",
        "ij->i",
        "ij->",
        "i,j->ij",
        "i,i->",
        "bij,bjk->bik",
        "ij,kj,lk->il",
        "ij,j,j->i",
        "ii->i",
        "iij->j",
        "ij,ij,ij->j",
        "...ij,...jk->...ik",
        "...i,...i->...",
        "i...,i->...",
        "...i->i",
    ]);
    let batches = draw.pair();
    let mut lengths = BTreeMap::new();
    let operands = expression.split("->").next().expect("the operands").split(',').enumerate();
    let shapes: Vec<Vec<usize>> = operands
        .map(|(place, letters)| {
            let batch = &batches[place.min(1)];
            let mut shape = Vec::new();
            for letter in letters.replace("...", ".").chars() {
                if letter == '.' {
                    shape.extend(&batch[batch.len().saturating_sub(2)..]);
                    continue;
                }
                let length = *lengths.entry(letter).or_insert_with(|| draw.between(1..=3));
                let on_a_diagonal = letters.matches(letter).count() > 1;
                shape.push(if !on_a_diagonal && draw.between(0..=5) == 0 { 1 } else { length });
            }
            shape
        })
        .collect();
    Draw::sample(
        json!({ "expression": expression }),
        shapes.iter().map(|shape| draw.numbers(shape, -1.5, 1.5)).collect::<Vec<_>>(),
    )
}

ops! {
    "matmul", MATRICES, |_, x| x[0].matmul(&x[1]);
    "linear_relu", AFFINE, |_, x| x[0].linear_relu(x[1].to_rank(), x[2].to_rank());
    "linear", AFFINE, |_, x| x[0].linear(x[1].to_rank(), x[2].to_rank());
    "dot", Some(|draw| {
        let length = draw.between(0..=5);
        vectors(draw, [length, length])
    }), |_, x| Scalar::tensor(x[0].dot(&x[1]));
    "outer", Some(|draw| {
        let lengths = [(); 2].map(|()| draw.between(0..=3));
        vectors(draw, lengths)
    }), |_, x| x[0].outer(&x[1]).to_dyn();
    "einsum", Some(summed), |args, x| einsum(args.text("expression"), x);
}
