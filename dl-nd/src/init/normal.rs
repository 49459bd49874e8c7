//! Normal random numbers that are the same on every platform.
//!
//! `exp` and `ln` of the standard library call the platform, and results differ in the last digits.
//! This is the ziggurat algorithm of `rand_distr` (Doornik, *An improved ziggurat method to
//! generate normal random samples*, 2005) with the functions of the `libm` crate, which are written
//! in Rust. The numbers agree with those of `rand_distr` up to rounding.

use crate::init::unit;
use rand::Rng;
use rand::distr::{Distribution, Open01};
use std::sync::OnceLock;

const LAYERS: usize = 256;

/// Start of the tail.
const TAIL: f64 = 3.654_152_885_361_009;

/// Area of each layer.
const AREA: f64 = 4.92867323399e-3;

/// The right end of each layer, from the lowest layer, and the density at that end.
type Layers = [(f64, f64); LAYERS + 1];

fn density(x: f64) -> f64 {
    libm::exp(-x * x / 2.0)
}

fn layers() -> &'static Layers {
    static TABLE: OnceLock<Box<Layers>> = OnceLock::new();
    TABLE.get_or_init(|| {
        // the area of the lowest layer includes the tail
        let mut x = AREA / density(TAIL);
        let mut layers = Box::new([(0.0, 1.0); LAYERS + 1]);
        for (i, layer) in layers[..LAYERS].iter_mut().enumerate() {
            *layer = (x, density(x));
            x = if i == 0 { TAIL } else { libm::sqrt(-2.0 * libm::log(AREA / x + density(x))) };
        }
        layers
    })
}

/// A standard normal number (mean 0, standard deviation 1).
pub(super) fn standard_normal(rng: &mut impl Rng) -> f64 {
    let layers = layers();
    loop {
        let bits = rng.next_u64();
        let i = (bits & 0xff) as usize;
        // 52 bits between −1 and 1
        let u = f64::from_bits((1024 << 52) | (bits >> 12)) - 3.0;
        let x = u * layers[i].0;
        let (right, upper) = layers[i + 1];
        if x.abs() < right {
            return x;
        }
        if i == 0 {
            return tail(rng).copysign(u);
        }
        if upper + (layers[i].1 - upper) * unit(rng) < density(x) {
            return x;
        }
    }
}

/// A number beyond `TAIL` (Marsaglia, 1964).
fn tail(rng: &mut impl Rng) -> f64 {
    loop {
        let [x, y] = [(); 2].map(|()| libm::log(Open01.sample(rng)));
        let x = x / TAIL;
        if -2.0 * y >= x * x {
            return TAIL - x;
        }
    }
}

/// A standard normal number between `low` and `high`; `low < high` must hold.
pub(super) fn truncated(low: f64, high: f64, rng: &mut impl Rng) -> f64 {
    // the point of maximal density
    let mode = 0.0_f64.clamp(low, high);
    // numbers beyond this distance have a probability of less than 1e-19
    let reach = libm::hypot(mode, 88_f64.sqrt());
    let (low, high) = (low.max(-reach), high.min(reach));
    if mode == 0.0 && high - low > 2.5 {
        loop {
            let x = standard_normal(rng);
            if (low..=high).contains(&x) {
                return x;
            }
        }
    }
    loop {
        let x = low + (high - low) * unit(rng);
        if unit(rng) < libm::exp((mode - x) * (mode + x) / 2.0) {
            return x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_distr::StandardNormal;

    #[test]
    fn standard_normal_matches_rand_distr() {
        let (mut ours, mut theirs) = (crate::init::rng(5), crate::init::rng(5));
        let mut in_the_tail = 0;
        for number in 0..1_000_000 {
            let expected: f64 = StandardNormal.sample(&mut theirs);
            let found = standard_normal(&mut ours);
            assert!((found - expected).abs() <= 1e-15 * expected.abs(), "number {number}: {found} {expected}");
            in_the_tail += usize::from(found.abs() > TAIL);
        }
        // the tail has a probability of 2.58e-4
        assert!((180..340).contains(&in_the_tail), "{in_the_tail}");
    }
}
