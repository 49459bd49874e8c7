//! The memory of values that are gone, for the values that come.
//!
//! A tensor of some megabytes costs more to get from the system, page by page, than to compute. So the executor hands a dead value back
//! to its type ([`Data::recycle`](crate::Data::recycle)), which may leave its buffer here, and a kernel takes one of the right size from here.
//!
//! ```
//! let mut buffer: Vec<f32> = dl_core::buffers::take(1_000);
//! buffer.resize(1_000, 0.0);
//! dl_core::buffers::give_back(buffer);
//! ```

use super::context::with_computing;
use crate::rules::Number;

/// The free buffers of a pass. They go with it.
#[derive(Default)]
pub struct Buffers {
    pub(crate) f32: Vec<Vec<f32>>,
    pub(crate) f64: Vec<Vec<f64>>,
    pub(super) reused: usize,
}

impl Buffers {
    pub(super) fn clear(&mut self) {
        self.f32.clear();
        self.f64.clear();
        self.reused = 0;
    }
}

/// So many free ones are kept of each type: a value dies about when the next one is born.
const KEPT: usize = 4;
/// Less than this, the allocator has at hand.
const WORTH_KEEPING_BYTES: usize = 1 << 10;

/// An empty vector with room for `len` numbers: a free buffer of about that size of the pass that this thread computes for, else a
/// new one.
///
/// # Panics
/// When there is no memory for them. In the kernel of an operation that makes an error of the pass.
pub fn take<A: Number>(len: usize) -> Vec<A> {
    let free = if worth_keeping::<A>(len) {
        with_computing(|pass| {
            let mut buffers = pass?.buffers();
            let free = A::free_buffers(&mut buffers);
            let fits = |buffer: &Vec<A>| (len..=len + len / 4).contains(&buffer.capacity());
            let place = free.iter().position(fits)?;
            let buffer = free.swap_remove(place);
            buffers.reused += 1;
            Some(buffer)
        })
    } else {
        None
    };
    free.unwrap_or_else(|| {
        let mut new = Vec::new();
        if new.try_reserve_exact(len).is_err() {
            panic!("there is no memory for {len} numbers");
        }
        new
    })
}

/// Leaves a buffer to the pass that this thread computes for, if there is one and the buffer is worth keeping.
pub fn give_back<A: Number>(mut buffer: Vec<A>) {
    if !worth_keeping::<A>(buffer.capacity()) {
        return;
    }
    buffer.clear();
    with_computing(|pass| {
        if let Some(pass) = pass {
            let mut buffers = pass.buffers();
            let free = A::free_buffers(&mut buffers);
            free.push(buffer);
            if free.len() > KEPT {
                free.remove(0);
            }
        }
    });
}

fn worth_keeping<A>(len: usize) -> bool {
    len >= WORTH_KEEPING_BYTES / size_of::<A>()
}
