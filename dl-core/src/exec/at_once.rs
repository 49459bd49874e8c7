//! Running small kernels where they are met.
//!
//! To queue a kernel, to wait for its operands and to tell its consumers costs more than a small
//! kernel takes. So if a walk that enters layers (see `discover.rs`) meets a small kernel whose
//! operands are all there, it is interrupted: the kernel runs, outside the lock like any other, its
//! value is written down, and the walk goes on. Once there is work in the queue that others could
//! share, kernels are queued behind it. Where there is one thread only, kernels are queued behind
//! bodies of dynamic nodes alone. Nor is the last kernel of a pass that was asked for one layer
//! worth sharing: it is run where it is met, however dear it is, if all else is done.
//!
//! What is small is small for the caches, too: an operation of the library has tensors for
//! operands, which another core would have to fetch, so what counts as small is more there than for
//! code of the user's. A network of such operations stays on the thread that walks through it.
//!
//! A small operation of the library's own is computed without an interruption, under the lock: its
//! operands hold plain data, so nothing of the user's runs there, not even a destructor. (A panic
//! would call the user's hook: kernels of the library return errors.) If it fails, the kernel fails
//! once more, and says where. After some 20 µs of this, or 50 on one thread, the next one
//! interrupts the walk again.
//!
//! Others need not wait for the end of a long walk, unless it is one through scalar arithmetic
//! alone: it stops for a moment when there is enough in the queue to be shared, and when somebody
//! waits for the books.
//!
//! While a walk is interrupted nobody else walks in that pass, as two walks might enter the same
//! node. Nor does anybody wait for it: what is to be entered meanwhile is left to whoever is
//! walking.

use crate::error::Result;
use crate::exec::books::Books;
use crate::exec::context::{computing, in_task, may_work};
use crate::exec::discover::{Small, Walk, Walked};
use crate::exec::entry::{NONE, Scalar, State};
use crate::exec::work::WORTH_OFFERING_NANOSECONDS;
use crate::exec::{Pass, bodies};
use crate::graph::node_ref::AnyLayer;
use crate::graph::op::AnyPrimitive;
use crate::graph::seed::Position;
use crate::graph::value::Value;
use crate::parallel::sync::{MutexGuard, current_num_threads};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

/// The queue costs a few hundred nanoseconds for each kernel, and a thread that takes it from there
/// as much again. What does not say how long it takes, and is taken for this long, is not small.
const SMALL_NANOSECONDS: f64 = 1_000.0;
/// An operation of the library reads tensors, which the caches of another core do not have: to
/// fetch the 24 KB that a product `[16, 64] × [64, 64]` reads and writes takes longer than to
/// multiply. Such a product is the dearest operation that was found to lose by a second thread.
pub(super) const SMALL_OF_OURS_NANOSECONDS: f64 = 1_600.0;
/// What is written down about an operation takes about as long.
pub(super) const BOOKING_NANOSECONDS: f64 = 100.0;
/// The memory of a larger value is not given back under the lock.
pub(super) const LARGE_BYTES: usize = 1 << 20;

/// What is computed under the lock of the books, by a walk or by whoever is alone, takes about so
/// many nanoseconds in a row at most; and so does a single operation on the way back, whose walk
/// holds the lock to its end. Where there is one thread, nobody else of ours could wait for it,
/// only who comes from the outside: so there it may be longer.
pub(super) fn longest_nanoseconds(threads: usize) -> f64 {
    if threads == 1 { 50_000.0 } else { 20_000.0 }
}

/// So long may an operation of the library take that is computed under the lock. Where somebody
/// else could do it, to have it done costs as much as a small one.
pub(crate) fn longest_under_lock(alone: bool, threads: usize) -> f64 {
    if alone { longest_nanoseconds(threads) } else { SMALL_OF_OURS_NANOSECONDS }
}

