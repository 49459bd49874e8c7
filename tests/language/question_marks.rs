use dl::prelude::*;

use std::fmt;

#[derive(Debug)]
struct TooLarge(f64);

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is too large", self.0)
    }
}

impl std::error::Error for TooLarge {}

fn checked(v: f64) -> Result<f64, TooLarge> {
    if v > 10.0 { Err(TooLarge(v)) } else { Ok(v) }
}

#[differentiable]
fn limited(x: &Layer<f64>, names: &[String]) -> Layer<f64> {
    let v = checked(!x)?;
    let name = names.first().ok_or("no name")?;
    let n: f64 = name.parse()?;
    let boxed: Result<f64, Box<dyn std::error::Error + Send + Sync>> = Ok(n);
    let own: dl::Result<f64> = Ok(v);
    x * (boxed? + own?)
}

#[test]
fn question_mark_errors_become_error_of_layer() {
    let error = |x, name: &[&str]| {
        let names: Vec<String> = name.iter().map(|name| name.to_string()).collect();
        limited(&Layer::constant(x), &names).predict().wait().map_err(|error| error.to_string())
    };
    assert_eq!(error(2.0, &["3"]), Ok(10.0));
    assert!(error(11.0, &["3"]).unwrap_err().contains("11 is too large"));
    assert!(error(1.0, &[]).unwrap_err().contains("no name"));
    assert!(error(1.0, &["x"]).unwrap_err().contains("invalid float literal"));
}
