//! Selection at indices, and the additions that are its gradient; errors of indices.

use super::{device, numbers, same_bits};
use dl_core::{Differentiable, Mode, Weight};
use dl_nd::device::Device;
use dl_nd::{Nd, ops::*};
use ndarray::{Ix1, Ix2, IxDyn};
use std::sync::Arc;

/// `len` indices below `length`, of which some are frequent.
fn indices(len: usize, length: usize) -> Nd<usize, Ix1> {
    (0..len).map(|i| if i % 3 == 0 { 1 } else { i * 7919 % length }).collect()
}

#[test]
fn frequent_indices_are_added_in_order_of_host() {
    let Some(device) = device(u32::MAX) else { return };
    let rows = indices(1000, 17);
    let on_device = rows.to(&device).unwrap();
    for (axis, shape, parts) in [(0, [17, 3], [1000, 3]), (1, [2, 17], [2, 1000])] {
        same_bits(&device, &[numbers::<f32>(&shape, 1), numbers(&parts, 2)], |x| {
            let rows = if x[0].device().is_some() { &on_device } else { &rows };
            let w = Weight::new(x[0].clone());
            let loss = (w.index_select(axis, rows) * x[1].layer()).sum();
            loss.gradient(&w)
        });
    }
    // one list for each column
    let list: Nd<usize, IxDyn> = Nd::from_vec(IxDyn(&[500, 4]), (0..2000).map(|i| i * i % 5).collect()).unwrap();
    let on_device = list.to(&device).unwrap();
    same_bits(&device, &[numbers::<f64>(&[5, 4], 3), numbers(&[500, 4], 4)], |x| {
        let list = if x[0].device().is_some() { &on_device } else { &list };
        x[0].scatter_add(0, list, &x[1])
    });
}

#[test]
fn index_out_of_range_is_an_error_of_its_operation_at_the_next_read() {
    let Some(device) = device(u32::MAX) else { return };
    let x: Nd<f32, Ix2> = Nd::full([5, 2], 1.0).to(&device).unwrap();
    let rows = Nd::from([1_usize, 4, 7, 9]).to(&device).unwrap();
    let line = line!() + 1;
    let picked = x.index_select(0, &rows);
    let value = picked.predict().wait().expect("nothing has been looked at");
    let error = value.to_host().unwrap_err();
    assert!(error.to_string().contains("index 7 (number 2 of the indices)"), "{error}");
    assert_eq!(error.place().map(|place| place.line()), Some(line), "{error}");
    assert_eq!(error.op(), Some("index_select"));
    assert!(value.to_host().is_err(), "its elements have no meaning");
    drop(value);
    assert!(x.to_host().is_ok() && rows.to_host().is_ok());
}

#[test]
fn error_of_an_index_reaches_what_depends_on_it_and_nothing_else() {
    let Some(device) = device(u32::MAX) else { return };
    let x: Nd<f32, Ix1> = Nd::full(4, 1.0).to(&device).unwrap();
    let [good, bad] = [2_usize, 4].map(|index| Nd::from([index]).to(&device).unwrap());
    let pick = |at: &Nd<usize, Ix1>| x.index_select(0, at).predict().wait().unwrap();
    let (right, wrong) = (pick(&good), pick(&bad));
    // another pass waits first
    assert_eq!(right.sum().predict().wait().unwrap(), 1.0);
    let derived = (wrong.exp() * right.layer()).predict().wait().unwrap();
    assert_eq!((&right * 2.0).sum().predict().wait().unwrap(), 2.0);
    drop(wrong);
    let error = derived.sum().predict().wait().unwrap_err();
    assert!(error.to_string().contains("index 4"), "{error}");
    // reads that share a wait have errors of their own
    let both = dl_core::Do::predict(vec![right.sum(), derived.sum()]);
    assert!(both.wait().is_err());
    // the memory is given to other tensors
    drop(derived);
    let fresh: Vec<_> = (0..20).map(|_| (x.layer() + 1.0).predict().wait().unwrap()).collect();
    assert!(fresh.iter().all(|fresh| fresh.sum().predict().wait().unwrap() == 8.0));
}

