//! File contents: fixtures written by PyTorch, and files of this crate verified with Python
//! (`fixtures/make.py`, `fixtures/read.py`, `fixtures/ours.txt`).

use dl_core::{Buffer, Differentiable, Module, Optimizer, Result, Visitor, Weight};
use dl_nd::ndarray::{Ix0, Ix1, Ix2};
use dl_nd::{Element, Nd, NdWeight, Table};
use dl_optim::{Adam, OptimizerExt, schedule::Cosine};
use dl_train::{Checkpoint, Load, RngPlace, load_weights, save_weights};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect()
}

/// A module with one field of this name.
struct Part<M>(&'static str, M);

impl<M: Module> Module for Part<M> {
    fn visit(&self, visitor: &mut Visitor) {
        visitor.field(self.0, &self.1);
    }
}

fn parts<A: Element>(names: &[&'static str]) -> Vec<Part<NdWeight<Ix2, A>>> {
    names.iter().map(|&name| Part(name, Weight::new(Nd::full([4, 5], A::from(7.0).unwrap())))).collect()
}

/// The parts without the indices of the vector in their paths.
struct Flat<M>(Vec<Part<M>>);

impl<M: Module> Module for Flat<M> {
    fn visit(&self, visitor: &mut Visitor) {
        self.0.iter().for_each(|part| visitor.field(part.0, &Part("weight", &part.1)));
    }
}

fn torch() -> BTreeMap<String, Vec<String>> {
    serde_json::from_slice(&std::fs::read(fixture("torch.json")).unwrap()).unwrap()
}

/// The exact value of a double, as formatted by Python's `float.hex`.
fn hex(x: f64) -> String {
    let (bits, sign) = (x.to_bits(), if x.is_sign_negative() { "-" } else { "" });
    let (exponent, fraction) = ((bits >> 52 & 0x7FF) as i64 - 1023, bits & ((1 << 52) - 1));
    if x == 0.0 { format!("{sign}0x0.0p+0") } else { format!("{sign}0x1.{fraction:013x}p{exponent:+}") }
}

/// Single- and double-precision weights read every precision that PyTorch writes, exactly.
#[test]
fn pytorch_files_of_every_precision_are_read_exactly() -> Result<()> {
    let expected = torch();
    let all = |row: &[f64]| row.iter().map(|&x| hex(x)).collect::<Vec<_>>();

    let wide = Flat(parts::<f64>(&["half", "brain", "single", "double"]));
    let load = Load::strict().ignore("**.num_batches_tracked");
    let error = load.weights(&wide, fixture("torch.safetensors")).unwrap_err().to_string();
    assert!(
        error.contains("misshapen: \"single.weight\" is f64 [4, 5] in the module and F32 [4, 5] in the file"),
        "{error}"
    );
    let report = load.convert().weights(&wide, fixture("torch.safetensors"))?;
    assert!(report.is_complete());
    for Part(name, weight) in &wide.0 {
        assert_eq!(all(&weight.value().into_vec()), expected[&format!("{name}.weight")], "{name}");
    }

    let narrow = Flat(parts::<f32>(&["half", "brain", "single"]));
    let load = load_without_double();
    load.weights(&narrow, fixture("torch.safetensors"))?;
    for Part(name, weight) in &narrow.0 {
        let row: Vec<f64> = weight.value().into_vec().into_iter().map(f64::from).collect();
        assert_eq!(all(&row), expected[&format!("{name}.weight")], "{name}");
    }

    // double to single precision: rounded to nearest, as in PyTorch
    let rounded = Flat(parts::<f32>(&["double"]));
    Load::strict().only("double").convert().weights(&rounded, fixture("torch.safetensors"))?;
    let row: Vec<f64> = rounded.0[0].1.value().into_vec().into_iter().map(f64::from).collect();
    assert_eq!(all(&row), expected["single.weight"]);

    // integers are read unchanged
    let count = Part("norm", Part("num_batches_tracked", Buffer::new(Nd::<i64, Ix0>::full([], 0))));
    Load::strict().only("norm").weights(&count, fixture("torch.safetensors"))?;
    assert_eq!(count.1.1.value().into_vec(), [7]);
    Ok(())
}

fn load_without_double() -> Load {
    Load::strict().ignore("norm").ignore("double")
}

/// Weights and buffers of all types, a tied weight, and unusual numbers and names.
struct Net {
    scalar: Weight<f64>,
    single: Weight<f32>,
    matrix: NdWeight<Ix2, f64>,
    table: Weight<Table<f32>>,
    mask: Buffer<Nd<bool, Ix1>>,
    labels: Buffer<Nd<usize, Ix1>>,
    pixels: Buffer<Nd<u8, Ix1>>,
    nothing: Buffer<Nd<f32, Ix2>>,
    infinite: Buffer<Nd<f64, Ix1>>,
}

impl Module for Net {
    fn visit(&self, visitor: &mut Visitor) {
        visitor.field("scalar", &self.scalar);
        visitor.field("single", &self.single);
        visitor.field("größe \"1\"", &self.matrix);
        visitor.field("table", &self.table);
        visitor.field("mask", &self.mask);
        visitor.field("labels", &self.labels);
        visitor.field("pixels", &self.pixels);
        visitor.field("nothing", &self.nothing);
        visitor.field("infinite", &self.infinite);
        visitor.field("tied", &self.scalar);
    }
}

fn net(full: bool) -> Net {
    let x = if full { 1.0 } else { 0.0 };
    Net {
        scalar: Weight::new(x * 0.1),
        single: Weight::new(x as f32 * f32::MIN_POSITIVE / 2.0),
        matrix: Weight::new(Nd::from([[x * -0.0, x * 5e-324], [x * f64::MAX, x / 3.0]])),
        table: Weight::new([[x as f32], [-2.5 * x as f32]].into()),
        mask: Buffer::new(Nd::from([full, false, full])),
        labels: Buffer::new(Nd::from([if full { usize::MAX } else { 0 }])),
        pixels: Buffer::new(Nd::from([if full { 255_u8 } else { 0 }])),
        nothing: Buffer::new(Nd::full([0, 3], 0.0)),
        infinite: Buffer::new(Nd::from([if full { f64::NEG_INFINITY } else { 0.0 }])),
    }
}

fn same(one: &impl Module, other: &impl Module) {
    for (one, other) in one.entries().iter().zip(other.entries()) {
        assert_eq!(one.numbers().to_le_bytes(), other.numbers().to_le_bytes(), "{}", one.path());
    }
}

#[test]
fn weights_of_all_types_match_verified_bytes() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let (full, empty) = (net(true), net(false));
    save_weights(&full, &path)?;
    let report = load_weights(&empty, &path)?;
    assert_eq!(report.loaded.len(), 9, "the tied weight must be loaded once");
    same(&full, &empty);

    // the bytes that were verified with Python
    let written = std::fs::read(&path).unwrap();
    assert_eq!(written, std::fs::read(fixture("weights.safetensors")).unwrap());
    Ok(())
}

type Pair = (Weight<f64>, NdWeight<Ix1, f32>);

fn trained() -> Result<(Pair, impl Optimizer)> {
    let net = (Weight::new(0.5), Weight::new(Nd::from([1.0_f32, 2.0])));
    let adam = Adam::new(Cosine::new(0.125, 8)).clip_norm(10.0).ema(0.5);
    // these numbers are exact on every machine
    (&net.0 * 2.0).train(&adam).wait()?;
    Ok((net, adam))
}

const PLACE: RngPlace = RngPlace { seed: [7; 32], stream: u64::MAX, word: u128::MAX - 1 };
const NOTE: &str = "ein \"Text\"\n\u{7f}über 2 Zeilen";

fn checkpoint() -> Result<Checkpoint> {
    let (net, adam) = trained()?;
    net.0.set(0.375);
    let checkpoint = Checkpoint::new()
        .module("model", &net)
        .optimizer("adam", &adam, &net)
        .number("best", f64::NAN)
        .number("tenth", 0.1)
        .count("epoch", u64::MAX)
        .text("note", NOTE)
        .rng("order", PLACE);
    // later changes must not affect the checkpoint
    net.0.set(99.0);
    Ok(checkpoint)
}

#[test]
fn checkpoint_with_every_kind_of_entry_matches_verified_bytes() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    checkpoint()?.save(&path)?;
    let saved = Checkpoint::load(&path)?;
    assert!(saved.number("best")?.is_nan());
    assert_eq!((saved.number("tenth")?, saved.count("epoch")?), (0.1, u64::MAX));
    assert_eq!((saved.text("note")?, saved.rng("order")?), (NOTE, PLACE));
    let (again, resumed) = trained()?;
    let report = saved.restore().module("model", &again).optimizer("adam", &resumed, &again).apply()?;
    assert_eq!(report.loaded, ["model.0", "model.1"]);
    assert_eq!(again.0.value(), 0.375);

    // the bytes that were verified with Python
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(fixture("checkpoint.safetensors")).unwrap());
    Ok(())
}

/// Writes the files that Python is to read: `cargo test --test all files -- --ignored`, then `read.py`.
#[test]
#[ignore = "overwrites the fixtures"]
fn write_fixtures() -> Result<()> {
    save_weights(&net(true), fixture("weights.safetensors"))?;
    checkpoint()?.save(fixture("checkpoint.safetensors"))
}
