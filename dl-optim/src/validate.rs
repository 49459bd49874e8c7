//! Validation of the settings of optimizers and schedules.

use dl_core::{Error, Result};
use std::fmt;

/// The range of a setting. NaN is in none.
#[derive(Clone, Copy)]
pub(crate) enum Allowed {
    Finite,
    /// Includes infinity.
    AtLeastZero,
    FiniteFromZero,
    FiniteAboveZero,
    /// From 0 to this, both included.
    UpTo(f64),
    /// From 0, included, to 1, excluded.
    BelowOne,
}

impl Allowed {
    #[inline]
    fn contains(self, number: f64) -> bool {
        match self {
            Allowed::Finite => number.is_finite(),
            Allowed::AtLeastZero => number >= 0.0,
            Allowed::FiniteFromZero => number.is_finite() && number >= 0.0,
            Allowed::FiniteAboveZero => number.is_finite() && number > 0.0,
            Allowed::UpTo(most) => (0.0..=most).contains(&number),
            Allowed::BelowOne => (0.0..1.0).contains(&number),
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowed::Finite => f.write_str("finite"),
            Allowed::AtLeastZero => f.write_str("0 or more"),
            Allowed::FiniteFromZero => f.write_str("0 or more, and finite"),
            Allowed::FiniteAboveZero => f.write_str("more than 0, and finite"),
            Allowed::UpTo(most) => write!(f, "from 0 to {most}"),
            Allowed::BelowOne => f.write_str("from 0 to less than 1"),
        }
    }
}

/// An error, unless this setting of an optimizer is in the allowed range.
#[inline]
pub(crate) fn check(setting: &str, number: f64, allowed: Allowed) -> Result<()> {
    check_of("optimizer", setting, number, allowed)
}

/// An error, unless this setting of `owner` is in the allowed range.
#[inline]
pub(crate) fn check_of(owner: &str, setting: &str, number: f64, allowed: Allowed) -> Result<()> {
    if allowed.contains(number) { Ok(()) } else { Err(out_of_range(owner, setting, number, allowed)) }
}

#[cold]
fn out_of_range(owner: &str, setting: &str, number: f64, allowed: Allowed) -> Error {
    Error::invalid(format!("{setting} of the {owner} is {number}; it has to be {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_every_range_matches_its_check() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let cases: [(Allowed, &[f64], &[f64], &str); 6] = [
            (Allowed::Finite, &[-1.0, 0.0], &[inf, -inf], "finite"),
            (Allowed::AtLeastZero, &[0.0, inf], &[-1e-300], "0 or more"),
            (Allowed::FiniteFromZero, &[0.0, 7.0], &[-1.0, inf], "0 or more, and finite"),
            (Allowed::FiniteAboveZero, &[1e-300], &[0.0, inf], "more than 0, and finite"),
            (Allowed::UpTo(0.5), &[0.0, 0.5], &[-0.1, 0.6], "from 0 to 0.5"),
            (Allowed::BelowOne, &[0.0, 0.9], &[-0.1, 1.0], "from 0 to less than 1"),
        ];
        for (allowed, good, bad, words) in cases {
            good.iter().for_each(|&number| check_of("optimizer", "eps", number, allowed).expect(words));
            for &number in bad.iter().chain(&[nan]) {
                let error = check_of("optimizer", "eps", number, allowed).expect_err(words);
                assert!(error.is_invalid());
                assert_eq!(error.to_string(), format!("eps of the optimizer is {number}; it has to be {words}"));
            }
        }
    }
}
