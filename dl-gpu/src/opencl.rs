//! Devices by OpenCL.
//!
//! One lock owns the memory and the kernels: the arguments of a launch are set in its kernel.
//! Launches happen under it, in the order of the queue; reading waits outside of it.
//!
//! Kernels are recorded ([`Queue`]) until the host reads or many are there. A *flush* copies the
//! arguments of all of them to a table on the device, by one write, and launches them in groups.
//! Whatever can be refused is refused when a kernel is recorded. If a flush fails nevertheless, the
//! device is lost: results that were promised are missing, so everything fails from then on.
//!
//! A pointwise program is interpreted when it is new and compiled when it comes back, since a
//! compilation takes about a second, and a dynamic network has many programs that run once. Both
//! give the same bits.
//!
//! Safety: a kernel accesses the elements of the views that it gets, in spans that the arena has
//! given out, and nothing else; the structs of `layout` have the layout of those in the sources.

mod kernels;
mod programs;
mod queue;

use crate::checks::{Checks, MAX_CHECKS};
use crate::layout::{self, Argument, Place, Shape};
use crate::source::{Dialect, GROUP, Target};
use dl_core::{DType, Error, Result};
use dl_nd::device::{Arena, Check, Code, Counters, Device, OutOfRange, Queue, Readout, Reads, Span, View, Work};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_GPU, Device as Hardware, get_all_devices};
use opencl3::error_codes::ClError;
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, ClMem};
use opencl3::program::Program;
use opencl3::types::CL_NON_BLOCKING;
use programs::Compiled;
use queue::Launched;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::iter::empty;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The option without which a division of `f32` may be wrong in its last digits.
const EXACT_DIVISION: &str = "-cl-fp32-correctly-rounded-divide-sqrt";
/// The bit of the configuration of `f32` that says that there is this option.
const HAS_EXACT_DIVISION: u64 = 1 << 7;

/// The room of a number that is read with others.
const NUMBER_BYTES: usize = 8;

/// How a device is used.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// From which use on a pointwise program is compiled.
    pub compile_from: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { compile_from: 3 }
    }
}

/// A device and its queue.
pub(crate) struct OpenCl {
    name: String,
    target: Target,
    options: &'static str,
    settings: Settings,
    context: Arc<Context>,
    queue: CommandQueue,
    state: Mutex<State>,
    reads: Reads,
}

