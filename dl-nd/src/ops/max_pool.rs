//! The maximum of each region of a channel, and the positions where it is.

use crate::device::{self, ScatterOrder, View, Work, not_on_host};
use crate::gemm;
use crate::kernels::{SPATIAL, Window, Windows2x2, pad_spatial};
use crate::ops::interpolate::{AxisMap, bin};
use crate::ops::window::{check_batch, size};
use crate::tensor::{Element, Nd, Rank, tensor_of_shape, zeros};
use dl_core::simd::vectorized;
use dl_core::{Along, At, BuiltIn, DType, Data, Error, Layer, Nothing, Primitive, Result, parallel};
use std::iter::StepBy;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// The maximum of each region of each channel.
#[track_caller]
pub(crate) fn maxima<A: Element, D: Rank, const N: usize>(
    name: &'static str,
    x: Layer<Nd<A, D>>,
    regions: [Region; N],
) -> Layer<Nd<A, D>> {
    let positions = Layer::apply_built_in(MaxPool { name, regions: regions.into(), types: PhantomData }, (x.clone(),));
    Layer::apply_built_in(GatherMaxima { missing: A::neg_infinity(), rank: PhantomData }, (x, positions))
}

/// For each window of a max pooling, the position of its maximum in the same sample and channel.
#[derive(Clone)]
struct MaxPositions {
    shape: Arc<[usize]>,
    positions: PositionTable,
}

#[derive(Clone)]
enum PositionTable {
    /// Row-major indices into the channel.
    Flat(Arc<Vec<u32>>),
    /// Positions 0 to 3 within windows of 2 × 2.
    Windows2x2(Windows2x2, Arc<Vec<u8>>),
    Device(View),
}

impl MaxPositions {
    fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The estimated time to gather or scatter one element, in nanoseconds.
    fn nanoseconds_each(&self) -> f64 {
        match self.positions {
            PositionTable::Flat(_) | PositionTable::Device(_) => 1.5,
            PositionTable::Windows2x2(..) => 0.5,
        }
    }
}

/// The position of the maximum of a window that covers padding only.
const NO_POSITION: u32 = u32::MAX;

/// Positions are not differentiable; their delta is [`Nothing`].
impl Data for MaxPositions {
    type Delta = Nothing;

    fn one(&self) -> Nothing {
        Nothing
    }

    fn bytes(&self) -> usize {
        match &self.positions {
            PositionTable::Flat(positions) => size_of_val(&positions[..]),
            PositionTable::Windows2x2(_, positions) => positions.len(),
            PositionTable::Device(positions) => 8 * positions.len(),
        }
    }
}

/// The regions along one axis that a maximum is taken over.
#[derive(Clone, Copy)]
pub(crate) enum Region {
    /// A moving window, and whether the last one may be incomplete.
    Window(Window, bool),
    /// So many bins.
    Bins(usize),
}

impl Region {
    const POINT: Region = Region::Window(Window::POINT, false);

    /// The number of regions.
    fn outputs(self, shape: &[usize], axis: usize) -> Result<usize> {
        match self {
            Region::Window(window, ceil) => window.outputs(shape, axis, ceil),
            Region::Bins(length) => AxisMap::Adaptive { length }.outputs(shape, axis),
        }
    }

    /// The indices of the elements in region `at` of `outputs`.
    fn positions(self, at: usize, length: usize, outputs: usize) -> StepBy<Range<usize>> {
        match self {
            Region::Window(window, _) => window.positions(at, length),
            Region::Bins(_) => bin(at, length, outputs).step_by(1),
        }
    }
}

