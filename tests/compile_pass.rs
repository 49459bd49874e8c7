//! Programs that compile without a warning and do what they should: one file in `pass/` for each part of the language.

#[test]
fn programs_compile_and_run() {
    trybuild::TestCases::new().pass("tests/pass/*.rs");
}
