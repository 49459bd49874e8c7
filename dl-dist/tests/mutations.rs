//! Random and damaged messages: decoding must not panic, nor take more memory than the bytes can
//! account for. What decodes must be encoded as the same bytes, or make a step that is all or
//! nothing.
//!
//! Each decoder gets 3000 inputs; `DL_FUZZ_RUNS=1000000 cargo test --release --test mutations` runs
//! a million. A failing input is saved in the temporary folder. The program has one test, so that
//! the memory is that of the decoder.

use dl_core::parts::{NodeSums, PartSum, TreeNode, Wire, total};
use dl_core::{DeltaNumbers, Error, ErrorData, Numbers, Parts, Result};
use dl_optim::Sgd;
use support::Net;
use test_support::fuzz::Fuzz;

#[path = "../../tests/memory/allocator.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod allocator;
mod support;

#[global_allocator]
static COUNTING: allocator::Counting = allocator::Counting;

const PARTS: usize = 5;

/// A value of every kind that the headers and the bodies of messages have.
type Everything =
    ((u8, u64), Option<ErrorData>, Vec<(String, DeltaNumbers)>, Vec<(TreeNode, Vec<usize>, Numbers, Box<[u8]>)>);

fn mutate(name: &str, reader: fn(&[u8]), good: &[Vec<u8>]) {
    Fuzz { name: &format!("dist-{name}"), reader, good, words: &["0.weight", "norm.mean"], wrap: <[u8]>::to_vec }.run();
}

/// What was decoded must have these bytes.
fn decoded<V: Wire>(bytes: &[u8]) {
    let (decoded, peak) = allocator::peak_of(|| V::from_bytes(bytes));
    assert!(peak <= 64 * bytes.len() as isize + 4096, "{peak} bytes of memory for {} bytes", bytes.len());
    match decoded {
        Ok(value) => assert!(value.to_bytes() == bytes),
        Err(error) => assert!(error.to_string().len() < 4096, "{error}"),
    }
}

fn numbers() -> [Numbers; 7] {
    [
        Numbers::Bool(vec![true, false]),
        Numbers::U8(vec![1, 2, 3]),
        Numbers::I32(vec![-1]),
        Numbers::I64(vec![i64::MIN]),
        Numbers::U64(vec![u64::MAX]),
        Numbers::F32(vec![0.5, f32::NAN, -0.0]),
        Numbers::F64(Vec::new()),
    ]
}

fn everything(error: Option<ErrorData>) -> Vec<u8> {
    let delta = |rows| DeltaNumbers { shape: vec![4, 1], rows, numbers: Numbers::F32(vec![1.0, 2.0]) };
    let deltas = [None, Some(vec![1, 3])].map(|rows| ("words".to_owned(), delta(rows))).to_vec();
    let sums = numbers().map(|numbers| (TreeNode { level: 2, index: 3 }, vec![2, 1], numbers, vec![7; 5].into()));
    let all: Everything = ((3, 1 << 40), error, deltas, sums.to_vec());
    all.to_bytes()
}

fn nested_error() -> ErrorData {
    let inner = Error::shape("[2] and [3]").data();
    let mut error = Error::invalid("it is wrong").of_rank(3).data();
    error.others = vec![inner.clone(), inner.clone()];
    error.origin = Some(Box::new(inner));
    error
}

/// The sums of a part of the batch of a net, with dense and sparse deltas and updates of buffers.
fn sums(net: &Net, parts: std::ops::Range<usize>) -> NodeSums {
    let losses = parts.clone().map(|part| net.loss(part));
    Parts::mean(losses).among(PARTS, parts.start).partial_sums().seed(1).wait().unwrap().1
}

/// The sum of a part. If it fits the net, it can be added, encoded, and make a step.
fn sum(bytes: &[u8]) {
    let net = Net::new().unwrap();
    let Ok(sum) = PartSum::from_bytes(&net, bytes) else { return };
    let encoded = sum.to_bytes(&net).unwrap();
    assert!(PartSum::from_bytes(&net, &encoded).unwrap().to_bytes(&net).unwrap() == encoded);
    let before = net.bits();
    let twice = total(2, (0..2).map(|part| (TreeNode::leaf(part), sum.clone())).collect()).wait();
    let step = || twice?.effects().wait()?.step(&Sgd::new(0.1)).wait();
    if step().is_err() {
        assert!(net.bits() == before);
    }
}

/// The sums of nodes of the tree over all parts.
fn nodes(bytes: &[u8]) {
    let net = Net::new().unwrap();
    let Ok(nodes) = Vec::<(TreeNode, Box<[u8]>)>::from_bytes(bytes) else { return };
    let sums = nodes.iter().map(|(node, bytes)| Ok((*node, PartSum::from_bytes(&net, bytes)?)));
    let Ok(sums) = sums.collect::<Result<NodeSums>>() else { return };
    let leaves = |node: &TreeNode| (node.index << node.level)..((node.index + 1) << node.level).min(PARTS);
    let mut covered: Vec<usize> = nodes.iter().flat_map(|(node, _)| leaves(node)).collect();
    covered.sort_unstable();
    let is_whole = covered.into_iter().eq(0..PARTS);
    let total = total(PARTS, sums).wait();
    assert!(total.is_err() || is_whole, "{:?}", nodes.iter().map(|(node, _)| node).collect::<Vec<_>>());
}

#[test]
fn decoder_with_damaged_input_does_not_panic() {
    let good = [everything(None), everything(Some(nested_error()))];
    mutate("everything", decoded::<Everything>, &good);
    mutate("error", decoded::<ErrorData>, &[nested_error().to_bytes()]);

    let net = Net::new().unwrap();
    let bytes = |sums: NodeSums| -> Vec<(TreeNode, Box<[u8]>)> {
        sums.into_iter().map(|(node, sum)| (node, sum.to_bytes(&net).unwrap().into())).collect()
    };
    let all = bytes(sums(&net, 0..PARTS));
    mutate("sum", sum, &[all[0].1.to_vec(), bytes(sums(&net, 3..4))[0].1.to_vec()]);
    let halves = [bytes(sums(&net, 0..3)), bytes(sums(&net, 3..PARTS))].concat();
    mutate("nodes", nodes, &[all.to_bytes(), halves.to_bytes()]);
}
