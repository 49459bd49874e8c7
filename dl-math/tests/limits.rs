//! Values, slopes and second derivatives at the ends of the range of a format, and a delta of 0.

use dl_math::{Algebra, Binary, Dual, Number, Term, Unary};

const INF: f64 = f64::INFINITY;

/// The value, the slope and the second derivative of an operation.
fn derivatives<A: Number>(op: Unary, x: f64) -> [A; 3] {
    let y = Dual::unary(op, &Dual::variable(Dual::variable(A::of(x))));
    [y.value().value(), y.tangent().value(), y.tangent().tangent()]
}

/// Limits of the value, the slope and the second derivative at a point, from one side where they
/// differ.
const LIMITS: &[(Unary, f64, [f64; 3])] = &[
    (Unary::Neg, -INF, [INF, -1.0, 0.0]),
    (Unary::Neg, INF, [-INF, -1.0, 0.0]),
    (Unary::Abs, -INF, [INF, -1.0, 0.0]),
    (Unary::Abs, INF, [INF, 1.0, 0.0]),
    (Unary::Exp, -INF, [0.0, 0.0, 0.0]),
    (Unary::Exp, INF, [INF, INF, INF]),
    (Unary::Expm1, -INF, [-1.0, 0.0, 0.0]),
    (Unary::Expm1, INF, [INF, INF, INF]),
    (Unary::Ln, 0.0, [-INF, INF, -INF]),
    (Unary::Ln, INF, [INF, 0.0, 0.0]),
    (Unary::Log1p, -1.0, [-INF, INF, -INF]),
    (Unary::Log1p, INF, [INF, 0.0, 0.0]),
    (Unary::Sqrt, 0.0, [0.0, INF, -INF]),
    (Unary::Sqrt, INF, [INF, 0.0, 0.0]),
    (Unary::Rsqrt, 0.0, [INF, -INF, INF]),
    (Unary::Rsqrt, INF, [0.0, 0.0, 0.0]),
    (Unary::Square, -INF, [INF, -INF, 2.0]),
    (Unary::Square, INF, [INF, INF, 2.0]),
    (Unary::Recip, -INF, [0.0, 0.0, 0.0]),
    (Unary::Recip, 0.0, [INF, -INF, INF]),
    (Unary::Recip, INF, [0.0, 0.0, 0.0]),
    (Unary::Tanh, -INF, [-1.0, 0.0, 0.0]),
    (Unary::Tanh, INF, [1.0, 0.0, 0.0]),
    (Unary::Erf, -INF, [-1.0, 0.0, 0.0]),
    (Unary::Erf, INF, [1.0, 0.0, 0.0]),
    (Unary::Ndtr, -INF, [0.0, 0.0, 0.0]),
    (Unary::Ndtr, INF, [1.0, 0.0, 0.0]),
    (Unary::Sigmoid, -INF, [0.0, 0.0, 0.0]),
    (Unary::Sigmoid, INF, [1.0, 0.0, 0.0]),
    (Unary::Relu, -INF, [0.0, 0.0, 0.0]),
    (Unary::Relu, INF, [INF, 1.0, 0.0]),
    (Unary::Gelu, -INF, [0.0, 0.0, 0.0]),
    (Unary::Gelu, INF, [INF, 1.0, 0.0]),
    (Unary::GeluTanh, -INF, [0.0, 0.0, 0.0]),
    (Unary::GeluTanh, INF, [INF, 1.0, 0.0]),
    (Unary::Silu, -INF, [0.0, 0.0, 0.0]),
    (Unary::Silu, INF, [INF, 1.0, 0.0]),
    (Unary::Softplus, -INF, [0.0, 0.0, 0.0]),
    (Unary::Softplus, INF, [INF, 1.0, 0.0]),
];

fn are_limits<A: Number>() {
    for &(op, x, limits) in LIMITS {
        let found = derivatives::<A>(op, x);
        assert!(found == limits.map(A::of), "{} at {x}: {found:?} instead of {limits:?}", op.name());
    }
}

#[test]
fn derivatives_at_infinity_and_at_poles_are_limits() {
    are_limits::<f32>();
    are_limits::<f64>();
}

