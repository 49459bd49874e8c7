//! Weights of files from other programs: layouts, names of their own, adapters, scaled integers,
//! files in several parts.

use super::state_dict::{fixture, tensors};
use dl_core::{Differentiable, Entry, Module, Numbers, Result, Weight};
use dl_macros::Module;
use dl_nd::ndarray::{Ix1, Ix2};
use dl_nd::{Nd, NdWeight, init};
use dl_nn::{Linear, LoRA, TransformerBlock};
use dl_train::{Layout, Load, Names, load_weights, save_torch, save_torch_as, save_weights};
use safetensors::{Dtype, tensor::TensorView};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A file without metadata of this crate.
fn foreign(folder: &Path, name: &str, tensors: &[(&str, Dtype, &[usize], Vec<u8>)]) -> PathBuf {
    let views = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| (name.to_string(), TensorView::new(*dtype, shape.to_vec(), bytes).unwrap()));
    let bytes = safetensors::serialize(views.collect::<HashMap<_, _>>(), None).unwrap();
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn square() -> Result<Linear> {
    Linear::without_bias(2, 2, &mut init::rng(1))
}

fn weight(linear: &Linear) -> Vec<f32> {
    linear.weight.value().into_vec()
}

/// A square weight fits either way: the layout must be known, not guessed.
#[test]
fn foreign_file_with_undecided_layout_is_refused() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path =
        foreign(folder.path(), "a.safetensors", &[("weight", Dtype::F32, &[2, 2], floats(&[1.0, 2.0, 3.0, 4.0]))]);
    let linear = square()?;
    let before = weight(&linear);
    for load in [Load::strict(), Load::partial(), Load::strict().only("weight").convert()] {
        let error = load.weights(&linear, &path).unwrap_err().to_string();
        assert!(error.contains("PyTorch has the axes of \"weight\" exchanged"), "{error}");
        assert!(error.contains("`Load::torch()`") && error.contains("`.layout(Layout::Native)`"), "{error}");
    }
    let error = Load::strict().rename("weight", "x.weight").weights(&[&linear], &path).unwrap_err().to_string();
    assert!(error.contains("a file of PyTorch is loaded with `Load::torch()`"), "{error}");
    assert_eq!(weight(&linear), before);

    Load::strict().layout(Layout::Native).weights(&linear, &path)?;
    assert_eq!(weight(&linear), [1.0, 2.0, 3.0, 4.0]);
    Load::torch().weights(&linear, &path)?;
    assert_eq!(weight(&linear), [1.0, 3.0, 2.0, 4.0]);

    // a rectangular weight is refused as well, and so is one that is the wrong way round
    let wide: Linear = Linear::without_bias(3, 2, &mut init::rng(1))?;
    let path = foreign(folder.path(), "b.safetensors", &[("weight", Dtype::F32, &[3, 2], floats(&[0.0; 6]))]);
    assert!(Load::strict().weights(&wide, &path).unwrap_err().to_string().contains("`Load::torch()`"));
    let error = Load::torch().weights(&wide, &path).unwrap_err();
    assert!(error.is_shape());
    let text = "\"weight\" is f32 [3, 2] ([2, 3] in PyTorch) in the module and F32 [3, 2] in the file";
    assert!(error.to_string().ends_with(text), "{error}");

    // where no layout matters, a foreign file is read as before
    let bias = [Weight::new(Nd::from([0.0_f32, 0.0]))];
    load_weights(&bias, foreign(folder.path(), "c.safetensors", &[("0", Dtype::F32, &[2], floats(&[5.0, 6.0]))]))?;
    assert_eq!(bias[0].value(), Nd::from([5.0, 6.0]));
    Ok(())
}

