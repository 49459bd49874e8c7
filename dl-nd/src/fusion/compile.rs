//! Compiles lazy tensors into a program: value numbering, instruction selection (`select.rs`),
//! register allocation. Each expression and each operand occurs once in a program, and a register
//! is free after its last use.

use super::program::{
    BroadcastOperand, BroadcastStrides, Instruction, MAX_RESULTS, Opcode, Program, vector_nanoseconds,
};
use super::select::{COPY_NANOSECONDS, Selection, Value, Values};
use super::{multi_output, prefetch};
use crate::device::{Code, Instruction as DeviceInstruction, View};
use crate::tensor::{Element, Expr, LazyTensor, Nd, Rank, Storage, row_major_copy};
use dl_core::{Binary, Error, Result, Unary};
use ndarray::{ArcArray, IxDyn};
use std::sync::Arc;

impl<A: Element> Program<A> {
    /// Compiles the program of some lazy tensors. It also computes the expensive intermediate
    /// tensors that have other owners; they are returned with the indices of their results.
    ///
    /// When `sums`, the first of the tensors is only summed, and the results are those of the
    /// others.
    pub(super) fn of<D: Rank>(tensors: &[&LazyTensor<A, D>], sums: bool) -> (Self, CachedResults<A, D>) {
        let mut compiler = Compiler::<A, D>::new(tensors[0].shape());
        let mut results: Vec<usize> = Vec::with_capacity(MAX_RESULTS);
        for lazy in tensors {
            let mut value = compiler.lazy(lazy);
            let computed = matches!(compiler.values[value], Value::Unary(..) | Value::Binary(..) | Value::Broadcast(_));
            if !computed || results.contains(&value) {
                compiler.values.push(Value::Copy(value));
                value = compiler.values.len() - 1;
            }
            results.push(value);
        }
        let kept = compiler.kept(&mut results);
        (compiler.finish(&results, sums), kept)
    }
}

/// A program for a device, with its operands and the numbers in it.
pub(super) struct DeviceProgram<A: Element, D: Rank> {
    pub(super) code: Code,
    pub(super) numbers: Vec<f64>,
    /// Repeated to the shape of the results.
    pub(super) operands: Vec<View>,
    pub(super) kept: CachedResults<A, D>,
}

impl<A: Element, D: Rank> DeviceProgram<A, D> {
    /// The same values as [`Program::of`], for the device of these lazy tensors.
    ///
    /// # Errors
    /// Those of the device, which computes operands of other shapes first.
    pub(super) fn of(tensors: &[&LazyTensor<A, D>]) -> Result<Self> {
        let mut compiler = Compiler::<A, D>::new(tensors[0].shape());
        let mut results: Vec<usize> = tensors.iter().map(|lazy| compiler.lazy(lazy)).collect();
        let kept = compiler.kept(&mut results);
        let uses = Values(&compiler.values).uses(&results);
        let Compiler { shape, values, views, failed, .. } = compiler;
        let (mut instructions, mut numbers, mut operands) = (Vec::new(), Vec::new(), Vec::new());
        // the position of the instruction of each value
        let mut places = vec![0; values.len()];
        for (index, value) in values.iter().enumerate().filter(|&(index, _)| uses[index] > 0) {
            instructions.push(match *value {
                Value::Number(number) => {
                    numbers.push(number.to_f64().expect("a number"));
                    DeviceInstruction::Number(numbers.len() - 1)
                }
                Value::View(view) => {
                    operands.push(views[view].clone().broadcast(shape.slice()));
                    DeviceInstruction::Load(operands.len() - 1)
                }
                Value::Unary(op, x) => DeviceInstruction::Unary(op, places[x]),
                Value::Binary(op, a, b) => DeviceInstruction::Binary(op, places[a], places[b]),
                Value::Whole(_) | Value::Broadcast(_) | Value::Copy(_) => {
                    unreachable!("the operands have been found to lie on the device")
                }
            });
            places[index] = instructions.len() - 1;
        }
        let results = results.into_iter().map(|result| places[result]).collect();
        match failed {
            Some(error) => Err(error),
            None => {
                let code = Code { element: A::ELEMENT, instructions, results };
                Ok(DeviceProgram { code, numbers, operands, kept })
            }
        }
    }
}