/// The value of this operation of the library, if it does not take longer than that, and is not an
/// error; and how long it takes.
pub(crate) fn value_under_lock(op: &dyn AnyPrimitive, operands: &[&Value], longest: f64) -> Option<(Value, f64)> {
    let value = || match op.cost(operands) {
        nanoseconds if nanoseconds < longest => Some((op.value(operands).ok()?, nanoseconds)),
        _ => None,
    };
    catch_unwind(AssertUnwindSafe(value)).unwrap_or_default()
}

/// What becomes of the new entry of an operation.
pub(super) enum Met {
    /// It has been computed.
    Computed,
    /// It is to be run at once.
    Small,
    /// It waits for its operands, or in the queue.
    Other,
}

/// What was to be done while somebody else was walking.
pub(super) enum Later {
    /// Enter this layer.
    Enter(AnyLayer),
    /// This dynamic node turned out to be this layer.
    Follow(u32, AnyLayer),
    /// Have somebody look again.
    Wake(Waker),
}

impl Pass {
    /// The entry of a layer; it and everything that it needs are entered if they are not yet. There
    /// is none while somebody else is walking.
    pub(super) fn discover<'a>(
        self: &'a Arc<Self>,
        books: MutexGuard<'a, Books>,
        layer: &AnyLayer,
    ) -> (MutexGuard<'a, Books>, Option<u32>) {
        let known = books.find(layer);
        if known.is_some() || books.walking {
            return (books, known);
        }
        let runs = may_work() && !books.drivers.nobody();
        bodies::apart(self, || {
            let (mut books, index) = self.enter(books, layer, runs, in_task());
            books.root(index);
            (self.catch_up(books), Some(index))
        })
    }

    /// Goes on with the walk from the first layer of a pass that has no driver yet, unless it is
    /// through, and whoever calls waits for it. The pass gets no handle to the layer, and if that
    /// is scalar arithmetic, no claim on it: that is left to whoever calls.
    pub(super) fn discover_alone(self: &Arc<Self>, walk: Walk, walked: Walked) -> (MutexGuard<'_, Books>, u32) {
        let books = self.books();
        let (mut books, index) = match walked {
            Walked::Through(index) => (self.note_origin(books), index),
            _ => self.walk(books, walk, true, false),
        };
        if !books.later.is_empty() {
            books.claim_lone(index); // a body below may have asked for it
        }
        (self.catch_up(books), index)
    }

    /// A dynamic node turned out to be this layer, and a thread that works says so.
    pub(super) fn follow<'a>(
        self: &'a Arc<Self>,
        mut books: MutexGuard<'a, Books>,
        index: u32,
        layer: AnyLayer,
    ) -> MutexGuard<'a, Books> {
        match books.find(&layer) {
            Some(source) => {
                books.follow(index, source, layer);
                books
            }
            None if books.walking => {
                books.later.push(Later::Follow(index, layer));
                books
            }
            None if layer.is_dynamic() => {
                let source = books.enter_dynamic(&layer);
                books.follow(index, source, layer);
                books
            }
            None => {
                let runs = !books.drivers.nobody();
                let (mut books, source) = self.enter(books, &layer, runs, true);
                books.follow(index, source, layer);
                self.catch_up(books)
            }
        }
    }

    /// Does what was left to whoever was walking.
    fn catch_up<'a>(self: &'a Arc<Self>, mut books: MutexGuard<'a, Books>) -> MutexGuard<'a, Books> {
        while let Some(later) = books.later.pop() {
            let (follower, layer) = match later {
                Later::Enter(layer) => (NONE, layer),
                Later::Follow(index, layer) => (index, layer),
                Later::Wake(waker) => {
                    books.woken.push(waker);
                    continue;
                }
            };
            let source = match books.find(&layer) {
                Some(source) => source,
                None => {
                    let runs = may_work() && !books.drivers.nobody();
                    let source;
                    (books, source) = self.enter(books, &layer, runs, in_task());
                    source
                }
            };
            match follower {
                NONE => books.root(source),
                index => books.follow(index, source, layer),
            }
        }
        books
    }

    /// Enters a layer that the pass has not met, and everything that it needs. `runs` says whether
    /// small kernels are run, `working` whether this thread is counted among those that work.
    fn enter<'a>(
        self: &'a Arc<Self>,
        mut books: MutexGuard<'a, Books>,
        root: &AnyLayer,
        runs: bool,
        working: bool,
    ) -> (MutexGuard<'a, Books>, u32) {
        let small = match runs {
            false => Small::Queued,
            true if self.is_watched() => Small::Run,
            true => Small::Computed,
        };
        let walk = books.begin_walk(root, small);
        self.walk(books, walk, runs, working)
    }

    fn walk<'a>(
        self: &'a Arc<Self>,
        mut books: MutexGuard<'a, Books>,
        mut walk: Walk,
        runs: bool,
        working: bool,
    ) -> (MutexGuard<'a, Books>, u32) {
        let before = books.under_lock;
        let mut walked = computing(self, || books.walk(&mut walk, Some(self)));
        if !working && books.under_lock > before {
            self.width().works();
            self.width().rests();
        }
        let index = match walked {
            Walked::Through(index) => index,
            _ => {
                books.walking = true;
                if !working {
                    self.width().works();
                }
                let rests = books.rests;
                let index = loop {
                    match walked {
                        Walked::Through(index) => break index,
                        Walked::Meets(index) => {
                            books = self.run_at_once(index, books);
                            if walk.is_through() {
                                break index;
                            }
                        }
                        Walked::NeedsPass => unreachable!("it has one"),
                        Walked::Pauses => books = self.books_after_others(books),
                        Walked::Offers => {
                            // nobody walks before a driver has come, but whoever is going to be it
                            if runs && books.drivers.nobody() && books.rests == rests {
                                books.drivers.expect();
                            }
                            self.share(&mut books, runs);
                            self.release(books);
                            books = self.books();
                        }
                    }
                    // nothing is started in a pass that rests
                    if books.rests != rests {
                        walk.small = Small::Queued;
                    }
                    walked = computing(self, || books.walk(&mut walk, Some(self)));
                };
                if !working {
                    self.width().rests();
                }
                books.walking = false;
                index
            }
        };
        (self.note_origin(books), index)
    }

    /// The walk from the first layer is over: if it met no position that others are counted from,
    /// that is where the computation was made.
    fn note_origin<'a>(&self, mut books: MutexGuard<'a, Books>) -> MutexGuard<'a, Books> {
        if books.roots_met == 1
            && let Some(made_at) = self.settings.made_at
        {
            books.note_position(made_at);
        }
        books
    }

    fn run_at_once<'a>(self: &'a Arc<Self>, index: u32, books: MutexGuard<'a, Books>) -> MutexGuard<'a, Books> {
        // what a kernel builds has no position in the body that happens to run it
        let here = Position::here();
        let result = self.run_kernel(index, books);
        here.enter();
        let mut books = self.books();
        books.under_lock = 0.0;
        books.finish_at_once(index, result);
        books
    }
}

