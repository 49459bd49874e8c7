//! Optimizers on tables and tensors: sparse deltas, weight averages, saved state.

use crate::gradient_check::numbers;
use dl_core::{Differentiable, Layer, Optimizer, OptimizerState, Result, Weight, WeightHandle};
use dl_nd::{Nd, NdWeight, Table, TableOps, init, ops::*};
use dl_optim::schedule::Cosine;
use dl_optim::{Adadelta, Adagrad, Adam, AdamW, Lbfgs, Lion, NAdam, OptimizerExt, RAdam, RmsProp, Sgd};
use ndarray::{Axis, Ix1, Ix2};
use std::sync::Arc;

type Matrix = Nd<f64, Ix2>;

/// All optimizers, with most of their settings and several gradient transformations.
fn optimizers() -> Vec<Arc<dyn Optimizer>> {
    vec![
        Arc::new(Sgd::new(0.1).weight_decay(0.5)),
        Arc::new(Sgd::new(0.1).momentum(0.9).dampening(0.5).l1(0.1)),
        Arc::new(Sgd::new(0.1).momentum(0.9).nesterov().clip_norm(0.1)),
        Arc::new(Adagrad::new(0.1).initial_accumulator(0.5).clip_value(0.1)),
        Arc::new(RmsProp::new(0.1).centered().momentum(0.5).refuse_non_finite()),
        Arc::new(Adadelta::new(1.0).weight_decay(0.1).clip_norm(0.1)),
        Arc::new(Adam::new(0.1).amsgrad().clip_norm(0.1).weight_decay(0.1)),
        Arc::new(AdamW::new(Cosine::new(0.1, 5))),
        Arc::new(NAdam::new(0.1)),
        Arc::new(RAdam::new(0.1).betas(0.9, 0.7)),
        Arc::new(Lion::new(0.1).weight_decay(0.5)),
    ]
}

fn loss(rows: &Layer<Matrix>) -> Layer<f64> {
    (rows * rows * rows - rows * 0.3).sum()
}

/// Rows that are read change like a tensor of these rows. The others and their averages do not
/// change.
#[test]
fn sparse_delta_moves_touched_rows_only() -> Result<()> {
    let start = numbers([6, 3], -1.0, 1.0, 1);
    for (sparse, dense) in optimizers().into_iter().zip(optimizers()) {
        let name = sparse.kind();
        let table: Weight<Table<f64>> = Weight::new(start.clone().into());
        let tensor: Weight<Matrix> = Weight::new(start.view().select(Axis(0), &[1, 4]).into());
        let (of_table, of_tensor) = (loss(&table.embedding([4, 1])), loss(&tensor.index_select(0, [1, 0])));
        let (sparse, dense) = (sparse.ema(0.5), dense.ema(0.5));
        for _ in 0..5 {
            of_table.train(&sparse).wait()?;
            of_tensor.train(&dense).wait()?;
        }
        let averages = (sparse.average(&table)?.unwrap(), dense.average(&tensor)?.unwrap());
        for (table, tensor) in [(table.value(), tensor.value()), averages] {
            assert_eq!(table.rows(&[1, 4])?, tensor, "{name}");
            let others = [0, 2, 3, 5];
            assert_eq!(table.rows(&others)?, start.view().select(Axis(0), &others).into(), "{name}");
        }
        let on_averages = table.embedding([4, 0]).predict().on(&sparse.snapshot()?).wait()?;
        assert_eq!(on_averages, sparse.average(&table)?.unwrap().rows(&[4, 0])?);
    }
    Ok(())
}

/// A step does not change the optimizer state of rows that it does not touch.
#[test]
fn untouched_rows_keep_optimizer_state() -> Result<()> {
    let (lazy, alone) = (Sgd::new(0.1).momentum(0.9), Sgd::new(0.1).momentum(0.9));
    let [both, one] = [(); 2].map(|()| Weight::<Table<f64>>::new([[1.0], [2.0]].into()));
    for _ in 0..3 {
        both.embedding([0]).sum().train(&lazy).wait()?;
        both.embedding([1]).sum().train(&lazy).wait()?;
        one.embedding([1]).sum().train(&alone).wait()?;
    }
    assert_eq!(both.value().row(1)?, one.value().row(1)?);
    Ok(())
}

struct Net {
    table: Weight<Table>,
    bias: Weight<Nd<f32, Ix1>>,
}

impl Net {
    fn new() -> Self {
        Net {
            table: Weight::new([[0.5, -0.25], [1.0, 0.75], [-0.5, 0.125]].into()),
            bias: Weight::new([0.1, 0.2].into()),
        }
    }

    fn train<O: Optimizer + Clone + 'static>(&self, step: usize, optimizer: &O) -> Result<()> {
        let out = self.table.embedding([step % 3, 1]).tanh() * &self.bias;
        (&out * &out).sum().train(optimizer).wait().map(drop)
    }

    fn named(&self) -> [(&'static str, WeightHandle); 2] {
        [("table", (&self.table).into()), ("bias", (&self.bias).into())]
    }
}