/// Finds the position of the first maximum in each region.
#[derive(Clone)]
struct MaxPool<A, D> {
    name: &'static str,
    regions: Arc<[Region]>,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for MaxPool<A, D> {
    type Operands = (Layer<Nd<A, D>>,);
    type Output = MaxPositions;

    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<MaxPositions> {
        check_batch("input", x.shape(), self.regions.len())?;
        let mut shape = x.shape().to_vec();
        for (axis, region) in (2..).zip(&*self.regions) {
            shape[axis] = region.outputs(x.shape(), axis)?;
        }
        let len = size::<u32>(&shape)?;
        if let Some(view) = x.0.on_device()? {
            let positions = PositionTable::Device(self.on_device(view, &shape)?);
            return Ok(MaxPositions { shape: shape.into(), positions });
        }
        if len == 0 {
            return Ok(MaxPositions { shape: shape.into(), positions: PositionTable::Flat(Arc::default()) });
        }
        let (lengths, outputs) = (pad_spatial(&x.shape()[2..], 1), pad_spatial(&shape[2..], 1));
        let regions = pad_spatial(&self.regions, Region::POINT);
        let x = x.0.as_standard_layout();
        let x = x.as_slice().expect("in standard layout");
        let channels: Vec<&[A]> = x.chunks_exact(lengths.iter().product()).collect();
        let each = len / channels.len();
        let positions = if let Some(windows_2x2) = windows_2x2(regions, lengths, outputs) {
            let positions = for_each_channel(&channels, each, 0, 0.25, |channel, positions| {
                windows_2x2.first_maxima(channel, positions)
            });
            PositionTable::Windows2x2(windows_2x2, Arc::new(positions))
        } else {
            if channels[0].len() >= NO_POSITION as usize {
                return Err(Error::shape(format!(
                    "a channel of shape {lengths:?} has too many elements for 32-bit positions"
                )));
            }
            let axes = Axes::of(regions, lengths, outputs);
            let nanoseconds = self.nanoseconds(1);
            let find = |channel: &[A], positions: &mut [u32]| axes.first_maxima(channel, positions);
            PositionTable::Flat(Arc::new(for_each_channel(&channels, each, NO_POSITION, nanoseconds, find)))
        };
        Ok(MaxPositions { shape: shape.into(), positions })
    }

    fn pullback(&self, _: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>,) {
        (None,)
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        200.0 + self.nanoseconds(x.len())
    }
}

impl<A: Element, D: Rank> BuiltIn for MaxPool<A, D> {
    const IS_PURE: bool = true;
}

impl<A, D> MaxPool<A, D> {
    fn on_device(&self, x: View, shape: &[usize]) -> Result<View> {
        let of = x.contiguous()?;
        let to = View::new(of.device(), DType::U64, shape)?;
        let (lengths, outputs) = (pad_spatial(&of.shape[2..], 1), pad_spatial(&shape[2..], 1));
        let regions = pad_spatial(&self.regions, Region::POINT);
        let regions = std::array::from_fn(|axis| {
            let (length, outputs) = (lengths[axis], outputs[axis]);
            match regions[axis] {
                Region::Window(Window { kernel, stride, padding, dilation, .. }, _) => {
                    device::Region { kernel, stride, padding, dilation, length, outputs }
                }
                Region::Bins(_) => device::Region { kernel: 0, stride: 1, padding: 0, dilation: 1, length, outputs },
            }
        });
        if !to.is_empty() {
            let maxima = device::Maxima { of: &of, to: &to, channels: shape[0] * shape[1], regions };
            to.device().launch(&Work::Maxima(maxima))?;
        }
        Ok(to)
    }

