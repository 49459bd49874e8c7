//! Attention on a device: the softmax between two products, for 64 queries at a time as on the
//! host. Nothing is hidden from keys and values that are not finite, unlike there.

use crate::device::{Comparison, Factors, Instruction, Program, SumOrder, View, not_on_host, product};
use crate::gemm;
use crate::ops::exps_on_device::ExpsOnDevice;
use crate::tensor::{Element, Nd};
use dl_core::{Binary, Result};
use ndarray::IxDyn;
use std::marker::PhantomData;
use std::ops::Range;

/// As in `kernels/attention.rs`.
const ROWS: usize = 64;
const KEYS: usize = 256;

/// Queries, keys, values and the addend of the scores, with the same batch axes, whose number is
/// `batch`.
pub(super) struct AttentionOnDevice<A> {
    pub(super) q: View,
    pub(super) k: View,
    pub(super) v: View,
    pub(super) addend: Option<View>,
    pub(super) causal: bool,
    pub(super) element: PhantomData<A>,
}

impl<A: Element> AttentionOnDevice<A> {
    fn lengths(&self) -> [usize; 4] {
        let last = |view: &View, back: usize| view.shape[view.shape.len() - back];
        [last(&self.q, 2), last(&self.k, 2), last(&self.q, 1), last(&self.v, 1)]
    }

    /// The blocks of queries, each with the number of keys that it may attend to.
    fn blocks(&self) -> Result<Vec<(Range<usize>, usize)>> {
        let [length, keys, ..] = self.lengths();
        if keys > KEYS {
            return Err(not_on_host(&**self.q.device()).context(format_args!("attention to more than {KEYS} keys")));
        }
        let visible = |rows: &Range<usize>| if self.causal { rows.end.min(keys) } else { keys };
        let rows = (0..length).step_by(ROWS).map(|start| start..(start + ROWS).min(length));
        Ok(rows.map(|rows| (rows.clone(), visible(&rows))).collect())
    }

    fn weights(&self, rows: &Range<usize>, keys: usize) -> Result<View> {
        let scores = self.product(part(&self.q, rows), turned(part(&self.k, &(0..keys))))?;
        let (device, shape) = (scores.device().clone(), scores.shape.clone());
        let axes = shape.len();
        let mut program = Program::new(A::ELEMENT);
        let nothing = program.number(f64::NEG_INFINITY);
        let mut score = program.load(scores);
        if let Some(addend) = &self.addend {
            let addend = program.load(part(addend, rows).sliced(axes - 1, 0, keys, 1));
            let hides = program.compare(Comparison::Equal, addend, nothing);
            let sum = program.binary(Binary::Add, score, addend);
            score = program.select(hides, nothing, sum);
        }
        if self.causal {
            let [row, column] = [2, 1].map(|last| program.push(Instruction::Position(axes - last)));
            let first = program.number(rows.start as f64);
            let row = program.binary(Binary::Add, row, first);
            let is_later = program.compare(Comparison::Greater, column, row);
            program.select(is_later, nothing, score);
        }
        let scores = Nd::<A, IxDyn>::from_view(program.run(&device, A::ELEMENT, &shape)?);
        let weights = ExpsOnDevice::of(&scores, axes - 1)?.softmax_or_zero()?;
        Ok(weights.0.on_device()?.expect("it lies on a device"))
    }

    fn product(&self, a: View, b: View) -> Result<View> {
        let axes = a.shape.len();
        let shape = [&a.shape[..axes - 1], &[b.shape[axes - 1]]].concat();
        product(Factors { a, b, row: None, relu: false, accumulators: gemm::accumulators::<A>() }, &shape)
    }

    fn like(&self, view: &View, rows: usize, columns: usize) -> Result<View> {
        let batch = &view.shape[..view.shape.len() - 2];
        let all = View::new(view.device(), A::ELEMENT, &[batch, &[rows, columns]].concat())?;
        all.fill(0.0)?;
        Ok(all)
    }

    /// The result, in row-major order.
    pub(super) fn value(&self) -> Result<View> {
        let [length, _, _, depth] = self.lengths();
        let result = self.like(&self.q, length, depth)?;
        for (rows, keys) in self.blocks()?.into_iter().filter(|(_, keys)| *keys > 0) {
            let weights = self.weights(&rows, keys)?;
            self.product(weights, part(&self.v, &(0..keys)))?.copy_to(&part(&result, &rows))?;
        }
        Ok(result)
    }

    /// The deltas of queries, keys and values, each in row-major order, one after the other.
    pub(super) fn deltas(&self, output: View, delta: View) -> Result<View> {
        let [length, keys, width, depth] = self.lengths();
        let [dq, dk, dv] = [(length, width), (keys, width), (keys, depth)].map(|(m, n)| self.like(&self.q, m, n));
        let (dq, dk, dv) = (dq?, dk?, dv?);
        let last = output.shape.len() - 1;
        let dots = combined(Binary::Mul, &output, &delta)?.sum_in_order(last, SumOrder::InEights)?;
        for (rows, keys) in self.blocks()?.into_iter().filter(|(_, keys)| *keys > 0) {
            let p = self.weights(&rows, keys)?;
            let seen = 0..keys;
            let (q, k, v) = (part(&self.q, &rows), part(&self.k, &seen), part(&self.v, &seen));
            let delta = part(&delta, &rows);
            add(&part(&dv, &seen), self.product(turned(p.clone()), delta.clone())?)?;
            let slopes = self.product(delta, turned(v))?;
            let slopes = combined(Binary::Mul, &p, &combined(Binary::Sub, &slopes, &part(&dots, &rows))?)?;
            add(&part(&dq, &rows), self.product(slopes.clone(), k)?)?;
            add(&part(&dk, &seen), self.product(turned(slopes), q)?)?;
        }
        let all = View::new(dq.device(), A::ELEMENT, &[dq.len() + dk.len() + dv.len()])?;
        let mut start = 0;
        for part in [dq, dk, dv] {
            let len = part.len();
            part.reshaped(&[len])?.copy_to(&all.clone().sliced(0, start, len, 1))?;
            start += len;
        }
        Ok(all)
    }
}

/// Some rows of matrices.
fn part(view: &View, rows: &Range<usize>) -> View {
    view.clone().sliced(view.shape.len() - 2, rows.start, rows.len(), 1)
}

fn turned(view: View) -> View {
    let mut order: Vec<usize> = (0..view.shape.len()).collect();
    order.swap(view.shape.len() - 2, view.shape.len() - 1);
    view.permuted(&order)
}

fn combined(op: Binary, a: &View, b: &View) -> Result<View> {
    let mut program = Program::new(a.dtype);
    let (x, y) = (program.load(a.clone()), program.load(b.clone()));
    program.binary(op, x, y);
    program.run(a.device(), a.dtype, &a.shape)
}

/// Adds a view to another one.
fn add(to: &View, terms: View) -> Result<()> {
    let mut program = Program::new(to.dtype);
    let (x, y) = (program.load(to.clone()), program.load(terms));
    program.binary(Binary::Add, x, y);
    program.write(to)
}
