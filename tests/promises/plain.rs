//! Promise 10: plain Rust is unchanged inside `#[differentiable]`.

use dl::prelude::*;

/// `!` is "not", `?` and `return` are those of Rust: this function does not return a layer.
#[differentiable]
fn first_unset_bit(text: &str, skip: bool) -> Result<u32, std::num::ParseIntError> {
    let bits: u32 = text.trim().parse()?;
    if !skip && bits == 0 {
        return Ok(0);
    }
    Ok((!bits).trailing_zeros())
}

#[test]
fn function_without_layer_result_is_plain_rust() {
    assert_eq!(first_unset_bit(" 7 ", false), Ok(3));
    assert_eq!(first_unset_bit("0", false), Ok(0));
    assert_eq!(first_unset_bit("0", true), Ok(0));
    assert!(first_unset_bit("seven", true).is_err());
}

/// Here `!x` is a bang, `!flag` and `!mask` are "not", `?` makes the layer fail, and `return`
/// returns early.
#[differentiable]
fn mixed(x: &Layer<f64>, flag: bool, mask: u8, text: &str) -> Layer<f64> {
    if !flag {
        return x * f64::from(!mask);
    }
    let factor: f64 = text.parse()?;
    let double = |number: f64| if !flag { number } else { 2.0 * number };
    if !x > 0.0 { x * double(factor) } else { x.clone() }
}

#[test]
fn function_with_layer_result_mixes_bangs_and_plain_rust() {
    let x = Weight::new(3.0).layer();
    let value = |flag, text| mixed(&x, flag, 0xF0, text).predict().wait();
    assert_eq!(value(false, "").unwrap(), 45.0);
    assert_eq!(value(true, "1.5").unwrap(), 9.0);
    assert!(value(true, "1,5").unwrap_err().to_string().contains("invalid float literal"));
}

/// Operators do not move layers, and plain operands are unchanged.
#[differentiable]
fn operands(x: Layer<f64>, mut count: i32) -> Layer<f64> {
    count += 1;
    let y = x * x + x;
    y * f64::from(count * count) - x
}

#[test]
fn operators_do_not_move_layers() {
    assert_eq!(operands(Weight::new(2.0).layer(), 1).predict().wait().unwrap(), 22.0);
}
