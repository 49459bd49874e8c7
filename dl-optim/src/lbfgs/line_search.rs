//! The line search: a step that satisfies the strong Wolfe conditions.

use super::point::{Loss, Point};
use super::vector::{dot, largest};
use dl_core::{Data, Number, Result};
use std::sync::Arc;

/// Its settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineSearch {
    /// The first Wolfe constant, c₁.
    pub(super) decrease: f64,
    /// The second Wolfe constant, c₂.
    pub(super) curvature: f64,
    /// An interval whose largest element is below this is not divided.
    pub(super) shortest: f64,
    /// The largest number of evaluations.
    pub(super) evaluations: usize,
}

/// A step along the direction, evaluated.
#[derive(Clone)]
pub(super) struct Trial {
    pub(super) length: f64,
    /// The derivative of the loss by the length.
    pub(super) slope: f64,
    pub(super) point: Arc<Point>,
}

impl Trial {
    /// The loss; infinite if it or its gradient is not finite.
    fn height(&self) -> f64 {
        if self.slope.is_finite() && self.point.value.is_finite() { self.point.value } else { f64::INFINITY }
    }
}

impl LineSearch {
    /// Searches from `start`, the step of length 0, with `first` as the first length. Returns the
    /// best step, which may be `start`, and the number of evaluations.
    pub(super) async fn run<A: Number + Data>(
        &self,
        loss: &Loss<A>,
        start: Trial,
        direction: &Arc<[f64]>,
        first: f64,
    ) -> Result<(Trial, usize)> {
        let at = async |length: f64| -> Result<Trial> {
            let point = Arc::new(start.point.along(loss, direction, length).await?);
            Ok(Trial { length, slope: dot(&point.gradient, direction), point })
        };
        let is_above = |trial: &Trial| trial.height() > start.height() + self.decrease * trial.length * start.slope;
        let is_flat = |trial: &Trial| trial.slope.abs() <= -self.curvature * start.slope;

        // lengthen the step until an interval contains a minimum
        let (mut evaluations, mut before, mut trial) = (1, start.clone(), at(first).await?);
        let is_bracketed = loop {
            if is_above(&trial) || evaluations > 2 && trial.height() >= before.height() {
                break true;
            }
            if is_flat(&trial) {
                return Ok((trial, evaluations));
            }
            if trial.slope >= 0.0 {
                break true;
            }
            if evaluations == self.evaluations {
                break false;
            }
            let bounds = (trial.length + 0.01 * (trial.length - before.length), 10.0 * trial.length);
            let length = cubic_minimum(&before, &trial, bounds);
            before = std::mem::replace(&mut trial, at(length).await?);
            evaluations += 1;
        };
        if !is_bracketed {
            return Ok((if trial.height() <= start.height() { trial } else { start }, evaluations));
        }

        // shorten the interval
        let (mut low, mut high) = if before.height() <= trial.height() { (before, trial) } else { (trial, before) };
        let (widest, mut was_near_end) = (largest(direction), false);
        while evaluations < self.evaluations && (high.length - low.length).abs() * widest >= self.shortest {
            let ends = (low.length.min(high.length), low.length.max(high.length));
            let mut length = cubic_minimum(&low, &high, ends);
            // two steps near an end in turn make too little progress
            let margin = 0.1 * (ends.1 - ends.0);
            let is_near_end = (ends.1 - length).min(length - ends.0) < margin;
            let is_moved = is_near_end && (was_near_end || length >= ends.1 || length <= ends.0);
            if is_moved {
                length = if ends.1 - length < length - ends.0 { ends.1 - margin } else { ends.0 + margin };
            }
            was_near_end = is_near_end && !is_moved;
            let trial = at(length).await?;
            evaluations += 1;
            if is_above(&trial) || trial.height() >= low.height() {
                high = trial;
                if high.height() < low.height() {
                    std::mem::swap(&mut low, &mut high);
                }
                continue;
            }
            if is_flat(&trial) {
                return Ok((trial, evaluations));
            }
            if trial.slope * (high.length - low.length) >= 0.0 {
                high = low;
            }
            low = trial;
        }
        Ok((low, evaluations))
    }
}

/// The place of the minimum of the cubic polynomial with the heights and slopes of two trials,
/// within bounds; the middle, if it has none.
fn cubic_minimum(a: &Trial, b: &Trial, (least, most): (f64, f64)) -> f64 {
    let (left, right) = if a.length <= b.length { (a, b) } else { (b, a) };
    let width = right.length - left.length;
    let d1 = left.slope + right.slope - 3.0 * (left.height() - right.height()) / (left.length - right.length);
    let d2 = (d1 * d1 - left.slope * right.slope).sqrt();
    let place = right.length - width * ((right.slope + d2 - d1) / (right.slope - left.slope + 2.0 * d2));
    if place.is_finite() { place.clamp(least, most) } else { (least + most) / 2.0 }
}
