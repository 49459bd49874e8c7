//! Kernels over arrays and slices: sums, lanes, attention, convolution, max pooling, updates of weights.

mod attention;
mod basic_block;
mod blocks;
mod conv;
mod elements;
mod fold;
mod hiding;
mod im2col;
mod lanes;
mod lazy_numbers;
mod max_pool_2x2;
mod scan;
mod select;
mod sum;
mod weight_update;
mod window;

pub(crate) use attention::{Head, HeadResult, attend, attend_deltas, nanoseconds_of_attention};
pub(crate) use blocks::{Operand, map_blocks, map_elements};
pub(crate) use conv::ConvGeometry;
pub(crate) use fold::{around, fold_axes, in_memory_order, inverse};
pub(crate) use hiding::product_hiding;
pub(crate) use lanes::{
    LANE_GROUP, Lane, for_each_lane, for_each_lane_pair, larger, largest_of, reduce_in_chunks, zip_in_parts,
};
pub(crate) use max_pool_2x2::Windows2x2;
pub(crate) use scan::scan;
pub(crate) use select::{add_taken, all_below, fill, gather, scatter_add, take};
pub(crate) use sum::{add_in_halves, sum_all, sum_along, sum_of_rows, sum_squares_along};
pub(crate) use window::{SPATIAL, Window, pad_spatial, windows};
