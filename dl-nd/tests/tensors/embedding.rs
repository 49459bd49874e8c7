//! Embedding tables: gradients, optimizer steps, and old versions.

use crate::gradient_check::{mixed, numbers};
use dl_core::{
    Chunk, Delta, Differentiable, Error, Layer, Memory, Optimizer, Result, Slot, Snapshot, Trainable, Weight,
};
use dl_nd::{Nd, Rows, Table, TableOps, init, ops::*};
use dl_optim::{Adagrad, Adam, OptimizerExt, Sgd};
use ndarray::Ix2;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

type Matrix = Nd<f64, Ix2>;

fn table_of(matrix: &Matrix) -> Weight<Table<f64>> {
    Weight::new(matrix.clone().into())
}

fn close(a: &Matrix, b: &Matrix) -> bool {
    a.shape() == b.shape() && a.view().iter().zip(b.view()).all(|(a, b)| (a - b).abs() < 1e-12)
}

/// A nonlinear function of the rows of a table.
fn curved(rows: &Layer<Matrix>) -> Layer<f64> {
    mixed(&(rows * rows * rows + rows.tanh()))
}

#[test]
fn table_gradients_match_tensor_gradients() {
    let start = numbers([5, 3], -1.0, 1.0, 1);
    let (table, tensor) = (table_of(&start), Weight::new(start));
    for ids in [vec![], vec![4], vec![2, 0, 2, 2, 4], vec![1, 2, 3]] {
        let (of_table, of_tensor) = (table.embedding(ids.clone()), tensor.index_select(0, ids.clone()));
        let (sparse, dense) = (curved(&of_table).gradient(&table), curved(&of_tensor).gradient(&tensor));
        let rows = sparse.predict().wait().unwrap();
        assert_eq!(rows.to_nd(), dense.predict().wait().unwrap(), "{ids:?}");
        let mut touched = ids.clone();
        touched.sort();
        touched.dedup();
        assert_eq!(rows.touched(), Some(&touched[..]));
        // second derivatives: through selected rows of the gradient, and through all of it
        let sparse_twice = mixed(&sparse.dense()) + curved(&sparse.embedding([2, 4]));
        let dense_twice = mixed(&dense) + curved(&dense.index_select(0, [2, 4]));
        let found = sparse_twice.gradient(&table).predict().wait().unwrap().to_nd();
        assert!(close(&found, &dense_twice.gradient(&tensor).predict().wait().unwrap()), "{ids:?}: {found:?}");
    }
}

#[test]
fn table_gradients_match_differences() {
    let start = numbers([4, 2], -1.0, 1.0, 2);
    let table = table_of(&start);
    let rows = table.embedding([3, 1, 3]);
    let loss = curved(&rows) + curved(&rows.matmul(table.dense().t()));
    for loss in [loss.clone(), mixed(&loss.gradient(&table).dense())] {
        let analytic = loss.gradient(&table).predict().wait().unwrap().to_nd();
        for (index, &analytic) in analytic.view().indexed_iter() {
            let at = |offset: f64| {
                let mut matrix = start.clone().into_array();
                matrix[index] += offset;
                table.set(matrix.into());
                loss.predict().wait().unwrap()
            };
            let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((numeric - analytic).abs() < 1e-6 * (1.0 + numeric.abs()), "{index:?}: {analytic}, {numeric}");
        }
        table.set(start.clone().into());
    }
}

#[test]
fn row_deltas_summed_and_scaled_match_dense() {
    let table = table_of(&numbers([4, 2], -1.0, 1.0, 3));
    let delta = |ids: &[usize]| curved(&table.embedding(ids)).gradient(&table);
    let [a, b, c] = [delta(&[0, 2]), delta(&[2]), curved(&table.dense()).gradient(&table)];
    let sum_of = |terms: &[&Layer<Rows<f64>>]| {
        let found = terms.iter().copied().cloned().sum::<Layer<Rows<f64>>>();
        let expected = terms.iter().map(|term| term.dense()).sum::<Layer<Matrix>>();
        let (found, expected) = (found.predict().wait().unwrap(), expected.predict().wait().unwrap());
        assert_eq!(found.to_nd(), expected);
        found
    };
    assert_eq!(sum_of(&[&a, &b, &a]).touched(), Some(&[0, 2][..]));
    assert_eq!(sum_of(&[&b, &c, &a]).touched(), None);
    let thrice = [<Rows<f64> as Delta>::scale(&a, 2.0), a.clone()].into_iter().sum::<Layer<Rows<f64>>>();
    let (found, expected) = (thrice.dense().predict().wait().unwrap(), (3.0 * a.dense()).predict().wait().unwrap());
    assert!(close(&found, &expected));
}

