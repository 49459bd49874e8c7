//! Recurrent networks: layers of cells, in one or both directions of time.

use crate::check::check_positive;
use crate::recurrent::{GruCell, LstmCell, RnnCell};
use dl_core::{Differentiable, Error, Result};
use dl_macros::Module;
use dl_nd::ndarray::Ix2;
use dl_nd::{Element, NdExpression, NdLayer, concat};
use rand::Rng;

/// A cell of a recurrent network: [`RnnCell`], [`GruCell`], [`LstmCell`] or one of your own.
///
/// ```
/// use dl_core::Layer;
/// use dl_nd::{Nd, init};
/// use dl_nn::{GruCell, RecurrentCell};
/// let cell = GruCell::<f32>::with_sizes(3, 4, &mut init::rng(1))?;
/// let (output, state) = cell.step(&Layer::constant(Nd::full([2, 3], 0.5)), cell.initial_state(2));
/// # let _ = (output, state);
/// # dl_core::Result::Ok(())
/// ```
pub trait RecurrentCell: Sized {
    /// The type of its numbers.
    type Element: Element;

    /// What it passes on to the next time step.
    type State: Clone;

    /// A cell with initial weights.
    ///
    /// # Errors
    /// If a size is 0, or if a weight is too large to allocate.
    #[track_caller]
    fn with_sizes(inputs: usize, hidden: usize, rng: &mut impl Rng) -> Result<Self>;

    /// The state before the first time step.
    fn initial_state(&self, batch: usize) -> Self::State;

    /// The output `[batch, hidden]` and the next state, from the input `[batch, in]` and a state.
    #[track_caller]
    fn step(&self, x: &NdLayer<Ix2, Self::Element>, state: Self::State) -> (NdLayer<Ix2, Self::Element>, Self::State);
}

macro_rules! cells {
    ($($Cell:ident: $State:ty, |$cell:ident, $x:ident, $state:ident| $step:expr, |$initial:ident| $first:expr;)*) => {$(
        impl<A: Element> RecurrentCell for $Cell<A> {
            type Element = A;
            type State = $State;

            #[track_caller]
            fn with_sizes(inputs: usize, hidden: usize, rng: &mut impl Rng) -> Result<Self> {
                $Cell::new(inputs, hidden, rng)
            }

            fn initial_state(&self, batch: usize) -> $State {
                let $initial = self.initial(batch).into_layer();
                $first
            }

            #[track_caller]
            fn step(&self, $x: &NdLayer<Ix2, A>, $state: $State) -> (NdLayer<Ix2, A>, $State) {
                let $cell = self;
                $step
            }
        }
    )*};
}

cells! {
    RnnCell: NdLayer<Ix2, A>, |cell, x, h| { let h = cell.of(x, h); (h.clone(), h) }, |h| h;
    GruCell: NdLayer<Ix2, A>, |cell, x, h| { let h = cell.of(x, h); (h.clone(), h) }, |h| h;
    LstmCell: (NdLayer<Ix2, A>, NdLayer<Ix2, A>), |cell, x, state| { let (h, c) = cell.of(x, state); (h.clone(), (h, c)) },
        |h| (h.clone(), h);
}

/// Layers of recurrent cells, in one or both directions: [`Rnn`], [`Gru`], [`Lstm`]. The
/// equivalent of PyTorch's `RNN`, `GRU` and `LSTM`; its `weight_ih_l0` is `forward.0.weight_ih`
/// here, its `weight_ih_l0_reverse` is `reverse.0.weight_ih`.
///
/// A sequence is a list of time steps, `[batch, in]` each. In a bidirectional network, each layer
/// gets the outputs of both directions of the layer below, `[batch, 2 · hidden]`.
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::{Nd, init};
/// let net = dl_nn::Lstm::<f32>::new(3, 4, &mut init::rng(1))?;
/// let steps = [Nd::full([2, 3], 0.5), Nd::full([2, 3], -0.5)];
/// let (outputs, states) = net.of(&steps, net.initial(2))?;
/// assert_eq!((outputs.len(), states.len()), (2, 1));
/// assert_eq!(outputs[1].predict().wait()?.shape(), [2, 4]);
///
/// let deep = dl_nn::Lstm::<f32>::with_layers(3, 4, 2, true, &mut init::rng(1))?;
/// let (outputs, states) = deep.of(&steps, deep.initial(2))?;
/// assert_eq!(states.len(), 4); // of layer 0 forward and in reverse, then of layer 1
/// assert_eq!(outputs[1].predict().wait()?.shape(), [2, 8]);
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Module)]
#[module(crate = dl_core)]
pub struct Recurrent<C> {
    /// The cells that read the sequence from its start, one for each layer.
    #[module(torch = "{1}_l{0}")]
    pub forward: Vec<C>,
    /// The cells that read it from its end, one for each layer; empty for one direction.
    #[module(torch = "{1}_l{0}_reverse")]
    pub reverse: Vec<C>,
}

/// Layers of [`RnnCell`]s.
///
/// ```
/// use dl_nd::{Nd, init};
/// let net = dl_nn::Rnn::<f32>::new(3, 4, &mut init::rng(1))?;
/// let (outputs, _) = net.of(&[Nd::full([2, 3], 0.5)], net.initial(2))?;
/// assert_eq!(outputs.len(), 1);
/// # dl_core::Result::Ok(())
/// ```
pub type Rnn<A = f32> = Recurrent<RnnCell<A>>;

