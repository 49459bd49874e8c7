//! The delta of a weight that is used many times is a sum of products. A step accumulates the
//! products in place, without materializing each. The result must have the bits of the sum of
//! materialized products. The module also tests sums and reductions of large tensors.

use dl_core::record::Recorder;
use dl_core::{Differentiable, Do, Layer, Optimizer, Result, Weight};
use dl_nd::ndarray::{Axis, Ix2};
use dl_nd::{Nd, ops::*};
use dl_optim::{Adam, Sgd};
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

/// The bits of the weight after a step. A recorded step materializes all terms.
fn stepped_bits<O: Optimizer + Clone + 'static>(
    w: &Weight<Matrix>,
    loss: &Layer<f32>,
    optimizer: O,
    record: bool,
) -> Result<Vec<u32>> {
    let start = w.value();
    let step = loss.train(&optimizer);
    if record {
        step.recorded(&Recorder::new()).wait().map(drop)?
    } else {
        step.wait().map(drop)?
    }
    let end = bits(&w.value());
    w.set(start);
    Ok(end)
}

/// Shapes of a weight, and the numbers of rows that it is multiplied with. The sum over one row has
/// an accumulation order of its own; 300 rows need more than one accumulation chain.
fn cases() -> [([usize; 2], Vec<usize>); 4] {
    [([64, 192], vec![1; 31]), ([33, 17], vec![2, 300, 1, 5]), ([1, 7], vec![3, 4]), ([8, 1], vec![6, 2])]
}

#[test]
fn fused_delta_sum_has_bits_of_sequential_sum() -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for (shape, rows) in cases() {
        let w = Weight::new(matrix(shape[0], shape[1], &mut rng));
        let (loss, deltas) = uses(&w, &rows, &mut rng);
        let deltas = deltas.iter().map(|delta| delta.predict().wait()).collect::<Result<Vec<_>>>()?;
        // the reverse pass reaches the uses in either direction, and must add the terms one by one
        let stepped = |deltas: Vec<Matrix>| -> Result<Vec<u32>> {
            let sum = deltas.into_iter().map(|delta| delta.layer()).reduce(|sum, delta| sum + delta);
            Ok(bits(&(&w - sum.expect("there are deltas")).predict().wait()?))
        };
        let backwards = stepped(deltas.iter().rev().cloned().collect())?;
        let forwards = stepped(deltas)?;
        let found = stepped_bits(&w, &loss, Sgd::new(1.0), false)?;
        assert!(found == forwards || found == backwards, "{shape:?}, {rows:?}");
    }
    Ok(())
}

#[test]
fn step_with_fused_deltas_has_bits_of_recorded_step() -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for (shape, rows) in cases() {
        let w = Weight::new(matrix(shape[0], shape[1], &mut rng));
        let (products, _) = uses(&w, &rows, &mut rng);
        // a delta that is not a product, a product of an operand with two uses, and that second use
        let (x, both) = (matrix(4, shape[0], &mut rng), w.tanh());
        let loss = products + (&w * &w).sum() + x.matmul(&both).sum() + both.sum();
        assert_eq!(stepped_bits(&w, &loss, Sgd::new(0.1), false)?, stepped_bits(&w, &loss, Sgd::new(0.1), true)?);
        assert_eq!(stepped_bits(&w, &loss, Adam::new(0.1), false)?, stepped_bits(&w, &loss, Adam::new(0.1), true)?);
    }
    Ok(())
}

#[test]
fn unshared_delta_products_are_not_materialized() -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let w = Weight::new(matrix(64, 192, &mut rng));
    let (few, _) = uses(&w, &[1; 2], &mut rng);
    let (many, _) = uses(&w, &[1; 40], &mut rng);
    let peak = |loss: &Layer<f32>| -> Result<usize> { Ok(loss.train(&Sgd::new(0.0)).counted().wait()?.1.bytes_peak) };
    // 38 more uses add a row of 192 elements and its delta each, but no matrix of 64 × 192
    assert!(peak(&many)? < peak(&few)? + 38 * 8 * 192 * size_of::<f32>());
    Ok(())
}

/// More elements than one block of an addition, fewer than the deferral threshold.
#[test]
fn sum_of_medium_tensors_matches_elements() -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let terms: [Matrix; 3] = std::array::from_fn(|_| matrix(50, 61, &mut rng));
    let sum = terms.iter().map(|term| term.layer()).sum::<Layer<Matrix>>().predict().wait()?;
    for (place, &found) in sum.view().indexed_iter() {
        assert_eq!(found, terms[0].view()[place] + terms[1].view()[place] + terms[2].view()[place], "{place:?}");
    }
    Ok(())
}