/// A limit that holds up to the largest numbers of the format holds there, too.
fn ends_are_limits<A: Number>() {
    for &(op, x, limits) in LIMITS {
        let near = match x {
            _ if op == Unary::Square || op == Unary::Log1p && x < 0.0 => continue,
            0.0 => A::min_positive_value() * A::epsilon(),
            x => A::max_value() * A::of(x).signum(),
        };
        let y = Dual::unary(op, &Dual::variable(Dual::variable(near)));
        let found = [y.value().value(), y.tangent().value(), y.tangent().tangent()];
        for (found, limit) in found.into_iter().zip(limits) {
            // a root or a logarithm approaches its limit slowly
            let slow = limit.is_infinite() && found.abs() > A::one() && found.signum() == A::of(limit.signum());
            let flat = (found - A::of(limit)).abs() < A::of(1e-15);
            assert!(slow || flat, "{} at {near:?}: {found:?} instead of {limit}", op.name());
        }
    }
}

#[test]
fn derivatives_at_largest_and_smallest_numbers_are_near_limits() {
    ends_are_limits::<f32>();
    ends_are_limits::<f64>();
}

const POINTS: [f64; 11] = [-INF, -1e300, -4.0, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1e300, INF, f64::NAN];

/// In all readings of the rules: numbers, and numbers with tangents.
#[test]
fn delta_of_zero_annihilates_every_slope() {
    for x in POINTS {
        for &op in Unary::ALL {
            let delta = op.pullback(&Term(x), &Term(op.value(x)), &Term(0.0)).map_or(0.0, |delta| delta.0);
            let tangent = Dual::unary(op, &Dual::new(x, 0.0)).tangent();
            assert!(delta == 0.0 && tangent == 0.0, "{} at {x}: {delta}, {tangent}", op.name());
        }
        for y in POINTS {
            for &op in Binary::ALL {
                let (a, b) = op.pullbacks([&Term(x), &Term(y), &Term(op.value(x, y)), &Term(0.0)], (true, true));
                let tangent = Dual::binary(op, &Dual::new(x, 0.0), &Dual::new(y, 0.0)).tangent();
                for delta in [a.map_or(0.0, |a| a.0), b.map_or(0.0, |b| b.0), tangent] {
                    assert!(delta == 0.0, "{} at {x}, {y}: {delta}", op.name());
                }
            }
        }
    }
}

#[test]
fn delta_that_is_not_zero_shows_undefined_slope() {
    let slope = |op: Unary, x: f64| op.pullback(&Term(x), &Term(op.value(x)), &Term(1e-300)).map(|delta| delta.0);
    assert_eq!(slope(Unary::Sqrt, 0.0), Some(INF));
    assert!(slope(Unary::Sqrt, -1.0).is_some_and(f64::is_nan) && slope(Unary::Sin, INF).is_some_and(f64::is_nan));
}

/// PyTorch 2.15: `torch.autograd.grad` of `torch.clamp`, `torch.xlogy`, `torch.maximum`.
#[test]
fn derivatives_at_ties_and_bounds_match_pytorch() {
    let deltas = |op: Binary, a: f64, b: f64| {
        let (a, b) = op.pullbacks([&Term(a), &Term(b), &Term(op.value(a, b)), &Term(1.0)], (true, true));
        (a.map(|a| a.0), b.map(|b| b.0))
    };
    assert_eq!(deltas(Binary::AtLeast, 0.0, 0.0).0, Some(0.0));
    assert_eq!(deltas(Binary::AtMost, 1.0, 1.0).0, Some(0.0));
    assert_eq!(deltas(Binary::AtMost, 0.5, 1.0).0, Some(1.0));
    assert_eq!(deltas(Binary::Max, 1.0, 1.0), (Some(0.5), Some(0.5)));
    assert_eq!(deltas(Binary::Xlogy, 0.0, 0.0), (Some(0.0), Some(0.0)));
    assert_eq!(deltas(Binary::Xlogy, 0.0, -1.0), (Some(0.0), Some(0.0)));
    assert_eq!(deltas(Binary::Xlogy, 0.0, 2.0), (Some(2_f64.ln()), Some(0.0)));
    assert_eq!(deltas(Binary::Xlogy, 1.0, 0.0), (Some(-INF), Some(INF)));
}
