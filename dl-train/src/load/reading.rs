//! Reading of the values of weights and buffers.

use super::Load;
use super::matching::{Piece, Pieces};
use crate::file::dtype::{is_quantized, is_readable_as};
use crate::file::{Role, TensorFile, describe, quoted};
use crate::layout::{Layout, with_axes_exchanged};
use dl_core::{DType, Entry, Error, NewValue, Numbers, Result};

impl Load {
    /// The value of a weight or buffer. The file may contain it under several of its paths.
    pub(super) fn value(
        &self,
        first: &Entry,
        paths: &Pieces<'_>,
        layout: Layout,
        file: &TensorFile,
        prefix: &str,
    ) -> Result<NewValue> {
        let mut value: Option<Numbers> = None;
        for (entry, pieces) in paths {
            let mut numbers = self.numbers(entry, &pieces[0], file, prefix)?;
            for piece in &pieces[1..] {
                numbers.append(self.numbers(entry, piece, file, prefix)?)?;
            }
            if self.exchanges(layout, entry) {
                numbers = with_axes_exchanged(&self.shape(layout, entry), &numbers);
            }
            if value.as_ref().is_some_and(|others| others.to_le_bytes() != numbers.to_le_bytes()) {
                let [one, other] = [paths[0].0.path(), entry.path()].map(quoted);
                let error = format!("{one} and {other} are tied in the module, but differ in the file");
                return Err(file.with_name(&Error::invalid(error)));
            }
            value = Some(numbers);
        }
        let value = value.expect("a planned value has at least one path");
        first.check(&first.shape(), value).map_err(|error| file.with_name(&error))
    }

    /// The checked elements of a tensor.
    fn numbers(&self, entry: &Entry, piece: &Piece<'_>, file: &TensorFile, prefix: &str) -> Result<Numbers> {
        let (tensor, dtype) = (format!("{prefix}{}", piece.name), entry.dtype());
        let numbers = if is_quantized(piece.info.dtype, dtype) {
            self.dequantized(piece, file, prefix, dtype)?
        } else {
            file.numbers_in(&tensor, dtype, piece.elements.clone())?
        };
        if !self.allow_non_finite {
            let role = if entry.is_weight() { Role::Learned } else { Role::Buffer };
            role.check(&tensor, &numbers).map_err(|error| file.with_name(&error))?;
        }
        Ok(numbers)
    }

    /// `(q − zero point) · scale`
    fn dequantized(&self, piece: &Piece<'_>, file: &TensorFile, prefix: &str, wanted: DType) -> Result<Numbers> {
        let tensor = format!("{prefix}{}", piece.name);
        let all: usize = piece.info.shape.iter().product();
        let rows = piece.info.shape.first().copied().unwrap_or(1);
        let factors = |pattern: &Option<String>, default: f64| -> Result<Vec<f64>> {
            let name = pattern.as_ref().map(|pattern| pattern.replace("{}", &tensor));
            let Some((name, info)) = name.and_then(|name| file.info(&name).map(|info| (name.clone(), info))) else {
                return Ok(vec![default]);
            };
            let count: usize = info.shape.iter().product();
            let rest: usize = info.shape.iter().skip(1).product();
            let readable = is_readable_as(info.dtype, DType::F64, true) || is_quantized(info.dtype, DType::F64);
            if !readable || count != 1 && (count != rows || rest != 1) {
                let text = format!(
                    "{} is {}: not one number, and not one for each of {rows} rows",
                    quoted(&name),
                    describe(info)
                );
                return Err(file.with_name(&Error::shape(text).context(quoted(&tensor))));
            }
            match file.numbers(&name, DType::F64)? {
                Numbers::F64(row) => Ok(row),
                _ => unreachable!("numbers have the type that is asked for"),
            }
        };
        let (scale, zero) = (factors(&self.scale, 1.0)?, factors(&self.zero_point, 0.0)?);
        let Numbers::F64(integers) = file.numbers_in(&tensor, DType::F64, piece.elements.clone())? else {
            unreachable!("numbers have the type that is asked for")
        };
        let row = |element: usize, factors: &[f64]| factors[if factors.len() == 1 { 0 } else { element * rows / all }];
        let exact = integers.iter().zip(piece.elements.clone());
        let exact = exact.map(|(q, element)| (q - row(element, &zero)) * row(element, &scale));
        Ok(match wanted {
            DType::F32 => Numbers::F32(exact.map(|x| x as f32).collect()),
            _ => Numbers::F64(exact.collect()),
        })
    }
}