struct State {
    arena: Arena<Buffer<u8>>,
    libraries: FxHashMap<DType, Program>,
    names: FxHashMap<(DType, &'static str), usize>,
    /// All kernels, by their numbers.
    kernels: Vec<Kernel>,
    /// Pointwise programs, by the formats of their tensors.
    programs: FxHashMap<Code, Vec<(Vec<i32>, Compiled)>>,
    queue: Queue<Launched>,
    /// The memory of the arguments of a flush. The queue reads it before the next flush writes it.
    table: Option<Span>,
    /// The error of a flush.
    lost: Option<Error>,
    counters: Counters,
    /// The checks of indices, and the memory of their table.
    checks: Checks,
    found: Option<Span>,
    /// Bytes that the queue may still read, with their number.
    staged: (Vec<Vec<u8>>, usize),
}

impl OpenCl {
    /// Opens the device of this number. GPUs come first.
    pub(crate) fn open(number: usize, settings: Settings) -> Result<Self> {
        // PoCL crashes when two threads initialize it
        static OPENING: Mutex<()> = Mutex::new(());
        let _others_wait = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut devices = get_all_devices(CL_DEVICE_TYPE_GPU).unwrap_or_default();
        let all = get_all_devices(CL_DEVICE_TYPE_ALL).map_err(|ClError(code)| {
            Error::invalid(format!(
                "there is no device: OpenCL (libOpenCL.so.1 and its drivers were looked for) \
                 reports {} ({code})",
                ClError(code)
            ))
        })?;
        all.into_iter().for_each(|id| {
            if !devices.contains(&id) {
                devices.push(id)
            }
        });
        let Some(&id) = devices.get(number) else {
            let count = devices.len();
            return Err(Error::invalid(format!("device {number} of OpenCL was asked for, but it has {count} devices")));
        };
        let hardware = Hardware::new(id);
        let known = hardware.name().unwrap_or_default();
        let name = format!("OpenCL device {number} ({})", known.trim());
        let fails = |error: ClError| Error::invalid(format!("{name} cannot be opened: {error}"));
        let context = context_of(number, &hardware).map_err(fails)?;
        #[allow(deprecated, reason = "the successor needs OpenCL 2.0")]
        // SAFETY: the device is that of the context
        let queue = unsafe { CommandQueue::create(&context, id, 0) }.map_err(fails)?;
        let is_exact = hardware.single_fp_config().map_err(fails)? & HAS_EXACT_DIVISION != 0;
        let options = if is_exact { EXACT_DIVISION } else { "" };
        let double = hardware.double_fp_config().is_ok_and(|config| config != 0);
        let target = Target { dialect: Dialect::OpenCl, double };
        let state = Mutex::new(State {
            arena: Arena::default(),
            libraries: FxHashMap::default(),
            names: FxHashMap::default(),
            kernels: Vec::new(),
            programs: FxHashMap::default(),
            queue: Queue::default(),
            table: None,
            lost: None,
            counters: Counters::default(),
            checks: Checks::default(),
            found: None,
            staged: (Vec::new(), 0),
        });
        Ok(OpenCl { name, target, options, settings, context, queue, state, reads: Reads::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, what: impl Display, error: impl Display) -> Error {
        Error::invalid(format!("{} {what}: {error}", self.name))
    }
}

impl Drop for OpenCl {
    fn drop(&mut self) {
        // the queue reads the staged bytes
        if self.queue.finish().is_err() {
            std::mem::forget(std::mem::take(&mut self.state().staged));
        }
    }
}

impl Device for OpenCl {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn counters(&self) -> Counters {
        let state = &mut *self.state();
        // a lost device says so when it is used
        let _ = self.launch_recorded(state);
        state.counters.bytes_reserved = state.arena.reserved() as u64;
        state.counters
    }

    fn allocate(&self, bytes: usize) -> Result<Span> {
        let state = &mut *self.state();
        let span = self.take(state, bytes)?;
        state.counters.take(bytes);
        Ok(span)
    }

    fn free(&self, span: Span) {
        let state = &mut *self.state();
        state.counters.bytes_in_use -= span.bytes as u64;
        state.checks.forget(span);
        state.give_back(span);
    }

    fn write(&self, to: Span, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let state = &mut *self.state();
        if state.queue.uses(to) {
            self.launch_recorded(state)?;
        }
        self.write_staged(state, to, bytes.to_vec())?;
        state.checks.forget(to);
        state.counters.bytes_up += bytes.len() as u64;
        Ok(())
    }

    fn launch(&self, work: &Work<'_>) -> Result<()> {
        let state = &mut *self.state();
        self.queue_work(state, work)?;
        state.checks.follow(work);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.launch_recorded(&mut self.state())
    }

    fn check(&self, of: &View, below: usize, except: Option<usize>, error: OutOfRange) -> Result<Check> {
        let state = &mut *self.state();
        if state.checks.is_full() {
            self.launch_recorded(state)?;
            let (pending, table) = self.copy_found(state)?;
            state.counters.syncs += 1;
            if let Err(error) = self.queue.finish() {
                // the queue may still write it
                std::mem::forget(table);
                return Err(self.error("cannot be waited for", error));
            }
            state.checks.end(pending, &table);
        }
        let span = state.found.map_or_else(|| self.take(state, 16 * MAX_CHECKS), Ok)?;
        state.found = Some(span);
        let check = layout::Check {
            shape: Shape::new(&of.shape)?,
            at: Place::new(of, DType::I64)?,
            below: below as u64,
            except: except.unwrap_or(0) as u64,
            excepts: except.is_some().into(),
            slot: (span.start / 8 + 2 * state.checks.next_entry()) as u64,
        };
        let kernel = self.kernel(state, DType::I64, "dl_check")?;
        // each check has an entry of its own, so they do not depend on each other
        self.record(state, kernel, GROUP as u64, check.bytes(), [of.span(), span].into_iter(), empty())?;
        Ok(state.checks.push(error))
    }

    fn read(&self, reads: &mut [Readout]) -> Result<()> {
        let mut state = self.state();
        if reads.iter().all(|read| read.bytes.is_empty() && !state.checks.are_pending_for(read.block)) {
            reads.iter_mut().for_each(|read| read.failed = state.checks.error_of(read.block));
            return Ok(());
        }
        let collected = self.collect(&mut state, reads)?;
        self.launch_recorded(&mut state)?;
        state.counters.syncs += 1;
        let (pending, table) = self.copy_found(&mut state)?;
        let mut numbers = vec![0; collected.map_or(0, |span| span.bytes)];
        let mut queued = Ok(());
        let mut queue_read = |state: &State, span: Span, bytes: &mut [u8]| {
            let slab = borrowed(state.arena.slab(span.slab));
            // SAFETY: the queue is waited for below, before `bytes` can go; the slab lives as long
            // as `self`
            let read = unsafe { self.queue.enqueue_read_buffer(&slab, CL_NON_BLOCKING, span.start, bytes, &[]) };
            if let Err(error) = read {
                queued = Err(error);
            }
        };
        if let Some(span) = collected {
            queue_read(&state, span, &mut numbers);
        }
        for read in reads.iter_mut() {
            let is_number = read.is_number();
            let Readout { block, start, bytes, .. } = read;
            state.counters.bytes_down += bytes.len() as u64;
            if !bytes.is_empty() && (collected.is_none() || !is_number) {
                queue_read(&state, Span { start: block.start + *start, ..*block }, bytes);
            }
        }
        let staged = std::mem::take(&mut state.staged);
        drop(state);
        if let Err(error) = self.queue.finish() {
            // the queue may still use them
            std::mem::forget((staged, table, numbers));
            reads.iter_mut().for_each(|read| std::mem::forget(std::mem::take(&mut read.bytes)));
            return Err(self.error("cannot be read", error));
        }
        queued.map_err(|error| self.error("cannot be read", error))?;
        let of_numbers = reads.iter_mut().filter(|read| read.is_number());
        for (read, number) in of_numbers.zip(numbers.chunks(NUMBER_BYTES)) {
            let len = read.bytes.len();
            read.bytes.copy_from_slice(&number[..len]);
        }
        let state = &mut *self.state();
        state.checks.end(pending, &table);
        reads.iter_mut().for_each(|read| read.failed = state.checks.error_of(read.block));
        Ok(())
    }

    fn reads(&self) -> &Reads {
        &self.reads
    }
}

impl OpenCl {
    /// Queues a copy of the results of checks, if some are pending: their numbers, and the table,
    /// which is there when the queue has been waited for.
    fn copy_found(&self, state: &mut State) -> Result<(Range<u64>, Vec<u64>)> {
        let pending = state.checks.pending();
        let (false, Some(span)) = (pending.is_empty(), state.found) else { return Ok((pending, Vec::new())) };
        let mut table = vec![0_u64; 2 * MAX_CHECKS];
        let slab = borrowed(state.arena.slab(span.slab));
        // SAFETY: any bits are a number
        let bytes = unsafe { std::slice::from_raw_parts_mut(table.as_mut_ptr().cast::<u8>(), 16 * MAX_CHECKS) };
        // SAFETY: the heap memory of the table lives until the caller has waited; the slab lives as
        // long as `self`
        unsafe { self.queue.enqueue_read_buffer(&slab, CL_NON_BLOCKING, span.start, bytes, &[]) }
            .map_err(|error| self.error("cannot be read", error))?;
        Ok((pending, table))
    }

    /// Records copies of the numbers that are read to one block, if there are several.
    fn collect(&self, state: &mut State, reads: &[Readout]) -> Result<Option<Span>> {
        let numbers: Vec<&Readout> = reads.iter().filter(|read| read.is_number()).collect();
        let is_built = |dtype: &DType| state.libraries.contains_key(dtype);
        let (true, Some(dtype)) = (numbers.len() > 1, [DType::F32, DType::F64, DType::I64].into_iter().find(is_built))
        else {
            return Ok(None);
        };
        let kernel = self.kernel(state, dtype, "dl_collect")?;
        let to = self.take(state, NUMBER_BYTES * numbers.len())?;
        let mut recorded = Ok(());
        for (place, Readout { block, start, bytes, .. }) in numbers.into_iter().enumerate() {
            let [from, to_start] = [block.start + start, to.start + NUMBER_BYTES * place].map(|byte| (byte / 4) as u64);
            let copy = layout::Collect { from, to: to_start, words: (bytes.len() / 4) as u64 };
            // each has a place of its own, so they do not depend on each other
            let blocks = [*block, to].into_iter();
            recorded = recorded.and_then(|()| self.record(state, kernel, 1, copy.bytes(), blocks, empty()));
        }
        // it is kept until these launches are queued, and the read follows them at once
        state.give_back(to);
        recorded.map(|()| Some(to))
    }
}

/// The context of the device of this number, one in a process: PoCL guards its compiler by a lock
/// of the context.
fn context_of(number: usize, hardware: &Hardware) -> std::result::Result<Arc<Context>, ClError> {
    static CONTEXTS: Mutex<BTreeMap<usize, Arc<Context>>> = Mutex::new(BTreeMap::new());
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(context) = contexts.get(&number) {
        return Ok(context.clone());
    }
    let context = Arc::new(Context::from_device(hardware)?);
    contexts.insert(number, context.clone());
    Ok(context)
}

/// A handle of a slab that does not own it. The slab must live longer.
fn borrowed(slab: &Buffer<u8>) -> ManuallyDrop<Buffer<u8>> {
    ManuallyDrop::new(Buffer::new(slab.get()))
}
