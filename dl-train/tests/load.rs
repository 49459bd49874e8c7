//! Matching of files and modules.

use dl_core::{Buffer, Chunk, Differentiable, Error, Module, Notes, Optimizer, Result, Visitor, Weight};
use dl_nd::ndarray::Ix1;
use dl_nd::{Nd, NdWeight};
use dl_optim::{Adam, Sgd};
use dl_train::{Checkpoint, Load, load_weights, save_weights};
use std::path::PathBuf;
use tempfile::TempDir;

struct Net {
    encoder: [NdWeight<Ix1, f64>; 2],
    head: NdWeight<Ix1, f64>,
}

impl Module for Net {
    fn visit(&self, visitor: &mut Visitor) {
        visitor.field("encoder", &self.encoder);
        visitor.field("head", &self.head);
    }
}

fn net(classes: usize, number: f64) -> Net {
    let weight = |length: usize| Weight::new(Nd::full([length], number));
    Net { encoder: [weight(2), weight(3)], head: weight(classes) }
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("file.safetensors")
}

fn saved(module: &impl Module) -> Result<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    save_weights(module, &path)?;
    Ok((folder, path))
}

fn first(weight: &NdWeight<Ix1, f64>) -> f64 {
    weight.value().into_vec()[0]
}

#[test]
fn partial_load_for_fine_tuning_reports_misfit() -> Result<()> {
    let (_folder, path) = saved(&net(10, 1.0))?;
    let new = net(5, 0.0);
    let error = load_weights(&new, &path).unwrap_err();
    assert!(error.is_shape());
    let text = error.to_string();
    assert!(text.starts_with(&path.display().to_string()), "{text}");
    assert!(text.ends_with("misshapen: \"head\" is f64 [5] in the module and F64 [10] in the file"), "{text}");
    assert_eq!(first(&new.encoder[0]), 0.0, "nothing must be loaded");

    let report = Load::partial().weights(&new, &path)?;
    assert_eq!(report.loaded, ["encoder.0", "encoder.1"]);
    assert_eq!(report.misshapen[0].path, "head");
    assert_eq!((first(&new.encoder[1]), first(&new.head)), (1.0, 0.0));

    let new = net(5, 0.0);
    assert!(Load::strict().only("encoder").weights(&new, &path)?.is_complete());
    assert!(Load::strict().ignore("head").weights(&new, &path)?.is_complete());
    assert_eq!(first(&new.head), 0.0);
    Ok(())
}

#[test]
fn rename_maps_paths_of_file_to_module() -> Result<()> {
    let (_folder, path) = saved(&net(10, 1.0))?;
    // a part of the file into a module, and the file into a part of a module
    let part = net(1, 0.0);
    Load::strict().rename("encoder", "").ignore("head").weights(&part.encoder, &path)?;
    assert_eq!(first(&part.encoder[1]), 1.0);
    let whole = (net(1, 0.0), net(10, 0.0));
    Load::strict().only("1").rename("", "1").weights(&whole, &path)?;
    assert_eq!((first(&whole.0.head), first(&whole.1.head)), (0.0, 1.0));
    // prefixes match whole path segments only
    let error = Load::strict().rename("enc", "x").rename("head", "tail").weights(&net(10, 0.0), &path).unwrap_err();
    assert!(error.to_string().ends_with("missing in the file: \"head\"; unexpected in the file: \"tail\""), "{error}");
    let error = Load::partial().rename("head", "encoder.0").weights(&net(10, 0.0), &path).unwrap_err();
    assert!(error.to_string().contains("both renamed to \"encoder.0\""), "{error}");
    Ok(())
}

#[test]
fn partial_load_without_match_is_error() -> Result<()> {
    let (_folder, path) = saved(&[Weight::new(1.0_f64)])?;
    let error = Load::partial().weights(&net(1, 0.0), &path).unwrap_err();
    assert!(error.to_string().contains("no tensor fits the module"), "{error}");
    Ok(())
}

