//! A device without hardware, which counts.

use super::{Arena, Check, Code, Counters, Device, OutOfRange, Queue, Readout, Reads, Span, View, Work};
use dl_core::{DType, Result};
use std::collections::HashSet;
use std::convert::Infallible;
use std::iter::{empty, once};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A device that computes nothing: it counts kernels, waits and bytes, and every element that is
/// read from it is 0. It shows what a program would do on a device.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_nd::device::{Device, Dry};
/// use dl_nd::{MoveModule, Nd, ops::*};
/// use dl_optim::Sgd;
///
/// let dry = Dry::new();
/// let w = Weight::new(Nd::<f32, _>::full([8, 4], 0.5));
/// w.move_to(&dry)?;
/// let x = Nd::<f32, _>::full([16, 8], 1.0).to(&dry)?;
/// let before = dry.counters();
/// x.matmul(&w).relu().sum().train(&Sgd::new(0.1)).wait()?;
/// let after = dry.counters();
/// assert_eq!(after.syncs - before.syncs, 1); // the value of the loss
/// assert_eq!(after.bytes_up, before.bytes_up);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Default)]
pub struct Dry {
    state: Mutex<State>,
    reads: Reads,
}

#[derive(Default)]
struct State {
    counters: Counters,
    queue: Queue<Kernel>,
    arena: Arena<()>,
    /// What a device has to compile: a library for each type of elements, and pointwise programs.
    built: HashSet<(DType, Option<Code>)>,
}

/// What equal kernels have in common: a name, the type of the elements, and a program.
type Kernel = (&'static str, DType, Option<Code>);

impl State {
    fn take(&mut self, bytes: usize) -> Span {
        self.arena.take(bytes, |_| Ok::<_, Infallible>(())).unwrap_or_else(|never| match never {})
    }

    fn give_back(&mut self, span: Span) {
        if !self.queue.keep(span) {
            self.arena.give_back(span);
        }
    }

    fn record(
        &mut self,
        kernel: Kernel,
        threads: u64,
        reads: impl Iterator<Item = Span> + Clone,
        writes: impl Iterator<Item = (Span, Range<usize>)> + Clone,
    ) {
        if self.queue.is_full() {
            self.flush();
        }
        let (_, dtype, code) = &kernel;
        self.counters.builds += u64::from(self.built.insert((*dtype, code.clone())));
        self.queue.record(kernel, threads, &[], reads, writes);
    }

    fn flush(&mut self) {
        let (groups, freed) = self.queue.take();
        self.counters.launches += groups.count() as u64;
        freed.into_iter().for_each(|span| self.arena.give_back(span));
    }
}

impl Dry {
    /// A new device.
    ///
    /// ```
    /// use dl_nd::device::{Device, Dry};
    /// assert_eq!(Dry::new().name(), "a dry device");
    /// ```
    #[allow(clippy::new_ret_no_self, reason = "a device is used behind a shared pointer")]
    pub fn new() -> Arc<dyn Device> {
        Arc::new(Dry::default())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device for Dry {
    fn name(&self) -> String {
        "a dry device".to_owned()
    }

    fn counters(&self) -> Counters {
        let state = &mut *self.state();
        state.flush();
        Counters { bytes_reserved: state.arena.reserved() as u64, ..state.counters }
    }

    fn allocate(&self, bytes: usize) -> Result<Span> {
        let state = &mut *self.state();
        state.counters.take(bytes);
        Ok(state.take(bytes))
    }

    fn free(&self, span: Span) {
        let state = &mut *self.state();
        state.counters.bytes_in_use -= span.bytes as u64;
        state.give_back(span);
    }

    fn write(&self, _: Span, bytes: &[u8]) -> Result<()> {
        self.state().counters.bytes_up += bytes.len() as u64;
        Ok(())
    }

    fn launch(&self, work: &Work<'_>) -> Result<()> {
        let state = &mut *self.state();
        let (reads, writes) = (work.reads().map(View::span), work.writes().iter().map(View::written));
        let code = match *work {
            Work::Map { code, .. } => Some(code.clone()),
            _ => None,
        };
        let kernel = (work.kernel(), work.dtype(), code);
        if let Work::SumAll { .. } = work {
            let sums = state.take(work.threads() as usize * work.dtype().size());
            state.record(kernel, work.threads(), reads, once((sums, 0..sums.bytes)));
            state.record(("dl_sum_of_chunks", work.dtype(), None), 1, once(sums), writes);
            state.give_back(sums);
        } else {
            state.record(kernel, work.threads(), reads, writes);
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.state().flush();
        Ok(())
    }

    fn check(&self, of: &View, _: usize, _: Option<usize>, _: OutOfRange) -> Result<Check> {
        self.state().record(("dl_check", DType::I64, None), 1, once(of.span()), empty());
        Ok(Check::default())
    }

    fn read(&self, reads: &mut [Readout]) -> Result<()> {
        if reads.iter().all(|read| read.bytes.is_empty()) {
            return Ok(());
        }
        let state = &mut *self.state();
        state.flush();
        state.counters.launches += u64::from(reads.iter().filter(|read| read.is_number()).count() > 1);
        state.counters.syncs += 1;
        state.counters.bytes_down += reads.iter().map(|read| read.bytes.len() as u64).sum::<u64>();
        Ok(())
    }

    fn reads(&self) -> &Reads {
        &self.reads
    }
}