#[test]
fn stated_layout_that_contradicts_the_file_is_error() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let [ours, torch] = ["ours", "torch"].map(|name| folder.path().join(format!("{name}.safetensors")));
    let linear = square()?;
    save_weights(&linear, &ours)?;
    save_torch(&linear, &torch)?;
    let error = Load::torch().weights(&linear, &ours).unwrap_err().to_string();
    assert!(
        error.contains("the file has the names and layouts of this library, not") && error.contains("`Load::strict()`")
    );
    let error = Load::strict().layout(Layout::Native).weights(&linear, &torch).unwrap_err().to_string();
    assert!(error.contains("the names and layouts of PyTorch, not") && error.contains("`Load::torch()`"), "{error}");
    let before = weight(&linear);
    linear.weight.set(Nd::from([[0.0, 0.0], [0.0, 0.0]]));
    load_weights(&linear, &torch)?;
    assert_eq!(weight(&linear), before);
    Ok(())
}

/// A module of a user, with declared layouts and names.
#[derive(Module)]
#[module(crate = dl_core)]
struct Own {
    #[module(torch = "query.weight", transposed)]
    q: NdWeight<Ix2>,
    #[module(transposed)]
    heads: Vec<NdWeight<dl_nd::ndarray::Ix3>>,
    #[module(torch = "scale")]
    factor: NdWeight<Ix1>,
}

#[test]
fn declared_layout_of_a_users_module_is_kept() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.safetensors");
    let own = |x: f32| Own {
        q: Weight::new(Nd::from([[x, 2.0], [3.0, 4.0]])),
        heads: vec![Weight::new(Nd::from([[[x, 2.0, 3.0], [4.0, 5.0, 6.0]], [[7.0, 8.0, 9.0], [10.0, 11.0, 12.0]]]))],
        factor: Weight::new(Nd::from([x])),
    };
    save_torch(&own(1.0), &path)?;
    let saved = tensors(&path);
    assert_eq!(saved.keys().collect::<Vec<_>>(), ["heads.0", "query.weight", "scale"]);
    assert_eq!(saved["query.weight"], (Dtype::F32, vec![2, 2], floats(&[1.0, 3.0, 2.0, 4.0])));
    let heads = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0, 7.0, 10.0, 8.0, 11.0, 9.0, 12.0];
    assert_eq!(saved["heads.0"], (Dtype::F32, vec![2, 3, 2], floats(&heads)));
    let (one, other) = (own(1.0), own(0.0));
    Load::torch().weights(&other, &path)?;
    for (one, other) in one.entries().iter().zip(other.entries()) {
        assert_eq!(one.numbers(), other.numbers());
    }
    Ok(())
}