fn sparse_as_in_pytorch<O: Optimizer + Clone + 'static>(case: &str, optimizer: &O) {
    let start = ndarray::Array2::from_shape_fn([5, 2], |(row, column)| match column {
        0 => 0.1 * row as f64 - 0.25,
        _ => 0.3 - 0.07 * row as f64,
    });
    let table: Weight<Table<f64>> = Weight::new(start.into());
    let mut taken = 0;
    for line in include_str!("../reference/optimizers.txt").lines() {
        let mut words = line.split(' ');
        if words.next() != Some(case) {
            continue;
        }
        let steps: usize = words.next().unwrap().parse().unwrap();
        for step in taken + 1..=steps {
            let out = table.embedding([3 * step % 5, (step * step + 1) % 5, 3 * step % 5, 4]);
            let loss = (&out * &out * &out).sum() + (&out * Nd::from([[0.5, -1.5]])).sum();
            loss.train(optimizer).wait().unwrap();
        }
        taken = steps;
        let expected: Vec<f64> = words.map(|word| word.parse().unwrap()).collect();
        let expected = Nd::from_vec([5, 2], expected).unwrap();
        assert!(close(&table.value().to_nd(), &expected), "{case}, step {steps}: {:?}", table.value().to_nd());
    }
    assert_eq!(taken, 20);
}

/// The expected values come from `reference/optimizers.py` of dl-core.
#[test]
fn sparse_steps_match_pytorch() {
    sparse_as_in_pytorch("sgd", &Sgd::new(0.05));
    sparse_as_in_pytorch("adagrad", &Adagrad::new(0.1));
    sparse_as_in_pytorch("adam", &Adam::new(0.05).eps(1e-20));
}

/// Trains a table that is read by ids and as a matrix factor, and a tensor likewise. If `lazily`,
/// every third step reads by ids only.
fn tied<O: Optimizer + Clone + 'static>(make: impl Fn() -> O, lazily: bool) {
    let start = numbers([6, 4], -0.5, 0.5, 4);
    let (table, tensor) = (table_of(&start), Weight::new(start));
    let (with_table, with_tensor) = (make(), make());
    for step in 0..12_usize {
        let ids = [step % 6, (step * step) % 6, step % 6];
        let both = !(lazily && step % 3 == 2);
        let loss = |rows: Layer<Matrix>, whole: Layer<Matrix>| {
            let hidden = rows.tanh();
            if both { hidden.matmul(whole.t()).cross_entropy([1, 5, 0]) } else { hidden.square().mean() }
        };
        let of_table = loss(table.embedding(ids), table.dense()).train(&with_table).wait().unwrap();
        let of_tensor = loss(tensor.index_select(0, ids), tensor.layer()).train(&with_tensor).wait().unwrap();
        assert!((of_table - of_tensor).abs() < 1e-12, "step {step}");
        assert!(close(&table.value().to_nd(), &tensor.value()), "step {step}");
    }
}

#[test]
fn tied_table_trains_like_tensor() {
    // these optimizers treat a missing row as a row of zeros
    tied(|| Sgd::new(0.3), true);
    tied(|| Adagrad::new(0.1), true);
    tied(|| Adagrad::new(0.1).initial_accumulator(0.2), true);
    // these optimizers do not update a missing row, not even its state
    tied(|| Sgd::new(0.1).momentum(0.9), false);
    tied(|| Adam::new(0.05), false);
}

#[test]
fn momentum_of_untouched_row_is_not_applied() {
    let table = Weight::new(Table::from([[1.0], [1.0]]));
    let sgd = Sgd::new(1.0).momentum(0.5);
    table.embedding([0]).sum().train(&sgd).wait().unwrap();
    table.embedding([1]).sum().train(&sgd).wait().unwrap();
    assert_eq!(table.value(), [[0.0], [0.0]].into());
    table.embedding([0]).sum().train(&sgd).wait().unwrap();
    assert_eq!(table.value(), [[-1.5], [0.0]].into());
}

