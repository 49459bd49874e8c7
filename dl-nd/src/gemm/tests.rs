use super::dispatch::{InstructionSet, KernelTable};
use super::pack::pack_panels;
use super::partition::*;
use super::tiling::{Packing, is_shared, multiply_blocks};
use super::*;
use crate::init;
use crate::tensor::aligned::first_aligned;
use ndarray::{Array2, ArrayView1, Axis, Ix2, Slice, s};
use rand::Rng;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// The kernels for this element type that this processor can run.
fn all_kernels<A: Element>() -> Vec<&'static KernelTable<A>> {
    let mut kernels = vec![A::per_element(InstructionSet::Portable)];
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            kernels.push(A::per_element(InstructionSet::Avx2));
        }
        if is_x86_feature_detected!("avx512f") {
            kernels.push(A::per_element(InstructionSet::Avx512));
        }
    }
    kernels
}

/// A sample of `all_kernels`: in double precision the widest one, as both precisions share the code
/// around the kernels. `DL_SWEEP=1` takes all.
fn some_kernels<A: Element>() -> Vec<&'static KernelTable<A>> {
    let mut kernels = all_kernels();
    if size_of::<A>() == 8 && std::env::var_os("DL_SWEEP").is_none_or(|value| value == "0") {
        kernels.drain(..kernels.len() - 1);
    }
    kernels
}

/// A matrix of this shape in some layout: by rows, by columns, reversed, or with gaps.
fn in_layout<A: Element>(rows: usize, columns: usize, how: usize, rng: &mut impl Rng) -> Array2<A> {
    let mut draw = |shape: [usize; 2]| Array2::from_shape_simple_fn(shape, || A::of(rng.random_range(-1.0..1.0)));
    match how % 4 {
        0 => draw([rows, columns]),
        1 => draw([columns, rows]).reversed_axes(),
        2 => draw([2 * rows, 3 * columns]).slice_move(s![..;2, ..;3]),
        _ => draw([rows, columns]).slice_move(s![..;-1, ..;-1]),
    }
}

fn by_loops<A: Element>(alpha: A, a: &Array2<A>, b: &Array2<A>, beta: A, c: &Array2<A>) -> Array2<f64> {
    let number = |x: A| x.to_f64().expect("a number");
    Array2::from_shape_fn(c.dim(), |(i, j)| {
        let sum: f64 = (0..a.ncols()).map(|k| number(a[[i, k]]) * number(b[[k, j]])).sum();
        let addend = if beta == A::zero() { 0.0 } else { number(beta) * number(c[[i, j]]) };
        number(alpha) * sum + addend
    })
}

fn run<A: Element>(kernels: &KernelTable<A>, alpha: A, a: &Array2<A>, b: &Array2<A>, beta: A, c: &mut Array2<A>) {
    let (rows, depth, columns) = (a.nrows(), a.ncols(), b.ncols());
    let (row, column) = (c.strides()[0], c.strides()[1]);
    let [a, b] = [a, b].map(|x| MatrixRef::row(&x.view()).raw);
    let c = RawMatrix { start: c.as_mut_ptr(), row, column };
    let addend = c.as_const();
    // SAFETY: the arrays have these shapes
    unsafe {
        multiply(kernels, &Gemm { rows, depth, columns, alpha, a, b, beta, addend, c, epilogue: Epilogue::None })
    };
}