/// Layers of [`GruCell`]s.
///
/// ```
/// use dl_nd::{Nd, init};
/// let net = dl_nn::Gru::<f32>::new(3, 4, &mut init::rng(1))?;
/// let (outputs, _) = net.of(&[Nd::full([2, 3], 0.5)], net.initial(2))?;
/// assert_eq!(outputs.len(), 1);
/// # dl_core::Result::Ok(())
/// ```
pub type Gru<A = f32> = Recurrent<GruCell<A>>;

/// Layers of [`LstmCell`]s.
///
/// ```
/// use dl_nd::{Nd, init};
/// let net = dl_nn::Lstm::<f32>::new(3, 4, &mut init::rng(1))?;
/// let (outputs, _) = net.of(&[Nd::full([2, 3], 0.5)], net.initial(2))?;
/// assert_eq!(outputs.len(), 1);
/// # dl_core::Result::Ok(())
/// ```
pub type Lstm<A = f32> = Recurrent<LstmCell<A>>;

/// The outputs of the time steps, and the last states.
type Unrolled<C> = (Vec<NdLayer<Ix2, <C as RecurrentCell>::Element>>, Vec<<C as RecurrentCell>::State>);

impl<C: RecurrentCell> Recurrent<C> {
    /// One layer in one direction.
    ///
    /// # Errors
    /// Those of [`with_layers`](Recurrent::with_layers).
    #[track_caller]
    pub fn new(inputs: usize, hidden: usize, rng: &mut impl Rng) -> Result<Self> {
        Self::with_layers(inputs, hidden, 1, false, rng)
    }

    /// So many layers, in both directions if `bidirectional`.
    ///
    /// # Errors
    /// If a size or the number of layers is 0, or if a weight is too large to allocate.
    #[track_caller]
    pub fn with_layers(
        inputs: usize,
        hidden: usize,
        layers: usize,
        bidirectional: bool,
        rng: &mut impl Rng,
    ) -> Result<Self> {
        check_positive("Recurrent", &[("layers", layers)])?;
        let (mut forward, mut reverse) = (Vec::new(), Vec::new());
        let mut inputs = inputs;
        for _ in 0..layers {
            forward.push(C::with_sizes(inputs, hidden, rng)?);
            if bidirectional {
                reverse.push(C::with_sizes(inputs, hidden, rng)?);
            }
            inputs = if bidirectional { hidden.saturating_mul(2) } else { hidden };
        }
        Ok(Recurrent { forward, reverse })
    }

    /// The cells in the order of their states: of each layer, the one that reads forward, then the
    /// one that reads in reverse.
    fn cells(&self) -> impl Iterator<Item = &C> {
        self.forward.iter().enumerate().flat_map(|(layer, cell)| [Some(cell), self.reverse.get(layer)]).flatten()
    }

    /// The states before the first time step, one for each cell: of each layer, that of the forward
    /// cell, then that of the reverse one.
    pub fn initial(&self, batch: usize) -> Vec<C::State> {
        self.cells().map(|cell| cell.initial_state(batch)).collect()
    }

    /// The outputs of the last layer, one for each time step, and the last states, from a sequence
    /// and the first states, in the order of [`initial`](Recurrent::initial).
    ///
    /// # Errors
    /// If there is not one state for each cell.
    #[track_caller]
    pub fn of<X>(&self, steps: &[X], states: Vec<C::State>) -> Result<Unrolled<C>>
    where
        X: NdExpression<Ix2, C::Element>,
    {
        let (found, needed) = (states.len(), self.cells().count());
        if found != needed {
            return Err(Error::invalid(format!("{found} states for a network of {needed} recurrent cells")));
        }
        let mut sequence: Vec<_> = steps.iter().map(Differentiable::layer).collect();
        let (mut states, mut last) = (states.into_iter(), Vec::with_capacity(needed));
        for (layer, cell) in self.forward.iter().enumerate() {
            let outputs = read(cell, sequence.iter(), &mut states, &mut last);
            sequence = match self.reverse.get(layer) {
                None => outputs,
                Some(cell) => {
                    let back = read(cell, sequence.iter().rev(), &mut states, &mut last);
                    let pairs = outputs.into_iter().zip(back.into_iter().rev());
                    let mut both = Vec::with_capacity(steps.len());
                    for (forward, back) in pairs {
                        both.push(concat(1, [forward, back]));
                    }
                    both
                }
            };
        }
        Ok((sequence, last))
    }
}

/// Runs a cell over a sequence, from the next of the first states.
#[track_caller]
fn read<'a, C: RecurrentCell>(
    cell: &C,
    sequence: impl Iterator<Item = &'a NdLayer<Ix2, C::Element>>,
    states: &mut impl Iterator<Item = C::State>,
    last: &mut Vec<C::State>,
) -> Vec<NdLayer<Ix2, C::Element>> {
    let mut state = states.next().expect("the states were counted");
    let mut outputs = Vec::new();
    for x in sequence {
        let (output, next) = cell.step(x, state);
        outputs.push(output);
        state = next;
    }
    last.push(state);
    outputs
}
