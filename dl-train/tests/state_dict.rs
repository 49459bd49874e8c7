//! Exchange of weights with PyTorch: `fixtures/state_dict.py` has written the weights and the
//! outputs, and has loaded what this crate writes (`fixtures/state_dict.txt`).

use dl_core::{Differentiable, Layer, Module, Result};
use dl_macros::Module;
use dl_nd::ndarray::{Ix2, IxDyn};
use dl_nd::{Conv, Nd, NdLayer, init, ops::*};
use dl_nn::{
    Activation, BatchNorm, Conv1d, Conv2d, ConvTranspose2d, Embedding, GroupNorm, Gru, GruCell, LayerNorm, Linear,
    Lstm, LstmCell, MultiHeadAttention, RmsNorm, RnnCell, Sequential, TransformerBlock,
};
use dl_train::{Load, load_weights, save_torch};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect()
}

#[derive(Module)]
#[module(crate = dl_core)]
struct Zoo {
    linear: Linear,
    embedding: Embedding,
    conv1d: Conv1d,
    conv2d: Conv2d,
    conv_transpose2d: ConvTranspose2d,
    batch_norm: BatchNorm,
    layer_norm: LayerNorm,
    rms_norm: RmsNorm,
    group_norm: GroupNorm,
    rnn_cell: RnnCell,
    gru_cell: GruCell,
    lstm_cell: LstmCell,
    gru: Gru,
    lstm: Lstm,
    attention: MultiHeadAttention,
    blocks: Vec<TransformerBlock>,
    sequence: Sequential,
    tied: [Linear; 2],
}

fn zoo() -> Result<Zoo> {
    let rng = &mut init::rng(7);
    let tied = Linear::new(4, 4, rng)?;
    Ok(Zoo {
        linear: Linear::new(4, 4, rng)?,
        embedding: Embedding::new(4, 4, rng)?,
        conv1d: Conv1d::new(4, 4, 3, Conv::new().padding(1).groups(2), rng)?,
        conv2d: Conv2d::new(3, 3, 3, Conv::new(), rng)?,
        conv_transpose2d: ConvTranspose2d::new(3, 3, 3, Conv::new().into(), rng)?,
        batch_norm: BatchNorm::new(4)?,
        layer_norm: LayerNorm::new(4)?,
        rms_norm: RmsNorm::new(4)?,
        group_norm: GroupNorm::new(2, 4)?,
        rnn_cell: RnnCell::new(4, 4, rng)?,
        gru_cell: GruCell::new(4, 4, rng)?,
        lstm_cell: LstmCell::new(4, 4, rng)?,
        gru: Gru::new(4, 4, rng)?,
        lstm: Lstm::with_layers(4, 4, 2, true, rng)?,
        attention: MultiHeadAttention::new(4, 2, rng)?,
        blocks: vec![TransformerBlock::new(4, 2, 4, rng)?, TransformerBlock::new(4, 2, 4, rng)?],
        sequence: Sequential::new()
            .then(Linear::new(4, 4, rng)?)
            .then(Activation::Relu)
            .then(Linear::without_bias(4, 4, rng)?),
        tied: [tied.clone(), Linear { weight: tied.weight, ..Linear::new(4, 4, rng)? }],
    })
}

/// A tensor of a fixture.
fn tensor(file: &SafeTensors<'_>, name: &str) -> Nd<f32, IxDyn> {
    let view = file.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    let numbers = view.data().as_chunks().0.iter().map(|&x| f32::from_le_bytes(x)).collect();
    Nd::from_vec(IxDyn(view.shape()), numbers).unwrap()
}

