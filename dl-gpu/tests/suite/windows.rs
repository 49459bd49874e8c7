//! Convolutions, pooling, softmax and attention that are longer than a block of the host's kernels.

use super::{device, numbers, same_bits};
use dl_core::{Differentiable, Layer, Weight};
use dl_nd::device::Device;
use dl_nd::{AvgPool, Conv, Element, Nd, Pool, ops::*, scaled_dot_product_attention};
use ndarray::{Ix3, Ix4, IxDyn};
use std::sync::Arc;

type Tensor = Nd<f32, IxDyn>;

/// The value and the gradients of a function of two weights.
fn value_and_gradients(
    device: &Arc<dyn Device>,
    operands: [Tensor; 2],
    value: impl Fn(&Weight<Tensor>, &Weight<Tensor>) -> Layer<Tensor>,
) {
    for which in 0..3 {
        same_bits(device, &operands, |x| {
            let [a, b] = [0, 1].map(|operand| Weight::new(x[operand].clone()));
            let y = value(&a, &b);
            let loss = y.square().sum();
            match which {
                0 => y,
                1 => loss.gradient(&a),
                _ => loss.gradient(&b),
            }
        });
    }
}

#[test]
fn convolutions_have_order_of_host() {
    let Some(device) = device(u32::MAX) else { return };
    let shapes: [(&[usize], &[usize], Conv<2>); 7] = [
        (&[3, 4, 9, 9], &[5, 4, 3, 3], Conv::new().padding(1)),
        // more than a block of taps; positions that leave a last block with one column
        (&[2, 60, 5, 13], &[3, 60, 3, 3], Conv::new().padding(1)),
        (&[1, 2, 5, 13], &[3, 2, 1, 1], Conv::new()),
        (&[9, 4, 17, 18], &[6, 2, 3, 2], Conv::new().groups(2).stride(2)),
        (&[2, 3, 20, 20], &[1, 3, 3, 3], Conv::new().dilation(2)),
        (&[4, 7, 3, 3], &[2, 7, 3, 3], Conv::new()),
        (&[3, 7, 1, 1], &[8, 7, 1, 1], Conv::new()),
    ];
    for (x, w, conv) in shapes {
        value_and_gradients(&device, [numbers(x, 1), numbers(w, 2)], |x, w| {
            x.to_rank::<Ix4>().conv2d(w.to_rank::<Ix4>(), conv).to_dyn()
        });
    }
}

#[test]
fn pools_have_order_of_host() {
    let Some(device) = device(u32::MAX) else { return };
    let x = || [numbers(&[2, 3, 40, 37], 5), numbers(&[1], 6)];
    value_and_gradients(&device, x(), |x, one| {
        x.to_rank::<Ix4>().max_pool2d(Pool::new(3).stride(2).padding(1)).to_dyn() * one
    });
    value_and_gradients(&device, x(), |x, one| x.to_rank::<Ix4>().max_pool2d(Pool::new(2)).to_dyn() * one);
    value_and_gradients(&device, x(), |x, one| {
        x.to_rank::<Ix4>().avg_pool2d(AvgPool::from(Pool::new(5).stride(3))).to_dyn() * one
    });
    // more than 128 terms
    value_and_gradients(&device, [numbers(&[2, 3, 300], 7), numbers(&[1], 8)], |x, one| {
        x.to_rank::<Ix3>().adaptive_avg_pool1d([2]).to_dyn() * one
    });
}

fn lanes<A: Element>(device: &Arc<dyn Device>) {
    for shape in [&[3, 700][..], &[300, 5], &[2, 40, 33], &[40, 64, 33]] {
        for axis in [0, 1, -1] {
            let x = || [numbers::<A>(shape, 9)];
            same_bits(device, &x(), |x| x[0].softmax(axis));
            same_bits(device, &x(), |x| x[0].log_softmax(axis));
            same_bits(device, &x(), |x| x[0].logsumexp_keepdim(axis));
            same_bits(device, &x(), |x| x[0].cumsum(axis));
        }
    }
    let labels: Nd<usize, IxDyn> = Nd::from_vec(IxDyn(&[300]), (0..300).map(|i| i * i % 5).collect()).unwrap();
    let there = labels.to(device).unwrap();
    same_bits(device, &[numbers::<A>(&[300, 5], 10)], |x| {
        let labels = if x[0].device().is_some() { &there } else { &labels };
        let w = Weight::new(x[0].clone());
        w.cross_entropy(labels).gradient(&w)
    });
}

#[test]
fn softmax_and_scans_have_order_of_host() {
    let Some(device) = device(u32::MAX) else { return };
    lanes::<f32>(&device);
    lanes::<f64>(&device);
}

#[test]
fn attention_has_order_of_host() {
    let Some(device) = device(u32::MAX) else { return };
    for (length, keys, depth) in [(70, 100, 8), (129, 30, 1), (3, 250, 16)] {
        let operands = [numbers(&[2, length, 8], 1), numbers(&[2, keys, 8], 2), numbers(&[2, keys, depth], 3)];
        for which in 0..4 {
            same_bits::<f32, _>(&device, &operands, |x| {
                let w: Vec<_> = x.iter().map(|x| Weight::new(x.clone())).collect();
                let y = scaled_dot_product_attention(&w[0], &w[1], &w[2]);
                if which == 0 { y } else { y.square().sum().gradient(&w[which - 1]) }
            });
        }
    }
    let x = numbers::<f32>(&[2, 300, 4], 1).to(&device).unwrap();
    let error = scaled_dot_product_attention(&x, &x, &x).predict().wait().unwrap_err();
    assert!(error.to_string().contains("more than 256 keys"), "{error}");
}
