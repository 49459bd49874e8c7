//! Matching of the tensors of a file with the weights and buffers of a module.

use super::Load;
use super::reading::Plan;
use crate::file::dtype::{is_quantized, is_readable_as};
use crate::file::{TensorFile, describe, quoted};
use crate::layout::{Layout, is_exchanged_in_torch};
use crate::names::{Place, Side};
use crate::report::{Misfit, Report};
use dl_core::module::matches;
use dl_core::{Entry, Error, Module, Result};
use safetensors::tensor::TensorInfo;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

/// The tensors of the file for one path of a module: one, or several that are stacked.
struct Found<'a> {
    /// The names of all parts, in order.
    parts: Vec<String>,
    tensors: Vec<Option<FileTensor<'a>>>,
    /// If the tensor is split: which part this path is, of these paths.
    split: Option<(usize, Vec<String>)>,
}

#[derive(Clone, Copy)]
struct FileTensor<'a> {
    name: &'a str,
    info: &'a TensorInfo,
}

/// A range of the elements of a tensor of the file.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    pub(super) name: &'a str,
    pub(super) info: &'a TensorInfo,
    pub(super) elements: Range<usize>,
}

/// The paths of one weight or buffer that are in the file, each with its elements, stacked along
/// axis 0.
pub(super) type Pieces<'a> = Vec<(Entry, Vec<Piece<'a>>)>;

