//! Chooses the weakest folding that fits into the picture.

use crate::atoms::{Atoms, Fold, Folding, Kind};
use crate::facts::Facts;
use std::collections::HashMap;
use std::time::Duration;

/// A folding that fits.
pub(crate) struct Folded {
    pub(crate) folding: Folding,
    /// Whether any atoms were grouped.
    pub(crate) folded: bool,
}

/// Folds in these steps until there are at most `max_items` items: equal operations at the same
/// place with the same call chain; functions, innermost first; source lines, and functions by name;
/// the items with the least time.
pub(crate) fn folded(facts: &Facts<'_>, atoms: &Atoms, max_items: usize) -> Folded {
    let fits = |fold: &Fold| {
        let folding = atoms.fold(facts, fold);
        (folding.kinds.len() <= max_items).then_some(Folded { folding, folded: fold.same })
    };
    let mut fold = Fold::default();
    if let Some(folded) = fits(&fold) {
        return folded;
    }
    fold.same = true;
    if let Some(folded) = fits(&fold) {
        return folded;
    }
    let deepest = facts.functions.ids().map(|id| facts.functions.get(id).depth).max().unwrap_or(0);
    for depth in (1..=deepest).rev() {
        fold.closed = facts.functions.ids().filter(|&id| facts.functions.get(id).depth == depth).collect();
        if let Some(folded) = fits(&fold) {
            let items = folded.folding.kinds.len();
            return reopen_longest(facts, atoms, fold, items, &fits).unwrap_or(folded);
        }
    }
    fold.lines = true;
    if let Some(folded) = fits(&fold) {
        return folded;
    }
    keep_most_expensive(facts, atoms, atoms.fold(facts, &fold), max_items)
}

/// Reopens closed functions, most expensive first, as long as the picture still fits.
fn reopen_longest(
    facts: &Facts<'_>,
    atoms: &Atoms,
    mut fold: Fold,
    items: usize,
    fits: &dyn Fn(&Fold) -> Option<Folded>,
) -> Option<Folded> {
    let mut times: HashMap<usize, Duration> = fold.closed.iter().map(|&id| (id, Duration::ZERO)).collect();
    for atom in 0..atoms.each.len() {
        let closed = facts.functions.ancestors(atoms.function(facts, atom)).find(|id| times.contains_key(id));
        if let Some(id) = closed {
            *times.entry(id).or_default() += atoms.time(facts, atom);
        }
    }
    let mut longest: Vec<(usize, Duration)> = times.into_iter().collect();
    longest.sort_unstable_by_key(|&(id, time)| (std::cmp::Reverse(time), id));
    let mut best = None;
    for (id, _) in longest.into_iter().take(items) {
        let mut wider = fold.clone();
        wider.closed.remove(&id);
        wider.closed.extend(facts.functions.ids().filter(|&inner| facts.functions.get(inner).caller == Some(id)));
        if let Some(folded) = fits(&wider) {
            (fold, best) = (wider, Some(folded));
        }
    }
    best
}

/// Keeps the most expensive items and groups the rest.
fn keep_most_expensive(facts: &Facts<'_>, atoms: &Atoms, folding: Folding, max_items: usize) -> Folded {
    let Folding { mut item_of, kinds } = folding;
    let mut times = vec![Duration::ZERO; kinds.len()];
    item_of.iter().enumerate().for_each(|(atom, &item)| times[item] += atoms.time(facts, atom));
    let mut longest: Vec<usize> = (0..kinds.len()).collect();
    longest.sort_by_key(|&item| std::cmp::Reverse(times[item]));
    longest.truncate(max_items - 1);
    let mut place = vec![longest.len(); kinds.len()];
    longest.iter().enumerate().for_each(|(new, &item)| place[item] = new);
    item_of.iter_mut().for_each(|item| *item = place[*item]);
    let kinds = longest.iter().map(|&item| kinds[item]).chain([Kind::Rest]).collect();
    Folded { folding: Folding { item_of, kinds }, folded: true }
}
