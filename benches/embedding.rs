//! Time and memory of a training step of an embedding, by the height of its table.
//!
//! ```sh
//! cargo bench --bench embedding
//! cargo bench --bench embedding -- --quick   # short measurements, for a smoke test
//! ```
//!
//! A step reads 256 different random rows of a table of width 64, squares them, and trains on the
//! sum. The heights take turns in each round. A time is the median over the rounds, a ratio the
//! median of the ratios within a round. *First* is the first step of a new optimizer, which
//! allocates its state.

use dl::nd::{init, ndarray::Ix2};
use dl::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

const WIDTH: usize = 64;
const IDS: usize = 256;
const HEIGHTS: [usize; 3] = [1_000, 100_000, 1_000_000];
/// The number of id lists, used in turns.
const LISTS: usize = 64;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let rounds = if quick { 3 } else { 25 };
    println!("{IDS} rows of width {WIDTH}, f32\n");
    println!(
        "{:<10} {:>10} {:>10} {:>6} {:>10} {:>6} {:>12}",
        "", "height", "µs", "ratio", "first µs", "ratio", "bytes/step"
    );
    measure("Sgd", rounds, || Sgd::new(0.01));
    measure("Adagrad", rounds, || Adagrad::new(0.01));
    measure("Adam", rounds, || Adam::new(0.01));
}

fn measure<O: Optimizer + Clone + 'static>(name: &str, rounds: usize, make: impl Fn() -> O) {
    let steps: Vec<Steps<O>> = HEIGHTS.iter().map(|&height| Steps::new(height, make())).collect();
    // warm up: page in the optimizer state and the tables of the executor
    steps.iter().for_each(|steps| (0..2 * LISTS).for_each(|at| steps.take(at, &steps.optimizer)));

    let (mut usual, mut first) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        usual.push(steps.iter().map(|steps| seconds(LISTS, |at| steps.take(at, &steps.optimizer))).collect::<Vec<_>>());
        first.push(steps.iter().map(|steps| seconds(1, |at| steps.take(at, &make()))).collect());
    }
    for (at, steps) in steps.iter().enumerate() {
        let before = ALLOCATED.load(Relaxed);
        (0..LISTS).for_each(|at| steps.take(at, &steps.optimizer));
        let bytes = (ALLOCATED.load(Relaxed) - before) / LISTS;
        let ([usual, ratio], [first, ratio_of_first]) = (medians(&usual, at), medians(&first, at));
        println!(
            "{:<10} {:>10} {:>10.1} {ratio:>6.2} {:>10.1} {ratio_of_first:>6.2} {bytes:>12}",
            name,
            HEIGHTS[at],
            usual * 1e6,
            first * 1e6,
        );
    }
}

/// Training steps on one table.
struct Steps<O> {
    table: Weight<Table>,
    lists: Vec<Nd<usize, Ix1>>,
    optimizer: O,
}

impl<O: Optimizer + Clone + 'static> Steps<O> {
    fn new(height: usize, optimizer: O) -> Self {
        let mut rng = init::rng(1);
        let start: Nd<f32, Ix2> = init::uniform([height, WIDTH], -1.0, 1.0, &mut rng);
        let list = |_| rand::seq::index::sample(&mut rng, height, IDS).into_iter().collect();
        Steps { lists: (0..LISTS).map(list).collect(), table: Weight::new(start.into()), optimizer }
    }

    fn take(&self, at: usize, optimizer: &O) {
        let rows = self.table.embedding(&self.lists[at % LISTS]);
        (&rows * &rows).sum().train(optimizer).wait().expect("a step");
    }
}

/// The mean time of a call in seconds.
fn seconds(calls: usize, mut call: impl FnMut(usize)) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(&mut call);
    start.elapsed().as_secs_f64() / calls as f64
}

/// The median time at this height, and the median ratio to the time at the first height.
fn medians(rounds: &[Vec<f64>], at: usize) -> [f64; 2] {
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    [
        median(rounds.iter().map(|round| round[at]).collect()),
        median(rounds.iter().map(|round| round[at] / round[0]).collect()),
    ]
}

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

/// The system allocator with a count of the allocated bytes.
struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

// SAFETY: every call is forwarded unchanged to the system allocator; counting does not allocate.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.fetch_add(size, Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
