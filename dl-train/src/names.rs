//! The correspondence of the names in a file and the paths in a module.

use crate::file::quoted;
use dl_core::{Error, Result};

/// How the names in a file correspond to the paths in a module, for loading
/// ([`Load::names`](crate::Load::names)) and for saving ([`save_torch_as`](crate::save_torch_as)).
///
/// `{name}` in a pattern stands for any text without dots; the same placeholder on the other side
/// stands for the same text. The first rule that applies to a name is used; a name without a rule
/// stays as it is.
///
/// These names are those of BERT in a file of the Python library `transformers`:
///
/// ```
/// use dl_core::Module;
/// use dl_macros::Module;
/// use dl_nd::init;
/// use dl_nn::TransformerBlock;
/// use dl_train::{Load, Names, save_torch_as};
///
/// #[derive(Module)]
/// # #[module(crate = dl_core)]
/// struct Encoder {
///     layers: Vec<TransformerBlock>,
/// }
///
/// let names = Names::new()
///     .stack(
///         &["query", "key", "value"].map(|part| format!("layer.{{i}}.attention.self.{part}.{{p}}")),
///         "layers.{i}.self_attn.in_proj_{p}",
///     )
///     .rename("layer.{i}.attention.output.dense", "layers.{i}.self_attn.out_proj")
///     .rename("layer.{i}.attention.output.LayerNorm", "layers.{i}.norm1")
///     .rename("layer.{i}.intermediate.dense", "layers.{i}.linear1")
///     .rename("layer.{i}.output.dense", "layers.{i}.linear2")
///     .rename("layer.{i}.output.LayerNorm", "layers.{i}.norm2");
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("encoder.safetensors");
/// let net = |seed| dl_core::Result::Ok(Encoder { layers: vec![TransformerBlock::new(8, 2, 16, &mut init::rng(seed))?] });
/// let (saved, loaded) = (net(1)?, net(2)?);
/// save_torch_as(&saved, &names, &path)?;
/// Load::torch().names(&names).weights(&loaded, &path)?;
/// assert_eq!(loaded.entry("layers.0.linear1.weight")?.numbers(), saved.entry("layers.0.linear1.weight")?.numbers());
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    rules: Vec<Rule>,
}

/// One side of a rule has one pattern. If both have, they are patterns of prefixes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    in_file: Vec<String>,
    in_module: Vec<String>,
}

/// The other side of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The whole of this one.
    Whole(String),
    /// Part `number` of `target`, which consists of these parts in this order.
    Part { number: usize, parts: Vec<String>, target: String },
    /// These in this order.
    Parts(Vec<String>),
}

/// The side on which a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    File,
    Module,
}

impl Names {
    /// The same names on both sides.
    pub fn new() -> Names {
        Names::default()
    }

    /// Maps names below `in_file` in the file to paths below `in_module` in the module. An empty
    /// pattern denotes the whole file or module.
    ///
    /// ```
    /// dl_train::Names::new().rename("encoder.layer.{i}.output", "layers.{i}.linear2");
    /// ```
    #[must_use]
    pub fn rename(self, in_file: &str, in_module: &str) -> Names {
        self.rule(vec![in_file.to_owned()], vec![in_module.to_owned()])
    }

    /// Joins tensors of the file along axis 0 of the layout in the file, to one weight of the
    /// module. A file is saved with parts of equal length. The patterns are of whole names.
    ///
    /// ```
    /// use dl_core::{Module, Weight};
    /// use dl_nd::Nd;
    /// use dl_train::{Load, Names, save_torch_as};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("parts.safetensors");
    /// let names = Names::new().stack(&["q", "k"], "0");
    /// save_torch_as(&[Weight::new(Nd::from([1.0_f32, 2.0]))], &names, &path)?; // two tensors
    /// let net = [Weight::new(Nd::from([0.0_f32, 0.0]))];
    /// Load::torch().names(&names).weights(&net, &path)?;
    /// assert_eq!(net[0].value(), Nd::from([1.0, 2.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[must_use]
    pub fn stack(self, in_file: &[impl AsRef<str>], in_module: &str) -> Names {
        self.rule(in_file.iter().map(|name| name.as_ref().to_owned()).collect(), vec![in_module.to_owned()])
    }

