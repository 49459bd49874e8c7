//! Tensors of `monadic-dl` on devices.
//!
//! Users add the `monadic-dl` package with the feature `gpu`, which re-exports this crate as
//! `dl::gpu`.
//!
//! [`open`] gives a device, to which tensors and modules are moved: see [`dl_nd::device`]. The only
//! back-end yet is OpenCL. Its library is loaded at run time: the build needs neither headers nor a
//! driver, and on a machine without OpenCL `open` returns an error.
//!
//! ```
//! use dl_core::{Differentiable, Weight};
//! use dl_nd::{MoveModule, Nd, ops::*};
//! use dl_optim::Sgd;
//!
//! let Ok(gpu) = dl_gpu::open() else { return Ok(()) };
//! let w = Weight::new(Nd::<f32, _>::full([4, 2], 0.5));
//! w.move_to(&gpu)?;
//! let x = Nd::<f32, _>::full([8, 4], 1.0).to(&gpu)?;
//! let loss = (x.matmul(&w) - 3.0).square().mean();
//! let before = loss.predict().wait()?;
//! for _ in 0..10 {
//!     loss.train(&Sgd::new(0.1)).wait()?;
//! }
//! assert!(loss.predict().wait()? < before);
//! assert!(w.value().to_host()?.view().iter().all(|x| x.is_finite()));
//! # dl_core::Result::Ok(())
//! ```
//!
//! # Bits
//!
//! Results have the bits of the host, if that has fused multiply-adds: the formulas of the
//! elementary functions and the orders of sums and products are the host's. Exceptions: `sinh`,
//! `cosh` and `asinh`; of `f64` also `sin`, `cos`, `tan`, `asin`, `acos`, `atan` and powers; sums
//! of tensors that the host has in another layout than row-major order; and means and norms with
//! sums that overflow or underflow.
//!
//! # Files
//!
//! `words/` has the words in which dialects differ; the other sources use these words only. The
//! words of CUDA are there for a check: all kernels compile, but nothing launches them yet.

#![deny(unsafe_code)]

mod checks;
#[allow(unsafe_code, reason = "bytes of the arguments of kernels")]
mod layout;
#[allow(unsafe_code, reason = "calls of OpenCL: see the module")]
mod opencl;
mod source;

#[doc(hidden)] // for tests
pub use opencl::Settings;

use dl_core::{Error, Result};
use dl_nd::device::Device;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Opens a device: the first one of OpenCL, a GPU if there is one. The environment variable
/// `DL_DEVICE` selects another: `opencl:1` is the second one. A device that is open is returned
/// again, so that tensors of both callers are on one place.
///
/// ```
/// match dl_gpu::open() {
///     Ok(gpu) => println!("tensors can be moved to {}", gpu.name()),
///     Err(error) => assert!(error.to_string().contains("OpenCL")),
/// }
/// ```
///
/// # Errors
/// When there is no such device, or no library of OpenCL. The message names both.
pub fn open() -> Result<Arc<dyn Device>> {
    static OPEN: Mutex<Option<Weak<dyn Device>>> = Mutex::new(None);
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = open.as_ref().and_then(Weak::upgrade) {
        return Ok(device);
    }
    let device = open_with(Settings::default())?;
    *open = Some(Arc::downgrade(&device));
    Ok(device)
}

#[doc(hidden)] // for the check that they compile
pub fn sources_of_cuda() -> Vec<(String, String)> {
    source::of_cuda()
}

#[doc(hidden)] // for tests
pub fn open_with(settings: Settings) -> Result<Arc<dyn Device>> {
    let wanted = std::env::var("DL_DEVICE").unwrap_or_default();
    let number = match wanted.split_once(':').unwrap_or((&wanted, "0")) {
        ("" | "opencl", number) => number.parse().ok(),
        _ => None,
    };
    let Some(number) = number else {
        return Err(Error::invalid(format!(
            "`DL_DEVICE` is `{wanted}`, but the devices are `opencl` and `opencl:1`, `opencl:2`, …"
        )));
    };
    opencl::OpenCl::open(number, settings).map(|device| Arc::new(device) as Arc<dyn Device>)
}
