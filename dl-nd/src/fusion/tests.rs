use super::program::{BLOCK_BYTES, block_len};
use super::*;
use crate::tensor::aligned::{self, AlignedBuf, CACHE_LINE_BYTES};
use crate::tensor::{Element, Expr, LazyTensor, Nd};
use dl_core::{Binary, Unary, buffers};
use ndarray::{Dim, Dimension, Ix1};
use std::sync::Arc;

/// The pairwise sum of at most [`CHUNK_LEN`] terms.
fn sum_of_slice(terms: &[f32]) -> f32 {
    let mut sum = PairwiseSum::new();
    sum.add_all(terms);
    combine_chunk_sums(std::iter::once(sum.total()), CHUNK_LEN, CHUNK_LEN.min(terms.len()))
}

fn unary(op: Unary, x: &Nd<f32, Ix1>) -> Nd<f32, Ix1> {
    Expr::Unary(op, x.clone()).of_shape(x.dim())
}

/// Whether the result of `op` is stored when its negative is computed, or summed.
fn is_stored(op: Unary, has_other_owner: bool, summed: bool) -> bool {
    let x = Nd::full(Dim(1 << 16), 0.25_f32);
    let inner = unary(op, &x);
    let outer = unary(Unary::Neg, &inner);
    // a weak reference is no owner
    let observer = Arc::downgrade(inner.lazy().expect("large tensors are lazy"));
    let kept = has_other_owner.then_some(inner);
    let lazy = outer.lazy().expect("large tensors are lazy");
    let right = -op.value(0.25_f32);
    if summed {
        let mean = sum(lazy, &[]) / (1 << 16) as f32;
        assert!((mean - right).abs() < 1e-6, "{mean}, not {right}");
    } else {
        assert!(compute(lazy).iter().all(|&found| found == right));
    }
    let computed = observer.upgrade().is_some_and(|lazy| lazy.computed().is_some());
    drop(kept);
    computed
}

#[test]
fn product_with_one_emits_no_instruction() {
    let x = Nd::full(Dim(1 << 16), -0.0_f32);
    let times_one = Expr::WithNumber { op: Binary::Mul, number: 1.0, left: true, x }.of_shape(Dim(1 << 16));
    let outer = unary(Unary::Neg, &times_one);
    let lazy = outer.lazy().expect("large tensors are lazy");
    assert_eq!(Program::of(&[lazy], false).0.instructions.len(), 1);
    let lazy = times_one.lazy().expect("large tensors are lazy");
    assert!(compute(lazy).iter().all(|found| found.to_bits() == (-0.0_f32).to_bits()));
}

#[test]
fn sum_with_negated_term_is_difference() {
    let [x, y] = [0.75, -0.0].map(|element| Nd::full(Dim(1 << 16), element));
    for (op, of_both, right) in [
        (Binary::Add, false, x[0] - y[0]),
        (Binary::Sub, false, x[0] + y[0]),
        (Binary::Add, true, -x[0] - y[0]),
        (Binary::Sub, true, -x[0] + y[0]),
    ] {
        let first = if of_both { unary(Unary::Neg, &x) } else { x.clone() };
        let found = both(op, &first, &unary(Unary::Neg, &y));
        assert_eq!(instructions(&found), if of_both { 2 } else { 1 });
        assert_eq!(found[77].to_bits(), right.to_bits());
    }
    assert_eq!(instructions(&both(Binary::Add, &unary(Unary::Neg, &x), &y)), 1);
}

#[test]
fn expensive_result_with_other_owner_is_stored() {
    for summed in [false, true] {
        assert!(is_stored(Unary::Tanh, true, summed));
        assert!(!is_stored(Unary::Tanh, false, summed), "it has no other owner");
        assert!(!is_stored(Unary::Square, true, summed), "it is cheap");
    }
}

