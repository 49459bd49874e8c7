//! The tables of a pass that outlive it, so that the next pass on the same thread need not grow its own.

use super::discover::Step;
use super::entry::{Entry, Links, Waiting};
use super::queue::Job;
use crate::error::Result;
use crate::node::AnyLayer;
use crate::reverse::Arrived;
use crate::value::Value;
use std::cell::RefCell;
use std::collections::VecDeque;

/// The tables that every pass fills, for reuse by the next one on the same thread: growing them anew would cost more than a small
/// pass does.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) entries: Vec<Entry>,
    pub(super) links: Vec<Links>,
    pub(super) roots: Vec<(AnyLayer, u32)>,
    pub(super) weights: Vec<(usize, u32)>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) jobs: VecDeque<Job>,
    pub(super) walk: Vec<Step>,
    pub(super) finished: Vec<(u32, Result<Value>)>,
    pub(super) arrived: Vec<Arrived>,
}

/// Passes run inside passes, but not many deep.
const TABLES_KEPT: usize = 4;
/// A pass of more nodes than this does not notice the growth, and its tables are better given back.
const ENTRIES_KEPT: usize = 1 << 16;

thread_local! {
    static TABLES: RefCell<Vec<Tables>> = const { RefCell::new(Vec::new()) };
}

impl Tables {
    pub(super) fn reuse() -> Self {
        TABLES.try_with(|kept| kept.borrow_mut().pop()).ok().flatten().unwrap_or_default()
    }

    pub(super) fn keep(mut self) {
        // values and nodes go here; their destructors may be the user's, and use passes of their own
        self.entries.clear();
        self.roots.clear();
        self.links.clear();
        self.weights.clear();
        self.waiting.clear();
        self.jobs.clear();
        self.walk.clear();
        self.finished.clear();
        self.arrived.clear();
        let largest = [self.entries.capacity(), self.links.capacity(), self.waiting.capacity(), self.walk.capacity()]
            .into_iter()
            .max();
        if largest <= Some(ENTRIES_KEPT) {
            // a thread that is ending keeps nothing
            let _ = TABLES.try_with(|kept| {
                let mut kept = kept.borrow_mut();
                if kept.len() < TABLES_KEPT {
                    kept.push(self);
                }
            });
        }
    }
}