fn agrees_with_loops<A: Element>(epsilon: f64) {
    let mut rng = init::rng(5);
    // the last ones have several k-blocks, and several blocks with packed rows
    let mut shapes = vec![[0, 3, 2], [3, 0, 2], [2, 3, 0], [1, 1, 1], [25, 130, 70], [30, 1100, 70], [400, 11, 260]];
    let small = [1, 2, 3, 5, 6, 7, 8, 9, 13, 16, 17, 20, 31, 48, 63, 64, 65];
    for _ in 0..60 {
        shapes.push([0; 3].map(|_| small[rng.random_range(0..small.len())]));
    }
    for (round, [m, k, n]) in shapes.into_iter().enumerate() {
        let mut how = [0; 3].map(|_| rng.random_range(0..4));
        if m == 400 {
            how[0] = 1;
        }
        let (a, b) = (in_layout::<A>(m, k, how[0], &mut rng), in_layout::<A>(k, n, how[1], &mut rng));
        let (alpha, beta) = [(1.0, 0.0), (1.0, 1.0), (-0.5, 1.0), (2.0, -3.0)][round % 4];
        let (alpha, beta) = (A::of(alpha), A::of(beta));
        let mut c = in_layout::<A>(m, n, how[2], &mut rng);
        if beta == A::zero() {
            c.fill(A::nan());
        }
        let right = by_loops(alpha, &a, &b, beta, &c);
        for kernels in all_kernels::<A>() {
            let mut found = c.clone();
            run(kernels, alpha, &a, &b, beta, &mut found);
            for (found, right) in found.iter().zip(&right) {
                let error = (found.to_f64().expect("a number") - right).abs();
                assert!(error <= epsilon * (k as f64 + 4.0), "{m}x{k}x{n}, {how:?}: {found} instead of {right}");
            }
        }
    }
}

#[test]
fn all_kernels_agree_with_loops() {
    agrees_with_loops::<f32>(f64::from(f32::EPSILON));
    agrees_with_loops::<f64>(f64::EPSILON);
}

/// Neither the layout, nor the tiling, nor the other elements change an element.
#[test]
fn element_is_independent_of_layout_and_tiling() {
    let mut rng = init::rng(6);
    let (a, b) = (in_layout::<f32>(60, 600, 0, &mut rng), in_layout::<f32>(600, 150, 0, &mut rng));
    for kernels in all_kernels::<f32>() {
        let mut whole = Array2::zeros([60, 150]);
        run(kernels, 1.0, &a, &b, 0.0, &mut whole);
        for (rows, columns) in [(0..7, 0..150), (10..60, 3..5), (20..37, 60..131), (0..60, 80..143), (3..5, 7..8)] {
            if columns.len() == 1 {
                continue; // a vector
            }
            let part_of_a = a.slice(s![rows.clone(), ..]).to_owned();
            let part_of_b = b.slice(s![.., columns.clone()]).to_owned();
            let right = whole.slice(s![rows, columns]);
            for how in 0..4 {
                let turn = |x: &Array2<f32>| if how & 1 == 0 { x.clone() } else { x.t().to_owned().reversed_axes() };
                let mut part = Array2::zeros(right.dim());
                if how & 2 != 0 {
                    part = Array2::zeros((right.ncols(), right.nrows())).reversed_axes();
                }
                run(kernels, 1.0, &turn(&part_of_a), &turn(&part_of_b), 0.0, &mut part);
                assert_eq!(part, right);
            }
        }
    }
}

/// Tiles of few rows are wider: an accumulator waits for its previous addition, and it takes eight
/// accumulators to hide the latency of two multiply-adds per cycle.
#[test]
fn tiles_of_few_rows_have_enough_accumulators() {
    fn sums<A: Element>() {
        for kernels in all_kernels::<A>().into_iter().filter(|kernels| kernels.tiles[0].len() == 8) {
            let sums = [1, 2, 3, 4, 5, 6, 100].map(|rows| rows.min(6) * kernels.tile_columns_for(rows) / kernels.lanes);
            assert_eq!(sums, [8, 8, 12, 12, 10, 12, 12]);
            assert_eq!(kernels.tile_columns_for(100), kernels.tile_columns());
        }
    }
    sums::<f32>();
    sums::<f64>();
}

