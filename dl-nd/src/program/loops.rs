//! Loops over elements that lie side by side: each operation is compiled for the instruction set at hand.

use crate::element::Element;
use dl_core::simd::{arch, fuses, vectorized};
use dl_core::{Binary, BinaryLoop, Elementary, Fused, Number, Unary, UnaryLoop, Unfused};
use pulp::{Simd, WithSimd};
use std::marker::PhantomData;

/// What an operation does for up to four operands and a result of one length; those that it does not have may be anything of that length. It is
/// compiled for this operation and this instruction set, so that nobody asks for either when it runs. Whoever keeps what it writes sees to it that there is [one NaN](one_nan_each).
pub(super) type Loop<A> = Box<dyn Fn([&[A]; 4], &mut [A]) + Send + Sync>;

/// The same for several results.
pub(super) type Together<A, const N: usize> = Box<dyn Fn([&[A]; 4], [&mut [A]; N]) + Send + Sync>;

/// The loop of a copy.
pub(super) fn copy<A: Element>() -> Loop<A> {
    compiled(
        #[inline(always)]
        |[x, ..], to: &mut [A]| {
            for (to, &x) in to.iter_mut().zip(x) {
                *to = x;
            }
        },
    )
}

/// The loop of an operation.
pub(super) fn unary<A: Element>(op: Unary) -> Loop<A> {
    arch().dispatch(Of(op, PhantomData))
}

/// The loop of an operation on two operands.
pub(super) fn binary<A: Element>(op: Binary) -> Loop<A> {
    arch().dispatch(Of(op, PhantomData))
}

/// The loop of `e⁻ˣ`.
pub(super) fn exp_of_negative<A: Element>() -> Loop<A> {
    arch().dispatch(Of(ExpOfNegative, PhantomData))
}

/// The loop over this function of three.
#[inline(always)]
pub(super) fn of_three<A: Element>(value: impl Fn(A, A, A) -> A + Copy + Send + Sync + 'static) -> Loop<A> {
    compiled(
        #[inline(always)]
        move |[a, b, c, _], to: &mut [A]| {
            for (to, (&a, (&b, &c))) in to.iter_mut().zip(a.iter().zip(b.iter().zip(c))) {
                *to = value(a, b, c);
            }
        },
    )
}

/// The loop over this function of four.
#[inline(always)]
pub(super) fn of_four<A: Element>(value: impl Fn(A, A, A, A) -> A + Copy + Send + Sync + 'static) -> Loop<A> {
    compiled(
        #[inline(always)]
        move |[a, b, c, d], to: &mut [A]| {
            for (to, ((&a, &b), (&c, &d))) in to.iter_mut().zip(a.iter().zip(b).zip(c.iter().zip(d))) {
                *to = value(a, b, c, d);
            }
        },
    )
}

/// The loop over this function of four that has two values.
#[inline(always)]
pub(super) fn two_of_four<A: Element>(
    value: impl Fn(A, A, A, A) -> [A; 2] + Copy + Send + Sync + 'static,
) -> Together<A, 2> {
    together(
        #[inline(always)]
        move |[a, b, c, d], [to, second]: [&mut [A]; 2]| {
            let results = to.iter_mut().zip(second);
            for ((to, second), ((&a, &b), (&c, &d))) in results.zip(a.iter().zip(b).zip(c.iter().zip(d))) {
                [*to, *second] = value(a, b, c, d);
            }
        },
    )
}

/// The loop over this function of four that has three values.
#[inline(always)]
pub(super) fn three_of_four<A: Element>(
    value: impl Fn(A, A, A, A) -> [A; 3] + Copy + Send + Sync + 'static,
) -> Together<A, 3> {
    together(
        #[inline(always)]
        move |[a, b, c, d], [to, second, third]: [&mut [A]; 3]| {
            let results = to.iter_mut().zip(second.iter_mut().zip(third));
            for ((to, (second, third)), ((&a, &b), (&c, &d))) in results.zip(a.iter().zip(b).zip(c.iter().zip(d))) {
                [*to, *second, *third] = value(a, b, c, d);
            }
        },
    )
}

/// An operation whose loop needs elementary functions, as the processor computes them.
trait Operation<A> {
    fn compile<S: Simd, E: Elementary>(self, compile: Compile<S, E>) -> Loop<A>;
}

impl<A: Element> Operation<A> for Unary {
    fn compile<S: Simd, E: Elementary>(self, compile: Compile<S, E>) -> Loop<A> {
        self.each(compile)
    }
}

impl<A: Element> Operation<A> for Binary {
    fn compile<S: Simd, E: Elementary>(self, compile: Compile<S, E>) -> Loop<A> {
        self.each(compile)
    }
}

struct ExpOfNegative;

impl<A: Element> Operation<A> for ExpOfNegative {
    fn compile<S: Simd, E: Elementary>(self, compile: Compile<S, E>) -> Loop<A> {
        UnaryLoop::run(
            compile,
            #[inline(always)]
            |x: A| E::exp(-x),
        )
    }
}

/// An operation, and the elements that it is for.
struct Of<T, A>(T, PhantomData<A>);

impl<A: Element, T: Operation<A>> WithSimd for Of<T, A> {
    type Output = Loop<A>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Loop<A> {
        if const { fuses::<S>() } {
            self.0.compile(Compile { simd, functions: PhantomData::<Fused> })
        } else {
            self.0.compile(Compile { simd, functions: PhantomData::<Unfused> })
        }
    }
}

