//! Batches, their errors, the bounds of the queue, and the end of a batcher.

use dl_core::{Do, Error};
use dl_train::{Batcher, Batching, QueueFull};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

/// A batcher whose batches each wait for a permit; it returns doubled inputs and reports its
/// batches.
fn gated(batching: Batching) -> (Batcher<i32, i32>, Sender<()>, Receiver<Vec<i32>>) {
    let ((permit, permits), (batches, seen)) = (channel(), channel());
    let permits = Mutex::new(permits);
    let compute = move |inputs: &[i32]| {
        batches.send(inputs.to_vec()).unwrap();
        let _ = permits.lock().unwrap().recv();
        Do::now(inputs.iter().map(|x| 2 * x).collect())
    };
    (Batcher::new(batching, compute).unwrap(), permit, seen)
}

#[test]
fn inputs_that_wait_together_are_one_batch_in_order() {
    let (batcher, permit, seen) = gated(Batching { size: 4, wait: Duration::ZERO, queue: 16 });
    let first = batcher.submit(0).unwrap();
    assert_eq!(seen.recv().unwrap(), [0]);
    let outputs = batcher.submit_all(1..=7).unwrap();
    assert_eq!(batcher.waiting(), 7);
    (0..3).for_each(|_| permit.send(()).unwrap());
    assert_eq!(first.wait().unwrap(), 0);
    assert_eq!(Do::join(outputs).wait().unwrap(), [2, 4, 6, 8, 10, 12, 14]);
    assert_eq!([seen.recv().unwrap(), seen.recv().unwrap()], [vec![1, 2, 3, 4], vec![5, 6, 7]]);
    assert_eq!(batcher.waiting(), 0);
}

#[test]
fn batch_begins_when_full_or_after_the_wait() {
    let (batcher, permit, seen) = gated(Batching { size: 2, wait: LONG, queue: 16 });
    let outputs = batcher.submit_all([1, 2]).unwrap();
    permit.send(()).unwrap();
    assert_eq!(Do::join(outputs).wait().unwrap(), [2, 4]); // not after a minute
    assert_eq!(seen.recv().unwrap(), [1, 2]);

    let wait = Duration::from_millis(50);
    let (batcher, permit, _seen) = gated(Batching { size: 2, wait, queue: 16 });
    permit.send(()).unwrap();
    let begun = Instant::now();
    assert_eq!(batcher.submit(1).unwrap().wait().unwrap(), 2);
    assert!(begun.elapsed() >= wait, "{:?}", begun.elapsed());
}

#[test]
fn full_queue_accepts_all_inputs_of_a_submission_or_none() {
    let (batcher, permit, seen) = gated(Batching { size: 1, wait: Duration::ZERO, queue: 3 });
    let first = batcher.submit(0).unwrap();
    seen.recv().unwrap(); // it no longer waits
    let two = batcher.submit_all([1, 2]).unwrap();
    assert_eq!(batcher.submit_all([3, 4]).unwrap_err(), QueueFull { queue: 3 });
    assert_eq!(batcher.waiting(), 2);
    let third = batcher.submit(3).unwrap();
    assert!(batcher.submit(4).unwrap_err().to_string().contains("holds 3 inputs"));
    (0..4).for_each(|_| permit.send(()).unwrap());
    assert_eq!(Do::join([first, third]).wait().unwrap(), [0, 6]);
    assert_eq!(Do::join(two).wait().unwrap(), [2, 4]);
}

#[test]
fn error_or_panic_is_the_output_of_its_input_alone() {
    let compute = |inputs: &[i32]| {
        assert!(!inputs.contains(&13), "no thirteen");
        match inputs.contains(&7) {
            true => Do::fail(Error::invalid("no seven")),
            false => Do::now(inputs.to_vec()),
        }
    };
    let batcher = Batcher::new(Batching { size: 6, wait: LONG, queue: 6 }, compute).unwrap();
    for _ in 0..2 {
        let outputs = batcher.submit_all([1, 7, 2, 13, 3, 4]).unwrap();
        let [one, seven, two, thirteen, three, four] = outputs.try_into().expect("six outputs");
        assert_eq!(Do::join([one, two, three, four]).wait().unwrap(), [1, 2, 3, 4]);
        assert!(seven.wait().unwrap_err().to_string().contains("no seven"));
        let error = thirteen.wait().unwrap_err();
        assert!(error.is_panic() && error.to_string().contains("no thirteen"), "{error}");
    }
}

#[test]
fn wrong_number_of_outputs_is_an_error_of_each_input() {
    let batching = Batching { size: 2, wait: LONG, queue: 2 };
    let batcher = Batcher::<i32, i32>::new(batching, |_| Do::now(Vec::new())).unwrap();
    for output in batcher.submit_all([1, 2]).unwrap() {
        assert!(output.wait().unwrap_err().to_string().contains("0 outputs for a batch of 1"));
    }
}

#[test]
fn input_with_dropped_output_is_not_computed() {
    let (batcher, permit, seen) = gated(Batching { size: 8, wait: Duration::ZERO, queue: 8 });
    let first = batcher.submit(0).unwrap();
    seen.recv().unwrap();
    let mut outputs = batcher.submit_all([1, 2, 3]).unwrap();
    drop(outputs.remove(1));
    (0..2).for_each(|_| permit.send(()).unwrap());
    assert_eq!(Do::join(outputs).wait().unwrap(), [2, 6]);
    assert_eq!((first.wait().unwrap(), seen.recv().unwrap()), (0, vec![1, 3]));
}

#[test]
fn dropped_batcher_computes_accepted_inputs_and_ends() {
    let alive = Arc::new(());
    let kept = alive.clone();
    let batching = Batching { size: 2, wait: LONG, queue: 8 };
    let batcher = Batcher::new(batching, move |inputs: &[i32]| {
        let _ = &kept;
        Do::now(inputs.to_vec())
    });
    let batcher = batcher.unwrap();
    let outputs = batcher.submit_all([1, 2, 3]).unwrap();
    drop(batcher);
    assert_eq!(Do::join(outputs).wait().unwrap(), [1, 2, 3]); // the last one did not wait a minute
    let begun = Instant::now();
    while Arc::strong_count(&alive) > 1 {
        assert!(begun.elapsed() < LONG, "the thread has not ended");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn settings_without_space_are_refused() {
    for (size, queue) in [(0, 1), (1, 0)] {
        let batching = Batching { size, queue, ..Batching::default() };
        let error = Batcher::<i32, i32>::new(batching, |_| Do::now(Vec::new())).unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains("no space"), "{error}");
    }
}
