//! A user-defined operation and a user-defined data type.
//!
//! ```sh
//! cargo run --release --example custom_op
//! ```
//!
//! `Unit` is an operation on tensors: a value and a derivative rule. The rule is written in layers,
//! so it can be differentiated again. `Circle` is a data type with a delta of another type: only
//! the radius of a circle is trained.

use dl::prelude::*;
use dl::{At, Chunk, Data, Primitive, Result, Trainable};
use std::f64::consts::PI;
use std::slice::{from_mut, from_ref};

/// `x / |x|`: the direction of a vector.
struct Unit;

impl Primitive for Unit {
    type Operands = (Layer<Nd<f64, Ix1>>,);
    type Output = Nd<f64, Ix1>;

    fn name(&self) -> &'static str {
        "unit"
    }

    fn value(&self, (x,): (&Nd<f64, Ix1>,)) -> Result<Nd<f64, Ix1>> {
        let length = x.view().dot(&x.view()).sqrt();
        if length == 0.0 {
            return Err(Error::invalid("a vector of zeros has no direction"));
        }
        Ok((&x.view() / length).into())
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<f64, Ix1>>>,) {
        // Changes along x do not change the direction: (d − y · (y·d)) / |x|
        let along = (at.output * at.delta).sum();
        (Some((at.delta - at.output * along) / at.operands.0.norm()),)
    }
}

#[track_caller] // errors name the line of the caller
fn unit(x: impl NdExpression<Ix1, f64>) -> Layer<Nd<f64, Ix1>> {
    Layer::apply(Unit, (x.into_layer(),))
}

#[derive(Clone, Debug)]
struct Circle {
    radius: f64,
    colour: &'static str,
}

impl Data for Circle {
    /// The derivative with respect to the radius.
    type Delta = f64;

    fn one(&self) -> f64 {
        1.0
    }
}

impl Trainable for Circle {
    fn zeros_like(&self) -> Self {
        Circle { radius: 0.0, ..*self }
    }

    fn update(&mut self, delta: &f64, slots: &mut [Self], rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>) -> Result<()> {
        let mut slots: Vec<_> = slots.iter_mut().map(|slot| from_mut(&mut slot.radius)).collect();
        rule(Chunk::F64 { values: from_mut(&mut self.radius), deltas: from_ref(delta), slots: &mut slots })
    }
}

/// The radius of a circle; everything else is computed from it by built-in operations.
struct Radius;

impl Primitive for Radius {
    type Operands = (Layer<Circle>,);
    type Output = f64;

    fn name(&self) -> &'static str {
        "radius"
    }

    fn value(&self, (circle,): (&Circle,)) -> Result<f64> {
        Ok(circle.radius)
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<f64>>,) {
        (Some(at.delta.clone()),)
    }
}

#[track_caller]
fn area(circle: &Weight<Circle>) -> Layer<f64> {
    PI * Layer::apply(Radius, (circle.layer(),)).square()
}

fn main() -> Result<()> {
    let compass = Weight::new(Nd::from([3.0, -1.0]));
    let north = Nd::from([0.0, 1.0]);
    let off = (unit(&compass) - &north).square().sum();
    let sgd = Sgd::new(0.5);
    for _ in 0..200 {
        off.train(&sgd).wait()?;
    }
    let direction = unit(&compass).predict().wait()?;
    println!("the compass points to ({:.3}, {:.3})", direction[0], direction[1]);
    assert!(off.predict().wait()? < 1e-6);

    let circle = Weight::new(Circle { radius: 1.0, colour: "blue" });
    let miss = area(&circle) - 10.0;
    let adam = Adam::new(0.05);
    for _ in 0..500 {
        (&miss * &miss).train(&adam).wait()?;
    }
    let circle = circle.value();
    println!("a {} circle of area 10 has the radius {:.4}", circle.colour, circle.radius);
    assert!((circle.radius - (10.0 / PI).sqrt()).abs() < 1e-3);
    Ok(())
}