    /// The estimated time for `len` input elements, in nanoseconds.
    fn nanoseconds(&self, len: usize) -> f64 {
        let overlap = |region: &Region| match region {
            Region::Window(window, _) => window.kernel as f64 / window.stride as f64,
            Region::Bins(_) => 1.0,
        };
        let each: f64 = self.regions.iter().map(overlap).product();
        len as f64 * each.max(1.0)
    }
}

/// The regions as windows of 2 × 2, if that is what they are.
fn windows_2x2(regions: [Region; SPATIAL], lengths: [usize; SPATIAL], outputs: [usize; SPATIAL]) -> Option<Windows2x2> {
    let mut windows = [Window::POINT; SPATIAL];
    for (to, region) in windows.iter_mut().zip(regions) {
        let Region::Window(window, _) = region else { return None };
        *to = window;
    }
    Windows2x2::of(windows, lengths, outputs)
}

/// Calls `find` for each channel, which writes `each` positions, initially `nowhere`. `nanoseconds`
/// is the estimated time per input element.
fn for_each_channel<A: Element, P: Copy + Send>(
    channels: &[&[A]],
    each: usize,
    nowhere: P,
    nanoseconds: f64,
    find: impl Fn(&[A], &mut [P]) + Sync,
) -> Vec<P> {
    let mut positions = vec![nowhere; channels.len() * each];
    let mut parts: Vec<&mut [P]> = positions.chunks_exact_mut(each).collect();
    let nanoseconds = nanoseconds * channels[0].len() as f64;
    parallel::for_each_mut(&mut parts, nanoseconds, |i, positions| find(channels[i], positions));
    positions
}

/// The regions of a channel.
struct Axes {
    lengths: [usize; SPATIAL],
    /// For each plane and line of the result, the indices in its regions.
    outer: [Vec<StepBy<Range<usize>>>; 2],
    /// The number of columns of the result.
    outputs: usize,
    columns: Columns,
}

/// The regions of the columns of the result.
enum Columns {
    /// The elements under each tap of a window with this stride: the first column, its element, and
    /// the number of columns.
    Taps(usize, Vec<(usize, usize, usize)>),
    Bins(Vec<Range<usize>>),
}

impl Axes {
    fn of(regions: [Region; SPATIAL], lengths: [usize; SPATIAL], outputs: [usize; SPATIAL]) -> Self {
        let indices = |axis: usize| {
            let all = (0..outputs[axis]).map(move |at| regions[axis].positions(at, lengths[axis], outputs[axis]));
            all.collect::<Vec<_>>()
        };
        let (length, columns) = (lengths[2], outputs[2]);
        let columns = match regions[2] {
            Region::Bins(_) => Columns::Bins((0..columns).map(|at| bin(at, length, columns)).collect()),
            Region::Window(window, _) => {
                let taps = (0..window.kernel).filter_map(|tap| {
                    let inside = window.inside(tap, length, columns);
                    (!inside.is_empty()).then(|| (inside.start, window.position(inside.start, tap), inside.len()))
                });
                Columns::Taps(window.stride, taps.collect())
            }
        };
        Axes { lengths, outer: [indices(0), indices(1)], outputs: outputs[2], columns }
    }

    /// Writes the positions of the first maxima in one channel. NaN counts as the largest number.
    fn first_maxima<A: Element>(&self, channel: &[A], positions: &mut [u32]) {
        let [_, height, width] = self.lengths;
        let [planes, lines] = &self.outer;
        let mut maxima = vec![A::zero(); self.outputs];
        let rows = planes.iter().flat_map(|planes| lines.iter().map(move |lines| (planes, lines)));
        for (positions, (planes, lines)) in positions.chunks_exact_mut(self.outputs).zip(rows) {
            for (plane, line) in planes.clone().flat_map(|plane| lines.clone().map(move |line| (plane, line))) {
                let first = (plane * height + line) * width;
                self.keep_larger_of_line(&channel[first..][..width], first, &mut maxima, positions);
            }
        }
    }