    /// Divides a tensor of the file along axis 0 of the layout in the file, into weights of the
    /// module. The patterns are of whole names.
    ///
    /// ```
    /// use dl_core::{Module, Weight};
    /// use dl_nd::Nd;
    /// use dl_train::{Load, Names, save_torch};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("whole.safetensors");
    /// save_torch(&[Weight::new(Nd::from([1.0_f32, 2.0, 3.0]))], &path)?;
    /// let net = [Nd::from([0.0_f32]), Nd::from([0.0, 0.0])].map(Weight::new);
    /// Load::torch().names(&Names::new().split("0", &["0", "1"])).weights(&net, &path)?;
    /// assert_eq!(net[1].value(), Nd::from([2.0, 3.0]));
    /// # dl_core::Result::Ok(())
    /// ```
    #[must_use]
    pub fn split(self, in_file: &str, in_module: &[impl AsRef<str>]) -> Names {
        self.rule(vec![in_file.to_owned()], in_module.iter().map(|name| name.as_ref().to_owned()).collect())
    }

    fn rule(mut self, in_file: Vec<String>, in_module: Vec<String>) -> Names {
        self.rules.push(Rule { in_file, in_module });
        self
    }

    pub(crate) fn append(&mut self, others: &Names) {
        self.rules.extend(others.rules.iter().cloned());
    }

    /// The place on the other side for the first of these names to which a rule applies; for none,
    /// the first name.
    ///
    /// # Errors
    /// When a rule lacks a placeholder or a pattern.
    pub(crate) fn place(&self, side: Side, names: [&str; 2]) -> Result<Place> {
        for Rule { in_file, in_module } in &self.rules {
            let (from, to) = if side == Side::File { (in_file, in_module) } else { (in_module, in_file) };
            for name in names {
                for (number, pattern) in from.iter().enumerate() {
                    let mut values = Vec::new();
                    let Some(below) = captures(pattern, name, &mut values) else { continue };
                    let filled = |pattern: &String| fill(pattern, &values);
                    match (&from[..], &to[..]) {
                        ([_], [to]) => {
                            let (start, below) = (filled(to)?, below.strip_prefix('.').unwrap_or(below));
                            let dot = if start.is_empty() || below.is_empty() { "" } else { "." };
                            return Ok(Place::Whole(format!("{start}{dot}{below}")));
                        }
                        _ if !below.is_empty() => {}
                        (parts, [target]) => {
                            let parts = parts.iter().map(filled).collect::<Result<_>>()?;
                            return Ok(Place::Part { number, parts, target: filled(target)? });
                        }
                        ([_], parts) if !parts.is_empty() => {
                            return Ok(Place::Parts(parts.iter().map(filled).collect::<Result<_>>()?));
                        }
                        _ => return Err(Error::invalid(format!("a rule for {} has no other side", quoted(pattern)))),
                    }
                }
            }
        }
        Ok(Place::Whole(names[0].to_owned()))
    }
}

/// Matches a pattern with a name or a prefix of it that ends before a dot. Appends the placeholders
/// with their texts, and returns the rest of the name.
fn captures<'a>(pattern: &'a str, name: &'a str, values: &mut Vec<(&'a str, &'a str)>) -> Option<&'a str> {
    let placeholder = pattern.split_once('{').and_then(|(start, rest)| Some((start, rest.split_once('}')?)));
    let Some((start, (placeholder, rest))) = placeholder else {
        let below = name.strip_prefix(pattern)?;
        return (pattern.is_empty() || below.is_empty() || below.starts_with('.')).then_some(below);
    };
    let name = name.strip_prefix(start)?;
    let longest = name.find('.').unwrap_or(name.len());
    let ends = name.char_indices().map(|(place, _)| place).chain([name.len()]);
    for end in ends.filter(|&end| 0 < end && end <= longest) {
        let known = values.len();
        let text = &name[..end];
        if values.iter().any(|&(other, value)| other == placeholder && value != text) {
            continue;
        }
        values.push((placeholder, text));
        if let Some(below) = captures_below(rest, &name[end..], values) {
            return Some(below);
        }
        values.truncate(known);
    }
    None
}