/// An optimizer that changes values and state, and fails or panics at the element counted by
/// `left`.
#[derive(Clone)]
struct FailsAt {
    left: Arc<AtomicUsize>,
    panics: bool,
    memory: Memory,
}

impl Optimizer for FailsAt {
    fn slots(&self) -> &[Slot] {
        const { &[Slot::zeros("first"), Slot::zeros("second")] }
    }

    fn memory(&self) -> Option<&Memory> {
        Some(&self.memory)
    }

    fn step(&self, chunk: Chunk<'_>, steps: u64) -> Result<()> {
        let Chunk::F64 { values, slots, .. } = chunk else { unreachable!() };
        for (at, value) in values.iter_mut().enumerate() {
            for slot in slots.iter_mut() {
                slot[at] += steps as f64;
            }
            *value += slots[0][at] + slots[1][at];
            if self.left.fetch_sub(1, SeqCst) == 0 {
                assert!(!self.panics, "the optimizer panics");
                return Err(Error::invalid("the optimizer gives up"));
            }
        }
        Ok(())
    }
}

#[test]
fn step_failing_at_any_row_changes_nothing() {
    let start = numbers([5, 1], -1.0, 1.0, 5);
    let before: Vec<f64> = start.view().iter().copied().collect();
    for panics in [false, true] {
        // the step of the second table fails after the first one has its new version
        for k in 0..5 {
            let (first, second) = (table_of(&start), table_of(&start));
            let loss = first.embedding([3, 0]).sum() + second.embedding([4, 1, 4, 2]).sum();
            let optimizer = FailsAt { left: Arc::new(AtomicUsize::new(usize::MAX)), panics, memory: Memory::new() };
            loss.train(&optimizer).wait().unwrap();
            let once = [first.value(), second.value()];
            optimizer.left.store(k, SeqCst);
            let error = loss.train(&optimizer).wait().unwrap_err();
            assert_eq!(error.is_panic(), panics, "{error}");
            assert_eq!([first.value(), second.value()], once);
            optimizer.left.store(usize::MAX, SeqCst);
            loss.train(&optimizer).wait().unwrap();
            // two steps of the state: 2 · 1, then 2 · (1 + 2)
            for (table, touched) in [(&first, &[0, 3][..]), (&second, &[1, 2, 4][..])] {
                let now = table.value().to_nd();
                for (row, &before) in before.iter().enumerate() {
                    let expected = if touched.contains(&row) { before + 2.0 + 6.0 } else { before };
                    assert!((now[[row, 0]] - expected).abs() < 1e-12, "row {row} at {k}");
                }
            }
        }
    }
}

#[test]
fn old_table_versions_keep_values() {
    let table = Weight::new(Table::<f64>::zeros([4, 1]).unwrap());
    let count = |id: usize| (table.embedding([id]) * -1.0).sum().train(&Sgd::new(1.0)).wait().unwrap();
    let expect = |table: &Table<f64>, expected: [f64; 4]| {
        assert_eq!(table.to_nd(), expected.map(|x| [x]).into());
        assert_eq!(table.rows(&[3, 2, 1, 0]).unwrap().view().sum(), expected.iter().sum::<f64>());
    };
    let zero = table.value();
    let snapshot = Snapshot::take();
    count(0);
    let one = table.value();
    count(1);
    count(1);
    let three = table.value();
    count(0);
    expect(&zero, [0.0; 4]);
    expect(&one, [1.0, 0.0, 0.0, 0.0]);
    expect(&three, [1.0, 2.0, 0.0, 0.0]);
    drop(one);
    expect(&zero, [0.0; 4]);
    expect(&table.value(), [2.0, 2.0, 0.0, 0.0]);
    // set an older version, which then diverges
    let four = table.value();
    table.set(three.clone());
    count(3);
    expect(&three, [1.0, 2.0, 0.0, 0.0]);
    expect(&table.value(), [1.0, 2.0, 0.0, 1.0]);
    expect(&four, [2.0, 2.0, 0.0, 0.0]);
    drop(four);
    expect(&three, [1.0, 2.0, 0.0, 0.0]);
    drop(three);
    expect(&zero, [0.0; 4]);
    assert_eq!(table.dense().sum().predict().on(&snapshot).wait().unwrap(), 0.0);
    assert_eq!(table.dense().sum().predict().wait().unwrap(), 4.0);
}

