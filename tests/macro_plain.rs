//! Functions without layers behave the same with and without the attribute.

use dl::prelude::*;
use std::collections::HashMap;
use std::num::ParseIntError;

/// Defines each function twice: plain and annotated.
macro_rules! twice {
    ($($(#[$attribute:meta])* fn $name:ident $parameters:tt $(-> $output:ty)? $body:block)*) => {
        #[allow(clippy::nonminimal_bool, clippy::never_loop, reason = "the test is about constructs, not style")]
        mod plain {
            #[allow(unused_imports, reason = "not every function needs them")]
            use super::*;
            $($(#[$attribute])* pub(super) fn $name $parameters $(-> $output)? $body)*
        }
        #[allow(clippy::nonminimal_bool, clippy::never_loop, reason = "the test is about constructs, not style")]
        mod annotated {
            #[allow(unused_imports, reason = "not every function needs them")]
            use super::*;
            $($(#[$attribute])* #[differentiable] pub(super) fn $name $parameters $(-> $output)? $body)*
        }
    };
}

twice! {
    fn inverted(flag: bool, n: u8) -> (bool, u8) {
        (!flag, !n)
    }

    fn gcd(mut a: u64, mut b: u64) -> u64 {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    }

    fn sum(text: &str) -> Result<i32, ParseIntError> {
        let mut sum = 0;
        for part in text.split(',') {
            let n: i32 = part.trim().parse()?;
            if !(n > 0) {
                continue;
            }
            sum += n;
        }
        Ok(sum)
    }

    fn counted(words: &[&str]) -> Vec<(String, usize)> {
        let mut counts = HashMap::new();
        for word in words {
            *counts.entry(word.to_string()).or_insert(0) += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort();
        counts
    }

    fn built(n: usize) -> String {
        let mut text = String::new();
        for i in 0..n {
            text = text + &i.to_string() + if i + 1 < n { "," } else { "" };
        }
        format!("{text}{}", if !text.is_empty() { "." } else { "" })
    }

    fn popcount(mut n: u32) -> u32 {
        let mut count = 0;
        while n != 0 {
            n &= !(!n + 1) | (n - 1);
            n &= n - u32::from(n != 0);
            count += 1;
        }
        count
    }

    fn first_even(numbers: &[i64]) -> Option<i64> {
        let found = numbers.iter().find(|n| !(**n & 1 == 1))?;
        Some(*found * 2 - -found)
    }

    fn mean(values: &[f64]) -> f64 {
        let n = values.len() as f64;
        let total: f64 = values.iter().map(|v| v * 2.0).sum();
        let mean = total / n;
        let scale = |x: f64| x * mean + n;
        scale(1.0) + scale(mean)
    }

    fn labelled(limit: i32) -> i32 {
        let found = 'outer: loop {
            for a in 1..limit {
                for b in a..limit {
                    if a * a + b * b == limit {
                        break 'outer a * 100 + b;
                    }
                }
            }
            break -1;
        };
        let block = 'block: {
            if found < 0 {
                break 'block 1;
            }
            found % 7
        };
        found + block
    }
}

#[test]
fn annotated_plain_functions_give_same_results() {
    for n in 0..60 {
        assert_eq!(plain::inverted(n % 2 == 0, n), annotated::inverted(n % 2 == 0, n));
        assert_eq!(plain::popcount(u32::from(n) * 77), annotated::popcount(u32::from(n) * 77));
        assert_eq!(plain::labelled(i32::from(n)), annotated::labelled(i32::from(n)));
        assert_eq!(plain::gcd(u64::from(n), 36), annotated::gcd(u64::from(n), 36));
        assert_eq!(plain::built(n.into()), annotated::built(n.into()));
    }
    for text in ["1,2, 3", "", "4,x", "-3,5"] {
        assert_eq!(plain::sum(text), annotated::sum(text));
    }
    assert_eq!(plain::counted(&["a", "b", "a"]), annotated::counted(&["a", "b", "a"]));
    for numbers in [&[1, 3][..], &[1, 4, 6]] {
        assert_eq!(plain::first_even(numbers), annotated::first_even(numbers));
    }
    assert_eq!(plain::mean(&[1.0, 2.5, 4.0]), annotated::mean(&[1.0, 2.5, 4.0]));
}

/// A type that is neither `Copy` nor `Clone`.
#[derive(Debug, PartialEq)]
struct Once(i32);

impl std::ops::Add<i32> for Once {
    type Output = Once;
    fn add(self, right: i32) -> Once {
        Once(self.0 + right)
    }
}

#[differentiable]
fn moved_once(once: Once, more: bool) -> Once {
    if more {
        return once + 1;
    }
    let mut once = once + 2;
    for _ in 0..3 {
        once = once + 1;
    }
    once
}

#[test]
fn operand_used_once_is_moved() {
    assert_eq!(moved_once(Once(1), true), Once(2));
    assert_eq!(moved_once(Once(1), false), Once(6));
}
