//! The loader: the same batches for any number of threads, from any position; errors at their
//! place; nothing ahead of its bound, nothing after it is dropped.

use dl_core::{Error, Result};
use dl_data::rand::Rng;
use dl_data::{Collate, Dataset, Draw, InMemory, Loader, Position, concat};
use dl_nd::Nd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// Numbers that are augmented, and their indices.
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
fn the_same_bits_for_any_number_of_threads() {
    let loader = Loader::new(noisy(103), 8).shuffle(true).seed(5);
    let expected = all(&loader, 3);
    assert_eq!(expected.len(), 39);
    assert_ne!(expected[0], expected[13], "another order, and other noise, in another epoch");
    for (ahead, threads) in [(1, 1), (4, 1), (4, 4), (2, 8), (1000, 3)] {
        let ahead_of_it = loader.clone().prefetch(ahead).threads(threads);
        assert_eq!(all(&ahead_of_it, 3), expected, "{ahead} ahead on {threads} threads");
    }
}

#[test]
fn all_samples_in_one_batch() {
    let data = InMemory(vec![3_usize, 4, 5]);
    assert_eq!(data.all().unwrap(), Loader::new(data.clone(), 3).epoch(0).unwrap().next().unwrap().unwrap());
    let error = InMemory(Vec::<usize>::new()).all().unwrap_err().to_string();
    assert!(error.contains("no samples"), "{error}");
    let bad = data.map(|x| if x == 4 { Err(Error::invalid("a bad one")) } else { Ok(x) });
    let error = bad.all().unwrap_err().to_string();
    assert!(error.contains("sample 1") && error.contains("a bad one"), "{error}");
}

/// The numbers of an epoch by their indices.
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
fn an_augmentation_depends_on_seed_epoch_and_sample_alone() {
    let data = noisy(50);
    let in_order = by_index(Loader::new(data.clone(), 7).seed(3));
    assert_eq!(by_index(Loader::new(data.clone(), 4).seed(3).shuffle(true)), in_order);
    assert_ne!(by_index(Loader::new(data.clone(), 7).seed(4)), in_order);
    let part = data.subset((0..50).rev().collect()).unwrap();
    assert_eq!(by_index(Loader::new(part, 7).seed(3)), in_order);
}

#[test]
fn augmentations_draw_apart_and_pairs_alike() {
    let add = |x: f64, rng: &mut dl_data::Rng| Ok(x + rng.random::<f64>());
    let (draw, zeros) = (Draw { seed: 9, epoch: 2 }, || InMemory(vec![0.0_f64; 3]));
    let twice = zeros().augment(move |_, rng| add(0.0, rng)).augment(|x, rng| Ok((x, add(0.0, rng)?)));
    let (inner, outer) = twice.drawn(1, draw).unwrap();
    assert_ne!(inner, outer);
    let pair = zeros().augment(add).zip(zeros().augment(add)).unwrap().drawn(1, draw).unwrap();
    assert_eq!(pair.0, pair.1);
    let through = concat([zeros().augment(add), zeros().augment(add)]).map(Ok);
    assert_eq!(through.drawn(4, draw).unwrap(), pair.0, "the draw gets through other data sets");
    let boxed: Box<dyn Dataset<Item = f64>> = Box::new(Arc::new(zeros().augment(add)));
    assert_eq!(boxed.drawn(1, draw).unwrap(), pair.0);
}

/// The numbers that a seed means, on every platform: the first of ChaCha with 8 rounds whose key is
/// seed, epoch, index and 3, as another implementation of it computes them.
#[test]
fn an_augmentation_is_fixed_by_its_seed() {
    let data = InMemory(vec![(); 10]).augment(|(), rng| Ok(rng.random::<u64>()));
    let drawn = data.drawn(7, Draw { seed: 1, epoch: 2 }).unwrap();
    assert_eq!(drawn, 0x12E6_8922_D58D_F08E);
}

