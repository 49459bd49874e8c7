//! If a sum of a large lazy tensor is requested together with its gradients, one fused kernel
//! computes both and reads the shared operands once. Values, errors and recordings must be those of
//! separate evaluation, to the bit.

use dl_core::record::Recorder;
use dl_core::{Differentiable, Do, Layer, Result, Weight};
use dl_nd::ndarray::{Ix1, Ix2};
use dl_nd::{Nd, ops::*};
use dl_optim::Sgd;

type Vector = Nd<f32, Ix1>;

const LEN: usize = 70_001;

fn numbers(seed: f32) -> Vector {
    Nd::from((0..LEN).map(|i| (i as f32 * seed).sin()).collect::<Vec<f32>>())
}

fn operands() -> [Weight<Vector>; 4] {
    [0.3, 0.7, 1.1, 1.3].map(|seed| Weight::new(numbers(seed)))
}

fn terms([a, b, c, d]: &[Weight<Vector>; 4]) -> Layer<Vector> {
    (a * b + c * d).tanh() * (-a).exp()
}

fn bits(tensor: &Vector) -> Vec<u32> {
    tensor.view().iter().map(|x| x.to_bits()).collect()
}

/// Compares value and gradients of a fused evaluation with separate evaluations.
fn assert_same_bits(y: &Layer<f32>, operands: &[Weight<Vector>; 4]) -> Result<()> {
    let (value, gradients) = Do::predict(y.value_and_gradients(operands)).wait()?;
    assert_eq!(value.to_bits(), y.predict().wait()?.to_bits());
    for (operand, gradient) in operands.iter().zip(&gradients) {
        let alone = (y * 1.0).gradient(operand).predict().wait()?;
        assert_eq!(bits(gradient), bits(&alone));
    }
    Ok(())
}

#[test]
fn fused_sum_and_mean_have_bits_of_separate_evaluation() -> Result<()> {
    let operands = operands();
    assert_same_bits(&terms(&operands).sum(), &operands)?;
    assert_same_bits(&terms(&operands).mean(), &operands)?;
    // the summed terms are also operands of the gradient
    let terms = terms(&operands);
    assert_same_bits(&(&terms * &terms).sum(), &operands)
}

#[test]
fn fused_sum_on_any_thread_count_has_same_bits() {
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| {
            let operands = operands();
            let (value, gradients) =
                Do::predict(terms(&operands).sum().value_and_gradients(&operands)).wait().expect("it succeeds");
            (value.to_bits(), gradients.map(|gradient| bits(&gradient)))
        })
    };
    let one = on(1);
    assert!([2, 3, 4].into_iter().all(|threads| on(threads) == one));
}

#[test]
fn gradient_by_sum_and_by_terms_is_one() -> Result<()> {
    let (a, unrelated) = (Weight::new(numbers(0.3)), Weight::new(numbers(0.9)));
    let terms = a.tanh();
    let sum = terms.sum();
    let (value, (by_itself, by_terms, by_unrelated)) =
        Do::predict(sum.value_and_gradients(&(&sum, &terms, &unrelated))).wait()?;
    assert_eq!(value, sum.predict().wait()?);
    assert_eq!(by_itself, 1.0);
    assert!(by_terms.view().iter().all(|&x| x == 1.0) && by_unrelated.view().iter().all(|&x| x == 0.0));
    assert_eq!(by_terms.len(), LEN);
    Ok(())
}

#[test]
fn fused_sum_second_derivative_is_correct() -> Result<()> {
    let a = Weight::new(numbers(0.3));
    let slope = (&a * &a * &a).sum().gradient(&a);
    let second = slope.sum().gradient(&a).predict().wait()?;
    let right = |x: f32| 6.0 * x;
    let values = a.value();
    assert!(second.view().iter().zip(values.view()).all(|(&found, &x)| (found - right(x)).abs() <= 1e-5));
    Ok(())
}

#[test]
fn mean_axis_of_lazy_tensor_is_not_fused_as_total() -> Result<()> {
    let x = Weight::new(Nd::<f32, Ix2>::full([300, 40], 0.5));
    let (value, gradient) = Do::predict(x.exp().mean_axis(0).value_and_gradient(&x)).wait()?;
    assert_eq!((value.len(), gradient.shape()), (40, &[300, 40][..]));
    assert!((gradient[[7, 7]] - 0.5_f32.exp() / 300.0).abs() < 1e-7);
    Ok(())
}

#[test]
fn fused_sum_error_equals_separate_error() {
    let x = Weight::new(numbers(0.3));
    let variance = x.var(LEN);
    let error = variance.predict().wait().unwrap_err();
    let of_both = Do::predict(variance.value_and_gradient(&x)).wait().unwrap_err();
    assert!(error.is_shape() && of_both.is_shape());
    assert_eq!(error.to_string(), of_both.to_string());
}

#[test]
fn recorded_pass_contains_fused_sum_once() -> Result<()> {
    let operands = operands();
    let recorder = Recorder::new();
    let mean = terms(&operands).mean();
    Do::predict(mean.value_and_gradients(&operands)).recorded(&recorder).wait()?;
    let recording = recorder.take();
    let evaluated = recording.passes.iter().flat_map(|pass| &pass.nodes).filter(|node| node.name == "mean");
    assert_eq!(evaluated.count(), 1);
    Ok(())
}

#[test]
fn training_loss_of_gradient_matches_prediction() -> Result<()> {
    let operands = operands();
    let sum = terms(&operands).sum();
    let loss = sum.gradient(&operands[1]).sum();
    let before = loss.predict().wait()?;
    assert_eq!(loss.train(&Sgd::new(1e-3)).wait()?.to_bits(), before.to_bits());
    Ok(())
}
