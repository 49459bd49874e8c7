//! Weights after two steps are bit-identical with and without checkpoint boundaries, for any number
//! of threads.

use super::nets::{Checkpoints, Row, bits, numbers, on_threads};
use dl::prelude::*;

#[track_caller]
fn same(count: usize, net: impl Fn(Checkpoints, &[Weight<Row>]) -> Layer<f64> + Sync) {
    for momentum in [0.0, 0.9] {
        let sgd = Sgd::new(0.1).momentum(momentum);
        let plain = bits(count, &sgd, |w| net(Checkpoints::Without, w));
        for threads in [1, 2, 4] {
            let marked = on_threads(threads, || bits(count, &sgd.clone(), |w| net(Checkpoints::With, w)));
            assert_eq!(marked, plain, "{threads} threads");
        }
        let plain = bits(count, &Adam::new(0.1), |w| net(Checkpoints::Without, w));
        assert_eq!(bits(count, &Adam::new(0.1), |w| net(Checkpoints::With, w)), plain);
    }
}

fn input() -> Layer<Row> {
    Layer::constant(numbers(3, 4, 77))
}

#[test]
fn chain_is_bit_identical_with_checkpoints() {
    same(12, |checkpoints, w| {
        let mut h = input();
        for (number, w) in w.iter().enumerate() {
            h = (h.matmul(w) + 0.25).tanh();
            if number % 3 == 2 {
                h = checkpoints.at(h);
            }
        }
        h.square().sum()
    });
}

#[test]
fn diamonds_in_segment_are_bit_identical() {
    same(4, |checkpoints, w| {
        let mut h = input();
        for w in w {
            let x = h.matmul(w);
            let (a, b) = (x.tanh(), x.exp());
            h = checkpoints.at((&a * &b + &x) * a);
        }
        h.square().mean()
    });
}

#[test]
fn skip_connection_over_checkpoints_is_bit_identical() {
    same(6, |checkpoints, w| {
        let first = input().matmul(&w[0]).tanh();
        let inside = first.matmul(&w[1]).tanh();
        let marked = checkpoints.at(inside.matmul(&w[2]).tanh());
        let second = checkpoints.at((marked.matmul(&w[3]) + &inside).tanh());
        let third = checkpoints.at((second.matmul(&w[4]) * &first + inside).tanh());
        (third.matmul(&w[5]) + first).square().sum()
    });
}

#[test]
fn weights_shared_by_segments_are_bit_identical() {
    same(2, |checkpoints, w| {
        let mut h = input();
        for _ in 0..9 {
            h = checkpoints.at((h.matmul(&w[0]) + h.matmul(&w[1])).tanh());
        }
        (h.matmul(&w[0]) + h).square().sum()
    });
}

/// The deltas of a weight come from inside and outside of segments, in an interleaved order.
#[test]
fn weight_in_nested_skip_connections_is_bit_identical() {
    same(1, |checkpoints, w| {
        let w = &w[0];
        let below = input().matmul(w).tanh();
        let inside = (checkpoints.at(below.matmul(w).tanh()).matmul(w) + &below).matmul(w);
        let c = checkpoints.at((inside.tanh().matmul(w) + &below).tanh().matmul(w));
        let d = checkpoints.at((c.matmul(w) * &inside).tanh());
        (d.matmul(w) + below.matmul(w) + c).square().sum()
    });
}

#[test]
fn input_shared_by_segments_is_bit_identical() {
    same(3, |checkpoints, w| {
        let shared = (w[0].layer() * 2.0).tanh();
        let mut h = input();
        for _ in 0..5 {
            h = checkpoints.at(h.matmul(&shared).tanh().matmul(&w[1]).tanh());
        }
        (h.matmul(&w[2]) + h.matmul(&shared)).square().sum()
    });
}

