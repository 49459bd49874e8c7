//! Loops over elements that lie side by side: each operation is compiled for the instruction set at hand.

use super::arch;
use crate::element::Element;
use dl_core::{Binary, BinaryLoop, Unary, UnaryLoop};
use pulp::{Simd, WithSimd};

/// What an operation does for up to four operands and a result of one length; those that it does not have may be anything of that length. It is
/// compiled for this operation and this instruction set, so that nobody asks for either when it runs.
pub(super) type Loop<A> = Box<dyn Fn([&[A]; 4], &mut [A]) + Send + Sync>;

/// The loop of a copy.
pub(super) fn copy<A: Element>() -> Loop<A> {
    Box::new(|[x, ..], to| to.copy_from_slice(x))
}

/// The loop of an operation.
pub(super) fn unary<A: Element>(op: Unary) -> Loop<A> {
    op.each(Compile)
}

/// The loop of an operation on two operands.
pub(super) fn binary<A: Element>(op: Binary) -> Loop<A> {
    op.each(Compile)
}

/// The loop over this function of three.
#[inline(always)]
pub(super) fn of_three<A: Element>(value: impl Fn(A, A, A) -> A + Copy + Send + Sync + 'static) -> Loop<A> {
    compiled(
        #[inline(always)]
        move |[a, b, c, _], to: &mut [A]| {
            let operands = a.iter().zip(b.iter().zip(c));
            to.iter_mut().zip(operands).for_each(|(to, (&a, (&b, &c)))| *to = value(a, b, c));
        },
    )
}

/// The loop over this function of four.
#[inline(always)]
pub(super) fn of_four<A: Element>(value: impl Fn(A, A, A, A) -> A + Copy + Send + Sync + 'static) -> Loop<A> {
    compiled(
        #[inline(always)]
        move |[a, b, c, d], to: &mut [A]| {
            let operands = a.iter().zip(b).zip(c.iter().zip(d));
            to.iter_mut().zip(operands).for_each(|(to, ((&a, &b), (&c, &d)))| *to = value(a, b, c, d));
        },
    )
}

struct Compile;

impl<A: Element> UnaryLoop<A> for Compile {
    type Output = Loop<A>;

    #[inline(always)]
    fn run(self, value: impl Fn(A) -> A + Copy + Send + Sync + 'static) -> Loop<A> {
        compiled(
            #[inline(always)]
            move |[x, ..], to: &mut [A]| to.iter_mut().zip(x).for_each(|(to, &x)| *to = value(x)),
        )
    }
}

impl<A: Element> BinaryLoop<A> for Compile {
    type Output = Loop<A>;

    #[inline(always)]
    fn run(self, value: impl Fn(A, A) -> A + Copy + Send + Sync + 'static) -> Loop<A> {
        compiled(
            #[inline(always)]
            move |[a, b, ..], to: &mut [A]| {
                to.iter_mut().zip(a.iter().zip(b)).for_each(|(to, (&a, &b))| *to = value(a, b));
            },
        )
    }
}

/// The body, compiled for the instruction set at hand. It captures nothing, so nothing is allocated.
#[inline(always)]
fn compiled<A: Element, B>(body: B) -> Loop<A>
where
    B: Fn([&[A]; 4], &mut [A]) + Copy + Send + Sync + 'static,
{
    struct Compiled<A, B>(B, std::marker::PhantomData<A>);

    impl<A: Element, B: Fn([&[A]; 4], &mut [A]) + Copy + Send + Sync + 'static> WithSimd for Compiled<A, B> {
        type Output = Loop<A>;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Loop<A> {
            let body = self.0;
            Box::new(move |operands, to| {
                simd.vectorize(
                    #[inline(always)]
                    || body(operands, to),
                );
            })
        }
    }

    arch().dispatch(Compiled(body, std::marker::PhantomData))
}

/// Adds a term to each sum.
pub(crate) fn add<A: Element>(sums: &mut [A], terms: &[A]) {
    arch().dispatch(
        #[inline(always)]
        || sums.iter_mut().zip(terms).for_each(|(sum, &term)| *sum = *sum + term),
    );
}

/// Takes `rate · delta` away from each value.
pub(crate) fn descend<A: Element>(rate: A, values: &mut [A], deltas: &[A]) {
    arch().dispatch(
        #[inline(always)]
        || values.iter_mut().zip(deltas).for_each(|(value, &delta)| *value = *value - rate * delta),
    );
}

/// Makes one of all NaN: which operations are computed together decides about their signs and payloads, as an instruction may take its operands in either order.
pub(super) fn unify_nan<A: Element>(elements: &mut [A]) {
    arch().dispatch(
        #[inline(always)]
        || {
            if elements.iter().fold(false, |any, x| any | x.is_nan()) {
                elements.iter_mut().filter(|x| x.is_nan()).for_each(|x| *x = A::nan());
            }
        },
    );
}
