//! Products in which an element of exactly 0 hides what it is multiplied by: `0 · NaN` is 0. So
//! nothing flows out of a key that attention has masked.

use crate::gemm::product_into;
use crate::tensor::Element;
use ndarray::{ArrayView2, ArrayViewMut2};

/// `c = a · b + beta · c`, in which elements 0 of `a` hide elements of `b`. Where all that is not
/// finite is hidden, the result has the bits of zeros in its place.
pub(crate) fn product_hiding<A: Element>(
    a: ArrayView2<'_, A>,
    b: ArrayView2<'_, A>,
    beta: A,
    c: &mut ArrayViewMut2<'_, A>,
) {
    let mut finite = b.to_owned();
    let mut others = Vec::new();
    for (k, mut row) in finite.rows_mut().into_iter().enumerate().filter(|(_, row)| row.iter().any(|x| !x.is_finite()))
    {
        row.fill(A::zero());
        others.push(k);
    }
    product_into(A::of(1.0), a, finite.view(), beta, c);
    for k in others {
        for (mut c, &a) in c.rows_mut().into_iter().zip(a.column(k)).filter(|(_, a)| **a != A::zero()) {
            c.zip_mut_with(&b.row(k), |c, &b| *c = *c + a * b);
        }
    }
}
