use dl::prelude::*;
use std::future::Future;

/// As `tokio::spawn` does.
fn spawn<T, F: Future<Output = T> + Send + 'static>(_: F) {}

fn main() {
    let w = Weight::new(2.0_f64);
    spawn((&w * 3.0).square().train(&Sgd::new(0.1)));
}
