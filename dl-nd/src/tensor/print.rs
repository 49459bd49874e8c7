//! Printing of tensors, as NumPy prints arrays.

use super::{Item, Nd, Rank};
use dl_core::Data;
use ndarray::{ArrayViewD, Axis};
use std::fmt::{self, Write};

/// A tensor with more elements is shortened to the ends of its axes.
const LONGEST: usize = 1000;

/// The number of elements that are printed at either end of a shortened axis.
const AT_ENDS: usize = 3;

/// The length of a line, in characters.
const LINE: usize = 75;

/// The elements in brackets, in columns of equal width; `{:.3?}` sets the number of decimals. More
/// than a thousand elements are shortened to the ends of each axis, unless the format is `{:#?}`. Of
/// a tensor on a device the type, the shape and the device.
///
/// ```
/// use dl_nd::Nd;
/// let x = Nd::from([[1.0, -2.5], [30.0, 4.0]]);
/// assert_eq!(format!("{x:?}"), "[[ 1.0, -2.5],\n [30.0,  4.0]]");
/// assert_eq!(format!("{:?}", Nd::<f32, _>::full(2000, 0.0)), "[0.0, 0.0, 0.0, ..., 0.0, 0.0, 0.0]");
/// ```
impl<A: Item, D: Rank> fmt::Debug for Nd<A, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(device) = self.0.device() {
            return write!(f, "{} on {}", self.describe(), device.name());
        }
        let x = self.0.view().into_dyn();
        if x.is_empty() && x.ndim() > 1 {
            return write!(f, "[], shape={:?}", x.shape());
        }
        let shown = Shown { shorten: x.len() > LONGEST && !f.alternate(), decimals: f.precision(), width: 0 };
        let width = shown.width(&x);
        Shown { width, ..shown }.write(f, &x, 0)
    }
}

/// As `{:?}`.
///
/// ```
/// assert_eq!(dl_nd::Nd::from([1, 20]).to_string(), "[ 1, 20]");
/// ```
impl<A: Item, D: Rank> fmt::Display for Nd<A, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

struct Shown {
    shorten: bool,
    decimals: Option<usize>,
    /// The width of an element, in characters.
    width: usize,
}

impl Shown {
    fn text<A: Item>(&self, x: &A) -> String {
        self.decimals.map_or_else(|| format!("{x:?}"), |decimals| format!("{x:.decimals$?}"))
    }

    /// The positions along an axis; `None` stands for those that are left out.
    fn positions(&self, length: usize) -> impl Iterator<Item = Option<usize>> {
        let ends = if self.shorten && length > 2 * AT_ENDS { AT_ENDS } else { length };
        let gap = (ends < length).then_some(None);
        (0..ends).map(Some).chain(gap).chain((length - ends..length).filter(move |_| ends < length).map(Some))
    }

    /// The width of the widest element.
    fn width<A: Item>(&self, x: &ArrayViewD<'_, A>) -> usize {
        match x.shape().first() {
            None => x.first().map_or(0, |x| self.text(x).len()),
            Some(&length) => {
                let parts = self.positions(length).flatten();
                parts.map(|i| self.width(&x.index_axis(Axis(0), i))).max().unwrap_or(0)
            }
        }
    }

    fn write<A: Item>(&self, f: &mut fmt::Formatter<'_>, x: &ArrayViewD<'_, A>, depth: usize) -> fmt::Result {
        let Some(&length) = x.shape().first() else {
            return x.iter().try_for_each(|x| write!(f, "{:>width$}", self.text(x), width = self.width));
        };
        f.write_char('[')?;
        let mut column = depth + 1;
        for (number, position) in self.positions(length).enumerate() {
            let new_lines = match x.ndim() {
                1 => usize::from(column + self.width + 2 > LINE),
                axes => axes - 1,
            };
            if number > 0 && new_lines > 0 {
                write!(f, ",{}{:indent$}", "\n".repeat(new_lines), "", indent = depth + 1)?;
                column = depth + 1;
            } else if number > 0 {
                f.write_str(", ")?;
            }
            column += self.width + 2;
            match position {
                None => f.write_str("...")?,
                Some(i) => self.write(f, &x.index_axis(Axis(0), i), depth + 1)?,
            }
        }
        f.write_char(']')
    }
}