/// A pass that has read a table keeps this version while a nested step updates the weight.
#[test]
fn pass_keeps_table_version_during_nested_step() {
    let table = Weight::new(Table::from([[1.0], [2.0]]));
    let y = {
        let table = table.clone();
        Layer::dynamic(move || {
            let table = table.clone();
            async move {
                let before = table.embedding([0]).extract().await?;
                table.embedding([0, 1]).sum().train(&Sgd::new(1.0)).wait()?;
                let after = table.embedding([0, 1]).extract().await?;
                Ok(Layer::constant(Nd::from([before[[0, 0]], after[[0, 0]], after[[1, 0]]])))
            }
        })
    };
    assert_eq!(y.predict().wait().unwrap(), [1.0, 1.0, 2.0].into());
    assert_eq!(table.value(), [[0.0], [1.0]].into());
}

/// Creates and drops versions at random, and compares each with a dense copy.
#[test]
fn random_version_histories_match_dense_copies() {
    use rand::Rng;
    let mut rng = init::rng(6);
    for width in [0, 1, 3] {
        let first = Table::from(numbers([7, width], -1.0, 1.0, 7));
        let mut held: Vec<(Table<f64>, Matrix)> = vec![(first.clone(), first.to_nd())];
        for _ in 0..500 {
            let at = rng.random_range(0..held.len());
            let (mut table, _) = held[at].clone();
            let ids: Vec<usize> = (0..rng.random_range(0..5)).map(|_| rng.random_range(0..7)).collect();
            let parts = Nd::full([ids.len(), width], rng.random_range(-1.0..1.0));
            let delta = match rng.random_bool(0.05) {
                true => Rows::dense(Nd::full([7, width], 0.5)),
                false => Rows::sparse(table.shape(), &ids, &parts).unwrap(),
            };
            // drop the version that was updated, in a fifth of the rounds
            if rng.random_bool(0.2) {
                held.swap_remove(at);
            }
            let expected: Matrix = (table.to_nd().into_array() - delta.to_nd().into_array()).into();
            let mut rule = |chunk: Chunk<'_>| Sgd::new(1.0).step(chunk, 1);
            table.update(&delta, &mut [], &mut rule).unwrap();
            held.push((table, expected));
            while held.len() > 12 {
                held.swap_remove(rng.random_range(0..held.len()));
            }
            for (table, expected) in &held {
                assert_eq!(table.to_nd(), *expected);
                let ids = [6, rng.random_range(0..7), 0];
                let selected = expected.view().select(ndarray::Axis(0), &ids);
                assert_eq!(table.rows(&ids).unwrap(), selected.into());
            }
        }
    }
}

#[test]
fn many_held_versions_drop_in_any_order() {
    const VERSIONS: usize = 20_000;
    for order in ["oldest first", "newest first", "newest but one first"] {
        let table = Weight::new(Table::<f32>::zeros([1_000, 2]).unwrap());
        let mut held = Vec::new();
        for step in 0..VERSIONS {
            held.push(table.value());
            let mut next = table.value();
            let delta = Rows::sparse([1_000, 2], &[step % 1_000], &[[-1.0, -2.0]].into()).unwrap();
            next.update(&delta, &mut [], &mut |chunk| Sgd::new(1.0).step(chunk, 1)).unwrap();
            table.set(next);
        }
        assert_eq!(held[0].to_nd().view().sum(), 0.0);
        assert_eq!(held[VERSIONS / 2].row(3).unwrap(), [10.0, 20.0].into());
        assert_eq!(table.value().row(999).unwrap(), [20.0, 40.0].into());
        match order {
            "oldest first" => held.drain(..).for_each(drop),
            "newest first" => {
                drop(table);
                held.drain(1..).rev().for_each(drop);
                assert_eq!(held[0].to_nd().view().sum(), 0.0);
            }
            _ => {
                held.drain(1..).rev().for_each(drop);
                assert_eq!(held[0].to_nd().view().sum(), 0.0);
                assert_eq!(table.value().row(999).unwrap(), [20.0, 40.0].into());
            }
        }
    }
}