/// A file may contain a tied weight under any of its paths, or under several with equal elements.
#[test]
fn tied_weights_load_from_any_path() -> Result<()> {
    let w = Weight::new(1.0_f64);
    let (_folder, path) = saved(&(w.clone(), w.clone()))?;
    let untied = (Weight::new(0.0_f64), Weight::new(0.0_f64));
    assert!(load_weights(&untied, &path).unwrap_err().to_string().contains("missing in the file: \"1\""));

    let tied = Weight::new(0.0_f64);
    let twice = (tied.clone(), tied.clone());
    for numbers in [(2.0, 2.0), (2.0, 3.0)] {
        save_weights(&(Weight::new(numbers.0), Weight::new(numbers.1)), &path)?;
        let loaded = load_weights(&twice, &path);
        match loaded {
            Ok(report) => assert_eq!((report.loaded, numbers), (vec!["0".to_owned()], (2.0, 2.0))),
            Err(error) => {
                assert!(error.to_string().contains("\"0\" and \"1\" are tied in the module, but differ"), "{error}")
            }
        }
        assert_eq!(tied.value(), 2.0);
    }
    Load::strict().rename("0", "1").ignore("0").weights(&twice, {
        save_weights(&[Weight::new(5.0_f64)], &path)?;
        &path
    })?;
    assert_eq!(tied.value(), 5.0);
    Ok(())
}

#[test]
fn non_finite_values_need_permission() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let bad = [Weight::new(f64::NAN)];
    let error = save_weights(&bad, file(&folder)).unwrap_err();
    assert!(error.is_not_finite() && error.to_string().contains("\"0\": element 0 is NaN"), "{error}");
    assert!(!file(&folder).exists());

    let checkpoint = Checkpoint::new().module("model", &bad);
    assert!(checkpoint.save(file(&folder)).unwrap_err().is_not_finite());
    checkpoint.allow_non_finite().save(file(&folder))?;
    let (net, saved) = ([Weight::new(1.0_f64)], Checkpoint::load(file(&folder))?);
    assert!(saved.restore().module("model", &net).apply().unwrap_err().is_not_finite());
    assert_eq!(net[0].value(), 1.0);
    saved.restore().with(Load::strict().allow_non_finite()).module("model", &net).apply()?;
    assert!(net[0].value().is_nan());

    // overflow in single precision; an infinite mask
    save_weights(&[Weight::new(1e300)], file(&folder))?;
    let single = [Weight::new(1.0_f32)];
    assert!(Load::strict().convert().weights(&single, file(&folder)).unwrap_err().is_not_finite());
    let mask = [Buffer::new(f64::NEG_INFINITY)];
    save_weights(&mask, file(&folder))?;
    load_weights(&mask, file(&folder))?;
    assert!(save_weights(&[Buffer::new(f64::NAN)], file(&folder)).is_err());
    Ok(())
}

/// Any misfit in any part must leave everything unchanged.
#[test]
fn failed_restore_changes_nothing() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let (net, adam) = ([Weight::new(1.0_f64), Weight::new(2.0)], Adam::new(0.5));
    (&net[0] * &net[1]).train(&adam).wait()?;
    Checkpoint::new().module("model", &net).optimizer("adam", &adam, &net).save(file(&folder))?;
    let saved = Checkpoint::load(file(&folder))?;

    let (other, fresh, sgd) = ([Weight::new(7.0_f64), Weight::new(8.0)], Adam::new(0.5), Sgd::new(0.1).momentum(0.9));
    let larger = [1.0, 2.0, 3.0].map(Weight::<f64>::new);
    let restore = || saved.restore().module("model", &other).optimizer("adam", &fresh, &other);
    let bad: Vec<(&str, Error)> = vec![
        ("the checkpoint has no module \"modell\"", restore().module("modell", &net).apply().unwrap_err()),
        ("the checkpoint has no optimizer of this name", restore().optimizer("sgd", &sgd, &net).apply().unwrap_err()),
        ("this is the state of Adam", restore().optimizer("adam", &sgd, &net).apply().unwrap_err()),
        ("the module has no such weight", restore().optimizer("adam", &fresh, &[&net[0]]).apply().unwrap_err()),
        ("unexpected in the file: \"1\"", restore().module("model", &[&net[0]]).apply().unwrap_err()),
        ("module \"model\"", restore().module("model", &larger).apply().unwrap_err()),
        ("are the same weight or buffer, but have two values", restore().module("model", &other).apply().unwrap_err()),
    ];
    for (message, error) in bad {
        assert!(error.to_string().contains(message), "{message}: {error}");
        assert!(error.to_string().contains(&file(&folder).display().to_string()), "{error}");
        assert_eq!((other[0].value(), other[1].value()), (7.0, 8.0));
        assert!(fresh.memory().is_some_and(|memory| memory.is_empty()));
    }
    restore().apply()?;
    assert_eq!((other[0].value(), fresh.memory().unwrap().steps()), (net[0].value(), 1));
    Ok(())
}

