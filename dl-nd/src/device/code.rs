//! Pointwise programs, in the form in which devices get them.

#![allow(missing_docs, reason = "for the crates that implement devices")]

use dl_core::{Binary, Unary};

/// An instruction. Its operands are the results of instructions before it, by their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// The element of an operand, by the number of the operand.
    Load(usize),
    /// A number that the launch passes, by its position. A number is no part of the code, since
    /// every step may have another learning rate.
    Number(usize),
    Unary(Unary, usize),
    Binary(Binary, usize, usize),
}

/// A straight-line program for each element of a result. It is the key of its kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Code {
    pub instructions: Vec<Instruction>,
    /// The instructions whose results are stored, in the order of the tensors.
    pub results: Vec<usize>,
}

impl Code {
    /// The program that copies its only operand.
    pub(crate) fn copy() -> Self {
        Code { instructions: vec![Instruction::Load(0)], results: vec![0] }
    }

    /// The program that adds its two operands.
    pub(crate) fn sum() -> Self {
        let sum = Instruction::Binary(Binary::Add, 0, 1);
        Code { instructions: vec![Instruction::Load(0), Instruction::Load(1), sum], results: vec![2] }
    }

    /// The program that fills a tensor with its only number.
    pub(crate) fn fill() -> Self {
        Code { instructions: vec![Instruction::Number(0)], results: vec![0] }
    }
}