/// A program seldom has more values, or more operands: its tables need not grow while it is
/// compiled.
const TYPICAL_VALUES: usize = 32;
const TYPICAL_OPERANDS: usize = 8;

/// Intermediate lazy tensors that are stored, each with the index of its result.
pub(super) type CachedResults<A, D> = Vec<(Arc<LazyTensor<A, D>>, usize)>;

/// State of the compilation.
struct Compiler<'a, A: Element, D: Rank> {
    shape: &'a D,
    values: Vec<Value<A>>,
    operands: Vec<ArcArray<A, IxDyn>>,
    broadcasts: Vec<BroadcastOperand<A>>,
    views: Vec<View>,
    /// The first error of the device that has the operands.
    failed: Option<Error>,
    /// The values of lazy tensors, by address.
    known: Vec<(usize, usize)>,
    expensive: Vec<ExpensiveValue<A, D>>,
}

/// A lazy tensor that takes longer to compute than to load. Its elements are stored if it has other
/// owners, which may need them later.
struct ExpensiveValue<A: Element, D: Rank> {
    lazy: Arc<LazyTensor<A, D>>,
    value: usize,
    /// The number of its uses as an operand in the program.
    uses: usize,
}

impl<'a, A: Element, D: Rank> Compiler<'a, A, D> {
    fn new(shape: &'a D) -> Self {
        Compiler {
            shape,
            values: Vec::with_capacity(TYPICAL_VALUES),
            operands: Vec::with_capacity(TYPICAL_OPERANDS),
            broadcasts: Vec::new(),
            views: Vec::new(),
            failed: None,
            known: Vec::with_capacity(TYPICAL_VALUES),
            expensive: Vec::new(),
        }
    }

    /// Adds the expensive intermediate tensors that have other owners to the results.
    fn kept(&mut self, results: &mut Vec<usize>) -> CachedResults<A, D> {
        let wanted = results.len();
        let mut kept = Vec::new();
        for ExpensiveValue { lazy, value, uses } in std::mem::take(&mut self.expensive) {
            // owners other than this handle and the expressions of the program
            if Arc::strong_count(&lazy) <= 1 + uses || results[..wanted].contains(&value) {
                continue;
            }
            match results.iter().position(|&result| result == value) {
                // another lazy tensor with the same expression
                Some(result) => kept.push((lazy, result)),
                None if results.len() < MAX_RESULTS => {
                    kept.push((lazy, results.len()));
                    results.push(value);
                }
                None => {}
            }
        }
        kept
    }

    fn lazy(&mut self, lazy: &LazyTensor<A, D>) -> usize {
        let address = std::ptr::from_ref(lazy).addr();
        if let Some(&(_, value)) = self.known.iter().find(|(known, _)| *known == address) {
            return value;
        }
        let value = match lazy.operation() {
            // another thread has computed it since
            None => return self.operand(lazy.compute()),
            Some(Expr::Repeat(x)) => self.tensor(&x),
            Some(Expr::Unary(op, x)) => {
                let x = self.tensor(&x);
                self.push(Value::Unary(op, x))
            }
            Some(Expr::Binary(op, a, b)) => {
                let (a, b) = (self.tensor(&a), self.tensor(&b));
                self.binary(op, a, b)
            }
            Some(Expr::WithNumber { op, number, left, x }) => {
                let x = self.tensor(&x);
                let number = self.number(number);
                let (a, b) = if left { (number, x) } else { (x, number) };
                self.binary(op, a, b)
            }
        };
        self.known.push((address, value));
        value
    }

    fn tensor(&mut self, x: &Nd<A, D>) -> usize {
        let Some(lazy) = x.lazy() else { return self.operand(&x.0) };
        if lazy.shape() != self.shape && lazy.device().is_some() {
            return self.operand(&x.0);
        }
        let value = self.lazy(lazy);
        match self.expensive.iter_mut().find(|expensive| Arc::ptr_eq(&expensive.lazy, lazy)) {
            Some(expensive) => expensive.uses += 1,
            None if self.values[value].is_expensive() => {
                self.expensive.push(ExpensiveValue { lazy: lazy.clone(), value, uses: 1 });
            }
            None => {}
        }
        value
    }

