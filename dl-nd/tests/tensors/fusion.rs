//! Fused kernels must give the bits of separate operations. Small tensors are computed operation by
//! operation and large ones in fused kernels, so a large tensor is compared with the same elements
//! in small pieces.

use dl_core::{Binary, Differentiable, Do, Layer, Pointwise, Result, Unary, Weight};
use dl_nd::ndarray::{Ix1, Ix2};
use dl_nd::{Nd, ops::*};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::ThreadPoolBuilder;

type Vector = Nd<f32, Ix1>;

const PIECE: usize = 500;

fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..len).map(|_| rng.random_range(-3.0..3.0)).collect()
}

/// A sequence of operations on tensors. Each step reads earlier values and appends its result.
#[derive(Clone, Debug)]
struct Program(Vec<(usize, usize, usize)>);

const UNARY: [Unary; 8] =
    [Unary::Tanh, Unary::Exp, Unary::Sigmoid, Unary::Relu, Unary::Neg, Unary::Abs, Unary::Erf, Unary::Softplus];
const BINARY: [Binary; 7] =
    [Binary::Add, Binary::Sub, Binary::Mul, Binary::StrongMul, Binary::Div, Binary::Max, Binary::Min];

impl Program {
    fn apply<T: Pointwise>(&self, operands: &[Layer<T>]) -> Layer<T> {
        let mut values = operands.to_vec();
        for &(what, a, b) in &self.0 {
            let (a, b) = (&values[a % values.len()], &values[b % values.len()]);
            let result = match what % 17 {
                unary @ 0..8 => T::unary(UNARY[unary], a),
                binary @ 8..15 => T::binary(BINARY[binary - 8], a, b),
                15 => T::with_number(Binary::Mul, a, 0.75, false),
                _ => T::with_number(Binary::Sub, a, 1.25, true),
            };
            values.push(result);
        }
        values.pop().expect("there are operands")
    }
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    // NaN payloads are not compared
    numbers.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
}

fn bits_of(tensor: &Vector) -> Vec<u32> {
    bits(&tensor.clone().into_vec())
}

fn weights(operands: &[Vec<f32>]) -> Vec<Weight<Vector>> {
    operands.iter().map(|operand| Weight::new(Nd::from(operand.clone()))).collect()
}

/// The value, and the gradients of the sum of its elements with respect to all operands.
fn value_and_gradients(program: &Program, operands: &[Vec<f32>]) -> Result<(Vector, Vec<Vector>)> {
    let weights = weights(operands);
    let layers: Vec<_> = weights.iter().map(Differentiable::layer).collect();
    let result = program.apply(&layers);
    let gradients = result.clone().gradients(&weights);
    Do::predict((result, gradients)).wait()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn fused_tensor_matches_concatenated_pieces(
        steps in prop::collection::vec((0_usize..16, 0_usize..64, 0_usize..64), 1..60),
        len in 4096_usize..9000,
        seed in any::<u64>(),
    ) {
        let program = Program(steps);
        let operands: Vec<Vec<f32>> = (0..3).map(|which| numbers(len, seed.wrapping_add(which))).collect();
        let (whole, gradients) = value_and_gradients(&program, &operands)?;
        let mut pieces = Vec::new();
        let mut gradient_pieces = vec![Vec::new(); operands.len()];
        for start in (0..len).step_by(PIECE) {
            let part = |operand: &Vec<f32>| operand[start..len.min(start + PIECE)].to_vec();
            let operands: Vec<Vec<f32>> = operands.iter().map(part).collect();
            let (value, gradients) = value_and_gradients(&program, &operands)?;
            pieces.extend(bits_of(&value));
            for (all, gradient) in gradient_pieces.iter_mut().zip(&gradients) {
                all.extend(bits_of(gradient));
            }
        }
        prop_assert_eq!(bits_of(&whole), pieces);
        for (whole, pieces) in gradients.iter().zip(gradient_pieces) {
            prop_assert_eq!(bits_of(whole), pieces);
        }
    }
}

#[test]
fn sum_of_lazy_tensor_has_bits_of_stored_tensor() -> Result<()> {
    for len in [4096, 32_768, 70_001, 300_000] {
        let (a, b) = (Nd::from(numbers(len, 1)), Nd::from(numbers(len, 2)));
        let product = || (a.layer() * b.layer()).tanh();
        let kept = product().predict().wait()?;
        assert_eq!(product().sum().predict().wait()?.to_bits(), kept.sum().predict().wait()?.to_bits());
        assert_eq!(product().mean().predict().wait()?.to_bits(), kept.mean().predict().wait()?.to_bits());
        let exact: f64 = kept.view().iter().map(|&x| f64::from(x)).sum();
        assert!((f64::from(kept.sum().predict().wait()?) - exact).abs() < 1e-2);
    }
    Ok(())
}

