//! Where this thread builds layers: in which functions, and whether a rule of differentiation
//! builds them.
//!
//! A layer is built in some nanoseconds, so all that it asks for is one word of the thread, which
//! it keeps.

use crate::error::call_stack::Calls;
use crate::error::call_tree::{Function, within};
use crate::parallel::sync::thread_local;
use crate::record::Direction;
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::Location;

/// What a layer keeps of where it was built: the calls, and two bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin(u32);

/// Whether it is part of the way back.
const BACKWARD: u32 = 1 << 30;
/// Whether its place is that of the operation whose derivative it is, rather than its own.
const PLACED: u32 = 1 << 31;

impl Origin {
    pub(crate) const NONE: Origin = Origin(0);

    /// That of a layer that is built here and now.
    #[inline(always)]
    pub(crate) fn here() -> Origin {
        HERE.with(|here| here.origin.get())
    }

    /// Whether a rule of the library builds it, so that its place is that of the operation.
    #[inline(always)]
    pub(crate) fn is_by_rule(self) -> bool {
        self.0 & PLACED != 0
    }

    pub(crate) fn calls(self) -> Calls {
        Calls(self.0 & !(BACKWARD | PLACED))
    }

    fn with(self, calls: Calls) -> Origin {
        Origin(calls.0 | self.0 & (BACKWARD | PLACED))
    }

    pub(crate) fn direction(self) -> Direction {
        if self.0 & BACKWARD == 0 { Direction::Forward } else { Direction::Backward }
    }

    /// That of what a derivative of an operation of this origin consists of. All of it has the
    /// place of the operation.
    pub(crate) fn of_rule(self, direction: Direction) -> Origin {
        let backward = if direction == Direction::Backward { BACKWARD } else { self.0 & BACKWARD };
        Origin(self.calls().0 | backward | PLACED)
    }
}

/// What an error points to.
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

struct Here {
    origin: Cell<Origin>,
    /// The place of what is built, if the origin says that there is one.
    place: Cell<Option<&'static Location<'static>>>,
}

thread_local! {
    static HERE: Here = const { Here { origin: Cell::new(Origin::NONE), place: Cell::new(None) } };
}

/// The place of what a rule builds: that of the operation.
pub(crate) fn place_of_rule() -> Option<&'static Location<'static>> {
    HERE.with(|here| here.place.get())
}

/// From now on this thread builds there, until this is dropped.
#[must_use = "it is left when this is dropped"]
pub(crate) struct Entered {
    origin: Origin,
    place: Option<&'static Location<'static>>,
    /// Of this thread.
    thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        HERE.with(|here| {
            here.origin.set(self.origin);
            here.place.set(self.place);
        });
    }
}

/// What is built from now on is of this origin, and, if that says so, of this place.
#[inline]
pub(crate) fn enter(origin: Origin, place: &'static Location<'static>) -> Entered {
    HERE.with(|here| Entered {
        origin: here.origin.replace(origin),
        place: here.place.replace(Some(place)),
        thread: PhantomData,
    })
}

/// What is built from now on is built in these functions.
#[inline]
pub(super) fn enter_calls(calls: Calls) -> Entered {
    HERE.with(|here| {
        let origin = here.origin.get();
        here.origin.set(origin.with(calls));
        Entered { origin, place: here.place.get(), thread: PhantomData }
    })
}

/// This thread runs a function, until this is dropped.
#[must_use = "the function is left when this is dropped"]
pub(crate) struct InFunction {
    around: Origin,
    /// Of this thread.
    thread: PhantomData<*const ()>,
}

impl Drop for InFunction {
    #[inline]
    fn drop(&mut self) {
        HERE.with(|here| here.origin.set(self.around));
    }
}

/// What is built from now on is built in this function, too. Not inlined: it is called by every
/// annotated function.
pub(crate) fn enter_function(function: Function, from: &'static Location<'static>) -> InFunction {
    HERE.with(|here| {
        let around = here.origin.get();
        here.origin.set(around.with(within(around.calls(), function, from)));
        InFunction { around, thread: PhantomData }
    })
}

/// What is built from now on has places of its own: it is code of the user's.
pub(crate) fn in_places_of_the_user() -> Entered {
    HERE.with(|here| {
        let origin = here.origin.get();
        here.origin.set(Origin(origin.0 & !PLACED));
        Entered { origin, place: here.place.get(), thread: PhantomData }
    })
}