impl Books {
    /// What becomes of this new entry. Its kernel is run at once if it is small and its operands
    /// are all there. To a thread that nobody could help, every kernel is small, unless something
    /// else is to come first: a body that is going to wait for the outside had better begin.
    pub(super) fn meet(&mut self, index: u32, op: &dyn AnyPrimitive, way: Small) -> Met {
        if self.queue.nanoseconds() >= WORTH_OFFERING_NANOSECONDS {
            return Met::Other;
        }
        let operands = op.operands().len();
        let mut trained = false;
        for which in 0..operands {
            let operand = self.entry(self.operand(index, which));
            if !matches!(operand.state, State::F32 | State::F64 | State::Done) {
                return Met::Other;
            }
            trained |= operand.trained;
        }
        self.entries[index as usize].trained = trained;
        let threads = current_num_threads();
        let alone = self.queue.len() == 0 && (way == Small::Last || threads == 1);
        if matches!(way, Small::Computed | Small::Last) && op.is_plain() {
            let longest = longest_under_lock(alone, threads).min(longest_nanoseconds(threads) - self.under_lock);
            let value = |operands: &[&Value]| value_under_lock(op, operands, longest);
            if let Some((value, nanoseconds)) = self.with_operands(index, operands, value) {
                self.under_lock += nanoseconds + BOOKING_NANOSECONDS;
                self.computed(index, operands, value);
                return Met::Computed;
            }
        }
        // code of the user's is always asked, as it may fail there
        let longest = if op.is_plain() { SMALL_OF_OURS_NANOSECONDS } else { SMALL_NANOSECONDS };
        let small =
            alone && op.is_plain() || self.cost(index, op).is_ok_and(|cost| alone || (0.0..longest).contains(&cost));
        if !small {
            return Met::Other;
        }
        for which in 0..operands {
            let operand = self.operand(index, which);
            self.meet_consumer(operand);
        }
        Met::Small
    }

