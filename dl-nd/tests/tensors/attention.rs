//! Attention over more keys than a block holds: values of PyTorch, the form with a whole matrix,
//! second derivatives, threads and memory.

use dl_core::{Differentiable, Layer, Result, Weight};
use dl_nd::ndarray::Ix4;
use dl_nd::{Attention, Nd, init, ops::*};

type Heads<A> = Nd<A, Ix4>;

fn wave(shape: [usize; 4], rate: f64, start: f64) -> Heads<f64> {
    Nd::from_vec(shape, (0..shape.iter().product()).map(|i| (i as f64 * rate + start).sin()).collect()).unwrap()
}

/// F.scaled_dot_product_attention(3 * q, k, v, …): of the result and of each gradient a weighted sum
/// and the last element but two.
#[test]
fn long_attention_matches_pytorch() -> Result<()> {
    let padding = Nd::from((0..600).map(|key| key < 523).collect::<Vec<_>>());
    let cases: [(_, _, Attention<f64>, [[f64; 2]; 4]); 3] = [
        (
            600,
            700,
            Attention::new(),
            [
                [0.01441654328767731, -0.006432240892616417],
                [-0.024252436673905572, -0.0029127264233914114],
                [-0.03315077785563696, 0.0015186001333815013],
                [0.0020558754723219367, -0.000294578520502657],
            ],
        ),
        (
            700,
            600,
            Attention::new().causal(),
            [
                [1.18565058821164, -0.0001035896887018441],
                [-13.356164151551425, 0.0007380705873879178],
                [-3.20883606916717, 0.009777633534823754],
                [2.198985894237822, 0.00397431723112037],
            ],
        ),
        (
            300,
            600,
            Attention::new().mask(padding),
            [
                [0.0031134406427683, 0.005678892050096907],
                [-0.03039182066067149, 0.0011187448335483437],
                [0.0936351164152989, 0.0],
                [-0.047564324272812965, 0.0],
            ],
        ),
    ];
    for (length, keys, settings, expected) in cases {
        let q = Weight::new(wave([1, 2, length, 8], 0.37, 0.1));
        let k = Weight::new(wave([1, 2, keys, 8], 0.61, 0.2));
        let v = Weight::new(wave([1, 2, keys, 4], 0.83, 0.3));
        let y = scaled_dot_product_attention_with(3.0 * &q, &k, &v, &settings);
        let loss = (&y * wave([1, 2, length, 4], 0.29, 0.4)).sum();
        for (found, expected) in [y, loss.gradient(&q), loss.gradient(&k), loss.gradient(&v)].iter().zip(expected) {
            let found = found.predict().wait()?;
            let shape = found.shape().try_into().expect("four axes");
            let sum = (&found * wave(shape, 0.53, 0.5)).sum().predict().wait()?;
            let elements = found.into_vec();
            for (found, expected) in [sum, elements[elements.len() - 3]].into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-12, "{length} queries, {keys} keys: {found} for {expected}");
            }
        }
    }
    Ok(())
}

/// A bias of 0 gives the same attention with the whole matrix of scores.
#[test]
fn blockwise_attention_and_its_derivatives_equal_those_of_whole_matrix() -> Result<()> {
    let rng = &mut init::rng(3);
    // two heads that share keys and values
    let mut draw = |shape: [usize; 4]| Weight::new(init::normal(shape, 0.0, 1.0, rng));
    let (q, k, v) = (draw([1, 2, 300, 2]), draw([1, 1, 270, 2]), draw([1, 1, 270, 3]));
    let mask = Nd::from_vec([1, 1, 1, 270], (0..270).map(|i| i % 7 != 0).collect())?;
    let c: Heads<f64> = init::normal([1, 2, 300, 3], 0.0, 1.0, rng);
    for settings in [Attention::new().mask(mask), Attention::new().causal().scale(0.8)] {
        let loss = |settings: &Attention<f64>| {
            let y = scaled_dot_product_attention_with(&q, &k, &v, settings);
            (y.clone(), (y * &c).sum())
        };
        let ((y, blockwise), (expected, whole)) = (loss(&settings), loss(&settings.clone().bias(Nd::from([0.0]))));
        let compare = |what: &str, found: &Layer<Heads<f64>>, expected: &Layer<Heads<f64>>| -> Result<()> {
            let expected = expected.predict().wait()?;
            let found = found.predict().wait()?;
            let pairs = found.view().into_iter().zip(expected.view());
            let most = pairs.fold(0.0, |most: f64, (a, b)| most.max((a - b).abs()));
            assert!(most < 1e-9, "{what}: {most}");
            Ok(())
        };
        compare("value", &y, &expected)?;
        for w in [&q, &k, &v] {
            compare("gradient", &blockwise.gradient(w), &whole.gradient(w))?;
            let tangent = 0.5 * w.layer();
            compare("tangent", &y.jvp(w, &tangent), &loss(&settings.clone().bias(Nd::from([0.0]))).0.jvp(w, &tangent))?;
        }
        let [squares, expected] = [&blockwise, &whole].map(|loss| {
            let [dq, dk, dv] = [&q, &k, &v].map(|w| loss.gradient(w).square().sum());
            dq + dk + dv
        });
        for w in [&q, &k, &v] {
            compare("second derivative", &squares.gradient(w), &expected.gradient(w))?;
        }
    }
    Ok(())
}

#[test]
fn blockwise_attention_on_any_thread_count_has_same_bits() {
    let rng = &mut init::rng(5);
    let [q, k, v]: [Weight<Heads<f32>>; 3] =
        [(); 3].map(|()| Weight::new(init::normal([1, 1, 700, 16], 0.0, 1.0, rng)));
    let bits = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let loss = scaled_dot_product_attention_with(&q, &k, &v, &Attention::new().causal()).square().sum();
            let gradients = [&q, &k, &v].map(|w| loss.gradient(w).predict().wait().unwrap().into_vec());
            gradients.concat().into_iter().map(f32::to_bits).collect::<Vec<_>>()
        })
    };
    let one = bits(1);
    assert!([2, 4].into_iter().all(|threads| bits(threads) == one));
}

/// The scores alone would be 256 times as large as an operand.
#[test]
fn attention_over_2048_keys_needs_memory_of_operands() -> Result<()> {
    let w = Weight::new(Nd::<f32, Ix4>::full([1, 1, 2048, 8], 0.5));
    let y = scaled_dot_product_attention_with(&w, &w, &w, &Attention::new().causal());
    let (_, counters) = y.sum().train(&dl_optim::Sgd::new(0.1)).counted().wait()?;
    let operand = 2048 * 8 * 4;
    assert!(counters.bytes_peak < 16 * operand, "{} bytes", counters.bytes_peak);
    Ok(())
}
