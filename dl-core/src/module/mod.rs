//! Modules: structs of weights, and operations on all of their weights.
//!
//! ```
//! use dl_core::{Module, Visitor, Weight};
//!
//! struct Line {
//!     slope: Weight<f64>,
//!     offset: Weight<f64>,
//! }
//!
//! // `#[derive(Module)]` writes this
//! impl Module for Line {
//!     fn visit(&self, visitor: &mut Visitor) {
//!         visitor.field("slope", &self.slope);
//!         visitor.field("offset", &self.offset);
//!     }
//! }
//!
//! let lines = [1.0, 2.0].map(|slope| Line { slope: Weight::new(slope), offset: Weight::new(0.0) });
//! assert_eq!(lines.names(), ["0.slope", "0.offset", "1.slope", "1.offset"]);
//! lines.freeze_matching("*.offset")?;
//! assert!(lines.entry("1.offset")?.is_frozen());
//! # dl_core::Result::Ok(())
//! ```
//!
//! Terms: an *entry* is a weight or a buffer with its *path*, the names of the fields that lead to
//! it, joined by dots. A weight that can be reached by several paths is *tied*: it has an entry for
//! each path, and counts once.
//!
//! A module lists its weights; it does not define a computation with them.

pub(crate) mod deltas;
mod dense;
mod entry;
mod path_pattern;
pub(crate) mod ranks;
mod summary;
mod torch;

#[doc(hidden)]
pub use dense::DenseWeights;
#[doc(hidden)]
pub use entry::ElsewhereEntry;
pub use entry::{Entry, NewValue};
pub use path_pattern::matches;
pub use summary::Summary;
pub use torch::Torch;

use crate::api::buffer::Buffer;
use crate::api::compiled::CompiledArgument;
use crate::api::differentiable::Differentiable;
use crate::api::weight::Weight;
use crate::error::{Error, Result};
use crate::graph::data::Trainable;
use crate::plan::key::Arguments;
use crate::storage::numbers::Stored;
use entry::EntryKind;
use std::collections::{HashMap, HashSet};
use std::fmt::{Display, Write};
use std::marker::PhantomData;
use std::sync::Arc;

/// A weight, a buffer, or a composition of these: usually a struct with `#[derive(Module)]`.
///
/// `Vec`, arrays, tuples, `Option`, `Box`, `Arc` and references of modules are modules. Numbers,
/// `bool` and strings are modules without weights, so a struct may hold settings beside its
/// weights. The terms are defined in [`module`](crate::module).
///
/// ```
/// use dl_core::{Buffer, Module, Weight};
/// let net = (vec![Weight::new(1.0_f64), Weight::new(2.0)], Some(Buffer::new(0.0_f64)), 3_usize);
/// assert_eq!(net.names(), ["0.0", "0.1", "1"]);
/// assert_eq!((net.parameters(), net.buffers().len()), (2, 1));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no module: neither a weight or a buffer, nor made of those, nor a plain number",
    label = "not a module",
    note = "`#[module(skip)]` on a field leaves it out; `#[derive(Module)]` on its type lets its weights be found"
)]
pub trait Module {
    /// Passes each part with its name to the visitor. The order must always be the same.
    fn visit(&self, visitor: &mut Visitor);

    /// Adds the weights, the buffers and the settings to the arguments of a compiled function. The
    /// derive implements it; without it the function cannot be compiled.
    #[doc(hidden)]
    fn compiled_arguments(&self, arguments: &mut Arguments) {
        arguments.refuse(std::any::type_name::<Self>());
    }

    /// All weights and buffers, in the order of the fields, with an entry for each path to them.
    ///
    /// ```
    /// use dl_core::{Module, Weight};
    /// let w = Weight::new(1.0_f64);
    /// let tied = (w.clone(), w);
    /// let entries = tied.entries();
    /// assert!(entries[0].is_same(&entries[1]));
    /// assert_eq!(entries[1].tied_to(), Some("0"));
    /// ```
    fn entries(&self) -> Vec<Entry> {
        let mut visitor = Visitor::default();
        self.visit(&mut visitor);
        visitor.entries
    }

