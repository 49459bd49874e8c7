//! Initialisation, argument checks and composition of layers.

use dl_core::{Differentiable, Entry, Error, Mode, Module, Numbers, Result, Weight};
use dl_nd::ndarray::{Ix2, Ix3, IxDyn};
use dl_nd::{Attention, Conv, Nd, NdLayer, init, ops::*};
use dl_nn::{
    Activation, Adapters, BatchNorm, Conv1d, Conv2d, Dropout, Embedding, GroupNorm, GroupedQueryAttention, GruCell,
    LayerNorm, Linear, LoRA, LowRank, LstmCell, MultiHeadAttention, RmsNorm, RnnCell, Sequential, TransformerBlock,
};
use dl_optim::{Adam, Sgd};

fn numbers(module: &impl Module, path: &str) -> Vec<f64> {
    match module.entry(path).unwrap().numbers() {
        Numbers::F64(numbers) => numbers,
        other => panic!("{other:?}"),
    }
}

/// Asserts that the numbers look uniform on `±bound`.
#[track_caller]
fn assert_uniform(module: &impl Module, path: &str, bound: f64) {
    let numbers = numbers(module, path);
    let most = numbers.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    assert!(most <= bound && most > 0.9 * bound && mean.abs() < 0.2 * bound, "{path}: {most} of {bound}, mean {mean}");
}

#[test]
fn initial_weights_have_distributions_of_pytorch() -> Result<()> {
    let mut rng = init::rng(1);
    let linear = Linear::<f64>::new(100, 50, &mut rng)?;
    assert_uniform(&linear, "weight", 0.1);
    assert_uniform(&linear, "bias", 0.1);
    let conv = Conv2d::<f64>::new(8, 40, [5, 5], Conv::new().groups(2), &mut rng)?;
    assert_eq!(conv.weight.value().shape(), [40, 4, 5, 5]);
    assert_uniform(&conv, "weight", 0.1);
    assert_uniform(&conv, "bias", 0.1);
    assert_uniform(&Conv1d::<f64>::new(20, 30, 5, Conv::new(), &mut rng)?, "weight", 0.1);
    let attention = MultiHeadAttention::<f64>::new(50, 5, &mut rng)?;
    assert_uniform(&attention, "in_proj_weight", (6.0_f64 / 200.0).sqrt());
    assert_uniform(&attention, "out_proj.weight", 50_f64.sqrt().recip());
    assert!(numbers(&attention, "in_proj_bias").iter().chain(&numbers(&attention, "out_proj.bias")).all(|&x| x == 0.0));
    for cell in [RnnCell::<f64>::new(9, 25, &mut rng)?.entries(), GruCell::<f64>::new(9, 25, &mut rng)?.entries()] {
        assert_eq!(
            cell.iter().map(|entry| entry.path()).collect::<Vec<_>>(),
            ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
        );
    }
    assert_uniform(&LstmCell::<f64>::new(9, 25, &mut rng)?, "weight_hh", 0.2);
    let vectors = numbers(&Embedding::<f64>::new(100, 100, &mut rng)?, "weight");
    let variance = vectors.iter().map(|x| x * x).sum::<f64>() / 10_000.0;
    assert!((variance - 1.0).abs() < 0.05, "{variance}");
    assert_eq!(numbers(&BatchNorm::<f64>::new(2)?, "weight"), [1.0, 1.0]);
    Ok(())
}

#[test]
fn parameter_counts_equal_those_of_pytorch() -> Result<()> {
    let mut rng = init::rng(1);
    assert_eq!(TransformerBlock::<f32>::new(512, 8, 2048, &mut rng)?.parameters(), 3_152_384);
    assert_eq!(LstmCell::<f32>::new(10, 20, &mut rng)?.parameters(), 2_560);
    assert_eq!(GruCell::<f32>::new(10, 20, &mut rng)?.parameters(), 1_920);
    assert_eq!(Conv2d::<f32>::new(3, 16, 3, Conv::new(), &mut rng)?.parameters(), 448);
    Ok(())
}