    /// Writes down the value of a new entry, and lets go of those of its operands that nobody needs
    /// any more.
    fn computed(&mut self, index: u32, operands: usize, value: Value) {
        self.count.so_far.evaluations += 1;
        match Scalar::of(&value) {
            Some(number) => self.entries[index as usize].set_number(number),
            None => {
                let bytes = (self.node(index).kind_of_data.bytes)(&value);
                self.count.holds(bytes);
                self.entries[index as usize].state = State::Done;
                let links = self.links(index);
                (links.outcome, links.bytes, links.scheduled) = (Some(Ok(value)), bytes, true);
            }
        }
        for which in 0..operands {
            let operand = self.operand(index, which);
            if self.is_scheduled(operand) {
                self.linked(operand).consumers += 1;
                if self.is_dead(operand) {
                    let discarded = self.discarded.len();
                    let is_large = self.linked(operand).bytes > LARGE_BYTES;
                    self.discard_value(operand);
                    if !is_large {
                        self.discarded.truncate(discarded);
                    }
                }
            }
        }
    }

    fn finish_at_once(&mut self, index: u32, result: Result<Value>) {
        let node = self.node(index);
        let entry = &mut self.entries[index as usize];
        if entry.links != NONE {
            // somebody has asked for it meanwhile
            self.linked(index).scheduled = true;
            return self.finish(index, result);
        }
        match result.as_ref().ok().and_then(Scalar::of) {
            Some(number) => entry.set_number(number),
            None => {
                self.links(index).scheduled = true;
                self.write_down(index, &node, result);
            }
        }
        self.count.so_far.evaluations += 1;
        self.part_from_operands(index, &node);
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
pub(super) mod tests {
    use crate::exec::Pass;
    use crate::exec::context::with_computing;
    use crate::{At, Deltas, Differentiable, Do, Layer, Primitive, Result};
    use std::collections::HashSet;
    use std::sync::{Arc, Mutex};
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    /// `x + 1`, as an operation of the library; it does something with the pass that it is computed
    /// for.
    pub(in crate::exec) struct Probe {
        nanoseconds: f64,
        does: Box<Does>,
    }

    type Does = dyn Fn(&Arc<Pass>) + Send + Sync;

    impl Probe {
        pub(in crate::exec) fn new(nanoseconds: f64, does: impl Fn(&Arc<Pass>) + Send + Sync + 'static) -> Self {
            Probe { nanoseconds, does: Box::new(does) }
        }
    }

    impl Primitive for Probe {
        type Operands = (Layer<f64>,);
        type Output = f64;
        const IS_PLAIN: bool = true;

        fn name(&self) -> &'static str {
            "probe"
        }

        fn value(&self, (x,): (&f64,)) -> Result<f64> {
            with_computing(|pass| (self.does)(pass.expect("it runs in a pass")));
            Ok(x + 1.0)
        }

        fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
            (Some(at.delta.clone()),)
        }

        fn cost(&self, _: (&f64,)) -> f64 {
            self.nanoseconds
        }
    }