    /// All weights, each once, with its first path.
    ///
    /// ```
    /// use dl_core::{Buffer, Module, Weight};
    /// let w = Weight::new(1.0_f64);
    /// assert_eq!((w.clone(), Buffer::new(0.0_f64), w).weights().len(), 1);
    /// ```
    fn weights(&self) -> Vec<Entry> {
        self.entries().into_iter().filter(|entry| entry.is_weight() && entry.tied_to().is_none()).collect()
    }

    /// All buffers, each once, with its first path.
    ///
    /// ```
    /// use dl_core::{Buffer, Module, Weight};
    /// assert_eq!((Weight::new(1.0_f64), Buffer::new(0.0_f64)).buffers()[0].path(), "1");
    /// ```
    fn buffers(&self) -> Vec<Entry> {
        self.entries().into_iter().filter(|entry| entry.is_buffer() && entry.tied_to().is_none()).collect()
    }

    /// The paths of all entries.
    ///
    /// ```
    /// use dl_core::{Module, Weight};
    /// assert_eq!([Weight::new(1.0_f64), Weight::new(2.0)].names(), ["0", "1"]);
    /// ```
    fn names(&self) -> Vec<String> {
        self.entries().into_iter().map(|entry| entry.path().to_owned()).collect()
    }

    /// The entry at this path.
    ///
    /// ```
    /// use dl_core::{Module, Numbers, Weight};
    /// let net = vec![(Weight::new(1.0_f64), Weight::new(2.0_f64))];
    /// assert_eq!(net.entry("0.1")?.numbers(), Numbers::F64(vec![2.0]));
    /// assert!(net.entry("0.2").unwrap_err().to_string().contains("`0` has `0`, `1`"));
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When there is no such entry. The message lists the names near the path.
    fn entry(&self, path: &str) -> Result<Entry> {
        let entries = self.entries();
        match entries.iter().find(|entry| entry.path() == path) {
            Some(entry) => Ok(entry.clone()),
            None => Err(Error::invalid(format!(
                "there is no weight or buffer at `{path}`: {}",
                existing_names(&entries, path)
            ))),
        }
    }

    /// The number of numbers in all weights, frozen or not. A tied weight counts once.
    ///
    /// ```
    /// use dl_core::{Module, Weight};
    /// assert_eq!([Weight::new(1.0_f64), Weight::new(2.0)].parameters(), 2);
    /// ```
    fn parameters(&self) -> usize {
        self.weights().iter().map(Entry::len).sum()
    }

    /// Freezes all weights: no training step changes them or computes deltas for them. Derivatives
    /// that are requested explicitly, by [`gradient`](crate::Layer::gradient), are not affected.
    ///
    /// ```
    /// use dl_core::{Module, Weight};
    /// let net = [Weight::new(1.0_f64), Weight::new(2.0)];
    /// net.freeze();
    /// assert!(net.weights().iter().all(|weight| weight.is_frozen()));
    /// ```
    fn freeze(&self) {
        self.weights().iter().for_each(Entry::freeze);
    }

    /// Undoes [`freeze`](Module::freeze).
    ///
    /// ```
    /// use dl_core::{Module, Weight};
    /// let net = [Weight::new(1.0_f64), Weight::new(2.0)];
    /// net.freeze();
    /// net.unfreeze();
    /// assert!(net.weights().iter().all(|weight| !weight.is_frozen()));
    /// ```
    fn unfreeze(&self) {
        self.weights().iter().for_each(Entry::unfreeze);
    }

    /// Freezes the weights with a path that matches a pattern, and returns their number. A tied
    /// weight counts once.
    ///
    /// A pattern is a path in which `*` matches any part of one name, and `**` any number of names.
    /// It matches a path and all paths below it: `encoder` freezes `encoder.0.bias`, `**.bias` all
    /// biases.
    ///
    /// ```
    /// use dl_core::{Module, Weight};
    /// let net = [[1.0, 2.0].map(Weight::<f64>::new), [3.0, 4.0].map(Weight::new)];
    /// assert_eq!(net.freeze_matching("0")?, 2);
    /// assert_eq!(net.freeze_matching("*.1")?, 2);
    /// assert!(!net.entry("1.0")?.is_frozen());
    /// assert!(net.freeze_matching("2").is_err());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When no weight matches. Then nothing is changed.
    fn freeze_matching(&self, pattern: &str) -> Result<usize> {
        let weights = matching(self.entries(), pattern)?;
        weights.iter().for_each(Entry::freeze);
        Ok(count_distinct(&weights))
    }