#[test]
fn equal_seeds_give_equal_weights() -> Result<()> {
    let block = |seed| -> Result<Vec<Numbers>> {
        let block = TransformerBlock::<f32>::new(8, 2, 16, &mut init::rng(seed))?;
        Ok(block.entries().iter().map(|entry| entry.numbers()).collect())
    };
    assert_eq!(block(1)?, block(1)?);
    assert_ne!(block(1)?, block(2)?);
    Ok(())
}

#[track_caller]
fn assert_rejected<T>(result: Result<T>, part: &str) {
    let Err(error) = result else { panic!("the layer was created") };
    assert!(error.to_string().contains(part), "{error} should contain {part}");
}

#[test]
fn new_with_invalid_sizes_returns_error() {
    let mut rng = init::rng(1);
    assert_rejected(Linear::<f32>::new(0, 1, &mut rng), "Linear: the number of inputs is 0");
    assert_rejected(Linear::<f32>::new(1, 0, &mut rng), "outputs");
    assert_rejected(Linear::<f32>::new(usize::MAX, 2, &mut rng), "too large");
    assert_rejected(Linear::<f32>::new(1 << 40, 1 << 10, &mut rng), "too large");
    assert_rejected(Conv2d::<f32>::new(3, 4, 3, Conv::new().groups(2), &mut rng), "2 groups do not divide 3");
    assert_rejected(Conv2d::<f32>::new(3, 3, 3, Conv::new().groups(0), &mut rng), "0 groups");
    assert_rejected(Conv2d::<f32>::new(3, 4, [3, 0], Conv::new(), &mut rng), "kernel");
    assert_rejected(Conv1d::<f32>::new(0, 4, 3, Conv::new(), &mut rng), "input channels");
    assert_rejected(Embedding::<f32>::new(10, 0, &mut rng), "elements of a vector");
    assert_rejected(BatchNorm::<f32>::new(0), "channels");
    assert_rejected(LayerNorm::<f32>::new(0), "last axis");
    assert_rejected(RmsNorm::<f32>::new(usize::MAX), "too large");
    assert_rejected(GroupNorm::<f32>::new(0, 4), "groups");
    assert_rejected(GroupNorm::<f32>::new(3, 4), "3 groups do not divide 4 channels");
    assert_rejected(MultiHeadAttention::<f32>::new(8, 3, &mut rng), "3 heads do not divide a width of 8");
    assert_rejected(MultiHeadAttention::<f32>::new(8, 0, &mut rng), "heads");
    assert_rejected(MultiHeadAttention::<f32>::new(usize::MAX - 1, 2, &mut rng), "too large");
    assert_rejected(TransformerBlock::<f32>::new(8, 2, 0, &mut rng), "outputs");
    assert_rejected(LstmCell::<f32>::new(3, usize::MAX / 2, &mut rng), "too large");
    assert_rejected(RnnCell::<f32>::new(3, 0, &mut rng), "elements of the state");
}

/// A last axis of length 1 must not broadcast to the width of a layer.
#[test]
fn input_of_width_one_is_rejected_by_wider_layer() -> Result<()> {
    let mut rng = init::rng(1);
    let width = |rows, width| Nd::<f32, Ix2>::full([rows, width], 0.5);
    let assert_shape_error = |layer: NdLayer<Ix2>, op: &str| {
        let error = layer.predict().wait().expect_err(op);
        assert!(error.is_shape() && error.op() == Some(op), "{error}");
    };
    let wide = LayerNorm::new(8)?;
    assert_eq!(wide.of(width(4, 8)).predict().wait()?.shape(), [4, 8]);
    assert_shape_error(wide.of(width(4, 1)), "layer_norm");
    assert_shape_error(LayerNorm::new(1)?.of(width(4, 8)), "layer_norm");
    assert_shape_error(RmsNorm::new(8)?.of(width(4, 1)), "rms_norm");
    assert_shape_error(RmsNorm::new(1)?.of(width(4, 8)), "rms_norm");

    let narrow = Nd::<f32, Ix3>::full([4, 5, 1], 0.5);
    let attention = MultiHeadAttention::new(8, 2, &mut rng)?;
    assert_shape_error(attention.of(&narrow).flatten().lift(), "linear");
    let block = TransformerBlock::new(8, 2, 16, &mut rng)?;
    assert_shape_error(block.of(&narrow).flatten().lift(), "linear");

    let (x, h) = (width(5, 3), width(5, 4));
    let (rnn, gru) = (RnnCell::new(3, 4, &mut rng)?, GruCell::new(3, 4, &mut rng)?);
    let lstm = LstmCell::new(3, 4, &mut rng)?;
    assert_eq!(lstm.of(&x, (&h, &h)).1.predict().wait()?.shape(), [5, 4]);
    assert_shape_error(rnn.of(&x, width(1, 4)), "rnn_cell");
    assert_shape_error(gru.of(&x, width(1, 4)), "gru_cell");
    assert_shape_error(gru.of(width(1, 3), &h), "gru_cell");
    assert_shape_error(lstm.of(&x, (width(1, 4), &h)).0, "lstm_cell");
    assert_shape_error(lstm.of(&x, (&h, width(5, 1))).0, "lstm_cell");
    assert_shape_error(lstm.of(&x, (&h, width(1, 4))).1, "lstm_cell");
    Ok(())
}

