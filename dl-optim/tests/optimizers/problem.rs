//! A loss of two weights with three and two numbers, with its gradient in closed form.

use dl_core::{
    At, Chunk, ChunkElement, Data, Delta, Deltas, Layer, Optimizer, Primitive, Result, Trainable, Weight, WeightHandle,
};
use std::marker::PhantomData;

/// An array of numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Array<A>(pub(crate) Vec<A>);

impl<A: ChunkElement> Data for Array<A> {
    type Delta = Array<A>;

    fn one(&self) -> Self {
        Array(vec![A::one(); self.0.len()])
    }
}

impl<A: ChunkElement> Delta for Array<A> {
    fn sum(mut terms: Vec<Layer<Self>>) -> Layer<Self> {
        assert_eq!(terms.len(), 1, "every weight is used once");
        terms.remove(0)
    }

    fn scale(_: &Layer<Self>, _: f64) -> Layer<Self> {
        unreachable!("deltas are not scaled here")
    }

    fn squared_norm(&self) -> f64 {
        unreachable!("the norm is not used here")
    }
}

impl<A: ChunkElement> Trainable for Array<A> {
    fn zeros_like(&self) -> Self {
        Array(vec![A::zero(); self.0.len()])
    }

    fn update(
        &mut self,
        delta: &Self,
        slots: &mut [Self],
        rule: &mut dyn FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut slots: Vec<&mut [A]> = slots.iter_mut().map(|slot| &mut slot.0[..]).collect();
        rule(A::chunk(&mut self.0, &delta.0, &mut slots))
    }
}

/// The loss. It is only trained on as the root, so the delta of its value is 1.
struct Loss<A>(PhantomData<A>);

impl<A: ChunkElement + Delta> Primitive for Loss<A> {
    type Operands = (Layer<Array<A>>, Layer<Array<A>>);
    type Output = A;

    fn name(&self) -> &'static str {
        "loss"
    }

    fn value(&self, (a, b): (&Array<A>, &Array<A>)) -> Result<A> {
        let quarter = A::of(0.25);
        let term = |i: usize| residual(a, b, i).powi(2) + quarter * a.0[i].powi(4);
        Ok((0..3).map(term).fold(A::zero(), |sum, term| sum + term))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Deltas<Self> {
        let (a, b) = at.values;
        let two = A::of(2.0);
        let mut deltas = [a.zeros_like(), b.zeros_like()];
        for i in 0..3 {
            let r = residual(a, b, i);
            deltas[0].0[i] = two * r * b.0[i % 2] + a.0[i].powi(3);
            deltas[1].0[i % 2] = deltas[1].0[i % 2] + two * r * a.0[i];
        }
        let [a, b] = deltas.map(Layer::constant);
        (Some(a), Some(b))
    }
}

fn residual<A: ChunkElement>(a: &Array<A>, b: &Array<A>, i: usize) -> A {
    a.0[i] * b.0[i % 2] - A::of((i + 1) as f64 / 2.0)
}

/// The weights of the loss.
pub(crate) struct Problem<A> {
    pub(crate) a: Weight<Array<A>>,
    pub(crate) b: Weight<Array<A>>,
}

impl<A: ChunkElement + Delta> Problem<A> {
    pub(crate) fn new() -> Self {
        let weight = |numbers: &[f64]| Weight::new(Array(numbers.iter().map(|&number| A::of(number)).collect()));
        Problem { a: weight(&[0.7, -1.3, 2.1]), b: weight(&[0.4, -0.9]) }
    }

    pub(crate) fn train<O: Optimizer + Clone + 'static>(&self, optimizer: &O) -> Result<()> {
        use dl_core::Differentiable;
        let loss = Layer::apply(Loss(PhantomData), (self.a.layer(), self.b.layer()));
        loss.train(optimizer).wait().map(drop)
    }

    pub(crate) fn values(&self) -> [Array<A>; 2] {
        [self.a.value(), self.b.value()]
    }

    pub(crate) fn set(&self, [a, b]: [Array<A>; 2]) {
        self.a.set(a);
        self.b.set(b);
    }

    pub(crate) fn named(&self) -> [(&'static str, WeightHandle); 2] {
        [("a", (&self.a).into()), ("b", (&self.b).into())]
    }
}

/// All numbers, in double precision.
pub(crate) fn flat<A: ChunkElement>(values: [Array<A>; 2]) -> Vec<f64> {
    values.into_iter().flat_map(|array| array.0).map(|number| number.to_f64().expect("a number")).collect()
}