#[test]
fn two_entries_with_one_name_in_pytorch_are_error() -> Result<()> {
    #[derive(Module)]
    #[module(crate = dl_core)]
    struct Twice {
        a: Weight<f32>,
        #[module(torch = "a")]
        b: Weight<f32>,
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("twice.safetensors");
    let twice = Twice { a: Weight::new(1.0), b: Weight::new(2.0) };
    assert!(save_torch(&twice, &path).unwrap_err().to_string().contains("two weights or buffers have the path \"a\""));
    let path = foreign(folder.path(), "a.safetensors", &[("a", Dtype::F32, &[], floats(&[3.0]))]);
    let error = Load::torch().weights(&twice, path).unwrap_err().to_string();
    assert!(error.contains("PyTorch's name of both \"a\" and \"b\" is \"a\""), "{error}");
    assert_eq!((twice.a.value(), twice.b.value()), (1.0, 2.0));
    Ok(())
}

/// Queries, keys and values of an encoder of `transformers`, separate in the file and fused here.
fn separate() -> Names {
    let parts = ["query", "key", "value"].map(|part| format!("encoder.layer.{{i}}.attention.self.{part}.{{p}}"));
    Names::new()
        .stack(&parts, "{i}.attention.in_proj_{p}")
        .rename("encoder.layer.{i}.attention.output.dense", "{i}.attention.out_proj")
        .rename("encoder.layer.{i}.ffn.lin{n}", "{i}.linear{n}")
        .rename("encoder.layer.{i}", "{i}")
}

#[test]
fn separate_projections_are_stacked_and_divided() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("encoder.safetensors");
    let block = |seed| TransformerBlock::<f32>::new(4, 2, 4, &mut init::rng(seed));
    let (saved, loaded) = ([block(1)?, block(2)?], [block(3)?, block(4)?]);
    save_torch_as(&saved, &separate(), &path)?;
    let names = tensors(&path);
    let fused = saved[1].attention.in_proj_weight.value().into_vec();
    assert_eq!(names["encoder.layer.1.attention.self.key.weight"], (Dtype::F32, vec![4, 4], floats(&fused[16..32])));
    assert_eq!(names["encoder.layer.0.attention.self.value.bias"].1, [4]);
    assert!(names.contains_key("encoder.layer.0.ffn.lin2.weight") && names.len() == 2 * 16);
    Load::torch().names(&separate()).weights(&loaded, &path)?;
    for (one, other) in saved.entries().iter().zip(loaded.entries()) {
        assert_eq!(one.numbers(), other.numbers(), "{}", one.path());
    }

    // the reverse: fused in the file, separate here
    #[derive(Module)]
    #[module(crate = dl_core)]
    struct Separate {
        q: Linear,
        k: Linear,
        v: Linear,
    }
    let linear = |outputs, seed| Linear::<f32>::new(4, outputs, &mut init::rng(seed));
    let three = |seed| Result::Ok(Separate { q: linear(4, seed)?, k: linear(2, seed + 1)?, v: linear(2, seed + 2)? });
    let names = Names::new().split("in_proj_{p}", &["q.{p}", "k.{p}", "v.{p}"]);
    let (one, other) = (three(1)?, three(4)?);
    save_torch_as(&one, &names, &path)?;
    assert_eq!(tensors(&path)["in_proj_weight"].1, [8, 4]);
    Load::torch().names(&names).weights(&other, &path)?;
    for (one, other) in one.entries().iter().zip(other.entries()) {
        assert_eq!(one.numbers(), other.numbers(), "{}", one.path());
    }
    // a rule for parts that the module has not
    let error = save_torch_as(&one, &Names::new().split("qx", &["q.weight", "x"]), &path).unwrap_err().to_string();
    assert!(error.contains("\"qx\": \"x\" is not in the module"), "{error}");
    let error = save_torch_as(&one, &Names::new().stack(&["a", "b", "c"], "q.weight"), &path).unwrap_err();
    assert!(error.to_string().contains("\"q.weight\" of length 4 is not 3 equal parts"), "{error}");
    Ok(())
}

/// The correction is not 0, and an attention keeps its names beside its corrections.
#[test]
fn adapters_are_saved_and_loaded_in_both_layouts() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("adapters.safetensors");
    let block = |seed| TransformerBlock::<f32>::new(4, 2, 8, &mut init::rng(seed));
    let adapted = |seed| {
        let (rng, block) = (&mut init::rng(seed), block(seed)?);
        let attention = block.attention.adapted(2, 4.0, rng)?;
        let block = TransformerBlock { attention, ..block }.with_linears(|linear| LoRA::new(linear, 2, 4.0, rng))?;
        let learned = block.weights().into_iter().filter(|entry| !entry.is_frozen());
        let learned: Vec<_> = learned.map(|entry| (entry.clone(), entry.shape())).collect();
        Entry::set_each(&learned, |entry| {
            Ok(Numbers::F32((0..entry.len()).map(|i| (i + seed as usize) as f32).collect()))
        })?;
        Result::Ok(block)
    };
    let x = Nd::full([1, 3, 4], 0.5);
    let saved = adapted(1)?;
    for torch in [false, true] {
        if torch {
            save_torch(&saved, &path)?
        } else {
            save_weights(&saved, &path)?
        }
        let name = if torch { "self_attn.adapters.v.lora_B.default.weight" } else { "attention.adapters.v.b" };
        assert_eq!(tensors(&path)[name].1, if torch { [4, 2] } else { [2, 4] });
        let loaded = adapted(2)?;
        load_weights(&loaded, &path)?;
        for (one, other) in saved.entries().iter().zip(loaded.entries()) {
            assert_eq!(one.numbers(), other.numbers(), "{}", one.path());
        }
        assert_eq!(saved.of(&x).predict().wait()?, loaded.of(&x).predict().wait()?);
    }
    // the adapters alone, and a pretrained attention
    let (loaded, pretrained) = (adapted(2)?, block(3)?);
    let report = Load::torch().only("attention.adapters.**").only("linear1.a").weights(&loaded, &path)?;
    assert_eq!(report.loaded.len(), 5);
    save_torch(&pretrained, &path)?;
    let report = Load::partial().layout(Layout::Torch).only("attention.**").weights(&loaded, &path)?;
    assert_eq!(report.loaded.len(), 4);
    assert_eq!(loaded.attention.in_proj_weight.value(), pretrained.attention.in_proj_weight.value());
    Ok(())
}

