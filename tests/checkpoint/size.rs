//! Long chains of checkpoint boundaries on small stacks, and the memory that remains afterwards.

use super::nets::{Row, numbers};
use dl::prelude::*;

fn on_a_small_stack(f: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(256 << 10).spawn(f).unwrap().join().unwrap();
}

#[test]
fn hundred_thousand_scalar_checkpoints_do_not_overflow_stack() {
    on_a_small_stack(|| {
        let w = Weight::new(0.5_f64);
        let loss = (0..100_000).fold(w.layer(), |x, _| (x * 0.99999).checkpoint());
        let value = loss.predict().wait().unwrap();
        assert_eq!(loss.train(&Sgd::new(1.0)).wait().unwrap(), value);
        let plain = Weight::new(0.5_f64);
        (0..100_000).fold(plain.layer(), |x, _| x * 0.99999).train(&Sgd::new(1.0)).wait().unwrap();
        assert_eq!(w.value(), plain.value());
    });
}

#[test]
fn many_tensor_checkpoints_do_not_overflow_stack() {
    // a debug build takes half a minute for 200,000 operations, and fewer would overflow the stack
    let operations = if cfg!(debug_assertions) { 40_000 } else { 200_000 };
    on_a_small_stack(move || {
        let run = |every: usize| {
            let w: Weight<Row> = Weight::new(numbers(1, 2, 1));
            let mut h = w.layer();
            for number in 0..operations {
                h = h * 0.99999;
                if number % every == 1 {
                    h = h.checkpoint();
                }
            }
            h.sum().train(&Sgd::new(1.0)).wait().unwrap();
            w.value()
        };
        assert_eq!(run(2), run(usize::MAX));
    });
}