#[test]
fn shape_error_names_line_of_caller() -> Result<()> {
    let linear = Linear::<f32>::new(3, 2, &mut init::rng(1))?;
    let line = line!() + 1;
    let error: Error = linear.of(Nd::from([[1.0, 2.0]])).predict().wait().unwrap_err();
    assert!(error.is_shape() && error.op() == Some("linear"), "{error}");
    let place = error.place().unwrap();
    assert_eq!((place.file(), place.line()), (file!(), line));

    Ok(())
}

#[test]
fn error_of_heads_names_heads_and_width_of_one_projection() -> Result<()> {
    let rng = &mut init::rng(1);
    let text = |y: NdLayer<Ix3>| y.predict().wait().unwrap_err().to_string();
    let x = Nd::full([1, 2, 8], 1.0);
    for heads in [0, 3] {
        let attention = MultiHeadAttention { heads, ..MultiHeadAttention::<f32>::new(8, 2, rng)? };
        let wanted = format!("{heads} heads do not divide a width of 8");
        assert!(attention.of(&x).predict().wait().unwrap_err().is_shape());
        for y in [attention.of(&x), attention.attend(&x, &x, &x, &Attention::new())] {
            let found = text(y);
            assert!(found.contains(&wanted), "{found}");
        }
    }
    let attention = MultiHeadAttention::<f32>::new(8, 2, rng)?;
    let narrow = Weight::new(Nd::full([22, 8], 0.5));
    let attention = MultiHeadAttention { in_proj_weight: narrow, in_proj_bias: None, ..attention };
    let found = text(attention.of(&x));
    assert!(found.contains("a width of 22 is not that of 3 projections"), "{found}");

    let attention = GroupedQueryAttention { heads: 3, groups: 3, ..GroupedQueryAttention::<f32>::new(8, 2, 2, rng)? };
    let found = text(attention.of(&x));
    assert!(found.contains("3 heads do not divide a width of 8"), "{found}");
    let attention = GroupedQueryAttention { heads: 5, groups: 2, ..GroupedQueryAttention::<f32>::new(40, 4, 2, rng)? };
    let error = attention.of(Nd::full([1, 2, 40], 1.0)).predict().wait().unwrap_err();
    assert!(error.is_shape(), "{error}"); // not 4 heads of 2 groups
    Ok(())
}

#[test]
fn linear_accepts_any_number_of_axes() -> Result<()> {
    let linear = Linear::<f32>::new(3, 2, &mut init::rng(1))?;
    let shape = |x: Nd<f32, IxDyn>| linear.of(x).predict().wait().map(|y| y.shape().to_vec());
    assert_eq!(shape(Nd::full(IxDyn(&[3]), 1.0))?, [2]);
    assert_eq!(shape(Nd::full(IxDyn(&[5, 3]), 1.0))?, [5, 2]);
    assert_eq!(shape(Nd::full(IxDyn(&[4, 1, 5, 3]), 1.0))?, [4, 1, 5, 2]);
    assert_eq!(linear.of(Nd::from([1.0, 2.0, 3.0])).predict().wait()?.shape(), [2]);
    Ok(())
}

