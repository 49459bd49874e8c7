//! Forward mode through programs with dynamic control flow.

use dl::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Square root by Newton's method, with a value-dependent number of iterations.
#[differentiable]
fn root(x: &Layer<f64>) -> Layer<f64> {
    let mut y = x.clone();
    while !((&y * &y - x).abs()) > 1e-14 {
        y = 0.5 * (&y + x / &y);
    }
    y
}

/// A piecewise function, which reads a value twice.
#[differentiable]
fn pieces(x: &Layer<f64>, w: &Weight<f64>) -> Layer<f64> {
    if !x > 1.0 {
        x * w
    } else if !x > 0.0 {
        root(x) + w * w
    } else {
        -x
    }
}

fn slope(y: &Layer<f64>, x: &Weight<f64>) -> Layer<f64> {
    y.jvp(x, &Layer::constant(1.0))
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-8 * b.abs().max(1.0), "{a} should be {b}");
}

#[test]
fn jvp_through_loop_matches_closed_form() {
    for x in [0.25_f64, 2.0, 30.0] {
        let w = Weight::new(x);
        let y = root(&w.layer());
        assert!((y.predict().wait().unwrap() - x.sqrt()).abs() < 1e-14);
        close(slope(&y, &w).predict().wait().unwrap(), 0.5 / x.sqrt());
        close(slope(&slope(&y, &w), &w).predict().wait().unwrap(), -0.25 / (x * x.sqrt()));
        close(slope(&y.gradient(&w), &w).predict().wait().unwrap(), -0.25 / (x * x.sqrt()));
        // central difference quotient
        let at = |x: f64| root(&Layer::constant(x)).predict().wait().unwrap();
        close(slope(&y, &w).predict().wait().unwrap(), (at(x + 1e-6) - at(x - 1e-6)) / 2e-6);
    }
}

#[test]
fn jvp_follows_taken_branch() {
    let w = Weight::new(3.0);
    for (x, by_x, by_w) in [(2.0_f64, 3.0, 2.0), (0.25, 1.0, 6.0), (-1.0, -1.0, 0.0)] {
        let x = Weight::new(x);
        let y = pieces(&x.layer(), &w);
        close(slope(&y, &x).predict().wait().unwrap(), by_x);
        close(slope(&y, &w).predict().wait().unwrap(), by_w);
        let both = y.jvp(&(&x, &w), &(Layer::constant(2.0), Layer::constant(10.0)));
        close(both.predict().wait().unwrap(), 2.0 * by_x + 10.0 * by_w);
    }
}

#[test]
fn jvp_in_loop_condition_is_differentiable() {
    /// Gradient descent while the slope is steep.
    #[differentiable]
    fn descend(x: &Weight<f64>) -> Layer<f64> {
        let mut at = x.layer();
        loop {
            let steepness = (&at * &at).jvp(&at, &Layer::constant(1.0));
            if (!&steepness).abs() < 0.5 {
                return at;
            }
            at = at - 0.25 * steepness;
        }
    }

    let x = Weight::new(4.0);
    let end = descend(&x); // halved until 2x < ½
    assert_eq!(end.predict().wait().unwrap(), 0.125);
    assert_eq!(slope(&end, &x).predict().wait().unwrap(), 1.0 / 32.0);
}

#[test]
fn jvp_of_dropout_uses_same_mask() {
    let x = Weight::new(Nd::<f64, _>::full([64], 1.0));
    let direction = Layer::constant((1..=64).map(f64::from).collect::<Nd<f64, Ix1>>());
    let y = x.dropout(0.5);
    let (value, along) = y.value_and_jvp(&x, &direction);
    let both = stack(0, [value, along]).predict().mode(Mode::Train).seed(7).wait().unwrap();
    let kept = both.view().row(0).iter().filter(|&&y| y != 0.0).count();
    assert!((10..54).contains(&kept));
    for (i, (&y, &slope)) in both.view().row(0).iter().zip(both.view().row(1)).enumerate() {
        assert_eq!(slope, y * (i + 1) as f64);
    }
}

#[test]
fn jvp_is_independent_of_thread_count() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut rng = ChaCha8Rng::seed_from_u64(1);
            let net =
                [[16, 64], [64, 64], [64, 8]].map(|shape| Weight::new(dl::nd::init::normal(shape, 0.0, 0.3, &mut rng)));
            let input: Nd<f32, _> = dl::nd::init::normal([32, 16], 0.0, 1.0, &mut rng);
            let y = net.iter().fold(input.into_layer(), |x, w| x.matmul(w).tanh()).square().mean();
            let direction = y.gradients(&net);
            let slope = y.jvp(&net, &direction);
            let norms = y.hvp(&net, &direction).map(|along| along.square().sum());
            (slope + norms.into_iter().sum::<Layer<f32>>()).predict().wait().unwrap().to_bits()
        })
    };
    let [one, two, four] = [1, 2, 4].map(run);
    assert_eq!((one, one), (two, four));
}
