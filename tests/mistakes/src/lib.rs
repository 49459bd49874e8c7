//! What a mistake in an annotated function says: one file in `tests/ui/` for each mistake.
//!
//! `TRYBUILD=overwrite cargo test -p mistakes` writes the messages anew.

#![forbid(unsafe_code)]

#[cfg(test)]
#[test]
fn mistakes_are_explained() {
    assert!(std::fs::read_dir("tests/ui").is_ok_and(|cases| cases.count() > 0), "there are cases");
    trybuild::TestCases::new().compile_fail("tests/ui/**/*.rs");
}
