use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

trait Model {
    type Input: Differentiable<Data = f64, Delta = f64> + Clone + Send + Sync + 'static;
    const SCALE: f64;
    fn apply(&self, input: &Self::Input) -> Layer<f64>;
}

#[derive(Clone)]
struct Scaled(f64);

impl Model for Scaled {
    type Input = Weight<f64>;
    const SCALE: f64 = 3.0;

    #[differentiable]
    fn apply(&self, input: &Self::Input) -> Layer<f64> {
        let v = !input;
        if v > self.0 { input * Self::SCALE } else { input.layer() }
    }
}

#[test]
fn associated_types_work_in_lazy_methods() {
    assert_eq!(value(&Scaled(1.0).apply(&Weight::new(2.0))), 6.0);
}
