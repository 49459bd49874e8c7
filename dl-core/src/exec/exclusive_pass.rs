//! Passes with one handle: how they begin and end.
//!
//! Testing whether an `Arc` is the only one takes an atomic read-modify-write, and a small pass
//! would do it at its beginning and at its end. The type [`Unshared`] proves it instead. A pass
//! whose root is a plain number is evaluated while it has one handle, so its state needs no lock.

use crate::error::Result;
use crate::exec::groups::Groups;
use crate::exec::state::PassState;
use crate::exec::{Mode, Owner, Pass, Purpose, Settings, regions, user_code};
use crate::graph::node_ref::NodeRef;
use crate::graph::scalar::Scalar;
use crate::graph::value::Value;
use dl_parallel::sync::{AtomicBool, AtomicUsize, Mutex, Ordering, thread_local};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError};

/// The maximum number of idle passes that a thread keeps. Passes are nested, but not deeply.
const PASSES_KEPT: usize = 4;

thread_local! {
    /// Idle passes, for reuse.
    static OVER: RefCell<Vec<Unshared>> = const { RefCell::new(Vec::new()) };
}

/// The only handle to a pass. There is no weak handle either.
pub(super) struct Unshared(Arc<Pass>);

impl Deref for Unshared {
    type Target = Pass;

    fn deref(&self) -> &Pass {
        &self.0
    }
}

impl DerefMut for Unshared {
    #[inline]
    fn deref_mut(&mut self) -> &mut Pass {
        // SAFETY: this is the only handle, and no other is made before `share`.
        unsafe { &mut *Arc::as_ptr(&self.0).cast_mut() }
    }
}

impl Unshared {
    /// An idle pass, or a new one.
    #[inline]
    pub(super) fn take() -> Self {
        let over = OVER.try_with(|over| over.borrow_mut().pop()).ok().flatten();
        over.unwrap_or_else(Unshared::new)
    }

    #[cold]
    fn new() -> Self {
        regions::connect();
        Unshared(Arc::new(Pass {
            state: Mutex::new(PassState::default()),
            mode: Mode::Train,
            settings: Settings::default(),
            events: Arc::default(),
            owners: AtomicUsize::new(0),
            lock_waiters: AtomicUsize::new(0),
            driver_spins: AtomicBool::new(false),
            commits: AtomicBool::new(false),
            reused_buffers: AtomicUsize::new(0),
            width: Default::default(),
            watch: Default::default(),
            around: None,
            steps: false,
            discards: false,
        }))
    }

    /// Turns this handle into one of possibly many.
    pub(super) fn share(self) -> Arc<Pass> {
        self.0
    }

    /// This pass, if the handle is the only one.
    pub(super) fn of(mut pass: Arc<Pass>) -> std::result::Result<Self, Arc<Pass>> {
        if Arc::get_mut(&mut pass).is_some() { Ok(Unshared(pass)) } else { Err(pass) }
    }

    /// Ends the pass: its values and nodes are dropped, and its tables are kept for the next pass.
    /// Returns a panic of a destructor.
    pub(super) fn close(mut self) -> Result<()> {
        let over = &mut *self;
        over.end_watch();
        let closed = user_code::run(|| {
            let state = over.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            state.reset();
            over.settings = Settings::default();
            over.reused_buffers.store(0, Ordering::Relaxed);
            over.width.clear();
            over.around = None;
            state.deferred.take_fault()
        });
        let fault = match closed {
            Ok(fault) => fault,
            Err(error) => {
                // The rest is dropped with the pass. One panic is reported.
                user_code::ignore_panic(|| drop(self));
                return Err(error);
            }
        };
        let keep = |kept: &RefCell<Vec<Unshared>>| {
            let mut kept = kept.borrow_mut();
            if kept.len() < PASSES_KEPT {
                kept.push(self);
                None
            } else {
                Some(self)
            }
        };
        // During the destruction of thread-locals nothing is kept. A pass is dropped after the borrow.
        drop(OVER.try_with(keep));
        fault
    }
}

