use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

#[differentiable]
fn outer(x: &Layer<f64>) -> Layer<f64> {
    #[differentiable]
    fn inner(x: &Layer<f64>) -> Layer<f64> {
        x * !x
    }
    #[derive(Clone, Copy)]
    enum Kind {
        Same,
        Other,
    }
    impl Kind {
        fn is_other(self) -> bool {
            !matches!(self, Kind::Same)
        }
    }
    const LIMIT: f64 = 1.0;
    static NEGATED: bool = !false;
    let kind = if !x > LIMIT && NEGATED { Kind::Other } else { Kind::Same };
    if kind.is_other() { inner(x) + !inner(x) } else { x.clone() }
}

#[test]
fn nested_items_keep_not() {
    assert_eq!(value(&outer(&Layer::constant(2.0))), 8.0);
    assert_eq!(value(&outer(&Layer::constant(0.5))), 0.5);
}