    fn keep_larger_of_line<A: Element>(&self, line: &[A], start: usize, maxima: &mut [A], positions: &mut [u32]) {
        match &self.columns {
            Columns::Bins(bins) => {
                for (bin, (max, position)) in bins.iter().zip(maxima.iter_mut().zip(positions)) {
                    for (at, &x) in (start + bin.start..).zip(&line[bin.clone()]) {
                        keep_if_larger((x, at), max, position);
                    }
                }
            }
            Columns::Taps(stride, taps) => vectorized(
                #[inline(always)]
                || {
                    for &(column, element, count) in taps {
                        let (x, first) = (&line[element..][..(count - 1) * stride + 1], start + element);
                        let (maxima, positions) = (&mut maxima[column..][..count], &mut positions[column..][..count]);
                        match stride {
                            1 => keep_larger::<A, 1>(x, first, maxima, positions),
                            2 => keep_larger::<A, 2>(x, first, maxima, positions),
                            _ => {
                                let all = x.iter().zip(first..).step_by(*stride);
                                for ((&x, at), (max, position)) in all.zip(maxima.iter_mut().zip(positions)) {
                                    keep_if_larger((x, at), max, position);
                                }
                            }
                        }
                    }
                },
            ),
        }
    }
}

/// Keeps the elements at a distance of `STEP` that are larger than the maxima so far, and their
/// positions. `first` is the position of the first element.
#[inline(always)]
fn keep_larger<A: Element, const STEP: usize>(x: &[A], first: usize, maxima: &mut [A], positions: &mut [u32]) {
    let (groups, last) = x.as_chunks::<STEP>();
    for (i, (x, (max, position))) in groups.iter().zip(maxima.iter_mut().zip(&mut *positions)).enumerate() {
        keep_if_larger((x[0], first + i * STEP), max, position);
    }
    if let Some(&x) = last.first() {
        let end = groups.len();
        keep_if_larger((x, first + end * STEP), &mut maxima[end], &mut positions[end]);
    }
}

#[inline(always)]
fn keep_if_larger<A: Element>((x, at): (A, usize), max: &mut A, position: &mut u32) {
    let is_larger = (x > *max) | x.is_nan() | (*position == NO_POSITION);
    *max = if is_larger { x } else { *max };
    *position = if is_larger { at as u32 } else { *position };
}

/// Gathers the elements at the positions; `missing` where a window covers padding only.
#[derive(Clone)]
struct GatherMaxima<A, D> {
    missing: A,
    rank: PhantomData<D>,
}

impl<A: Element, D: Rank> Primitive for GatherMaxima<A, D> {
    type Operands = (Layer<Nd<A, D>>, Layer<MaxPositions>);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "gather_places"
    }

    fn value(&self, (x, positions): (&Nd<A, D>, &MaxPositions)) -> Result<Nd<A, D>> {
        let (shape, len) = (&positions.shape, positions.len());
        if let (PositionTable::Device(at), Some(view)) = (&positions.positions, x.0.on_device()?) {
            let of = view.contiguous()?;
            let (channel, mut strides) = (of.shape[2..].iter().product(), vec![0; shape.len()]);
            strides[..2].copy_from_slice(&of.strides[..2]);
            let of = of.with_axes(shape.to_vec(), strides);
            return of.gathered(at, 1, channel, self.missing != A::zero()).map(Nd::from_view);
        }
        if len == 0 {
            return Ok(tensor_of_shape(shape, Vec::new()));
        }
        let x = x.0.as_standard_layout();
        let x = x.as_slice().expect("in standard layout");
        let channels = shape[0] * shape[1];
        let (channel, windows) = (x.len() / channels, len / channels);
        let elements = gemm::fill_chunks(len, windows, positions.nanoseconds_each() * windows as f64, |i, elements| {
            let (x, part) = (&x[i * channel..(i + 1) * channel], i * windows..(i + 1) * windows);
            match &positions.positions {
                PositionTable::Windows2x2(windows_2x2, positions) => windows_2x2.gather(x, &positions[part], elements),
                PositionTable::Device(view) => not_on_host(&**view.device()).raise(),
                PositionTable::Flat(positions) => {
                    for (to, &position) in elements.iter_mut().zip(&positions[part]) {
                        *to = x.get(position as usize).copied().unwrap_or(self.missing);
                    }
                }
            }
        });
        Ok(tensor_of_shape(shape, elements))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nothing>>) {
        let (shape, element) = (at.values.0.dim(), PhantomData);
        (Some(Layer::apply_built_in(ScatterMaxima { shape, element }, (at.delta.clone(), at.operands.1.clone()))), None)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        let gather = GatherMaxima { missing: A::zero(), rank: PhantomData };
        Some(Layer::apply_built_in(gather, (along.tangents.0.clone()?, along.operands.1.clone())))
    }

