//! Recurrent cells: one time step of a recurrent network. The network is a Rust loop over a cell.

use crate::activation::Activation;
use crate::check::{check_allocation, check_positive, times};
use crate::linear::linear;
use dl_core::bang::CompiledFunction;
use dl_core::{CompiledArgument as _, Result, Term, Weight};
use dl_macros::Module;
use dl_nd::ndarray::{Ix1, Ix2};
use dl_nd::{Element, Nd, NdExpression, NdLayer, NdWeight, init, ops::*, same_shape};
use rand::Rng;

type Matrix<A> = NdWeight<Ix2, A>;
type Vector<A> = NdWeight<Ix1, A>;

macro_rules! cells {
    ($($(#[$attribute:meta])* $Cell:ident $gates:literal, $rows:literal { $($(#[$doc:meta])* $more:ident: $More:ty = $default:expr,)* })*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Debug, Module)]
        #[module(crate = dl_core)]
        pub struct $Cell<A: Element = f32> {
            #[doc = concat!("`[", $rows, ", in]`")]
            pub weight_ih: Matrix<A>,
            #[doc = concat!("`[", $rows, ", hidden]`")]
            pub weight_hh: Matrix<A>,
            #[doc = concat!("`[", $rows, "]`, if there is one.")]
            pub bias_ih: Option<Vector<A>>,
            #[doc = concat!("`[", $rows, "]`, if there is one.")]
            pub bias_hh: Option<Vector<A>>,
            $($(#[$doc])* pub $more: $More,)*
        }

        impl<A: Element> $Cell<A> {
            /// A cell with PyTorch's default initialisation: all weights are uniform on
            /// `±1 / √hidden`.
            ///
            /// # Errors
            /// If `inputs` or `hidden` is 0, or if a weight is too large to allocate.
            #[track_caller]
            pub fn new(inputs: usize, hidden: usize, rng: &mut impl Rng) -> Result<Self> {
                const NAME: &str = stringify!($Cell);
                check_positive(NAME, &[("inputs", inputs), ("elements of the state", hidden)])?;
                let rows = times($gates, hidden);
                check_allocation::<A>(NAME, &[rows, inputs])?;
                check_allocation::<A>(NAME, &[rows, hidden])?;
                let bound = (hidden as f64).sqrt().recip();
                Ok($Cell {
                    weight_ih: Weight::new(init::uniform([rows, inputs], -bound, bound, rng)),
                    weight_hh: Weight::new(init::uniform([rows, hidden], -bound, bound, rng)),
                    bias_ih: Some(Weight::new(init::uniform([rows], -bound, bound, rng))),
                    bias_hh: Some(Weight::new(init::uniform([rows], -bound, bound, rng))),
                    $($more: $default,)*
                })
            }

            /// The initial state: zeros, `[batch, hidden]`.
            ///
            /// # Panics
            /// If it is too large to allocate.
            pub fn initial(&self, batch: usize) -> Nd<A, Ix2> {
                init::zeros([batch, self.weight_hh.value().shape()[1]])
            }

            /// The contribution of the input to the gates, `[batch, rows]`.
            #[track_caller]
            fn input_gates(&self, x: impl NdExpression<Ix2, A>) -> NdLayer<Ix2, A> {
                linear(x, self.weight_ih.t(), self.bias_ih.as_ref())
            }

            /// The contribution of the state to the gates, `[batch, rows]`.
            #[track_caller]
            fn state_gates(&self, h: impl NdExpression<Ix2, A>) -> NdLayer<Ix2, A> {
                linear(h, self.weight_hh.t(), self.bias_hh.as_ref())
            }
        }
    )*};
}

cells! {
    /// The Elman cell `h′ = tanh(W_ih · x + b_ih + W_hh · h + b_hh)` (Elman, 1990). The equivalent
    /// of PyTorch's `RNNCell`.
    ///
    /// ```
    /// use dl_core::Differentiable;
    /// use dl_nd::{Nd, init};
    /// let cell = dl_nn::RnnCell::<f32>::new(3, 4, &mut init::rng(1))?;
    /// let mut h = cell.initial(2).layer();
    /// for x in [Nd::full([2, 3], 0.5), Nd::full([2, 3], -0.5)] {
    ///     h = cell.of(x, h);
    /// }
    /// assert_eq!(h.predict().wait()?.shape(), [2, 4]);
    /// # dl_core::Result::Ok(())
    /// ```
    RnnCell 1, "hidden" {
        /// The activation function, `tanh` by default.
        activation: Activation = Activation::Tanh,
    }

    /// The gated recurrent unit (Cho et al., 2014). The equivalent of PyTorch's `GRUCell`: the rows
    /// of the weights are stacked in the order of the gates r, z, n.
    ///
    /// ```
    /// use dl_core::Differentiable;
    /// use dl_nd::{Nd, init};
    /// let cell = dl_nn::GruCell::<f32>::new(3, 4, &mut init::rng(1))?;
    /// let h = cell.of(Nd::full([2, 3], 0.5), cell.initial(2));
    /// assert_eq!(h.predict().wait()?.shape(), [2, 4]);
    /// # dl_core::Result::Ok(())
    /// ```
    GruCell 3, "3 · hidden" {}

    /// Long short-term memory (Hochreiter and Schmidhuber, 1997). The equivalent of PyTorch's
    /// `LSTMCell`: the rows of the weights are stacked in the order of the gates i, f, g, o.
    ///
    /// ```
    /// use dl_core::Differentiable;
    /// use dl_nd::{Nd, init};
    /// let cell = dl_nn::LstmCell::<f32>::new(3, 4, &mut init::rng(1))?;
    /// let (h, c) = cell.of(Nd::full([2, 3], 0.5), (cell.initial(2), cell.initial(2)));
    /// let (h, c) = cell.of(Nd::full([2, 3], -0.5), (h, c));
    /// assert_eq!((h.predict().wait()?.shape(), c.predict().wait()?.shape()), (&[2, 4][..], &[2, 4][..]));
    /// # dl_core::Result::Ok(())
    /// ```
    LstmCell 4, "4 · hidden" {}
}

/// Splits `[batch, N · hidden]` into N gates of `[batch, hidden]`.
#[track_caller]
fn split_gates<A: Element, const N: usize>(rows: &NdLayer<Ix2, A>) -> [NdLayer<Ix2, A>; N] {
    let mut parts = rows.chunk(1, N).into_iter();
    std::array::from_fn(|_| parts.next().expect("one part for each gate"))
}

impl<A: Element> RnnCell<A> {
    /// The next state `h′`: from `x` `[batch, in]` and `h` `[batch, hidden]` to `[batch, hidden]`.
    ///
    /// # Errors
    /// A shape error if a shape does not match the weights or the batches differ.
    #[track_caller]
    pub fn of(&self, x: impl NdExpression<Ix2, A>, h: impl NdExpression<Ix2, A>) -> NdLayer<Ix2, A> {
        rnn_cell(self.input_gates(x), self.state_gates(h), &self.activation)
    }
}

impl<A: Element> GruCell<A> {
    /// The next state `h′`: from `x` `[batch, in]` and `h` `[batch, hidden]` to `[batch, hidden]`.
    ///
    /// # Errors
    /// A shape error if a shape does not match the weights or the batches differ.
    #[track_caller]
    pub fn of(&self, x: impl NdExpression<Ix2, A>, h: impl NdExpression<Ix2, A>) -> NdLayer<Ix2, A> {
        let h = h.into_layer();
        gru_cell(self.input_gates(x), self.state_gates(&h), h)
    }
}

impl<A: Element> LstmCell<A> {
    /// The next state and cell state `(h′, c′)`: from `x` `[batch, in]` and `(h, c)`, each
    /// `[batch, hidden]`, to twice `[batch, hidden]`.
    ///
    /// # Errors
    /// A shape error if a shape does not match the weights or the batches differ.
    #[track_caller]
    pub fn of(
        &self,
        x: impl NdExpression<Ix2, A>,
        (h, c): (impl NdExpression<Ix2, A>, impl NdExpression<Ix2, A>),
    ) -> (NdLayer<Ix2, A>, NdLayer<Ix2, A>) {
        lstm_cell(self.input_gates(x), self.state_gates(h), c)
    }
}

/// The function of [`RnnCell`]: the next state `[batch, hidden]` from the contributions of the input
/// and of the state to it, for instance `x.linear(w_ih, b_ih)` and `h.linear(w_hh, b_hh)`.
///
/// ```
/// # use dl_core::Differentiable; use dl_nd::Nd; use dl_nn::{Activation, rnn_cell};
/// let h = rnn_cell(Nd::from([[1.0, -3.0]]), Nd::from([[1.0, 1.0]]), &Activation::Relu);
/// assert_eq!(h.predict().wait()?, Nd::from([[2.0, 0.0]]));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// A shape error if the shapes differ.
#[track_caller]
pub fn rnn_cell<A: Element>(
    input_gates: impl NdExpression<Ix2, A>,
    state_gates: impl NdExpression<Ix2, A>,
    activation: &Activation,
) -> NdLayer<Ix2, A> {
    let input_gates = input_gates.into_layer();
    let state_gates = same_shape("rnn_cell", &state_gates.into_layer(), &input_gates);
    activation.of((Term(input_gates) + Term(state_gates)).0)
}

/// The function of [`GruCell`]: the next state from the contributions of the input and of the state
/// to the gates r, z, n, `[batch, 3 · hidden]`, and the state `[batch, hidden]`.
///
/// ```
/// # use dl_core::Differentiable; use dl_nd::Nd; use dl_nn::gru_cell;
/// let (zeros, h) = (Nd::from([[0.0; 3]]), Nd::from([[1.0]]));
/// assert_eq!(gru_cell(&zeros, &zeros, &h).predict().wait()?, Nd::from([[0.5]]));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// A shape error if the shapes do not match.
#[track_caller]
pub fn gru_cell<A: Element>(
    input_gates: impl NdExpression<Ix2, A>,
    state_gates: impl NdExpression<Ix2, A>,
    h: impl NdExpression<Ix2, A>,
) -> NdLayer<Ix2, A> {
    static FUNCTION: CompiledFunction = CompiledFunction::new("gru_cell");
    let operands = (input_gates.into_layer(), state_gates.into_layer(), h.into_layer());
    let arguments = FUNCTION.arguments(|arguments| operands.add_to(arguments));
    FUNCTION.call_in_library(arguments, || {
        let (input_gates, state_gates, h) = &operands;
        let state_gates = same_shape("gru_cell", state_gates, input_gates);
        let [xr, xz, xn] = split_gates(input_gates).map(Term);
        let [hr, hz, hn] = split_gates(&state_gates).map(Term);
        let r = Term((xr + hr).0.sigmoid());
        let z = Term((xz + hz).0.sigmoid());
        let n = Term((xn + r * hn).0.tanh());
        ((1.0 - &z) * n + z * Term(h.clone())).0
    })
}

/// The function of [`LstmCell`]: the next state and cell state from the contributions of the input
/// and of the state to the gates i, f, g, o, `[batch, 4 · hidden]`, and the cell state
/// `[batch, hidden]`.
///
/// ```
/// # use dl_core::Differentiable; use dl_nd::Nd; use dl_nn::lstm_cell;
/// let (zeros, c) = (Nd::from([[0.0; 4]]), Nd::from([[1.0]]));
/// assert_eq!(lstm_cell(&zeros, &zeros, &c).1.predict().wait()?, Nd::from([[0.5]]));
/// # dl_core::Result::Ok(())
/// ```
///
/// # Errors
/// A shape error if the shapes do not match.
#[track_caller]
pub fn lstm_cell<A: Element>(
    input_gates: impl NdExpression<Ix2, A>,
    state_gates: impl NdExpression<Ix2, A>,
    c: impl NdExpression<Ix2, A>,
) -> (NdLayer<Ix2, A>, NdLayer<Ix2, A>) {
    const NAME: &str = "lstm_cell";
    static FUNCTION: CompiledFunction = CompiledFunction::new(NAME);
    let operands = (input_gates.into_layer(), state_gates.into_layer(), c.into_layer());
    let arguments = FUNCTION.arguments(|arguments| operands.add_to(arguments));
    FUNCTION.call_in_library(arguments, || {
        let (input_gates, state_gates, c) = &operands;
        let state_gates = same_shape(NAME, state_gates, input_gates);
        let [i, f, g, o] = split_gates(&(Term(input_gates.clone()) + Term(state_gates)).0);
        let c = same_shape(NAME, c, &f);
        let c = Term(f.sigmoid()) * Term(c) + Term(i.sigmoid()) * Term(g.tanh());
        let h = Term(o.sigmoid()) * Term(c.0.tanh());
        (h.0, c.0)
    })
}