#[test]
fn a_resumed_run_sees_the_batches_that_it_would_have_seen() {
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

/// Counts what is read, and can be looked at while a loader has it; may be slow, or fail at one
/// sample and panic at another.
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
fn errors_arrive_at_their_place() {
    let mut texts = Vec::new();
    for (ahead, threads) in [(0, 1), (3, 1), (50, 4)] {
        let loader = Loader::new(Watched(Arc::new(State { fails: true, ..State::default() })), 10)
            .prefetch(ahead)
            .threads(threads);
        let batches: Vec<_> = loader.epoch(4).unwrap().collect();
        assert_eq!(batches.len(), 10, "one may go on after an error");
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
fn no_more_is_loaded_ahead_than_is_asked_for() {
    let data = Watched::default();
    let mut batches = Loader::new(data.clone(), 5).prefetch(3).threads(2).epoch(0).unwrap();
    let read = || data.0.read.load(SeqCst);
    wait_until("three batches are loaded", || read() == 15);
    for taken in 1..4 {
        batches.next().unwrap().unwrap();
        wait_until("another is loaded", || read() == 15 + 5 * taken);
        thread::sleep(Duration::from_millis(20));
        assert_eq!(read(), 15 + 5 * taken, "and no more");
    }
    let data = Watched::default();
    let batches = Loader::new(data.clone(), 5).epoch(0).unwrap();
    assert_eq!((data.0.read.load(SeqCst), batches.len()), (0, 20), "without prefetch nothing is");
}

#[test]
fn dropping_the_batches_stops_the_work() {
    let data = Watched(Arc::new(State { slow: true, ..State::default() }));
    let loader = Loader::new(data.clone(), 10).prefetch(8).threads(3);
    let batches = loader.epoch(0).unwrap();
    let late = batches.next_batch();
    drop(loader);
    wait_until("all threads read", || data.0.read.load(SeqCst) == 3);
    drop(batches);
    data.0.stop.store(true, SeqCst);
    assert!(late.wait().unwrap_err().to_string().contains("were dropped"));
    drop(late);
    wait_until("the threads are gone", || Arc::strong_count(&data.0) == 1);
    assert_eq!(data.0.read.load(SeqCst), 3, "each thread ends the sample at which it is");
}

#[test]
fn batches_can_be_awaited() {
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
fn a_run_that_is_dropped_takes_no_batch() {
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
fn settings_without_sense() {
    let data = || InMemory(vec![1.0_f32; 10]);
    let error = |loader: Loader<_>| loader.epoch(0).unwrap_err().to_string();
    assert!(error(Loader::new(data(), 0)).contains("batches of 0 samples"));
    assert!(error(Loader::new(data(), 2).threads(0)).contains("0 threads"));
    assert!(error(Loader::new(data(), 2).threads(1 << 40)).contains("threads"));
    assert!(error(Loader::new(data(), 2).by_class(vec![0; 9])).contains("9 labels for 10 samples"));
    let past = Loader::new(data(), 2).resume(Position { epoch: 0, batch: 6 });
    assert!(past.unwrap_err().to_string().contains("batch 6 of an epoch of 5"));
    assert_eq!(Loader::new(InMemory(Vec::<f32>::new()), 2).prefetch(2).epoch(0).unwrap().count(), 0);
    assert_eq!(Loader::new(data(), usize::MAX).epoch(u64::MAX).unwrap().count(), 1);
}

#[test]
fn shapes_that_do_not_fit() {
    let uneven = InMemory(vec![Nd::from([1.0_f32]), Nd::from([1.0, 2.0])]);
    let error = Loader::new(uneven, 2).epoch(0).unwrap().next().unwrap().unwrap_err();
    assert!(error.is_shape());
    assert!(
        error.to_string().starts_with("epoch 0, batch 0: the sample at place 1 of the batch has the shape [2]"),
        "{error}"
    );
    assert!(<f32 as Collate>::collate(vec![]).unwrap_err().is_invalid());
    assert!(<Nd<f32> as Collate>::collate(vec![]).is_err());
    let error = InMemory(vec![1]).zip(InMemory(vec![1, 2])).unwrap_err();
    assert!(error.to_string().contains("1 samples cannot be paired with 2"));
    assert!(InMemory(Nd::from([1.0_f32])).get(1).unwrap_err().to_string().contains("no sample 1 among 1"));
}

#[test]
fn what_a_batch_is_made_of() {
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
fn splits() {
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
    assert!(error([0.9, 0.01]).contains("part 1 of the split is empty"));
    assert!(error([0.9, 0.2]).contains("sum to"));
    assert!(error([0.9, 0.0]).contains("a fraction of 0"));
    assert!(error([0.9, f64::NAN]).contains("a fraction of NaN"));
    assert!(dl_data::split(0, [1.0], 0).is_err());
    assert!(InMemory(vec![1, 2]).split_by_class(&[0], [1.0], 0).unwrap_err().to_string().contains("1 labels for 2"));
}

#[test]
fn a_split_of_small_classes_says_what_is_missing() {
    let labels: Vec<usize> = (0..5000).map(|i| i / 5).collect();
    let error = dl_data::split_by_class(&labels, [0.7, 0.15, 0.15], 1).unwrap_err();
    assert!(error.to_string().contains("no class has samples enough"), "{error}");
}

/// Of equal numbers nothing is left, whatever their sum is rounded to.
#[test]
fn a_constant_feature_is_moved_to_zero() {
    for rows in [3, 6, 10, 100, 1000] {
        let constant = Nd::<f64, _>::full([rows, 1], 0.1);
        let normalizer = dl_data::Normalizer::fit(&constant, 1).unwrap();
        assert_eq!((normalizer.mean(), normalizer.deviation()), (&[0.1][..], &[0.0][..]));
        assert_eq!(normalizer.apply(&Nd::from([[0.1], [0.3]]), 1).unwrap(), Nd::from([[0.0], [0.3 - 0.1]]));
    }
}