    fn cost(&self, (_, positions): (&Nd<A, D>, &MaxPositions)) -> f64 {
        200.0 + positions.nanoseconds_each() * positions.len() as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for GatherMaxima<A, D> {
    const IS_PURE: bool = true;
}

/// The transpose of [`GatherMaxima`]: scatters elements, with addition, into zeros of this shape.
#[derive(Clone)]
struct ScatterMaxima<A, D> {
    shape: D,
    element: PhantomData<A>,
}

impl<A: Element, D: Rank> Primitive for ScatterMaxima<A, D> {
    type Operands = (Layer<Nd<A, D>>, Layer<MaxPositions>);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "scatter_places"
    }

    fn value(&self, (y, positions): (&Nd<A, D>, &MaxPositions)) -> Result<Nd<A, D>> {
        let (shape, len) = (&positions.shape, positions.len());
        if let (PositionTable::Device(at), Some(view)) = (&positions.positions, y.0.on_device()?) {
            let whole = View::new(view.device(), A::ELEMENT, self.shape.slice())?;
            whole.fill(0.0)?;
            if len > 0 {
                let channels = shape[0] * shape[1];
                let lists = |view: View| view.clone().reshaped(&[channels, view.len() / channels]);
                let (at, y) = (lists(at.clone())?, lists(view)?);
                lists(whole.clone())?.add_gathered(1, &at, y, ScatterOrder::InTurn)?;
            }
            return Ok(Nd::from_view(whole));
        }
        if len == 0 {
            return Ok(tensor_of_shape(self.shape.slice(), zeros(self.shape.size())));
        }
        let y = y.0.as_standard_layout();
        let y = y.as_slice().expect("in standard layout");
        let channels = shape[0] * shape[1];
        let (channel, windows) = (self.shape.size() / channels, len / channels);
        let nanoseconds = 0.3 * channel as f64 + positions.nanoseconds_each() * windows as f64;
        let x = gemm::fill_chunks(self.shape.size(), channel, nanoseconds, |i, x: &mut [A]| {
            let part = i * windows..(i + 1) * windows;
            match &positions.positions {
                PositionTable::Windows2x2(windows_2x2, positions) => {
                    windows_2x2.scatter(&y[part.clone()], &positions[part], x)
                }
                PositionTable::Device(view) => not_on_host(&**view.device()).raise(),
                PositionTable::Flat(positions) => {
                    x.fill(A::zero());
                    for (&y, &position) in y[part.clone()].iter().zip(&positions[part]) {
                        if position != NO_POSITION {
                            let x = &mut x[position as usize];
                            *x = *x + y;
                        }
                    }
                }
            }
        });
        Ok(tensor_of_shape(self.shape.slice(), x))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nothing>>) {
        let gather = GatherMaxima { missing: A::of(0.0), rank: PhantomData };
        (Some(Layer::apply_built_in(gather, (at.delta.clone(), at.operands.1.clone()))), None)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        Some(Layer::apply_built_in(self.clone(), (along.tangents.0.clone()?, along.operands.1.clone())))
    }

    fn cost(&self, (_, positions): (&Nd<A, D>, &MaxPositions)) -> f64 {
        200.0 + 0.3 * self.shape.size() as f64 + positions.nanoseconds_each() * positions.len() as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for ScatterMaxima<A, D> {
    const IS_PURE: bool = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_2x2_match_general_windows() {
        let lengths @ [planes, height, width] = [2, 5, 7];
        let outputs @ [_, lines, columns] = [planes, height / 2, width / 2];
        let numbers: [f32; 4] = [1.0, 2.0, 2.0, f32::NAN];
        let half = Window { kernel: 2, stride: 2, padding: 0, padding_end: 0, dilation: 1 };
        let windows = [Window::POINT, half, half];
        let windows_2x2 = Windows2x2::of(windows, lengths, outputs).expect("the windows are 2 by 2");
        let mut state = 1_u32;
        for _ in 0..500 {
            let draw = |_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                numbers[(state >> 28) as usize % 4]
            };
            let channel: Vec<f32> = (0..planes * height * width).map(draw).collect();
            let axes = Axes::of(windows.map(|window| Region::Window(window, false)), lengths, outputs);
            let mut positions = vec![NO_POSITION; planes * lines * columns];
            axes.first_maxima(&channel, &mut positions);
            let mut in_squares = vec![0; positions.len()];
            windows_2x2.first_maxima(&channel, &mut in_squares);
            let position = |(square, in_square): (usize, &u8)| {
                let (plane, line, column) = (square / columns / lines, square / columns % lines, square % columns);
                let (below, right) = (usize::from(in_square / 2), usize::from(in_square % 2));
                ((plane * height + 2 * line + below) * width + 2 * column + right) as u32
            };
            let found: Vec<u32> = in_squares.iter().enumerate().map(position).collect();
            assert_eq!(found, positions, "{channel:?}");

            let mut gathered = vec![0.0; positions.len()];
            windows_2x2.gather(&channel, &in_squares, &mut gathered);
            let bits = |number: f32| number.to_bits();
            assert!(gathered.iter().map(|&x| bits(x)).eq(positions.iter().map(|&at| bits(channel[at as usize]))));
            let mut scattered = vec![7.0; channel.len()];
            windows_2x2.scatter(&gathered, &in_squares, &mut scattered);
            let mut wanted = vec![0.0_f32; channel.len()];
            positions.iter().zip(&gathered).for_each(|(&at, &x)| wanted[at as usize] += x);
            assert!(scattered.into_iter().map(bits).eq(wanted.into_iter().map(bits)), "{channel:?}");
        }
    }

    #[test]
    fn first_maxima_match_loops() {
        let lengths @ [planes, height, width] = [3, 7, 23];
        let channel: Vec<f32> = (0..planes * height * width)
            .map(|i| match i * 7919 % 13 {
                0 => f32::NAN,
                1 => f32::NEG_INFINITY,
                n => (n % 5) as f32,
            })
            .collect();
        let window = |kernel, stride, padding, dilation| {
            Region::Window(Window { kernel, stride, padding, padding_end: padding, dilation }, true)
        };
        let all = [window(3, 1, 1, 1), window(2, 2, 0, 2), window(3, 3, 1, 1), window(5, 4, 2, 1), Region::Bins(5)];
        for regions in all.map(|last| [window(2, 1, 1, 1), window(3, 2, 1, 1), last]) {
            let outputs = std::array::from_fn(|axis| regions[axis].outputs(&lengths, axis).expect("they fit"));
            let mut found = vec![NO_POSITION; outputs.iter().product()];
            Axes::of(regions, lengths, outputs).first_maxima(&channel, &mut found);
            for (number, &found) in found.iter().enumerate() {
                let at = [number / outputs[2] / outputs[1], number / outputs[2] % outputs[1], number % outputs[2]];
                let [planes, lines, columns] =
                    std::array::from_fn(|axis| regions[axis].positions(at[axis], lengths[axis], outputs[axis]));
                let mut first: Option<usize> = None;
                for plane in planes {
                    for line in lines.clone() {
                        for column in columns.clone() {
                            let at = (plane * height + line) * width + column;
                            if first.is_none_or(|first| channel[at] > channel[first] || channel[at].is_nan()) {
                                first = Some(at);
                            }
                        }
                    }
                }
                assert_eq!(found, first.map_or(NO_POSITION, |at| at as u32), "{number}");
            }
        }
    }
}
