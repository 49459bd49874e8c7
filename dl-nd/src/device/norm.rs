//! Euclidean norms on a device.

use super::{Instruction, Program, Read, View, Work};
use dl_core::{Binary, DType, LaterNumber, Result, Unary, scaled_norm};

impl View {
    /// The sum of the squares of the elements in `f64`. Waits for the device.
    pub(crate) fn squared_norm(self) -> Result<f64> {
        let mut squares = Program::new(DType::F64);
        let x = squares.load(self.clone());
        squares.push(Instruction::Unary(Unary::Square, x));
        Read::new(squares.run(self.device(), DType::F64, &self.shape)?.sum_all(&[1])?)?.number()
    }

    /// Queues the Euclidean norm of the elements, computed in `f64` as [`dl_core::Chunk::norm`]
    /// does. The returned function waits for it.
    pub(crate) fn norm(&self) -> Result<LaterNumber> {
        if self.is_empty() {
            return Ok(Box::new(|| Ok(0.0)));
        }
        let run = |program: Program| program.run(self.device(), DType::F64, &self.shape);
        let largest = match self.dtype {
            DType::F32 => None,
            _ => {
                let mut sizes = Program::new(DType::F64);
                let x = sizes.load(self.clone());
                sizes.push(Instruction::Unary(Unary::Abs, x));
                let axes: Vec<usize> = (0..self.shape.len()).collect();
                Some(run(sizes)?.fold_axes(Binary::Max, &axes, 0.0)?)
            }
        };
        let mut squares = Program::new(DType::F64);
        let mut x = squares.load(self.clone());
        if let Some(largest) = &largest {
            let largest = squares.load(largest.clone());
            x = squares.binary(Binary::Div, x, largest);
        }
        squares.push(Instruction::Unary(Unary::Square, x));
        let sum = View::new(self.device(), DType::F64, &[1])?;
        self.device().launch(&Work::SumAll { of: &run(squares)?, to: &sum })?;
        let (largest, sum) = (largest.map(Read::new).transpose()?, Read::new(sum)?);
        Ok(Box::new(move || {
            let (largest, sum) = (largest.map_or(Ok(1.0), Read::number)?, sum.number()?);
            Ok(scaled_norm(largest, || sum))
        }))
    }
}
