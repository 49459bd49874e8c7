//! Dropout.

use crate::device::{self, View, Work};
use crate::kernels::fill;
use crate::ops::invalid::{check_fraction, invalid};
use crate::tensor::{Element, Nd, Rank};
use dl_core::{Along, At, BuiltIn, Differentiable, Layer, Nothing, Primitive, Result, Seed};
use rand::RngCore;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::marker::PhantomData;

/// Dropout.
///
/// ```
/// use dl_core::{Differentiable, Mode};
/// use dl_nd::{DropoutOps, Nd};
/// let y = Nd::from([1.0, 1.0, 1.0, 1.0]).dropout(0.5);
/// assert_eq!(y.predict().wait()?, Nd::from([1.0, 1.0, 1.0, 1.0]));
/// let trained = y.predict().mode(Mode::Train).seed(1).wait()?;
/// assert!(trained.view().iter().all(|&x| x == 0.0 || x == 2.0));
/// # dl_core::Result::Ok(())
/// ```
pub trait DropoutOps<A: Element, D: Rank>: Differentiable<Data = Nd<A, D>> {
    /// In training mode each element is 0 with probability `p` and `x / (1 − p)` otherwise; in
    /// evaluation mode the result is `x` (Srivastava et al., *Dropout*, 2014).
    ///
    /// The mask depends on the seed of the pass and on the position of this layer in the program
    /// ([`Seed`]), not on the number of threads. It is the same in the forward pass, the backward
    /// pass and derivatives of higher order.
    ///
    /// ```
    /// # use dl_core::{Differentiable, Weight}; use dl_optim::Sgd; use dl_nd::{DropoutOps, Nd, ReduceOps};
    /// let w = Weight::new(Nd::from([1.0, 2.0, 3.0]));
    /// let loss = w.dropout(0.1).sum();
    /// for step in 0..10 {
    ///     loss.train(&Sgd::new(0.1)).seed(step).wait()?;
    /// }
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// When `0 ≤ p ≤ 1` does not hold, or a pass in training mode has no seed, unless `p` is 0.
    #[track_caller]
    fn dropout(&self, p: f64) -> Layer<Nd<A, D>> {
        dropout(self.layer(), p)
    }
}

impl<X, A: Element, D: Rank> DropoutOps<A, D> for X where X: Differentiable<Data = Nd<A, D>> {}

#[track_caller]
pub(crate) fn dropout<A: Element, D: Rank>(x: Layer<Nd<A, D>>, p: f64) -> Layer<Nd<A, D>> {
    if let Err(error) = check_fraction("the probability", p) {
        return invalid("dropout", error);
    }
    if p == 0.0 {
        return x;
    }
    let dropped = Layer::apply_built_in(Dropout { p, types: PhantomData }, (x.clone(), Seed::draw()));
    Layer::by_mode(dropped, x)
}

/// (x, seed) ↦ x · mask / (1 − p). The mask depends on the seed and the number of elements only, so
/// the operation is linear in x.
#[derive(Clone)]
struct Dropout<A, D> {
    p: f64,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Primitive for Dropout<A, D> {
    type Operands = (Layer<Nd<A, D>>, Layer<Seed>);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "dropout"
    }

    fn value(&self, (x, seed): (&Nd<A, D>, &Seed)) -> Result<Nd<A, D>> {
        let rng = ChaCha8Rng::seed_from_u64(seed.get());
        let scale = A::of((1.0 - self.p).recip());
        // `p` as a fraction of the range of `u32`
        let dropped = (self.p * (u32::MAX as f64 + 1.0)) as u64;
        if let Some(of) = x.0.on_device()? {
            let of = of.contiguous()?;
            let to = View::new(of.device(), A::ELEMENT, x.shape())?;
            let seed = rng.get_seed();
            let key = std::array::from_fn(|word| u32::from_le_bytes(seed.as_chunks().0[word]));
            if !to.is_empty() {
                let work = device::RandomDrop { of: &of, to: &to, key, below: dropped, scale: scale.device_number() };
                to.device().launch(&Work::RandomDrop(work))?;
            }
            return Ok(Nd::from_view(to));
        }
        // in row-major order, independent of the strides
        let elements = x.0.as_standard_layout();
        let elements = elements.as_slice().expect("in row-major order");
        let kept = fill(elements.len(), 1, |first, to| {
            let mut rng = rng.clone();
            // a word for each element
            rng.set_word_pos(first as u128);
            for (to, &x) in to.iter_mut().zip(&elements[first..]) {
                *to = if u64::from(rng.next_u32()) < dropped { A::zero() } else { x * scale };
            }
        });
        Ok(Nd::from_elements(x.dim(), kept))
    }

    fn pullback(&self, at: &At<'_, Self>) -> (Option<Layer<Nd<A, D>>>, Option<Layer<Nothing>>) {
        let delta = Dropout { p: self.p, types: PhantomData };
        (Some(Layer::apply_built_in(delta, (at.delta.clone(), at.operands.1.clone()))), None)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, D>>> {
        self.pullback(&along.at(along.tangents.0.as_ref()?)).0
    }

    fn cost(&self, (x, _): (&Nd<A, D>, &Seed)) -> f64 {
        200.0 + 3.0 * x.len() as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for Dropout<A, D> {
    const IS_PURE: bool = true;
}
