//! A pool of the large tables of passes. The state of a million nodes fills thousands of pages, and
//! mapping a new page costs more than writing into it.
//!
//! A pass begins with the small tables of the previous pass (see `PassState::reset`). A table that
//! outgrows what a thread retains is exchanged for a larger one from this pool, which all threads
//! share, like large buffers (`dl_parallel::memory::buffers`). It is returned when the pass ends.
//! Tables that only few passes need are dropped. A table of a backward is [recycled](recycle): its
//! thread keeps it for the next backward.
//!
//! The module of a row declares where its tables are kept, by [`rows!`].

use crate::exec::discover::Frame;
use crate::exec::node_table::{NodeSlot, SlotExt};
use dl_parallel::memory::on_release;
use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// The capacity above which a table is large: no thread keeps one for itself.
pub(crate) const SMALL: usize = 1 << 16;
/// The capacity above which a thread does not keep a table for its next step.
const SPARE: usize = 1 << 10;
/// The maximum size of the unused tables of one kind: enough for a million nodes, for most kinds.
const KEPT_BYTES: usize = 64 << 20;

/// Unused tables of one kind.
pub(crate) struct Stock<T> {
    tables: Mutex<Vec<Vec<T>>>,
    /// Whether `dl_parallel::memory::release` empties it.
    listed: Once,
}

impl<T> Stock<T> {
    pub(crate) const fn new() -> Self {
        Stock { tables: Mutex::new(Vec::new()), listed: Once::new() }
    }

    fn tables(&self) -> MutexGuard<'_, Vec<Vec<T>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Vec<T>> {
        self.tables().pop()
    }

    fn keep(&self, table: Vec<T>) {
        let bytes = |table: &Vec<T>| table.capacity() * size_of::<T>();
        let mut tables = self.tables();
        if tables.iter().chain([&table]).map(bytes).sum::<usize>() <= KEPT_BYTES {
            tables.push(table);
        }
    }

    fn release(&self) {
        let all = std::mem::take(&mut *self.tables());
        drop(all);
    }
}

/// A row of a table.
pub(crate) trait Row: Sized + 'static {
    const STOCK: &'static Stock<Self>;

    /// Where this thread keeps a small table, if it keeps one of these and is not ending.
    fn with_spare<R>(_use_it: impl FnOnce(&Cell<Vec<Self>>) -> R) -> Option<R> {
        None
    }
}

/// `STOCK: Row;` or `STOCK: Row, kept by threads in SPARE;`
macro_rules! rows {
    ($($stock:ident: $Row:ty $(, kept by threads in $spare:ident)?;)*) => {$(
        static $stock: $crate::exec::vec_pool::Stock<$Row> = $crate::exec::vec_pool::Stock::new();

        impl $crate::exec::vec_pool::Row for $Row {
            const STOCK: &'static $crate::exec::vec_pool::Stock<Self> = &$stock;

            $(#[inline]
            fn with_spare<R>(use_it: impl FnOnce(&std::cell::Cell<Vec<Self>>) -> R) -> Option<R> {
                std::thread_local! {
                    static $spare: std::cell::Cell<Vec<$Row>> = const { std::cell::Cell::new(Vec::new()) };
                }
                $spare.try_with(use_it).ok()
            })?
        }
    )*};
}
pub(crate) use rows;

rows! {
    SLOTS: NodeSlot;
    EXTS: SlotExt;
    FRAMES: Frame;
    WEIGHTS: (usize, u32);
}

/// Appends a row.
#[inline(always)]
pub(crate) fn push<T: Row>(table: &mut Vec<T>, row: T) {
    if table.len() == table.capacity() {
        grow(table);
    }
    table.push(row);
}

/// Appends a row that is constructed in place. A row that is assembled elsewhere is copied in
/// larger pieces than it was written in, and the processor stalls such loads until all stores have
/// retired. Only w2a of `benches/figures` shows this. A row that is in registers gains nothing,
/// because the capacity is checked twice.
#[inline(always)]
pub(crate) fn push_made<T: Row>(table: &mut Vec<T>, make: impl FnOnce() -> T) {
    if table.len() == table.capacity() {
        grow(table);
    }
    table.extend(std::iter::once_with(make));
}

#[cold]
fn grow<T: Row>(table: &mut Vec<T>) {
    let kept = if table.capacity() >= SMALL { T::STOCK.take() } else { None };
    match kept {
        Some(mut larger) if larger.capacity() > table.capacity() => {
            larger.append(table);
            clear(&mut std::mem::replace(table, larger));
        }
        _ => table.reserve(1),
    }
}

