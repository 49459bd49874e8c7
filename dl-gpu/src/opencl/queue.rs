//! Recorded launches, and the flush that queues them.

use super::{OpenCl, State, borrowed};
use crate::source::GROUP;
use dl_core::Result;
use dl_nd::device::{Group, Span};
use opencl3::kernel::ExecuteKernel;
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, ClMem};
use opencl3::types::CL_NON_BLOCKING;
use smallvec::SmallVec;
use std::ops::Range;
use std::ptr::null_mut;

/// The memory of the arguments of a flush: those of a full queue, and of one more launch.
const TABLE_BYTES: usize = 1 << 19;

/// Bytes on their way to a device that are kept until a wait. Beyond, a write waits.
const MAX_STAGED_BYTES: usize = 1 << 26;

/// A kernel, and the slabs that its pointers are set to.
#[derive(PartialEq)]
pub(super) struct Launched {
    kernel: usize,
    slabs: SmallVec<[usize; 8]>,
}

impl State {
    /// Gives memory back when nothing recorded uses it.
    pub(super) fn give_back(&mut self, span: Span) {
        if !self.queue.keep(span) {
            self.arena.give_back(span);
        }
    }
}

impl OpenCl {
    /// Records a launch that reads and writes these blocks.
    pub(super) fn record(
        &self,
        state: &mut State,
        kernel: usize,
        threads: u64,
        argument: &[u8],
        reads: impl Iterator<Item = Span> + Clone,
        writes: impl Iterator<Item = (Span, Range<usize>)> + Clone,
    ) -> Result<()> {
        if state.queue.is_full() {
            self.launch_recorded(state)?;
        }
        if let Some(lost) = &state.lost {
            return Err(lost.clone());
        }
        if state.table.is_none() {
            state.table = Some(self.take(state, TABLE_BYTES)?);
        }
        let slabs = reads.clone().chain(writes.clone().map(|(span, _)| span)).map(|span| span.slab).collect();
        state.queue.record(Launched { kernel, slabs }, threads, argument, reads, writes);
        Ok(())
    }

    /// Queues the recorded launches.
    pub(super) fn launch_recorded(&self, state: &mut State) -> Result<()> {
        if let Some(lost) = &state.lost {
            return Err(lost.clone());
        }
        if state.queue.is_empty() {
            return Ok(());
        }
        let (groups, freed) = state.queue.take();
        let launched = self.launch_groups(state, groups.collect());
        freed.into_iter().for_each(|span| state.arena.give_back(span));
        state.lost = launched.clone().err();
        launched
    }

    pub(super) fn launch_groups(&self, state: &mut State, groups: Vec<Group<Launched>>) -> Result<()> {
        let table = state.table.expect("it is there when a launch is recorded");
        let arguments = groups.iter().map(|group| &group.arguments[..]).collect::<Vec<_>>().concat();
        self.write_staged(state, Span { bytes: arguments.len(), ..table }, arguments)?;
        let mut start = table.start as u64;
        for Group { kernel: Launched { kernel, slabs }, threads, instances, arguments } in groups {
            let mut call = ExecuteKernel::new(&state.kernels[kernel]);
            slabs.iter().chain([&table.slab]).for_each(|&slab| set(&mut call, &state.arena.slab(slab).get()));
            set(&mut call, &start);
            call.set_global_work_sizes(&[(threads as usize).next_multiple_of(GROUP), instances]);
            call.set_local_work_sizes(&[GROUP, 1]);
            // SAFETY: the arguments have been set; threads beyond those of an instance do nothing
            unsafe { call.enqueue_nd_range(&self.queue) }
                .map_err(|error| self.error("cannot launch a kernel", error))?;
            state.counters.launches += 1;
            start += arguments.len() as u64;
        }
        self.queue.flush().map_err(|error| self.error("cannot launch kernels", error))
    }

    /// Memory of at least so many bytes. Flushes recorded launches, which keep freed memory, if
    /// there is no other.
    pub(super) fn take(&self, state: &mut State, bytes: usize) -> Result<Span> {
        let in_use = state.counters.bytes_in_use;
        let slab = |size| {
            // SAFETY: there is no host memory
            let slab = unsafe { Buffer::create(&self.context, CL_MEM_READ_WRITE, size, null_mut()) };
            slab.map_err(|error| self.error(format_args!("has no {size} bytes left beside {in_use} in use"), error))
        };
        state.arena.take(bytes, slab).or_else(|error| {
            if state.queue.is_empty() {
                return Err(error);
            }
            self.launch_recorded(state)?;
            state.arena.take(bytes, slab)
        })
    }

    /// Queues a copy of these bytes to the device.
    pub(super) fn write_staged(&self, state: &mut State, to: Span, bytes: Vec<u8>) -> Result<()> {
        let fails = |error| self.error("cannot be written to", error);
        if state.staged.1 + bytes.len() > MAX_STAGED_BYTES {
            self.queue.finish().map_err(fails)?;
            state.staged = (Vec::new(), 0);
        }
        let mut slab = borrowed(state.arena.slab(to.slab));
        // SAFETY: `bytes` are kept until the queue has been waited for; the slab lives as long as
        // `self`
        let queued = unsafe { self.queue.enqueue_write_buffer(&mut slab, CL_NON_BLOCKING, to.start, &bytes, &[]) };
        state.staged.1 += bytes.len();
        state.staged.0.push(bytes);
        queued.map(drop).map_err(fails)
    }
}

/// The next argument: memory, or a number.
fn set<T>(call: &mut ExecuteKernel<'_>, argument: &T) {
    // SAFETY: the kernel has an argument of this layout there
    unsafe { call.set_arg(argument) };
}