/// The tensor is large enough to be divided among threads. Reductions along both axes must match
/// those of single lanes, and have the same bits for any number of threads.
#[test]
fn large_reductions_match_lanes_on_any_thread_count() -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let x = Nd::<f64, Ix2>::from_vec([400, 500], (0..200_000).map(|_| rng.random_range(-1.0..1.0)).collect())?;
    let labels: Vec<usize> = (0..400).map(|_| rng.random_range(0..500)).collect();
    let all = || -> Result<Vec<f64>> {
        let mut all = Vec::new();
        for axis in [0, 1] {
            let kept = (x.sum_axis(axis), x.amax_axis(axis), x.logsumexp_axis(axis), x.norm_axis(axis));
            let (sums, largest, lengths, norms) = Do::predict(kept).wait()?;
            let whole = Do::predict((x.softmax(axis), x.log_softmax(axis))).wait()?;
            [sums, largest, lengths, norms].iter().for_each(|kept| all.extend(kept.view().iter()));
            [whole.0, whole.1].iter().for_each(|whole| all.extend(whole.view().iter()));
        }
        let w = Weight::new(x.clone());
        let (loss, slopes) = Do::predict(w.cross_entropy(labels.clone()).value_and_gradient(&w)).wait()?;
        all.push(loss);
        all.extend(slopes.view().iter());
        Ok(all)
    };
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    let seen = pool(1).install(all)?;
    for threads in [2, 4] {
        assert!(pool(threads).install(all)? == seen, "{threads} threads");
    }
    let mut right = Vec::new();
    for axis in [Axis(0), Axis(1)] {
        let lanes: Vec<Vec<f64>> = x.view().lanes(axis).into_iter().map(|lane| lane.to_vec()).collect();
        let exps = |lane: &[f64]| lane.iter().map(|x| x.exp()).sum::<f64>();
        right.extend(lanes.iter().map(|lane| lane.iter().sum::<f64>()));
        right.extend(lanes.iter().map(|lane| lane.iter().copied().fold(f64::NEG_INFINITY, f64::max)));
        right.extend(lanes.iter().map(|lane| exps(lane).ln()));
        right.extend(lanes.iter().map(|lane| lane.iter().map(|x| x * x).sum::<f64>().sqrt()));
        let mut softmax = x.view().to_owned();
        softmax.lanes_mut(axis).into_iter().zip(&lanes).for_each(|(mut y, x)| y.mapv_inplace(|y| y.exp() / exps(x)));
        right.extend(softmax.iter());
        right.extend(softmax.mapv(f64::ln).iter());
    }
    let mut excess = x.view().to_owned();
    let mut loss = 0.0;
    for (mut row, &label) in excess.rows_mut().into_iter().zip(&labels) {
        let sum: f64 = row.iter().map(|x| x.exp()).sum();
        loss += sum.ln() - row[label];
        row.mapv_inplace(|x| x.exp() / sum / 400.0);
        row[label] -= 1.0 / 400.0;
    }
    right.push(loss / 400.0);
    right.extend(excess.iter());
    assert_eq!(seen.len(), right.len());
    for (place, (seen, right)) in seen.into_iter().zip(right).enumerate() {
        assert!((seen - right).abs() < 1e-12 * right.abs().max(1.0), "{place}: {seen} instead of {right}");
    }
    Ok(())
}

/// The error of a sum in one chain would be thousands of roundings.
#[test]
fn long_sums_of_products_lookups_and_windows_are_accurate() {
    const LEN: usize = 400_003;
    let near = |what: &str, found: f32, right: f64| {
        let error = (f64::from(found) / right - 1.0).abs();
        assert!(error < 1e-6, "{what}: {found} instead of {right}, an error of {error:.1e}");
    };
    let number = |i: usize| ((i * 7919) % 1009) as f32 * 1e-3 + 0.3;
    let (a, b) = (Nd::from_iter((0..LEN).map(number)), Nd::from_iter((0..LEN).map(|i| number(i + 77))));
    let products = a.view().iter().zip(b.view()).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
    let first = |y: Layer<Nd>| y.predict().wait().expect("it succeeds")[(0, 0)];
    let (row, column) = (a.reshape([1, LEN]), b.reshape([LEN, 1]));
    near("a row and a column", first(row.matmul(&column)), products);
    near("contiguous columns", first(column.t().matmul(row.t())), products);
    let wide = concat(1, [&column, &column, &column]);
    near("one row", first(row.matmul(&wide)), products);
    near("few rows", first(concat(0, [&row, &row]).matmul(&wide)), products);
    near("a bias", first(row.linear(&wide, Nd::from([1e6_f32; 3]))), products + 1e6);
    let all: f64 = a.view().iter().map(|&x| f64::from(x)).sum();
    let sums = Nd::full([LEN], 0.0_f32).logcumsumexp(0).predict().wait().expect("it succeeds");
    near("a cumulative log-sum-exp", sums[LEN - 1], (LEN as f64).ln());
    let pooled = a.reshape([1, 1, LEN]).adaptive_avg_pool1d([1]).flatten();
    near("a window", pooled.predict().wait().expect("it succeeds")[0], all / LEN as f64);
    let table = Weight::new(dl_nd::Table::from([[0.5_f32], [0.25]]));
    let read = (table.embedding(vec![1; LEN]).flatten() * &a).sum();
    let matrix = Weight::new(Nd::from([[0.5_f32], [0.25], [0.125]]));
    let read_of_tensor = (matrix.index_select(0, vec![1; LEN]).flatten() * &a).sum();
    near("lookups of a tensor", read_of_tensor.gradient(&matrix).predict().wait().expect("it succeeds")[(1, 0)], all);
    let picked = (matrix.gather(0, Nd::full([LEN, 1], 2_usize)).flatten() * &a).sum();
    near("gathered elements", picked.gradient(&matrix).predict().wait().expect("it succeeds")[(2, 0)], all);
    near("lookups", read.gradient(&table).predict().wait().expect("it succeeds").block()[(0, 0)], all);
}
