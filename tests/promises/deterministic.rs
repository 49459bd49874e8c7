//! Promise 3: values, gradients and weights are bit-identical for any number of threads and any
//! schedule. The instruction set can be pinned.

use super::support::{Counted, on_threads, watched};
use dl::{Differentiable, Layer, Sgd, Weight};

/// A network with parallel branches, decisions and shared weights. The last bits of its sums depend
/// on their order.
fn trace(threads: usize) -> Vec<u64> {
    let weights: Vec<Weight<f64>> = (0..8).map(|i| Weight::new((i as f64 * 0.7).sin())).collect();
    let sgd = Sgd::new(0.01).momentum(0.9);
    on_threads(threads, || {
        let mut bits = Vec::new();
        for step in 0..20 {
            let branches = (0..24).map(|branch| {
                let (a, b) = (weights[(branch * 5) % 8].clone(), weights[(branch * 3 + 1) % 8].clone());
                let expensive = Counted { nanoseconds: 20_000.0, ..Counted::new(1.0 / (branch as f64 + 3.0)) };
                Layer::dynamic(move || {
                    let (a, b, expensive) = (a.clone(), b.clone(), expensive.clone());
                    async move {
                        let score = expensive.of(&(&a * (0.1 * step as f64)));
                        if score.extract().await? > 0.02 {
                            Ok((expensive.of(&(&a * &b)) + &score).tanh())
                        } else {
                            Ok(expensive.of(&(&b * &score)).sin() + &a)
                        }
                    }
                })
            });
            let loss = branches.sum::<Layer<f64>>().square();
            bits.push(loss.train(&sgd).wait().unwrap().to_bits());
        }
        bits.extend(weights.iter().map(|w| w.value().to_bits()));
        bits
    })
}

#[test]
fn results_are_independent_of_thread_count() {
    let one = trace(1);
    for threads in [1, 2, 3, 4, 8] {
        for _ in 0..3 {
            assert_eq!(trace(threads), one, "{threads} threads");
        }
    }
}

/// The order in which two joined bangs complete must not affect the sum of the deltas below them.
#[test]
fn results_are_independent_of_completion_order_of_bangs() {
    use dl::Do;
    let trained = |delays: [u64; 2]| {
        let w = Weight::new(0.0_f64);
        let x = &w * 1.0;
        let forward = Do::from_fn(move || {
            let slow = delays.map(|delay| {
                super::support::Custom(move |x| {
                    std::thread::sleep(std::time::Duration::from_millis(delay));
                    Ok(x)
                })
                .of(&Layer::constant(0.0))
            });
            let (u, v, q) = (&x * 0.1, &x * 0.2, &x * 0.3);
            async move {
                let [first, second] = slow;
                let (left, right) = futures::join!(async { first.extract().await.and(u.extract().await) }, async {
                    second.extract().await.and(q.extract().await)
                });
                left.and(right)?;
                (u + v + q).forward().await
            }
        });
        let tape = futures::executor::block_on(forward.run()).unwrap(); // this thread does not work for the run
        tape.backward(Do::now(1.0)).step(&Sgd::new(1.0)).wait().unwrap();
        w.value().to_bits()
    };
    assert_eq!(trained([1, 30]), trained([30, 1]));
}

/// Several threads create parts of a graph, each with its own handle to the weight. The pass must
/// treat them as one weight: read once, its deltas summed in the order of the graph, and updated
/// once.
#[test]
fn weight_used_by_several_threads_is_one_weight() {
    let factors: Vec<f64> = (0..64).map(|i| (f64::from(i) * 0.7).sin() * 10_f64.powi(i % 9 - 4)).collect();
    let trained = |threads: usize| {
        let w = Weight::new(0.3);
        let built: Vec<Vec<Layer<f64>>> = std::thread::scope(|scope| {
            let parts: Vec<_> = (0..threads)
                .map(|part| {
                    let (w, factors) = (&w, &factors);
                    scope.spawn(move || factors.iter().skip(part).step_by(threads).map(|f| (w * *f).exp()).collect())
                })
                .collect();
            parts.into_iter().map(|part| part.join().unwrap()).collect()
        });
        // interleaved, so that adjacent terms come from different threads
        let sum: Layer<f64> = (0..factors.len()).map(|i| &built[i % threads][i / threads]).sum();
        (sum * 1e-3).train(&Sgd::new(1e-2)).wait().unwrap();
        w.value().to_bits()
    };
    let alone = trained(1);
    for threads in [2, 4, 8] {
        assert_eq!(trained(threads), alone, "built by {threads} threads");
    }
}

#[test]
fn many_weights_used_by_two_threads_are_bit_identical() {
    let weights: Vec<Weight<f64>> = (0..40).map(|i| Weight::new(f64::from(i))).collect();
    let half = || -> Vec<Layer<f64>> { weights.iter().map(|w| w * 2.0).collect() };
    let (here, there) = (half(), std::thread::scope(|scope| scope.spawn(half).join().unwrap()));
    let sum: Layer<f64> = here.into_iter().chain(there).sum();
    sum.train(&Sgd::new(0.25)).wait().unwrap();
    assert!(weights.iter().enumerate().all(|(i, w)| w.value() == i as f64 - 1.0));
}

