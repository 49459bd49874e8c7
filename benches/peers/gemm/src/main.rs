//! The crate `gemm`: matrix products (w4) without layers, into allocated memory.

use common::{Bench, Numbers, PRODUCTS};
use gemm::Parallelism;
use rayon::prelude::*;

const MANY: usize = 1_000;

fn main() {
    let mut bench = Bench::from_arguments();
    bench.run("w4", products);
}

fn products(bench: &mut Bench) {
    let parallel = if bench.threads == 1 { Parallelism::None } else { Parallelism::Rayon(bench.threads) };
    for shape in PRODUCTS {
        let [m, k, n] = shape;
        let variant = format!("{m}x{k}x{n}");
        let mut numbers = Numbers::new(4);
        let (a, b) = (numbers.uniform(m * k, 1.0), numbers.uniform(k * n, 1.0));
        let mut result = vec![0.0; m * n];
        bench.products(&variant, shape, 1, || multiply(shape, &a, &b, &mut result, parallel));
        bench.check("w4", &variant, &[result.iter().copied().map(f64::from).sum()]);
    }
    let shape = [64; 3];
    let mut numbers = Numbers::new(4);
    let mut ten = || -> Vec<Vec<f32>> { (0..10).map(|_| numbers.uniform(64 * 64, 1.0)).collect() };
    let (left, right) = (ten(), ten());
    let mut results = vec![vec![0.0; 64 * 64]; MANY];
    bench.products(&format!("{MANY} of 64x64x64"), shape, MANY, || {
        results.par_iter_mut().enumerate().for_each(|(at, result)| {
            multiply(shape, &left[at % 10], &right[at / 10 % 10], result, Parallelism::None);
        });
    });
}

/// `result = a · b`, all in row-major order.
fn multiply([m, k, n]: [usize; 3], a: &[f32], b: &[f32], result: &mut [f32], parallel: Parallelism) {
    assert!(a.len() == m * k && b.len() == k * n && result.len() == m * n);
    let (k_step, n_step) = (k as isize, n as isize);
    // SAFETY: all three are rows of these lengths, and the result is borrowed exclusively for this
    // call
    unsafe {
        let (a, b, result) = (a.as_ptr(), b.as_ptr(), result.as_mut_ptr());
        gemm::gemm(
            m, n, k, result, 1, n_step, false, a, 1, k_step, b, 1, n_step, 0.0, 1.0, false, false, false, parallel,
        );
    }
}
