//! The loader: batches are identical for any number of threads and from any position, errors keep
//! their place in the order, prefetching is bounded and stops when the iterator is dropped.

use dl_core::{Error, Result};
use dl_data::rand::Rng;
use dl_data::{Collate, Dataset, Draw, InMemory, Loader, Position, concat};
use dl_nd::Nd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// Augmented numbers, paired with their indices.
fn noisy(len: usize) -> impl Dataset<Item = (f64, usize)> + Clone {
    let numbers = InMemory(vec![1.0_f64; len]).augment(|x, rng| Ok(x + rng.random::<f64>()));
    numbers.zip(InMemory((0..len).collect::<Vec<usize>>())).unwrap()
}

fn all<D: Dataset + 'static>(loader: &Loader<D>, epochs: u64) -> Vec<<D::Item as Collate>::Batch>
where
    D::Item: Collate,
{
    (0..epochs).flat_map(|epoch| loader.epoch(epoch).unwrap().map(Result::unwrap)).collect()
}

#[test]
fn batches_are_bit_identical_for_any_number_of_threads() {
    let loader = Loader::new(noisy(103), 8).shuffle(true).seed(5);
    let expected = all(&loader, 3);
    assert_eq!(expected.len(), 39);
    assert_ne!(expected[0], expected[13], "the next epoch must have another order and other noise");
    for (ahead, threads) in [(1, 1), (4, 1), (4, 4), (2, 8), (1000, 3)] {
        let prefetched = loader.clone().prefetch(ahead).threads(threads);
        assert_eq!(all(&prefetched, 3), expected, "{ahead} batches ahead on {threads} threads");
    }
}

#[test]
fn all_collates_every_sample_into_one_batch() {
    let data = InMemory(vec![3_usize, 4, 5]);
    assert_eq!(data.all().unwrap(), Loader::new(data.clone(), 3).epoch(0).unwrap().next().unwrap().unwrap());
    let error = InMemory(Vec::<usize>::new()).all().unwrap_err().to_string();
    assert!(error.contains("no samples"), "{error}");
    let bad = data.map(|x| if x == 4 { Err(Error::invalid("invalid sample")) } else { Ok(x) });
    let error = bad.all().unwrap_err().to_string();
    assert!(error.contains("sample 1") && error.contains("invalid sample"), "{error}");
}

/// The numbers of one epoch, sorted by index.
fn by_index<D: Dataset<Item = (f64, usize)> + 'static>(loader: Loader<D>) -> Vec<f64> {
    let mut samples = vec![0.0; 50];
    for (x, index) in all(&loader, 1) {
        for (x, index) in x.into_vec().into_iter().zip(index.into_vec()) {
            samples[index] = x;
        }
    }
    samples
}

#[test]
fn augmentation_depends_only_on_seed_epoch_and_index() {
    let data = noisy(50);
    let in_order = by_index(Loader::new(data.clone(), 7).seed(3));
    assert_eq!(by_index(Loader::new(data.clone(), 4).seed(3).shuffle(true)), in_order);
    assert_ne!(by_index(Loader::new(data.clone(), 7).seed(4)), in_order);
    let part = data.subset((0..50).rev().collect()).unwrap();
    assert_eq!(by_index(Loader::new(part, 7).seed(3)), in_order);
}

#[test]
fn nested_augmentations_draw_different_numbers_and_zipped_the_same() {
    let add = |x: f64, rng: &mut dl_data::Rng| Ok(x + rng.random::<f64>());
    let (draw, zeros) = (Draw { seed: 9, epoch: 2 }, || InMemory(vec![0.0_f64; 3]));
    let twice = zeros().augment(move |_, rng| add(0.0, rng)).augment(|x, rng| Ok((x, add(0.0, rng)?)));
    let (inner, outer) = twice.drawn(1, draw).unwrap();
    assert_ne!(inner, outer);
    let pair = zeros().augment(add).zip(zeros().augment(add)).unwrap().drawn(1, draw).unwrap();
    assert_eq!(pair.0, pair.1);
    let through = concat([zeros().augment(add), zeros().augment(add)]).map(Ok);
    assert_eq!(through.drawn(4, draw).unwrap(), pair.0, "`concat` and `map` must pass the draw on");
    let boxed: Box<dyn Dataset<Item = f64>> = Box::new(Arc::new(zeros().augment(add)));
    assert_eq!(boxed.drawn(1, draw).unwrap(), pair.0);
}

