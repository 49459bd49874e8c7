//! The brightest stars, and synthetic exposures of a rotating camera.

use dl::prelude::*;
use rand::Rng;
use rand::seq::SliceRandom;

use crate::operations::Points;
use crate::rotation::{Rotation, Vector};

/// Right ascension and declination in degrees (J2000).
const STARS: [(&str, f64, f64); 21] = [
    ("Sirius", 101.287, -16.716),
    ("Canopus", 95.988, -52.696),
    ("Arcturus", 213.915, 19.182),
    ("Rigil Kentaurus", 219.902, -60.834),
    ("Vega", 279.234, 38.784),
    ("Capella", 79.172, 45.998),
    ("Rigel", 78.634, -8.202),
    ("Procyon", 114.825, 5.225),
    ("Achernar", 24.429, -57.237),
    ("Betelgeuse", 88.793, 7.407),
    ("Hadar", 210.956, -60.373),
    ("Altair", 297.696, 8.868),
    ("Acrux", 186.650, -63.099),
    ("Aldebaran", 68.980, 16.509),
    ("Antares", 247.352, -26.432),
    ("Spica", 201.298, -11.161),
    ("Pollux", 116.329, 28.026),
    ("Fomalhaut", 344.413, -29.622),
    ("Deneb", 310.358, 45.280),
    ("Mimosa", 191.930, -59.689),
    ("Regulus", 152.093, 11.967),
];

/// The directions of the stars.
pub(crate) fn stars() -> Vec<Vector> {
    let direction = |&(_, ascension, declination): &(&str, f64, f64)| {
        let (a, d) = (ascension.to_radians(), declination.to_radians());
        [d.cos() * a.cos(), d.cos() * a.sin(), d.sin()]
    };
    STARS.iter().map(direction).collect()
}

pub(crate) fn tensor(directions: &[Vector]) -> dl::Result<Points> {
    Nd::from_vec([directions.len(), 3], directions.concat())
}

/// A random axis, scaled to a random angle between `least` and `most`, in radians.
pub(crate) fn random_turn(least: f64, most: f64, rng: &mut impl Rng) -> Vector {
    loop {
        let v: Vector = std::array::from_fn(|_| rng.random_range(-1.0..1.0));
        let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        if (0.1..1.0).contains(&length) {
            let angle = rng.random_range(least..most);
            return v.map(|x| x / length * angle);
        }
    }
}

/// `count` exposures of all stars, each rotated by `spin` relative to the one before. Each star has
/// an error of up to 0.4 degrees, and in each exposure four stars are swapped.
pub(crate) fn exposures(
    attitude: Rotation,
    spin: Rotation,
    count: usize,
    rng: &mut impl Rng,
) -> dl::Result<Vec<Points>> {
    let mut rotation = attitude;
    let mut exposures = Vec::new();
    for _ in 0..count {
        let blurred = |star| Rotation::about(random_turn(0.0, 0.4_f64.to_radians(), rng)).of(rotation.of(star));
        let mut seen: Vec<Vector> = stars().into_iter().map(blurred).collect();
        let mut order: Vec<usize> = (0..seen.len()).collect();
        order.shuffle(rng);
        let first = seen[order[0]];
        (0..3).for_each(|i| seen[order[i]] = seen[order[i + 1]]);
        seen[order[3]] = first;
        exposures.push(tensor(&seen)?);
        rotation = rotation.then(spin);
    }
    Ok(exposures)
}