#[test]
fn parts_that_do_not_fit_are_reported_together() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let part = |rows: usize| vec![0_u8; 4 * rows * 2];
    let path = foreign(
        folder.path(),
        "parts.safetensors",
        &[
            ("q", Dtype::F32, &[2, 2], part(2)),
            ("k", Dtype::F32, &[1, 2], part(1)),
            ("more", Dtype::F32, &[1, 2], part(1)),
            ("whole", Dtype::F32, &[5, 2], part(5)),
        ],
    );
    let net = [[2, 2], [4, 2], [2, 2], [2, 2], [1, 2]].map(|shape| Weight::new(Nd::<f32, Ix2>::full(shape, 7.0)));
    let names = Names::new().stack(&["q", "v"], "0").stack(&["k", "more"], "1").split("whole", &["2", "3"]);
    let error = Load::torch().names(&names).weights(&net, &path).unwrap_err().to_string();
    for part in [
        "missing in the file: \"4\"",
        "\"0\" is f32 [2, 2] in the module and stacked of 2 tensors, of which \"v\" is missing in the file",
        "\"1\" is f32 [4, 2] in the module and stacked to a length of 2 in the file",
        "\"2\" is f32 [2, 2] in the module and F32 [5, 2] of \"whole\" in the file",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(net.iter().all(|weight| weight.value().into_vec().iter().all(|&x| x == 7.0)));
    Ok(())
}

#[test]
fn integers_with_a_scale_are_read_as_floating_point() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let file = |scale: &[usize]| {
        let count = scale.iter().product::<usize>();
        foreign(
            folder.path(),
            "q.safetensors",
            &[
                ("weight", Dtype::I8, &[2, 2], vec![1, 255, 127, 128]),
                ("weight_scale", Dtype::F16, scale, [0_u8, 0x38].repeat(count)), // 0.5
                ("weight_zero_point", Dtype::I8, &[2, 1], vec![0, 255]),
                ("bias", Dtype::U8, &[2], vec![0, 255]),
                ("bias_scale", Dtype::F32, &[2], floats(&[1.0, 0.25])),
            ],
        )
    };
    let linear: Linear = Linear::new(2, 2, &mut init::rng(1))?;
    let before = weight(&linear);
    let path = file(&[2, 1]);
    let load = Load::torch();
    let error = load.weights(&linear, &path).unwrap_err().to_string();
    assert!(
        error.contains("\"weight\" is f32 [2, 2] ([2, 2] in PyTorch) in the module and I8 [2, 2] in the file"),
        "{error}"
    );
    let load = load.scale("{}_scale").zero_point("{}_zero_point");
    let error = load.weights(&linear, file(&[3])).unwrap_err().to_string();
    assert!(error.contains("\"weight_scale\" is F16 [3]: not one number, and not one for each of 2 rows"), "{error}");
    assert_eq!(weight(&linear), before);
    for scale in [&[2, 1][..], &[2], &[1], &[]] {
        load.weights(&linear, file(scale))?;
        assert_eq!(weight(&linear), [0.5, 64.0, -0.5, -63.5], "transposed, with the second row's zero at −1");
        assert_eq!(linear.bias.as_ref().unwrap().value(), Nd::from([0.0, 63.75]));
    }
    Ok(())
}

/// A misspelt pattern would load a square weight as it is in the file.
#[test]
fn pattern_without_match_is_refused_and_leaves_weights_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors");
    let net = [1.0_f64, 2.0].map(Weight::new);
    save_torch(&net, &path).unwrap();
    net[0].set(5.0);
    for load in [Load::torch().only("2"), Load::torch().transposed("2")] {
        let error = load.weights(&net, &path).unwrap_err().to_string();
        assert!(error.contains("(\"2\")` matches no path of the module: 0, 1"), "{error}");
        assert_eq!(net[0].value(), 5.0);
    }
}

