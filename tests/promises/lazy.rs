//! Promise 7: a delta without a trained weight is never computed.

use super::support::Counted;
use dl::{Differentiable, Layer, Sgd, Weight};

#[test]
fn no_delta_for_constants_frozen_weights_and_predict() {
    let (input, frozen, trained) = (Counted::new(1.0), Counted::new(1.0), Counted::new(1.0));
    let (w, f) = (Weight::new(2.0), Weight::new(3.0));
    f.freeze();
    let y = input.of(&Layer::constant(5.0)) * frozen.of(&f.layer()) * trained.of(&w.layer());
    assert_eq!(y.predict().wait().unwrap(), 30.0);
    y.train(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!((input.counts(), frozen.counts(), trained.counts()), ((2, 0), (2, 0), (2, 1)));
    assert_eq!(f.value(), 3.0);
    f.unfreeze();
    y.train(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!((input.counts().1, frozen.counts().1), (0, 1));
}

#[test]
fn no_delta_for_untaken_branch_and_bangs() {
    let (score, taken, untaken) = (Counted::new(1.0), Counted::new(1.0), Counted::new(1.0));
    let w = Weight::new(2.0);
    let parts = (score.clone(), taken.clone(), untaken.clone(), w.clone());
    let y = Layer::dynamic(move || {
        let (score, taken, untaken, w) = parts.clone();
        async move {
            let (yes, no) = (taken.of(&w.layer()), untaken.of(&w.layer()));
            if score.of(&w.layer()).extract().await? > 0.0 { Ok(yes) } else { Ok(no) }
        }
    });
    y.train(&Sgd::new(0.1)).wait().unwrap();
    assert_eq!((score.counts(), taken.counts(), untaken.counts()), ((1, 0), (1, 1), (0, 0)));
}

#[test]
fn gradient_evaluates_only_its_path() {
    let (a, b) = (Weight::new(2.0), Weight::new(3.0));
    let (of_a, of_b) = (Counted::new(1.0), Counted::new(1.0));
    let y = of_a.of(&a.layer()) + of_b.of(&b.layer());
    assert_eq!(y.gradient(&a).predict().wait().unwrap(), 1.0);
    assert_eq!((of_a.counts().1, of_b.counts().1), (1, 0));
}