#[test]
fn dropout_applies_in_training_only() -> Result<()> {
    let plain = TransformerBlock::<f64>::new(4, 2, 8, &mut init::rng(1))?;
    let mut noisy = plain.clone();
    noisy.dropout = Dropout { p: 0.5 };
    noisy.attention.dropout = 0.5;
    let x: Nd<f64, Ix3> = init::normal([2, 3, 4], 0.0, 1.0, &mut init::rng(2));
    let (quiet, noise) = (plain.of(&x), noisy.of(&x));
    assert_eq!(quiet.predict().wait()?, noise.predict().wait()?);
    // without dropout a training pass requires no seed
    assert_eq!(quiet.predict().mode(Mode::Train).wait()?, quiet.predict().wait()?);
    assert!(noise.predict().mode(Mode::Train).wait().unwrap_err().to_string().contains(".seed("));
    let trained = |seed| noise.predict().mode(Mode::Train).seed(seed).wait();
    assert_eq!(trained(1)?, trained(1)?);
    assert_ne!(trained(1)?, trained(2)?);
    assert_ne!(trained(1)?, quiet.predict().wait()?);
    Ok(())
}

#[test]
fn sequential_names_weights_by_index_and_clones_share_weights() -> Result<()> {
    let mut rng = init::rng(1);
    let linear = Linear::<f64>::new(2, 2, &mut rng)?;
    let net = Sequential::new()
        .then(linear.clone())
        .then(Activation::Tanh)
        .then(LayerNorm::new(2)?)
        .then_apply(|x| x * 2.0)
        .then(linear.clone());
    assert_eq!(net.names(), ["0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"]);
    assert_eq!(net.entry("4.bias")?.tied_to(), Some("0.bias"));
    assert_eq!((net.parameters(), net.weights().len()), (6 + 4, 4));

    let x: Nd<f64, Ix2> = init::normal([5, 2], 0.0, 1.0, &mut rng);
    let by_hand = linear.of(LayerNorm::new(2)?.of(linear.of(&x).tanh()) * 2.0);
    assert_eq!(net.of(&x).predict().wait()?, by_hand.predict().wait()?);
    net.freeze_matching("0")?;
    assert!(linear.weight.is_frozen());
    Ok(())
}

/// Classifies sequences by the sign of their sum, which the state must accumulate.
#[test]
fn lstm_learns_sign_of_sequence_sum() -> Result<()> {
    let mut rng = init::rng(1);
    let (cell, output) = (LstmCell::<f64>::new(1, 8, &mut rng)?, Linear::new(8, 2, &mut rng)?);
    let xs: Nd<f64, Ix2> = init::normal([6, 64], 0.0, 1.0, &mut rng);
    let labels: Vec<usize> = (0..64).map(|i| usize::from(xs.view().column(i).sum() > 0.0)).collect();
    let logits = {
        let (mut h, mut c) = (cell.initial(64).layer(), cell.initial(64).layer());
        for step in 0..6 {
            (h, c) = cell.of(xs.row(step).unsqueeze(-1), (h, c));
        }
        output.of(h)
    };
    let loss = logits.cross_entropy(&labels);
    let before = loss.predict().wait()?;
    let adam = Adam::new(0.03);
    for _ in 0..60 {
        loss.train(&adam).wait()?;
    }
    let after = loss.predict().wait()?;
    assert!(before > 0.6 && after < 0.2, "{before} {after}");
    Ok(())
}

#[test]
fn causal_transformer_block_ignores_later_positions() -> Result<()> {
    let block = TransformerBlock::<f64>::new(4, 2, 8, &mut init::rng(1))?;
    let x: Nd<f64, Ix3> = init::normal([1, 5, 4], 0.0, 1.0, &mut init::rng(2));
    let mut other = x.clone().into_array();
    other.slice_mut(dl_nd::ndarray::s![.., 3.., ..]).fill(9.0);
    let y = |x: &Nd<f64, Ix3>| block.of_with(x, &Attention::new().causal()).predict().wait();
    let (y, z) = (y(&x)?, y(&other.into())?);
    let s = dl_nd::ndarray::s![.., ..3, ..];
    assert_eq!(y.view().slice(s), z.view().slice(s));
    assert_ne!(y, z);
    block.of(&x).square().mean().train(&Sgd::new(0.1)).wait()?;
    Ok(())
}

