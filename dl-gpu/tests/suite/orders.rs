//! The orders of sums and products on a device are those of the host.

use super::{device, numbers, same_bits};
use dl_core::Differentiable;
use dl_nd::device::Device;
use dl_nd::{Element, Nd, ops::*};
use ndarray::{Ix1, Ix2, IxDyn};
use std::sync::Arc;

fn sums<A: Element>(device: &Arc<dyn Device>) {
    let shapes: [&[usize]; 10] = [
        &[5],
        &[129],
        &[3, 128],
        &[3, 129],
        &[200, 3],
        &[700, 4],
        &[2, 300, 5],
        &[4, 7, 1000],
        &[6, 200, 1],
        &[2, 3, 4, 5],
    ];
    for shape in shapes {
        let x = [numbers::<A>(shape, 1)];
        for axis in 0..shape.len() as isize {
            same_bits(device, &x, |x| x[0].sum_axis(vec![axis]));
            same_bits(device, &x, |x| x[0].mean_keepdim(vec![axis]));
            same_bits(device, &x, |x| x[0].norm_axis(vec![axis]));
            same_bits(device, &x, |x| x[0].prod_axis(vec![axis]));
            same_bits(device, &x, |x| x[0].amax_keepdim(vec![axis]));
        }
        if shape.len() > 2 {
            same_bits(device, &x, |x| x[0].sum_axis(vec![0, 2]));
            same_bits(device, &x, |x| x[0].prod_axis(vec![1, 2]));
            same_bits(device, &x, |x| x[0].amin_axis(vec![0, 2]));
        }
    }
    for len in [0, 1, 8, 127, 128, 129, 4095, 4096, 4097, 12_288, 100_003, 1 << 18] {
        let x = [numbers::<A>(&[len], 2)];
        same_bits(device, &x, |x| x[0].sum_keepdim(..));
        same_bits(device, &x, |x| x[0].prod_keepdim(..));
    }
    let rows = [numbers::<A>(&[70_000, 2], 3)];
    same_bits(device, &rows, |x| x[0].sum_axis(vec![0]));
    same_bits(device, &rows, |x| x[0].prod_axis(vec![0]));
    same_bits(device, &rows, |x| x[0].amax_axis(vec![0, 1]));
}

#[test]
fn sums_and_folds_have_bits_of_host() {
    let Some(device) = device(u32::MAX) else { return };
    sums::<f32>(&device);
    sums::<f64>(&device);
}

fn products<A: Element>(device: &Arc<dyn Device>) {
    let lengths = [
        [1, 1, 1],
        [3, 4, 5],
        [16, 600, 24],
        [8, 513, 8],
        [5, 1025, 7],
        [1, 700, 9],
        [9, 700, 1],
        [1, 5000, 1],
        [3, 8200, 4],
        [2, 9300, 1],
        [4, 0, 3],
        [65, 1, 33],
    ];
    for [rows, depth, columns] in lengths {
        let x = [numbers::<A>(&[rows, depth], 1), numbers(&[depth, columns], 2), numbers(&[columns], 3)];
        same_bits(device, &x, |x| x[0].matmul(&x[1]));
        same_bits(device, &x, |x| x[0].linear(x[1].to_rank::<Ix2>(), x[2].to_rank::<Ix1>()));
        same_bits(device, &x, |x| x[0].linear_relu(x[1].to_rank::<Ix2>(), x[2].to_rank::<Ix1>()));
        let turned = [numbers::<A>(&[depth, rows], 1), numbers(&[columns, depth], 2)];
        same_bits(device, &turned, |x| x[0].t().matmul(x[1].t()));
    }
    let batches: [[&[usize]; 2]; 6] = [
        [&[4, 3, 5], &[4, 5, 2]],
        [&[4, 3, 5], &[5, 2]],
        [&[2, 1, 3, 5], &[4, 5, 2]],
        [&[5], &[4, 5, 2]],
        [&[4, 1, 600], &[600]],
        [&[600], &[600]],
    ];
    for [a, b] in batches {
        same_bits(device, &[numbers::<A>(a, 4), numbers(b, 5)], |x| x[0].matmul(&x[1]));
    }
    let transposed = [numbers::<A>(&[4, 3, 5], 4), numbers(&[4, 2, 5], 5)];
    same_bits(device, &transposed, |x| x[0].matmul(x[1].transpose(1, 2)));
}

#[test]
fn products_have_bits_of_host() {
    let Some(device) = device(u32::MAX) else { return };
    products::<f32>(&device);
    products::<f64>(&device);
}

#[test]
fn casts_and_views_have_bits_of_host() {
    let Some(device) = device(u32::MAX) else { return };
    let x = numbers::<f32>(&[5, 7], 1);
    let on_device: Nd<f64, IxDyn> = x.to(&device).unwrap().t().cast::<f64>().predict().wait().unwrap();
    let on_host: Nd<f64, IxDyn> = x.t().cast::<f64>().predict().wait().unwrap();
    assert_eq!(on_device.to_host().unwrap(), on_host);
    same_bits(&device, &[x], |x| {
        x[0].slice_axis(1, ndarray::Slice::new(1, None, 2)).flip(vec![0]).t().reshape(vec![15]).exp()
    });
}