    /// Undoes [`freeze_matching`](Module::freeze_matching).
    ///
    /// ```
    /// use dl_core::{Module, Weight};
    /// let net = [Weight::new(1.0_f64), Weight::new(2.0)];
    /// net.freeze();
    /// net.unfreeze_matching("1")?;
    /// assert!(net[0].is_frozen() && !net[1].is_frozen());
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When no weight matches. Then nothing is changed.
    fn unfreeze_matching(&self, pattern: &str) -> Result<usize> {
        let weights = matching(self.entries(), pattern)?;
        weights.iter().for_each(Entry::unfreeze);
        Ok(count_distinct(&weights))
    }

    /// A table of all entries, for printing.
    ///
    /// ```
    /// use dl_core::{Module, Weight};
    /// println!("{}", [Weight::new(1.0_f64), Weight::new(2.0)].summary());
    /// ```
    fn summary(&self) -> Summary {
        Summary::of(self.entries())
    }
}

/// The number of different weights among these entries.
fn count_distinct(entries: &[Entry]) -> usize {
    entries.iter().map(Entry::id).collect::<HashSet<_>>().len()
}

/// The entries of weights with a path that matches.
#[doc(hidden)]
pub fn matching(entries: Vec<Entry>, pattern: &str) -> Result<Vec<Entry>> {
    let found: Vec<Entry> =
        entries.iter().filter(|entry| entry.is_weight() && matches(pattern, entry.path())).cloned().collect();
    if found.is_empty() {
        return Err(Error::invalid(format!("no weight matches `{pattern}`: {}", existing_names(&entries, pattern))));
    }
    Ok(found)
}

/// A hint for an error message: the names below the longest prefix of the path that exists.
fn existing_names(entries: &[Entry], path: &str) -> String {
    const SHOWN: usize = 12;

    let mut parent = path;
    let (parent, below) = loop {
        parent = parent.rfind('.').map_or("", |dot| &parent[..dot]);
        let start = if parent.is_empty() { String::new() } else { format!("{parent}.") };
        let below = |entry: &Entry| {
            let rest = entry.path().strip_prefix(&start)?;
            Some(format!("`{}`", rest.split('.').next().unwrap_or(rest)))
        };
        let mut names: Vec<String> = entries.iter().filter_map(below).collect();
        names.dedup();
        if !names.is_empty() || parent.is_empty() {
            break (parent, names);
        }
    };
    let mut text = if parent.is_empty() { "the module has ".to_owned() } else { format!("`{parent}` has ") };
    text += &below.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match below.len() {
        0 => "the module has no weights or buffers".clone_into(&mut text),
        n if n > SHOWN => text += ", …",
        _ => {}
    }
    text
}

/// Receives the parts of a [`Module`].
///
/// ```
/// use dl_core::{Module, Torch, Visitor, Weight};
/// struct Pair(Weight<f64>, Weight<f64>);
/// impl Module for Pair {
///     fn visit(&self, visitor: &mut Visitor) {
///         visitor.field("first", &self.0);
///         visitor.field_in_torch("second", Torch::same().named("b"), &self.1);
///     }
/// }
/// assert_eq!(Pair(Weight::new(1.0), Weight::new(2.0)).names(), ["first", "second"]);
/// ```
#[derive(Default)]
pub struct Visitor {
    path: String,
    /// PyTorch's path, from the outermost part that declares one.
    torch: String,
    entries: Vec<Entry>,
    /// The index of the first entry of each variable.
    first: HashMap<u64, usize>,
}

impl Visitor {
    /// Visits a part with this name, which must not contain dots.
    pub fn field<M: Module + ?Sized>(&mut self, name: impl Display, part: &M) {
        let (length, torch_length) = (self.path.len(), self.torch.len());
        for path in [&mut self.path, &mut self.torch] {
            let dot = if path.is_empty() { "" } else { "." };
            write!(path, "{dot}{name}").expect("a string grows");
        }
        part.visit(self);
        self.path.truncate(length);
        self.torch.truncate(torch_length);
    }