/// With and without a bias, `relu_of` is bit-identical to `of` followed by `relu`.
#[test]
fn linear_relu_of_equals_of_then_relu() {
    let rng = &mut dl_nd::init::rng(3);
    let x: Nd<f64, Ix2> = dl_nd::init::uniform([5, 7], -1.0, 1.0, rng);
    for linear in [Linear::new(7, 4, rng), Linear::without_bias(7, 4, rng)] {
        let linear = linear.expect("valid sizes");
        let [fused, separate] =
            [linear.relu_of(&x), linear.of(&x).relu()].map(|y| y.predict().wait().expect("a value"));
        assert_eq!(fused, separate);
        assert!(fused.view().iter().any(|&y| y == 0.0) && fused.view().iter().any(|&y| y > 0.0));
    }
}

#[test]
fn lora_trains_the_correction_only_and_merges_to_the_same_outputs() -> Result<()> {
    let mut rng = init::rng(1);
    let base = Linear::<f64>::new(3, 2, &mut rng)?;
    let x = Nd::from([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]]);
    let before = base.of(&x).predict().wait()?;
    let net = LoRA::new(base.clone(), 2, 4.0, &mut rng)?;
    assert_uniform(&LoRA::new(Linear::<f64>::new(400, 2, &mut rng)?, 3, 4.0, &mut rng)?, "a", 0.05);
    assert_eq!((net.scale, net.of(&x).predict().wait()?), (2.0, before.clone()));
    let frozen: Vec<Numbers> = base.entries().iter().map(|entry| entry.numbers()).collect();
    for _ in 0..20 {
        net.of(&x).square().sum().train(&Adam::new(0.05)).wait()?;
    }
    assert_eq!(base.entries().iter().map(|entry| entry.numbers()).collect::<Vec<_>>(), frozen);
    let adapted = net.of(&x).predict().wait()?;
    assert!(adapted.view().iter().zip(before.view()).any(|(a, b)| (a - b).abs() > 0.1));

    let merged = net.merged()?;
    for (a, b) in merged.of(&x).predict().wait()?.view().iter().zip(adapted.view()) {
        assert!((a - b).abs() < 1e-12);
    }
    assert!(merged.entries().iter().all(|entry| !entry.is_frozen()));
    merged.bias.as_ref().unwrap().set(Nd::from([7.0, 7.0]));
    assert_eq!(net.of(&x).predict().wait()?, adapted, "the merged layer must have weights of its own");

    assert!(LoRA::new(base, 0, 1.0, &mut rng).unwrap_err().to_string().contains("the number of ranks is 0"));
    Ok(())
}

/// Attentions with corrections that are not 0, of each of the four projections.
fn adapted_attentions() -> Result<(MultiHeadAttention<f64>, GroupedQueryAttention<f64>)> {
    let rng = &mut init::rng(1);
    let mut attention = MultiHeadAttention::<f64>::new(8, 2, rng)?.adapted(2, 4.0, rng)?;
    let mut grouped = GroupedQueryAttention::<f64>::new(8, 4, 2, rng)?.adapted(2, 4.0, rng)?;
    let mut adapter = |outputs| LowRank::new([8, outputs], 3, 3.0, rng);
    (attention.adapters.k, attention.adapters.output) = (Some(adapter(8)?), Some(adapter(8)?));
    (grouped.adapters.k, grouped.adapters.output) = (Some(adapter(4)?), Some(adapter(8)?));
    let all = |Adapters { q, k, v, output }: &Adapters<f64>| [q, k, v, output].map(Clone::clone);
    for adapter in all(&attention.adapters).iter().chain(&all(&grouped.adapters)).flatten() {
        let shape = [adapter.b.value().shape()[0], adapter.b.value().shape()[1]];
        adapter.b.set(init::normal(shape, 0.0, 0.5, rng));
    }
    Ok((attention, grouped))
}

