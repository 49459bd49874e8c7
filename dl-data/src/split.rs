//! Splits: parts of a data set, training and test for instance, that are drawn with a seed.

use crate::adapt::Subset;
use crate::draw::{Draw, Purpose, generator};
use dl_core::{Error, Result};
use rand::seq::SliceRandom;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The indices 0 to `len` in parts of these sizes, as fractions of the whole: at random, but in
/// ascending order within a part. Fractions that sum to less than 1 leave some out.
///
/// The end of a part is rounded to the nearest sample. [`Dataset::split`](crate::Dataset::split)
/// makes data sets of the parts.
///
/// ```
/// let [train, valid, test] = dl_data::split(10, [0.5, 0.2, 0.3], 1)?;
/// assert_eq!((train.len(), valid.len(), test.len()), (5, 2, 3));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// When a fraction is not positive, they sum to more than 1, or a part would be empty.
pub fn split<const N: usize>(len: usize, fractions: [f64; N], seed: u64) -> Result<[Vec<usize>; N]> {
    parts(vec![(0..len).collect()], fractions, seed)
}

/// The same for each class by itself: of every class every part has its fraction, where the end of
/// a part is rounded to the nearest sample. Of a class of a few samples a part may get none: of
/// five samples, fractions of 0.7, 0.15 and 0.15 are four, none and one.
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
/// Those of [`split`].
pub fn split_by_class<const N: usize>(labels: &[usize], fractions: [f64; N], seed: u64) -> Result<[Vec<usize>; N]> {
    parts(by_class(labels).into_values().collect(), fractions, seed)
}

/// The samples of each class, in ascending order.
pub(crate) fn by_class(labels: &[usize]) -> BTreeMap<usize, Vec<usize>> {
    let mut classes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, &label) in labels.iter().enumerate() {
        classes.entry(label).or_default().push(index);
    }
    classes
}

pub(crate) fn subsets<D, const N: usize>(data: D, parts: [Vec<usize>; N]) -> [Subset<Arc<D>>; N] {
    let data = Arc::new(data);
    parts.map(|indices| Subset::of(data.clone(), indices))
}

fn parts<const N: usize>(groups: Vec<Vec<usize>>, fractions: [f64; N], seed: u64) -> Result<[Vec<usize>; N]> {
    if let Some(fraction) = fractions.iter().find(|&&fraction| !(fraction > 0.0 && fraction <= 1.0)) {
        return Err(Error::invalid(format!("a fraction of {fraction}: those of a split are above 0 and at most 1")));
    }
    let sum: f64 = fractions.iter().sum();
    if sum > 1.0 + 1e-9 {
        return Err(Error::invalid(format!("the fractions {fractions:?} sum to {sum}: at most 1 can be given away")));
    }
    let (len, several): (usize, bool) = (groups.iter().map(Vec::len).sum(), groups.len() > 1);
    let mut parts = [const { Vec::new() }; N];
    for (number, mut group) in groups.into_iter().enumerate() {
        group.shuffle(&mut generator(Purpose::Split, Draw { seed, epoch: 0 }, number as u64));
        let (mut start, mut given) = (0, 0.0);
        for (part, fraction) in parts.iter_mut().zip(fractions) {
            given += fraction;
            let end = ((given * group.len() as f64).round() as usize).min(group.len());
            part.extend_from_slice(&group[start..end]);
            start = end;
        }
    }
    if let Some(empty) = parts.iter().position(Vec::is_empty) {
        let fraction = fractions[empty];
        let why = if several { "no class has samples enough for it" } else { "that is less than one" };
        return Err(Error::invalid(format!(
            "part {empty} of the split is empty: a fraction of {fraction} of {len} samples: {why}"
        )));
    }
    parts.iter_mut().for_each(|part| part.sort_unstable());
    Ok(parts)
}