/// The first numbers of ChaCha with 8 rounds and the key (seed, epoch, index, 3), as computed by an
/// independent implementation. They must be the same on every platform.
#[test]
fn augmentation_with_fixed_seed_has_pinned_value() {
    let data = InMemory(vec![(); 10]).augment(|(), rng| Ok(rng.random::<u64>()));
    let drawn = data.drawn(7, Draw { seed: 1, epoch: 2 }).unwrap();
    assert_eq!(drawn, 0x12E6_8922_D58D_F08E);
}

#[test]
fn resumed_loader_yields_remaining_batches() {
    let loader = Loader::new(noisy(40), 6).shuffle(true).seed(1).prefetch(3).threads(2);
    let whole = all(&loader, 3);
    for stopped_after in 0..=21 {
        let mut seen = Vec::new();
        let mut position = Position::default();
        for epoch in 0..3 {
            let mut batches = loader.epoch(epoch).unwrap();
            while seen.len() < stopped_after
                && let Some(batch) = batches.next()
            {
                seen.push(batch.unwrap());
            }
            position = batches.position();
            if seen.len() == stopped_after {
                break;
            }
        }
        let fresh = Loader::new(noisy(40), 6).shuffle(true).seed(1);
        for epoch in position.epoch..3 {
            let at = if epoch == position.epoch { position } else { Position { epoch, batch: 0 } };
            seen.extend(fresh.resume(at).unwrap().map(Result::unwrap));
        }
        assert_eq!(seen, whole, "stopped after {stopped_after} batches");
    }
}

/// A data set that counts reads. It can block until `stop` is set, or fail at one sample and panic
/// at another.
#[derive(Clone, Default)]
struct Watched(Arc<State>);

#[derive(Default)]
struct State {
    read: AtomicUsize,
    fails: bool,
    slow: bool,
    stop: AtomicBool,
}

impl Dataset for Watched {
    type Item = usize;

    fn len(&self) -> usize {
        100
    }

    fn get(&self, index: usize) -> Result<usize> {
        self.0.read.fetch_add(1, SeqCst);
        while self.0.slow && !self.0.stop.load(SeqCst) {
            thread::yield_now();
        }
        match index {
            23 if self.0.fails => Err(Error::not_finite("sample 23 is NaN")),
            57 if self.0.fails => panic!("sample 57 panics"),
            _ => Ok(index),
        }
    }
}

#[test]
fn errors_and_panics_keep_their_place_in_the_order() {
    let mut texts = Vec::new();
    for (ahead, threads) in [(0, 1), (3, 1), (50, 4)] {
        let loader = Loader::new(Watched(Arc::new(State { fails: true, ..State::default() })), 10)
            .prefetch(ahead)
            .threads(threads);
        let batches: Vec<_> = loader.epoch(4).unwrap().collect();
        assert_eq!(batches.len(), 10, "iteration must continue after an error");
        for (number, batch) in batches.iter().enumerate() {
            match number {
                2 => assert!(batch.as_ref().unwrap_err().is_not_finite()),
                5 => assert!(batch.as_ref().unwrap_err().is_panic()),
                _ => assert_eq!(batch.as_ref().unwrap()[0], number * 10),
            }
        }
        texts.push([2, 5].map(|number| batches[number].as_ref().unwrap_err().to_string()));
    }
    assert_eq!(
        texts[0],
        ["epoch 4, batch 2: sample 23: sample 23 is NaN", "epoch 4, batch 5: panicked: sample 57 panics"]
    );
    assert!(texts.iter().all(|text| *text == texts[0]));
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        thread::yield_now();
    }
}

#[test]
fn prefetch_never_exceeds_its_limit() {
    let data = Watched::default();
    let mut batches = Loader::new(data.clone(), 5).prefetch(3).threads(2).epoch(0).unwrap();
    let read = || data.0.read.load(SeqCst);
    wait_until("three batches must be prefetched", || read() == 15);
    for taken in 1..4 {
        batches.next().unwrap().unwrap();
        wait_until("another batch must be prefetched", || read() == 15 + 5 * taken);
        thread::sleep(Duration::from_millis(20));
        assert_eq!(read(), 15 + 5 * taken, "prefetch limit exceeded");
    }
    let data = Watched::default();
    let batches = Loader::new(data.clone(), 5).epoch(0).unwrap();
    assert_eq!((data.0.read.load(SeqCst), batches.len()), (0, 20), "without prefetch nothing must be read");
}

