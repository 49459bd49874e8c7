//! Loops over elements that lie side by side: each operation is compiled for the instruction set at hand.

use crate::element::Element;
use crate::simd::{arch, vectorized};
use dl_core::{Binary, BinaryLoop, Number, Unary, UnaryLoop};
use pulp::{Simd, WithSimd};

/// What an operation does for up to four operands and a result of one length; those that it does not have may be anything of that length. It is
/// compiled for this operation and this instruction set, so that nobody asks for either when it runs. What it writes has [one NaN](one_nan).
pub(super) type Loop<A> = Box<dyn Fn([&[A]; 4], &mut [A]) + Send + Sync>;

/// The loop of a copy.
pub(super) fn copy<A: Element>() -> Loop<A> {
    UnaryLoop::run(Compile, |x: A| x)
}

/// The loop of an operation.
pub(super) fn unary<A: Element>(op: Unary) -> Loop<A> {
    op.each(Compile)
}

/// The loop of an operation on two operands.
pub(super) fn binary<A: Element>(op: Binary) -> Loop<A> {
    op.each(Compile)
}

/// The loop of `e⁻ˣ`.
pub(super) fn exp_of_negative<A: Element>() -> Loop<A> {
    UnaryLoop::run(Compile, |x: A| Number::exp(-x))
}

/// The loop over this function of three.
#[inline(always)]
pub(super) fn of_three<A: Element>(value: impl Fn(A, A, A) -> A + Copy + Send + Sync + 'static) -> Loop<A> {
    compiled(
        #[inline(always)]
        move |[a, b, c, _], to: &mut [A]| {
            let operands = a.iter().zip(b.iter().zip(c));
            to.iter_mut().zip(operands).for_each(|(to, (&a, (&b, &c)))| *to = one_nan(value(a, b, c)));
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
            to.iter_mut().zip(operands).for_each(|(to, ((&a, &b), (&c, &d)))| *to = one_nan(value(a, b, c, d)));
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
            move |[x, ..], to: &mut [A]| to.iter_mut().zip(x).for_each(|(to, &x)| *to = one_nan(value(x))),
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
                to.iter_mut().zip(a.iter().zip(b)).for_each(|(to, (&a, &b))| *to = one_nan(value(a, b)));
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
    vectorized(
        #[inline(always)]
        || sums.iter_mut().zip(terms).for_each(|(sum, &term)| *sum = *sum + term),
    );
}

/// Takes `rate · delta` away from each value.
pub(crate) fn descend<A: Element>(rate: A, values: &mut [A], deltas: &[A]) {
    vectorized(
        #[inline(always)]
        || values.iter_mut().zip(deltas).for_each(|(value, &delta)| *value = *value - rate * delta),
    );
}

/// Makes one of all NaN: which operations are computed together decides about their signs and payloads, as an instruction may take its operands in either order.
/// Every loop does so before it writes, while the number is in a register: a comparison and a selection more are cheaper than to look at the block again.
#[inline(always)]
pub(super) fn one_nan<A: Element>(x: A) -> A {
    if x.is_nan() { A::nan() } else { x }
}