    /// A binary operation, simplified: a factor 1, as at the start of the backward pass, is
    /// dropped, and a sum with a negated term becomes a difference.
    fn binary(&mut self, op: Binary, a: usize, b: usize) -> usize {
        let is_one = |value: usize| matches!(self.values[value], Value::Number(number) if number == A::of(1.0));
        let negated = |value: usize| match self.values[value] {
            Value::Unary(Unary::Neg, x) => Some(x),
            _ => None,
        };
        let (op, a, b) = match (op, negated(a), negated(b)) {
            (Binary::Add, _, Some(b)) => (Binary::Sub, a, b),
            (Binary::Add, Some(a), None) => (Binary::Sub, b, a),
            (Binary::Sub, _, Some(b)) => (Binary::Add, a, b),
            _ => (op, a, b),
        };
        match op {
            Binary::Mul | Binary::StrongMul if is_one(a) => b,
            Binary::Mul | Binary::StrongMul if is_one(b) => a,
            _ => self.push(Value::Binary(op, a, b)),
        }
    }

    /// Adds a value, unless there is an equal one: pullback rules often repeat an expression of the
    /// forward pass.
    fn push(&mut self, value: Value<A>) -> usize {
        let known = self.values.iter().position(|known| match (known, &value) {
            (Value::Unary(known, x), Value::Unary(op, y)) => (known, x) == (op, y),
            (Value::Binary(known, a, b), Value::Binary(op, c, d)) => (known, a, b) == (op, c, d),
            _ => false,
        });
        known.unwrap_or_else(|| {
            self.values.push(value);
            self.values.len() - 1
        })
    }

    fn number(&mut self, number: A) -> usize {
        let same = |value: &Value<A>| matches!(value, Value::Number(other) if is_same(*other, number));
        match self.values.iter().position(same) {
            Some(value) => value,
            None => self.push(Value::Number(number)),
        }
    }

    fn operand(&mut self, storage: &Storage<A, D>) -> usize {
        if storage.device().is_some() {
            return match storage.on_device() {
                Ok(view) => self.view(view.expect("it lies on a device")),
                Err(error) => {
                    self.failed.get_or_insert(error);
                    self.number(A::zero())
                }
            };
        }
        let array: &ArcArray<A, D> = storage;
        if array.len() == 1 {
            return self.number(*array.first().expect("one element"));
        }
        let same = |other: &ArcArray<A, IxDyn>| {
            other.as_ptr() == array.as_ptr() && other.shape() == array.shape() && other.strides() == array.strides()
        };
        let known = self.values.iter().position(|value| match *value {
            Value::Whole(index) => same(&self.operands[index]),
            Value::Broadcast(index) => same(&self.broadcasts[index].array),
            _ => false,
        });
        known.unwrap_or_else(|| {
            let array = array.clone().into_dyn();
            let array = if array.is_standard_layout() { array } else { row_major_copy(array.view()).into_shared() };
            let is_whole = array.shape() == self.shape.slice();
            let value = if is_whole {
                self.operands.push(array);
                Value::Whole(self.operands.len() - 1)
            } else {
                let strides = BroadcastStrides::of(array.shape(), self.shape.slice());
                self.broadcasts.push(BroadcastOperand { array, strides });
                Value::Broadcast(self.broadcasts.len() - 1)
            };
            self.push(value)
        })
    }

    fn view(&mut self, view: View) -> usize {
        let is_same = |other: &View| {
            other.span() == view.span()
                && other.offset == view.offset
                && other.shape == view.shape
                && other.strides == view.strides
        };
        let known =
            self.values.iter().position(|value| matches!(*value, Value::View(index) if is_same(&self.views[index])));
        known.unwrap_or_else(|| {
            self.views.push(view);
            self.push(Value::View(self.views.len() - 1))
        })
    }

