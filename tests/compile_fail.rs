//! What a mistake in an annotated function says: one file in `ui/` for each mistake.
//!
//! `TRYBUILD=overwrite cargo test --test compile_fail` writes the messages anew.

#[test]
fn mistakes_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/**/*.rs");
}
