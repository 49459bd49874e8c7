//! Rotary positions.

use dl_core::{Along, At, BuiltIn, Deltas, Error, Layer, Primitive, Result, Unary, parallel};
use dl_macros::Module;
use dl_nd::{Element, Nd, NdExpression, NdLayer, Rank};
use std::marker::PhantomData;
use std::sync::Arc;

/// Rotary positions (Su et al., *RoFormer*, 2021) of `[batch, …, length, width]`: elements `i` and
/// `i + width / 2` of the vector at position `p` are turned by the angle `p · base^(−2i / width)`.
/// The product of a query and a key then depends on the distance of their positions.
///
/// The pairs are those of Llama and GPT-NeoX, an element of the first half and one of the second.
/// (The paper pairs neighbours; a permutation of the rows of the projections converts one into the
/// other.)
///
/// ```
/// use dl_core::Differentiable;
/// use dl_nd::Nd;
/// let x = Nd::from([[[1.0, 0.0], [1.0, 0.0]]]);
/// let turned = dl_nn::Rotary::default().of(&x).predict().wait()?;
/// assert!((&turned.view() - &dl_nd::ndarray::arr3(&[[[1.0, 0.0], [1_f64.cos(), 1_f64.sin()]]])).iter().all(|x| x.abs() < 1e-12));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Module)]
#[module(crate = dl_core)]
pub struct Rotary {
    /// The base of the angles, 10,000 by default. A larger one is used for longer texts.
    pub base: f64,
}

impl Default for Rotary {
    fn default() -> Self {
        Rotary { base: 10_000.0 }
    }
}

impl Rotary {
    /// Turns the vectors of sequences that start at position 0. The shape stays the same.
    ///
    /// # Errors
    /// A shape error if there are fewer than three axes or if the width is odd; an error if the base
    /// is not positive.
    #[track_caller]
    pub fn of<D: Rank, A: Element>(&self, x: impl NdExpression<D, A>) -> NdLayer<D, A> {
        self.from(x, [0])
    }

    /// Turns the vectors of sequences that start at these positions, one for each sequence or one
    /// for all.
    ///
    /// ```
    /// use dl_core::Differentiable;
    /// use dl_nd::{Nd, ops::*};
    /// let (rotary, x) = (dl_nn::Rotary::default(), Nd::<f32, _>::full([1, 3, 4], 1.0));
    /// let rest = rotary.from(x.slice_axis(1, 1..), [1]).predict().wait()?;
    /// assert_eq!(rest, rotary.of(&x).slice_axis(1, 1..).predict().wait()?);
    /// # dl_core::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of [`of`](Rotary::of), and a shape error for another number of positions.
    #[track_caller]
    pub fn from<D: Rank, A: Element>(
        &self,
        x: impl NdExpression<D, A>,
        starts: impl Into<Arc<[usize]>>,
    ) -> NdLayer<D, A> {
        let turn = Turn { base: self.base, starts: starts.into(), back: false, types: PhantomData };
        Layer::apply_built_in(turn, (x.into_layer(),))
    }
}

/// The rotation; the inverse is its transpose.
#[derive(Clone)]
struct Turn<A, D> {
    base: f64,
    starts: Arc<[usize]>,
    back: bool,
    types: PhantomData<(A, D)>,
}

impl<A: Element, D: Rank> Turn<A, D> {
    #[track_caller]
    fn apply(&self, x: &NdLayer<D, A>, back: bool) -> NdLayer<D, A> {
        Layer::apply_built_in(Turn { back, starts: self.starts.clone(), ..*self }, (x.clone(),))
    }

    /// The cosines and sines of the angles of a sequence, `[length, width / 2]`.
    fn turns(&self, start: usize, length: usize, half: usize) -> Vec<(A, A)> {
        let step = -Unary::Ln.value(self.base) / half as f64;
        let rates: Vec<f64> = (0..half).map(|i| Unary::Exp.value(step * i as f64)).collect();
        let turns = (start..start + length).flat_map(|position| {
            rates.iter().map(move |rate| {
                let angle = position as f64 * rate;
                let sin = Unary::Sin.value(angle);
                (A::of(Unary::Cos.value(angle)), A::of(if self.back { -sin } else { sin }))
            })
        });
        turns.collect()
    }
}

impl<A: Element, D: Rank> Primitive for Turn<A, D> {
    type Operands = (NdLayer<D, A>,);
    type Output = Nd<A, D>;

    fn name(&self) -> &'static str {
        "rotary"
    }

    fn value(&self, (x,): (&Nd<A, D>,)) -> Result<Nd<A, D>> {
        let &[batch, .., length, width] = x.shape() else {
            return Err(Error::shape(format!("{:?} instead of [batch, ..., length, width]", x.shape())));
        };
        if !width.is_multiple_of(2) {
            return Err(Error::shape(format!("rotary positions of vectors of an odd length, {width}")));
        }
        if self.starts.len() != 1 && self.starts.len() != batch {
            return Err(Error::shape(format!("{} positions for {batch} sequences", self.starts.len())));
        }
        if self.base.is_nan() || self.base <= 0.0 {
            return Err(Error::invalid(format!("the base of rotary positions is {}; it must be positive", self.base)));
        }
        let mut turned: Vec<A> = x.view().iter().copied().collect();
        if turned.is_empty() {
            return Ok(x.clone());
        }
        let turns: Vec<_> = self.starts.iter().map(|&start| self.turns(start, length, width / 2)).collect();
        let parts = turned.len() / (length * width * batch);
        let mut heads: Vec<_> = turned.chunks_exact_mut(length * width).collect();
        parallel::for_each_mut(&mut heads, (length * width) as f64, |head, rows| {
            let turns = &turns[if turns.len() == 1 { 0 } else { head / parts }];
            for (row, turns) in rows.chunks_exact_mut(width).zip(turns.chunks_exact(width / 2)) {
                let (left, right) = row.split_at_mut(width / 2);
                for ((x, y), &(cos, sin)) in left.iter_mut().zip(right).zip(turns) {
                    (*x, *y) = (*x * cos - *y * sin, *y * cos + *x * sin);
                }
            }
        });
        Nd::from_vec(x.view().raw_dim(), turned)
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        (Some(self.apply(at.delta, !self.back)),)
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<NdLayer<D, A>> {
        Some(self.apply(along.tangents.0.as_ref()?, self.back))
    }

    fn cost(&self, (x,): (&Nd<A, D>,)) -> f64 {
        // a sine and a cosine for each pair of elements of a row, shared by the heads of a sequence
        let angles: usize = x.shape().iter().rev().take(2).product::<usize>() * self.starts.len() / 2;
        500.0 + 3.0 * x.len() as f64 + 50.0 * angles as f64
    }
}

impl<A: Element, D: Rank> BuiltIn for Turn<A, D> {
    const IS_PURE: bool = true;
}