/// Two networks are trained at a time, one with a wrong label.
#[test]
fn wrong_label_of_a_pass_fails_no_other_pass_on_the_device() {
    let Some(device) = device(u32::MAX) else { return };
    let net = |label: usize| {
        let w = Weight::new(Nd::<f32, Ix2>::full([2, 3], 0.5).to(&device).unwrap());
        let x: Nd<f32, Ix2> = Nd::full([2, 2], 1.0).to(&device).unwrap();
        let labels = Nd::from([0_usize, label]).to(&device).unwrap();
        (x.matmul(&w).cross_entropy(&labels), w)
    };
    let train = |label: usize| {
        let (loss, w) = net(label);
        let initial = w.value().to_host().unwrap();
        for _ in 0..30 {
            let trained = loss.train(&dl_optim::Sgd::new(0.1)).wait();
            assert_eq!(trained.is_ok(), label < 3, "{trained:?}");
        }
        assert_eq!(w.value().to_host().unwrap() == initial, label >= 3);
    };
    std::thread::scope(|scope| {
        for label in [2, 3, 1, 7] {
            scope.spawn(move || train(label));
        }
    });
}

#[test]
fn label_beyond_classes_fails_a_step_and_changes_nothing() {
    let Some(device) = device(u32::MAX) else { return };
    let w = Weight::new(Nd::<f32, Ix2>::full([2, 3], 0.5).to(&device).unwrap());
    let x: Nd<f32, Ix2> = Nd::full([4, 2], 1.0).to(&device).unwrap();
    let labels = Nd::from([0_usize, 2, 3, 1]).to(&device).unwrap();
    let line = line!() + 1;
    let loss = x.matmul(&w).cross_entropy(&labels);
    let error = loss.train(&dl_optim::Sgd::new(0.1)).wait().unwrap_err();
    assert!(error.to_string().contains("label 3 at index 2 is not below the number of classes, 3"), "{error}");
    assert_eq!(error.place().map(|place| place.line()), Some(line), "{error}");
    assert_eq!(w.value().to_host().unwrap(), Nd::full([2, 3], 0.5));
}

#[test]
fn step_without_a_number_fails_for_a_wrong_index_and_changes_nothing() {
    let Some(device) = device(u32::MAX) else { return };
    let w = Weight::new(Nd::<f32, Ix1>::full(4, 0.5).to(&device).unwrap());
    let train = |index: usize| {
        let picked = w.index_select(0, Nd::from([index, 1]).to(&device).unwrap());
        picked.square().sum_keepdim(..).train(&dl_optim::Sgd::new(0.1)).wait()
    };
    let error = train(4).unwrap_err();
    assert!(error.to_string().contains("index 4"), "{error}");
    assert_eq!(w.value().to_host().unwrap(), Nd::full(4, 0.5));
    train(0).unwrap();
    assert_eq!(w.value().to_host().unwrap(), Nd::from([0.4, 0.4, 0.5, 0.5]));
}

#[test]
fn many_checks_are_read_before_the_memory_for_them_ends() {
    let Some(device) = device(u32::MAX) else { return };
    let x: Nd<f32, Ix1> = Nd::full(4, 1.0).to(&device).unwrap();
    let [good, bad] = [2_usize, 4].map(|index| Nd::from([index]).to(&device).unwrap());
    let pick = |at: &Nd<usize, Ix1>| x.index_select(0, at).predict().wait();
    let wrong = pick(&bad).expect("nothing has been looked at");
    let picked: Vec<_> = (0..300).map(|_| pick(&good).expect("nothing has been read")).collect();
    let last = picked.last().unwrap();
    assert_eq!(device.counters().syncs, 1, "the memory for checks has ended once");
    assert!(wrong.to_host().unwrap_err().to_string().contains("index 4"));
    assert!(last.to_host().is_ok());
}

