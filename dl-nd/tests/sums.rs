//! A weight that is used many times: the products that arrive at it are added up without being made, which changes nothing.

use dl_core::{Differentiable, Do, Layer, Result, Sgd, Weight};
use dl_nd::ndarray::Ix2;
use dl_nd::{Nd, ops::*};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

type Matrix = Nd<f32, Ix2>;

fn matrix(rows: usize, columns: usize, rng: &mut ChaCha8Rng) -> Matrix {
    let elements = (0..rows * columns).map(|_| rng.random_range(-1.0..1.0)).collect();
    Nd::from_vec([rows, columns], elements).expect("so many elements")
}

fn double(rows: usize, columns: usize, rng: &mut ChaCha8Rng) -> Nd<f64, Ix2> {
    let elements = matrix(rows, columns, rng).into_vec().into_iter().map(f64::from).collect();
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

#[test]
fn the_sum_has_the_bits_of_the_sum_of_its_terms() -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    // one row has an order of its own, and 300 are more than one chain
    for (shape, rows) in
        [([64, 192], vec![1; 31]), ([33, 17], vec![2, 300, 1, 5]), ([1, 7], vec![3, 4]), ([8, 1], vec![6, 2])]
    {
        let w = Weight::new(matrix(shape[0], shape[1], &mut rng));
        let (loss, deltas) = uses(&w, &rows, &mut rng);
        let gradient = loss.gradient(&w).predict().wait()?;
        let mut deltas = deltas.iter().map(|delta| delta.predict().wait()).collect::<Result<Vec<_>>>()?.into_iter();
        // a walk back meets the last use first, or the first one: in either direction the terms are added one by one
        let sum = |deltas: &mut dyn Iterator<Item = Matrix>| {
            let first = deltas.next().expect("there are deltas");
            deltas.fold(first, |sum, delta| (sum + delta).predict().wait().expect("the shapes are the same"))
        };
        let forth = sum(&mut deltas.clone());
        let back = sum(&mut deltas.by_ref().rev());
        let found = bits(&gradient);
        assert!(found == bits(&forth) || found == bits(&back), "{shape:?}, {rows:?}");
    }
    Ok(())
}

#[test]
fn products_that_nobody_else_wants_are_not_made() -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let w = Weight::new(matrix(64, 192, &mut rng));
    let (few, _) = uses(&w, &[1; 2], &mut rng);
    let (many, _) = uses(&w, &[1; 40], &mut rng);
    let peak = |loss: &Layer<f32>| -> Result<usize> { Ok(loss.train(&Sgd::new(0.0)).counted().wait()?.1.bytes_peak) };
    // 38 uses more keep a row of 192 numbers each, and their deltas, but no matrix of 64 × 192
    assert!(peak(&many)? < peak(&few)? + 38 * 8 * 192 * size_of::<f32>());
    Ok(())
}

#[test]
fn they_can_be_differentiated_again_in_both_directions() -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let w = Weight::new(double(4, 3, &mut rng));
    let inputs: Vec<Nd<f64, Ix2>> = [1, 2, 5].iter().map(|&rows| double(rows, 4, &mut rng)).collect();
    let direction = double(4, 3, &mut rng);
    // the last term is no product
    let loss = || inputs.iter().map(|x| x.matmul(&w).tanh().sum()).sum::<Layer<f64>>() + (&w * &w * &w).sum();
    let (hvp, along) =
        Do::predict((loss().hvp(&w, &direction.layer()), loss().gradient(&w).jvp(&w, &direction.layer()))).wait()?;
    let start = w.value();
    let h = 1e-5;
    let gradient = |step: f64| -> Result<Nd<f64, Ix2>> {
        w.set((&start + &direction * step).predict().wait()?);
        loss().gradient(&w).predict().wait()
    };
    let (up, down) = (gradient(h)?, gradient(-h)?);
    let difference = ((up - down) / (2.0 * h)).predict().wait()?;
    for found in [hvp, along] {
        let error = (found - &difference).abs().predict().wait()?;
        assert!(error.view().iter().all(|error| *error < 1e-8), "{error:?}");
    }
    Ok(())
}
