//! A device without hardware, which counts.

use super::{Code, Counters, Device, OutOfRange, Queue, Reads, Span, View, Work};
use dl_core::{DType, Result};
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
    /// The blocks that were given out. No two are equal, so that launches depend on each other only
    /// if their tensors do.
    blocks: usize,
}

/// What equal kernels have in common: a name, the type of the elements, and a program.
type Kernel = (&'static str, DType, Option<Code>);

impl State {
    fn new_span(&mut self, bytes: usize) -> Span {
        self.blocks += 1;
        Span { slab: 0, start: self.blocks, bytes }
    }

    fn record(&mut self, kernel: Kernel, threads: u64, reads: &[Span], writes: &[Span]) {
        self.queue.record(kernel, threads, &[], reads, writes);
        if self.queue.is_full() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.counters.launches += self.queue.take().0.count() as u64;
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
        state.counters
    }

    fn allocate(&self, bytes: usize) -> Result<Span> {
        let state = &mut *self.state();
        state.counters.take(bytes);
        Ok(state.new_span(bytes))
    }

    fn free(&self, span: Span) {
        self.state().counters.bytes_in_use -= span.bytes as u64;
    }

    fn write(&self, _: Span, bytes: &[u8]) -> Result<()> {
        self.state().counters.bytes_up += bytes.len() as u64;
        Ok(())
    }

    fn launch(&self, work: &Work<'_>) -> Result<()> {
        let state = &mut *self.state();
        let (reads, writes) = work.views();
        let reads: Vec<Span> = reads.iter().map(|view| view.span()).collect();
        let writes: Vec<Span> = writes.iter().map(View::span).collect();
        let code = match *work {
            Work::Map { code, .. } => Some(code.clone()),
            _ => None,
        };
        let kernel = (work.kernel(), work.dtype(), code);
        if let Work::SumAll { .. } = work {
            let sums = [state.new_span(0)];
            state.record(kernel, work.threads(), &reads, &sums);
            state.record(("dl_sum_of_chunks", work.dtype(), None), 1, &sums, &writes);
        } else {
            state.record(kernel, work.threads(), &reads, &writes);
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.state().flush();
        Ok(())
    }

    fn check(&self, of: &View, _: usize, _: Option<usize>, _: OutOfRange) -> Result<()> {
        self.state().record(("dl_check", of.dtype, None), 1, &[of.span()], &[]);
        Ok(())
    }

    fn read(&self, _: Span, bytes: &mut [u8]) -> Result<()> {
        bytes.fill(0);
        let state = &mut *self.state();
        state.flush();
        state.counters.syncs += 1;
        state.counters.bytes_down += bytes.len() as u64;
        Ok(())
    }

    fn read_all(&self, reads: &mut [(Span, Vec<u8>)]) -> Result<()> {
        let state = &mut *self.state();
        state.flush();
        state.counters.syncs += 1;
        state.counters.bytes_down += reads.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        Ok(())
    }

    fn reads(&self) -> &Reads {
        &self.reads
    }
}
