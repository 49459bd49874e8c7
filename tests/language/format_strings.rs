//! Variables captured by format strings, and strings that only look like format strings.

use dl::prelude::*;
use std::fmt;

#[derive(Clone)]
struct Net(String);

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[differentiable]
impl Net {
    fn described(&self, x: &Layer<f64>) -> Do<String> {
        let inner = format!("{}|{}", !x, format!("{self:>4}{{self}}"));
        let list = vec!["{self}", "{x}"];
        assert_eq!(list[0], "{self}", "of {self}");
        assert!(matches!(list[0], "{self}" if self.0 == "net"));
        Do::now(inner + list[0])
    }

    fn in_a_block(&self, x: &Layer<f64>) -> Vec<Do<String>> {
        vec![direct! { Do::now(format!("{self}{}", !x)) }]
    }
}

macro_rules! text {
    ($text:literal) => {
        $text
    };
}

/// In a function without a receiver, a string of an unlisted macro may contain `{self}`.
#[differentiable]
fn of_another(x: &Layer<f64>) -> Do<String> {
    Do::now(format!("{}{}", !x, text!("{self}")))
}

/// Variables captured by `direct!` blocks.
fn in_blocks(x: &Layer<f64>, texts: &mut Vec<String>) {
    let (plus, times) = (String::from("+"), String::from("*"));
    texts.push(direct! { Do::now(format!("\u{b1}{plus}{}{}", !x, "{minus}")) }.wait().unwrap());
    texts.push(
        direct! {
            let text = times;
            assert_eq!(text, "*", "{plus}");
            assert_ne!("{minus}", text);
            Do::now(vec!["{minus}"].concat() + &text)
        }
        .wait()
        .unwrap(),
    );
}

/// Items and imports of a `direct!` block are not captured.
fn with_items(x: &Layer<f64>) -> Layer<f64> {
    direct! {
        use std::convert::identity;
        fn half(x: f64) -> f64 {
            x * 0.5
        }
        let value = Some(!x).map(half).map(identity).unwrap_or_default();
        x * value
    }
}

#[test]
fn format_strings_capture_self_and_variables() {
    let (net, x) = (Net("net".into()), Layer::constant(4.0));
    assert_eq!(net.described(&x).wait().unwrap(), "4| net{self}{self}");
    assert_eq!(net.in_a_block(&x)[0].wait().unwrap(), "net4");
    assert_eq!(of_another(&x).wait().unwrap(), "4{self}");
    let mut texts = Vec::new();
    in_blocks(&x, &mut texts);
    assert_eq!(texts, ["\u{b1}+4{minus}", "{minus}*"]);
    assert_eq!(with_items(&x).predict().wait().unwrap(), 8.0);
}
