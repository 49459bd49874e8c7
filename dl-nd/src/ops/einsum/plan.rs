//! Specifications and plans: the labels of all axes.

use dl_core::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;

/// The label of an axis. Axes with the same label share one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    /// A letter.
    Named(char),
    /// One of the axes that `...` stands for, numbered from the last: 0 is the last one.
    Rest(usize),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Named(letter) => write!(f, "`{letter}`"),
            Label::Rest(after) => write!(f, "axis -{} of `...`", after + 1),
        }
    }
}

/// The label of an axis. `None` is an axis of length 1 that broadcasting repeats.
pub(super) type Leg = Option<Label>;

/// The labels of all axes of the operands and of the output, for operands of known shapes.
///
/// Operands and output are treated alike. A label that only operands have is summed over; a label
/// that only the output has is repeated. A label that occurs twice in an operand selects its
/// diagonal; twice in the output, it creates a diagonal. The plan of a derivative is therefore the
/// same plan with another tensor as output.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) operands: Vec<Vec<Leg>>,
    pub(super) output: Vec<Leg>,
    pub(super) lengths: BTreeMap<Label, usize>,
}

impl Plan {
    /// Whether a label is still needed after the first `operands` operands.
    pub(super) fn needed_after(&self, operands: usize) -> impl Fn(Label) -> bool {
        let later = &self.operands[operands..];
        move |label| later.iter().chain([&self.output]).any(|legs| legs.contains(&Some(label)))
    }

    /// Those of these labels that the output has, each once, in the order of its axes.
    pub(super) fn order_in_output(&self, labels: &[Label]) -> Vec<Label> {
        let mut order = Vec::new();
        for label in self.output.iter().flatten() {
            if labels.contains(label) && !order.contains(label) {
                order.push(*label);
            }
        }
        order
    }