/// Compiles loops for these instructions, with these elementary functions.
struct Compile<S, E> {
    simd: S,
    functions: PhantomData<E>,
}

impl<A: Element, S: Simd, E: Elementary> UnaryLoop<A> for Compile<S, E> {
    type Output = Loop<A>;
    type Functions = E;

    #[inline(always)]
    fn run(self, value: impl Fn(A) -> A + Copy + Send + Sync + 'static) -> Loop<A> {
        compiled_for(
            self.simd,
            #[inline(always)]
            move |[x, ..], to: &mut [A]| {
                for (to, &x) in to.iter_mut().zip(x) {
                    *to = value(x);
                }
            },
        )
    }
}

impl<A: Element, S: Simd, E: Elementary> BinaryLoop<A> for Compile<S, E> {
    type Output = Loop<A>;
    type Functions = E;

    #[inline(always)]
    fn run(self, value: impl Fn(A, A) -> A + Copy + Send + Sync + 'static) -> Loop<A> {
        compiled_for(
            self.simd,
            #[inline(always)]
            move |[a, b, ..], to: &mut [A]| {
                for (to, (&a, &b)) in to.iter_mut().zip(a.iter().zip(b)) {
                    *to = value(a, b);
                }
            },
        )
    }
}

/// The body, compiled for the instruction set at hand.
#[inline(always)]
fn compiled<A: Element, B>(body: B) -> Loop<A>
where
    B: Fn([&[A]; 4], &mut [A]) + Copy + Send + Sync + 'static,
{
    struct Compiled<A, B>(B, PhantomData<A>);

    impl<A: Element, B: Fn([&[A]; 4], &mut [A]) + Copy + Send + Sync + 'static> WithSimd for Compiled<A, B> {
        type Output = Loop<A>;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Loop<A> {
            compiled_for(simd, self.0)
        }
    }

    arch().dispatch(Compiled(body, PhantomData))
}

/// The body, compiled for these instructions. It captures nothing, so nothing is allocated.
#[inline(always)]
fn compiled_for<S: Simd, A: Element, B>(simd: S, body: B) -> Loop<A>
where
    B: Fn([&[A]; 4], &mut [A]) + Copy + Send + Sync + 'static,
{
    Box::new(move |operands, to| {
        simd.vectorize(
            #[inline(always)]
            || body(operands, to),
        );
    })
}

/// The same for several results.
#[inline(always)]
fn together<A: Element, const N: usize, B>(body: B) -> Together<A, N>
where
    B: Fn([&[A]; 4], [&mut [A]; N]) + Copy + Send + Sync + 'static,
{
    struct Compiled<A, B, const N: usize>(B, PhantomData<A>);

    impl<A: Element, const N: usize, B> WithSimd for Compiled<A, B, N>
    where
        B: Fn([&[A]; 4], [&mut [A]; N]) + Copy + Send + Sync + 'static,
    {
        type Output = Together<A, N>;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Together<A, N> {
            let body = self.0;
            Box::new(move |operands, to| {
                simd.vectorize(
                    #[inline(always)]
                    || body(operands, to),
                );
            })
        }
    }

    arch().dispatch(Compiled(body, PhantomData))
}

/// Applies an operation to each number, where it is.
pub(crate) fn each<A: Element>(op: Unary, numbers: &mut [A]) {
    let compute = unary(op);
    let mut before = [A::zero(); 64];
    for to in numbers.chunks_mut(before.len()) {
        let before = &mut before[..to.len()];
        before.copy_from_slice(to);
        compute([before; 4], to);
    }
    one_nan_each(numbers);
}

/// Adds a term to each sum.
pub(crate) fn add<A: Element>(sums: &mut [A], terms: &[A]) {
    vectorized(
        #[inline(always)]
        || {
            for (sum, &term) in sums.iter_mut().zip(terms) {
                *sum = *sum + term;
            }
        },
    );
}

/// Takes `rate · delta` away from each value.
pub(crate) fn descend<A: Element>(rate: A, values: &mut [A], deltas: &[A]) {
    vectorized(
        #[inline(always)]
        || {
            for (value, &delta) in values.iter_mut().zip(deltas) {
                *value = *value - rate * delta;
            }
        },
    );
}

/// Makes one of all NaN: which operations are computed together decides about their signs and payloads, as an instruction may take its operands in either order.
#[inline(always)]
pub(crate) fn one_nan<A: Number>(x: A) -> A {
    if x.is_nan() { A::nan() } else { x }
}

/// The same for many, most of which are none: in what is only computed with, a NaN may be any.
pub(crate) fn one_nan_each<A: Element>(numbers: &mut [A]) {
    /// Side by side, as many as fill a few registers.
    const WIDTH: usize = 32;

    vectorized(
        #[inline(always)]
        || {
            // one comparison says whether one of two is a NaN
            let (pairs, rest) = numbers.as_chunks::<{ 2 * WIDTH }>();
            // numbers that say so: for truths the compiler would make narrower registers of wide ones each time
            let mut any = [A::zero(); WIDTH];
            for pair in pairs {
                for (lane, any) in any.iter_mut().enumerate() {
                    let (a, b) = (pair[lane], pair[WIDTH + lane]);
                    *any = if a.is_nan() | b.is_nan() { A::of(1.0) } else { *any };
                }
            }
            let any = any.iter().fold(false, |found, any| found | !any.is_zero());
            if rest.iter().fold(any, |found, x| found | x.is_nan()) {
                numbers.iter_mut().for_each(|x| *x = one_nan(*x));
            }
        },
    );
}