#[test]
fn results_are_aligned_and_their_memory_is_recycled() {
    fn check<A: Element>() {
        let len = 12_345;
        let x = Nd::full(Dim(len), A::of(0.5));
        let computed = || {
            let sum = Expr::Binary(Binary::Add, x.clone(), x.clone()).of_shape(Dim(len));
            let elements = compute(sum.lazy().expect("large tensors are lazy"));
            assert!(elements.iter().all(|&found| found == A::of(1.0)));
            let slot = elements.as_ptr();
            assert_eq!((slot.align_offset(CACHE_LINE_BYTES), elements.len()), (0, len));
            (slot, elements)
        };
        let (slot, elements) = computed();
        drop(elements);
        let (again, elements) = computed();
        assert_eq!(slot, again, "it takes the memory of the one before");
        // returned memory is reused for any tensor
        drop(elements);
        let buffer: Vec<A> = buffers::take(len);
        assert!(
            (0..CACHE_LINE_BYTES + aligned::COLORS * aligned::COLOR_BYTES)
                .contains(&(slot.addr() - buffer.as_ptr().addr()))
        );
    }
    check::<f32>();
    check::<f64>();
}

#[test]
fn eager_broadcast_matches_program() {
    let shapes: [&[usize]; 11] =
        [&[], &[1], &[3], &[1, 3], &[2, 1], &[2, 3], &[4, 1, 1], &[4, 2, 1], &[4, 1, 3], &[1, 2, 3], &[4, 2, 3]];
    let tensor = |shape: &[usize], first: f32| {
        let count = shape.iter().product();
        let elements: Vec<f32> = (0..count).map(|i: usize| first + i as f32).collect();
        Nd::from(ndarray::ArrayD::from_shape_vec(shape, elements).expect("as many elements"))
    };
    for a in shapes {
        for b in shapes {
            let (a, b) = (tensor(a, 1.5), tensor(b, -0.25));
            let shape = crate::tensor::broadcast_shape::<ndarray::IxDyn>(a.shape(), b.shape()).expect("they broadcast");
            let [left, right] = [&a, &b].map(|x| (x.0.as_slice().expect("in row-major order"), x.shape()));
            let found = broadcast(Binary::Div, left, right, shape.slice());
            let (program, _) = Program::of(
                &[&LazyTensor::new(shape, 1, 0.5, Expr::Binary(Binary::Div, a.clone(), b.clone()), None)],
                false,
            );
            let mut results = [AlignedBuf::new(program.len())];
            program.run(&mut results);
            assert_eq!(found, results[0].elements(), "{:?} and {:?}", a.shape(), b.shape());
        }
    }
    assert_eq!(broadcast(Binary::Add, (&[1.0_f32], &[1, 1]), (&[], &[0, 1]), &[0, 1]), [0.0_f32; 0]);
}

/// The number of instructions of the program of this tensor.
fn instructions(y: &Nd<f32, Ix1>) -> usize {
    Program::of(&[y.lazy().expect("large tensors are lazy")], false).0.instructions.len()
}

fn both(op: Binary, a: &Nd<f32, Ix1>, b: &Nd<f32, Ix1>) -> Nd<f32, Ix1> {
    Expr::Binary(op, a.clone(), b.clone()).of_shape(a.dim())
}

#[test]
fn repeated_expression_is_computed_once() {
    let x = Nd::full(Dim(1 << 16), 0.25_f32);
    let once = both(Binary::Div, &unary(Unary::Tanh, &x), &unary(Unary::Exp, &x));
    let twice = both(Binary::Div, &unary(Unary::Tanh, &x), &unary(Unary::Tanh, &x));
    assert_eq!((instructions(&once), instructions(&twice)), (3, 2));
}

