use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

fn shared<T: Send + Sync + Clone + 'static>(value: T) -> T {
    value
}

#[differentiable]
fn scaled(x: &Layer<f64>, names: &str, list: &[Weight<f64>]) -> Layer<f64> {
    let mut sum = x * names.len() as f64;
    for w in list {
        if !w > !sum {
            sum = sum + w;
        }
    }
    sum
}

#[test]
fn lazy_layer_can_be_predicted_on_several_threads() {
    let layer = shared(scaled(&Layer::constant(1.0), "ab", &[Weight::new(3.0), Weight::new(4.0)]));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let layer = layer.clone();
            std::thread::spawn(move || value(&layer))
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), 5.0);
    }
}
