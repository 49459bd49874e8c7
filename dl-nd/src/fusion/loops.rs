//! Vector loops over slices. Each operation is compiled for the instruction set at hand.

use crate::tensor::Element;
use dl_core::simd::{arch, fuses, vectorized};
use dl_core::{Binary, BinaryLoop, Elementary, Fused, Number, Unary, UnaryLoop, Unfused};
use pulp::{Simd, WithSimd};
use std::marker::PhantomData;

/// The loop of an operation on up to four operands and a result, all of one length. Unused operands
/// may be any slices of that length. The operation and the instruction set are compiled in, so
/// neither is tested at run time. The caller must [canonicalize NaN](canonicalize_nans) in elements
/// that it stores.
pub(crate) type VectorLoop<A> = Box<dyn Fn([&[A]; 4], &mut [A]) + Send + Sync>;

/// A loop with several results.
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

/// The loop of a unary operation.
pub(super) fn unary<A: Element>(op: Unary) -> VectorLoop<A> {
    arch().dispatch(TypedOp(op, PhantomData))
}

/// The loop of a binary operation.
pub(super) fn binary<A: Element>(op: Binary) -> VectorLoop<A> {
    arch().dispatch(TypedOp(op, PhantomData))
}

/// The loop of `e⁻ˣ`.
pub(super) fn exp_of_negative<A: Element>() -> VectorLoop<A> {
    arch().dispatch(TypedOp(ExpOfNegative, PhantomData))
}

/// The loop of a function of three operands.
#[inline(always)]
pub(super) fn of_three<A: Element>(value: impl Fn(A, A, A) -> A + Copy + Send + Sync + 'static) -> VectorLoop<A> {
    of_four(
        #[inline(always)]
        move |a, b, c, _| value(a, b, c),
    )
}

/// The loop of a function of four operands.
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

/// The loop of a function of four operands with several results.
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

/// Applies a cheap function of four operands to `WIDTH` elements at a time. All results of a row
/// are computed before the first is stored, so loads need not wait for earlier stores. Results must
/// have one length, and operands at least that length.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "indices into several slices of one length")]
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
        // LLVM moves nothing across this call, so a row stays a row. Otherwise it gathers an
        // AVX-512 register from several rows, which is three times slower
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

/// An operation with a loop that depends on the elementary functions of the instruction set.
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
        if self.is_power() { powers::<A, S, E>(self, compile.simd) } else { self.each(compile) }
    }
}

/// The loop of a power: one for exponents that are equal and have a simple form, and one for all
/// others.
fn powers<A: Element, S: Simd, E: Elementary>(op: Binary, simd: S) -> VectorLoop<A> {
    Box::new(move |[a, b, ..], to| {
        let compile = || LoopBuilder { simd, functions: PhantomData::<E> };
        // No early exit: the comparison is vectorised.
        if let Some(&exponent) = b.first()
            && b.iter().fold(true, |are_equal, &b| are_equal & (b == exponent))
            && let Some(simple) = op.each_with_exponent(exponent, compile())
        {
            return simple([a; 4], to);
        }
        op.each_without_simple_form(compile())([a, b, a, a], to);
        let some_are_simple = simd.vectorize(
            #[inline(always)]
            || b.iter().fold(false, |some, &b| some | op.may_have_simple_form(b)),
        );
        if some_are_simple {
            for (to, (&a, &b)) in to.iter_mut().zip(a.iter().zip(b)) {
                if op.has_simple_form(b) {
                    *to = op.value(a, b);
                }
            }
        }
    })
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

/// An operation with its element type.
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

/// Builds loops for an instruction set and its elementary functions.
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

/// Compiles a loop body for the instruction set at hand.
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

/// Compiles a loop body for this instruction set. It captures nothing, so the box does not
/// allocate.
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

/// Compiles a loop body with several results.
#[inline(always)]
fn multi_compiled<A: Element, const N: usize, B: Fn([&[A]; 4], [&mut [A]; N]) + Copy + Send + Sync + 'static>(
    body: B,
) -> MultiLoop<A, N> {
    struct MultiBody<A, B, const N: usize>(B, PhantomData<A>);

    impl<A: Element, const N: usize, B> WithSimd for MultiBody<A, B, N>
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

    arch().dispatch(MultiBody(body, PhantomData))
}

/// Applies an operation to each number in place.
pub(crate) fn map_in_place<A: Element>(op: Unary, numbers: &mut [A]) {
    let compute = (super::loop_table::loops::<A>().unary)(op);
    let mut before = [A::zero(); 512];
    for to in numbers.chunks_mut(before.len()) {
        let before = &mut before[..to.len()];
        before.copy_from_slice(to);
        compute([before; 4], to);
        canonicalize_nans(to);
    }
}

/// Adds the terms to the sums.
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

/// Subtracts `rate · delta` from each value.
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

/// Replaces a NaN by the canonical one. Sign and payload of a NaN depend on which operations are
/// fused, because an instruction may swap its operands.
#[inline(always)]
pub(crate) fn canonicalize_nan<A: Number>(x: A) -> A {
    if x.is_nan() { A::nan() } else { x }
}

/// Canonicalizes all NaN of a slice, which mostly has none. Must be applied to stored elements; NaN
/// of intermediate results may have any bits.
pub(crate) fn canonicalize_nans<A: Element>(numbers: &mut [A]) {
    /// To add up more lanes than these would take longer than to add up so many numbers.
    const FEW: usize = 256;
    const LANES: usize = 8;

    let all = std::iter::once(&*numbers);
    let may_have_nan = if numbers.len() <= FEW { sum_is_nan::<A, LANES>(all) } else { has_nan(all) };
    if may_have_nan {
        numbers.iter_mut().for_each(|x| *x = canonicalize_nan(*x));
    }
}

/// Whether there may be a NaN among these numbers. Infinities of both signs also count.
pub(super) fn has_nan<'a, A: Element>(all: impl Iterator<Item = &'a [A]>) -> bool {
    sum_is_nan::<A, 32>(all)
}

/// Whether a sum of the numbers, added in so many lanes, is NaN.
#[inline(always)]
fn sum_is_nan<'a, A: Element, const LANES: usize>(mut all: impl Iterator<Item = &'a [A]>) -> bool {
    vectorized(
        #[inline(always)]
        || {
            // A sum with a NaN among its terms is NaN, and an addition is the cheapest test. Narrow
            // types use two accumulators per lane, so that additions do not wait for each other.
            let mut sums = [[A::zero(); LANES]; 2];
            let other = if size_of::<A>() <= 4 { 1 } else { 0 };
            let mut found = false;
            for numbers in all.by_ref() {
                let (pairs, odd) = numbers.as_chunks::<LANES>().0.as_chunks::<2>();
                for pair in pairs {
                    for (lane, sum) in sums[0].iter_mut().enumerate() {
                        *sum = *sum + pair[0][lane];
                    }
                    for (lane, sum) in sums[other].iter_mut().enumerate() {
                        *sum = *sum + pair[1][lane];
                    }
                }
                let rest = numbers.len() % LANES + odd.len() * LANES;
                found |= numbers[numbers.len() - rest..].iter().fold(false, |found, x| found | x.is_nan());
            }
            // LLVM would otherwise extract the lanes one by one in each iteration
            std::hint::black_box(sums).as_flattened().iter().fold(found, |found, sum| found | sum.is_nan())
        },
    )
}
