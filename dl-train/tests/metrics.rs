//! Metrics compared with scikit-learn (`reference/metrics.py`), and invalid inputs.

use dl_core::Result;
use dl_train::metrics::{Accuracy, ConfusionMatrix, Mean, Perplexity, Scores, TopK};
use serde_json::Value;

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn classes(value: &Value) -> Vec<usize> {
    numbers(value).into_iter().map(|number| number as usize).collect()
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-14 * expected.abs(), "{found} instead of {expected}");
}

fn parts(scores: Scores) -> [f64; 3] {
    [scores.precision, scores.recall, scores.f1]
}

#[test]
fn metrics_match_scikit_learn() -> Result<()> {
    let cases: Vec<Value> = serde_json::from_str(include_str!("fixtures/metrics.json")).unwrap();
    assert_eq!(cases.len(), 5);
    for case in &cases {
        let count = classes(&Value::Array(vec![case["classes"].clone()]))[0];
        let (labels, predicted) = (classes(&case["labels"]), classes(&case["predicted"]));
        let (scores, surprises) = (numbers(&case["scores"]), numbers(&case["cross_entropies"]));
        let mut accuracy = Accuracy::new();
        let mut confusion = ConfusionMatrix::new(count)?;
        let mut perplexity = Perplexity::new();
        let mut top: Vec<TopK> = (1..count).map(|k| TopK::new(k, count)).collect::<Result<_>>()?;
        // in batches of different sizes
        let (mut start, mut size) = (0, 1);
        while start < labels.len() {
            let batch = start..(start + size).min(labels.len());
            let (labels, predicted) = (&labels[batch.clone()], &predicted[batch.clone()]);
            accuracy.add(predicted, labels)?;
            confusion.add(predicted, labels)?;
            let scores = &scores[batch.start * count..batch.end * count];
            top.iter_mut().try_for_each(|top| top.add(scores, labels))?;
            perplexity.add(surprises[batch.clone()].iter().sum::<f64>() / batch.len() as f64, batch.len())?;
            (start, size) = (batch.end, size + 3);
        }

        close(accuracy.value()?, case["accuracy"].as_f64().unwrap());
        close(confusion.accuracy()?, case["accuracy"].as_f64().unwrap());
        let counts: Vec<usize> =
            (0..count * count).map(|place| confusion.count(place / count, place % count)).collect();
        assert_eq!(counts, classes(&case["confusion"]));
        for (k, top) in (1..).zip(&top) {
            close(top.value()?, case["top"][k.to_string()].as_f64().unwrap());
        }
        for (part, expected) in case["averages"]["each"].as_array().unwrap().iter().enumerate() {
            for (class, expected) in numbers(expected).into_iter().enumerate() {
                close(parts(confusion.of_class(class)?)[part], expected);
            }
        }
        for (average, found) in [("macro", confusion.macro_average()?), ("micro", confusion.micro_average()?)] {
            for (found, expected) in parts(found).into_iter().zip(numbers(&case["averages"][average])) {
                close(found, expected);
            }
        }
        let expected = case["perplexity"].as_f64().unwrap();
        assert!((perplexity.value()? - expected).abs() < 1e-13 * expected);
    }
    Ok(())
}

#[test]
fn invalid_metric_input_is_refused_and_adds_nothing() -> Result<()> {
    let message = |result: Result<()>| result.unwrap_err().to_string();
    assert!(ConfusionMatrix::new(0).is_err() && ConfusionMatrix::new(1 << 40).is_err());
    assert!(TopK::new(0, 3).is_err() && TopK::new(4, 3).is_err() && TopK::new(1, 0).is_err());

    let mut confusion = ConfusionMatrix::new(3)?;
    assert!(confusion.accuracy().is_err() && confusion.macro_average().is_err() && confusion.of_class(0).is_err());
    let out_of_range = message(confusion.add(&[0, 0], &[1, 3]));
    assert_eq!(out_of_range, "the label 3 of sample 1 is out of range for 3 classes");
    assert!(message(confusion.add(&[9], &[1])).starts_with("the prediction 9 of sample 0"));
    assert!(message(confusion.add(&[0], &[])).contains("1 predictions for 0 labels"));
    assert_eq!(confusion, ConfusionMatrix::new(3)?);
    confusion.add(&[0], &[0])?;
    assert!(confusion.of_class(3).is_err());

    let mut top = TopK::new(1, 2)?;
    assert!(top.value().is_err());
    assert!(message(top.add(&[0.5, f64::NAN], &[0])).contains("the score of class 1 of sample 0 is NaN"));
    assert!(message(top.add(&[0.5, 1.0, 1.0], &[0])).contains("3 scores for 1 labels"));
    assert!(message(top.add(&[0.5, 1.0], &[2])).contains("the label 2"));
    assert!(top.value().is_err());
    top.add(&[f32::NEG_INFINITY, f32::INFINITY], &[1])?;
    // of equal scores the lower class index ranks higher
    top.add(&[0.5, 0.5], &[1])?;
    assert_eq!(top.value()?, 0.5);

    let mut mean = Mean::new();
    assert!(mean.value().is_err() && Perplexity::new().value().is_err() && Accuracy::new().value().is_err());
    for (number, samples) in [(f64::NAN, 3), (f64::NAN, 0), (f64::NEG_INFINITY, 0), (1e308, 100)] {
        assert!(mean.add(number, samples).unwrap_err().is_not_finite());
        assert!(mean.value().is_err());
    }
    mean.add(2.0_f32, 3)?;
    assert_eq!(mean.value()?, 2.0);
    assert!(Accuracy::new().add(&[1, 2], &[1]).unwrap_err().is_shape());
    Ok(())
}

#[test]
fn confusion_matrix_is_formatted_as_table() -> Result<()> {
    let mut matrix = ConfusionMatrix::new(2)?;
    matrix.add(&[0, 1, 1], &[0, 1, 0])?;
    assert_eq!(matrix.to_string(), "    0 1\n 0  1 1\n 1  0 1");
    Ok(())
}