#[test]
fn dropping_batches_stops_loader_threads() {
    let data = Watched(Arc::new(State { slow: true, ..State::default() }));
    let loader = Loader::new(data.clone(), 10).prefetch(8).threads(3);
    let batches = loader.epoch(0).unwrap();
    let late = batches.next_batch();
    drop(loader);
    wait_until("all threads must be reading", || data.0.read.load(SeqCst) == 3);
    drop(batches);
    data.0.stop.store(true, SeqCst);
    assert!(late.wait().unwrap_err().to_string().contains("were dropped"));
    drop(late);
    wait_until("the threads must end", || Arc::strong_count(&data.0) == 1);
    assert_eq!(data.0.read.load(SeqCst), 3, "each thread must stop after its current sample");
}

#[test]
fn awaited_batches_equal_iterated_batches() {
    let expected = all(&Loader::new(noisy(20), 3), 1);
    let loader = Loader::new(noisy(20), 3).prefetch(2);
    let seen = futures::executor::block_on(async {
        let batches = loader.epoch(0).unwrap();
        let mut seen = Vec::new();
        while let Some(batch) = batches.next_batch().await.unwrap() {
            seen.push(batch);
        }
        seen
    });
    assert_eq!(seen, expected);
}

#[test]
fn dropped_run_of_next_batch_takes_no_batch() {
    let data = Watched(Arc::new(State { slow: true, ..State::default() }));
    let batches = Loader::new(data.clone(), 10).prefetch(1).epoch(0).unwrap();
    let mut run = batches.next_batch().run();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(std::future::Future::poll(std::pin::Pin::new(&mut run), &mut context).is_pending());
    drop(run);
    data.0.stop.store(true, SeqCst);
    assert_eq!(batches.next_batch().wait().unwrap().unwrap()[0], 0);
    assert_eq!(batches.position().batch, 1);
}

#[test]
fn invalid_loader_settings_are_refused() {
    let data = || InMemory(vec![1.0_f32; 10]);
    let error = |loader: Loader<_>| loader.epoch(0).unwrap_err().to_string();
    assert!(error(Loader::new(data(), 0)).contains("the batch size is 0"));
    assert!(error(Loader::new(data(), 2).threads(0)).contains("0 loader threads"));
    assert!(error(Loader::new(data(), 2).threads(1 << 40)).contains("threads"));
    assert!(error(Loader::new(data(), 2).by_class(vec![0; 9])).contains("9 labels for 10 samples"));
    let past = Loader::new(data(), 2).resume(Position { epoch: 0, batch: 6 });
    assert!(past.unwrap_err().to_string().contains("batch 6 in an epoch of 5"));
    assert_eq!(Loader::new(InMemory(Vec::<f32>::new()), 2).prefetch(2).epoch(0).unwrap().count(), 0);
    assert_eq!(Loader::new(data(), usize::MAX).epoch(u64::MAX).unwrap().count(), 1);
}

#[test]
fn collate_with_unequal_shapes_is_error() {
    let uneven = InMemory(vec![Nd::from([1.0_f32]), Nd::from([1.0, 2.0])]);
    let error = Loader::new(uneven, 2).epoch(0).unwrap().next().unwrap().unwrap_err();
    assert!(error.is_shape());
    assert!(
        error.to_string().starts_with("epoch 0, batch 0: the sample at position 1 of the batch has shape [2]"),
        "{error}"
    );
    assert!(<f32 as Collate>::collate(vec![]).unwrap_err().is_invalid());
    assert!(<Nd<f32> as Collate>::collate(vec![]).is_err());
    let error = InMemory(vec![1]).zip(InMemory(vec![1, 2])).unwrap_err();
    assert!(error.to_string().contains("1 samples cannot be paired with 2"));
    assert!(InMemory(Nd::from([1.0_f32])).get(1).unwrap_err().to_string().contains("sample 1 is out of range"));
}