/// Panels are packed if their rows are not aligned to cache lines, which changes no element.
#[test]
fn unaligned_rows_are_packed_with_same_bits() {
    assert!(is_split(4, 1024, 64, 96) && is_split(0, 1000, 64, 96));
    assert!(!is_split(64, 1024, 64, 96) && !is_split(4, 1024, 64, 95) && !is_split(4, 1024, 32, 96));
    let mut rng = init::rng(11);
    let (a, b) = (in_layout::<f32>(100, 520, 0, &mut rng), in_layout::<f32>(520, 70, 0, &mut rng));
    for kernels in all_kernels::<f32>() {
        // aligned, and unaligned
        let products = [0, 1, 7].map(|after| {
            let mut padded = Array2::zeros([520, 96]);
            let from = first_aligned(padded.as_slice().expect("it lies in rows")) + after;
            padded.slice_mut(s![.., from..from + 70]).assign(&b);
            let b = padded.slice_move(s![.., from..from + 70]);
            assert_eq!(is_split(b.as_ptr().addr(), 4 * 96, 64, 100), after > 0);
            let mut product = Array2::zeros([100, 70]);
            run(kernels, 1.0, &a, &b, 0.0, &mut product);
            product
        });
        assert!(products.iter().all(|product| *product == products[0]));
    }
}

/// Panels are packed if their rows are pages apart, or quarters of a page with narrow registers,
/// which changes no element.
#[test]
fn distant_rows_are_packed_with_same_bits() {
    let mut rng = init::rng(10);
    let (a, b) = (in_layout::<f32>(260, 20, 0, &mut rng), in_layout::<f32>(20, 1030, 0, &mut rng));
    assert!(is_scattered(256, 260, 4 * 1030) && !is_scattered(256, 255, 4 * 1030) && !is_scattered(256, 260, 4 * 260));
    assert!(is_scattered(64, 64, 1024) && !is_scattered(64, 63, 1024) && !is_scattered(64, 64, 1023));
    assert!(!is_scattered(128, 260, 4095) && is_scattered(128, 260, 4096));
    for kernels in all_kernels::<f32>() {
        // rows of four kilobytes and of one
        for len in [1030, 260] {
            let b = b.slice(s![.., ..len]).to_owned();
            let mut whole = Array2::zeros([260, len]);
            run(kernels, 1.0, &a, &b, 0.0, &mut whole);
            for from in (0..len - 130).step_by(450).chain([len - 130]) {
                let columns = s![.., from..from + 130];
                let mut part = Array2::zeros([260, 130]);
                run(kernels, 1.0, &a, &b.slice(columns).to_owned(), 0.0, &mut part);
                assert_eq!(part, whole.slice(columns));
            }
        }
    }
}

/// Tasks that divide the rows of a transposed matrix share one packed `b` with a partial last
/// panel. No element differs from the product of few rows.
#[test]
fn tasks_of_transposed_product_share_packed_panels() {
    let copies = |a, b| Packing { a, b };
    assert!(is_one_copy(copies(true, true), 128, 4 * 270) && is_one_copy(copies(true, true), 512, 1 << 13));
    assert!(!is_one_copy(copies(false, true), 128, 4 * 270) && !is_one_copy(copies(true, false), 128, 4 * 270));
    assert!(!is_one_copy(copies(true, true), 513, 4 * 270) && !is_one_copy(copies(true, true), 512, (1 << 13) + 1));
    check_shared_panels::<f32>();
    check_shared_panels::<f64>();
}

fn check_shared_panels<A: Element>() {
    let mut rng = init::rng(13);
    for kernels in some_kernels::<A>() {
        for how in [0, 1] {
            // tasks of different heights
            let (a, b) = (in_layout::<A>(703, 128, 1, &mut rng), in_layout::<A>(128, 270, how, &mut rng));
            let (alpha, beta) = (A::of(-0.01), A::of([1.0, -0.5][how]));
            let mut whole = in_layout::<A>(703, 270, 0, &mut rng);
            let before = whole.clone();
            run(kernels, alpha, &a, &b, beta, &mut whole);
            for from in (0..703).step_by(19 * 5) {
                let rows = s![from..703.min(from + 19), ..];
                let mut part = before.slice(rows).to_owned();
                run(kernels, alpha, &a.slice(rows).to_owned(), &b, beta, &mut part);
                assert_eq!(part, whole.slice(rows));
            }
        }
    }
}

