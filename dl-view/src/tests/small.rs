//! A snapshot of a small picture, which contains lines and columns of this file.

use crate::Graph;
use crate::samples::{Sample, branch};
use expect_test::expect_file;

#[test]
fn small_picture_matches_snapshot() {
    let mut sample = Sample::default();
    let (left, right) = (sample.weight("f32[2, 3]"), sample.weight("f32[3, 4]"));
    let product = sample.op("matmul", &[left, right], "f32[2, 4]");
    let sum = sample.op("sum", &[product], "f32");
    sample.body("chosen", &[sum], &[(branch("!sum > 0.0", &["sum.sin()", "-sum"]), 1)], None);
    expect_file!["small.svg"].assert_eq(&Graph::of(&sample.record).svg());
    expect_file!["small.dot"].assert_eq(&Graph::of(&sample.record).dot());
}
