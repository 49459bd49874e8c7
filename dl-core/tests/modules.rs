//! Operations on all weights of a module.

use dl_core::{
    Buffer, DType, Differentiable, Entry, Module, NewValue, Numbers, Result, Snapshot, Stored, Visitor, Weight,
};
use dl_optim::Sgd;
use std::sync::Arc;

struct Line {
    slope: Weight<f64>,
    offset: Weight<f32>,
    steps: Buffer<f64>,
}

impl Line {
    fn new(slope: f64) -> Self {
        Line { slope: Weight::new(slope), offset: Weight::new(0.5), steps: Buffer::new(0.0) }
    }
}

impl Module for Line {
    fn visit(&self, visitor: &mut Visitor) {
        visitor.field("slope", &self.slope);
        visitor.field("offset", &self.offset);
        visitor.field("steps", &self.steps);
    }
}

#[test]
fn paths_join_field_names() {
    let tied = Arc::new(Line::new(1.0));
    let net =
        (vec![Line::new(2.0)], [Some(tied.clone()), None, Some(tied)], Box::new(Weight::new(3.0_f64)), 4_usize, "text");
    assert_eq!(
        net.names(),
        [
            "0.0.slope",
            "0.0.offset",
            "0.0.steps",
            "1.0.slope",
            "1.0.offset",
            "1.0.steps",
            "1.2.slope",
            "1.2.offset",
            "1.2.steps",
            "2",
        ]
    );
    let entries = net.entries();
    assert_eq!(entries[6].tied_to(), Some("1.0.slope"));
    assert!(entries[6].is_same(&entries[3]) && !entries[6].is_same(&entries[0]));
    assert_eq!(
        net.weights().iter().map(Entry::path).collect::<Vec<_>>(),
        ["0.0.slope", "0.0.offset", "1.0.slope", "1.0.offset", "2"]
    );
    assert_eq!(net.buffers().iter().map(Entry::path).collect::<Vec<_>>(), ["0.0.steps", "1.0.steps"]);
    assert_eq!(net.parameters(), 5);
    assert_eq!(Weight::new(1.0_f64).names(), [""]);
    let any: Box<dyn Module> = Box::new(net);
    assert_eq!(any.parameters(), 5);
}

#[test]
fn freeze_stops_training_of_weights_and_ignores_buffers() {
    let net = [Line::new(2.0), Line::new(3.0)];
    assert_eq!(net.freeze_matching("0").unwrap(), 2);
    let loss = net.iter().map(|line| &line.slope * &line.slope).sum::<dl_core::Layer<f64>>();
    loss.updating(&net[0].steps, 1.0).train(&Sgd::new(0.25)).wait().unwrap();
    assert_eq!((net[0].slope.value(), net[1].slope.value(), net[0].steps.value()), (2.0, 1.5, 1.0));

    net.unfreeze();
    assert!(net.entries().iter().all(|entry| !entry.is_frozen()));
    loss.updating(&net[0].steps, 2.0).train(&Sgd::new(0.25)).wait().unwrap();
    assert_eq!((net[0].slope.value(), net[0].steps.value()), (1.0, 2.0));

    // a pattern that matches only buffers matches no weight
    net.freeze();
    net.unfreeze_matching("**.steps").unwrap_err();
    let error = net.freeze_matching("2.slope").unwrap_err().to_string();
    assert!(error.contains("`2.slope`") && error.contains("`0`, `1`"), "{error}");
}

#[test]
fn freeze_matching_counts_tied_weight_once() {
    let w = Weight::new(1.0_f64);
    let net = (w.clone(), [w, Weight::new(2.0)]);
    assert_eq!(net.freeze_matching("**").unwrap(), 2);
    assert_eq!(net.unfreeze_matching("1").unwrap(), 2);
    assert_eq!(net.freeze_matching("1.0").unwrap(), 1);
    assert!(net.0.is_frozen());
}

