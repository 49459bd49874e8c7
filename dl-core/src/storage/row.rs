//! Rows of floating-point numbers that are sent in pieces and added along a tree.

use std::ops::{AddAssign, Range};

/// Numbers of one type that may be changed.
#[derive(Debug)]
#[doc(hidden)]
pub enum Row<'a> {
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
}

/// Numbers that are converted at a time, on their way to or from bytes: they fit into the
/// first-level cache.
const BLOCK: usize = 1 << 10;

/// Appends the bytes of each number.
pub(crate) fn append<A: Copy, const N: usize>(row: &[A], to: &mut Vec<u8>, bytes: impl Fn(A) -> [u8; N]) {
    to.reserve(size_of_val(row));
    let mut block = [[0; N]; BLOCK];
    for part in row.chunks(BLOCK) {
        block.iter_mut().zip(part).for_each(|(to, &number)| *to = bytes(number));
        to.extend_from_slice(block[..part.len()].as_flattened());
    }
}

macro_rules! rows {
    ($($Variant:ident $T:ident),*) => {
        $(
            impl<'a> From<&'a mut [$T]> for Row<'a> {
                fn from(row: &'a mut [$T]) -> Self {
                    Row::$Variant(row)
                }
            }
        )*

        impl Row<'_> {
            pub fn len(&self) -> usize {
                match self {
                    $(Row::$Variant(row) => row.len(),)*
                }
            }

            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Some of these numbers.
            ///
            /// # Panics
            /// If the range is beyond the end.
            pub fn part(&mut self, range: Range<usize>) -> Row<'_> {
                match self {
                    $(Row::$Variant(row) => Row::$Variant(&mut row[range]),)*
                }
            }

            /// Writes the bytes of these numbers, in little-endian order.
            ///
            /// # Panics
            /// If there is not the memory for as many numbers.
            pub fn write(&self, to: &mut [u8]) {
                match self {
                    $(Row::$Variant(row) => {
                        assert_eq!(to.len(), size_of_val(*row), "the bytes of as many numbers");
                        to.as_chunks_mut().0.iter_mut().zip(&**row).for_each(|(to, number)| *to = number.to_le_bytes());
                    })*
                }
            }

            /// Replaces these numbers by those with the given bytes.
            ///
            /// # Panics
            /// If the bytes are not those of as many numbers.
            pub fn read(&mut self, bytes: &[u8]) {
                match self {
                    $(Row::$Variant(row) => read(row, bytes, $T::from_le_bytes),)*
                }
            }

            /// Replaces these numbers by a sum. Its terms are rows of as many numbers, given as
            /// bytes; the term `None` is this row. Each addition `(l, r)` adds the term `r` to the
            /// term `l`, and the sum is the term `root` in the end.
            ///
            /// # Panics
            /// If the bytes are not those of as many numbers, or there is no such term.
            pub fn set_sum(&mut self, terms: &[Option<&[u8]>], additions: &[(usize, usize)], root: usize) {
                match self {
                    $(Row::$Variant(row) => set_sum(row, terms, additions, root, $T::from_le_bytes),)*
                }
            }
        }
    };
}

rows!(F32 f32, F64 f64);

fn read<A, const N: usize>(row: &mut [A], bytes: &[u8], number: impl Fn([u8; N]) -> A) {
    assert_eq!(bytes.len(), size_of_val(row), "the bytes of as many numbers");
    row.iter_mut().zip(bytes.as_chunks().0).for_each(|(to, &bytes)| *to = number(bytes));
}

fn set_sum<'t, A: Copy + Default + AddAssign, const N: usize>(
    row: &mut [A],
    terms: &[Option<&'t [u8]>],
    additions: &[(usize, usize)],
    root: usize,
    number: impl Fn([u8; N]) -> A,
) {
    let add = |left: &mut [A], right: &[A]| left.iter_mut().zip(right).for_each(|(left, &right)| *left += right);
    let add_bytes = |left: &mut [A], right: &[u8]| {
        left.iter_mut().zip(right.as_chunks().0).for_each(|(left, &right)| *left += number(right));
    };
    let mut blocks = vec![[A::default(); BLOCK]; terms.len()];
    // All other terms are added as they are.
    let has_block: Vec<bool> =
        (0..terms.len()).map(|term| term == root || additions.iter().any(|&(left, _)| left == term)).collect();
    for (nth, to) in row.chunks_mut(BLOCK).enumerate() {
        let len = to.len();
        let of_block = |bytes: &'t [u8]| &bytes[nth * BLOCK * N..][..len * N];
        for ((block, term), _) in blocks.iter_mut().zip(terms).zip(&has_block).filter(|(_, has_block)| **has_block) {
            if let Some(bytes) = term {
                read(&mut block[..len], of_block(bytes), &number);
            }
        }
        for &(left, right) in additions {
            match (terms[left], terms[right]) {
                (None, Some(bytes)) if !has_block[right] => add_bytes(to, of_block(bytes)),
                (_, Some(bytes)) if !has_block[right] => add_bytes(&mut blocks[left][..len], of_block(bytes)),
                (None, _) => add(to, &blocks[right][..len]),
                (_, None) => add(&mut blocks[left][..len], to),
                _ => {
                    let [left, right] = blocks.get_disjoint_mut([left, right]).expect("two terms");
                    add(&mut left[..len], &right[..len]);
                }
            }
        }
        if terms[root].is_some() {
            to.copy_from_slice(&blocks[root][..len]);
        }
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_row_are_those_of_its_numbers() {
        for len in [0, 1, BLOCK, 2 * BLOCK + 7] {
            let mut numbers: Vec<f64> = (0..len).map(|i| 0.1 * i as f64).collect();
            let (mut bytes, expected) =
                (vec![7; 8 * len], numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
            Row::from(&mut numbers[..]).write(&mut bytes);
            assert_eq!(bytes, expected);
            let mut read = vec![0.0; len];
            Row::from(&mut read[..]).read(&expected);
            assert_eq!(read, numbers);
        }
    }

    #[test]
    fn sum_adds_terms_in_given_order() {
        for len in [1, 5, BLOCK + 3] {
            let term = |factor: f32| (0..len).map(|i| factor * (1.0 + i as f32)).collect::<Vec<f32>>();
            let bytes = |row: &[f32]| row.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
            let (first, mut own, third) = (term(1e8), term(-1e8), term(1.0));
            let (a, b) = (bytes(&first), bytes(&third));
            let expected: Vec<f32> = (0..len).map(|i| first[i] + (own[i] + third[i])).collect();
            let other: Vec<f32> = (0..len).map(|i| (first[i] + own[i]) + third[i]).collect();
            assert!(expected != other);
            Row::from(&mut own[..]).set_sum(&[Some(&a), None, Some(&b)], &[(1, 2), (0, 1)], 0);
            assert_eq!(own, expected);
            let mut own = term(-1e8);
            Row::from(&mut own[..]).set_sum(&[Some(&a), None, Some(&b)], &[(0, 1), (0, 2)], 0);
            assert_eq!(own, other);
            let mut own = term(1.0);
            let minus = bytes(&term(-1e8));
            Row::from(&mut own[..]).set_sum(&[Some(&a), Some(&minus), None], &[(0, 1), (0, 2)], 0);
            assert_eq!(own, other);
            let mut own = term(1e8);
            Row::from(&mut own[..]).set_sum(&[None, Some(&minus), Some(&b)], &[(0, 1), (0, 2)], 0);
            assert_eq!(own, other);
        }
    }
}
