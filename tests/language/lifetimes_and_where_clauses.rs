use dl::prelude::*;

fn value(layer: &Layer<f64>) -> f64 {
    layer.predict().wait().unwrap()
}

struct Batch<'a> {
    values: &'a [f64],
}

#[differentiable]
fn summed<'a, 'b: 'a, T>(x: &'a Layer<f64>, names: &'b [String], extra: &'a T) -> Layer<f64>
where
    T: Clone + Into<f64> + Send + Sync + 'static,
{
    let extra: f64 = extra.clone().into();
    x * !x * names.len() as f64 + extra
}

#[differentiable]
fn first<'a>(batch: &Batch<'a>) -> Option<&'a f64> {
    let first = batch.values.first()?;
    if !first.is_nan() { Some(first) } else { None }
}

#[test]
fn lifetimes_and_where_clauses_are_kept() {
    assert_eq!(value(&summed(&Layer::constant(2.0), &["a".into()], &1.0_f32)), 5.0);
    assert_eq!(first(&Batch { values: &[1.0] }), Some(&1.0));
}