#[test]
fn set_all_checks_all_values_before_setting_any() {
    let net = [Line::new(2.0), Line::new(3.0)];
    let read = || net.entries().iter().map(Entry::numbers).collect::<Vec<_>>();
    let before = read();
    let check = |path: &str, shape: &[usize], numbers: Numbers| net.entry(path).unwrap().check(shape, numbers);
    for (path, shape, numbers) in [
        ("0.slope", &[1][..], Numbers::F64(vec![1.0])),
        ("0.slope", &[], Numbers::F32(vec![1.0])),
        ("0.slope", &[], Numbers::F64(vec![])),
        ("0.offset", &[], Numbers::F64(vec![1.0])),
        ("0.steps", &[], Numbers::F64(vec![1.0, 2.0])),
    ] {
        let error = check(path, shape, numbers).unwrap_err().to_string();
        assert!(error.contains(&format!("`{path}`")), "{error}");
    }
    let twice = || check("0.slope", &[], Numbers::F64(vec![1.0])).unwrap();
    assert!(NewValue::set_all(vec![twice(), twice()]).unwrap_err().to_string().contains("two values"));
    assert_eq!(read(), before);

    let old = Snapshot::take();
    let all = vec![
        check("0.slope", &[], Numbers::F64(vec![10.0])).unwrap(),
        check("1.offset", &[], Numbers::F32(vec![20.0])).unwrap(),
        check("1.steps", &[], Numbers::F64(vec![30.0])).unwrap(),
    ];
    assert_eq!(read(), before, "checking sets nothing");
    NewValue::set_all(all).unwrap();
    assert_eq!((net[0].slope.value(), net[1].offset.value(), net[1].steps.value()), (10.0, 20.0, 30.0));
    assert_eq!((net[1].slope.value(), net[0].offset.value()), (3.0, 0.5));
    assert_eq!(net[0].slope.predict().on(&old).wait().unwrap(), 2.0, "a snapshot keeps its values");
}

/// The entries, with their shapes.
fn with_shapes(entries: Vec<Entry>) -> Vec<(Entry, Vec<usize>)> {
    entries.into_iter().map(|entry| (entry.clone(), entry.shape())).collect()
}

#[test]
fn set_each_drops_each_old_value_before_next_one_is_made() {
    let net = [Line::new(2.0), Line::new(3.0)];
    let (entries, old) = (net.entries(), Snapshot::take());
    let mut set: Vec<Numbers> = Vec::new();
    let tenfold = |entry: &Entry| match entry.numbers() {
        Numbers::F64(row) => Numbers::F64(row.iter().map(|x| 10.0 * x).collect()),
        Numbers::F32(row) => Numbers::F32(row.iter().map(|x| 10.0 * x).collect()),
        other => other,
    };
    Entry::set_each(&with_shapes(entries.clone()), |entry| {
        let earlier = entries.iter().take(set.len()).map(Entry::numbers).collect::<Vec<_>>();
        assert_eq!(earlier, set, "the entries before have their new values");
        set.push(tenfold(entry));
        Ok(tenfold(entry))
    })
    .unwrap();
    assert_eq!((net[0].slope.value(), net[1].slope.value(), net[1].offset.value()), (20.0, 30.0, 5.0));
    assert_eq!(net[0].slope.predict().on(&old).wait().unwrap(), 2.0, "a snapshot keeps its values");
}

#[test]
fn failed_set_each_keeps_what_is_set_and_holds_no_lock() {
    let net = [1.0, 2.0, 3.0].map(Weight::<f64>::new);
    let twice = [net[0].clone(), net[0].clone()];
    let error = Entry::set_each(&with_shapes(twice.entries()), |_| Ok(Numbers::F64(vec![9.0]))).unwrap_err();
    assert!(error.to_string().contains("two values"), "{error}");
    assert_eq!(net[0].value(), 1.0);

    let mut entries = with_shapes(net.entries());
    entries[2].1 = vec![1];
    let error = Entry::set_each(&entries, |_| Ok(Numbers::F64(vec![9.0]))).unwrap_err();
    assert!(error.to_string().contains("`2` has shape []"), "{error}");
    assert_eq!(net[0].value(), 1.0, "shapes are compared before anything is set");

    let failing = |what: &dyn Fn() -> Result<Numbers>| {
        let entries = with_shapes(net.entries());
        Entry::set_each(&entries, |entry| if entry.path() == "1" { what() } else { Ok(Numbers::F64(vec![7.0])) })
            .unwrap_err()
    };
    for (error, text) in [
        (failing(&|| Err(dl_core::Error::invalid("no such tensor"))), "no such tensor"),
        (failing(&|| panic!("a destructor")), "a destructor"),
        (failing(&|| Ok(Numbers::F32(vec![1.0]))), "`1`"),
        (failing(&|| Ok(Numbers::F64(vec![]))), "`1`"),
    ] {
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(net.each_ref().map(Weight::value), [7.0, 2.0, 3.0]);
    }
    net.iter().for_each(|w| w.set(4.0)); // nothing is locked, and no step is being taken
    assert_eq!(net[1].predict().on(&Snapshot::take()).wait().unwrap(), 4.0);
}

