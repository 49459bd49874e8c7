//! The pullback rules of the reference: deltas as expressions.

use super::graph::{Binary, Fault, Kernel, Kind, Unary};
use super::numbers::{Failure, Value};
use super::reference::{Expression, Id, Pass};

/// The deltas of the operands of an evaluated expression.
pub(crate) fn pull_back(pass: &mut Pass<'_>, id: Id, delta: Id) -> Result<Vec<Option<Id>>, Failure> {
    let mut write = Writer(pass, id);
    Ok(match write.0.expression(id).clone() {
        Expression::Unary(op, [x]) => vec![unary(&mut write, op, x, id, delta)],
        Expression::Binary(op, [a, b]) => binary(&mut write, op, a, b, id, delta).to_vec(),
        Expression::Kernel(op, operands) => kernel(&mut write, &op, &operands, delta)?,
        _ => vec![Some(delta)],
    })
}

/// A delta times a number.
pub(crate) fn scale(pass: &mut Pass<'_>, kind: Kind, delta: Id, factor: f64) -> Id {
    match kind {
        Kind::Counted => pass.add(Expression::Kernel(Kernel::Stretch(factor), vec![delta])),
        _ => {
            let factor = pass.add(Expression::Constant(Value::of(kind, 0.0).filled(factor)));
            pass.add(Expression::Binary(Binary::Mul, [delta, factor]))
        }
    }
}

/// Creates expressions of the kind of another one.
struct Writer<'p, 'g>(&'p mut Pass<'g>, Id);

impl Writer<'_, '_> {
    fn number(&mut self, number: f64) -> Id {
        let kind = self.0.kind(self.1);
        self.0.add(Expression::Constant(Value::of(kind, 0.0).filled(number)))
    }

    fn unary(&mut self, op: Unary, x: Id) -> Id {
        self.0.add(Expression::Unary(op, [x]))
    }

    fn add(&mut self, a: Id, b: Id) -> Id {
        self.0.add(Expression::Binary(Binary::Add, [a, b]))
    }

    fn sub(&mut self, a: Id, b: Id) -> Id {
        self.0.add(Expression::Binary(Binary::Sub, [a, b]))
    }

    fn mul(&mut self, a: Id, b: Id) -> Id {
        self.0.add(Expression::Binary(Binary::Mul, [a, b]))
    }

    fn strong_div(&mut self, a: Id, b: Id) -> Id {
        self.0.add(Expression::Binary(Binary::StrongDiv, [a, b]))
    }

    fn above(&mut self, a: Id, b: Id) -> Id {
        self.0.add(Expression::Binary(Binary::Above, [a, b]))
    }

    fn strong_mul(&mut self, a: Id, b: Id) -> Id {
        self.0.add(Expression::Binary(Binary::StrongMul, [a, b]))
    }

    fn both_strong_mul(&mut self, a: Id, b: Id) -> Id {
        self.0.add(Expression::Binary(Binary::BothStrongMul, [a, b]))
    }

    fn gate(&mut self, a: Id, b: Id) -> Id {
        self.0.add(Expression::Binary(Binary::Gate, [a, b]))
    }

    /// The part of a delta with this share.
    fn chosen(&mut self, d: Id, share: Id) -> Id {
        let part = self.gate(d, share);
        self.strong_mul(part, share)
    }

    fn kernel(&mut self, kernel: Kernel, x: Id) -> Id {
        self.0.add(Expression::Kernel(kernel, vec![x]))
    }
}

