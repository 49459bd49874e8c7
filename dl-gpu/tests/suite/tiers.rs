//! Pointwise programs are interpreted at first and compiled when they come back.

use super::{device, numbers, same_bits};
use dl_core::{Differentiable, Layer, Unary};
use dl_nd::{Nd, PointwiseOps};
use ndarray::IxDyn;

#[test]
fn program_is_compiled_at_its_third_use_and_keeps_its_bits() {
    let Some(device) = device(3) else { return };
    let x = numbers::<f32>(&[37, 11], 1).to(&device).unwrap();
    let mut values = Vec::new();
    for use_ in 1..=5 {
        let y = (x.layer() * f64::from(use_).sqrt()).tanh() * x.exp();
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
    // sixteen operations a kernel
    let x = numbers::<f32>(&[3, 101], 2);
    let exact = |op: &&Unary| ![Unary::Sinh, Unary::Cosh, Unary::Asinh].contains(op);
    let all: Vec<Unary> = Unary::ALL.iter().filter(exact).copied().collect();
    let on_device = x.to(&device).unwrap();
    for some in all.chunks(16) {
        let values = |x: &Nd<f32, IxDyn>| -> Vec<Nd<f32, IxDyn>> {
            let layers: Vec<Layer<_>> = some.iter().map(|&op| dl_core::Pointwise::unary(op, &x.layer())).collect();
            dl_core::Do::predict(layers).wait().expect("every operation runs")
        };
        let before = device.counters();
        let found = values(&on_device);
        let after = device.counters();
        assert_eq!((after.launches - before.launches, after.builds - before.builds), (1, 1));
        for ((op, found), expected) in some.iter().zip(found).zip(values(&x)) {
            let found = found.to_host().unwrap();
            let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(found.view().iter().zip(expected.view()).all(same), "{op:?}");
        }
    }
}

#[test]
fn program_with_many_operands_runs() {
    let Some(device) = device(u32::MAX) else { return };
    let x: Vec<_> = (0..30).map(|seed| numbers::<f64>(&[4, 5], seed)).collect();
    same_bits(&device, &x, |x| {
        x[1..].iter().fold(x[0].layer(), |sum, x| sum * 0.5 + x.layer())
    });
}
