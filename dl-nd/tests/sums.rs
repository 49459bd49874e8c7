//! A weight that is used many times: in a step, the products that arrive at it are added up without being made, which changes nothing.

use dl_core::record::Recorder;
use dl_core::{Adam, Differentiable, Layer, Optimizer, Result, Sgd, Weight};
use dl_nd::ndarray::Ix2;
use dl_nd::{Nd, ops::*};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

type Matrix = Nd<f32, Ix2>;

fn matrix(rows: usize, columns: usize, rng: &mut ChaCha8Rng) -> Matrix {
    let elements = (0..rows * columns).map(|_| rng.random_range(-1.0..1.0)).collect();
    Nd::from_vec([rows, columns], elements).expect("so many elements")
}

/// `Σᵢ sum(cᵢ · (xᵢ w))`, and the deltas of `w` one by one, `xᵢᵀ cᵢ`.
fn uses(w: &Weight<Matrix>, rows: &[usize], rng: &mut ChaCha8Rng) -> (Layer<f32>, Vec<Layer<Matrix>>) {
    let (height, width) = (w.value().shape()[0], w.value().shape()[1]);
    let (terms, deltas): (Vec<_>, Vec<_>) = rows
        .iter()
        .map(|&rows| {
            let (x, c) = (matrix(rows, height, rng), matrix(rows, width, rng));
            ((x.matmul(w) * &c).sum(), x.transpose(0, 1).matmul(&c))
        })
        .unzip();
    (terms.into_iter().sum(), deltas)
}

fn bits(x: &Matrix) -> Vec<u32> {
    x.clone().into_vec().into_iter().map(f32::to_bits).collect()
}

/// The weight after a step, and whether it was watched, which has all terms made.
fn after<O: Optimizer + Clone + 'static>(
    w: &Weight<Matrix>,
    loss: &Layer<f32>,
    optimizer: O,
    watched: bool,
) -> Result<Vec<u32>> {
    let start = w.value();
    let step = loss.train(&optimizer);
    if watched {
        step.recorded(&Recorder::new()).wait().map(drop)?
    } else {
        step.wait().map(drop)?
    }
    let end = bits(&w.value());
    w.set(start);
    Ok(end)
}

/// Shapes of a weight, and rows that it is used with: one row has an order of its own, and 300 are more than one chain.
fn cases() -> [([usize; 2], Vec<usize>); 4] {
    [([64, 192], vec![1; 31]), ([33, 17], vec![2, 300, 1, 5]), ([1, 7], vec![3, 4]), ([8, 1], vec![6, 2])]
}

#[test]
fn the_sum_has_the_bits_of_the_sum_of_its_terms() -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for (shape, rows) in cases() {
        let w = Weight::new(matrix(shape[0], shape[1], &mut rng));
        let (loss, deltas) = uses(&w, &rows, &mut rng);
        let deltas = deltas.iter().map(|delta| delta.predict().wait()).collect::<Result<Vec<_>>>()?;
        // a walk back meets the last use first, or the first one: in either direction the terms are added one by one
        let stepped = |deltas: Vec<Matrix>| -> Result<Vec<u32>> {
            let sum = deltas.into_iter().map(|delta| delta.layer()).reduce(|sum, delta| sum + delta);
            Ok(bits(&(&w - sum.expect("there are deltas")).predict().wait()?))
        };
        let back = stepped(deltas.iter().rev().cloned().collect())?;
        let forth = stepped(deltas)?;
        let found = after(&w, &loss, Sgd::new(1.0), false)?;
        assert!(found == forth || found == back, "{shape:?}, {rows:?}");
    }
    Ok(())
}

#[test]
fn a_step_has_the_bits_of_one_whose_terms_are_made() -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for (shape, rows) in cases() {
        let w = Weight::new(matrix(shape[0], shape[1], &mut rng));
        let (products, _) = uses(&w, &rows, &mut rng);
        // a term that is no product, one of another use of a product, and a product that two want
        let (x, both) = (matrix(4, shape[0], &mut rng), w.tanh());
        let loss = products + (&w * &w).sum() + x.matmul(&both).sum() + both.sum();
        assert_eq!(after(&w, &loss, Sgd::new(0.1), false)?, after(&w, &loss, Sgd::new(0.1), true)?);
        assert_eq!(after(&w, &loss, Adam::new(0.1), false)?, after(&w, &loss, Adam::new(0.1), true)?);
    }
    Ok(())
}

#[test]
fn products_that_nobody_else_wants_are_not_made() -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let w = Weight::new(matrix(64, 192, &mut rng));
    let (few, _) = uses(&w, &[1; 2], &mut rng);
    let (many, _) = uses(&w, &[1; 40], &mut rng);
    let peak = |loss: &Layer<f32>| -> Result<usize> { Ok(loss.train(&Sgd::new(0.0)).counted().wait()?.1.bytes_peak) };
    // 38 uses more keep a row of 192 numbers each, and their deltas, but no matrix of 64 × 192
    assert!(peak(&many)? < peak(&few)? + 38 * 8 * 192 * size_of::<f32>());
    Ok(())
}

/// More elements than are added up at a time, fewer than are written down.
#[test]
fn a_sum_of_some_thousand_elements() -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let terms: [Matrix; 3] = std::array::from_fn(|_| matrix(50, 61, &mut rng));
    let sum = terms.iter().map(|term| term.layer()).sum::<Layer<Matrix>>().predict().wait()?;
    for (place, &found) in sum.view().indexed_iter() {
        assert_eq!(found, terms[0].view()[place] + terms[1].view()[place] + terms[2].view()[place], "{place:?}");
    }
    Ok(())
}
