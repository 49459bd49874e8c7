use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

macro_rules! activation {
    ($name:ident, $x:ident => $condition:expr, $then:expr, $otherwise:expr, $out:ty) => {
        #[differentiable]
        fn $name($x: &$out) -> $out {
            if $condition { $then } else { $otherwise }
        }
    };
}

activation!(leaky, x => !x > 0.0, x.clone(), x * 0.1, Layer<f64>);
activation!(squashed, x => !x < 1.0 && !x > -1.0, x * x, x * !x, Layer<f64>);

#[test]
fn annotated_functions_expand_inside_macro_rules() {
    assert_eq!(value(&leaky(&Layer::constant(-2.0))), -0.2);
    assert_eq!(value(&squashed(&Layer::constant(3.0))), 9.0);
}
