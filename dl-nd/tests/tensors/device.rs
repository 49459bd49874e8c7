//! Tensors on a device that counts.

use dl_core::{Differentiable, Result, Weight};
use dl_nd::device::{Counters, Device, Dry};
use dl_nd::{MoveModule, Nd, Table, TransferOps, concat, ops::*, where_};
use dl_optim::Sgd;
use ndarray::{Ix1, Ix2};
use std::sync::Arc;

pub(crate) fn ones(shape: [usize; 2], device: &Arc<dyn Device>) -> Nd {
    Nd::full(shape, 1.0).to(device).expect("a dry device has room")
}

/// What `run` launches, waits for and copies.
pub(crate) fn spent<R>(device: &Arc<dyn Device>, run: impl FnOnce() -> Result<R>) -> [u64; 4] {
    let before = device.counters();
    run().expect("a dry device runs everything");
    let after = device.counters();
    let of = |count: fn(&Counters) -> u64| count(&after) - count(&before);
    [of(|c| c.launches), of(|c| c.syncs), of(|c| c.bytes_up), of(|c| c.bytes_down)]
}

#[test]
fn pointwise_chain_is_one_launch() {
    let dry = Dry::new();
    let (x, bias) = (ones([3, 4], &dry), Nd::<f32, Ix1>::full(4, 1.0).to(&dry).unwrap());
    let y = (x.layer() * 2.0 + bias.layer().lift::<Ix2>()).tanh() * x.layer();
    assert_eq!(spent(&dry, || y.predict().wait()), [1, 0, 0, 0]);
}

#[test]
fn movement_is_no_launch() {
    let dry = Dry::new();
    let x = ones([4, 6], &dry);
    let y = x.t().unsqueeze(0).squeeze(0).slice_axis(0, ..3).flip(1).t();
    assert_eq!(spent(&dry, || y.predict().wait()), [0, 0, 0, 0]);
    assert_eq!(spent(&dry, || x.reshape([2, 12]).predict().wait()), [0, 0, 0, 0]);
    assert_eq!(spent(&dry, || x.t().reshape([2, 12]).predict().wait()), [1, 0, 0, 0], "a copy");
    assert_eq!(spent(&dry, || concat(0, [&x, &x, &x]).predict().wait()), [1, 0, 0, 0], "copies of the parts");
    assert_eq!(spent(&dry, || concat(1, [&x, &x, &x]).predict().wait()), [3, 0, 0, 0], "parts that are interleaved");
}