#[test]
fn concurrent_reads_during_steps_see_consistent_versions() {
    let table = Weight::new(Table::<f64>::zeros([64, 8]).unwrap());
    let sgd = Sgd::new(1.0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (table, sgd) = (table.clone(), sgd.clone());
            scope.spawn(move || {
                for step in 0..300 {
                    let row = 2 * (step % 32) + thread;
                    (table.embedding([row]) * -1.0).sum().train(&sgd).wait().unwrap();
                }
            });
        }
        for _ in 0..2 {
            let table = table.clone();
            scope.spawn(move || {
                for _ in 0..300 {
                    // a version is immutable (two reads agree), and no row is partially updated
                    let held = table.value();
                    let (first, second) = (held.to_nd(), held.to_nd());
                    assert_eq!(first, second);
                    assert!(first.view().rows().into_iter().all(|row| row.iter().all(|&x| x == row[0])));
                }
            });
        }
    });
    assert_eq!(table.value().to_nd().view().sum(), 600.0 * 8.0);
}

/// Two weights that start from clones of one table.
#[test]
fn table_clones_diverge_independently() {
    let start = Table::<f32>::zeros([10_000, 2]).unwrap();
    let (a, b) = (Weight::new(start.clone()), Weight::new(start.clone()));
    let sgd = Sgd::new(1.0);
    for step in 0..2_000 {
        a.embedding([step]).sum().train(&sgd).wait().unwrap();
        (b.embedding([step]) * 2.0).sum().train(&sgd).wait().unwrap();
    }
    assert_eq!(start.to_nd().view().sum(), 0.0);
    assert_eq!(a.value().to_nd().view().sum(), -4_000.0);
    assert_eq!(b.value().to_nd().view().sum(), -8_000.0);
}

#[test]
fn table_with_invalid_ids_or_shapes_returns_error() {
    let table = Weight::new(Table::<f64>::zeros([5, 2]).unwrap());
    let error = table.embedding([4, 0, 7]).sum().train(&Sgd::new(1.0)).wait().unwrap_err();
    assert!(error.is_invalid());
    assert_eq!(error.op(), Some("embedding"));
    assert_eq!(error.place().unwrap().line(), line!() - 3);
    for part in ["id 7", "number 2", "height 5"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(table.value().row(5).unwrap_err().is_invalid());
    assert!(table.value().rows(&[0, 5]).unwrap_err().is_invalid());
    assert!(Table::<f64>::zeros([usize::MAX, 2]).unwrap_err().is_shape());
    assert!(Table::<f64>::zeros([1 << 61, 1]).unwrap_err().is_shape());
    assert!(Rows::<f64>::sparse([5, 2], &[0, 1], &Nd::full([1, 2], 0.0)).unwrap_err().is_shape());
    assert!(Rows::<f64>::sparse([5, 2], &[5], &Nd::full([1, 2], 0.0)).unwrap_err().is_invalid());

    let none = Weight::new(Table::<f64>::zeros([0, 2]).unwrap());
    assert!(none.embedding([0]).predict().wait().unwrap_err().is_invalid());
    assert_eq!(none.embedding([]).predict().wait().unwrap().shape(), [0, 2]);

    // setting a table of another shape invalidates the optimizer's state
    let adagrad = Adagrad::new(0.1);
    table.embedding([4]).sum().train(&adagrad).wait().unwrap();
    table.set(Table::zeros([9, 2]).unwrap());
    assert!(table.embedding([8]).sum().train(&adagrad).wait().unwrap_err().is_shape());
    assert!(table.embedding([8]).sum().train(&Sgd::new(1.0)).wait().is_ok());
}

#[test]
fn sparse_delta_not_finite_is_refused() {
    let table = Weight::new(Table::from([[0.0_f64], [1.0]]));
    let loss = table.embedding([1, 0]).sqrt().sum();
    assert!(loss.train(&Sgd::new(1.0).refuse_non_finite()).wait().unwrap_err().is_not_finite());
    assert_eq!(table.value(), [[0.0], [1.0]].into());
}
