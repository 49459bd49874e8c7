//! Pointwise programs are interpreted at first and compiled when they come back.

use super::{device, numbers, same_bits};
use dl_core::{Binary, Differentiable, Pointwise, Unary};
use dl_nd::PointwiseOps;

#[test]
fn program_is_compiled_at_its_third_use_and_keeps_its_bits() {
    let Some(device) = device(3) else { return };
    let x = numbers::<f32>(&[37, 11], 1).to(&device).unwrap();
    let mut values = Vec::new();
    for use_ in 1..=5 {
        let y = (x.layer() * (use_ as f32).sqrt()).tanh() * x.exp();
        let builds = device.counters().builds;
        values.push(((x.layer() * 0.25).tanh() * x.exp()).predict().wait().unwrap().to_host().unwrap());
        y.predict().wait().unwrap();
        let built = device.counters().builds - builds;
        // the library at the first use, the program at the third: another number is no other program
        assert_eq!(built, u64::from(use_ <= 2), "use {use_}");
    }
    assert!(values.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn compiled_table_has_bits_of_host() {
    let Some(device) = device(1) else { return };
    // between 0 and 1, where most operations are defined; the host's `sinh`, `cosh` and `asinh` are
    // those of its math library
    let x = numbers::<f32>(&[3, 101], 2);
    let x = ((x.layer() + 1.1) * 0.45).predict().wait().unwrap();
    let exact = |op: &&Unary| ![Unary::Sinh, Unary::Cosh, Unary::Asinh].contains(op);
    let all: Vec<Unary> = Unary::ALL.iter().filter(exact).copied().collect();
    for some in all.chunks(11) {
        // one program: a third of the table, and sums
        same_bits(&device, std::slice::from_ref(&x), |x| {
            let value = |op: Unary| match op {
                Unary::Acosh => Pointwise::unary(op, &x[0].recip()),
                _ => Pointwise::unary(op, &x[0].layer()),
            };
            some[1..].iter().fold(value(some[0]), |sum, &op| sum * 0.5 + value(op))
        });
    }
    assert!(device.counters().builds <= 6);
    same_bits(&device, &[x.clone(), numbers(&[3, 101], 3)], |x| {
        let (a, b) = (x[0].layer(), x[1].layer());
        let ops = [Binary::Rem, Binary::Min, Binary::Max, Binary::Pow, Binary::LeakyRelu, Binary::Elu, Binary::Xlogy];
        let more = [Binary::LogAddExp, Binary::Div, Binary::Above, Binary::Gate, Binary::Kink, Binary::StrongDiv];
        let value = |op| Pointwise::binary(op, &b, &a);
        let each = |ops: &[Binary]| ops[1..].iter().fold(value(ops[0]), |sum, &op| sum * 0.5 + value(op));
        each(&ops) + each(&more) + Pointwise::binary(Binary::PowSlope, &a, &b)
    });
}

#[test]
fn program_with_many_operands_runs() {
    let Some(device) = device(u32::MAX) else { return };
    let x: Vec<_> = (0..30).map(|seed| numbers::<f64>(&[4, 5], seed)).collect();
    same_bits(&device, &x, |x| x[1..].iter().fold(x[0].layer(), |sum, x| sum * 0.5 + x.layer()));
}
