//! `guessNextNumber`, `squareLoss`, `train`, `predict_trained`: a robot learns to continue a
//! sequence.

use dl::prelude::*;

// guessNextNumber
fn guess_next_number(question: &[f64], weights: &[Weight<f64>], bias: &Weight<f64>) -> Layer<f64> {
    question.iter().zip(weights).map(|(&x, w)| x * w).sum::<Layer<f64>>() + bias
}

// squareLoss
#[differentiable]
fn square_loss(robot_answer: &Layer<f64>, expected: f64) -> Layer<f64> {
    let difference = robot_answer - expected;
    difference * difference
}

fn random_robot() -> (Vec<Weight<f64>>, Weight<f64>) {
    ([0.31, 0.77, 0.05].map(Weight::new).to_vec(), Weight::new(0.42))
}

#[test]
fn untrained_robot_predicts() -> dl::Result<()> {
    let (weights, bias) = random_robot();
    let guess = guess_next_number(&[42.0, 43.0, 44.0], &weights, &bias).predict().wait()?;
    assert!((guess - (42.0 * 0.31 + 43.0 * 0.77 + 44.0 * 0.05 + 0.42)).abs() < 1e-12);
    Ok(())
}

/// Two equations leave four unknowns undetermined, so this test checks only the two questions. The
/// learning rate is half of that in the listing: with 0.001, the error of the second question would
/// be multiplied by 1 − 2 · 0.001 · (13² + 19² + 25² + 1) = −1.3 in each step.
#[test]
fn training_on_two_questions_fits_both() -> dl::Result<()> {
    let (weights, bias) = random_robot();
    let sgd = Sgd::new(0.0005);
    for _ in 0..5000 {
        square_loss(&guess_next_number(&[3.0, 4.0, 5.0], &weights, &bias), 6.0).train(&sgd).wait()?;
        square_loss(&guess_next_number(&[13.0, 19.0, 25.0], &weights, &bias), 31.0).train(&sgd).wait()?;
    }
    for (question, answer) in [([3.0, 4.0, 5.0], 6.0), ([13.0, 19.0, 25.0], 31.0)] {
        let guess = guess_next_number(&question, &weights, &bias).predict().wait()?;
        assert!((guess - answer).abs() < 0.05, "{guess} should be close to {answer}");
    }
    Ok(())
}

/// Arithmetic progressions in all directions determine the weights: the robot finds the rule, `[3,
/// 6, 9] -> 12`.
#[test]
fn trained_robot_finds_rule() -> dl::Result<()> {
    let (weights, bias) = random_robot();
    let sgd = Sgd::new(0.01);
    let questions =
        [([0.1, 0.2, 0.3], 0.4), ([1.0, 0.5, 0.0], -0.5), ([-1.0, -1.0, -1.0], -1.0), ([0.3, 0.9, 1.5], 2.1)];
    for _ in 0..5000 {
        for (question, answer) in questions {
            square_loss(&guess_next_number(&question, &weights, &bias), answer).train(&sgd).wait()?;
        }
    }
    let guess = guess_next_number(&[3.0, 6.0, 9.0], &weights, &bias).predict().wait()?;
    assert!((guess - 12.0).abs() < 0.2, "{guess} should be close to 12");
    Ok(())
}

#[test]
fn robot_trains_in_async_code() {
    let (weights, bias) = random_robot();
    let answer = futures::executor::block_on(async {
        let robot = guess_next_number(&[3.0, 4.0, 5.0], &weights, &bias);
        square_loss(&robot, 6.0).train(&Sgd::new(0.001)).await?;
        robot.predict().await
    });
    assert!(answer.is_ok());
}