#[test]
fn fused_broadcast_matches_elementwise_formula() -> Result<()> {
    let (rows, columns) = (130, 70);
    let whole = Nd::from_vec([rows, columns], numbers(rows * columns, 3))?;
    let row = Vector::from(numbers(columns, 4));
    let column = Nd::from_vec([rows, 1], numbers(rows, 5))?;
    let reversed = Nd::from_vec([columns, rows], numbers(rows * columns, 6))?;
    let result = ((whole.layer() + row.layer().unsqueeze(0)) * &column - reversed.t()).predict().wait()?;
    for i in 0..rows {
        for j in 0..columns {
            assert_eq!(result[[i, j]], (whole[[i, j]] + row[j]) * column[[i, 0]] - reversed[[j, i]], "{i} {j}");
        }
    }
    Ok(())
}

#[test]
fn fused_kernels_on_any_thread_count_have_same_bits() -> Result<()> {
    let operands: Vec<Vec<f32>> = (0..3).map(|which| numbers(200_000, which)).collect();
    let program = Program(vec![(8, 0, 1), (10, 3, 2), (0, 4, 0), (1, 2, 0), (10, 5, 6), (9, 7, 0)]);
    let run = |threads| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| value_and_gradients(&program, &operands))
    };
    let (alone, gradients) = run(1)?;
    for threads in [2, 3, 8] {
        let (value, others) = run(threads)?;
        assert_eq!(bits_of(&value), bits_of(&alone));
        assert!(others.iter().zip(&gradients).all(|(x, y)| bits_of(x) == bits_of(y)));
    }
    Ok(())
}

/// A chain of operations needs memory for its operands and its result, not for intermediates.
#[test]
fn fused_chain_allocates_no_intermediates() -> Result<()> {
    let x = Nd::from(numbers(1 << 18, 1));
    let mut y = x.layer();
    for _ in 0..24 {
        y = (y * 0.5).tanh();
    }
    let (value, first) = y.predict().counted().wait()?;
    let (_, again) = y.predict().counted().wait()?;
    drop(value);
    assert!(first.evaluations >= 48);
    // at most one stored result for 32 operations
    assert!(again.reused_buffers <= 2, "{again:?}");
    Ok(())
}

#[test]
fn large_step_in_place_and_on_copy_has_same_bits() -> Result<()> {
    let train = |held: bool| -> Result<Nd<f32, Ix2>> {
        let w = Weight::new(Nd::from_vec([100, 80], numbers(8000, 1))?);
        let x = Nd::from_vec([7, 100], numbers(700, 2))?;
        for _ in 0..5 {
            let old = held.then(|| w.value());
            x.matmul(&w).tanh().sum().train(&dl_optim::Sgd::new(0.1)).wait()?;
            if let Some(old) = old {
                assert_ne!(old, w.value(), "who holds an old value still has it");
            }
        }
        Ok(w.value())
    };
    assert_eq!(train(false)?.into_vec(), train(true)?.into_vec());
    Ok(())
}

/// The weight must have the same bits if the delta is materialized, for clipping, and if it is
/// accumulated directly into the weight.
#[test]
fn step_with_and_without_stored_delta_has_same_bits() -> Result<()> {
    let (w, b) = (Nd::from_vec([6, 6], numbers(36, 1))?, Nd::from_vec([1, 6], numbers(6, 2))?);
    let (w, b) = (w.cast::<f64>().predict().wait()?, b.cast::<f64>().predict().wait()?);
    let x = Nd::from_vec([3, 6], numbers(18, 3))?.cast::<f64>().predict().wait()?;
    let loss = |w: &Weight<Nd<f64, Ix2>>, b: &Weight<Nd<f64, Ix2>>| (x.matmul(w) + b).tanh().sum();
    let (stepped, bias) = (Weight::new(w.clone()), Weight::new(b.clone()));
    let gradient = loss(&stepped, &bias).gradient(&stepped).predict().wait()?;
    loss(&stepped, &bias).train(&dl_optim::Sgd::new(0.25)).wait()?;
    let expected = (w.layer() - gradient * 0.25).predict().wait()?;
    for (&found, &expected) in stepped.value().view().iter().zip(expected.view()) {
        assert!((found - expected).abs() < 1e-13, "{found} instead of {expected}");
    }
    let (clipped, bias) = (Weight::new(w), Weight::new(b));
    loss(&clipped, &bias).train(&dl_optim::OptimizerExt::clip_norm(dl_optim::Sgd::new(0.25), 1e9)).wait()?;
    assert_eq!(clipped.value(), stepped.value());
    Ok(())
}
