//! Pointwise programs, in the form in which devices get them.

#![allow(missing_docs, reason = "for the crates that implement devices")]

use super::{Device, View, Work};
use dl_core::{Binary, DType, Error, Result, Unary};
use std::sync::Arc;

/// A comparison of two elements. `Both` and `Either` are of truth values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    Both,
    Either,
}

/// An instruction. Its operands are the results of instructions before it, by their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// The element of an operand, by the number of the operand, converted to the type of the
    /// program.
    Load(usize),
    /// A number that the launch passes, by its position. A number is no part of the code, since
    /// every step may have another learning rate.
    Number(usize),
    Unary(Unary, usize),
    Binary(Binary, usize, usize),
    /// The position of the element along an axis of the results.
    Position(usize),
    /// 1 or 0.
    Compare(Comparison, usize, usize),
    /// The second operand if the first is not 0, else the third.
    Select([usize; 3]),
}

/// A straight-line program for each element of a result. It is the key of its kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Code {
    /// The type that it computes in: `f32`, `f64`, or `i64`, which has no `Unary` and `Binary`.
    /// Elements are converted when they are loaded and stored.
    pub element: DType,
    pub instructions: Vec<Instruction>,
    /// The instructions of the results, in the order of the tensors.
    pub results: Vec<usize>,
}

/// The type in which a program computes with elements of this type.
fn computed_in(dtype: DType) -> DType {
    match dtype {
        DType::F32 | DType::F64 => dtype,
        _ => DType::I64,
    }
}

/// A program that is being written, for one result, with its operands.
pub(crate) struct Program {
    element: DType,
    instructions: Vec<Instruction>,
    numbers: Vec<f64>,
    operands: Vec<View>,
}

impl Program {
    /// A program that computes with elements of this type.
    pub(crate) fn new(dtype: DType) -> Self {
        Program { element: computed_in(dtype), instructions: Vec::new(), numbers: Vec::new(), operands: Vec::new() }
    }

    pub(crate) fn push(&mut self, instruction: Instruction) -> usize {
        self.instructions.push(instruction);
        self.instructions.len() - 1
    }

    /// An operand, which is broadcast to the shape of the result.
    pub(crate) fn load(&mut self, view: View) -> usize {
        self.operands.push(view);
        self.push(Instruction::Load(self.operands.len() - 1))
    }

    pub(crate) fn number(&mut self, number: f64) -> usize {
        self.numbers.push(number);
        self.push(Instruction::Number(self.numbers.len() - 1))
    }

    pub(crate) fn binary(&mut self, op: Binary, a: usize, b: usize) -> usize {
        self.push(Instruction::Binary(op, a, b))
    }

    pub(crate) fn compare(&mut self, op: Comparison, a: usize, b: usize) -> usize {
        self.push(Instruction::Compare(op, a, b))
    }

    pub(crate) fn select(&mut self, mask: usize, a: usize, b: usize) -> usize {
        self.push(Instruction::Select([mask, a, b]))
    }

    /// Runs the program. Its result is that of its last instruction.
    pub(crate) fn run(self, device: &Arc<dyn Device>, dtype: DType, shape: &[usize]) -> Result<View> {
        let to = View::new(device, dtype, shape)?;
        self.write(&to)?;
        Ok(to)
    }

    /// The same into this view.
    pub(crate) fn write(self, to: &View) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let is_far = |instruction: &Instruction| match *instruction {
            Instruction::Position(axis) => self.element == DType::F32 && to.shape[axis] > 1 << 24,
            _ => false,
        };
        if self.instructions.iter().any(is_far) {
            return Err(Error::shape(format!("positions in {:?} are no numbers of `f32`", to.shape)));
        }
        let of: Vec<View> = self.operands.into_iter().map(|view| view.broadcast(&to.shape)).collect();
        let results = vec![self.instructions.len() - 1];
        let code = Code { element: self.element, instructions: self.instructions, results };
        let to = std::slice::from_ref(to);
        to[0].device().launch(&Work::Map { code: &code, numbers: &self.numbers, of: &of, to })
    }
}
