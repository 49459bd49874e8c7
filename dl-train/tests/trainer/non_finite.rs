//! A step with values that are not finite is refused, and the error names the first such operation.

use dl_core::{Differentiable, Error, Layer, Memory, Mode, Optimizer, Result, Weight};
use dl_nd::ndarray::Ix2;
use dl_nd::{Nd, NdWeight, ops::*};
use dl_optim::{Adam, Sgd};
use dl_train::Trainer;

type Matrix = NdWeight<Ix2>;

fn weight(numbers: [f32; 4]) -> Matrix {
    Weight::new(Nd::from_vec([2, 2], numbers.to_vec()).unwrap())
}

fn numbers(weight: &Matrix) -> Vec<f32> {
    weight.value().into_vec()
}

/// A run in which the third step is refused.
fn refused(w: &Matrix, loss: impl FnMut(u64) -> Layer<f32>) -> Result<Error> {
    let (before, adam) = (numbers(w), Adam::new(0.0));
    let trainer = Trainer::new(&adam, 1).seed(3).refuse_non_finite();
    let error = trainer.run(|_| Ok((0..5).map(Ok)), loss).unwrap_err();
    assert!(error.is_not_finite(), "{error}");
    assert!(error.to_string().contains("the step was refused"), "{error}");
    assert_eq!(numbers(w), before);
    assert_eq!(adam.memory().map(Memory::steps), Some(2), "the earlier steps must have been taken");
    Ok(error)
}

#[test]
fn non_finite_value_error_names_operation() -> Result<()> {
    let w = weight([1.0, 2.0, 3.0, 100.0]);
    let line = line!();
    let error = refused(&w, |batch| {
        let large = (&w * if batch == 2 { 1.0 } else { 0.1 }).exp();
        let shares = &large / &large.sum();
        (shares * 2.0).mean()
    })?;
    assert_eq!((error.op(), error.place().map(|place| place.line())), (Some("exp"), Some(line + 2)), "{error}");
    Ok(())
}

#[test]
fn non_finite_derivative_error_names_operation() -> Result<()> {
    let w = weight([1.0, 2.0, 0.0, 4.0]);
    let line = line!();
    let error = refused(&w, |batch| {
        let shifted = &w + if batch == 2 { 0.0 } else { 1.0 };
        let roots = shifted.sqrt();
        roots.matmul(&w).mean()
    })?;
    assert_eq!((error.op(), error.place().map(|place| place.line())), (Some("sqrt"), Some(line + 3)), "{error}");
    Ok(())
}

#[test]
fn non_finite_constant_error_names_place() -> Result<()> {
    let w = weight([1.0, 2.0, 3.0, 4.0]);
    let line = line!();
    let error = refused(&w, |batch| {
        let input = weight([1.0, if batch == 2 { f32::NAN } else { 0.0 }, 1.0, 1.0]).value().into_layer();
        w.matmul(&input).sum()
    })?;
    assert_eq!((error.op(), error.place().map(|place| place.line())), (Some("constant"), Some(line + 2)), "{error}");
    Ok(())
}

/// Whether a step is refused depends on its random draws; the search for the operation must draw
/// the same numbers.
#[test]
fn first_non_finite_draws_same_numbers_as_step() -> Result<()> {
    let (w, sgd) = (weight([1.0; 4]), Sgd::new(0.0));
    let mut all = 0;
    for seed in 0..40 {
        let loss = w.dropout(0.2).ln().mean();
        let step = loss.refuse_non_finite().train(&sgd).seed(seed).wait();
        let first = loss.first_non_finite().seed(seed).wait()?;
        assert_eq!(step.is_err(), first.is_some(), "seed {seed}");
        assert!(first.is_none_or(|error| error.op() == Some("ln")));
        assert!(loss.predict().mode(Mode::Evaluate).wait()? == 0.0);
        all += usize::from(step.is_err());
    }
    assert!((10..40).contains(&all), "{all}");
    Ok(())
}
