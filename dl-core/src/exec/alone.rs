//! Working without anybody to share with.
//!
//! What is not small enough for a walk (see `at_once.rs`) is queued, as others might share it. In a
//! net without branches nobody does: a job comes out of the queue, in which there is nothing then
//! that anybody would be called for, and nobody helps. Such a job is computed as in a walk, under
//! the lock, and so is what follows from it, until there is something to share.

use crate::exec::Pass;
use crate::exec::at_once::{
    BOOKING_NANOSECONDS, LARGE_BYTES, SMALL_OF_OURS_NANOSECONDS, longest_nanoseconds, value_under_lock,
};
use crate::exec::books::Books;
use crate::exec::context::computing;
use crate::graph::node::Expression;
use crate::graph::op::Few;
use crate::graph::value::Value;
use crate::parallel::sync::{MutexGuard, current_num_threads};
use std::sync::Arc;

/// What a thread that is alone with the queue keeps from job to job.
#[derive(Default)]
pub(super) struct Alone {
    followers: Vec<u32>,
    /// The last operation that was not small.
    pub(super) dear: Option<u32>,
    /// How many nanoseconds it has computed under the lock since others could have it.
    spent: f64,
}

impl Pass {
    /// Whether an operation that has left the queue, and takes about so long, is all that there is
    /// to do, nobody else is there to do it, and it can be computed under the lock.
    pub(super) fn is_alone(&self, index: u32, nanoseconds: f64, books: &Books) -> bool {
        nanoseconds < longest_nanoseconds(current_num_threads())
            && books.queue.all_stay()
            && books.tickets == 0
            && !books.crews.iter().any(|crew| crew.has_more())
            && !self.is_watched()
            && matches!(&books.node(index).expression, Expression::Primitive(op) if op.is_plain())
    }

    /// Computes it, and those that follow it in its chain, as a walk would, until there is
    /// something to share. The rest goes back to the queue.
    pub(super) fn compute_alone<'a>(
        self: &'a Arc<Self>,
        mut index: u32,
        mut books: MutexGuard<'a, Books>,
        alone: &mut Alone,
    ) -> MutexGuard<'a, Books> {
        let longest = longest_nanoseconds(current_num_threads());
        books.take_chain(index, &mut alone.followers);
        let mut next = 0;
        loop {
            // what follows may be worth a call, if there is something else for this thread
            let has_others = next > 0 && books.queue.len() > 0;
            let most = if has_others { SMALL_OF_OURS_NANOSECONDS } else { longest };
            let mut computed = computing(self, || books.compute(index, most.min(longest - alone.spent)));
            if computed.is_none() && alone.spent > 0.0 {
                self.release(books);
                (books, alone.spent) = (self.books_after_others(self.books()), 0.0);
                if !books.drivers.nobody() {
                    computed = computing(self, || books.compute(index, most));
                }
            }
            let Some(nanoseconds) = computed else {
                alone.dear = Some(index);
                let rest: Few<u32> = [index].into_iter().chain(alone.followers.drain(next..)).collect();
                // if it is the first, it has failed, or is dear, and is run otherwise at once
                books.put_back(&rest, has_others);
                return books;
            };
            alone.spent += nanoseconds;
            if !books.woken.is_empty() {
                self.release(books);
                (books, alone.spent) = (self.books(), 0.0);
            }
            let Some(&follower) = alone.followers.get(next) else { return books };
            if !books.queue.all_stay() || books.drivers.nobody() {
                books.put_back(&alone.followers[next..], false);
                return books;
            }
            (index, next) = (follower, next + 1);
        }
    }
}

impl Books {
    /// Computes an operation of the library that is ready, if it takes less than that, and is not
    /// an error. Says how long it took.
    fn compute(&mut self, index: u32, longest: f64) -> Option<f64> {
        let node = self.node(index);
        let Expression::Primitive(op) = &node.expression else { return None };
        if !op.is_plain() {
            return None;
        }
        let operands = op.operands().len();
        let value = |operands: &[&Value]| value_under_lock(&**op, operands, longest);
        let (value, nanoseconds) = self.with_operands(index, operands, value)?;
        let (mut trained, mut large) = (false, false);
        for which in 0..operands {
            let operand = self.operand(index, which);
            trained |= self.trained(operand);
            large |= self.is_scheduled(operand) && self.linked(operand).bytes > LARGE_BYTES;
        }
        self.entries[index as usize].trained = trained;
        let discarded = self.discarded.len();
        let waiting = self.end(index, Ok(value));
        // its own operands are plain data; what others let go of when they are told may be the
        // user's
        if !large {
            self.discarded.truncate(discarded);
        }
        self.tell_those(waiting);
        self.settle();
        Some(nanoseconds + BOOKING_NANOSECONDS)
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use crate::exec::at_once::tests::{Probe, chain, on_threads};
    use crate::exec::context::with_computing;
    use crate::{At, Data, Deltas, Differentiable, Error, Layer, Nothing, Primitive, Result};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// Whether the lock is free is asked when this goes.
    #[derive(Clone)]
    struct Asking {
        _asker: Arc<Asker>,
    }

    struct Asker(Arc<Mutex<Vec<bool>>>);

    impl Drop for Asker {
        fn drop(&mut self) {
            let is_free = with_computing(|pass| pass.is_none_or(|pass| pass.books.try_lock().is_ok()));
            self.0.lock().expect("nobody panics").push(is_free);
        }
    }

    impl Data for Asking {
        type Delta = Nothing;

        fn one(&self) -> Nothing {
            Nothing
        }
    }

    /// Makes one of these, or fails.
    struct Makes(Option<Arc<Mutex<Vec<bool>>>>);

    impl Primitive for Makes {
        type Operands = (Layer<f64>,);
        type Output = Asking;

        fn name(&self) -> &'static str {
            "makes"
        }

        fn value(&self, _: (&f64,)) -> Result<Asking> {
            let asked = self.0.clone().ok_or_else(|| Error::invalid("it was to fail"))?;
            Ok(Asking { _asker: Arc::new(Asker(asked)) })
        }

        fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
            (None,)
        }