/// Weights of different types, with optimizer state of the same types.
#[test]
fn resumed_run_of_tables_and_tensors_has_same_bits() -> Result<()> {
    let make = || Adam::new(Cosine::new(0.1, 20)).amsgrad().weight_decay(0.01).clip_norm(0.5).ema(0.9);
    let (net, optimizer) = (Net::new(), make());
    for step in 0..4 {
        net.train(step, &optimizer)?;
    }
    let taken = optimizer.state(&net.named())?;
    let mut state = OptimizerState::new(taken.kind());
    taken.numbers().for_each(|(key, number)| state.set_number(key, number));
    for (weight, slot) in taken.slots() {
        match weight {
            "table" => state.set_slot(weight, slot, taken.slot::<Table>(weight, slot).unwrap().clone()),
            _ => state.set_slot(weight, slot, taken.slot::<Nd<f32, Ix1>>(weight, slot).unwrap().clone()),
        }
    }
    let (again, resumed) = (Net::new(), make());
    again.table.set(net.table.value());
    again.bias.set(net.bias.value());
    resumed.load_state(&state, &again.named())?;
    for step in 4..8 {
        net.train(step, &optimizer)?;
        again.train(step, &resumed)?;
    }
    assert_eq!((again.table.value(), again.bias.value()), (net.table.value(), net.bias.value()));
    assert_eq!(resumed.average(&again.table)?, optimizer.average(&net.table)?);

    // state of another shape
    state.set_slot("bias", "exp_avg", Nd::<f32, Ix1>::from([1.0, 2.0, 3.0]));
    let error = resumed.load_state(&state, &again.named()).unwrap_err();
    assert!(error.is_shape() && error.place().is_some_and(|place| place.file().ends_with("optimizers.rs")), "{error}");
    state.set_slot("bias", "exp_avg", Nd::<f32, Ix1>::from([1.0, 2.0]));
    state.set_slot("table", "ema", Table::<f32>::zeros([3, 3])?);
    assert!(resumed.load_state(&state, &again.named()).unwrap_err().is_shape());
    Ok(())
}

/// A network in single precision, with the bits of its weights after L-BFGS.
fn fitted(threads: usize) -> Vec<u32> {
    let rng = &mut init::rng(3);
    let (x, labels): (Nd, Vec<usize>) = (init::normal([200, 30], 0.0, 1.0, rng), (0..200).map(|i| i * i % 7).collect());
    let (a, b) = (init::he_normal([30, 300], rng), init::xavier_uniform([300, 7], rng));
    let (a, b, bias): (NdWeight, NdWeight, _) = (Weight::new(a), Weight::new(b), Weight::new(Nd::full([7], 0.0)));
    let loss = ((&x.matmul(&a).tanh().matmul(&b)) + &bias).cross_entropy(labels);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let minimum = pool.install(|| Lbfgs::new().iterations(6).minimize(&loss).wait()).unwrap();
    assert!(minimum.iterations == 6 && minimum.loss < 1.5, "{minimum:?}");
    assert!((f64::from(loss.predict().wait().unwrap()) - minimum.loss).abs() < 1e-5);
    a.value()
        .into_array()
        .into_iter()
        .chain(b.value().into_array())
        .chain(bias.value().into_array())
        .map(f32::to_bits)
        .collect()
}

#[test]
fn lbfgs_on_any_thread_count_has_same_bits() {
    let one = fitted(1);
    for threads in [2, 4] {
        assert!(fitted(threads) == one, "{threads} threads");
    }
}

/// The rows of a table that the loss reads are minimized like a tensor of these rows, in any memory
/// order; the others do not change.
#[test]
fn lbfgs_moves_touched_rows_of_table_like_tensor() -> Result<()> {
    let start = numbers([6, 3], -1.0, 1.0, 1);
    let table: Weight<Table<f64>> = Weight::new(start.clone().into());
    let tensor: Weight<Matrix> = Weight::new(start.view().select(Axis(0), &[1, 4]).into());
    let turned: Weight<Matrix> = Weight::new(Nd::from(tensor.value().into_array().reversed_axes()));
    let target = numbers([2, 3], -1.0, 1.0, 2);
    let loss = |rows: Layer<Matrix>| ((rows - &target).cosh() * 2.0).sum();
    let lbfgs = Lbfgs::new().tolerances(1e-7, 0.0);
    let of_table = lbfgs.minimize(&loss(table.embedding([1, 4]))).wait()?;
    assert_eq!(of_table, lbfgs.minimize(&loss(tensor.layer())).wait()?);
    let of_turned = lbfgs.minimize(&loss(turned.t())).wait()?;
    assert_eq!(of_table.evaluations, of_turned.evaluations);
    assert_eq!(table.value().rows(&[1, 4])?, tensor.value());
    let others = [0, 2, 3, 5];
    assert_eq!(table.value().rows(&others)?, start.view().select(Axis(0), &others).into());
    for found in [tensor.value().into_array(), turned.value().into_array().reversed_axes()] {
        assert!((found - target.view()).iter().all(|x| x.abs() < 1e-6));
    }
    Ok(())
}
