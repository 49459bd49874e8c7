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

use crate::arena::Arena;
use crate::layout::{self, Argument, INSTRUCTIONS, NUMBERS, PLACES, Place, Shape};
use crate::source::{self, GROUP};
use dl_core::{DType, Error, Result};
use dl_nd::device::{Code, Counters, Device, Group, OutOfRange, Queue, Reads, Span, View, Work};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_GPU, Device as Hardware, get_all_devices};
use opencl3::error_codes::ClError;
use opencl3::kernel::{ExecuteKernel, Kernel};
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, ClMem};
use opencl3::program::Program;
use opencl3::types::{CL_BLOCKING, CL_NON_BLOCKING};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The largest number of tensors of a program.
const MANY: usize = 64;

/// The memory of the arguments of a flush: those of a full queue, and of one more launch.
const TABLE_BYTES: usize = 1 << 19;

/// The option without which a division of `f32` may be wrong in its last digits.
const EXACT_DIVISION: &str = "-cl-fp32-correctly-rounded-divide-sqrt";
/// The bit of the configuration of `f32` that says that there is this option.
const HAS_EXACT_DIVISION: u64 = 1 << 7;

/// Checks that are queued without a wait.
const MAX_CHECKS: usize = 256;

/// Bytes on their way to a device that are kept until a wait. Beyond, a write waits.
const MAX_STAGED_BYTES: usize = 1 << 26;

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
    double: bool,
    options: &'static str,
    settings: Settings,
    context: Arc<Context>,
    queue: CommandQueue,
    state: Mutex<State>,
    reads: Reads,
}