/// How far a new pass has evaluated its layer synchronously.
pub(crate) enum Begun<R> {
    /// The layer is a number, and scalar arithmetic sufficed. This is the result of `with_number`,
    /// and the pass has ended.
    Number(R),
    /// The layer has this value or has failed. It is a tensor, or a number that is traced or needed
    /// more than scalar arithmetic.
    Value(Owner, Result<Value>),
    /// The layer is incomplete.
    Pending(Owner),
}

impl Pass {
    /// The state, without its lock.
    #[inline]
    pub(super) fn state_mut(&mut self) -> &mut PassState {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a pass for a layer, and evaluates it as far as scalar arithmetic and small kernels
    /// allow. If the layer is a number, calls `with_number` with its slot while the pass has one
    /// handle.
    pub(crate) fn begin<R>(
        purpose: Purpose,
        settings: &Settings,
        layer: &NodeRef,
        with_number: impl FnOnce(&mut PassState, u32, Scalar) -> R,
    ) -> Begun<R> {
        let mut pass = Pass::unshared(purpose, settings);
        let watched = pass.is_watched();
        // A recorder needs the times. A pass inside a training step reads the weights of that step,
        // which holds their locks, so the context must name the pass of this thread from the
        // beginning.
        let groups = Groups::below(layer);
        let needs_pass = watched || pass.is_in_step() || groups.is_some();
        let state = pass.state_mut();
        let mut traversal = state.begin_first_traversal(layer, watched);
        let inserted = if needs_pass { None } else { state.traverse(&mut traversal, None) };
        if let Some(index) = inserted
            && let Some(number) = state.entry(index).number()
        {
            let made = with_number(state, index, number);
            let over = pass.close();
            debug_assert!(over.is_ok(), "numbers have no destructors");
            return Begun::Number(made);
        }
        let pass = Owner::from(pass.share());
        let mut state = pass.state();
        let grouped = groups.and_then(|groups| {
            pass.insert_groups(&mut state, groups);
            state.find(layer)
        });
        let index = match inserted.or(grouped) {
            Some(index) => index,
            None => pass.traverse(&mut state, traversal, false),
        };
        pass.note_origin(&mut state);
        let ended = state.outcome(index);
        state.root(index);
        pass.release(state);
        match ended {
            Some(value) => Begun::Value(pass, value),
            None => Begun::Pending(pass),
        }
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use crate::exec::inline::tests::{Gather, Probe, on_threads};
    use crate::testing::Sgd;
    use crate::{Differentiable, Layer, Weight};

    #[test]
    fn first_traversal_goes_on_with_pass() {
        // below the operations and above them
        let weights: Vec<Weight<f64>> = (0..24).map(|i| Weight::new(f64::from(i) / 8.0)).collect();
        let sum = |weights: &[Weight<f64>]| weights.iter().map(|w| w * 2.0).sum::<Layer<f64>>();
        let build = || {
            let (below, above) = (sum(&weights[..12]), sum(&weights[6..]));
            let once = Layer::apply_built_in(Probe::new(10.0, |_| ()), (below.clone(),));
            let many =
                Layer::apply(Gather, vec![weights[0].layer(), below.clone(), above.clone(), weights[20].layer()]);
            (above + &once * &below, many)
        };
        let total = |weights: &[Weight<f64>]| weights.iter().map(|w| 2.0 * w.value()).sum::<f64>();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{a} instead of {b}");
        for (threads, claimed) in [(1, false), (1, true), (2, false), (2, true)] {
            let (once, many) = build();
            // another live pass has the claims
            let tapes = claimed.then(|| (once.forward().wait(), many.forward().wait()));
            let (below, above) = (total(&weights[..12]), total(&weights[6..]));
            let predict = |y: &Layer<f64>| on_threads(threads, || y.predict().wait()).expect("it succeeds");
            close(predict(&once), above + (below + 1.0) * below);
            close(predict(&many), weights[0].value() + below + above + weights[20].value());
            let before: Vec<f64> = weights.iter().map(Weight::value).collect();
            on_threads(threads, || once.train(&Sgd::new(1e-3)).wait()).expect("it succeeds");
            for (i, (w, before)) in weights.iter().zip(before).enumerate() {
                let delta = if i < 12 { 2.0 * (2.0 * below + 1.0) } else { 0.0 } + if i >= 6 { 2.0 } else { 0.0 };
                close(w.value(), before - 1e-3 * delta);
            }
            drop(tapes);
        }
    }
}