/// An optimizer with a state that cannot be restored.
#[derive(Clone)]
struct Odd(Notes);

impl Optimizer for Odd {
    fn step(&self, _: Chunk<'_>, _: u64) -> Result<()> {
        Ok(())
    }

    fn notes(&self) -> Vec<(String, Notes)> {
        vec![("loss".to_owned(), self.0.clone())]
    }
}

/// A state that could not be loaded again must not be saved.
#[test]
fn unrestorable_checkpoint_is_not_saved() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let (net, adam) = ([Weight::new(1.0_f64), Weight::new(2.0)], Adam::new(0.5));
    (&net[0] * &net[1]).train(&adam).wait()?;
    let bad = [
        ("\"\" is not a valid name", Checkpoint::new().module("", &net)),
        ("\"a/b\" is not a valid name", Checkpoint::new().number("a/b", 1.0)),
        ("\"number/a\" is in the checkpoint twice", Checkpoint::new().number("a", 1.0).number("a", 1.0)),
        ("\"a\" is in the checkpoint twice", Checkpoint::new().text("a", "").text("a", "")),
        ("share \"0\"", Checkpoint::new().module("a", &net).module("b", &[&net[1]])),
        ("1 weights that are not among those", Checkpoint::new().optimizer("adam", &adam, &[&net[1]])),
    ];
    for (message, checkpoint) in bad {
        let error = checkpoint.count("more", 1).save(file(&folder)).unwrap_err();
        assert!(error.to_string().contains(message), "{message}: {error}");
        assert!(!file(&folder).exists());
    }
    let odd = Odd(Notes::new());
    odd.0.set("best", f64::INFINITY);
    let error = Checkpoint::new().optimizer("odd", &odd, &net).save(file(&folder)).unwrap_err();
    assert!(error.is_not_finite() && error.to_string().contains("\"loss.best\" is inf: only finite"), "{error}");
    // both as one module
    let both = (&net, [&net[1]]);
    Checkpoint::new().module("both", &both).optimizer("adam", &adam, &both).save(file(&folder))?;
    Checkpoint::load(file(&folder))?.restore().module("both", &both).optimizer("adam", &adam, &both).apply().map(drop)
}

/// Files of weights and checkpoints must not be confused.
#[test]
fn loading_wrong_kind_of_file_is_error() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let net = [Weight::new(1.0_f64)];
    save_weights(&net, file(&folder))?;
    let error = Checkpoint::load(file(&folder)).unwrap_err();
    assert!(error.to_string().contains("this is a file of weights, not a checkpoint"), "{error}");
    Checkpoint::new().module("model", &net).save(file(&folder))?;
    let error = load_weights(&net, file(&folder)).unwrap_err();
    assert!(error.to_string().contains("open it with `Checkpoint::load`"), "{error}");
    let saved = Checkpoint::load(file(&folder))?;
    assert!(saved.count("epoch").unwrap_err().to_string().contains("\"count/epoch\": there is no such tensor"));
    assert!(saved.text("note").unwrap_err().to_string().contains("the checkpoint has no text \"note\""));
    Ok(())
}
