//! Loops over elements that lie side by side: each operation is compiled for the instruction set at
//! hand.

use crate::tensor::Element;
use dl_core::simd::{arch, fuses, vectorized};
use dl_core::{Binary, BinaryLoop, Elementary, Fused, Number, Unary, UnaryLoop, Unfused};
use pulp::{Simd, WithSimd};
use std::marker::PhantomData;

/// What an operation does for up to four operands and a result of one length; those that it does
/// not have may be anything of that length. It is compiled for this operation and this instruction
/// set, so that nobody asks for either when it runs. Whoever keeps what it writes sees to it that
/// there is [one NaN](canonicalize_nans).
pub(super) type VectorLoop<A> = Box<dyn Fn([&[A]; 4], &mut [A]) + Send + Sync>;

/// The same for several results.
pub(super) type MultiLoop<A, const N: usize> = Box<dyn Fn([&[A]; 4], [&mut [A]; N]) + Send + Sync>;

/// The loop of a copy.
pub(super) fn copy<A: Element>() -> VectorLoop<A> {
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
pub(super) fn unary<A: Element>(op: Unary) -> VectorLoop<A> {
    arch().dispatch(TypedOp(op, PhantomData))
}

/// The loop of an operation on two operands.
pub(super) fn binary<A: Element>(op: Binary) -> VectorLoop<A> {
    arch().dispatch(TypedOp(op, PhantomData))
}

/// The loop of `e⁻ˣ`.
pub(super) fn exp_of_negative<A: Element>() -> VectorLoop<A> {
    arch().dispatch(TypedOp(ExpOfNegative, PhantomData))
}

/// The loop over this function of three.
#[inline(always)]
pub(super) fn of_three<A: Element>(value: impl Fn(A, A, A) -> A + Copy + Send + Sync + 'static) -> VectorLoop<A> {
    of_four(
        #[inline(always)]
        move |a, b, c, _| value(a, b, c),
    )
}

/// The loop over this function of four.
#[inline(always)]
pub(super) fn of_four<A: Element>(value: impl Fn(A, A, A, A) -> A + Copy + Send + Sync + 'static) -> VectorLoop<A> {
    compiled(
        #[inline(always)]
        move |operands, to: &mut [A]| {
            by_rows::<A, 1, 32>(
                operands,
                [to],
                #[inline(always)]
                |[a, b, c, d]| [value(a, b, c, d)],
            );
        },
    )
}

/// The loop over this function of four that has several values.
#[inline(always)]
pub(super) fn several_of_four<A: Element, const N: usize>(
    value: impl Fn(A, A, A, A) -> [A; N] + Copy + Send + Sync + 'static,
) -> MultiLoop<A, N> {
    multi_compiled(
        #[inline(always)]
        move |operands, to: [&mut [A]; N]| {
            by_rows::<A, N, 16>(
                operands,
                to,
                #[inline(always)]
                |[a, b, c, d]| value(a, b, c, d),
            );
        },
    )
}

/// Computes a function of four that is little work, for so many numbers at a time. All of them are
/// computed before the first is written: so no processor has to look whether what is written is
/// read again. Results are of one length, and operands have as many elements at least.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "places in several slices of one length, which the compiler knows")]
fn by_rows<A: Element, const N: usize, const WIDTH: usize>(
    operands: [&[A]; 4],
    to: [&mut [A]; N],
    value: impl Fn([A; 4]) -> [A; N],
) {
    let len = to[0].len();
    let operands = operands.map(|x| &x[..len]);
    let to = to.map(|to| &mut to[..len]);
    let [a, b, c, d] = operands.map(|x| x.as_chunks::<WIDTH>().0);
    for row in 0..a.len() {
        // it is no instruction, but LLVM moves nothing across it: a row stays a row. Else it takes
        // a number of each row for a register of AVX-512, which it gathers: three times as slow
        std::hint::black_box(());
        let (a, b, c, d) = (&a[row], &b[row], &c[row], &d[row]);
        let mut values = [[A::zero(); WIDTH]; N];
        for lane in 0..WIDTH {
            let value = value([a[lane], b[lane], c[lane], d[lane]]);
            for result in 0..N {
                values[result][lane] = value[result];
            }
        }
        for result in 0..N {
            to[result].as_chunks_mut::<WIDTH>().0[row] = values[result];
        }
    }
    for slot in a.len() * WIDTH..len {
        let value = value(operands.map(|x| x[slot]));
        for result in 0..N {
            to[result][slot] = value[result];
        }
    }
}

/// An operation whose loop needs elementary functions, as the processor computes them.
trait VectorOp<A> {
    fn compile<S: Simd, E: Elementary>(self, compile: LoopBuilder<S, E>) -> VectorLoop<A>;
}

impl<A: Element> VectorOp<A> for Unary {
    fn compile<S: Simd, E: Elementary>(self, compile: LoopBuilder<S, E>) -> VectorLoop<A> {
        self.each(compile)
    }
}

impl<A: Element> VectorOp<A> for Binary {
    fn compile<S: Simd, E: Elementary>(self, compile: LoopBuilder<S, E>) -> VectorLoop<A> {
        self.each(compile)
    }
}

struct ExpOfNegative;

impl<A: Element> VectorOp<A> for ExpOfNegative {
    fn compile<S: Simd, E: Elementary>(self, compile: LoopBuilder<S, E>) -> VectorLoop<A> {
        UnaryLoop::run(
            compile,
            #[inline(always)]
            |x: A| E::exp(-x),
        )
    }
}

/// An operation, and the elements that it is for.
struct TypedOp<T, A>(T, PhantomData<A>);

impl<A: Element, T: VectorOp<A>> WithSimd for TypedOp<T, A> {
    type Output = VectorLoop<A>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> VectorLoop<A> {
        if const { fuses::<S>() } {
            self.0.compile(LoopBuilder { simd, functions: PhantomData::<Fused> })
        } else {
            self.0.compile(LoopBuilder { simd, functions: PhantomData::<Unfused> })
        }
    }
}

/// Compiles loops for these instructions, with these elementary functions.
struct LoopBuilder<S, E> {
    simd: S,
    functions: PhantomData<E>,
}

impl<A: Element, S: Simd, E: Elementary> UnaryLoop<A> for LoopBuilder<S, E> {
    type Output = VectorLoop<A>;
    type Functions = E;

    #[inline(always)]
    fn run(self, value: impl Fn(A) -> A + Copy + Send + Sync + 'static) -> VectorLoop<A> {
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

impl<A: Element, S: Simd, E: Elementary> BinaryLoop<A> for LoopBuilder<S, E> {
    type Output = VectorLoop<A>;
    type Functions = E;

    #[inline(always)]
    fn run(self, value: impl Fn(A, A) -> A + Copy + Send + Sync + 'static) -> VectorLoop<A> {
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
fn compiled<A: Element, B: Fn([&[A]; 4], &mut [A]) + Copy + Send + Sync + 'static>(body: B) -> VectorLoop<A> {
    struct VectorBody<A, B>(B, PhantomData<A>);

    impl<A: Element, B: Fn([&[A]; 4], &mut [A]) + Copy + Send + Sync + 'static> WithSimd for VectorBody<A, B> {
        type Output = VectorLoop<A>;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> VectorLoop<A> {
            compiled_for(simd, self.0)
        }
    }

    arch().dispatch(VectorBody(body, PhantomData))
}

/// The body, compiled for these instructions. It captures nothing, so nothing is allocated.
#[inline(always)]
fn compiled_for<S: Simd, A: Element, B>(simd: S, body: B) -> VectorLoop<A>
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
fn multi_compiled<A: Element, const N: usize, B: Fn([&[A]; 4], [&mut [A]; N]) + Copy + Send + Sync + 'static>(
    body: B,
) -> MultiLoop<A, N> {
    struct VectorBody<A, B, const N: usize>(B, PhantomData<A>);

    impl<A: Element, const N: usize, B> WithSimd for VectorBody<A, B, N>
    where
        B: Fn([&[A]; 4], [&mut [A]; N]) + Copy + Send + Sync + 'static,
    {
        type Output = MultiLoop<A, N>;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> MultiLoop<A, N> {
            let body = self.0;
            Box::new(move |operands, to| {
                simd.vectorize(
                    #[inline(always)]
                    || body(operands, to),
                );
            })
        }
    }

    arch().dispatch(VectorBody(body, PhantomData))
}

/// Applies an operation to each number, where it is.
pub(crate) fn map_in_place<A: Element>(op: Unary, numbers: &mut [A]) {
    let compute = (super::loop_table::loops::<A>().unary)(op);
    let mut before = [A::zero(); 64];
    for to in numbers.chunks_mut(before.len()) {
        let before = &mut before[..to.len()];
        before.copy_from_slice(to);
        compute([before; 4], to);
    }
    canonicalize_nans(numbers);
}

/// Adds a term to each sum.
pub(crate) fn add_assign<A: Element>(sums: &mut [A], terms: &[A]) {
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
pub(crate) fn sgd_update<A: Element>(rate: A, values: &mut [A], deltas: &[A]) {
    vectorized(
        #[inline(always)]
        || {
            for (value, &delta) in values.iter_mut().zip(deltas) {
                *value = *value - rate * delta;
            }
        },
    );
}

/// Makes one of all NaN: which operations are computed together decides about their signs and
/// payloads, as an instruction may take its operands in either order.
#[inline(always)]
pub(crate) fn canonicalize_nan<A: Number>(x: A) -> A {
    if x.is_nan() { A::nan() } else { x }
}

/// The same for many, most of which are none: in what is only computed with, a NaN may be any.
pub(crate) fn canonicalize_nans<A: Element>(numbers: &mut [A]) {
    if has_nan(std::iter::once(&*numbers)) {
        numbers.iter_mut().for_each(|x| *x = canonicalize_nan(*x));
    }
}

/// Whether there may be a NaN among these numbers.
pub(super) fn has_nan<'a, A: Element>(mut all: impl Iterator<Item = &'a [A]>) -> bool {
    /// Side by side.
    const WIDTH: usize = 32;

    vectorized(
        #[inline(always)]
        || {
            // a sum with a NaN among its terms is one, and nothing takes less than to add. One of
            // infinities of both signs is, too. Twice as many sums of small numbers: no addition
            // waits for another one, and there are registers for all
            let mut sums = [[A::zero(); WIDTH]; 2];
            let other = if size_of::<A>() <= 4 { 1 } else { 0 };
            let mut found = false;
            for numbers in all.by_ref() {
                let (pairs, rest) = numbers.as_chunks::<{ 2 * WIDTH }>();
                for pair in pairs {
                    for (lane, sum) in sums[0].iter_mut().enumerate() {
                        *sum = *sum + pair[lane];
                    }
                    for (lane, sum) in sums[other].iter_mut().enumerate() {
                        *sum = *sum + pair[WIDTH + lane];
                    }
                }
                found |= rest.iter().fold(false, |found, x| found | x.is_nan());
            }
            // a compiler that sees who looks at the lanes takes them apart for it, each time
            std::hint::black_box(sums).as_flattened().iter().fold(found, |found, sum| found | sum.is_nan())
        },
    )
}
