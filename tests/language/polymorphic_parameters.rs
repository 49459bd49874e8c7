use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

#[differentiable]
fn product<A, B>(a: A, b: &B, scale: impl Into<f64> + Clone + Send + Sync + 'static) -> Layer<f64>
where
    A: Differentiable<Data = f64, Delta = f64>,
    B: Differentiable<Data = f64, Delta = f64> + ?Sized,
{
    let scale: f64 = scale.into();
    if !a > !b { a * b * scale } else { a + b }
}

/// A reference to a polymorphic parameter stays a reference.
#[differentiable]
fn power(x: &impl Differentiable<Data = f64, Delta = f64>, n: usize) -> Layer<f64> {
    if n == 0 { Layer::constant(1.0) } else { x * power(x, n - 1) }
}

#[differentiable]
fn power_while(x: &impl Differentiable<Data = f64, Delta = f64>, n: usize, limit: f64) -> Layer<f64> {
    if n == 0 || !x > limit {
        return x.layer();
    }
    x * power(x, n - 1)
}

/// So does a reference to a slice, and one to a value that is no layer.
#[differentiable]
fn score(
    xs: &[impl Into<f64> + Copy + Send + Sync + 'static],
    names: &(impl ToString + Clone + Send + Sync + 'static),
    x: &Layer<f64>,
) -> Layer<f64> {
    let scores: f64 = xs.iter().map(|&x| x.into()).sum();
    x * (!x * scores + names.to_string().len() as f64)
}

struct Own(Weight<f64>);

impl Differentiable for Own {
    type Data = f64;
    type Delta = f64;

    fn layer(&self) -> Layer<f64> {
        self.0.layer()
    }

    fn forward(&self) -> Do<Tape<f64, f64>> {
        self.0.forward()
    }
}

#[test]
fn polymorphic_parameters_become_layers() {
    let own = Own(Weight::new(3.0));
    assert_eq!(value(&product(&own, &2.0, 1.0_f32)), 6.0);
    assert_eq!(value(&power(&own, 4)), 81.0);
    assert_eq!(value(&power_while(&own, 3, 5.0)), 27.0);
    assert_eq!(value(&power_while(&own, 3, 1.0)), 3.0);
    let scored = score(&[1.0_f32, 2.0], &"four", &Layer::constant(2.0));
    assert_eq!((value(&scored), value(&scored)), (20.0, 20.0));
    assert_eq!(value(&product(1.0, &Layer::constant(2.0), 1_i32)), 3.0);
}
