//! The bodies of the fuzz targets: each reads bytes as one kind of file and checks the invariants
//! of the result. `cargo fuzz` runs them, and `tests/mutations.rs` runs them on stable Rust.

use dl_core::{Buffer, Entry, Error, Module, Numbers, Optimizer, Result, Weight, WeightHandle};
use dl_nd::ndarray::Ix2;
use dl_nd::{Nd, Table};
use dl_optim::Adam;
use dl_train::{Checkpoint, Load};
use std::fmt::Display;

type Many = (Weight<f64>, Weight<Nd<f32, Ix2>>, Weight<Table<f64>>, Buffer<Nd<i64, Ix2>>, Weight<f64>);

/// A module with several element types and a tied weight.
pub(crate) fn net() -> Many {
    let w = Weight::new(0.5);
    let table: Nd<f64, Ix2> = Nd::from([[1.0], [2.0]]);
    let tensor = Weight::new(Nd::from([[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]]));
    (w.clone(), tensor, Weight::new(table.into()), Buffer::new(Nd::from([[1_i64, 2]])), w)
}

fn named(entries: &[Entry]) -> Vec<(&str, WeightHandle)> {
    entries.iter().filter_map(|entry| Some((entry.path(), entry.weight()?))).collect()
}

/// All numbers of a module and of the state of its optimizer.
fn all(net: &impl Module, adam: &Adam) -> Vec<(String, Numbers)> {
    let (entries, weights) = (net.entries(), net.weights());
    let state = adam.state(&named(&weights)).unwrap();
    let mut all: Vec<_> = entries.iter().map(|entry| (entry.path().to_owned(), entry.numbers())).collect();
    all.extend(state.numbers().map(|(key, number)| (key.to_owned(), Numbers::F64(vec![number]))));
    for (weight, slot) in state.slots() {
        let entry = net.entry(weight).unwrap();
        all.push((format!("{weight} {slot}"), entry.slot(&state, slot).unwrap()));
    }
    all
}

/// An error must be a single line that names the file.
fn line(error: &Error) {
    let text = error.to_string();
    let named = text.starts_with("the file: ") || text.contains(": the file: ");
    assert!(named && !text.contains(['\n', '\r']) && text.len() < 8192, "{text:?}");
}

/// On error nothing must have changed; afterwards all numbers must be finite.
fn checked<T: Display>(result: Result<T>, net: &impl Module, adam: &Adam, before: &[(String, Numbers)]) {
    let after = all(net, adam);
    match result {
        Ok(report) => assert!(report.to_string().len() < 8192),
        Err(error) => {
            line(&error);
            assert!(after == before);
        }
    }
    for (_, numbers) in after {
        let finite = match &numbers {
            Numbers::F32(row) => row.iter().all(|x| x.is_finite()),
            Numbers::F64(row) => row.iter().all(|x| x.is_finite()),
            _ => true,
        };
        assert!(finite, "{numbers:?}");
    }
}

/// Loads a file of weights with several options.
pub(crate) fn weights(bytes: &[u8]) {
    let loads =
        [Load::strict(), Load::partial().convert(), Load::partial().rename("0", "4").rename("", "1").ignore("2")];
    for load in loads {
        let (net, adam) = (net(), Adam::new(0.1));
        let before = all(&net, &adam);
        checked(load.weights_from_bytes(&net, "the file", bytes.to_vec()), &net, &adam, &before);
    }
}

/// Restores a checkpoint of a module and an optimizer.
pub(crate) fn checkpoint(bytes: &[u8]) {
    let saved = match Checkpoint::from_bytes("the file", bytes.to_vec()) {
        Ok(saved) => saved,
        Err(error) => return line(&error),
    };
    let (net, adam) = (net(), Adam::new(0.1));
    let before = all(&net, &adam);
    saved.number("best").err().iter().for_each(line);
    saved.count("epoch").err().iter().for_each(line);
    saved.text("note").err().iter().for_each(line);
    saved.rng("order").err().iter().for_each(line);
    let restore = saved.restore().module("model", &net).optimizer("adam", &adam, &net);
    checked(restore.apply(), &net, &adam, &before);
    let before = all(&net, &adam);
    checked(saved.restore().with(Load::partial()).module("model", &net).apply(), &net, &adam, &before);
}
