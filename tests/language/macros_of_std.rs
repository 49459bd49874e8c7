use dl::prelude::*;

use std::fmt::Write;

#[differentiable]
fn reported(x: &Layer<f64>, y: &Layer<f64>) -> Do<String> {
    let mut text = String::new();
    write!(text, "{:.1} {value} {0}", !x, value = !y)?;
    writeln!(&mut text, " {}", if matches!(!x, v if v > 1.0) { "large" } else { "small" })?;
    let values = vec![!x, !y, 3.0];
    let same = vec![!x; 2];
    assert!(!x < !y, "{} is not below {}", !x, !y);
    assert_eq!(!x + 1.0, same[1] + 1.0);
    debug_assert_ne!(!x, !y, "they differ by {}", !x - !y);
    text += &format!("{values:?} {}", std::format!("{}", !y));
    eprintln!("{text}");
    if !x > 100.0 {
        unreachable!("{}", !x);
    }
    Do::now(text)
}

#[test]
fn std_macros_take_extractions_as_arguments() {
    let text = reported(&Layer::constant(1.5), &Layer::constant(2.0)).wait().unwrap();
    assert_eq!(text, "1.5 2 1.5 large\n[1.5, 2.0, 3.0] 2");
}
