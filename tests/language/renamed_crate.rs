use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

mod vendored {
    pub use ::dl as learning;
}

#[differentiable(crate = vendored::learning)]
fn scaled(x: &Layer<f64>) -> Layer<f64> {
    let y = x + !x;
    y * y
}

#[differentiable(crate = crate::language::renamed_crate::vendored::learning)]
mod nets {
    use super::vendored::learning::prelude::*;

    #[derive(Clone, Layers)]
    #[layers(crate = crate::language::renamed_crate::vendored::learning)]
    pub struct Pair(pub Layer<f64>, pub Layer<f64>);

    #[differentiable(lazy, crate = crate::language::renamed_crate::vendored::learning)]
    pub fn pair(x: Layer<f64>) -> Pair {
        let v = !x;
        Pair(x * v, x)
    }

    pub fn block(x: &Layer<f64>) -> Layer<f64> {
        direct! { crate = crate::language::renamed_crate::vendored::learning; x * !x }
    }
}

#[test]
fn crate_option_sets_path_of_crate() {
    assert_eq!(value(&scaled(&Layer::constant(2.0))), 16.0);
    assert_eq!(value(&nets::pair(Layer::constant(3.0)).0), 9.0);
    assert_eq!(value(&nets::block(&Layer::constant(3.0))), 9.0);
}