/// Two shards and their index.
fn sharded(folder: &Path) -> (PathBuf, [Weight<Nd<f32, Ix1>>; 2]) {
    foreign(folder, "model-00001-of-00002.safetensors", &[("0", Dtype::F32, &[2], floats(&[1.0, 2.0]))]);
    foreign(folder, "model-00002-of-00002.safetensors", &[("1", Dtype::F32, &[2], floats(&[3.0, 4.0]))]);
    let path = folder.join("model.safetensors.index.json");
    fs::write(&path, index("1", "2")).unwrap();
    (path, [0.0, 0.0].map(|x| Weight::new(Nd::from([x, x]))))
}

fn index(first: &str, second: &str) -> String {
    let shard = |number: &str| format!("model-0000{number}-of-00002.safetensors");
    let (first, second) = (shard(first), shard(second));
    format!(r#"{{"metadata": {{"total_size": 16}}, "weight_map": {{"0": "{first}", "1": "{second}"}}}}"#)
}

#[test]
fn index_loads_all_of_its_files() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let (path, net) = sharded(folder.path());
    assert!(load_weights(&net, &path)?.is_complete());
    assert_eq!(net[1].value(), Nd::from([3.0, 4.0]));
    Ok(())
}

#[test]
fn damaged_index_error_names_defect() {
    let folder = tempfile::tempdir().unwrap();
    let (path, net) = sharded(folder.path());
    let whole = index("1", "2");
    for (text, message) in [
        (whole[..40].to_owned(), "index: EOF while parsing"),
        ("{}".to_owned(), "index: missing field `weight_map`"),
        (r#"{"weight_map": {"0": "a", "0": "b"}}"#.to_owned(), "index: duplicate name \"0\""),
        (r#"{"weight_map": {"0": 1}}"#.to_owned(), "index: invalid type: integer `1`"),
        (whole.replace("model-00002", "../model-00002"), "is not the name of a file beside the index"),
        (whole.replace("model-00002", "/etc/model-00002"), "is not the name of a file beside the index"),
        (r#"{"weight_map": {"0": ""}}"#.to_owned(), "\"\" is not the name of a file beside the index"),
        (index("1", "3"), "model-00003-of-00002.safetensors: "),
        (index("2", "1"), "is in \"model-00001-of-00002.safetensors\", but not in the index"),
        (whole.replace("\"1\"", "\"2\""), "\"1\" is in \"model-00002-of-00002.safetensors\", but not in the index"),
        (whole.replace("{\"0\"", "{\"more\": \"model-00001-of-00002.safetensors\", \"0\""), "\"more\" is not in"),
        (r#"{"weight_map": {"0": "model.safetensors.index.json"}}"#.to_owned(), "this is a JSON file"),
    ] {
        fs::write(&path, &text).unwrap();
        let error = load_weights(&net, &path).unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()) && error.contains(message), "{message}: {error}");
        assert_eq!(net[0].value(), Nd::from([0.0, 0.0]));
    }
    // shards of different layouts, and a pickle
    let shard = folder.path().join("model-00002-of-00002.safetensors");
    fs::write(&path, &whole).unwrap();
    save_torch(&[0, 0], &shard).unwrap();
    assert!(load_weights(&net, &path).unwrap_err().to_string().contains("have different layouts"));
    fs::copy(fixture("torch.pt"), &shard).unwrap();
    let error = load_weights(&net, &path).unwrap_err().to_string();
    assert!(error.contains("reading a pickle runs the code in it"), "{error}");
    assert!(error.contains("safetensors.torch.save_file(torch.load("), "{error}");
}

#[test]
fn bad_numbers_in_a_state_dict_leave_all_weights_unchanged() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let net = [square()?, square()?];
    let before = net[0].entries()[0].numbers();
    let good = ("0.weight", Dtype::F32, &[2_usize, 2][..], floats(&[1.0; 4]));
    for (dtype, bytes, message) in [
        (Dtype::F32, floats(&[1.0, f32::NAN, 1.0, 1.0]), "\"1.weight\": element 1 is NaN"),
        (Dtype::F64, 1e300_f64.to_le_bytes().repeat(4), "\"1.weight\": element 0 is inf"),
        (Dtype::I64, vec![0; 32], "is f32 [2, 2] ([2, 2] in PyTorch) in the module and I64 [2, 2] in the file"),
        (Dtype::BOOL, vec![0; 4], "and BOOL [2, 2] in the file"),
    ] {
        let path = foreign(folder.path(), "bad.safetensors", &[good.clone(), ("1.weight", dtype, &[2, 2], bytes)]);
        let error = Load::torch().weights(&net, &path).unwrap_err().to_string();
        assert!(error.contains(message), "{message}: {error}");
        assert_eq!(net[0].entries()[0].numbers(), before);
    }
    let Numbers::F32(numbers) = before else { unreachable!() };
    assert_ne!(numbers, [1.0; 4]);
    Ok(())
}

/// The linear layers of GPT-2 in `transformers` have weights `[in, out]`, and one of them projects to
/// queries, keys and values.
#[test]
fn conv1d_of_gpt2_is_read_without_an_exchange_of_axes() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let block = |seed| TransformerBlock::<f32>::new(4, 2, 6, &mut init::rng(seed));
    let (there, here) = ([block(1)?], [block(2)?]);
    let transposed = |x: &NdWeight<Ix2>| x.value().into_array().t().iter().copied().collect::<Vec<_>>();
    let bias = |linear: &Linear| linear.bias.as_ref().unwrap().value().into_vec();
    let TransformerBlock { attention, linear1, linear2, norm1, norm2, .. } = &there[0];
    let tensors: Vec<(&str, &[usize], Vec<f32>)> = vec![
        ("h.0.ln_1.weight", &[4], norm1.weight.value().into_vec()),
        ("h.0.ln_1.bias", &[4], norm1.bias.as_ref().unwrap().value().into_vec()),
        ("h.0.attn.c_attn.weight", &[4, 12], transposed(&attention.in_proj_weight)),
        ("h.0.attn.c_attn.bias", &[12], attention.in_proj_bias.as_ref().unwrap().value().into_vec()),
        ("h.0.attn.c_proj.weight", &[4, 4], weight(&attention.out_proj)),
        ("h.0.attn.c_proj.bias", &[4], bias(&attention.out_proj)),
        ("h.0.ln_2.weight", &[4], norm2.weight.value().into_vec()),
        ("h.0.ln_2.bias", &[4], norm2.bias.as_ref().unwrap().value().into_vec()),
        ("h.0.mlp.c_fc.weight", &[4, 6], weight(linear1)),
        ("h.0.mlp.c_fc.bias", &[6], bias(linear1)),
        ("h.0.mlp.c_proj.weight", &[6, 4], weight(linear2)),
        ("h.0.mlp.c_proj.bias", &[4], bias(linear2)),
    ];
    let tensors: Vec<_> =
        tensors.iter().map(|(name, shape, numbers)| (*name, Dtype::F32, *shape, floats(numbers))).collect();
    let path = foreign(folder.path(), "gpt2.safetensors", &tensors);
    let names = Names::new()
        .rename("h.{i}.ln_{n}", "{i}.norm{n}")
        .rename("h.{i}.attn.c_attn.{p}", "{i}.attention.in_proj_{p}")
        .rename("h.{i}.attn.c_proj", "{i}.attention.out_proj")
        .rename("h.{i}.mlp.c_fc", "{i}.linear1")
        .rename("h.{i}.mlp.c_proj", "{i}.linear2");
    let load = Load::torch().names(&names);
    let error = load.weights(&here, &path).unwrap_err();
    assert!(error.is_shape() && error.to_string().contains("\"0.linear1.weight\""), "{error}");
    load.transposed("*.linear1").transposed("*.linear2").transposed("*.attention").weights(&here, &path)?;
    for (here, there) in here.entries().iter().zip(there.entries()) {
        assert_eq!(here.numbers(), there.numbers(), "{}", here.path());
    }
    Ok(())
}
