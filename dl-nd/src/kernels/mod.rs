//! Kernels over arrays and slices: sums, lanes, convolution, max pooling, updates of weights.

mod conv;
mod im2col;
mod lanes;
mod max_pool_2x2;
mod sum;
mod weight_update;
mod window;

pub(crate) use conv::ConvGeometry;
pub(crate) use lanes::{LANE_GROUP, Lane, for_each_lane, reduce_in_chunks};
pub(crate) use max_pool_2x2::Windows2x2;
pub(crate) use sum::{add_in_halves, sum_all, sum_along, sum_of_rows};
pub(crate) use window::{SPATIAL, Window, pad_spatial, windows};