#[test]
fn training_step_waits_for_its_number_only() {
    let dry = Dry::new();
    let net = [Weight::new(Nd::<f32, _>::full([8, 4], 0.5)), Weight::new(Nd::full([4, 2], 0.5))];
    net.move_to(&dry).unwrap();
    let x = ones([16, 8], &dry);
    let loss = x.matmul(&net[0]).relu().matmul(&net[1]).square().mean();
    let step = spent(&dry, || loss.train(&Sgd::new(0.1)).wait());
    assert_eq!(step[1..], [1, 0, 4]);
    assert_eq!(spent(&dry, || loss.train(&Sgd::new(0.1)).wait()), step, "steps are alike");
    let held = dry.counters().bytes_in_use;
    loss.train(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!(dry.counters().bytes_in_use, held, "a step leaves nothing behind");
    // forward: two products, relu, square, sum, division; backward: the delta of the scores, three
    // products, the gated delta; the new weights, which are one launch. The deltas of both operands of the second product
    // each compute the delta of the scores.
    assert_eq!(step[0], 13, "launches of a step");
}

#[test]
fn operations_made_of_others_take_a_few_launches() {
    let dry = Dry::new();
    let (x, other) = (ones([8, 5], &dry), ones([8, 5], &dry));
    let launches = |run: &dyn Fn() -> Result<()>| spent(&dry, run);
    let count = |value: dl_core::Layer<Nd>| launches(&|| value.predict().wait().map(drop))[0];
    // the maxima, the exponentials, their sums; the quotients
    assert_eq!(count(x.softmax(1)), 4);
    assert_eq!(count(where_(x.less(&other), &x, 0.0)), 2);
    assert_eq!(count(x.tril(0)), 1);
    assert_eq!(count(x.layer_norm(1, 1e-5)), 10);
    // a look at the indices, and the elements
    let rows = Nd::from([3_usize, 0]).to(&dry).unwrap();
    assert_eq!(count(x.index_select(0, &rows)), 2);
    // a look at the labels; maxima, exponentials, sums; the logits of the labels, losses, their sum
    let labels = Nd::from([0_usize; 8]).to(&dry).unwrap();
    let loss = x.cross_entropy(&labels);
    assert_eq!(spent(&dry, || loss.predict().wait()), [7, 1, 0, 4]);
    // nothing but the number is copied
    let w = Weight::new(Nd::<f32, _>::full([5, 4], 0.5));
    w.move_to(&dry).unwrap();
    let step = x.matmul(&w).cross_entropy(&labels);
    assert_eq!(spent(&dry, || step.train(&Sgd::new(0.1)).wait())[1..], [1, 0, 4]);
}

#[test]
fn indices_on_the_host_are_an_error_unless_there_is_one() {
    let dry = Dry::new();
    let x = ones([3, 2], &dry);
    let error = x.index_select(0, [2, 0]).predict().wait().unwrap_err();
    assert!(error.to_string().contains("operand 1 lies on the host"), "{error}");
    assert!(x.index_select(0, 2).predict().wait().unwrap().device().is_some());
    assert!(x.cross_entropy([0, 1, 0]).predict().wait().is_err());
}

#[test]
fn memory_is_freed_with_the_last_handle() {
    let dry = Dry::new();
    let x = ones([10, 10], &dry);
    let y = x.exp().predict().wait().unwrap();
    assert_eq!(dry.counters().bytes_in_use, 800);
    drop((x, y));
    assert_eq!((dry.counters().bytes_in_use, dry.counters().peak_bytes), (0, 800));
}

#[test]
fn operands_on_two_places_are_an_error_at_the_operation() {
    let dry = Dry::new();
    let (x, w) = (ones([2, 3], &dry), Weight::new(Nd::<f32, _>::full([3, 2], 1.0)));
    let line = line!() + 1;
    let error = x.matmul(&w).predict().wait().unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("a dry device") && error.to_string().contains("the host"));
    assert_eq!(error.place().map(|place| place.line()), Some(line), "{error}");
    let error = (x.layer() + Nd::<f32, Ix2>::full([2, 3], 1.0).layer()).predict().wait().unwrap_err();
    assert!(error.to_string().contains("operand 1 lies on the host"), "{error}");
    let other = Dry::new();
    assert!((x.layer() * ones([2, 3], &other).layer()).predict().wait().unwrap_err().is_invalid());
    // one element goes along
    assert!((x.layer() * Nd::<f32, Ix2>::full([1, 1], 2.0).layer()).predict().wait().is_ok());
    assert!((x.layer() * Weight::new(2.0_f32)).predict().wait().is_ok());
}

#[test]
fn missing_operation_is_an_error_at_the_operation_and_not_a_copy() {
    let dry = Dry::new();
    let x = ones([2, 3], &dry);
    let line = line!() + 1;
    let error = x.unsqueeze(0).ctc([[1_usize]]).predict().wait().unwrap_err();
    assert!(error.to_string().contains("cannot run on a dry device yet"), "{error}");
    assert_eq!(error.place().map(|place| place.line()), Some(line), "{error}");
    assert!(error.is_invalid() && !error.is_panic());
    assert_eq!(dry.counters().bytes_down, 0);
    assert_eq!(format!("{x:?}"), "f32[2, 3] on a dry device");
}

#[test]
fn module_moves_as_a_whole_or_not_at_all() {
    let dry = Dry::new();
    let w = Weight::new(Nd::<f32, _>::full([2, 2], 0.5));
    let net = ((w.clone(), Weight::new(3.0_f32)), Weight::new(Table::from(Nd::<f32, Ix2>::full([2, 2], 1.0))));
    let error = net.move_to(&dry).unwrap_err();
    assert!(error.to_string().contains("`1`") && error.to_string().contains("table"), "{error}");
    assert!(w.value().device().is_none());
    net.0.move_to(&dry).unwrap();
    assert!(w.value().device().is_some());
    net.0.move_to_host().unwrap();
    assert!(w.value().device().is_none());
}

#[test]
fn transfer_in_layers_moves_the_delta_back() {
    let dry = Dry::new();
    let w = Weight::new(Nd::<f32, _>::full([2, 2], 0.5));
    let loss = w.to_device(&dry).exp().to_host().sum();
    assert!(loss.gradient(&w).predict().wait().unwrap().device().is_none());
    loss.train(&Sgd::new(0.1)).wait().unwrap();
}
