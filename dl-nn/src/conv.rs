//! Convolutional layers.

use crate::check::{check_allocation, check_positive};
use dl_core::{Result, Term, Weight};
use dl_macros::Module;
use dl_nd::ndarray::{Ix1, Ix3, Ix4, IxDyn};
use dl_nd::{Conv, ConvTranspose, Element, HasRank, NdExpression, NdLayer, NdWeight, PerAxis, Rank, init, ops::*};
use rand::Rng;

macro_rules! convolutions {
    ($($(#[doc = $doc:literal])+ $Conv:ident $Settings:ident $conv:ident $N:literal $Ix:ident, $shape:literal, $x:literal, $y:literal;)*) => {$(
        $(#[doc = $doc])+
        ///
        /// ```
        /// use dl_core::Differentiable;
        #[doc = concat!("use dl_nd::{Conv, Nd, init};\nuse dl_nn::", stringify!($Conv), ";")]
        #[doc = concat!("let conv = ", stringify!($Conv), "::<f32>::new(3, 6, 5, Conv::<", $N, ">::new().padding(2).into(), &mut init::rng(1))?;")]
        #[doc = concat!("assert_eq!(conv.of(Nd::full(", $x, ", 1.0)).predict().wait()?.shape(), ", $y, ");")]
        /// # dl_core::Result::Ok(())
        /// ```
        #[derive(Clone, Debug, Module)]
        #[module(crate = dl_core)]
        pub struct $Conv<A: Element = f32> {
            #[doc = $shape]
            pub weight: NdWeight<$Ix, A>,
            /// `[out]`; `None` without a bias.
            pub bias: Option<NdWeight<Ix1, A>>,
            /// Stride, padding, dilation and groups; of a transposed convolution, output padding.
            pub settings: $Settings<$N>,
        }

        impl<A: Element> $Conv<A> {
            /// A layer with PyTorch's default initialisation: weight and bias are uniform on
            /// `±1 / √fan_in`, where `fan_in` is the number of inputs of one output. `kernel` is
            /// one length for all axes, or one for each.
            ///
            /// # Errors
            /// If a size is 0, if the groups do not divide the channels, or if the weight is too
            /// large to allocate.
            #[track_caller]
            pub fn new(
                inputs: usize,
                outputs: usize,
                kernel: impl Into<PerAxis<$N>>,
                settings: $Settings<$N>,
                rng: &mut impl Rng,
            ) -> Result<Self> {
                const NAME: &str = stringify!($Conv);
                check_positive(NAME, &[("input channels", inputs), ("output channels", outputs)])?;
                let shape = settings.weight_shape(inputs, outputs, kernel)?;
                check_positive(NAME, &shape.iter().map(|&length| ("elements along an axis of the kernel", length)).collect::<Vec<_>>())?;
                check_allocation::<A>(NAME, &shape)?;
                let fan_in: usize = shape[1..].iter().product();
                let bound = (fan_in as f64).sqrt().recip();
                let weight = init::uniform(IxDyn(&shape), -bound, bound, rng).into_array().into_dimensionality::<$Ix>();
                let weight = Weight::new(weight.expect("as many axes as the kernel and two").into());
                let bias = Some(Weight::new(init::uniform([outputs], -bound, bound, rng)));
                Ok($Conv { weight, bias, settings })
            }

            /// The convolution of `x` with the weight, plus the bias of each output channel.
            ///
            /// # Errors
            #[doc = concat!("Those of [`", stringify!($conv), "`](dl_nd::ConvOps::", stringify!($conv), ").")]
            #[track_caller]
            pub fn of<D: HasRank<{ $N + 2 }>>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
                along_channels(x.$conv(&self.weight, self.settings), self.bias.as_ref(), $N)
            }
        }
    )*};
}

convolutions! {
    /// Convolution over one axis, `[batch, in, length] → [batch, out, length′]`; see
    /// [`conv1d`](dl_nd::ConvOps::conv1d).
    Conv1d Conv conv1d 1 Ix3, "`[out, in / groups, kernel]`", "[1, 3, 8]", "[1, 6, 8]";
    /// Convolution over two axes, `[batch, in, height, width] → [batch, out, height′, width′]`; see
    /// [`conv2d`](dl_nd::ConvOps::conv2d).
    Conv2d Conv conv2d 2 Ix4, "`[out, in / groups, kernel height, kernel width]`", "[1, 3, 8, 8]", "[1, 6, 8, 8]";
    /// Transposed convolution over one axis, `[batch, in, length] → [batch, out, length′]`; see
    /// [`conv_transpose1d`](dl_nd::ConvOps::conv_transpose1d).
    ConvTranspose1d ConvTranspose conv_transpose1d 1 Ix3, "`[in, out / groups, kernel]`", "[1, 3, 8]", "[1, 6, 8]";
    /// Transposed convolution over two axes,
    /// `[batch, in, height, width] → [batch, out, height′, width′]`; see
    /// [`conv_transpose2d`](dl_nd::ConvOps::conv_transpose2d).
    ConvTranspose2d ConvTranspose conv_transpose2d 2 Ix4, "`[in, out / groups, kernel height, kernel width]`", "[1, 3, 8, 8]", "[1, 6, 8, 8]";
}

/// Adds a bias `[channels]` to `x` `[batch, channels, …]` with `spatial` axes after the channels.
#[track_caller]
fn along_channels<A: Element, D: Rank>(
    x: NdLayer<D, A>,
    bias: Option<&NdWeight<Ix1, A>>,
    spatial: usize,
) -> NdLayer<D, A> {
    let Some(bias) = bias else { return x };
    let mut bias = bias.to_dyn();
    for _ in 0..spatial {
        bias = bias.unsqueeze(-1);
    }
    (Term(x) + Term(bias.lift())).0
}
