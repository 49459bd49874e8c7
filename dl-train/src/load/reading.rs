//! Reading of the values of weights and buffers.

use super::Load;
use super::matching::{Piece, Pieces};
use crate::file::dtype::{is_quantized, is_readable_as};
use crate::file::{Role, TensorFile, describe, quoted};
use crate::layout::{Layout, with_axes_exchanged};
use dl_core::{DType, Entry, Error, Numbers, Result};
use std::collections::HashMap;

/// Where the values of weights and buffers of a module are in a file. They have been
/// [checked](Plan::check), and are read again when they are set: beside the module, memory holds one
/// of them.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(super) load: Load,
    pub(super) layout: Layout,
    pub(super) file: &'a TensorFile,
    pub(super) prefix: String,
    /// What to set, its shape, and its paths that are in the file.
    pub(super) values: Vec<(Entry, Vec<usize>, Pieces<'a>)>,
}

impl Plan<'_> {
    /// Reads all values and drops each, so that nothing but a file that changes meanwhile can fail
    /// when they are set.
    pub(super) fn check(&self) -> Result<()> {
        self.values.iter().try_for_each(|(entry, shape, paths)| {
            let checked = self.value(paths).and_then(|value| entry.check(shape, value));
            checked.map(drop).map_err(|error| self.file.with_name(&error))
        })
    }

    /// Sets the values of these plans in one commit.
    ///
    /// # Errors
    /// When a weight has two values or another shape than before, a step that is being taken holds one,
    /// or a file has changed; then nothing is set. When a file has become unreadable; then the weights
    /// before are set. Errors do not name the file.
    #[track_caller]
    pub(crate) fn set_all(plans: &[Plan<'_>]) -> Result<()> {
        plans.iter().try_for_each(|plan| plan.file.check_unchanged())?;
        Self::write_all(plans)
    }

    #[track_caller]
    fn write_all(plans: &[Plan<'_>]) -> Result<()> {
        let all = || plans.iter().flat_map(|plan| plan.values.iter().map(move |value| (plan, value)));
        let places: HashMap<u64, _> = all().map(|(plan, (entry, _, paths))| (entry.id(), (plan, paths))).collect();
        let entries: Vec<_> = all().map(|(_, (entry, shape, _))| (entry.clone(), shape.clone())).collect();
        let mut set = 0;
        Entry::set_each(&entries, |entry| {
            let (plan, paths) = places[&entry.id()];
            let value = plan.value(paths).map_err(|error| {
                let count = entries.len();
                error.context(format!("{set} of {count} weights and buffers are set; reading the others again failed"))
            })?;
            set += 1;
            Ok(value)
        })
    }

    /// The value of a weight or buffer. The file may contain it under several of its paths.
    fn value(&self, paths: &Pieces<'_>) -> Result<Numbers> {
        let mut value: Option<Numbers> = None;
        for (entry, pieces) in paths {
            let mut numbers = self.numbers(entry, &pieces[0])?;
            for piece in &pieces[1..] {
                numbers.append(self.numbers(entry, piece)?)?;
            }
            if self.load.exchanges(self.layout, entry) {
                numbers = with_axes_exchanged(&self.load.shape(self.layout, entry), &numbers);
            }
            if value.as_ref().is_some_and(|others| others.to_le_bytes() != numbers.to_le_bytes()) {
                let [one, other] = [paths[0].0.path(), entry.path()].map(quoted);
                return Err(Error::invalid(format!(
                    "{one} and {other} are tied in the module, but differ in the file"
                )));
            }
            value = Some(numbers);
        }
        Ok(value.expect("a planned value has at least one path"))
    }

    /// The checked elements of a tensor.
    fn numbers(&self, entry: &Entry, piece: &Piece<'_>) -> Result<Numbers> {
        let (tensor, dtype) = (format!("{}{}", self.prefix, piece.name), entry.dtype());
        let numbers = if is_quantized(piece.info.dtype, dtype) {
            self.dequantized(piece, &tensor, dtype)?
        } else {
            self.file.numbers_in(&tensor, dtype, piece.elements.clone())?
        };
        if !self.load.allow_non_finite {
            let role = if entry.is_weight() { Role::Learned } else { Role::Buffer };
            role.check(&tensor, &numbers)?;
        }
        Ok(numbers)
    }

    /// `(q − zero point) · scale`
    fn dequantized(&self, piece: &Piece<'_>, tensor: &str, wanted: DType) -> Result<Numbers> {
        let file = self.file;
        let all: usize = piece.info.shape.iter().product();
        let rows = piece.info.shape.first().copied().unwrap_or(1);
        let factors = |pattern: &Option<String>, default: f64| -> Result<Vec<f64>> {
            let name = pattern.as_ref().map(|pattern| pattern.replace("{}", tensor));
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
                return Err(Error::shape(text).context(quoted(tensor)));
            }
            match file.numbers(&name, DType::F64)? {
                Numbers::F64(row) => Ok(row),
                _ => unreachable!("numbers have the type that is asked for"),
            }
        };
        let (scale, zero) = (factors(&self.load.scale, 1.0)?, factors(&self.load.zero_point, 0.0)?);
        let Numbers::F64(integers) = file.numbers_in(tensor, DType::F64, piece.elements.clone())? else {
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

#[cfg(test)]
mod tests {
    use super::Plan;
    use crate::file::TensorFile;
    use crate::{Load, save_weights};
    use dl_core::{Result, Weight};
    use dl_nd::Nd;
    use std::fs::OpenOptions;

    #[test]
    fn file_truncated_after_check_is_refused_and_reported_with_count_of_set_weights() -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net.safetensors");
        save_weights(&[1.0, 2.0].map(Weight::<f64>::new), &path)?;
        let net = [5.0, 6.0].map(Weight::<f64>::new);
        let file = TensorFile::open(&path)?;
        let (plan, _) = Load::strict().prepare(&net, &file, "", false)?;
        assert_eq!((net[0].value(), net[1].value()), (5.0, 6.0), "checking sets nothing");

        let opened = OpenOptions::new().write(true).open(&path).unwrap();
        opened.set_len(opened.metadata().unwrap().len() - 8).unwrap();
        let plans = std::slice::from_ref(&plan);
        let error = Plan::set_all(plans).unwrap_err().to_string();
        assert!(error.contains("has changed"), "{error}");
        assert_eq!((net[0].value(), net[1].value()), (5.0, 6.0));
        // as if it were truncated while it is read again
        let error = Plan::write_all(plans).unwrap_err().to_string();
        assert!(error.contains("1 of 2 weights and buffers are set") && error.contains("\"1\""), "{error}");
        assert_eq!((net[0].value(), net[1].value()), (1.0, 6.0));
        Load::strict().weights(&net, &path).unwrap_err();
        net[1].set(7.0); // nothing is locked any more
        assert_eq!(net[1].value(), 7.0);
        Ok(())
    }

    #[test]
    fn weight_with_another_shape_after_check_is_refused_before_any_is_set() -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net.safetensors");
        let net = |rows, columns| [[1, 1], [rows, columns]].map(|shape| Weight::new(Nd::<f32>::full(shape, 0.5)));
        save_weights(&net(2, 3), &path)?;
        let net = net(2, 3);
        let file = TensorFile::open(&path)?;
        let (plan, _) = Load::strict().prepare(&net, &file, "", false)?;
        let old = Nd::full([1, 1], 4.0);
        net[0].set(old.clone());
        net[1].set(Nd::full([3, 2], 4.0));
        let error = Plan::set_all(&[plan]).unwrap_err().to_string();
        assert!(error.contains("`1` has shape [3, 2]"), "{error}");
        assert_eq!(net[0].value(), old);
        Ok(())
    }
}
