//! Sums with products of matrices among their terms: what arrives at a weight that is used many times, or at a value that many weights are used with.
//!
//! A tree that uses one weight at each of its nodes has as many deltas for it, each of them a product as large as the weight. They are added up as they are
//! computed, in one place, instead of being made one by one. To the bit that is the same.

use crate::element::{Element, Rank};
use crate::matmul::Product;
use crate::nd::Nd;
use crate::sum::sum_of;
use dl_core::{Along, At, Error, Layer, Primitive, Result};
use ndarray::Ix2;
use std::any::Any;

/// The sum of these terms, if there are products of matrices among them that nobody else wants.
#[track_caller]
pub(crate) fn sum_of_products<A: Element, D: Rank>(terms: &Vec<Layer<Nd<A, D>>>) -> Option<Layer<Nd<A, D>>> {
    let matrices: &Vec<Layer<Nd<A, Ix2>>> = (terms as &dyn Any).downcast_ref()?;
    if !matrices.iter().any(|term| factors(term).is_some()) {
        return None;
    }
    let (mut sum, mut operands) =
        (Products(Vec::with_capacity(matrices.len())), Vec::with_capacity(2 * matrices.len()));
    for term in matrices {
        match factors(term) {
            Some((product, (a, b))) => {
                sum.0.push(Term::Product(product.again()));
                operands.extend([a, b]);
            }
            None => {
                sum.0.push(Term::Whole);
                operands.push(term.clone());
            }
        }
    }
    let sum: Box<dyn Any> = Box::new(Layer::apply(sum, operands));
    Some(*sum.downcast().expect("it is of the type of its terms"))
}

/// The product that this is, if nobody else wants it.
fn factors<A: Element>(term: &Layer<Nd<A, Ix2>>) -> Option<Factors<'_, A>> {
    if term.is_unshared() { term.applied() } else { None }
}

type Factors<'a, A> = (&'a Product<A, Ix2, Ix2>, (Layer<Nd<A, Ix2>>, Layer<Nd<A, Ix2>>));

/// Terms, which are added up from the first to the last.
struct Products<A>(Vec<Term<A>>);

enum Term<A> {
    /// One operand.
    Whole,
    /// Of two operands.
    Product(Product<A, Ix2, Ix2>),
}

/// The operands of a term.
enum Operands<T> {
    Whole(T),
    Factors(T, T),
}

impl<A> Products<A> {
    /// Each term with what belongs to its operands.
    fn each<'a, T: 'a>(&'a self, of_operands: &'a [T]) -> impl Iterator<Item = (&'a Term<A>, Operands<&'a T>)> {
        let mut rest = of_operands.iter();
        let mut next = move || rest.next().expect("there are as many as the terms have");
        self.0.iter().map(move |term| match term {
            Term::Whole => (term, Operands::Whole(next())),
            Term::Product(_) => (term, Operands::Factors(next(), next())),
        })
    }
}

impl<A: Element> Primitive for Products<A> {
    type Operands = Vec<Layer<Nd<A, Ix2>>>;
    type Output = Nd<A, Ix2>;

    fn name(&self) -> &'static str {
        "sum"
    }

    fn value(&self, operands: Vec<&Nd<A, Ix2>>) -> Result<Nd<A, Ix2>> {
        let mut sum: Option<Nd<A, Ix2>> = None;
        for (term, operands) in self.each(&operands) {
            if let (Some(sum), Term::Product(product), &Operands::Factors(a, b)) = (&mut sum, term, &operands)
                && product.can_accumulate((a, b), sum)
            {
                product.accumulate((a, b), 1.0, sum);
                continue;
            }
            let value = match (term, operands) {
                (Term::Product(product), Operands::Factors(a, b)) => product.value((a, b))?,
                (_, Operands::Whole(x) | Operands::Factors(x, _)) => (*x).clone(),
            };
            match &mut sum {
                None => sum = Some(value),
                Some(sum) if sum.shape() == value.shape() => {
                    sum.0.array_mut().zip_mut_with(&value.0, |sum, &term| *sum = *sum + term);
                }
                Some(sum) => {
                    let (sum, other) = (sum.shape(), value.shape());
                    return Err(Error::shape(format!("tensors of shapes {sum:?} and {other:?} cannot be summed")));
                }
            }
        }
        Ok(sum.expect("there are terms"))
    }

    fn pullback(&self, at: &At<'_, Self>) -> Vec<Option<Layer<Nd<A, Ix2>>>> {
        let mut shapes = at.values.iter().map(|value| value.dim());
        let mut shape = move || shapes.next().expect("a shape for each operand");
        let deltas = self.each(&at.operands).flat_map(|(term, operands)| match (term, operands) {
            (Term::Product(product), Operands::Factors(a, b)) => {
                let shapes = (shape(), shape());
                let (da, db) = product.pull_back((a, b), shapes, at.value.shape(), at.delta);
                [Some(da), Some(db)]
            }
            _ => {
                shape();
                [Some(at.delta.clone()), None]
            }
        });
        deltas.flatten().map(Some).collect()
    }

    fn pushforward(&self, along: &Along<'_, Self>) -> Option<Layer<Nd<A, Ix2>>> {
        let mut tangents = along.tangents.iter();
        let mut tangent = move || tangents.next().expect("a tangent for each operand").as_ref();
        sum_of(self.each(along.operands).flat_map(|(term, operands)| match (term, operands) {
            (Term::Product(product), Operands::Factors(a, b)) => product.push_forward((a, b), (tangent(), tangent())),
            _ => [tangent().cloned(), None],
        }))
    }

    fn cost(&self, operands: Vec<&Nd<A, Ix2>>) -> f64 {
        let each = self.each(&operands).map(|(term, operands)| match (term, operands) {
            (Term::Product(product), Operands::Factors(a, b)) => product.cost((a, b)),
            (_, Operands::Whole(x) | Operands::Factors(x, _)) => 50.0 + 0.5 * x.len() as f64,
        });
        200.0 + each.sum::<f64>()
    }
}
