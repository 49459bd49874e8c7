//! Arguments of kernels, in the layout of the structs of the sources.

use dl_core::{DType, Error, Result};
use dl_nd::device::{Region, View};

/// The number of axes that a kernel can have.
pub(crate) const AXES: usize = 8;
/// The numbers of tensors, of instructions and of numbers of an interpreted program.
pub(crate) const PLACES: usize = 6;
pub(crate) const INSTRUCTIONS: usize = 48;
pub(crate) const NUMBERS: usize = 8;

/// Integers and floating-point numbers without padding between equal ones.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Place {
    offset: u64,
    step: i32,
    strides: [i32; AXES],
    pub(crate) format: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) len: u64,
    rank: u64,
    shape: [u32; AXES],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Program<T> {
    pub(crate) shape: Shape,
    pub(crate) operands: i32,
    pub(crate) results: i32,
    pub(crate) instructions: i32,
    pub(crate) unused: i32,
    pub(crate) code: [u32; INSTRUCTIONS],
    pub(crate) stored: [u32; PLACES],
    pub(crate) numbers: [T; NUMBERS],
    pub(crate) places: [Place; PLACES],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct SumAll {
    pub(crate) of: u64,
    pub(crate) to: u64,
    pub(crate) len: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    pub(crate) of: u64,
    pub(crate) to: u64,
    pub(crate) before: u64,
    pub(crate) len: u64,
    pub(crate) after: u64,
    pub(crate) order: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Check {
    pub(crate) shape: Shape,
    pub(crate) at: Place,
    pub(crate) below: u64,
    pub(crate) except: u64,
    pub(crate) excepts: u64,
    pub(crate) slot: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Collect {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) words: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Gather {
    pub(crate) shape: Shape,
    pub(crate) of: Place,
    pub(crate) at: Place,
    pub(crate) to: Place,
    pub(crate) apart: i64,
    pub(crate) length: u64,
    pub(crate) lowest: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Scatter {
    pub(crate) shape: Shape,
    pub(crate) to: Place,
    pub(crate) at: Place,
    pub(crate) parts: Place,
    pub(crate) count: u64,
    pub(crate) at_apart: i64,
    pub(crate) parts_apart: i64,
    pub(crate) axis: i32,
    pub(crate) order: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Scan {
    pub(crate) of: u64,
    pub(crate) with: u64,
    pub(crate) to: u64,
    pub(crate) before: u64,
    pub(crate) len: u64,
    pub(crate) after: u64,
    pub(crate) op: i32,
    pub(crate) from_end: i32,
    pub(crate) initial: i32,
    pub(crate) unused: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Sort {
    pub(crate) of: u64,
    pub(crate) to: u64,
    pub(crate) before: u64,
    pub(crate) len: u64,
    pub(crate) after: u64,
    pub(crate) count: u64,
    pub(crate) descending: i64,
}

/// Six lengths for each axis.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Maxima {
    pub(crate) of: u64,
    pub(crate) to: u64,
    pub(crate) channels: u64,
    pub(crate) regions: [[u64; 6]; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Conv {
    pub(crate) left: u64,
    pub(crate) right: u64,
    pub(crate) to: u64,
    pub(crate) batch: u64,
    pub(crate) groups: u64,
    pub(crate) inputs: u64,
    pub(crate) outputs: u64,
    pub(crate) by_samples: u64,
    pub(crate) by_rows: u64,
    pub(crate) axes: [[u64; 6]; 3],
    pub(crate) accumulators: i32,
    pub(crate) is_pointwise: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) of: u64,
    pub(crate) to: u64,
    pub(crate) starts: u64,
    pub(crate) factors: u64,
    pub(crate) before: u64,
    pub(crate) length: u64,
    pub(crate) outputs: u64,
    pub(crate) inner: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Dropout<T> {
    pub(crate) of: u64,
    pub(crate) to: u64,
    pub(crate) len: u64,
    pub(crate) below: u64,
    pub(crate) key: [u32; 8],
    pub(crate) scale: T,
    pub(crate) unused: T,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Fold {
    pub(crate) of: u64,
    pub(crate) to: u64,
    pub(crate) before: u64,
    pub(crate) rows: u64,
    pub(crate) after: u64,
    pub(crate) part: u64,
    pub(crate) op: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Product {
    pub(crate) shape: Shape,
    pub(crate) rows: u64,
    pub(crate) depth: u64,
    pub(crate) columns: u64,
    pub(crate) a_row: u64,
    pub(crate) a_term: u64,
    pub(crate) b_column: u64,
    pub(crate) b_term: u64,
    pub(crate) row: u64,
    pub(crate) to: u64,
    pub(crate) a: Place,
    pub(crate) b: Place,
    pub(crate) with_row: i32,
    pub(crate) relu: i32,
    pub(crate) accumulators: i32,
    pub(crate) unused: i32,
}

/// An argument of a kernel: a struct of numbers. Its bytes are copied to the table of a launch, so it
/// must have no padding.
///
/// # Safety
/// The layout must be that of the struct in the source.
pub(crate) unsafe trait Argument: Copy {
    /// Fails to compile if there is padding.
    const HAS_NO_PADDING: ();

    fn bytes(&self) -> &[u8] {
        let () = Self::HAS_NO_PADDING;
        // SAFETY: without padding, all bytes have values
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }
}

macro_rules! arguments {
    ($($name:ty { $($field:ty),* })*) => {$(
        // SAFETY: the struct is `repr(C)`, as the source has it
        unsafe impl Argument for $name {
            const HAS_NO_PADDING: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$field>())*);
        }
    )*};
}

arguments! {
    f32 { f32 }
    f64 { f64 }
    i64 { i64 }
    Place { u64, i32, [i32; AXES], i32 }
    Shape { u64, u64, [u32; AXES] }
    Program<f32> { Shape, i32, i32, i32, i32, [u32; INSTRUCTIONS], [u32; PLACES], [f32; NUMBERS], [Place; PLACES] }
    Program<f64> { Shape, i32, i32, i32, i32, [u32; INSTRUCTIONS], [u32; PLACES], [f64; NUMBERS], [Place; PLACES] }
    Program<i64> { Shape, i32, i32, i32, i32, [u32; INSTRUCTIONS], [u32; PLACES], [i64; NUMBERS], [Place; PLACES] }
    SumAll { u64, u64, u64 }
    Sum { u64, u64, u64, u64, u64, i64 }
    Check { Shape, Place, u64, u64, u64, u64 }
    Collect { u64, u64, u64 }
    Gather { Shape, Place, Place, Place, i64, u64, i64 }
    Scatter { Shape, Place, Place, Place, u64, i64, i64, i32, i32 }
    Scan { u64, u64, u64, u64, u64, u64, i32, i32, i32, i32 }
    Sort { u64, u64, u64, u64, u64, u64, i64 }
    Maxima { u64, u64, u64, [[u64; 6]; 3] }
    Conv { u64, u64, u64, u64, u64, u64, u64, u64, u64, [[u64; 6]; 3], i32, i32 }
    Rows { u64, u64, u64, u64, u64, u64, u64, u64 }
    Dropout<f32> { u64, u64, u64, u64, [u32; 8], f32, f32 }
    Dropout<f64> { u64, u64, u64, u64, [u32; 8], f64, f64 }
    Fold { u64, u64, u64, u64, u64, u64, i64 }
    Product { Shape, u64, u64, u64, u64, u64, u64, u64, u64, u64, Place, Place, i32, i32, i32, i32 }
}

/// The lengths of a window, in the order of the source.
pub(crate) fn region(region: Region) -> [u64; 6] {
    let Region { kernel, stride, padding, dilation, length, outputs } = region;
    [kernel, stride, padding, dilation, length, outputs].map(|length| length as u64)
}

/// The position of the first element of a view in its slab, in elements.
pub(crate) fn offset(view: &View) -> u64 {
    (view.span().start / view.dtype.size() + view.offset) as u64
}

impl Shape {
    pub(crate) fn new(shape: &[usize]) -> Result<Self> {
        if shape.len() > AXES || shape.iter().any(|&length| u32::try_from(length).is_err()) {
            return Err(Error::shape(format!("a tensor of shape {shape:?}: devices take {AXES} axes of 2³² elements")));
        }
        let mut lengths = [1; AXES];
        lengths.iter_mut().zip(shape).for_each(|(to, &length)| *to = length as u32);
        Ok(Shape { len: shape.iter().product::<usize>() as u64, rank: shape.len() as u64, shape: lengths })
    }
}

impl Place {
    pub(crate) const NOWHERE: Place = Place { offset: 0, step: 0, strides: [0; AXES], format: 0 };

    /// The first axes of a view.
    pub(crate) fn of_axes(view: &View, axes: usize) -> Result<Self> {
        let too_far = |_| Error::shape(format!("a view of strides {:?} is too large for a device", view.strides));
        let mut strides = [0; AXES];
        for (to, &stride) in strides.iter_mut().zip(&view.strides[..axes]) {
            *to = i32::try_from(stride).map_err(too_far)?;
        }
        let single = view.strides[..axes].iter().zip(&view.shape).all(|(&stride, &length)| stride == 0 || length == 1);
        let step = match (single, view.is_contiguous() && axes == view.shape.len()) {
            (true, _) => 0,
            (_, true) => 1,
            _ => -1,
        };
        Ok(Place { offset: offset(view), step, strides, format: 0 })
    }

    /// All axes of a view, for a kernel of elements of this type.
    pub(crate) fn new(view: &View, element: DType) -> Result<Self> {
        let format = match view.dtype {
            own if own == element => 0,
            DType::Bool | DType::U8 => 1,
            DType::I32 => 2,
            DType::I64 => 3,
            DType::U64 => 4,
            DType::F32 => 5,
            DType::F64 => 6,
            other => return Err(Error::invalid(format!("elements of `{other}` cannot lie on a device"))),
        };
        Ok(Place { format, ..Place::of_axes(view, view.shape.len())? })
    }
}
