//! Random splits of a data set, for instance into training and test parts.

use crate::adapters::Subset;
use crate::draw::{Draw, Purpose, generator};
use dl_core::{Error, Result};
use rand::seq::SliceRandom;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Splits the indices 0 to `len` at random into parts of the given fractions of `len`. The indices
/// of a part are in ascending order. Fractions that sum to less than 1 leave indices out.
///
/// The end of each part is rounded to the nearest index. [`Dataset::split`](crate::Dataset::split)
/// returns the parts as data sets.
///
/// ```
/// let [train, valid, test] = dl_data::split(10, [0.5, 0.2, 0.3], 1)?;
/// assert_eq!((train.len(), valid.len(), test.len()), (5, 2, 3));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// When a fraction is not positive, the fractions sum to more than 1, or a part would be empty.
pub fn split<const N: usize>(len: usize, fractions: [f64; N], seed: u64) -> Result<[Vec<usize>; N]> {
    parts(vec![(0..len).collect()], fractions, seed)
}

/// Splits each class separately (a stratified split). The end of a part is rounded to the nearest
/// index within each class, so a part may get no sample of a small class: with fractions 0.7, 0.15
/// and 0.15, a class of five samples is split into four, none and one.
///
/// ```
/// let labels = [0, 0, 0, 0, 1, 1];
/// let [train, test] = dl_data::split_by_class(&labels, [0.5, 0.5], 1)?;
/// assert_eq!(train.iter().filter(|&&i| labels[i] == 1).count(), 1);
/// assert_eq!(test.iter().filter(|&&i| labels[i] == 0).count(), 2);
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// As [`split`].
pub fn split_by_class<const N: usize>(labels: &[usize], fractions: [f64; N], seed: u64) -> Result<[Vec<usize>; N]> {
    parts(by_class(labels).into_values().collect(), fractions, seed)
}

/// The indices of each class, in ascending order.
pub(crate) fn by_class(labels: &[usize]) -> BTreeMap<usize, Vec<usize>> {
    let mut classes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, &label) in labels.iter().enumerate() {
        classes.entry(label).or_default().push(index);
    }
    classes
}

pub(crate) fn subsets<D, const N: usize>(data: D, parts: [Vec<usize>; N]) -> [Subset<Arc<D>>; N] {
    let data = Arc::new(data);
    parts.map(|indices| Subset::new_unchecked(data.clone(), indices))
}

fn parts<const N: usize>(groups: Vec<Vec<usize>>, fractions: [f64; N], seed: u64) -> Result<[Vec<usize>; N]> {
    if let Some(fraction) = fractions.iter().find(|&&fraction| !(fraction > 0.0 && fraction <= 1.0)) {
        return Err(Error::invalid(format!("a fraction of {fraction}: each must be greater than 0 and at most 1")));
    }
    let sum: f64 = fractions.iter().sum();
    if sum > 1.0 + 1e-9 {
        return Err(Error::invalid(format!("the fractions {fractions:?} sum to {sum}: the sum must be at most 1")));
    }
    let (len, several): (usize, bool) = (groups.iter().map(Vec::len).sum(), groups.len() > 1);
    let mut parts = [const { Vec::new() }; N];
    for (number, mut group) in groups.into_iter().enumerate() {
        group.shuffle(&mut generator(Purpose::Split, Draw { seed, epoch: 0 }, number as u64));
        let (mut start, mut cumulative) = (0, 0.0);
        for (part, fraction) in parts.iter_mut().zip(fractions) {
            cumulative += fraction;
            let end = ((cumulative * group.len() as f64).round() as usize).min(group.len());
            part.extend_from_slice(&group[start..end]);
            start = end;
        }
    }
    if let Some(empty) = parts.iter().position(Vec::is_empty) {
        let fraction = fractions[empty];
        let why = if several { "no class has enough samples" } else { "that is less than one sample" };
        return Err(Error::invalid(format!(
            "part {empty} of the split, a fraction of {fraction} of {len} samples, is empty: {why}"
        )));
    }
    parts.iter_mut().for_each(|part| part.sort_unstable());
    Ok(parts)
}
