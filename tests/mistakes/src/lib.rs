//! Compile errors for mistakes in annotated functions: one file in `tests/ui/` for each mistake, with
//! the expected error next to it.
//!
//! `TRYBUILD=overwrite cargo test -p mistakes` rewrites the expected errors.

#![forbid(unsafe_code)]

#[cfg(test)]
#[test]
fn mistakes_fail_with_expected_errors() {
    assert!(std::fs::read_dir("tests/ui").is_ok_and(|cases| cases.count() > 0), "no cases found");
    trybuild::TestCases::new().compile_fail("tests/ui/**/*.rs");
}
