//! w4: products of matrices, through layers and by the crate `gemm` alone.

use crate::common::{Bench, Numbers, PRODUCTS};
use crate::dense::uniform;
use dl::prelude::*;
use rayon::prelude::*;
use std::hint::black_box;

const MANY: usize = 1_000;

pub(crate) fn measure(bench: &mut Bench) {
    for shape in PRODUCTS {
        let [m, k, n] = shape;
        let variant = format!("{m}x{k}x{n}");
        let mut numbers = Numbers::new(4);
        let (a, b): (Nd, Nd) = (uniform(&mut numbers, [m, k], 1.0), uniform(&mut numbers, [k, n], 1.0));
        let product = || a.matmul(&b).predict().wait().expect("it succeeds");
        let sum: f64 = product().view().iter().copied().map(f64::from).sum();
        bench.check("w4", &variant, &[sum]);
        bench.products(&variant, shape, 1, || drop(black_box(product())));

        let parallel =
            if bench.threads == 1 { gemm::Parallelism::None } else { gemm::Parallelism::Rayon(bench.threads) };
        let mut result = vec![0.0; m * n];
        bare(bench, |bench| {
            bench.products(&variant, shape, 1, || multiply(&a, &b, &mut result, parallel));
            bench.check("w4", &variant, &[result.iter().copied().map(f64::from).sum()]);
        });
    }
    many(bench);
}

/// One pass of many small products, all of which are wanted.
fn many(bench: &mut Bench) {
    let shape = [64; 3];
    let variant = format!("{MANY} of 64x64x64");
    let mut numbers = Numbers::new(4);
    let mut ten = || -> Vec<Nd> { (0..10).map(|_| uniform(&mut numbers, [64, 64], 1.0)).collect() };
    let (left, right) = (ten(), ten());
    let pair = |at: usize| (&left[at % 10], &right[at / 10 % 10]);
    bench.products(&variant, shape, MANY, || {
        let products = (0..MANY).map(|at| {
            let (a, b) = pair(at);
            a.matmul(b)
        });
        drop(black_box(Do::predict(products.collect::<Vec<_>>()).wait().expect("it succeeds")));
    });
    let mut results = vec![vec![0.0; 64 * 64]; MANY];
    bare(bench, |bench| {
        bench.products(&variant, shape, MANY, || {
            results.par_iter_mut().enumerate().for_each(|(at, result)| {
                let (a, b) = pair(at);
                multiply(a, b, result, gemm::Parallelism::None);
            });
        });
    });
}

/// Rows under the name of the crate alone.
fn bare(bench: &mut Bench, measure: impl FnOnce(&mut Bench)) {
    let library = std::mem::replace(&mut bench.library, "gemm".to_owned());
    measure(bench);
    bench.library = library;
}

/// `result = a · b`, all in row-major order.
fn multiply(a: &Nd, b: &Nd, result: &mut [f32], parallel: gemm::Parallelism) {
    let (a, b) = (a.view(), b.view());
    let ((m, k), n) = (a.dim(), b.ncols());
    assert!(a.is_standard_layout() && b.is_standard_layout() && b.nrows() == k && result.len() == m * n);
    let step = |length: usize| length as isize;
    // SAFETY: all three are contiguous rows of the lengths above, and the result is borrowed for this call alone.
    unsafe {
        let (a, b, result) = (a.as_ptr(), b.as_ptr(), result.as_mut_ptr());
        gemm::gemm(
            m,
            n,
            k,
            result,
            1,
            step(n),
            false,
            a,
            1,
            step(k),
            b,
            1,
            step(n),
            0.0,
            1.0,
            false,
            false,
            false,
            parallel,
        );
    }
}
