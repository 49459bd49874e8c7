//! Operations on rotations, turns and points. Their derivative rules use these operations, so they
//! can be differentiated repeatedly.

use dl::prelude::*;
use dl::{At, Deltas, Primitive, Result};

use crate::rotation::{Rotation, Turn, Vector, cross};

/// Points in space, `[points, 3]`.
pub(crate) type Points = Nd<f64, Ix2>;

/// Rotates the points.
#[track_caller]
pub(crate) fn rotate(rotation: &impl Differentiable<Data = Rotation>, points: &Layer<Points>) -> Layer<Points> {
    Layer::apply(Rotate { back: false }, (rotation.layer(), points.clone()))
}

/// Rotates the points by the inverse rotation.
#[track_caller]
fn rotate_back(rotation: &Layer<Rotation>, points: &Layer<Points>) -> Layer<Points> {
    Layer::apply(Rotate { back: true }, (rotation.clone(), points.clone()))
}

/// The sum of the cross products of corresponding points.
#[track_caller]
fn torque(a: &Layer<Points>, b: &Layer<Points>) -> Layer<Turn> {
    Layer::apply(Torque, (a.clone(), b.clone()))
}

/// The cross product of each point with a turn.
#[track_caller]
fn points_cross_turn(points: &Layer<Points>, turn: &Layer<Turn>) -> Layer<Points> {
    Layer::apply(Cross, (points.clone(), turn.clone()))
}

struct Rotate {
    back: bool,
}

impl Primitive for Rotate {
    type Operands = (Layer<Rotation>, Layer<Points>);
    type Output = Points;

    fn name(&self) -> &'static str {
        if self.back { "rotate_back" } else { "rotate" }
    }

    fn value(&self, (rotation, points): (&Rotation, &Points)) -> Result<Points> {
        let rotation = if self.back { rotation.inverse() } else { *rotation };
        mapped(points, |point| rotation.of(point))
    }

    /// A small turn ω composed with the rotation changes y = R·p by ω × y, and R⁻¹·p by R⁻¹·(p ×
    /// ω).
    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let (rotation, points) = at.operands;
        if self.back {
            let delta = rotate(rotation, at.delta);
            (Some(torque(&delta, points)), Some(delta))
        } else {
            (Some(torque(at.output, at.delta)), Some(rotate_back(rotation, at.delta)))
        }
    }
}

struct Torque;

impl Primitive for Torque {
    type Operands = (Layer<Points>, Layer<Points>);
    type Output = Turn;

    fn name(&self) -> &'static str {
        "torque"
    }

    fn value(&self, (a, b): (&Points, &Points)) -> Result<Turn> {
        if a.shape() != b.shape() {
            return Err(Error::shape(format!("points {:?} and {:?} are no pairs", a.shape(), b.shape())));
        }
        let mut sum = [0.0; 3];
        for (a, b) in rows(a)?.zip(rows(b)?) {
            sum.iter_mut().zip(cross(a, b)).for_each(|(sum, x)| *sum += x);
        }
        Ok(Turn(sum))
    }

    /// d · (a × b) = a · (b × d) = −b · (a × d)
    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let (a, b) = at.operands;
        (Some(points_cross_turn(b, at.delta)), Some(-points_cross_turn(a, at.delta)))
    }
}

struct Cross;

impl Primitive for Cross {
    type Operands = (Layer<Points>, Layer<Turn>);
    type Output = Points;

    fn name(&self) -> &'static str {
        "points_cross_turn"
    }

    fn value(&self, (points, turn): (&Points, &Turn)) -> Result<Points> {
        mapped(points, |point| cross(point, turn.0))
    }

    /// d · (p × t) = −p · (d × t) = t · (d × p)
    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let (points, turn) = at.operands;
        (Some(-points_cross_turn(at.delta, turn)), Some(torque(at.delta, points)))
    }
}

fn rows(points: &Points) -> Result<impl Iterator<Item = Vector> + '_> {
    if points.shape()[1] != 3 {
        return Err(Error::shape(format!("points of space are [points, 3], not {:?}", points.shape())));
    }
    Ok((0..points.shape()[0]).map(|row| std::array::from_fn(|i| points[[row, i]])))
}

fn mapped(points: &Points, function: impl Fn(Vector) -> Vector) -> Result<Points> {
    let all: Vec<Vector> = rows(points)?.map(function).collect();
    Nd::from_vec([all.len(), 3], all.concat())
}
