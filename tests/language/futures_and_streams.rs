use dl::prelude::*;

use futures::executor::block_on;

#[differentiable]
fn read(x: &Layer<f64>) -> Do<f64> {
    let v = !x;
    let (a, b) = !(Do::now(v), Do::from_fn(move || async move { Ok(v + 1.0) }));
    Do::now(a * b)
}

async fn outside(x: Layer<f64>) -> dl::Result<f64> {
    let blocks = direct! { if !read(&x) > 5.0 { x * 2.0 } else { x } };
    let (a, b) = futures::join!(async { read(&x).await }, async { blocks.predict().await });
    Ok(a? + b?)
}

#[test]
fn lazy_functions_run_inside_async_code() {
    assert_eq!(block_on(outside(Layer::constant(2.0))).unwrap(), 10.0);
}
