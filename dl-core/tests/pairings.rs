//! Every operator, for every pairing of value, weight and layer, owned and borrowed, of both scalar
//! types.

use dl_core::{Differentiable, Layer, Weight, max, min, pow};

/// Checks all operators for each left and each right operand.
macro_rules! pairs {
    ($check:ident, $a:ident, $b:ident: [$($l:expr),*] $rs:tt) => { $(pairs!(@left $check, $a, $b: $l, $rs);)* };
    (@left $check:ident, $a:ident, $b:ident: $l:expr, [$($r:expr),*]) => {$(
        $check($l + $r, $a + $b);
        $check($l - $r, $a - $b);
        $check($l * $r, $a * $b);
        $check($l / $r, $a / $b);
        $check(min($l, $r), $b);
        $check(max($l, $r), $a);
        $check(pow($l, $r), $a.powf($b));
    )*};
}

macro_rules! scalar {
    ($T:ident) => {
        #[test]
        fn $T() {
            let (a, b): ($T, $T) = (3.0, 2.0);
            let (wa, wb) = (Weight::new(a), Weight::new(b));
            let (la, lb) = (wa.layer(), wb.layer());
            let mut checked = 0;
            let mut check = |layer: Layer<$T>, truth: $T| {
                assert_eq!(layer.predict().wait().unwrap(), truth);
                checked += 1;
            };
            pairs!(check, a, b: [a, &a, 3.0, wa.clone(), &wa, la.clone(), &la] [wb.clone(), &wb, lb.clone(), &lb]);
            pairs!(check, a, b: [wa.clone(), &wa, la.clone(), &la] [b, &b, 2.0]);
            check(-&wa, -a);
            check(-wa.clone(), -a);
            check(-&la, -a);
            check(-la.clone(), -a);
            check([&la, &lb, &la].into_iter().sum(), 8.0);
            check([la, lb].into_iter().sum(), 5.0);
            check(std::iter::empty::<Layer<$T>>().sum(), 0.0);
            assert_eq!(checked, 7 * (7 * 4 + 4 * 3) + 7);
        }
    };
}

scalar!(f32);
scalar!(f64);

#[test]
fn operation_on_borrowed_layers_records_its_line() {
    let (x, y) = (Weight::new(2.0_f64).layer(), Weight::new(3.0_f64).layer());
    let (square, product, sum, line) = (&x * &x, &x * &y, &x + 1.0, line!());
    for layer in [square, product, sum] {
        assert!(format!("{layer:?}").contains(&format!("{}:{line}:", file!())), "{layer:?}");
    }
}
