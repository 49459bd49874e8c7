use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

use std::sync::Arc;

#[derive(Clone)]
struct Net {
    weight: Weight<f64>,
    inner: Option<Box<Net>>,
}

impl Net {
    #[differentiable]
    fn of(&self, x: &Layer<f64>) -> Layer<f64> {
        let y = self.weight * x;
        match &self.inner {
            Some(inner) if !y > 1.0 => inner.of(&y),
            _ => y,
        }
    }

    #[differentiable]
    fn consumed(mut self, x: Layer<f64>) -> Layer<f64> {
        self.inner = None;
        self.of(&x) + !x
    }

    #[differentiable]
    fn shared(self: Arc<Self>, x: &Layer<f64>) -> Layer<f64> {
        self.of(x) * !self.weight
    }

    #[differentiable]
    fn twice(&self) -> Self {
        Net { weight: self.weight.clone(), inner: Some(Box::new(self.clone())) }
    }
}

#[test]
fn methods_take_self_by_value_reference_and_arc() {
    let net = Net { weight: Weight::new(2.0), inner: None }.twice();
    let x = Layer::constant(3.0);
    assert_eq!(value(&net.of(&x)), 12.0);
    assert_eq!(value(&net.clone().consumed(x.clone())), 9.0);
    assert_eq!(value(&Arc::new(net).shared(&x)), 24.0);
}