    pub(in crate::exec) fn chain(x: f64, probe: impl Fn() -> Probe) -> Layer<f64> {
        (0..100).fold(Layer::constant(x), |y, _| Layer::apply(probe(), (y,)))
    }

    pub(in crate::exec) fn on_threads<R: Send>(threads: usize, f: impl FnOnce() -> R + Send) -> R {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool").install(f)
    }

    #[test]
    fn the_lock_is_held_for_some_operations_only() {
        let seen = Arc::<Mutex<Vec<bool>>>::default();
        let looks = || {
            let seen = seen.clone();
            Probe::new(900.0, move |pass| seen.lock().expect("nobody panics").push(pass.books.try_lock().is_ok()))
        };
        // two walks, as there are two roots: they count together
        let both = on_threads(1, || Do::predict((chain(0.0, looks), chain(1.0, looks))).wait());
        assert_eq!(both.expect("it succeeds"), (100.0, 101.0));
        let seen = seen.lock().expect("nobody panics");
        assert_eq!(seen.len(), 200);
        let longest = seen.split(|&is_free| is_free).map(<[bool]>::len).max();
        assert_eq!(longest, Some(50), "of 900 ns and 100 ns each, 50 take 50 µs: {seen:?}");
    }

    #[test]
    fn what_nothing_follows_is_run_where_it_is_met() {
        let seen = Arc::<Mutex<Vec<bool>>>::default();
        let probe = || {
            let seen = seen.clone();
            let probe = Probe::new(3_000.0, move |pass| {
                let has_driver = pass.books.try_lock().is_ok_and(|books| !books.drivers.nobody());
                seen.lock().expect("nobody panics").push(has_driver);
            });
            Layer::apply(probe, (Layer::constant(1.0),))
        };
        assert_eq!(on_threads(2, || probe().predict().wait()).expect("it succeeds"), 2.0);
        assert_eq!(*seen.lock().expect("nobody panics"), [false], "it was computed before a driver came");
        seen.lock().expect("nobody panics").clear();
        on_threads(2, || Do::predict(vec![probe(), probe(), probe()]).wait()).expect("it succeeds");
        assert_eq!(seen.lock().expect("nobody panics").first(), Some(&true), "others are asked to share these");
    }

    #[test]
    fn what_is_not_worth_a_hand_over_stays_on_its_thread() {
        let threads = Arc::<Mutex<HashSet<ThreadId>>>::default();
        let probe = || {
            let threads = threads.clone();
            Probe::new(1_500.0, move |_| {
                threads.lock().expect("nobody panics").insert(thread::current().id());
                thread::sleep(Duration::from_micros(100)); // time for others to come
            })
        };
        let branch = |x| (0..4).fold(Layer::constant(x), |y, _| Layer::apply(probe(), (y,)));
        let branches: Vec<Layer<f64>> = (0..20).map(|x| branch(f64::from(x))).collect();
        let values = on_threads(2, || Do::predict(branches).wait()).expect("it succeeds");
        assert!(values.into_iter().eq((4..24).map(f64::from)));
        assert_eq!(threads.lock().expect("nobody panics").len(), 1);
    }

    /// The same as code of the user's.
    struct Users(Probe);

    impl Primitive for Users {
        type Operands = (Layer<f64>,);
        type Output = f64;

        fn name(&self) -> &'static str {
            "users"
        }

        fn value(&self, operands: (&f64,)) -> Result<f64> {
            self.0.value(operands)
        }

        fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
            (Some(at.delta.clone()),)
        }

        fn cost(&self, operands: (&f64,)) -> f64 {
            self.0.cost(operands)
        }
    }

    /// Of twenty branches that begin when a dear operation has ended, the threads that compute the
    /// last operation of each in a training step: `last` of what does something there, after one
    /// that takes so long.
    fn threads_of_branches(first: f64, last: fn(Layer<f64>, Box<Does>) -> Layer<f64>) -> HashSet<ThreadId> {
        let threads = Arc::<Mutex<HashSet<ThreadId>>>::default();
        let dear = Layer::apply(Probe::new(100_000.0, |_| ()), (Layer::constant(0.0),));
        let branch = |_| {
            let threads = threads.clone();
            let does = move |_: &Arc<Pass>| {
                threads.lock().expect("nobody panics").insert(thread::current().id());
                thread::sleep(Duration::from_micros(100)); // time for others to come
            };
            last(Layer::apply(Probe::new(first, |_| ()), (dear.clone(),)), Box::new(does))
        };
        let sum = (0..20).map(branch).sum::<Layer<f64>>();
        let loss = on_threads(2, || sum.train(&crate::testing::Sgd::new(0.1)).wait());
        assert_eq!(loss.expect("it succeeds"), 60.0);
        let threads = threads.lock().expect("nobody panics");
        threads.clone()
    }

    fn of_the_library<const NANOSECONDS: u32>(x: Layer<f64>, does: Box<Does>) -> Layer<f64> {
        Layer::apply(Probe { nanoseconds: f64::from(NANOSECONDS), does }, (x,))
    }

    /// The sum of its operands.
    pub(in crate::exec) struct Gather;

    impl Primitive for Gather {
        type Operands = Vec<Layer<f64>>;
        type Output = f64;

        fn name(&self) -> &'static str {
            "gather"
        }

        fn value(&self, terms: Vec<&f64>) -> Result<f64> {
            Ok(terms.into_iter().sum())
        }

        fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
            at.operands.iter().map(|_| Some(at.delta.clone())).collect()
        }
    }

    /// Each of them interrupts the walk, which then goes on with the next operand of the same node.
    #[test]
    fn small_kernels_below_a_node_with_many_operands_run_once() {
        let w = crate::Weight::new(2.0_f64);
        let ran = Arc::<Mutex<usize>>::default();
        let users = |x: Layer<f64>| {
            let ran = ran.clone();
            Layer::apply(Users(Probe::new(100.0, move |_| *ran.lock().expect("nobody panics") += 1)), (x,))
        };
        let build = || {
            let twice = users(&w * 3.0);
            let mut terms: Vec<_> = (0..5).map(|x| users(&w * f64::from(x))).collect();
            terms.extend([twice.clone(), w.layer(), twice, Layer::constant(0.5)]);
            Layer::apply(Gather, terms)
        };
        let truth = |w: f64| (0..5).map(|x| w * f64::from(x) + 1.0).sum::<f64>() + 2.0 * (3.0 * w + 1.0) + w + 0.5;
        for threads in [1, 2] {
            let y = build();
            // another live pass has the claims
            let tape = on_threads(threads, || y.forward().wait()).expect("it succeeds");
            assert_eq!(on_threads(threads, || y.predict().wait()).expect("it succeeds"), truth(w.value()));
            drop(tape);
            let before = w.value();
            let loss = on_threads(threads, || build().train(&crate::testing::Sgd::new(0.1)).wait());
            assert_eq!(loss.expect("it succeeds"), truth(before));
            assert_eq!(w.value(), before - 0.1 * (10.0 + 6.0 + 1.0));
            assert_eq!(std::mem::take(&mut *ran.lock().expect("nobody panics")), 3 * 6);
        }
    }

    #[test]
    fn small_operations_of_a_step_stay_with_its_driver() {
        assert_eq!(threads_of_branches(1_500.0, of_the_library::<1_500>).len(), 1);
    }

    #[test]
    fn what_is_dear_is_shared_though_it_follows_something_small() {
        let both = (0..20).any(|_| threads_of_branches(1_500.0, of_the_library::<50_000>).len() == 2);
        assert!(both, "twenty operations of 50 µs were computed by one thread");
    }

    #[test]
    fn what_may_be_dear_is_shared_though_it_follows_something_small() {
        let users = |x, does| Layer::apply(Users(Probe { nanoseconds: 1_000.0, does }), (x,));
        let both = (0..20).any(|_| threads_of_branches(1_500.0, users).len() == 2);
        assert!(both, "twenty operations of the user's were computed by one thread");
    }
}