/// [`captures`] after a placeholder, where an empty pattern denotes the end of a name.
fn captures_below<'a>(pattern: &'a str, name: &'a str, values: &mut Vec<(&'a str, &'a str)>) -> Option<&'a str> {
    match pattern {
        "" => (name.is_empty() || name.starts_with('.')).then_some(name),
        _ => captures(pattern, name, values),
    }
}

/// Replaces the placeholders of a pattern.
fn fill(pattern: &str, values: &[(&str, &str)]) -> Result<String> {
    let Some((start, (placeholder, rest))) =
        pattern.split_once('{').and_then(|(start, rest)| Some((start, rest.split_once('}')?)))
    else {
        return Ok(pattern.to_owned());
    };
    let value = values.iter().find(|(name, _)| *name == placeholder).ok_or_else(|| {
        Error::invalid(format!("the placeholder {{{placeholder}}} of {} is not on the other side", quoted(pattern)))
    })?;
    Ok(format!("{start}{}{}", value.1, fill(rest, values)?))
}

#[cfg(test)]
mod tests {
    use super::{Names, Place, Side};

    fn whole(names: &Names, side: Side, name: &str) -> String {
        match names.place(side, [name, name]).unwrap() {
            Place::Whole(name) => name,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pattern_renames_whole_names_both_ways() {
        for (in_file, in_module, file, module) in [
            ("a", "b", "a.x", "b.x"),
            ("", "b", "a.x", "b.a.x"),
            ("a", "", "a.x", "x"),
            ("layer.{i}.x", "layers.{i}.y", "layer.10.x.w", "layers.10.y.w"),
            ("h_{i}", "h.{i}", "h_3.w", "h.3.w"),
            ("{a}.{b}", "{b}.{a}", "x.y.z", "y.x.z"),
            ("l{a}b{c}", "{c}.{a}", "lbbb", "b.b"),
            ("gröÙe{i}", "s{i}", "gröÙeü", "sü"),
            ("{i}.{i}", "{i}", "1.1", "1"),
        ] {
            let names = Names::new().rename(in_file, in_module);
            assert_eq!(whole(&names, Side::File, file), module, "{in_file}");
            if in_file != "{i}.{i}" && in_file != "l{a}b{c}" {
                assert_eq!(whole(&names, Side::Module, module), file, "{in_module}");
            }
        }
    }

    #[test]
    fn pattern_without_match_changes_nothing() {
        for (pattern, name) in
            [("a", "ab.x"), ("layer.{i}.x", "layer.1.2.x"), ("layer{i}", "layer"), ("{i}.{i}", "1.2"), ("a{", "a.b")]
        {
            assert_eq!(whole(&Names::new().rename(pattern, "b"), Side::File, name), name, "{pattern}");
        }
        // patterns of parts are of whole names
        assert_eq!(whole(&Names::new().stack(&["q", "k"], "w"), Side::File, "q.x"), "q.x");
    }

    #[test]
    fn rule_of_parts_gives_place_of_each() {
        let names = Names::new().stack(&["{i}.q", "{i}.k"], "in.{i}").split("fused", &["a", "b"]);
        let part = |number, target: &str| Place::Part {
            number,
            parts: if target == "fused" { vec!["a".into(), "b".into()] } else { vec!["7.q".into(), "7.k".into()] },
            target: target.to_owned(),
        };
        assert_eq!(names.place(Side::File, ["7.k"; 2]).unwrap(), part(1, "in.7"));
        assert_eq!(names.place(Side::Module, ["in.7"; 2]).unwrap(), Place::Parts(vec!["7.q".into(), "7.k".into()]));
        assert_eq!(names.place(Side::Module, ["a"; 2]).unwrap(), part(0, "fused"));
        assert_eq!(names.place(Side::File, ["fused"; 2]).unwrap(), Place::Parts(vec!["a".into(), "b".into()]));
        let error = Names::new().rename("a", "b.{i}").place(Side::File, ["a"; 2]).unwrap_err();
        assert!(error.to_string().contains("the placeholder {i} of \"b.{i}\" is not on the other side"), "{error}");
        assert!(Names::new().stack(&[] as &[&str], "a").place(Side::Module, ["a"; 2]).is_err());
    }
}