#[test]
fn packed_panels_are_consecutive() {
    let mut rng = init::rng(14);
    let b = in_layout::<f32>(50, 150, 0, &mut rng);
    for kernels in all_kernels::<f32>() {
        let wide = kernels.tile_columns();
        let mut scratch = vec![f32::NAN; 50 * 150_usize.next_multiple_of(wide)];
        // SAFETY: the matrix has this size
        let panels = unsafe { pack_panels(kernels, MatrixRef::row(&b.view()).raw, 50, 150, wide, &mut scratch) };
        for (row, column) in (0..50).flat_map(|row| (0..150).map(move |column| (row, column))) {
            let first = column / wide * wide;
            let place = (panels.at(row, first).start.addr() - scratch.as_ptr().addr()) / size_of::<f32>();
            assert_eq!(scratch[place + column - first], b[[row, column]]);
        }
    }
}

/// If several panels are packed at a time and rows pass them strip by strip, no element differs
/// from that of a single panel.
#[test]
fn panel_groups_give_same_bits() {
    let several = Packing { a: false, b: true }.panels(600 * 64 * 4);
    assert!(several == 3 && Packing { a: true, b: true }.panels(600 * 64 * 4) == 1);
    let mut rng = init::rng(12);
    // two groups of panels with AVX-512, and a shorter last strip
    let (a, b) = (in_layout::<f32>(260, 600, 0, &mut rng), in_layout::<f32>(600, 270, 1, &mut rng));
    for kernels in all_kernels::<f32>() {
        for (how, beta) in [(0, 0.0), (0, 1.0), (2, -0.5)] {
            let mut whole = in_layout::<f32>(260, 270, how, &mut rng);
            let before = whole.clone();
            run(kernels, 1.0, &a, &b, beta, &mut whole);
            for from in [0, 30, 120, 240] {
                let columns = s![.., from..from + 30];
                let mut part = before.slice(columns).to_owned();
                run(kernels, 1.0, &a, &b.slice(columns).to_owned(), beta, &mut part);
                assert_eq!(part, whole.slice(columns));
            }
        }
    }
}

/// If many rows are divided into tasks that share a packed `b`, no element differs from the product
/// of few rows.
#[test]
fn many_rows_share_packed_panels() {
    check_many_rows::<f32>();
    check_many_rows::<f64>();
}

fn check_many_rows<A: Element>() {
    let mut rng = init::rng(15);
    // two k-blocks, a narrow last panel, and columns that are packed for all kernels
    let (a, b) = (in_layout::<A>(520, 520, 0, &mut rng), in_layout::<A>(520, 90, 1, &mut rng));
    for kernels in some_kernels::<A>() {
        let copies = Packing { a: false, b: true };
        assert_eq!(is_tall(kernels, copies, 520, 520, 90 * size_of::<A>()), kernels.slices.is_empty());
        assert!(!is_tall(kernels, copies, 500, 520, 720) && !is_tall(kernels, copies, 520, 520, 9000));
        for (how, beta) in [(0, 0.0), (2, -0.5)] {
            let before = in_layout::<A>(520, 90, how, &mut rng);
            let (mut whole, mut part) = (before.clone(), before.slice(s![100..140, ..]).to_owned());
            run(kernels, A::of(1.0), &a, &b, A::of(beta), &mut whole);
            run(kernels, A::of(1.0), &a.slice(s![100..140, ..]).to_owned(), &b, A::of(beta), &mut part);
            assert_eq!(part, whole.slice(s![100..140, ..]));
        }
    }
}

/// If a panel is k-sliced, no element differs from the product of few rows, and the epilogue is
/// applied once.
#[test]
fn k_slices_give_same_bits() {
    check_k_slices::<f32>();
    check_k_slices::<f64>();
}

