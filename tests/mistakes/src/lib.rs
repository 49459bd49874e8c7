//! Compile errors for mistakes in annotated functions: one file in `tests/ui/` for each mistake, with
//! the expected error next to it.
//!
//! `TRYBUILD=overwrite cargo test -p mistakes` rewrites the expected errors.

#![forbid(unsafe_code)]

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// Compiler flags for all that `trybuild` compiles. By default it passes the last one for the
    /// cases only, so cargo would check all dependencies twice.
    const FLAGS: &str = "--cfg\x1ftrybuild\x1f--verbose\x1f-A\x1fdead_code\x1f--diagnostic-width=140";
    /// It takes precedence over the flags of `trybuild`.
    const FLAGS_VARIABLE: &str = "CARGO_ENCODED_RUSTFLAGS";

    #[test]
    fn mistakes_fail_with_expected_errors() {
        if std::env::var_os(FLAGS_VARIABLE).is_none() {
            let this = std::env::current_exe().expect("a test has a program");
            let again = ["--exact", "tests::mistakes_fail_with_expected_errors", "--nocapture"];
            let selected = std::env::args().filter(|argument| argument.starts_with("trybuild="));
            let ended = Command::new(this).args(again).args(selected).env(FLAGS_VARIABLE, FLAGS).status();
            return assert!(ended.is_ok_and(|status| status.success()), "see the messages above");
        }
        assert!(std::fs::read_dir("tests/ui").is_ok_and(|cases| cases.count() > 0), "no cases found");
        trybuild::TestCases::new().compile_fail("tests/ui/**/*.rs");
    }
}