#[test]
fn nested_cheap_operations_fuse_with_same_bits() {
    use Binary::{Add, Div, Mul, Sub};
    let len = 5_000;
    let tensor = |seed: f32| Nd::from((0..len).map(|i| (i as f32 * seed).sin() / seed).collect::<Vec<f32>>());
    let [a, b, c, d] = &[0.37, 1.9, -2.3, 11.0].map(tensor);
    let element = |x: &Nd<f32, Ix1>, i: usize| x[i];
    for outer in [Add, Sub, Mul, Div] {
        for left in [Add, Sub, Mul, Div] {
            for right in [Add, Sub, Mul, Div] {
                let [chained_left, chained_right, on_both] = [
                    both(outer, &both(left, a, b), c),
                    both(outer, a, &both(right, b, c)),
                    both(outer, &both(left, a, b), &both(right, c, d)),
                ];
                let cheap = |inner: &[Binary]| outer != Div && inner.iter().any(|&inner| inner != Div);
                assert_eq!(instructions(&chained_left), if cheap(&[left]) { 1 } else { 2 });
                assert_eq!(instructions(&chained_right), if cheap(&[right]) { 1 } else { 2 });
                let apart = if outer == Div { 2 } else { [left, right].iter().filter(|&&inner| inner == Div).count() };
                assert_eq!(instructions(&on_both), 1 + apart);
                for i in (0..len).step_by(7) {
                    let [a, b, c, d] = [a, b, c, d].map(|x| element(x, i));
                    let right_one = [
                        outer.value(left.value(a, b), c),
                        outer.value(a, right.value(b, c)),
                        outer.value(left.value(a, b), right.value(c, d)),
                    ];
                    let found = [&chained_left, &chained_right, &on_both].map(|x| element(x, i));
                    assert_eq!(
                        found.map(f32::to_bits),
                        right_one.map(|right| if right.is_nan() { f32::NAN } else { right }.to_bits()),
                        "{outer:?} of {left:?}, {right:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn chain_of_three_cheap_operations_fuses_with_same_bits() {
    use Binary::{Add, Mul, Sub};
    let len = 5_000;
    let tensor = |seed: f32| Nd::from((0..len).map(|i| (i as f32 * seed).sin() / seed).collect::<Vec<f32>>());
    let [a, b, c, d] = &[0.37, 1.9, -2.3, 11.0].map(tensor);
    let op = [Add, Sub, Mul];
    for (first, next, last) in op.iter().flat_map(|&x| op.iter().flat_map(move |&y| op.map(|z| (x, y, z)))) {
        let inner = || both(first, a, b);
        let found = [
            both(last, &both(next, &inner(), c), d),
            both(last, &both(next, c, &inner()), d),
            both(last, d, &both(next, &inner(), c)),
            both(last, d, &both(next, c, &inner())),
        ];
        for (slot, found) in found.iter().enumerate() {
            assert_eq!(instructions(found), 1);
            for i in (0..len).step_by(7) {
                let inner = first.value(a[i], b[i]);
                let middle = if slot % 2 == 0 { next.value(inner, c[i]) } else { next.value(c[i], inner) };
                let right = if slot < 2 { last.value(middle, d[i]) } else { last.value(d[i], middle) };
                assert_eq!(found[i].to_bits(), right.to_bits(), "{first:?} in {next:?} in {last:?}, {slot}");
            }
        }
    }
}

#[test]
fn exp_of_negative_fuses_unless_negative_has_other_use() {
    let x = Nd::from((0..5_000).map(|i| (i as f32 * 0.37).sin() * 9.0).collect::<Vec<f32>>());
    let negative = unary(Unary::Neg, &x);
    let decay = unary(Unary::Exp, &negative);
    assert_eq!(instructions(&both(Binary::Div, &decay, &negative)), 3);
    assert_eq!(instructions(&decay), 1);
    assert!((0..x.len()).all(|i| decay[i].to_bits() == Unary::Exp.value(-x[i]).to_bits()));
}

#[test]
fn equal_lazy_tensors_share_result() {
    let x = Nd::full(Dim(1 << 16), 0.25_f32);
    let [first, second] = [(); 2].map(|()| unary(Unary::Tanh, &x));
    let quotient = both(Binary::Div, &first, &both(Binary::Add, &x, &second));
    compute(quotient.lazy().expect("large tensors are lazy"));
    drop(quotient);
    for kept in [&first, &second] {
        assert!(kept.lazy().is_none(), "it has another owner");
        assert_eq!(kept[77], Unary::Tanh.value(0.25));
    }
    assert_eq!(first.0.as_ptr(), second.0.as_ptr());
}

#[test]
fn value_with_other_use_is_not_inlined() {
    let x = Nd::full(Dim(1 << 16), 0.25_f32);
    let square = both(Binary::Mul, &x, &x);
    let read_twice = both(Binary::Sub, &both(Binary::Add, &square, &x), &unary(Unary::Exp, &square));
    // the square, the exponential, and the sum fused with the difference
    assert_eq!(instructions(&read_twice), 3);
}

#[test]
fn sum_is_computed_in_one_run_with_others() {
    let x = Nd::full(Dim(1 << 16), 0.25_f32);
    let (summed, other) = (unary(Unary::Exp, &x), unary(Unary::Neg, &x));
    let [lazy, beside] = [&summed, &other].map(|x| x.lazy().expect("large tensors are lazy"));
    let alone = sum(unary(Unary::Exp, &x).lazy().expect("large tensors are lazy"), &[]);
    assert_eq!(sum(lazy, &[beside]).to_bits(), alone.to_bits());
    assert!(other.lazy().is_none(), "it has been computed");
    assert_eq!(other[1234], -0.25);
}

/// Which operands were computed before must not change a bit, not even of a NaN.
#[test]
fn earlier_realization_changes_no_bit() {
    use Binary::{Add, Div, Max, Min, Mul, Pow, Sub};
    // the last one is a signaling NaN
    let nans = [0x7fc0_0000, 0xffc0_0000, 0x7fc1_2345, 0xffc5_4321, 0x7fa0_0000].map(f32::from_bits);
    let kinds = [&[1.0, -0.0, 1.5, f32::INFINITY, -f32::INFINITY], &nans[..]].concat();
    // every combination of four, in whole vectors and in the remainder
    let len = kinds.len().pow(4) + 13;
    let tensor = |slot: u32| {
        let element = |i: usize| kinds[i / kinds.len().pow(slot) % kinds.len()];
        Nd::from((0..len).map(element).collect::<Vec<f32>>())
    };
    let [a, b, c, d] = &[0, 1, 2, 3].map(tensor);
    let inner = |op: Option<Binary>, x: &Nd<f32, Ix1>, y: &Nd<f32, Ix1>| match op {
        None => unary(Unary::Neg, x),
        Some(op) => both(op, x, y),
    };
    let inlined = [None, Some(Add), Some(Sub), Some(Mul), Some(Max)];
    for outer in [Add, Sub, Mul, Div, Max, Min, Pow] {
        for (left, right) in inlined.iter().flat_map(|&left| inlined.map(|right| (left, right))) {
            let [together, first, second, apart] =
                [(false, false), (true, false), (false, true), (true, true)].map(|before| {
                    let (left, right) = (inner(left, a, b), inner(right, c, d));
                    for (operand, before) in [(&left, before.0), (&right, before.1)] {
                        if let Some(lazy) = operand.lazy().filter(|_| before) {
                            lazy.compute();
                        }
                    }
                    both(outer, &left, &right).0.iter().map(|element| element.to_bits()).collect::<Vec<_>>()
                });
            assert!([first, second, apart].iter().all(|bits| *bits == together), "{outer:?} of {left:?}, {right:?}");
            let lazy = both(outer, &inner(left, a, b), &inner(right, c, d));
            let summed = sum(lazy.lazy().expect("large tensors are lazy"), &[]);
            assert_eq!(summed.to_bits(), sum_of_slice(lazy.0.as_slice().expect("in row-major order")).to_bits());
        }
    }
}

/// A NaN at any position becomes the canonical one, and nothing else changes; the same holds for
/// eager operations.
#[test]
fn nan_is_canonicalized() {
    /// Also in the first of several rounds.
    fn check<A: Element>(other: A) {
        let bits = |x: A| (x.is_nan(), x.is_sign_negative(), x.to_f64().map(f64::to_bits));
        for len in (0..70).chain([128, 200, 260]) {
            for slot in 0..len {
                let mut numbers: Vec<A> = (0..len).map(|i| A::of(i as f64)).collect();
                numbers[slot] = other;
                loops::canonicalize_nans(&mut numbers);
                for (i, x) in numbers.into_iter().enumerate() {
                    let right = if i == slot { A::nan() } else { A::of(i as f64) };
                    assert_eq!(bits(x), bits(right), "{i} of {len}");
                }
            }
        }
    }
    let other = f32::from_bits(0xffc5_4321);
    // in one of several results, and where infinities of both signs are added
    let mut results = [[1.0; 70], [f32::INFINITY; 70], [f32::NEG_INFINITY; 70]];
    assert!(!loops::has_nan(results[..2].iter().map(|result| &result[..])));
    loops::canonicalize_nans(&mut results.as_flattened_mut()[70..]);
    assert_eq!(results[2], [f32::NEG_INFINITY; 70]);
    results[1][69] = other;
    assert!(loops::has_nan(results[..2].iter().map(|result| &result[..])));
    check(other);
    check(f64::from_bits(0xfff8_1234_5678_9abc));
    let x = [other; 5];
    let mut each = x;
    super::map_in_place(Unary::Neg, &mut each);
    let small = [
        each.to_vec(),
        super::unary(Unary::Neg, &x),
        super::binary(Binary::Max, &x, &x),
        super::with_number(Binary::Max, &x, 1.0, true),
    ];
    assert!(small.iter().flatten().all(|x| x.to_bits() == f32::NAN.to_bits()), "{small:?}");
}

/// Numbers between −4 and 4, including ±0.
fn some_numbers<A: Element>() -> Vec<A> {
    (-1000..=1000).map(|i| A::of(f64::from(i) * 0.004)).chain([A::neg_zero()]).collect()
}

/// An element has the same bits, computed separately or with others.
#[test]
fn element_matches_scalar_operation() {
    fn check<A: Element>() {
        let x = some_numbers::<A>();
        let mut y = x.clone();
        let same = |a: A, b: A| a == b && a.is_sign_negative() == b.is_sign_negative() || a.is_nan() && b.is_nan();
        for &op in Unary::ALL {
            loops::unary(op)([&x; 4], &mut y);
            for (&x, &y) in x.iter().zip(&y) {
                assert!(same(y, op.value(x)), "{} of {x} is {y} and {}", op.name(), op.value(x));
            }
        }
        let b: Vec<A> = x.iter().rev().copied().collect();
        for &op in Binary::ALL {
            loops::binary(op)([&x, &b, &b, &b], &mut y);
            for ((&a, &b), &y) in x.iter().zip(&b).zip(&y) {
                assert!(same(y, op.value(a, b)), "{} of {a} and {b} is {y} and {}", op.name(), op.value(a, b));
            }
        }
        let mut each = x.clone();
        super::map_in_place(Unary::Exp, &mut each);
        assert!(x.iter().zip(each).all(|(&x, y)| y == Unary::Exp.value(x)));
    }
    check::<f32>();
    check::<f64>();
}

/// The number of instructions of these tensors as one program, and their bits.
fn computed_together(tensors: &[&Nd<f32, Ix1>]) -> (usize, Vec<Vec<u32>>) {
    let tensors: Vec<&LazyTensor<f32, Ix1>> =
        tensors.iter().map(|x| &**x.lazy().expect("large tensors are lazy")).collect();
    let count = Program::of(&tensors, false).0.instructions.len();
    let bits = |elements: &crate::tensor::Storage<f32, Ix1>| elements.iter().map(|x| x.to_bits()).collect();
    (count, compute_all(&tensors).iter().map(bits).collect())
}

/// Numbers of all kinds, depending on the seed.
fn all_kinds(len: usize, seed: usize) -> Nd<f32, Ix1> {
    let kinds = [-0.0, f32::INFINITY, f32::NAN, -f32::NAN, 1e-40, f32::MAX];
    let number = |i: usize| if i % 11 == seed { kinds[i / 11 % 6] } else { ((i * seed) as f32 * 0.37).sin() };
    Nd::from((0..len).map(number).collect::<Vec<f32>>())
}

fn bits_of(len: usize, value: impl Fn(usize) -> f32) -> Vec<u32> {
    (0..len).map(|i| if value(i).is_nan() { f32::NAN } else { value(i) }.to_bits()).collect()
}

#[test]
fn products_with_common_factor_merge_with_same_bits() {
    use Binary::Mul;
    // several chunks; the last block is partial
    let len = 2 * CHUNK_LEN + 77;
    let [x, a, b, c, d] = &[1, 2, 3, 4, 5].map(|seed| all_kinds(len, seed));
    let products = [both(Mul, x, a), both(Mul, b, x), both(Mul, x, c), both(Mul, d, x)];
    let right = [a, b, c, d].map(|y| bits_of(len, |i| x[i] * y[i]));
    let [first, second, third, fourth] = &products;
    assert!(computed_together(&[first]) == (1, right[..1].to_vec()));
    assert!(computed_together(&[first, second]) == (1, right[..2].to_vec()));
    assert!(computed_together(&[first, second, third]) == (1, right[..3].to_vec()));
    assert!(computed_together(&[first, second, third, fourth]) == (2, right.to_vec()));
    // a factor that is computed later: the products are as many instructions as before
    let late = both(Mul, x, &unary(Unary::Exp, first));
    let (count, found) = computed_together(&[first, &late]);
    assert!((count, &found[0]) == (3, &right[0]));
    assert!(found[1] == bits_of(len, |i| x[i] * Unary::Exp.value(x[i] * a[i])));
}

/// Of a delta with several slopes, and in nests of three operations.
#[test]
fn strong_products_fuse_with_same_bits() {
    use Binary::{Add, Mul, StrongMul, Sub};
    let len = CHUNK_LEN + 77;
    let [x, a, b, c] = &[1, 2, 3, 4].map(|seed| all_kinds(len, seed));
    let products = [a, b, c].map(|y| both(StrongMul, x, y));
    let right = [a, b, c].map(|y| bits_of(len, |i| StrongMul.value(x[i], y[i])));
    assert!(right.concat() != [a, b, c].map(|y| bits_of(len, |i| x[i] * y[i])).concat(), "the kinds differ");
    for count in 1..=3 {
        let some: Vec<_> = products[..count].iter().collect();
        assert!(computed_together(&some) == (1, right[..count].to_vec()), "{count}");
    }
    // a plain product is another instruction
    assert_eq!(computed_together(&[&products[0], &both(Mul, x, b)]).0, 2);
    for inner in [Add, Sub, Mul, StrongMul] {
        for outer in [Add, Sub, Mul, StrongMul] {
            for slot in 0..4 {
                let first = both(StrongMul, x, a);
                let next = if slot % 2 == 0 { both(inner, &first, b) } else { both(inner, b, &first) };
                let last = if slot < 2 { both(outer, &next, c) } else { both(outer, c, &next) };
                let value = |i: usize| {
                    let (first, b, c) = (StrongMul.value(x[i], a[i]), b[i], c[i]);
                    let next = if slot % 2 == 0 { inner.value(first, b) } else { inner.value(b, first) };
                    if slot < 2 { outer.value(next, c) } else { outer.value(c, next) }
                };
                let pair = both(outer, &both(inner, x, b), &both(StrongMul, c, a));
                let of_pair = |i: usize| outer.value(inner.value(x[i], b[i]), StrongMul.value(c[i], a[i]));
                drop((first, next));
                assert!(computed_together(&[&last]).1 == [bits_of(len, value)], "{inner:?}, {outer:?}, {slot}");
                assert!(computed_together(&[&pair]).1 == [bits_of(len, of_pair)], "{inner:?}, {outer:?}, a pair");
            }
        }
    }
    // the product and its reader
    let more = both(Sub, &both(Add, &products[0], b), c);
    let value = bits_of(len, |i| StrongMul.value(x[i], a[i]) + b[i] - c[i]);
    assert!(computed_together(&[&products[0], &more]) == (1, vec![right[0].clone(), value]));
}

#[test]
fn product_merges_with_its_user_with_same_bits() {
    use Binary::{Add, Mul, Sub};
    let len = CHUNK_LEN + 5;
    let [a, b, c, d] = &[1, 2, 3, 4].map(|seed| all_kinds(len, seed));
    let product = both(Mul, a, b);
    let right = bits_of(len, |i| a[i] * b[i]);
    for next in [Add, Sub, Mul] {
        for last in [Add, Sub, Mul] {
            for slot in 0..4 {
                let inner = if slot % 2 == 0 { both(next, &product, c) } else { both(next, c, &product) };
                let outer = if slot < 2 { both(last, &inner, d) } else { both(last, d, &inner) };
                let value = |i: usize| {
                    let (p, c, d) = (a[i] * b[i], c[i], d[i]);
                    let inner = if slot % 2 == 0 { next.value(p, c) } else { next.value(c, p) };
                    if slot < 2 { last.value(inner, d) } else { last.value(d, inner) }
                };
                let found = computed_together(&[&product, &outer]);
                let right = (1, vec![right.clone(), bits_of(len, value)]);
                assert!(found == right, "{next:?} in {last:?}, {slot}");
            }
        }
    }
    // the other operand must be available
    let late = both(Sub, &both(Mul, &product, &unary(Unary::Exp, &product)), d);
    assert_eq!(computed_together(&[&product, &late]).0, 3);
}

#[test]
fn large_results_have_different_page_colors() {
    let x = Nd::full(Dim(1 << 16), 0.5_f32);
    let tensors = [Unary::Exp, Unary::Tanh, Unary::Neg, Unary::Sqrt].map(|op| unary(op, &x));
    let tensors = tensors.each_ref().map(|x| &**x.lazy().expect("large tensors are lazy"));
    let computed = compute_all(&tensors);
    let mut broadcasts: Vec<usize> =
        computed.iter().map(|elements| elements.as_ptr()).chain([x.0.as_ptr()]).map(aligned::color_of).collect();
    broadcasts.sort_unstable();
    broadcasts.dedup();
    assert_eq!(broadcasts.len(), 5);
}

/// A large tensor of these numbers with a partial last block.
fn long<A: Element>(number: impl Fn(usize) -> f64) -> Nd<A, Ix1> {
    let len = (1 << 19) + 77;
    Nd::from_vec(len, (0..len).map(|i| A::of(number(i))).collect()).expect("one element each")
}

/// Scratch memory keeps the contents of an earlier program, of either element type.
#[test]
fn registers_may_be_uninitialized() {
    fn bits<A: Element>(x: &Nd<A, Ix1>) -> (Vec<Option<u64>>, Option<u64>) {
        let apply = |op, x: &Nd<A, Ix1>| Expr::Unary(op, x.clone()).of_shape(x.dim());
        let plus = Expr::WithNumber { op: Binary::Add, number: A::of(0.5), left: true, x: apply(Unary::Exp, x) };
        let y = Expr::Binary(Binary::Mul, apply(Unary::Tanh, &plus.of_shape(x.dim())), x.clone()).of_shape(x.dim());
        let lazy = y.lazy().expect("large tensors are lazy");
        let sum = sum(lazy, &[]);
        let bits = |x: A| x.to_f64().map(f64::to_bits);
        (compute(lazy).iter().map(|&x| bits(x)).collect(), bits(sum))
    }
    let [x, nan] = [long(|i| (i % 97) as f64 / 97.0), long(|_| f64::NAN)];
    let before = bits::<f32>(&x);
    bits::<f64>(&long(|_| f64::NAN));
    bits::<f32>(&nan);
    assert!(bits::<f32>(&x) == before);
}

/// For any register width, every line of the next block is prefetched once per block.
#[test]
fn next_block_is_prefetched_completely() {
    let x = long::<f32>(|i| i as f64);
    let y = both(Binary::Mul, &unary(Unary::Tanh, &unary(Unary::Exp, &x)), &x);
    let (program, _) = Program::of(&[y.lazy().expect("large tensors are lazy")], false);
    let times = [16, 32, 64].map(|register_bytes| {
        let (mut row, mut done) = (0, vec![0; program.instructions.len()]);
        let spanes = program.plan_prefetch(register_bytes);
        for span in &spanes {
            assert_eq!((span.rows.start, span.from), (row, done[span.instruction]));
            row = span.rows.end;
            done[span.instruction] += span.len;
        }
        assert_eq!(row, BLOCK_BYTES / CACHE_LINE_BYTES);
        assert!(done.iter().all(|&done| done == block_len::<f32>()));
        spanes.len()
    });
    assert!(
        times[0] == times[1] && times[1] < times[2],
        "more lines are asked for at once into the second cache: {times:?}"
    );
}
