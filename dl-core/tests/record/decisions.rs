//! Recorded decisions: the arms of branches that were taken.

use super::support::{node, record, twice};
use dl_core::bang::took;
use dl_core::record::{Direction, PassRecord};
use dl_core::{Branch, Differentiable, Do, Layer, Weight};
use dl_optim::Sgd;

static SIGN: Branch = Branch::new("x > 0.0", &["x", "-x"]);
static ROUND: Branch = Branch::new("x < 100.0", &["another round", "end"]);

/// The expansion of an annotated function.
fn magnitude(x: Layer<f64>) -> Layer<f64> {
    Layer::dynamic(move || {
        let x = x.clone();
        async move {
            Ok(if x.extract().await? > 0.0 {
                took(&SIGN, 0);
                x
            } else {
                took(&SIGN, 1);
                -x
            })
        }
    })
}

fn taken(pass: &PassRecord) -> Vec<(&'static str, usize)> {
    pass.decisions.iter().map(|decision| (decision.branch.condition, decision.taken)).collect()
}

#[test]
fn decision_in_body_names_node_and_branch() {
    let w = Weight::new(-3.0_f64);
    let (_, pass) = record((magnitude(twice(w.layer())) + 1.0).train(&Sgd::new(0.1)));
    assert_eq!(taken(&pass), [("x > 0.0", 1)]);
    let (body, _) = node(&pass, "differentiable function", Direction::Forward);
    assert_eq!(pass.decisions[0].node, Some(body));
    assert!(std::ptr::eq(pass.decisions[0].branch, &SIGN));
}

#[test]
fn decisions_belong_to_their_own_bodies() {
    let (v, w) = (Weight::new(-3.0_f64), Weight::new(3.0_f64));
    let (_, pass) = record(Do::predict((magnitude(v.layer()), magnitude(w.layer()))));
    assert_eq!(pass.decisions.len(), 2);
    for decision in &pass.decisions {
        let body = &pass.nodes[decision.node.expect("a decision in a body") as usize];
        let became = &pass.nodes[body.became.expect("a resolved node") as usize];
        assert_eq!(became.name, ["weight", "neg"][decision.taken]);
    }
}

#[test]
fn loop_records_decision_per_iteration() {
    let x = Weight::new(1.0_f64);
    let doubling = Layer::dynamic(move || {
        let x = x.clone();
        async move {
            let mut y = x.layer();
            while y.extract().await? < 100.0 {
                took(&ROUND, 0);
                y = twice(y);
            }
            took(&ROUND, 1);
            Ok(y)
        }
    });
    let (value, pass) = record(doubling.predict());
    assert_eq!(value.unwrap(), 128.0);
    assert_eq!(taken(&pass), [[("x < 100.0", 0); 7].as_slice(), &[("x < 100.0", 1)]].concat());
}

#[test]
fn decision_outside_of_bodies_has_no_node() {
    let w = Weight::new(1.0_f64);
    let (_, pass) = record(Do::from_fn(move || {
        let w = w.clone();
        async move {
            took(&SIGN, usize::from(w.layer().extract().await? <= 0.0));
            Ok(())
        }
    }));
    assert_eq!((taken(&pass), pass.decisions[0].node), (vec![("x > 0.0", 0)], None));
    took(&SIGN, 0); // outside of a pass, this is not recorded
}

#[test]
fn nested_pass_records_its_own_decisions() {
    let w = Weight::new(-1.0_f64);
    let recorder = dl_core::record::Recorder::new();
    let outer = Layer::dynamic(move || {
        let inner = magnitude(w.layer());
        async move {
            let value = inner.predict().await?;
            took(&ROUND, 1);
            Ok(Layer::constant(value))
        }
    });
    outer.predict().recorded(&recorder).wait().unwrap();
    let recording = super::support::checked(recorder.take());
    let [around, inside] = &recording.passes[..] else { panic!("{recording:?}") };
    assert_eq!((taken(around), taken(inside)), (vec![("x < 100.0", 1)], vec![("x > 0.0", 1)]));
    assert!(around.decisions[0].node.is_some() && inside.decisions[0].node.is_some());
}