#[test]
fn batch_types_follow_sample_types() {
    let mixed = vec![
        (Nd::from([[1.0_f32, 2.0]]), 1_usize, true, "a".to_owned()),
        (Nd::from([[3.0, 4.0]]), 0, false, "b".to_owned()),
    ];
    let (tensors, labels, flags, texts) = Loader::new(InMemory(mixed), 2).epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(tensors, Nd::from([[[1.0, 2.0]], [[3.0, 4.0]]]));
    assert_eq!((labels, flags), (Nd::from([1_usize, 0]), Nd::from([true, false])));
    assert_eq!(texts, ["a", "b"]);
    let rows = InMemory(Nd::from([4_usize, 5])).zip(InMemory(vec![[1_u8, 2], [3, 4]])).unwrap();
    let batch = Loader::new(rows, 2).epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(batch, (Nd::from([4_usize, 5]), Nd::from([[1_u8, 2], [3, 4]])));
}

#[test]
fn split_by_class_keeps_class_proportions() {
    let labels: Vec<usize> = (0..1000).map(|i| if i % 10 == 0 { 2 } else { i % 2 }).collect();
    let [train, valid, test] = dl_data::split_by_class(&labels, [0.7, 0.1, 0.2], 3).unwrap();
    let mut all = [train.clone(), valid.clone(), test.clone()].concat();
    all.sort_unstable();
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
    for class in 0..3 {
        let of = |part: &[usize]| part.iter().filter(|&&index| labels[index] == class).count() as f64;
        let total = of(&all);
        for (part, fraction) in [(&train, 0.7), (&valid, 0.1), (&test, 0.2)] {
            assert!((of(part) - fraction * total).abs() <= 1.0, "class {class}");
        }
    }
    assert_eq!(dl_data::split_by_class(&labels, [0.7, 0.1, 0.2], 3).unwrap()[0], train);
    assert_ne!(dl_data::split_by_class(&labels, [0.7, 0.1, 0.2], 4).unwrap()[0], train);
    assert_eq!(dl_data::split(10, [0.3], 0).unwrap()[0].len(), 3);
    let error = |fractions| dl_data::split(10, fractions, 0).unwrap_err().to_string();
    assert!(error([0.9, 0.01]).contains("part 1 of the split, a fraction of 0.01 of 10 samples, is empty"));
    assert!(error([0.9, 0.2]).contains("sum to"));
    assert!(error([0.9, 0.0]).contains("a fraction of 0"));
    assert!(error([0.9, f64::NAN]).contains("a fraction of NaN"));
    assert!(dl_data::split(0, [1.0], 0).is_err());
    assert!(InMemory(vec![1, 2]).split_by_class(&[0], [1.0], 0).unwrap_err().to_string().contains("1 labels for 2"));
}

#[test]
fn split_of_small_classes_with_empty_part_is_error() {
    let labels: Vec<usize> = (0..5000).map(|i| i / 5).collect();
    let error = dl_data::split_by_class(&labels, [0.7, 0.15, 0.15], 1).unwrap_err();
    assert!(error.to_string().contains("no class has enough samples"), "{error}");
}

/// The result must be exactly 0 although the sum of the feature is rounded.
#[test]
fn normalizer_fits_numbers_at_both_ends_of_range() {
    for unit in [f64::MAX, 1e200, 1.0, 1e-200, 1e-307] {
        let data = Nd::from([[unit], [-unit], [-unit]]);
        let normalizer = dl_data::Normalizer::fit(&data, 1).unwrap();
        let near =
            |found: f64, right: f64| assert!((found / right - 1.0).abs() < 1e-12, "{unit}: {found}, not {right}");
        near(normalizer.mean()[0], unit / -3.0);
        near(normalizer.deviation()[0], unit * (8.0_f64 / 9.0).sqrt());
        let scaled = normalizer.apply(&data, 1).unwrap();
        near(scaled[[0, 0]], 2.0_f64.sqrt());
        near(scaled[[1, 0]], -0.5_f64.sqrt());
    }
}

#[test]
fn normalizer_shifts_constant_feature_to_exact_zero() {
    for rows in [3, 6, 10, 100, 1000] {
        let constant = Nd::<f64, _>::full([rows, 1], 0.1);
        let normalizer = dl_data::Normalizer::fit(&constant, 1).unwrap();
        assert_eq!((normalizer.mean(), normalizer.deviation()), (&[0.1][..], &[0.0][..]));
        assert_eq!(normalizer.apply(&Nd::from([[0.1], [0.3]]), 1).unwrap(), Nd::from([[0.0], [0.3 - 0.1]]));
    }
}