fn unary(write: &mut Writer<'_, '_>, op: Unary, x: Id, y: Id, d: Id) -> Option<Id> {
    Some(match op {
        Unary::Neg => write.unary(Unary::Neg, d),
        Unary::Abs => {
            let sign = write.unary(Unary::Sign, x);
            write.strong_mul(d, sign)
        }
        Unary::Sign => return None,
        Unary::Exp => write.strong_mul(d, y),
        Unary::Square => {
            let product = write.strong_mul(d, x);
            let two = write.number(2.0);
            write.mul(two, product)
        }
        Unary::Recip => {
            let square = write.mul(y, y);
            let product = write.strong_mul(d, square);
            write.unary(Unary::Neg, product)
        }
        Unary::Sin => {
            let cos = write.unary(Unary::Cos, x);
            write.strong_mul(d, cos)
        }
        Unary::Cos => {
            let sin = write.unary(Unary::Sin, x);
            let product = write.strong_mul(d, sin);
            write.unary(Unary::Neg, product)
        }
        Unary::Tanh => {
            let square = write.mul(y, y);
            let one = write.number(1.0);
            let rest = write.sub(one, square);
            write.strong_mul(d, rest)
        }
        Unary::Sigmoid => {
            let one = write.number(1.0);
            let rest = write.sub(one, y);
            let slope = write.mul(y, rest);
            write.strong_mul(d, slope)
        }
        Unary::Relu => write.gate(d, y),
        Unary::Softplus => {
            let sigmoid = write.unary(Unary::Sigmoid, x);
            write.strong_mul(d, sigmoid)
        }
    })
}

fn binary(write: &mut Writer<'_, '_>, op: Binary, a: Id, b: Id, y: Id, d: Id) -> [Option<Id>; 2] {
    let (left, right) = match op {
        Binary::Add => (d, d),
        Binary::Sub => (d, write.unary(Unary::Neg, d)),
        Binary::Mul => (write.strong_mul(d, b), write.strong_mul(d, a)),
        Binary::Div | Binary::StrongDiv => {
            let strong = matches!(op, Binary::StrongDiv);
            let product = if strong { write.both_strong_mul(d, y) } else { write.strong_mul(d, y) };
            let minus = write.unary(Unary::Neg, product);
            (write.strong_div(d, b), write.strong_div(minus, b))
        }
        Binary::Min | Binary::Max => {
            let (a_above, b_above) = (write.above(a, b), write.above(b, a));
            let (left, right) = if let Binary::Max = op { (a_above, b_above) } else { (b_above, a_above) };
            (write.chosen(d, left), write.chosen(d, right))
        }
        Binary::Above => return [None, None],
        Binary::Gate => return [Some(write.gate(d, b)), None],
        Binary::StrongMul => (write.strong_mul(d, b), write.both_strong_mul(d, a)),
        Binary::BothStrongMul => (write.both_strong_mul(d, b), write.both_strong_mul(d, a)),
    };
    [Some(left), Some(right)]
}

fn kernel(write: &mut Writer<'_, '_>, kernel: &Kernel, operands: &[Id], d: Id) -> Result<Vec<Option<Id>>, Failure> {
    Ok(match kernel {
        Kernel::Scale(_) | Kernel::Stretch(_) => vec![Some(write.kernel(kernel.clone(), d))],
        Kernel::Blend => {
            let product = write.mul(d, operands[1]);
            vec![Some(write.add(product, d)), Some(write.mul(d, operands[0]))]
        }
        Kernel::Fused => vec![Some(write.mul(d, operands[1])), None, Some(d)],
        Kernel::Gather(factors) => {
            let delta = |&factor: &f64| (factor != 0.0).then(|| scale(write.0, Kind::F64, d, factor));
            factors.iter().map(delta).collect()
        }
        Kernel::Widen => vec![Some(write.kernel(Kernel::Narrow, d))],
        Kernel::Narrow => vec![Some(write.kernel(Kernel::Widen, d))],
        Kernel::Enter => vec![Some(write.kernel(Kernel::Leave, d))],
        Kernel::Leave => vec![Some(write.kernel(Kernel::Enter, d))],
        Kernel::Mix => vec![Some(write.kernel(Kernel::Stretch(0.5), d)), Some(d)],
        Kernel::Spread => vec![Some(write.kernel(Kernel::Total, d))],
        Kernel::Total => vec![Some(write.kernel(Kernel::Spread, d))],
        Kernel::Sum => vec![Some(d); operands.len()],
        Kernel::Faulty(number, Fault::PullbackPanics) => {
            return Err(Failure { number: *number, panics: true, delta: false, op: "faulty" });
        }
        Kernel::Faulty(number, fault @ (Fault::DeltaFails | Fault::DeltaPanics)) => {
            vec![Some(write.kernel(Kernel::FaultyDelta(*number, *fault), d))]
        }
        Kernel::Faulty(..) | Kernel::FaultyDelta(..) => vec![Some(d)],
    })
}
