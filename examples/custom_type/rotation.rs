//! The data type `Rotation` and its delta `Turn`.

use dl::{At, Chunk, Data, Delta, Deltas, Layer, Primitive, Result, Trainable};

pub(crate) type Vector = [f64; 3];

/// A rotation in space as a unit quaternion: the real part, then the imaginary parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rotation([f64; 4]);

impl Rotation {
    pub(crate) const NONE: Rotation = Rotation([1.0, 0.0, 0.0, 0.0]);

    /// The rotation about the axis of `turn` by its length as an angle.
    pub(crate) fn about(turn: Vector) -> Self {
        let angle = turn.iter().map(|x| x * x).sum::<f64>().sqrt();
        // sin(angle / 2) / angle, with the limit 1/2 at 0
        let along = if angle > 1e-9 { (angle / 2.0).sin() / angle } else { 0.5 };
        let [x, y, z] = turn.map(|x| along * x);
        Rotation([(angle / 2.0).cos(), x, y, z]).normalized()
    }

    /// The composition of this rotation and then `next`: a product of quaternions.
    pub(crate) fn then(self, next: Self) -> Self {
        let ([s, u @ ..], [t, v @ ..]) = (next.0, self.0);
        let [x, y, z] = cross(u, v);
        let [x, y, z] = [x + s * v[0] + t * u[0], y + s * v[1] + t * u[1], z + s * v[2] + t * u[2]];
        Rotation([s * t - dot(u, v), x, y, z]).normalized()
    }

    pub(crate) fn inverse(self) -> Self {
        let [real, x, y, z] = self.0;
        Rotation([real, -x, -y, -z])
    }

    /// The angle of the rotation from this one to the other.
    pub(crate) fn angle_to(self, other: Self) -> f64 {
        let between = self.inverse().then(other).0;
        2.0 * dot([between[1], between[2], between[3]], [between[1], between[2], between[3]]).sqrt().min(1.0).asin()
    }

    pub(crate) fn of(self, v: Vector) -> Vector {
        let [real, u @ ..] = self.0;
        let twice = cross(u, v).map(|x| 2.0 * x);
        let across = cross(u, twice);
        std::array::from_fn(|i| v[i] + real * twice[i] + across[i])
    }

    fn normalized(self) -> Self {
        let length = self.0.iter().map(|x| x * x).sum::<f64>().sqrt();
        Rotation(self.0.map(|x| x / length))
    }
}

pub(crate) fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

pub(crate) fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// A derivative with respect to a rotation: the rates of change for small turns about the three
/// axes. Turns form a vector space; rotations do not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Turn(pub(crate) Vector);

impl Data for Rotation {
    type Delta = Turn;

    fn one(&self) -> Turn {
        Turn([1.0; 3])
    }
}

impl Data for Turn {
    type Delta = Turn;

    fn one(&self) -> Turn {
        Turn([1.0; 3])
    }

    fn non_finite(&self) -> Option<f64> {
        self.0.into_iter().find(|x| !x.is_finite())
    }
}

/// The sum of turns and the multiple of a turn, as layers.
impl Delta for Turn {
    fn sum(terms: Vec<Layer<Turn>>) -> Layer<Turn> {
        Layer::apply(Sum, terms)
    }

    fn none() -> Layer<Turn> {
        Layer::constant(Turn([0.0; 3]))
    }

    fn scale(layer: &Layer<Turn>, factor: f64) -> Layer<Turn> {
        Layer::apply(Scale(factor), (layer.clone(),))
    }

    fn squared_norm(&self) -> f64 {
        dot(self.0, self.0)
    }
}

/// The optimizer updates three numbers, a turn that starts at zero and is then composed with the
/// rotation. The result is a rotation for every optimizer.
impl Trainable for Rotation {
    /// Optimizer state consists of turns. It must have this type, and uses three of the four
    /// numbers.
    fn zeros_like(&self) -> Self {
        Rotation([0.0; 4])
    }

    fn update(
        &mut self,
        delta: &Turn,
        slots: &mut [Self],
        rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut turn = [0.0; 3];
        let mut slots: Vec<_> = slots.iter_mut().map(|Rotation([_, turn @ ..])| &mut turn[..]).collect();
        rule(Chunk::F64 { values: &mut turn, deltas: &delta.0, slots: &mut slots })?;
        *self = self.then(Rotation::about(turn));
        Ok(())
    }
}

/// The sum of any number of turns.
struct Sum;

impl Primitive for Sum {
    type Operands = Vec<Layer<Turn>>;
    type Output = Turn;

    fn name(&self) -> &'static str {
        "sum of turns"
    }

    fn value(&self, turns: Vec<&Turn>) -> Result<Turn> {
        Ok(Turn(std::array::from_fn(|i| turns.iter().map(|turn| turn.0[i]).sum())))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        at.operands.iter().map(|_| Some(at.delta.clone())).collect()
    }
}

/// The multiple of a turn.
struct Scale(f64);

impl Primitive for Scale {
    type Operands = (Layer<Turn>,);
    type Output = Turn;

    fn name(&self) -> &'static str {
        "multiple of a turn"
    }

    fn value(&self, (turn,): (&Turn,)) -> Result<Turn> {
        Ok(Turn(turn.0.map(|x| self.0 * x)))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(Turn::scale(at.delta, self.0)),)
    }
}