    /// The plan for the delta of an operand. Its operands are those after this one, the delta of
    /// the output, and those before this one, so that neighbours in a chain of products remain
    /// neighbours.
    pub(super) fn of_delta(&self, operand: usize) -> Plan {
        let (before, after) = (&self.operands[..operand], &self.operands[operand + 1..]);
        Plan {
            operands: [after, std::slice::from_ref(&self.output), before].concat(),
            output: self.operands[operand].clone(),
            lengths: self.lengths.clone(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Symbol {
    Ellipsis,
    Letter(char),
}

type Term = Vec<Symbol>;

/// A parsed specification, with its output made explicit.
#[derive(Clone)]
pub(super) struct Spec {
    text: Box<str>,
    terms: Vec<Term>,
    output: Term,
}

impl Spec {
    pub(super) fn parse(text: &str) -> Result<Spec> {
        let compact: String = text.split_whitespace().collect();
        let invalid = |message: String| Error::invalid(format!("`{text}`: {message}"));
        let term = |written: &str| -> Result<Term> {
            let mut term = Vec::new();
            let mut rest = written;
            while let Some(next) = rest.chars().next() {
                let symbol = if rest.starts_with("...") { Symbol::Ellipsis } else { Symbol::Letter(next) };
                match symbol {
                    Symbol::Ellipsis if term.contains(&symbol) => {
                        return Err(invalid(format!("`...` occurs twice in `{written}`")));
                    }
                    Symbol::Letter(other) if !other.is_ascii_alphabetic() => {
                        return Err(invalid(format!(
                            "`{other}` is not a label of an axis: labels are the letters a to z and A to Z"
                        )));
                    }
                    _ => term.push(symbol),
                }
                rest = &rest[if symbol == Symbol::Ellipsis { 3 } else { 1 }..];
            }
            Ok(term)
        };
        let (inputs, output) =
            compact.split_once("->").map_or((&*compact, None), |(inputs, output)| (inputs, Some(output)));
        let terms = inputs.split(',').map(term).collect::<Result<Vec<Term>>>()?;
        let count = |symbol: Symbol| terms.iter().flatten().filter(|&&other| other == symbol).count();
        let output = match output.map(term).transpose()? {
            Some(output) => {
                for (place, &symbol) in output.iter().enumerate() {
                    let Symbol::Letter(letter) = symbol else { continue };
                    if count(symbol) == 0 {
                        return Err(invalid(format!("the output names `{letter}`, which no operand has")));
                    }
                    if output[..place].contains(&symbol) {
                        return Err(invalid(format!("the output names `{letter}` twice")));
                    }
                }
                output
            }
            None => {
                // the ellipsis, and the letters that occur once, in alphabetical order
                let mut once: Term = terms.concat();
                once.retain(|&symbol| symbol == Symbol::Ellipsis || count(symbol) == 1);
                once.sort_unstable();
                once.dedup();
                once
            }
        };
        Ok(Spec { text: text.into(), terms, output })
    }

    /// The plan for operands of these shapes.
    pub(super) fn plan(&self, shapes: &[&[usize]]) -> Result<Plan> {
        let Spec { text, terms, output } = self;
        if terms.len() != shapes.len() {
            let (terms, operands) = (terms.len(), shapes.len());
            return Err(Error::invalid(format!("`{text}` is for {terms} operands, but there are {operands}")));
        }
        let mut labels = Vec::new();
        let mut longest = 0;
        for (number, (term, shape)) in terms.iter().zip(shapes).enumerate() {
            let open = term.contains(&Symbol::Ellipsis);
            let named = term.len() - usize::from(open);
            let Some(rest) = shape.len().checked_sub(named).filter(|&rest| open || rest == 0) else {
                let (axes, more) = (shape.len(), if open { " or more" } else { "" });
                return Err(Error::shape(format!(
                    "`{text}`: operand {number} should have {named} axes{more}, but its shape is {shape:?}, with {axes} axes"
                )));
            };
            longest = longest.max(rest);
            labels.push(labels_of(term, rest));
        }
        let lengths = lengths_of(text, &labels, shapes)?;
        let broadcast = |(labels, shape): (&Vec<Label>, &&[usize])| {
            let legs = labels.iter().zip(*shape);
            legs.map(|(label, &length)| (length == lengths[label]).then_some(*label)).collect()
        };
        let operands = labels.iter().zip(shapes).map(broadcast).collect();
        let output = labels_of(output, longest).into_iter().map(Some).collect();
        Ok(Plan { operands, output, lengths })
    }
}

/// The labels of a term with an ellipsis of `rest` axes.
fn labels_of(term: &[Symbol], rest: usize) -> Vec<Label> {
    let mut labels = Vec::new();
    for &symbol in term {
        match symbol {
            Symbol::Letter(letter) => labels.push(Label::Named(letter)),
            Symbol::Ellipsis => labels.extend((0..rest).rev().map(Label::Rest)),
        }
    }
    labels
}

/// The length of each label; a length of 1 broadcasts to any other.
fn lengths_of(text: &str, labels: &[Vec<Label>], shapes: &[&[usize]]) -> Result<BTreeMap<Label, usize>> {
    let mut found: BTreeMap<Label, (usize, usize)> = BTreeMap::new();
    for (operand, (labels, shape)) in labels.iter().zip(shapes).enumerate() {
        for (axis, (&label, &length)) in labels.iter().zip(*shape).enumerate() {
            if let Some(first) = labels[..axis].iter().position(|&other| other == label)
                && shape[first] != length
            {
                let first = shape[first];
                return Err(Error::shape(format!(
                    "`{text}`: {label} occurs twice in operand {operand}, of shape {shape:?}, with lengths {first} and {length}"
                )));
            }
            let (known, earlier) = *found.entry(label).or_insert((length, operand));
            if known == 1 {
                found.insert(label, (length, operand));
            } else if length != known && length != 1 {
                let other = shapes[earlier];
                return Err(Error::shape(format!(
                    "`{text}`: {label} has length {known} in operand {earlier}, of shape {other:?}, and {length} in operand \
                     {operand}, of shape {shape:?}"
                )));
            }
        }
    }
    Ok(found.into_iter().map(|(label, (length, _))| (label, length)).collect())
}