/// The bits of some numbers, combined into one word.
fn folded(numbers: impl IntoIterator<Item = f32>) -> u64 {
    numbers.into_iter().fold(0, |bits: u64, x| bits.rotate_left(5).wrapping_mul(31) ^ u64::from(x.to_bits()))
}

/// Results that depend on the instruction set: a matrix product; a product that is summed in lanes;
/// functions and a long sum of a large tensor; scalar functions; and weights after steps of Adam.
fn computed() -> [u64; 5] {
    use dl::nd::{Nd, init, ops::*};
    let mut rng = init::rng(3);
    let mut draw = |shape: [usize; 2]| -> Nd { init::normal(shape, 0.0, 1.0, &mut rng) };
    let (x, y, long, large) = (draw([256, 300]), draw([300, 260]), draw([1, 1000]), draw([200, 300]));
    let bits = |x: Layer<Nd>| folded(x.predict().wait().unwrap().view().iter().copied());
    let sum = large.tanh().exp().sum().predict().wait().unwrap();
    let number = |i| (Layer::constant(0.1 * i as f32).exp().ln() * 0.3).tanh().exp().predict().wait().unwrap();

    let weights = [&y, &draw([260, 70])].map(|w| Weight::new(w.clone()));
    for step in 0..3 {
        let loss = x.matmul(&weights[0]).tanh().matmul(&weights[1]).log_softmax(1).square().mean();
        loss.train(&dl::Adam::new(0.01 / (step + 1) as f64)).wait().unwrap();
    }
    [
        bits(x.matmul(&y)),
        bits(long.matmul(long.t())),
        bits(large.tanh().exp()) ^ folded([sum]),
        folded((1..100).map(number)),
        folded(weights.iter().flat_map(|w| w.value().view().iter().copied().collect::<Vec<_>>())),
    ]
}

/// The results on any x86-64 with and without fused multiply-add.
const FUSED: [u64; 5] = [0xc552b476f8ccc28, 0x447be5ee, 0x68c790949e13c6b5, 0x2a41085f79f03b9e, 0x3d47c06880586e15];
const UNFUSED: [u64; 5] = [0x18792ffbf04ab175, 0x447be5f0, 0xf2ca784e912ae0a2, 0x4c042302f892ee3c, 0xf6d0f7b1c8ca29a6];

/// `DL_INSTRUCTIONS` selects the instruction set, regardless of other features of the processor. With
/// a name that the processor does not have, every run fails, and nothing is printed.
#[test]
fn instructions_can_be_pinned() {
    const PRINTS: &str = "DL_TEST_PRINTS_WHAT_IT_COMPUTES";
    if std::env::var_os(PRINTS).is_some() {
        let (w, x) = (Weight::new(1.0), dl::nd::Nd::from([1.0_f32]).layer());
        let runs = [
            x.predict().wait().err(),
            w.exp().train(&Sgd::new(0.0)).wait().err(),
            dl::Do::now(()).wait().err(),
            futures::executor::block_on(x.predict().run()).err(),
        ];
        let refused: Vec<String> = runs.iter().flatten().map(ToString::to_string).collect();
        match &refused[..] {
            [] => println!("\n{} {:?}", dl::instructions(), computed()),
            [text, others @ ..] => {
                assert!(others.len() == runs.len() - 1 && others.iter().all(|other| other == text), "{refused:?}");
                println!("\nrefused: {text}");
            }
        }
        return;
    }
    let with = |instructions: &'static str, threads: &'static str| {
        watched(move || {
            let mut test = std::process::Command::new(std::env::current_exe().unwrap());
            test.args(["--exact", "promises::deterministic::instructions_can_be_pinned", "--nocapture"])
                .env(PRINTS, "");
            let output = test.env("DL_INSTRUCTIONS", instructions).env("RAYON_NUM_THREADS", threads).output().unwrap();
            let [out, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
            assert!(output.status.success(), "{errors}");
            assert!(!errors.contains("DL_INSTRUCTIONS"), "{errors}");
            let printed = out.lines().find(|line| line.ends_with(']') || line.starts_with("refused: "));
            printed.expect("the process must print its results").to_owned()
        })
    };
    let best = with("", "1");
    let refusal = |name: &str| format!("refused: the environment variable DL_INSTRUCTIONS is {name:?}, but the ");
    let unknown = with("sse9", "2");
    assert!(unknown.starts_with(&refusal("sse9")) && unknown.contains(best.split(' ').next().unwrap()), "{unknown}");
    for (name, right) in [("avx512", FUSED), ("avx2", FUSED), ("baseline", UNFUSED)] {
        let computed = with(name, "1");
        assert_eq!(with(name, "2"), computed);
        if cfg!(target_arch = "x86_64") {
            assert!(computed == format!("{name} {right:?}") || computed.starts_with(&refusal(name)), "{computed}");
        }
    }
}
