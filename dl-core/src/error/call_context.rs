//! The context in which this thread builds layers: the annotated functions, and whether a rule of
//! differentiation builds them.
//!
//! Building a layer takes a few nanoseconds, so the layer stores only one thread-local word, the
//! [`Origin`].

use crate::error::call_stack::Calls;
use crate::error::call_tree::{Function, within};
use crate::error::direction::Direction;
use dl_parallel::sync::thread_local;
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::Location;

/// The provenance of a layer: its chain of calls, and two bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin(u32);

/// Set if the layer belongs to the backward pass.
const BACKWARD: u32 = 1 << 30;
/// Set if the place of the layer is that of the operation of which it is a derivative.
const PLACED: u32 = 1 << 31;

impl Origin {
    pub(crate) const NONE: Origin = Origin(0);

    /// The origin of a layer that this thread builds now.
    #[inline(always)]
    pub(crate) fn here() -> Origin {
        CONTEXT.with(|context| context.origin.get())
    }

    /// Whether a rule of the library builds the layer, so that its place is that of the operation.
    #[inline(always)]
    pub(crate) fn is_by_rule(self) -> bool {
        self.0 & PLACED != 0
    }

    pub(crate) fn calls(self) -> Calls {
        Calls(self.0 & !(BACKWARD | PLACED))
    }

    pub(crate) fn with(self, calls: Calls) -> Origin {
        Origin(calls.0 | self.0 & (BACKWARD | PLACED))
    }

    pub(crate) fn direction(self) -> Direction {
        if self.0 & BACKWARD == 0 { Direction::Forward } else { Direction::Backward }
    }

    /// The origin of the layers that the derivative of an operation of this origin consists of. All
    /// of them have the place of the operation.
    pub(crate) fn of_rule(self, direction: Direction) -> Origin {
        let backward = if direction == Direction::Backward { BACKWARD } else { self.0 & BACKWARD };
        Origin(self.calls().0 | backward | PLACED)
    }
}

/// The location of an error: a place in the source and its chain of calls.
#[derive(Clone, Copy)]
pub(crate) struct Site {
    pub(crate) place: &'static Location<'static>,
    pub(crate) calls: Calls,
}

impl From<&'static Location<'static>> for Site {
    fn from(place: &'static Location<'static>) -> Site {
        Site { place, calls: Calls::default() }
    }
}

struct CallContext {
    origin: Cell<Origin>,
    /// The place of the layers to be built, used only if the origin has the bit `PLACED`.
    place: Cell<Option<&'static Location<'static>>>,
}

thread_local! {
    static CONTEXT: CallContext = const { CallContext { origin: Cell::new(Origin::NONE), place: Cell::new(None) } };
}

/// The place of the layers that a rule builds: that of the operation.
pub(crate) fn rule_place() -> Option<&'static Location<'static>> {
    CONTEXT.with(|context| context.place.get())
}

/// Guard: restores the previous context of this thread when it is dropped.
#[must_use = "it is left when this is dropped"]
pub(crate) struct ContextGuard {
    origin: Origin,
    place: Option<&'static Location<'static>>,
    /// Makes the guard `!Send`: it belongs to this thread.
    thread: PhantomData<*const ()>,
}

impl Drop for ContextGuard {
    #[inline]
    fn drop(&mut self) {
        CONTEXT.with(|context| {
            context.origin.set(self.origin);
            context.place.set(self.place);
        });
    }
}

/// Layers built while the guard lives have this origin and, if it has the bit `PLACED`, this place.
#[inline]
pub(crate) fn enter(origin: Origin, place: &'static Location<'static>) -> ContextGuard {
    CONTEXT.with(|context| ContextGuard {
        origin: context.origin.replace(origin),
        place: context.place.replace(Some(place)),
        thread: PhantomData,
    })
}

/// Layers built while the guard lives have these calls.
#[inline]
pub(super) fn enter_calls(calls: Calls) -> ContextGuard {
    CONTEXT.with(|context| {
        let origin = context.origin.get();
        context.origin.set(origin.with(calls));
        ContextGuard { origin, place: context.place.get(), thread: PhantomData }
    })
}

/// Guard: the function ends when it is dropped.
#[must_use = "the function is left when this is dropped"]
pub(crate) struct FunctionGuard {
    outer: Origin,
    /// Makes the guard `!Send`: it belongs to this thread.
    thread: PhantomData<*const ()>,
}

impl Drop for FunctionGuard {
    #[inline]
    fn drop(&mut self) {
        CONTEXT.with(|context| context.origin.set(self.outer));
    }
}

/// Adds a call of this function to the chain of calls while the guard lives. Not inlined, because
/// every annotated function calls it.
pub(crate) fn enter_function(function: Function, from: &'static Location<'static>) -> FunctionGuard {
    CONTEXT.with(|context| {
        let outer = context.origin.get();
        context.origin.set(outer.with(within(outer.calls(), function, from)));
        FunctionGuard { outer, thread: PhantomData }
    })
}

/// Layers built while the guard lives have their own places: user code builds them.
pub(crate) fn enter_user_code() -> ContextGuard {
    CONTEXT.with(|context| {
        let origin = context.origin.get();
        context.origin.set(Origin(origin.0 & !PLACED));
        ContextGuard { origin, place: context.place.get(), thread: PhantomData }
    })
}