    /// Visits a part with this name, which PyTorch names or lays out otherwise.
    pub fn field_in_torch<M: Module + ?Sized>(&mut self, name: impl Display, torch: Torch<'_>, part: &M) {
        let (name, first, above) = (name.to_string(), self.entries.len(), std::mem::take(&mut self.torch));
        let length = self.path.len();
        self.path = torch::join(&self.path, &name);
        part.visit(self);
        self.path.truncate(length);
        for entry in &mut self.entries[first..] {
            entry.set_torch(torch::join(&above, &torch.path(&name, entry.torch_path())), torch.is_transposed());
        }
        self.torch = above;
    }

    /// Adds a weight or a buffer of a module on another rank.
    #[doc(hidden)]
    pub fn elsewhere(&mut self, entry: &Arc<ElsewhereEntry>) {
        self.add(Entry::elsewhere([&self.path, &self.torch], entry));
    }

    fn add(&mut self, mut entry: Entry) {
        let number = self.entries.len();
        let first = *self.first.entry(entry.id()).or_insert(number);
        if first < number {
            entry.tie(self.entries[first].path());
        }
        self.entries.push(entry);
    }
}

impl<T: Trainable + Stored> Module for Weight<T> {
    fn visit(&self, visitor: &mut Visitor) {
        visitor.add(Entry::new::<T>([&visitor.path, &visitor.torch], EntryKind::Weight, self.to_layer()));
    }

    fn compiled_arguments(&self, arguments: &mut Arguments) {
        self.add_to(arguments);
    }
}

impl<T: Stored> Module for Buffer<T> {
    fn visit(&self, visitor: &mut Visitor) {
        visitor.add(Entry::new::<T>([&visitor.path, &visitor.torch], EntryKind::Buffer, self.layer()));
    }

    fn compiled_arguments(&self, arguments: &mut Arguments) {
        self.add_to(arguments);
    }
}

impl<M: Module> Module for [M] {
    fn visit(&self, visitor: &mut Visitor) {
        self.iter().enumerate().for_each(|(number, part)| visitor.field(number, part));
    }

    fn compiled_arguments(&self, arguments: &mut Arguments) {
        arguments.bits(self.len() as u64);
        self.iter().for_each(|part| part.compiled_arguments(arguments));
    }
}

impl<M: Module> Module for Vec<M> {
    fn visit(&self, visitor: &mut Visitor) {
        self[..].visit(visitor);
    }

    fn compiled_arguments(&self, arguments: &mut Arguments) {
        self[..].compiled_arguments(arguments);
    }
}

impl<M: Module, const N: usize> Module for [M; N] {
    fn visit(&self, visitor: &mut Visitor) {
        self[..].visit(visitor);
    }

    fn compiled_arguments(&self, arguments: &mut Arguments) {
        self[..].compiled_arguments(arguments);
    }
}

impl<M: Module> Module for Option<M> {
    fn visit(&self, visitor: &mut Visitor) {
        if let Some(module) = self {
            module.visit(visitor);
        }
    }

    fn compiled_arguments(&self, arguments: &mut Arguments) {
        arguments.bits(self.is_some().into());
        if let Some(module) = self {
            module.compiled_arguments(arguments);
        }
    }
}

macro_rules! pointers {
    ($($Pointer:ty),*) => {$(
        impl<M: Module + ?Sized> Module for $Pointer {
            fn visit(&self, visitor: &mut Visitor) {
                (**self).visit(visitor);
            }

            fn compiled_arguments(&self, arguments: &mut Arguments) {
                (**self).compiled_arguments(arguments);
            }
        }
    )*};
}

pointers!(&M, Box<M>, Arc<M>);

macro_rules! tuples {
    ($($M:ident $number:tt),*) => {
        impl<$($M: Module),*> Module for ($($M,)*) {
            fn visit(&self, visitor: &mut Visitor) {
                $(visitor.field($number, &self.$number);)*
            }

            fn compiled_arguments(&self, arguments: &mut Arguments) {
                $(self.$number.compiled_arguments(arguments);)*
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

macro_rules! plain {
    ($($T:ty),*) => {$(
        impl Module for $T {
            fn visit(&self, _: &mut Visitor) {}

            fn compiled_arguments(&self, arguments: &mut Arguments) {
                self.add_to(arguments);
            }
        }
    )*};
}

plain!((), bool, char, u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, str, String);

impl<T: ?Sized> Module for PhantomData<T> {
    fn visit(&self, _: &mut Visitor) {}

    fn compiled_arguments(&self, _: &mut Arguments) {}
}