fn assert_near(found: &Nd<f64, Ix3>, wanted: &Nd<f64, Ix3>) {
    for (a, b) in found.view().iter().zip(wanted.view()) {
        assert!((a - b).abs() < 1e-12, "{a} {b}");
    }
}

#[test]
fn adapted_attention_equals_attention_with_merged_weights() -> Result<()> {
    let (attention, grouped) = adapted_attentions()?;
    let (merged, merged_groups) = (attention.merged()?, grouped.merged()?);
    let rng = &mut init::rng(2);
    let [x, memory]: [Nd<f64, Ix3>; 2] = [5, 7].map(|length| init::normal([3, length, 8], 0.0, 1.0, rng));
    let plain = MultiHeadAttention { adapters: Default::default(), ..attention.clone() };
    let causal = Attention::new().causal();
    let results = |net: &MultiHeadAttention<f64>| {
        let all = [net.of(&x), net.of_with(&x, &causal), net.attend(&x, &memory, &memory, &Attention::new())];
        all.map(|y| y.predict().wait().unwrap())
    };
    for ((found, wanted), without) in results(&attention).iter().zip(&results(&merged)).zip(&results(&plain)) {
        assert_near(found, wanted);
        assert!(found.view().iter().zip(without.view()).any(|(a, b)| (a - b).abs() > 0.01));
    }
    assert_near(&grouped.of(&x).predict().wait()?, &merged_groups.of(&x).predict().wait()?);

    // each correction alone is that of its own projection
    let Adapters { q, k, v, output } = &attention.adapters;
    let alone = [
        Adapters { q: q.clone(), ..Adapters::default() },
        Adapters { k: k.clone(), ..Adapters::default() },
        Adapters { v: v.clone(), ..Adapters::default() },
        Adapters { output: output.clone(), ..Adapters::default() },
    ];
    for adapters in alone {
        let one = MultiHeadAttention { adapters, ..attention.clone() };
        assert_near(&one.of(&x).predict().wait()?, &one.merged()?.of(&x).predict().wait()?);
    }
    assert!(merged.entries().iter().chain(&merged_groups.entries()).all(|entry| !entry.is_frozen()));
    merged.out_proj.weight.set(Nd::full([8, 8], 0.0));
    assert!(attention.out_proj.weight.value().view().iter().any(|&x| x != 0.0), "weights of its own");
    Ok(())
}

#[test]
fn adapted_attention_is_the_same_at_first_and_trains_corrections_only() -> Result<()> {
    let rng = &mut init::rng(1);
    let x: Nd<f64, Ix3> = init::normal([3, 5, 8], 0.0, 1.0, rng);
    let plain = MultiHeadAttention::<f64>::new(8, 2, rng)?;
    let before = plain.of(&x).predict().wait()?;
    let adapted = plain.clone().adapted(2, 4.0, rng)?;
    assert_eq!(adapted.of(&x).predict().wait()?, before);
    let numbers = |net: &MultiHeadAttention<f64>| net.entries().iter().map(Entry::numbers).collect::<Vec<_>>();
    let frozen = numbers(&plain);
    let loss = |net: &MultiHeadAttention<f64>| net.of(&x).square().sum();
    let first = loss(&adapted).predict().wait()?;
    for _ in 0..20 {
        loss(&adapted).train(&Adam::new(0.05)).wait()?;
    }
    assert_eq!(numbers(&plain), frozen);
    assert!(loss(&adapted).predict().wait()? < 0.9 * first);
    assert!(plain.adapted(0, 1.0, rng).unwrap_err().to_string().contains("the number of ranks is 0"));
    assert!(adapted.adapted(2, 4.0, rng).unwrap_err().to_string().contains("has adapters"));
    let grouped = GroupedQueryAttention::<f64>::new(8, 4, 2, rng)?.adapted(2, 4.0, rng)?;
    assert!(grouped.adapted(2, 4.0, rng).unwrap_err().to_string().contains("has adapters"));
    Ok(())
}
