//! The assignment of samples to batches in an epoch. It is a pure function of the settings, the
//! seed and the epoch.

use crate::draw::{Draw, Purpose, generator};
use crate::split::by_class;
use rand::seq::SliceRandom;

pub(crate) struct Settings<'a> {
    pub(crate) len: usize,
    /// Must be at least 1.
    pub(crate) batch_size: usize,
    pub(crate) shuffle: bool,
    pub(crate) drop_last: bool,
    /// One label per sample, if each batch must hold a single class.
    pub(crate) labels: Option<&'a [usize]>,
}

/// The sample indices of each batch of an epoch.
#[derive(Debug, PartialEq)]
pub(crate) struct Order {
    samples: Vec<usize>,
    /// The end of each batch in `samples`; the next batch starts there.
    ends: Vec<usize>,
}

impl Order {
    pub(crate) fn new(settings: &Settings<'_>, draw: Draw) -> Order {
        let groups = match settings.labels {
            Some(labels) => by_class(labels).into_values().collect(),
            None => vec![(0..settings.len).collect::<Vec<_>>()],
        };
        let mut batches = Vec::new();
        for (number, group) in groups.iter().enumerate() {
            batches.extend(chunks(group, number as u64, settings, draw));
        }
        if settings.shuffle && settings.labels.is_some() {
            batches.shuffle(&mut generator(Purpose::Shuffle, draw, u64::MAX));
        }
        let mut order = Order { samples: Vec::with_capacity(settings.len), ends: Vec::with_capacity(batches.len()) };
        for batch in batches {
            order.samples.extend(batch);
            order.ends.push(order.samples.len());
        }
        order
    }

    /// The number of batches.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The sample indices of one batch.
    pub(crate) fn batch(&self, number: usize) -> &[usize] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.samples[start..self.ends[number]]
    }
}

/// Splits one group of samples into batches.
fn chunks(group: &[usize], number: u64, settings: &Settings<'_>, draw: Draw) -> Vec<Vec<usize>> {
    let mut group = group.to_vec();
    if settings.shuffle {
        group.shuffle(&mut generator(Purpose::Shuffle, draw, number));
    }
    if settings.drop_last {
        group.truncate(group.len() - group.len() % settings.batch_size);
    }
    group.chunks(settings.batch_size).map(<[usize]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Settings<'static> =
        Settings { len: 10, batch_size: 4, shuffle: false, drop_last: false, labels: None };

    fn batches(settings: &Settings<'_>, seed: u64, epoch: u64) -> Vec<Vec<usize>> {
        let order = Order::new(settings, Draw { seed, epoch });
        (0..order.len()).map(|number| order.batch(number).to_vec()).collect()
    }

    #[test]
    fn order_without_shuffle_is_data_order() {
        assert_eq!(batches(&PLAIN, 1, 2), [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9]]);
        assert_eq!(batches(&Settings { drop_last: true, ..PLAIN }, 1, 2), [vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
        assert!(batches(&Settings { len: 3, drop_last: true, ..PLAIN }, 0, 0).is_empty());
        assert!(batches(&Settings { len: 0, ..PLAIN }, 0, 0).is_empty());
        assert_eq!(batches(&Settings { len: 8, ..PLAIN }, 0, 0).len(), 2);
    }

    /// The order must be the same on every platform and in every version of this crate: checkpoints
    /// store positions.
    #[test]
    fn shuffled_order_has_pinned_values() {
        let shuffled = Settings { shuffle: true, batch_size: 10, ..PLAIN };
        assert_eq!(batches(&shuffled, 1, 0), [[4, 9, 1, 2, 8, 7, 3, 0, 5, 6]]);
        assert_eq!(batches(&shuffled, 1, 1), [[0, 7, 1, 3, 4, 5, 8, 2, 9, 6]]);
        assert_eq!(batches(&shuffled, 2, 0), [[6, 3, 0, 7, 5, 4, 8, 9, 1, 2]]);
    }

    #[test]
    fn shuffled_epoch_contains_every_sample_once() {
        for epoch in 0..20 {
            let mut all = batches(&Settings { shuffle: true, ..PLAIN }, 3, epoch).concat();
            all.sort_unstable();
            assert_eq!(all, (0..10).collect::<Vec<_>>());
        }
    }

    /// Each of 5 samples should be at each of 5 positions in a fifth of the epochs. Chi-squared
    /// test with 16 degrees of freedom; its 0.999 quantile is 39.
    #[test]
    fn shuffled_positions_are_uniform() {
        const EPOCHS: u64 = 5000;
        let mut counts = [[0_u32; 5]; 5];
        for epoch in 0..EPOCHS {
            let order =
                Order::new(&Settings { len: 5, batch_size: 5, shuffle: true, ..PLAIN }, Draw { seed: 0, epoch });
            for (place, &sample) in order.batch(0).iter().enumerate() {
                counts[sample][place] += 1;
            }
        }
        let expected = EPOCHS as f64 / 5.0;
        let chi_squared: f64 = counts.iter().flatten().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        assert!(chi_squared < 39.0, "{chi_squared}: {counts:?}");
    }

    #[test]
    fn batch_by_class_holds_one_class() {
        let labels = [2, 0, 2, 0, 2, 0, 2, 0, 2, 7];
        let of_classes = Settings { labels: Some(&labels), batch_size: 3, ..PLAIN };
        assert_eq!(batches(&of_classes, 0, 0), [vec![1, 3, 5], vec![7], vec![0, 2, 4], vec![6, 8], vec![9]]);
        let full = Settings { drop_last: true, shuffle: true, ..of_classes };
        assert_eq!(batches(&full, 0, 0).len(), 2);
        let shuffled = Settings { shuffle: true, ..of_classes };
        let mut orders = Vec::new();
        for epoch in 0..20 {
            let batches = batches(&shuffled, 0, epoch);
            for batch in &batches {
                assert!(batch.iter().all(|&sample| labels[sample] == labels[batch[0]]), "{batch:?}");
            }
            let mut all = batches.concat();
            all.sort_unstable();
            assert_eq!(all, (0..10).collect::<Vec<_>>());
            orders.push(batches.iter().map(|batch| labels[batch[0]]).collect::<Vec<_>>());
        }
        assert!(orders.iter().any(|order| *order != orders[0]), "the order of the classes changes between epochs");
    }
}
