//! Embeddings against those of PyTorch (`reference.py`).

use dl::prelude::*;
use dl::train::load_weights;
use sentence_embedding::{Encoder, nearest, read_reviews};
use std::path::{Path, PathBuf};
use std::{env, fs};

fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", name].iter().collect()
}

fn sentences() -> Vec<String> {
    fs::read_to_string(file("sentences.txt")).unwrap().lines().map(str::to_owned).collect()
}

#[derive(Module)]
struct Reference {
    embeddings: Buffer<Nd<f32, Ix2>>,
}

/// The greatest difference of an element from that of PyTorch, with batches of this size.
fn greatest_difference(encoder: &Encoder, batch: usize, reference: &Path, width: usize) -> dl::Result<f32> {
    let sentences = sentences();
    let expected = Reference { embeddings: Buffer::new(Nd::full([sentences.len(), width], 0.0)) };
    load_weights(&expected, reference)?;
    let found = encoder.embed(&sentences, batch)?.concat();
    let differences = found.iter().zip(expected.embeddings.value().into_vec()).map(|(a, b)| (a - b).abs());
    Ok(differences.fold(0.0, |most, one| if one > most || one.is_nan() { one } else { most }))
}

#[test]
fn tiny_encoder_gives_embeddings_of_pytorch_padded_and_not() -> dl::Result<()> {
    let encoder = Encoder::open(&file("tiny"))?;
    for batch in [1, 7, 100] {
        let difference = greatest_difference(&encoder, batch, &file("tiny/embeddings.safetensors"), 32)?;
        assert!(difference <= 2e-5, "batches of {batch}: {difference}");
    }
    Ok(())
}

#[test]
fn nearest_sentence_to_itself_comes_first() -> dl::Result<()> {
    let encoder = Encoder::open(&file("tiny"))?;
    let sentences = sentences();
    let all = encoder.embed(&sentences, 32)?;
    let query = encoder.embed(&["HOW do I reset  my password?"], 1)?;
    let found = nearest(&query[0], &all, 3);
    assert_eq!(sentences[found[0].0], "How do I reset my password?");
    assert!((found[0].1 - 1.0).abs() < 1e-5 && found[1].1 <= found[0].1 && found.len() == 3);
    assert!(encoder.embed(&[] as &[&str], 32)?.is_empty());
    Ok(())
}

#[test]
fn damaged_model_error_names_file() {
    let folder = env::temp_dir().join(format!("sentence_embedding.{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let copy = |name: &str| fs::copy(file("tiny").join(name), folder.join(name)).unwrap();
    let error = || Encoder::open(&folder).err().expect("a damaged model").to_string();
    assert!(error().contains("config.json"));
    copy("config.json");
    assert!(error().contains("model.safetensors"));
    copy("model.safetensors");
    assert!(error().contains("tokenizer.json"));
    let config = fs::read_to_string(file("tiny/config.json")).unwrap();
    fs::write(folder.join("config.json"), config.replace("\"bert\"", "\"gpt2\"")).unwrap();
    assert!(error().contains("a model `gpt2` with `gelu` is not supported"));
    fs::write(folder.join("config.json"), config.replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3"))
        .unwrap();
    assert!(error().contains("missing in the file: \"layers.2.attention.in_proj_weight\""), "{}", error());
    // the tokenizer of another model, and another form of pooling
    fs::write(folder.join("config.json"), &config).unwrap();
    let tokenizer = fs::read_to_string(file("tiny/tokenizer.json")).unwrap();
    let larger = tokenizer.replacen("\"[PAD]\":0", "\"[PAD]\":0,\"another word\":99999", 1);
    assert_ne!(larger, tokenizer);
    fs::write(folder.join("tokenizer.json"), larger).unwrap();
    assert!(error().contains("it is the tokenizer of another model"), "{}", error());
    copy("tokenizer.json");
    fs::create_dir(folder.join("1_Pooling")).unwrap();
    fs::write(folder.join("1_Pooling/config.json"), "{\"pooling_mode_mean_tokens\": false}").unwrap();
    assert!(error().contains("does not take the mean of its tokens"), "{}", error());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn adapters_learn_and_leave_the_pretrained_weights() -> dl::Result<()> {
    let encoder = Encoder::open(&file("tiny"))?;
    let reviews = read_reviews(&file("reviews.tsv"))?;
    assert!(reviews.len() == 300 && reviews[..20].iter().any(|review| review.label == 0));
    let tokens = reviews[..8].iter().map(|review| encoder.tokens(&review.text)).collect::<dl::Result<Vec<_>>>()?;
    let labels: Vec<usize> = reviews[..8].iter().map(|review| review.label).collect();
    let before: Vec<_> = encoder.bert().entries().iter().map(|entry| entry.numbers()).collect();

    let rng = &mut dl::nd::init::rng(1);
    let (adapted, head) = (encoder.bert().clone().adapted(2, rng)?, dl::nn::Linear::new(32, 2, rng)?);
    let loss = head.of(adapted.of(&tokens)? * 5.0).cross_entropy(Nd::from(labels));
    let adam = Adam::new(0.05);
    let first = loss.train(&adam).wait()?;
    (0..12).try_for_each(|_| loss.train(&adam).wait().map(drop))?;
    assert!(loss.predict().wait()? < 0.7 * first);
    // the pretrained weights are those of the file, and the merged network computes the same
    let after: Vec<_> = encoder.bert().entries().iter().map(|entry| entry.numbers()).collect();
    assert!(before.iter().zip(&after).all(|(before, after)| before.to_le_bytes() == after.to_le_bytes()));
    let of = |x: NdLayer| x.predict().wait();
    let (apart, merged) = (of(adapted.of(&tokens)?)?, of(adapted.merged()?.of(&tokens)?)?);
    assert!(apart.view().iter().zip(merged.view()).all(|(a, b)| (a - b).abs() < 1e-5));
    assert!(apart != of(encoder.bert().of(&tokens)?)?);
    Ok(())
}

#[test]
fn damaged_reviews_error_names_line() {
    let path = env::temp_dir().join(format!("reviews.{}", std::process::id()));
    fs::write(&path, "1\t2.5\tgood .\n2\tgood\n").unwrap();
    let error = read_reviews(&path).unwrap_err().to_string();
    assert!(error.ends_with("line 2: a name, a rating and a sentence must be separated by tabs"), "{error}");
    fs::remove_file(path).unwrap();
}

/// `just minilm` fetches the model and runs this.
#[test]
#[ignore = "needs the folder of all-MiniLM-L6-v2 in DL_MINILM"]
fn minilm_gives_embeddings_of_pytorch_padded_and_not() -> dl::Result<()> {
    let encoder = Encoder::open(Path::new(&env::var("DL_MINILM").expect("DL_MINILM is a folder")))?;
    for batch in [1, 32] {
        let difference = greatest_difference(&encoder, batch, &file("minilm.safetensors"), 384)?;
        println!("batches of {batch}: the greatest difference of an element is {difference:.2e}");
        assert!(difference <= 2e-5, "batches of {batch}: {difference}");
    }
    // by meaning, not by words
    let sentences = sentences();
    let (query, all) = (encoder.embed(&["A young hound romps on the lawn."], 1)?, encoder.embed(&sentences, 32)?);
    assert_eq!(sentences[nearest(&query[0], &all, 1)[0].0], "A puppy is playing in the grass.");
    Ok(())
}