/// The outputs of all parts, by name.
fn outputs(zoo: &Zoo, io: &SafeTensors<'_>) -> Result<BTreeMap<&'static str, NdLayer<IxDyn>>> {
    let [matrix, steps, image] =
        ["matrix", "steps", "image"].map(|name| Layer::constant(tensor(io, &format!("input.{name}"))));
    let matrix: NdLayer<Ix2> = matrix.to_rank();
    let (batch, h) = (matrix.unsqueeze(0), matrix.flip(0));
    let steps: Vec<NdLayer<Ix2>> = (0..3).map(|time| steps.to_rank::<dl_nd::ndarray::Ix3>().row(time)).collect();
    let image = image.to_rank::<dl_nd::ndarray::Ix4>();
    let gru = zoo.gru.of(&steps, zoo.gru.initial(4))?.0;
    let lstm = zoo.lstm.of(&steps, zoo.lstm.initial(4))?.0;
    Ok([
        ("linear", zoo.linear.of(&matrix).to_dyn()),
        ("embedding", zoo.embedding.of([3, 0, 1, 3]).to_dyn()),
        ("conv1d", zoo.conv1d.of(&batch).to_dyn()),
        ("conv2d", zoo.conv2d.of(&image).to_dyn()),
        ("conv_transpose2d", zoo.conv_transpose2d.of(&image).to_dyn()),
        ("batch_norm", zoo.batch_norm.of(&matrix).to_dyn()),
        ("layer_norm", zoo.layer_norm.of(&matrix).to_dyn()),
        ("rms_norm", zoo.rms_norm.of(&matrix).to_dyn()),
        ("group_norm", zoo.group_norm.of(&matrix).to_dyn()),
        ("rnn_cell", zoo.rnn_cell.of(&matrix, &h).to_dyn()),
        ("gru_cell", zoo.gru_cell.of(&matrix, &h).to_dyn()),
        ("lstm_cell", zoo.lstm_cell.of(&matrix, (&h, &h)).0.to_dyn()),
        ("gru", gru[2].to_dyn()),
        ("lstm", lstm[2].to_dyn()),
        ("attention", zoo.attention.of(&batch).to_dyn()),
        ("blocks", zoo.blocks.iter().fold(batch, |x, block| block.of(x)).to_dyn()),
        ("sequence", zoo.sequence.of(&matrix).to_dyn()),
        ("tied", zoo.tied[1].of(zoo.tied[0].of(&matrix)).to_dyn()),
    ]
    .into())
}

#[test]
fn state_dict_of_pytorch_gives_outputs_of_pytorch() -> Result<()> {
    let io = fs::read(fixture("state_dict_outputs.safetensors")).unwrap();
    let io = SafeTensors::deserialize(&io).unwrap();
    let zoo = zoo()?;
    let report = Load::torch().weights(&zoo, fixture("state_dict.safetensors"))?;
    assert!(report.is_complete() && report.loaded.len() == zoo.entries().len() - 1, "{report}");
    for (name, output) in outputs(&zoo, &io)? {
        let (found, expected) = (output.predict().wait()?, tensor(&io, &format!("output.{name}")));
        assert_eq!(found.shape(), expected.shape(), "{name}");
        for (a, b) in found.view().iter().zip(expected.view()) {
            assert!((a - b).abs() <= 2e-6 * b.abs().max(1.0), "{name}: {found:?} instead of {expected:?}");
        }
    }
    Ok(())
}

/// Each tensor of a file: type, shape and bytes.
pub(super) fn tensors(path: &Path) -> BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)> {
    let bytes = fs::read(path).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap().tensors();
    let tensor = |view: TensorView<'_>| (view.dtype(), view.shape().to_vec(), view.data().to_vec());
    tensors.into_iter().map(|(name, view)| (name, tensor(view))).collect()
}

#[test]
fn saved_state_dict_has_names_and_bytes_of_pytorch() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ours.safetensors");
    let zoo = zoo()?;
    Load::torch().weights(&zoo, fixture("state_dict.safetensors"))?;
    save_torch(&zoo, &path)?;
    let mut expected = tensors(&fixture("state_dict.safetensors"));
    expected.remove("batch_norm.num_batches_tracked");
    assert_eq!(tensors(&path), expected);
    // the file that Python has read
    assert_eq!(fs::read(&path).unwrap(), fs::read(fixture("state_dict_ours.safetensors")).unwrap());

    // the file says its layout
    let again = self::zoo()?;
    load_weights(&again, &path)?;
    for (one, other) in zoo.entries().iter().zip(again.entries()) {
        assert_eq!(one.numbers(), other.numbers(), "{}", one.path());
    }
    Ok(())
}

#[test]
fn python_has_read_saved_state_dict() {
    let text = fs::read_to_string(fixture("state_dict.txt")).unwrap();
    assert!(text.starts_with("<All keys matched successfully>\n"));
    assert!(text.lines().count() == 19 && text.lines().skip(1).all(|line| line.ends_with(" equal")), "{text}");
}

/// Writes the file that Python is to read: `cargo test --test all state_dict -- --ignored`, then
/// `state_dict.py check`.
#[test]
#[ignore = "overwrites the fixture"]
fn write_fixtures() -> Result<()> {
    let zoo = zoo()?;
    Load::torch().weights(&zoo, fixture("state_dict.safetensors"))?;
    save_torch(&zoo, fixture("state_dict_ours.safetensors"))
}