#[test]
fn parallel_segments_and_repeated_checkpoints_are_bit_identical() {
    same(8, |checkpoints, w| {
        let x = checkpoints.at(checkpoints.at(input().matmul(&w[0]).tanh()));
        let branch = |w: &Weight<Row>| checkpoints.at((x.matmul(w).tanh() + &x).exp().tanh());
        let sum = w[1..7].iter().map(branch).reduce(|a, b| checkpoints.at(checkpoints.at(a) * b + 0.5));
        sum.unwrap().matmul(&w[7]).square().sum()
    });
}

#[test]
fn scalars_in_segment_are_bit_identical() {
    same(4, |checkpoints, w| {
        let mut h = input();
        let mut losses = Layer::constant(0.0);
        for w in w {
            let x = h.matmul(w);
            let mean = x.mean();
            let scale = checkpoints.at(1.0 + (&mean * &mean).sqrt() * 0.5);
            h = checkpoints.at((x / &scale).tanh());
            losses = losses + checkpoints.at(h.square().mean() * scale);
        }
        checkpoints.at(losses.clone() * losses)
    });
}

#[test]
fn slices_in_segment_are_bit_identical() {
    same(2, |checkpoints, w| {
        let mut h = input().matmul(&w[0]);
        for _ in 0..3 {
            let (left, right) = (h.slice_axis(-1, 0..2), h.slice_axis(-1, 2..4));
            h = checkpoints.at(concat(-1, [left.tanh() * &right, right.exp()]).matmul(&w[1]));
        }
        h.square().sum()
    });
}

#[differentiable]
fn halve_until_small(mut x: Layer<Row>, w: &Weight<Row>, checkpoints: Checkpoints) -> Layer<Row> {
    let mut turns = 0;
    while !x.square().sum() > 0.2 && turns < 10 {
        x = (x * 0.7).matmul(w).tanh();
        turns += 1;
        if turns % 2 == 0 {
            x = checkpoints.at(x);
        }
    }
    if !x.sum() > 0.0 { x.exp() } else { x - 1.0 }
}

#[test]
fn dynamic_nodes_in_segment_are_bit_identical() {
    same(4, |checkpoints, w| {
        let mut h = input();
        for w in w {
            h = checkpoints.at((halve_until_small(h, w, checkpoints) + 0.1).tanh());
        }
        h.square().sum()
    });
}

#[test]
fn dropout_in_segment_is_bit_identical() {
    same(4, |checkpoints, w| {
        let mut h = input();
        for w in w {
            h = checkpoints.at(h.matmul(w).dropout(0.3).tanh().dropout(0.2));
        }
        h.dropout(0.1).square().sum()
    });
}

#[test]
fn buffers_updated_in_segment_are_bit_identical() {
    let run = |checkpoints: Checkpoints| {
        let (w, mean) = (Weight::new(numbers(4, 4, 5)), Buffer::new(0.5));
        for _ in 0..3 {
            let mut h = input();
            for number in 0..3 {
                h = h.matmul(&w).tanh();
                if number == 1 {
                    let new = mean.layer() * 0.9 + h.mean() * 0.1;
                    h = h.updating(&mean, new);
                }
                h = checkpoints.at((h + mean.layer()).tanh());
            }
            h.square().sum().train(&Sgd::new(0.1)).wait().unwrap();
        }
        (w.value().into_vec(), mean.value())
    };
    let plain = run(Checkpoints::Without);
    assert_ne!(plain.1, 0.5);
    assert_eq!(run(Checkpoints::With), plain);
}

/// The identity, with a hand-written backward that multiplies the delta by ten.
fn tenfold(x: &Layer<Row>) -> Layer<Row> {
    let x = x.clone();
    let tape = Do::now(()).flat_map(move |()| {
        x.forward().map(|inner| {
            Tape::new(inner.data().clone(), move |delta: Do<Row>| {
                inner.backward(delta.map(|d| Nd::from(d.into_array() * 10.0)))
            })
        })
    });
    Layer::from(tape)
}