fn check_k_slices<A: Element>() {
    let mut rng = init::rng(13);
    // several slices of one and of two k-blocks; several panels, the last one narrow; a number of
    // rows that is no multiple of a tile
    for [m, k, n] in [[96, 129, 64], [98, 512, 64], [101, 600, 131]] {
        // with distant rows, and by columns
        let columns = in_layout::<A>(k, n + 300, 0, &mut rng).slice_move(s![.., 7..7 + n]);
        for b in [columns, in_layout::<A>(k, n, 1, &mut rng)] {
            let a = in_layout::<A>(m, k, 0, &mut rng);
            // contiguous, with gaps between rows, and by columns
            let gaps = in_layout::<A>(m, n + 9, 0, &mut rng).slice_move(s![.., 5..5 + n]);
            let all = [
                (gaps, -0.5, true),
                (in_layout(m, n, 0, &mut rng), 0.0, true),
                (in_layout(m, n, 1, &mut rng), 1.0, false),
            ];
            for ((before, beta, in_rows), kernels) in
                all.iter().flat_map(|before| some_kernels::<A>().into_iter().map(move |kernels| (before, kernels)))
            {
                assert!(kernels.slices.is_empty() || kernels.slices.len() == kernels.tile_rows());
                let of = |rows: std::ops::Range<usize>, epilogue| {
                    let mut all = before.clone();
                    let mut part = all.slice_mut(s![rows.clone(), ..]);
                    let (a, row, column) = (a.slice(s![rows.clone(), ..]), part.strides()[0], part.strides()[1]);
                    let (a, b) = (MatrixRef::row(&a).raw, MatrixRef::row(&b.view()).raw);
                    let (rows, depth, columns, alpha, beta) = (rows.len(), k, n, A::of(-1.5), A::of(*beta));
                    let c = RawMatrix { start: part.as_mut_ptr(), row, column };
                    let product = Gemm { rows, depth, columns, alpha, a, b, beta, addend: c.as_const(), c, epilogue };
                    let copies = Packing { a: false, b: true };
                    // SAFETY: the arrays have these shapes
                    unsafe { multiply_blocks(kernels, &product, copies) };
                    (part.to_owned(), copies.is_k_sliced(kernels, &product))
                };
                let (whole, sliced) = of(0..m, Epilogue::Relu);
                let fits = m * k * size_of::<A>() <= 1 << 19;
                assert_eq!(sliced, kernels.lanes * size_of::<A>() == 64 && *in_rows && fits);
                for from in [0, 10, m - 9] {
                    let (mut part, sliced) = of(from..from + 9, Epilogue::None);
                    part.mapv_inplace(|x| x.max(A::zero()));
                    assert!(!sliced && part == whole.slice(s![from..from + 9, ..]));
                }
            }
        }
    }
}

/// If strips are shared among threads, whatever is packed, the bits are those of one thread, and no
/// element differs from the product of few rows.
#[test]
fn shared_strips_give_same_bits() {
    check_shared_strips::<f32>();
    check_shared_strips::<f64>();
}

fn check_shared_strips<A: Element>() {
    // seven strips, the last one shorter, and two k-blocks, added in order or tile by tile
    let (m, k) = (300, 600);
    let mut rng = init::rng(16);
    let pool = |threads| ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    let (one, two) = (pool(1), pool(2));
    for kernels in some_kernels::<A>() {
        let n = kernels.tile_columns() + 7;
        assert!(
            is_shared(kernels, m, k / 2, kernels.tile_columns()) || !std::ptr::eq(kernels, dispatch::kernels::<A>())
        );
        for copies in [(false, false), (false, true), (true, false), (true, true)].map(|(a, b)| Packing { a, b }) {
            let a = in_layout::<A>(m, k, copies.a.into(), &mut rng);
            let b = in_layout::<A>(k, n, copies.b.into(), &mut rng);
            for ((how, beta), epilogue) in
                [((0, 0.0), Epilogue::Relu), ((1, 1.0), Epilogue::None), ((2, -0.5), Epilogue::Relu)]
            {
                let before = in_layout::<A>(m, n, how, &mut rng);
                let rows_of = |pool: &ThreadPool, from: usize, rows: usize| {
                    let (mut c, a) = (before.clone(), a.slice(s![from..from + rows, ..]));
                    let mut part = c.slice_mut(s![from..from + rows, ..]);
                    let &[row, column] = part.strides() else { unreachable!("a matrix has two strides") };
                    let c = RawMatrix { start: part.as_mut_ptr(), row, column };
                    let (a, b) = (MatrixRef::row(&a).raw, MatrixRef::row(&b.view()).raw);
                    let (alpha, beta, addend) = (A::of(0.3), A::of(beta), c.as_const());
                    let product = Gemm { rows, depth: k, columns: n, alpha, a, b, beta, addend, c, epilogue };
                    // SAFETY: the arrays have these shapes; if columns are not packed, they are
                    // contiguous
                    pool.install(|| unsafe { multiply_blocks(kernels, &product, copies) });
                    part.to_owned()
                };
                let whole = rows_of(&two, 0, m);
                assert_eq!(whole, rows_of(&one, 0, m));
                assert_eq!(whole.slice(s![90..120, ..]), rows_of(&one, 90, 30));
            }
        }
    }
}