/// A concurrent reader sees all old values or all new ones.
#[test]
fn set_each_is_atomic_for_concurrent_snapshots() {
    let net: Vec<Weight<f64>> = (0..50).map(|_| Weight::new(0.0)).collect();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for number in 1..200 {
                let entries = with_shapes(net.entries());
                Entry::set_each(&entries, |_| Ok(Numbers::F64(vec![f64::from(number)]))).unwrap();
            }
        });
        for _ in 0..200 {
            let snapshot = Snapshot::take();
            let differences: dl_core::Layer<f64> = net.windows(2).map(|pair| (&pair[0] - &pair[1]).abs()).sum();
            assert_eq!(differences.predict().on(&snapshot).wait().unwrap(), 0.0);
        }
    });
}

/// A concurrent reader sees all old values or all new ones.
#[test]
fn set_all_is_atomic_for_concurrent_snapshots() {
    let net: Vec<Weight<f64>> = (0..50).map(|_| Weight::new(0.0)).collect();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for number in 1..200 {
                let new = net
                    .weights()
                    .iter()
                    .map(|w| w.check(&[], Numbers::F64(vec![f64::from(number)])).unwrap())
                    .collect();
                NewValue::set_all(new).unwrap();
            }
        });
        for _ in 0..200 {
            let snapshot = Snapshot::take();
            let differences: dl_core::Layer<f64> = net.windows(2).map(|pair| (&pair[0] - &pair[1]).abs()).sum();
            assert_eq!(differences.predict().on(&snapshot).wait().unwrap(), 0.0);
        }
    });
}

#[test]
fn entry_keeps_weight_alive() {
    let entry = {
        let net = [Weight::new(7.0_f64)];
        net.entry("0").unwrap()
    };
    assert_eq!(entry.numbers(), Numbers::F64(vec![7.0]));
    assert_eq!((entry.dtype(), entry.shape(), entry.len()), (DType::F64, vec![], 1));
}

#[test]
fn le_bytes_round_trip_exactly() {
    for numbers in [
        Numbers::Bool(vec![true, false]),
        Numbers::U8(vec![0, 255]),
        Numbers::I32(vec![i32::MIN, 7]),
        Numbers::I64(vec![i64::MIN, 7]),
        Numbers::U64(vec![u64::MAX, 7]),
        Numbers::F32(vec![f32::NEG_INFINITY, -0.0, f32::MIN_POSITIVE / 4.0]),
        Numbers::F64(vec![std::f64::consts::PI, -0.0]),
    ] {
        let bytes = numbers.to_le_bytes();
        assert_eq!(bytes.len(), numbers.len() * numbers.dtype().size());
        assert_eq!(Numbers::from_le_bytes(numbers.dtype(), &bytes).unwrap(), numbers);
        if numbers.dtype().size() > 1 {
            assert!(Numbers::from_le_bytes(numbers.dtype(), &bytes[1..]).unwrap_err().is_invalid());
        }
    }
    let nan = f64::from_bits(0x7ff8_0000_dead_beef);
    let Numbers::F64(again) = Numbers::from_le_bytes(DType::F64, &nan.numbers().to_le_bytes()).unwrap() else {
        panic!()
    };
    assert_eq!(again[0].to_bits(), nan.to_bits(), "the payload of a NaN is kept");
    assert!(Numbers::from_le_bytes(DType::Bool, &[2]).unwrap_err().to_string().contains('2'));
    assert!(Numbers::from_le_bytes(DType::F32, &[]).unwrap().is_empty());
}