        fn cost(&self, _: (&f64,)) -> f64 {
            100.0
        }
    }

    /// Is not run: one of its operands has failed.
    struct NotRun;

    impl Primitive for NotRun {
        type Operands = (Layer<Asking>, Layer<Asking>, Layer<f64>);
        type Output = f64;

        fn name(&self) -> &'static str {
            "not run"
        }

        fn value(&self, (.., x): (&Asking, &Asking, &f64)) -> Result<f64> {
            Ok(*x)
        }

        fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
            (None, None, None)
        }
    }

    /// An operation that is computed under the lock is the last one that a consumer waits for,
    /// which fails, and lets go of what is the user's.
    #[test]
    fn what_is_the_users_goes_without_the_lock() {
        let asked = Arc::<Mutex<Vec<bool>>>::default();
        for _ in 0..20 {
            let dear = || Probe::new(5_000.0, |_| ());
            let makes = |asked| Layer::apply(Makes(asked), (Layer::constant(0.0),));
            let last = Layer::apply(dear(), (Layer::apply(dear(), (Layer::constant(0.0),)),));
            let end = Layer::apply(NotRun, (makes(None), makes(Some(asked.clone())), last));
            assert!(on_threads(2, || end.predict().wait()).is_err());
        }
        let asked = asked.lock().expect("nobody panics");
        assert!(!asked.is_empty() && asked.iter().all(|&is_free| is_free), "{asked:?}");
    }

    /// Somebody who wants the lock while a thread that is alone computes what it has queued.
    #[test]
    fn others_have_the_lock_between_queued_operations() {
        let (had, begun) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let slow = || {
            let (had, begun) = (had.clone(), begun.clone());
            Probe::new(5_000.0, move |pass| {
                if !begun.swap(true, Relaxed) {
                    let (had, pass) = (had.clone(), Arc::downgrade(pass));
                    std::thread::spawn(move || {
                        while let Some(pass) = pass.upgrade() {
                            drop(pass.books());
                            had.fetch_add(1, Relaxed);
                        }
                    });
                }
                std::thread::sleep(Duration::from_millis(1));
            })
        };
        let meanwhile = Arc::<AtomicUsize>::default();
        let last = {
            let (had, meanwhile) = (had.clone(), meanwhile.clone());
            Probe::new(5_000.0, move |_| meanwhile.store(had.load(Relaxed), Relaxed))
        };
        let end = Layer::apply(last, (chain(0.0, slow),));
        assert_eq!(on_threads(2, || end.predict().wait()).expect("it succeeds"), 101.0);
        let had = meanwhile.load(Relaxed);
        assert!(had > 0, "of 100 operations three take 20 µs; nobody else had the lock in between");
    }

    /// An operation of the library that fails.
    struct Fails;

    impl Primitive for Fails {
        type Operands = (Layer<f64>,);
        type Output = f64;
        const IS_PLAIN: bool = true;

        fn name(&self) -> &'static str {
            "fails"
        }

        fn value(&self, _: (&f64,)) -> Result<f64> {
            Err(Error::invalid("it was to fail"))
        }

        fn pullback(&self, _: &At<'_, Self>) -> Deltas<Self> {
            (None,)
        }

        fn cost(&self, _: (&f64,)) -> f64 {
            100.0
        }
    }

    /// Several that fail, none of which anybody is called for, behind something dear.
    #[test]
    fn what_fails_is_tried_once_more_and_not_again_and_again() {
        for branches in 1..6 {
            let dear = Layer::apply(Probe::new(100_000.0, |_| ()), (Layer::constant(0.0),));
            let small = |x: &Layer<f64>| Layer::apply(Probe::new(100.0, |_| ()), (x.clone(),));
            let failing =
                (0..branches).map(|at| Layer::apply(Fails, (if at % 2 == 0 { small(&dear) } else { dear.clone() },)));
            let sum = failing.chain([small(&dear)]).sum::<Layer<f64>>();
            let error = on_threads(2, || sum.train(&crate::testing::Sgd::new(0.1)).wait()).expect_err("it fails");
            assert!(error.to_string().contains("it was to fail"), "{error}");
        }
    }
}