/// On every path the epilogue gives the same bits as the operation applied afterwards.
#[test]
fn epilogue_gives_same_bits_on_every_path() {
    let mut rng = init::rng(14);
    let shapes =
        [[7, 20, 40], [130, 1100, 70], [16, 2100, 80], [130, 300, 520], [1, 30, 9], [9, 30, 1], [3, 0, 5], [0, 3, 2]];
    for [m, k, n] in shapes {
        for how in 0..4 {
            let (mut a, b) = (in_layout::<f32>(m, k, how / 2, &mut rng), in_layout::<f32>(k, n, how % 2, &mut rng));
            if m > 1 && k > 0 {
                a[[1, 0]] = -f32::NAN;
            }
            let row: Vec<f32> = (0..n).map(|_| rng.random_range(-1.0..1.0)).collect();
            let of = |threads, epilogue| {
                let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
                let (a, b) = (a.view(), b.view());
                pool.install(|| product(MatrixRef::row(&a), MatrixRef::row(&b), Some(&row), epilogue, Ix2(m, n)))
            };
            let right = of(1, Epilogue::None).mapv(|x| if x.is_nan() { f32::NAN } else { x.max(0.0) });
            let bits = |x: &Array2<f32>| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            for threads in [1, 2] {
                assert_eq!(bits(&of(threads, Epilogue::Relu)), bits(&right), "{m}x{k}x{n}, {how}, {threads} threads");
            }
        }
    }
}

/// If a packed panel is read for many rows, k-blocks are added tile by tile, here four of five: no
/// element differs from the product of few rows.
#[test]
fn k_blocks_tile_by_tile_give_same_bits() {
    let mut rng = init::rng(11);
    let (a, b) = (in_layout::<f32>(260, 2100, 0, &mut rng), in_layout::<f32>(2100, 64, 1, &mut rng));
    let few = a.slice(s![70..90, ..]).to_owned();
    for kernels in all_kernels::<f32>() {
        for (how, beta) in [(0, 0.0), (0, 1.0), (1, 1.0), (2, -0.5)] {
            let mut whole = in_layout::<f32>(260, 64, how, &mut rng);
            let mut part = whole.slice(s![70..90, ..]).to_owned();
            run(kernels, 1.0, &a, &b, beta, &mut whole);
            run(kernels, 1.0, &few, &b, beta, &mut part);
            assert_eq!(part, whole.slice(s![70..90, ..]));
        }
    }
}

#[test]
fn thread_count_changes_no_bit() {
    let mut rng = init::rng(7);
    let by_rows = [
        [40, 1000, 64],
        [20, 300, 500],
        [100, 150, 300],
        [1, 1000, 300],
        [16, 3072, 64],
        [9, 4000, 70],
        [130, 600, 520],
    ];
    // several threads pack the columns of the last one, as its rows are far apart
    assert!(is_far(1024, 128) && !is_far(1023, 128) && !is_far(1024, 127));
    // both operands are packed, the columns once for all rows, for more rows than a block has, and
    // for several k-blocks; identical rows
    let others =
        [([700, 128, 270], [1, 0]), ([300, 1100, 270], [1, 1]), ([2100, 1100, 70], [0, 1]), ([300, 1100, 70], [4, 1])];
    for ([m, k, n], how) in by_rows.map(|shape| (shape, [0, 0])).into_iter().chain(others) {
        let (a, b) = (in_layout::<f32>(m, k, how[0], &mut rng), in_layout::<f32>(k, n, how[1], &mut rng));
        let a =
            if how[0] == 4 { a.row(0).broadcast((m, k)).expect("as long as a row").to_shared() } else { a.to_shared() };
        let on = |threads: usize| {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            pool.install(|| {
                product(MatrixRef::row(&a.view()), MatrixRef::column(&b.view()), None, Epilogue::None, Ix2(m, n))
            })
        };
        let one = on(1);
        assert!([2, 3, 8].map(on).iter().all(|many| *many == one), "{m}x{k}x{n}");
    }
}

