//! Operations that reduce axes; and products, which are sums.

use super::ops;
use dl_nd::NdOps;

ops! {
    "matmul", None, |_, x| x[0].matmul(&x[1]);
}