struct State {
    arena: Arena<Buffer<u8>>,
    libraries: HashMap<DType, Program>,
    names: HashMap<(DType, &'static str), usize>,
    /// All kernels, by their numbers.
    kernels: Vec<Kernel>,
    /// Pointwise programs, by the formats of their tensors.
    programs: HashMap<Code, Vec<(Vec<i32>, Compiled)>>,
    queue: Queue<Launched>,
    /// The memory of the arguments of a flush. The queue reads it before the next flush writes it.
    table: Option<Span>,
    /// The error of a flush.
    lost: Option<Error>,
    counters: Counters,
    /// The errors of checks that have not been read, and the memory of their results.
    checks: Vec<OutOfRange>,
    found: Option<Span>,
    /// The error of a check before those.
    failed: Option<Error>,
    /// Bytes that the queue may still read, with their number.
    staged: (Vec<Vec<u8>>, usize),
}

/// A kernel, and the slabs that its pointers are set to.
#[derive(PartialEq)]
struct Launched {
    kernel: usize,
    slabs: Vec<usize>,
}

/// A pointwise program: how often it has been used, and its kernel.
#[derive(Default)]
struct Compiled {
    uses: u32,
    kernel: Option<usize>,
}

impl State {
    /// Gives memory back when nothing recorded uses it.
    fn give_back(&mut self, span: Span) {
        if !self.queue.keep(span) {
            self.arena.give_back(span);
        }
    }
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
        let state = Mutex::new(State {
            arena: Arena::new(),
            libraries: HashMap::new(),
            names: HashMap::new(),
            kernels: Vec::new(),
            programs: HashMap::new(),
            queue: Queue::default(),
            table: None,
            lost: None,
            counters: Counters::default(),
            checks: Vec::new(),
            found: None,
            failed: None,
            staged: (Vec::new(), 0),
        });
        Ok(OpenCl { name, double, options, settings, context, queue, state, reads: Reads::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, what: impl Display, error: impl Display) -> Error {
        Error::invalid(format!("{} {what}: {error}", self.name))
    }

    /// Compiles a program.
    fn build(&self, state: &mut State, text: &str) -> Result<Program> {
        state.counters.builds += 1;
        Program::create_and_build_from_source(&self.context, text, self.options)
            .map_err(|log| self.error("cannot compile a kernel", log))
    }

    /// The number of a kernel of this program.
    fn add_kernel(&self, state: &mut State, program: &Program, name: &str) -> Result<usize> {
        let kernel = Kernel::create(program, name);
        state.kernels.push(kernel.map_err(|error| self.error(format_args!("has no kernel `{name}`"), error))?);
        Ok(state.kernels.len() - 1)
    }

    /// The number of the kernel of this name in the library of this type.
    fn kernel(&self, state: &mut State, dtype: DType, name: &'static str) -> Result<usize> {
        if let Some(&kernel) = state.names.get(&(dtype, name)) {
            return Ok(kernel);
        }
        let library = match state.libraries.remove(&dtype) {
            Some(library) => library,
            None => self.build(state, &source::library(dtype, self.double))?,
        };
        let kernel = self.add_kernel(state, &library, name);
        state.libraries.insert(dtype, library);
        state.names.insert((dtype, name), kernel.clone()?);
        kernel
    }

    /// Records a launch that reads and writes these blocks.
    fn record(
        &self,
        state: &mut State,
        kernel: usize,
        threads: u64,
        argument: &[u8],
        reads: &[Span],
        writes: &[Span],
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
        let slabs = reads.iter().chain(writes).map(|span| span.slab).collect();
        state.queue.record(Launched { kernel, slabs }, threads, argument, reads, writes);
        Ok(())
    }

    /// Queues the recorded launches.
    fn launch_recorded(&self, state: &mut State) -> Result<()> {
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

    fn launch_groups(&self, state: &mut State, groups: Vec<Group<Launched>>) -> Result<()> {
        let table = state.table.expect("it is there when a launch is recorded");
        let arguments: Vec<u8> = groups.iter().flat_map(|group| group.arguments.iter().copied()).collect();
        self.write_staged(state, Span { bytes: arguments.len(), ..table }, arguments)?;
        let mut start = table.start as u64;
        for Group { kernel: Launched { kernel, slabs }, threads, instances, arguments } in groups {
            let mut call = ExecuteKernel::new(&state.kernels[kernel]);
            slabs.iter().chain([&table.slab]).for_each(|&slab| set(&mut call, &state.arena.slab(slab).get()));
            set(&mut call, &start);
            call.set_global_work_sizes(&[(threads as usize).next_multiple_of(GROUP), instances]);
            call.set_local_work_sizes(&[GROUP, 1]);
            // SAFETY: the arguments have been set; threads beyond those of their instance do nothing
            unsafe { call.enqueue_nd_range(&self.queue) }
                .map_err(|error| self.error("cannot launch a kernel", error))?;
            state.counters.launches += 1;
            start += arguments.len() as u64;
        }
        self.queue.flush().map_err(|error| self.error("cannot launch kernels", error))
    }

    /// Records a pointwise program.
    fn map<T: Argument + Default>(&self, state: &mut State, work: &Work<'_>, code: &Code, numbers: &[T]) -> Result<()>
    where
        layout::Program<T>: Argument,
    {
        let (of, to) = work.views();
        let views: Vec<&View> = of.into_iter().chain(to).collect();
        let (dtype, shape) = (code.element, Shape::new(&to[0].shape)?);
        let places: Vec<Place> = views.iter().map(|view| Place::new(view, dtype)).collect::<Result<_>>()?;
        let reads: Vec<Span> = views[..views.len() - to.len()].iter().map(|view| view.span()).collect();
        let mut writes: Vec<Span> = to.iter().map(View::span).collect();
        if views.len() > MANY {
            return Err(self.error("cannot run a program", format_args!("it has {} tensors", views.len())));
        }
        let program = state.program(code, &places);
        program.uses = program.uses.saturating_add(1);
        let is_short = code.instructions.len() <= INSTRUCTIONS && views.len() <= PLACES && numbers.len() <= NUMBERS;
        if is_short && program.kernel.is_none() && program.uses < self.settings.compile_from {
            let mut interpreted = layout::Program {
                shape,
                operands: reads.len() as i32,
                results: to.len() as i32,
                instructions: code.instructions.len() as i32,
                unused: 0,
                code: [0; INSTRUCTIONS],
                stored: [0; PLACES],
                numbers: [T::default(); NUMBERS],
                places: [Place::NOWHERE; PLACES],
            };
            fill(&mut interpreted.code, code.instructions.iter().map(|&instruction| source::encoded(instruction)));
            fill(&mut interpreted.stored, code.results.iter().map(|&result| result as u32));
            fill(&mut interpreted.numbers, numbers.iter().copied());
            fill(&mut interpreted.places, places);
            // places that are not used get any memory
            while reads.len() + writes.len() < PLACES {
                writes.push(writes[0]);
            }
            let kernel = self.kernel(state, dtype, "dl_interpret")?;
            return self.record(state, kernel, shape.len, interpreted.bytes(), &reads, &writes);
        }
        let kernel = match program.kernel {
            Some(kernel) => kernel,
            None => {
                let formats: Vec<i32> = places.iter().map(|place| place.format).collect();
                let built = self.build(state, &source::map(code, &formats, numbers.len(), self.double))?;
                let kernel = self.add_kernel(state, &built, "dl_map")?;
                state.program(code, &places).kernel = Some(kernel);
                kernel
            }
        };
        // the geometry of a program
        let mut argument = shape.bytes().to_vec();
        places.iter().for_each(|place| argument.extend_from_slice(place.bytes()));
        numbers.iter().for_each(|number| argument.extend_from_slice(number.bytes()));
        argument.resize((argument.len() + usize::from(numbers.is_empty()) * size_of::<T>()).next_multiple_of(8), 0);
        self.record(state, kernel, shape.len, &argument, &reads, &writes)
    }

    /// Memory of at least so many bytes. What recorded launches keep is given out if there is no other.
    fn take(&self, state: &mut State, bytes: usize) -> Result<Span> {
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
    fn write_staged(&self, state: &mut State, to: Span, bytes: Vec<u8>) -> Result<()> {
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
        state.counters.bytes_up += bytes.len() as u64;
        Ok(())
    }

    fn launch(&self, work: &Work<'_>) -> Result<()> {
        self.queue_work(&mut self.state(), work)
    }

    fn flush(&self) -> Result<()> {
        self.launch_recorded(&mut self.state())
    }

    fn check(&self, of: &View, below: usize, except: Option<usize>, error: OutOfRange) -> Result<()> {
        let state = &mut *self.state();
        if state.checks.len() == MAX_CHECKS {
            self.launch_recorded(state)?;
            let (checks, found) = self.found_by_checks(state)?;
            state.counters.syncs += 1;
            if let Err(error) = self.queue.finish() {
                // the queue may still write it
                std::mem::forget(found);
                return Err(self.error("cannot be waited for", error));
            }
            // a read reports it: an operation that fails may be run again
            state.failed = state.failed.take().or(first_error(checks, &found).err());
        }
        let span = state.found.map_or_else(|| self.take(state, 16 * MAX_CHECKS), Ok)?;
        state.found = Some(span);
        let check = layout::Check {
            shape: Shape::new(&of.shape)?,
            at: Place::new(of, DType::I64)?,
            below: below as u64,
            except: except.unwrap_or(0) as u64,
            excepts: except.is_some().into(),
            slot: (span.start / 8 + 2 * state.checks.len()) as u64,
        };
        let kernel = self.kernel(state, DType::I64, "dl_check")?;
        // each check has a slot of its own, so they do not depend on each other
        self.record(state, kernel, GROUP as u64, check.bytes(), &[of.span(), span], &[])?;
        state.checks.push(error);
        Ok(())
    }

    fn read(&self, from: Span, bytes: &mut [u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (slab, staged, failed, (checks, found)) = {
            let state = &mut *self.state();
            self.launch_recorded(state)?;
            state.counters.syncs += 1;
            state.counters.bytes_down += bytes.len() as u64;
            let found = self.found_by_checks(state)?;
            (borrowed(state.arena.slab(from.slab)), std::mem::take(&mut state.staged), state.failed.take(), found)
        };
        // SAFETY: the call returns when the bytes are there; the slab lives as long as `self`
        let read = unsafe { self.queue.enqueue_read_buffer(&slab, CL_BLOCKING, from.start, bytes, &[]) };
        if let Err(error) = read {
            // the queue may still use them
            std::mem::forget((staged, found));
            return Err(self.error("cannot be read", error));
        }
        failed.map_or_else(|| first_error(checks, &found), Err)
    }

    fn read_all(&self, reads: &mut [(Span, Vec<u8>)]) -> Result<()> {
        let mut state = self.state();
        self.launch_recorded(&mut state)?;
        state.counters.syncs += 1;
        let (checks, found) = self.found_by_checks(&mut state)?;
        let mut queued = Ok(());
        for (from, bytes) in reads.iter_mut().filter(|(_, bytes)| !bytes.is_empty()) {
            state.counters.bytes_down += bytes.len() as u64;
            let slab = borrowed(state.arena.slab(from.slab));
            // SAFETY: the queue is waited for below, before `bytes` can go; the slab lives as long
            // as `self`
            let read = unsafe { self.queue.enqueue_read_buffer(&slab, CL_NON_BLOCKING, from.start, bytes, &[]) };
            queued = queued.and(read.map(|_| ()));
        }
        let (staged, failed) = (std::mem::take(&mut state.staged), state.failed.take());
        drop(state);
        let finished = self.queue.finish();
        if finished.is_err() {
            // the queue may still use them
            std::mem::forget((staged, found));
            reads.iter_mut().for_each(|(_, bytes)| std::mem::forget(std::mem::take(bytes)));
            return finished.map_err(|error| self.error("cannot be read", error));
        }
        queued.map_err(|error| self.error("cannot be read", error))?;
        failed.map_or_else(|| first_error(checks, &found), Err)
    }

    fn reads(&self) -> &Reads {
        &self.reads
    }
}

impl OpenCl {
    /// Queues a copy of the results of the checks, and ends them. The numbers are there when the
    /// queue has been waited for.
    fn found_by_checks(&self, state: &mut State) -> Result<(Vec<OutOfRange>, Vec<u64>)> {
        let checks = std::mem::take(&mut state.checks);
        let mut found = vec![0_u64; 2 * checks.len()];
        if let (false, Some(span)) = (checks.is_empty(), state.found) {
            let slab = borrowed(state.arena.slab(span.slab));
            // SAFETY: any bits are a number
            let bytes =
                unsafe { std::slice::from_raw_parts_mut(found.as_mut_ptr().cast::<u8>(), size_of_val(&found[..])) };
            // SAFETY: the heap memory of `found` lives until the caller has waited; the slab lives
            // as long as `self`
            unsafe { self.queue.enqueue_read_buffer(&slab, CL_NON_BLOCKING, span.start, bytes, &[]) }
                .map_err(|error| self.error("cannot be read", error))?;
        }
        Ok((checks, found))
    }
}

/// The error of the first check that has found an index.
fn first_error(checks: Vec<OutOfRange>, found: &[u64]) -> Result<()> {
    let fails = checks.into_iter().zip(found.as_chunks::<2>().0).find(|(_, found)| found[0] > 0);
    fails.map_or(Ok(()), |(error, &[position, index])| Err(error(position as usize - 1, index as usize)))
}

impl State {
    /// The program with tensors of these formats.
    fn program(&mut self, code: &Code, places: &[Place]) -> &mut Compiled {
        if !self.programs.contains_key(code) {
            self.programs.insert(code.clone(), Vec::new());
        }
        let programs = self.programs.get_mut(code).expect("it was inserted");
        let formats = || places.iter().map(|place| place.format);
        let at = programs.iter().position(|(own, _)| own.iter().copied().eq(formats())).unwrap_or_else(|| {
            programs.push((formats().collect(), Compiled::default()));
            programs.len() - 1
        });
        &mut programs[at].1
    }
}

fn fill<T>(to: &mut [T], from: impl IntoIterator<Item = T>) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = from);
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

/// The next argument: memory, or a number.
fn set<T>(call: &mut ExecuteKernel<'_>, argument: &T) {
    // SAFETY: the kernel has an argument of this layout there
    unsafe { call.set_arg(argument) };
}
