use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Mask(u8);

impl std::ops::Not for Mask {
    type Output = Mask;
    fn not(self) -> Mask {
        Mask(!self.0)
    }
}

#[differentiable]
fn masked(x: &Layer<f64>, mask: Mask, flags: &[bool], n: i64) -> Layer<f64> {
    let Mask(bits) = !mask;
    let inner = |flag: &bool| !flag;
    let kept = flags.iter().filter(|flag| !**flag).count();
    let any = flags.iter().any(inner);
    if !flags[0] && any && !(!n == n) && !flags.is_empty() { x * !x * f64::from(bits) * kept as f64 } else { x.clone() }
}

#[differentiable]
fn in_a_plain_function(x: &Layer<f64>, mask: &Mask, flag: bool) -> (bool, Mask, usize) {
    let nothing = |flag| !flag;
    (nothing(flag) || !format!("{x:?}").is_empty(), !*mask, !0)
}

#[test]
fn not_operator_keeps_its_meaning() {
    assert_eq!(value(&masked(&Layer::constant(2.0), Mask(0xF0), &[false, true, false], 3)), 120.0);
    assert_eq!(in_a_plain_function(&Layer::constant(2.0), &Mask(1), true), (true, Mask(254), usize::MAX));
}