/// The k-blocks of a product of few rows are added in order to the previous value, independent of
/// the threads that compute them.
#[test]
fn parallel_k_blocks_give_same_bits() {
    let mut rng = init::rng(8);
    let (a, b) = (in_layout::<f32>(16, 2100, 0, &mut rng), in_layout::<f32>(2100, 80, 0, &mut rng));
    for (how, beta) in [(0, 1.0), (1, -0.5), (2, 1.0), (1, 0.0)] {
        let c = in_layout::<f32>(16, 80, how, &mut rng);
        let on = |threads: usize| {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            let mut c = c.clone();
            pool.install(|| product_into(-0.3, a.view(), b.view(), beta, &mut c.view_mut()));
            c
        };
        let one = on(1);
        assert!([2, 3].map(on).iter().all(|many| *many == one), "{how}, {beta}");
        let right = by_loops(-0.3, &a, &b, beta, &c);
        assert!(one.iter().zip(&right).all(|(&found, right)| (f64::from(found) - right).abs() < 1e-3));
    }
}

/// An added row gives the same bits as copies of it in `c`, on every path: tiles, inner products,
/// transposed, several k-blocks.
#[test]
fn added_row_gives_same_bits_on_every_path() {
    let mut rng = init::rng(9);
    let shapes =
        [[7, 20, 40], [130, 1100, 70], [16, 2100, 80], [1, 30, 9], [9, 30, 1], [1, 1, 1], [3, 0, 5], [0, 3, 2]];
    for [m, k, n] in shapes {
        for how in 0..4 {
            let (a, b) = (in_layout::<f32>(m, k, how / 2, &mut rng), in_layout::<f32>(k, n, how % 2, &mut rng));
            let row: Vec<f32> = (0..n).map(|_| rng.random_range(-1.0..1.0)).collect();
            let mut right = Array2::from_shape_fn([m, n], |(_, column)| row[column]);
            product_into(1.0, a.view(), b.view(), 1.0, &mut right.view_mut());
            for threads in [1, 2] {
                let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
                let (a, b) = (a.view(), b.view());
                let found = pool
                    .install(|| product(MatrixRef::row(&a), MatrixRef::row(&b), Some(&row), Epilogue::None, Ix2(m, n)));
                assert_eq!(found, right, "{m}x{k}x{n}, {how}, {threads} threads");
            }
        }
    }
}

#[test]
fn product_into_updates_strided_matrix() {
    let (x, d) = (Array2::from_elem([3, 2], 1.0_f64), Array2::from_elem([3, 4], 2.0));
    let mut w = Array2::from_elem([2, 8], 10.0);
    product_into(-0.5, x.t(), d.view(), 1.0, &mut w.slice_axis_mut(Axis(1), Slice::new(0, None, 2)));
    assert_eq!(w.row(1), ArrayView1::from(&[7.0, 10.0, 7.0, 10.0, 7.0, 10.0, 7.0, 10.0]));
}

#[test]
#[should_panic(expected = "the shapes of a product fit")]
fn product_of_mismatched_shapes_panics() {
    let a = Array2::<f32>::zeros([2, 3]);
    let _ = product(MatrixRef::row(&a.view()), MatrixRef::row(&a.view()), None, Epilogue::None, Ix2(2, 3));
}