    /// Allocates slots and emits the program. `results` are its results, in this order; when
    /// `sums`, the first of them is only summed.
    fn finish(self, results: &[usize], sums: bool) -> Program<A> {
        let values = Values(&self.values);
        let uses = values.uses(results);
        let inlined = values.inlined(&uses, results);
        let mut selections: Vec<Option<Selection>> = Vec::with_capacity(self.values.len());
        for (index, value) in self.values.iter().enumerate() {
            let is_instruction = uses[index] > 0 && !inlined[index] && value.is_computed();
            selections.push(is_instruction.then(|| values.selection(value, &inlined)));
        }
        multi_output::join(&mut selections, |value, before| {
            value < before || matches!(self.values[value], Value::Whole(_))
        });
        let mut last_use = vec![0; self.values.len()];
        for (index, selection) in selections.iter().enumerate() {
            selection.iter().flat_map(|selection| selection.reads).for_each(|read| last_use[read] = index);
        }
        let mut program = Program {
            shape: self.shape.slice().to_vec(),
            operands: self.operands,
            broadcasts: self.broadcasts,
            numbers: Vec::new(),
            instructions: Vec::with_capacity(self.values.len()),
            prefetch_plan: Vec::new(),
            registers: 0,
            summed: None,
            results: results.len() - usize::from(sums),
        };
        let first_result = program.operands.len();
        let first_register = first_result + program.results;
        let mut free: Vec<usize> = Vec::new();
        // inlined values have no slot
        let mut slots: Vec<Option<usize>> = (self.values.iter())
            .map(|value| if let Value::Whole(operand) = *value { Some(operand) } else { None })
            .collect();
        // constants keep their register
        let keeps = |value: usize| matches!(self.values[value], Value::Number(_));
        for index in 0..self.values.len() {
            if uses[index] == 0 || self.values[index].is_computed() && selections[index].is_none() {
                continue;
            }
            let mut slot = |value: usize| {
                let is_summed = sums && results[0] == value;
                let slot = match results.iter().position(|&result| result == value) {
                    Some(result) if !is_summed => first_result + result - usize::from(sums),
                    _ => match if keeps(value) { None } else { free.pop() } {
                        Some(register) => register,
                        None => {
                            program.registers += 1;
                            first_register + program.registers - 1
                        }
                    },
                };
                if is_summed {
                    program.summed = Some(slot);
                }
                slots[value] = Some(slot);
                slot
            };
            match self.values[index] {
                Value::Whole(_) | Value::View(_) => {}
                // a constant that is a result is copied by an instruction
                Value::Number(number) => program.numbers.push((number, slot(index))),
                Value::Broadcast(part) => {
                    let opcode = Opcode::Load(part, slot(index));
                    program
                        .instructions
                        .push(Instruction { opcode, nanoseconds: vector_nanoseconds(COPY_NANOSECONDS) });
                }
                _ => {
                    let selection = selections[index].as_ref().expect("it is an instruction");
                    let to: Vec<usize> =
                        std::iter::once(index).chain(selection.extra_outputs.iter().copied()).map(slot).collect();
                    let reads = selection.reads.map(|read| slots[read].expect("operands come before their users"));
                    program.instructions.push(selection.compile(reads, &to));
                }
            }
            // free the operands after the outputs have slots: LLVM does not vectorize a loop that
            // may write where it reads
            for x in selections[index].iter().flat_map(|selection| selection.reads) {
                if last_use[x] == index
                    && !keeps(x)
                    && let Some(register) = slots[x].filter(|&slot| slot >= first_register)
                    && program.summed != Some(register)
                    && !free.contains(&register)
                {
                    free.push(register);
                }
            }
        }
        program.prefetch_plan = program.plan_prefetch(prefetch::register_bytes());
        program
    }
}

/// Equality of bits, except that all NaN are equal.
fn is_same<A: Element>(a: A, b: A) -> bool {
    a == b && a.is_sign_negative() == b.is_sign_negative() || a.is_nan() && b.is_nan()
}