impl Load {
    /// Validates the tensors with names below `prefix` against the module, and reads all of them, one
    /// after the other. Returns where the values to set are; with `only_here` those of entries that are
    /// on this rank.
    pub(crate) fn prepare<'a, M: Module + ?Sized>(
        &self,
        module: &M,
        file: &'a TensorFile,
        prefix: &str,
        only_here: bool,
    ) -> Result<(Plan<'a>, Report)> {
        let entries = module.entries();
        self.check_patterns(&entries)?;
        let layout = self.layout_of(&entries, file, prefix)?;
        let mut tensors = self.tensors(&entries, layout, file, prefix).map_err(|error| file.with_name(&error))?;
        let shapes: HashMap<&str, Vec<usize>> =
            entries.iter().map(|entry| (entry.path(), self.shape(layout, entry))).collect();
        let (mut planned, mut report) = (Vec::new(), Report::default());
        for paths in variables(&entries) {
            let wanted: Vec<&Entry> = paths.iter().copied().filter(|entry| self.selects(entry.path())).collect();
            let found: Vec<_> =
                wanted.iter().filter_map(|entry| Some((*entry, tensors.remove(entry.path())?))).collect();
            let fit = found.iter().map(|(entry, found)| {
                Ok((
                    (*entry).clone(),
                    self.fit(entry, found, layout, &shapes, |name| file.info(&format!("{prefix}{name}")).is_some())?,
                ))
            });
            match fit.collect::<std::result::Result<Pieces<'_>, Misfit>>() {
                _ if wanted.is_empty() => {}
                Ok(pieces) if pieces.is_empty() => report.missing.push(paths[0].path().to_owned()),
                Err(misfit) => report.misshapen.push(misfit),
                Ok(pieces) => {
                    if !only_here || paths[0].rank().is_none() {
                        planned.push((paths[0].clone(), paths[0].shape(), pieces));
                    }
                    report.loaded.push(paths[0].path().to_owned());
                }
            }
        }
        report.unexpected = tensors.into_keys().collect();
        if layout == Layout::Torch {
            report.unexpected.retain(|name| name.rsplit('.').next() != Some("num_batches_tracked"));
        }
        self.check(&report, &entries, file).map_err(|error| file.with_name(&error))?;
        let plan = Plan { load: self.clone(), layout, file, prefix: prefix.to_owned(), values: planned };
        plan.check()?;
        Ok((plan, report))
    }

    /// # Errors
    /// When a pattern that selects, or that exchanges axes, matches nothing: it is misspelt.
    fn check_patterns(&self, entries: &[Entry]) -> Result<()> {
        let patterns = self.only.iter().map(|only| ("only", only));
        let mut patterns = patterns.chain(self.transposed.iter().map(|transposed| ("transposed", transposed)));
        let matched = |pattern: &str| entries.iter().any(|entry| matches(pattern, entry.path()));
        match patterns.find(|(_, pattern)| !matched(pattern)) {
            None => Ok(()),
            Some((option, pattern)) => {
                let paths: Vec<&str> = entries.iter().map(Entry::path).collect();
                let text = format!("`{option}({pattern:?})` matches no path of the module: {}", paths.join(", "));
                Err(Error::invalid(text))
            }
        }
    }

    /// # Errors
    /// When the report is not that of a file that may be loaded.
    fn check(&self, report: &Report, entries: &[Entry], file: &TensorFile) -> Result<()> {
        let refused = if self.partial { report.loaded.is_empty() } else { !report.is_complete() };
        if !refused {
            return Ok(());
        }
        let what = if self.partial { "no tensor fits the module" } else { "the file does not fit the module" };
        let only_shapes = report.missing.is_empty() && report.unexpected.is_empty();
        let mut text = format!("{what}: {}", Report { loaded: Vec::new(), ..report.clone() });
        let differs = |entry: &Entry| entry.torch_path() != entry.path() || is_exchanged_in_torch(entry);
        if file.file_metadata().is_none() && self.layout.is_none() && entries.iter().any(differs) {
            text += "; a file of PyTorch is loaded with `Load::torch()`";
        }
        Err(if only_shapes && !report.misshapen.is_empty() { Error::shape(text) } else { Error::invalid(text) })
    }

    /// The layout that the file states, or that the options state for it.
    fn layout_of(&self, entries: &[Entry], file: &TensorFile, prefix: &str) -> Result<Layout> {
        let error = |text: String| Err(file.with_name(&Error::invalid(text)));
        match (file.file_metadata().map(|metadata| metadata.layout), self.layout) {
            (Some(found), Some(stated)) if found != stated => {
                let load = if found == Layout::Torch { "Load::torch()" } else { "Load::strict()" };
                error(format!("the file has {found}, not {stated}: load it with `{load}`"))
            }
            (Some(layout), _) | (None, Some(layout)) => Ok(layout),
            (None, None) => {
                let place = |(name, _)| match self.names.place(Side::File, [name; 2]) {
                    Ok(Place::Whole(path) | Place::Part { target: path, .. }) => vec![path],
                    Ok(Place::Parts(paths)) => paths,
                    Err(_) => Vec::new(),
                };
                let found: HashSet<String> = file.with_prefix(prefix).flat_map(place).collect();
                let undecided = |entry: &&Entry| {
                    is_exchanged_in_torch(entry) && self.selects(entry.path()) && found.contains(entry.path())
                };
                match entries.iter().find(undecided) {
                    Some(entry) => error(format!(
                        "the file does not say how its weights are laid out, and PyTorch has the axes of {} exchanged: \
                         load it with `Load::torch()` if it is a file of PyTorch, or with `.layout(Layout::Native)` if \
                         its weights are those of this library",
                        quoted(entry.path())
                    )),
                    None => Ok(Layout::Native),
                }
            }
        }
    }

    /// The tensors with names below `prefix`, by their paths in the module.
    fn tensors<'a>(
        &self,
        entries: &[Entry],
        layout: Layout,
        file: &'a TensorFile,
        prefix: &str,
    ) -> Result<BTreeMap<String, Found<'a>>> {
        let mut paths: HashMap<&str, &Entry> = HashMap::new();
        for entry in entries {
            match paths.insert(layout.path(entry), entry) {
                Some(other) if layout == Layout::Torch && other.path() != entry.path() => {
                    let names = [other.path(), entry.path(), entry.torch_path()].map(quoted);
                    let [one, other, torch] = names;
                    return Err(Error::invalid(format!("PyTorch's name of both {one} and {other} is {torch}")));
                }
                _ => {}
            }
        }
        let own =
            |path: &String| paths.get(path.as_str()).map_or_else(|| path.clone(), |entry| entry.path().to_owned());
        let scales = self.scales(file, prefix);
        let mut tensors: BTreeMap<String, Found<'a>> = BTreeMap::new();
        for (name, info) in file.with_prefix(prefix).filter(|(name, _)| !scales.contains(*name)) {
            let one = || vec![name.to_owned()];
            let targets = match self.names.place(Side::File, [name; 2])? {
                Place::Whole(path) => vec![(own(&path), 0, one(), None)],
                Place::Part { number, parts, target } => vec![(own(&target), number, parts, None)],
                Place::Parts(targets) => {
                    let all: Vec<String> = targets.iter().map(own).collect();
                    let each = all.iter().cloned().enumerate();
                    each.map(|(number, path)| (path, 0, one(), Some((number, all.clone())))).collect()
                }
            };
            for (path, number, parts, split) in targets.into_iter().filter(|(path, ..)| self.selects(path)) {
                let empty = || Found { tensors: vec![None; parts.len()], parts: parts.clone(), split };
                let found = tensors.entry(path.clone()).or_insert_with(empty);
                if found.parts != parts || found.tensors[number].is_some() {
                    let other = found.tensors.iter().flatten().next().map_or("", |tensor| tensor.name);
                    let [other, name, path] = [other, name, &path].map(quoted);
                    return Err(Error::invalid(format!("{other} and {name} are both renamed to {path}")));
                }
                found.tensors[number] = Some(FileTensor { name, info });
            }
        }
        Ok(tensors)
    }

    /// The names of all scales and zero points.
    fn scales(&self, file: &TensorFile, prefix: &str) -> HashSet<String> {
        let patterns: Vec<&String> = self.scale.iter().chain(&self.zero_point).collect();
        let quantized = file.with_prefix(prefix).filter(|(_, info)| is_quantized(info.dtype, dl_core::DType::F32));
        quantized.flat_map(|(name, _)| patterns.iter().map(move |pattern| pattern.replace("{}", name))).collect()
    }

    /// The elements of an entry.
    ///
    /// # Errors
    /// When the tensors of the file have another shape or type.
    fn fit<'a>(
        &self,
        entry: &Entry,
        found: &Found<'a>,
        layout: Layout,
        shapes: &HashMap<&str, Vec<usize>>,
        exists: impl Fn(&str) -> bool,
    ) -> std::result::Result<Vec<Piece<'a>>, Misfit> {
        let (dtype, shape) = (entry.dtype(), self.shape(layout, entry));
        let misfit = |found: String| {
            let there = if self.exchanges(layout, entry) { format!(" ({shape:?} in PyTorch)") } else { String::new() };
            Misfit { path: entry.path().to_owned(), expected: format!("{dtype} {:?}{there}", entry.shape()), found }
        };
        let tensors: Option<Vec<FileTensor<'a>>> = found.tensors.iter().copied().collect();
        let Some(tensors) = tensors else {
            let missing = found.parts.iter().zip(&found.tensors).find(|(_, tensor)| tensor.is_none());
            let name = quoted(missing.expect("a tensor is missing").0);
            return Err(misfit(format!("stacked of {} tensors, of which {name} is missing", found.parts.len())));
        };
        // The lengths along axis 0 before and with this entry, and of all entries, in one tensor.
        let rows = |path: &String| Some(*shapes.get(path.as_str())?.first()?);
        let split = found.split.as_ref().map(|(number, paths)| {
            let rows: Option<Vec<usize>> = paths.iter().map(rows).collect();
            rows.map(|rows| (rows[..*number].iter().sum::<usize>(), rows.iter().sum::<usize>()))
        });
        let mut length = 0;
        let mut pieces = Vec::new();
        for FileTensor { name, info } in &tensors {
            let size: usize = info.shape.iter().product();
            let readable = is_readable_as(info.dtype, dtype, self.convert)
                || is_quantized(info.dtype, dtype)
                    && self.scale.as_ref().is_some_and(|pattern| exists(&pattern.replace("{}", name)));
            let elements = match (split, tensors.len()) {
                (None, 1) => (info.shape == shape).then_some(0..size),
                (None, _) => {
                    length += info.shape.first().copied().unwrap_or(0);
                    (!shape.is_empty() && info.shape.get(1..) == shape.get(1..)).then_some(0..size)
                }
                (Some(rows), _) => rows
                    .filter(|(_, all)| info.shape.first() == Some(all) && info.shape.get(1..) == shape.get(1..))
                    .map(|(before, _)| {
                        let row: usize = shape[1..].iter().product();
                        before * row..(before + shape[0]) * row
                    }),
            };
            match elements {
                Some(elements) if readable => pieces.push(Piece { name, info, elements }),
                _ => {
                    let part = if tensors.len() > 1 || split.is_some() {
                        format!(" of {}", quoted(name))
                    } else {
                        String::new()
                    };
                    return Err(misfit(describe(info) + &part));
                }
            }
        }
        if tensors.len() > 1 && shape.first() != Some(&length) {
            return Err(misfit(format!("stacked to a length of {length}")));
        }
        Ok(pieces)
    }

    fn selects(&self, path: &str) -> bool {
        let matches_any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, path));
        (self.only.is_empty() || matches_any(&self.only)) && !matches_any(&self.ignored)
    }
}

/// Each distinct weight and buffer, with the entries of all of its paths, the first path first.
fn variables(entries: &[Entry]) -> Vec<Vec<&Entry>> {
    let mut variables: Vec<Vec<&Entry>> = Vec::new();
    let mut place: HashMap<u64, usize> = HashMap::new();
    for entry in entries {
        let number = *place.entry(entry.id()).or_insert(variables.len());
        match variables.get_mut(number) {
            Some(paths) => paths.push(entry),
            None => variables.push(vec![entry]),
        }
    }
    variables
}