/// A table with room for so many rows: a pooled one, if they are many.
pub(crate) fn with_room<T: Row>(rows: usize) -> Vec<T> {
    if rows > SMALL { T::STOCK.take().unwrap_or_default() } else { Vec::new() }
}

/// The same for borrowing rows of the size of `W`, which no stock can hold.
#[inline]
pub(crate) fn with_room_of<W: Row, T>(rows: usize) -> Vec<T> {
    if rows > SMALL { of_others(with_room::<W>(rows)) } else { Vec::new() }
}

/// Drops a table of such rows, and keeps its memory if it is large.
#[inline]
pub(crate) fn keep_room_of<W: Row, T>(table: Vec<T>) {
    if table.capacity() > SMALL {
        clear::<W>(&mut of_others(table));
    }
}

/// An empty table in the memory of this one, if the rows have the same size: the standard library
/// collects in place.
fn of_others<T, U>(mut table: Vec<T>) -> Vec<U> {
    table.clear();
    table.into_iter().map(|_| unreachable!("there is no row")).collect()
}

/// An empty table: the [recycled](recycle) one of this thread, if there is one.
#[inline]
pub(crate) fn spare<T: Row>() -> Vec<T> {
    T::with_spare(Cell::take).unwrap_or_default()
}

/// Empties a table, and keeps it for this thread if its kind allows that.
#[inline]
pub(crate) fn recycle<T: Row>(mut table: Vec<T>) {
    clear(&mut table);
    if (1..=SPARE).contains(&table.capacity()) {
        T::with_spare(|spare| spare.set(table));
    }
}

/// Empties a table when the pass ends. A large one returns to the pool.
#[inline]
pub(crate) fn clear<T: Row>(table: &mut Vec<T>) {
    table.clear();
    if table.capacity() > SMALL {
        keep(table);
    }
}

/// Keeps a large table, with its rows if it has any.
#[cold]
pub(crate) fn keep<T: Row>(table: &mut Vec<T>) {
    T::STOCK.listed.call_once(|| on_release(|| T::STOCK.release()));
    T::STOCK.keep(std::mem::take(table));
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;

    struct Number(usize);

    rows! {
        NUMBERS: Number, kept by threads in NUMBERS_OF_THIS_THREAD;
    }

    fn filled(rows: usize) -> Vec<Number> {
        let mut table = Vec::new();
        for row in 0..rows {
            if row.is_multiple_of(3) { push(&mut table, Number(row)) } else { push_made(&mut table, || Number(row)) }
        }
        assert!(table.iter().map(|row| row.0).eq(0..rows));
        table
    }

    #[test]
    fn borrowing_rows_reuse_memory_of_words() {
        let table: Vec<(&str, &Number)> = Vec::with_capacity(10 * SMALL);
        let (place, room) = (table.as_ptr().addr(), table.capacity());
        let words: Vec<[usize; 3]> = of_others(table);
        assert_eq!((words.as_ptr().addr(), words.capacity(), words.len()), (place, room, 0));
    }

    #[test]
    fn thread_keeps_short_table_of_last_step() {
        let table = filled(10);
        let (place, room) = (table.as_ptr(), table.capacity());
        recycle(table);
        let again = spare::<Number>();
        assert_eq!((again.as_ptr(), again.capacity(), again.len()), (place, room, 0));
        assert_eq!(spare::<Number>().capacity(), 0, "somebody has it");
        recycle(again);
        recycle(filled(SPARE + 1));
        let after = spare::<Number>();
        assert_eq!(after.as_ptr(), place, "a table that is too long does not take its place");
    }

    #[test]
    fn growing_table_takes_kept_large_table() {
        NUMBERS.listed.call_once(|| {}); // so that no other test releases it meanwhile
        let mut table = filled(10 * SMALL);
        let place = table.as_ptr();
        clear(&mut table);
        assert_eq!((table.capacity(), NUMBERS.tables().len()), (0, 1));
        let mut small = filled(SMALL);
        clear(&mut small);
        assert_eq!((small.capacity(), NUMBERS.tables().len()), (SMALL, 1), "the small one stays where it is");
        let again = filled(SMALL + 1);
        assert_eq!((again.as_ptr(), NUMBERS.tables().len()), (place, 0));
        let larger = filled(20 * SMALL);
        [again, larger].iter_mut().for_each(clear);
        assert_eq!(NUMBERS.tables().len(), 2);
        clear(&mut Vec::<Number>::with_capacity(KEPT_BYTES / size_of::<Number>()));
        assert_eq!(NUMBERS.tables().len(), 2, "that would be too much");
        NUMBERS.release();
        assert!(NUMBERS.take().is_none());
    }
}
