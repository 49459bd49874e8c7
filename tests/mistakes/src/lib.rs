//! What a mistake in an annotated function says: one file in `tests/ui/` for each mistake.
//!
//! `TRYBUILD=overwrite cargo test -p mistakes` writes the messages anew.

#![forbid(unsafe_code)]

#[cfg(test)]
#[test]
fn mistakes_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/**/*.rs");
}