#[test]
fn hand_written_backward_in_segment_is_bit_identical() {
    same(4, |checkpoints, w| {
        let x = checkpoints.at(input().matmul(&w[0]).tanh().matmul(&w[1]).tanh());
        let y = checkpoints.at((tenfold(&x.matmul(&w[2])) + x).tanh());
        (y.matmul(&w[3])).square().sum()
    });
}

/// A weight that affects only a decision is not updated, although it has momentum.
#[test]
fn weight_without_gradient_is_not_updated() {
    same(3, |checkpoints, w| {
        let x = checkpoints.at(input().matmul(&w[0]).tanh());
        let mask = x.matmul(&w[1]).greater(&Layer::constant(numbers(3, 4, 9))).to_floats::<f64>();
        let y = checkpoints.at((x.matmul(&w[2]) * mask).tanh());
        y.square().sum()
    });
    let w = [Weight::new(numbers(4, 4, 1)), Weight::new(numbers(4, 4, 2))];
    let adam = Adam::new(0.1);
    // this step gives both weights momentum
    (w[0].matmul(&w[1])).square().sum().train(&adam).wait().unwrap();
    let before = w[1].value();
    let x = input().matmul(&w[0]).tanh();
    let mask = x.matmul(&w[1]).greater(&Layer::constant(numbers(3, 4, 9))).to_floats::<f64>();
    (x * mask).checkpoint().square().sum().train(&adam).wait().unwrap();
    assert_eq!(w[1].value(), before);
}

#[test]
fn scaled_and_added_side_effects_are_bit_identical() {
    let run = |checkpoints: Checkpoints| {
        let w = Weight::new(numbers(4, 4, 3));
        let x = checkpoints.at((input().matmul(&w) + 0.1).tanh());
        let loss = checkpoints.at(x.matmul(&w).tanh()).square().sum();
        let tape = loss.forward().wait().unwrap();
        let first = tape.backward(Do::now(1.0));
        let second = tape.backward(Do::now(0.3));
        (2.0 * first.clone() + second).step(&Sgd::new(0.1)).wait().unwrap();
        first.step(&Sgd::new(0.1)).wait().unwrap();
        w.value()
    };
    assert_eq!(run(Checkpoints::With), run(Checkpoints::Without));
}

/// The delta of a boundary is propagated to the marked layer, also if the boundary was evaluated
/// before its consumers were created.
#[test]
fn checkpoint_evaluated_before_its_consumers_propagates_delta() {
    let gradient = |before: bool| {
        let w = Weight::new(1.0);
        let loss = Layer::dynamic({
            let w = w.clone();
            move || {
                let x = w.layer().sin();
                async move {
                    let x = Layer::dynamic(move || {
                        let x = x.clone();
                        async move { Ok(x) }
                    });
                    let boundary = x.checkpoint();
                    if before {
                        boundary.extract().await?;
                    }
                    Ok((&boundary * 0.1 + &x * 0.2) + &boundary * 0.3)
                }
            }
        });
        let effects = loss.backward().wait().unwrap();
        effects.delta(&w).wait().unwrap().map(f64::to_bits)
    };
    assert_eq!(gradient(true), gradient(false));
}

/// A body that resolves to a weight has no segment to rematerialize.
#[test]
fn body_resolving_to_weight_is_bit_identical() {
    let weights = [[0.3, -0.2], [0.1, 0.4]];
    let step = |boundary: bool| {
        let w = Weight::new(Nd::<f64, _>::from(weights));
        let body = Layer::dynamic({
            let w = w.clone();
            move || {
                let w = w.layer();
                async move { Ok(w) }
            }
        });
        let hidden = Nd::<f64, _>::from([[1.0, 2.0]]).matmul(&body).tanh();
        let hidden = if boundary { hidden.checkpoint() } else { hidden };
        hidden.square().sum().train(&Sgd::new(0.1)).wait().unwrap();
        w.value()
    };
    assert_eq!(step(true), step(false));
}