#[test]
fn number_of_a_small_tensor_reports_an_index_out_of_range() {
    let Some(device) = device(u32::MAX) else { return };
    let x: Nd<f32, Ix1> = Nd::full(4, 1.0).to(&device).unwrap();
    let bad = Nd::from([4_usize]).to(&device).unwrap();
    let picked = || x.index_select(0, &bad);
    assert!(picked().sum().predict().wait().is_err());
    assert!(picked().square().mean().predict().wait().is_err());
    assert!(picked().item().predict().wait().is_err());
    assert!(picked().to_host().predict().wait().is_err());
    assert!(picked().mse(&x.slice_axis(0, ..1)).predict().wait().is_err());
}

fn dropped(device: Option<&Arc<dyn Device>>) -> Nd<f32, Ix2> {
    let x = Nd::<f32, Ix2>::full([37, 29], 1.5);
    let x = device.map_or(x.clone(), |device| x.to(device).unwrap());
    let w = Weight::new(x);
    let kept = w.dropout(0.3).predict().mode(Mode::Train).seed(7).wait().unwrap();
    kept.to_host().unwrap()
}

#[test]
fn dropout_has_draws_of_host() {
    let Some(device) = device(u32::MAX) else { return };
    let kept = dropped(Some(&device));
    assert_eq!(kept, dropped(None));
    let zeros = kept.view().iter().filter(|&&x| x == 0.0).count();
    assert!((200..450).contains(&zeros), "{zeros}");
}

#[test]
fn integers_and_masks_are_copied_and_compared_exactly() {
    let Some(device) = device(u32::MAX) else { return };
    let places = Nd::from([[usize::MAX, 1 << 60, 3], [(1 << 60) + 1, 0, usize::MAX - 1]]);
    let mask = Nd::from([[true, false, false], [false, true, true]]);
    let (places_there, mask_there) = (places.to(&device).unwrap(), mask.to(&device).unwrap());
    // a transposed tensor is copied to be reshaped
    let turned = |x: &Nd<usize, Ix2>| x.t().reshape(6).predict().wait().unwrap().to_host().unwrap();
    assert_eq!(turned(&places_there), turned(&places));
    let turned = |x: &Nd<bool, Ix2>| x.t().reshape(6).predict().wait().unwrap().to_host().unwrap();
    assert_eq!(turned(&mask_there), turned(&mask));
    let found = |x: &Nd<usize, Ix2>, mask: &Nd<bool, Ix2>| {
        let same = x.equal(1 << 60).logical_or(x.equal(usize::MAX)).logical_and(mask.logical_not());
        same.predict().wait().unwrap().to_host().unwrap()
    };
    assert_eq!(found(&places_there, &mask_there), found(&places, &mask));
    assert_eq!(found(&places, &mask).view().iter().filter(|&&same| same).count(), 1);
}

#[test]
fn accuracy_is_computed_on_device() {
    let Some(device) = device(u32::MAX) else { return };
    let logits = Nd::<f32, Ix2>::from([[0.1, 0.7, 0.2], [0.5, 0.4, 0.1], [0.3, 0.3, f32::NAN]]).to(&device).unwrap();
    let labels = Nd::from([1_usize, 1, 2]).to(&device).unwrap();
    let before = device.counters();
    let accuracy = logits.argmax(1).equal(&labels).to_floats::<f32>().mean();
    assert_eq!(accuracy.predict().wait().unwrap(), 2.0 / 3.0);
    let after = device.counters();
    assert_eq!((after.syncs - before.syncs, after.bytes_down - before.bytes_down), (1, 4));
    let class = logits.argmax(1).to_host().predict().wait().unwrap();
    assert_eq!(class, Nd::from([1_usize, 0, 2]));
}
