//! Every public item must have an example that runs: one of its own, or one of its trait, type or
//! module that uses the item by name.
//!
//! The items are those that rustdoc finds, which include the output of macros and re-exports. The
//! JSON output of rustdoc is unstable: `RUSTC_BOOTSTRAP` is set for rustdoc only, so that nothing
//! is rebuilt.

#![cfg(unix)]

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{Permissions, create_dir_all, read_to_string, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// Items documented elsewhere: the examples of the macros need the library and stand at the
/// re-exports.
const ELSEWHERE: [&str; 6] = ["Layers", "Module", "Variables", "differentiable", "direct", "remote"];

const CRATES: [&str; 13] = [
    "dl",
    "dl_core",
    "dl_data",
    "dl_dist",
    "dl_gpu",
    "dl_macros",
    "dl_math",
    "dl_nd",
    "dl_nn",
    "dl_optim",
    "dl_parallel",
    "dl_train",
    "dl_view",
];

/// A `rustdoc` that writes JSON documentation when cargo runs the doc tests of a crate. `cargo test
/// --doc` passes the libraries that `cargo test` has built, whereas `cargo doc` would check all
/// dependencies first.
const RUSTDOC: &str = r#"#!/bin/sh
tests= value=
for argument; do
    shift
    if [ "$value" ]; then value=; continue; fi
    case $argument in
        --test) tests=1 ;;
        --test-run-directory | --test-args) value=1 ;;
        *) set -- "$@" "$argument" ;;
    esac
done
if [ "$tests" ]; then
    set -- "$@" -Z unstable-options --output-format json --cap-lints allow --out-dir "$DL_DOCUMENTATION"
fi
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
"#;

/// Writes the JSON documentation of all crates. Returns its folder.
fn documentation() -> PathBuf {
    let tmp = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (rustdoc, documentation) = (tmp.join("rustdoc"), tmp.join("documentation"));
    create_dir_all(&documentation).expect("a folder");
    write(&rustdoc, RUSTDOC).expect("a file");
    set_permissions(&rustdoc, Permissions::from_mode(0o755)).expect("a program");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--doc", "--workspace", "--all-features", "--quiet", "--target-dir"]);
    cargo.arg(tmp.parent().expect("the target folder"));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let status = cargo.env("RUSTDOC", rustdoc).env("DL_DOCUMENTATION", &documentation).status().expect("cargo runs");
    assert!(status.success(), "rustdoc failed");
    documentation
}

/// The examples of an item, concatenated.
fn examples(item: &Value) -> String {
    let (mut examples, mut open) = (String::new(), None);
    for line in item["docs"].as_str().unwrap_or_default().lines() {
        match (open, line.trim_start().strip_prefix("```")) {
            (None, Some(words)) => {
                open = Some(
                    !words.split(',').any(|word| ["text", "ignore", "sh", "toml", "no_run"].contains(&word.trim())),
                );
            }
            (Some(_), Some(_)) => open = None,
            (Some(true), None) => examples.extend([line, "\n"]),
            _ => {}
        }
    }
    examples
}

fn mentions(examples: &str, name: &str) -> bool {
    examples.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
}

/// Whether an item of a trait has a default.
fn is_provided(item: &Value) -> bool {
    item["inner"]["function"]["has_body"] == true || item["inner"]["assoc_const"]["value"].is_string()
}

/// The path to an item, and the examples of the items that contain it.
#[derive(Clone, Copy)]
struct Around<'a> {
    path: &'a str,
    examples: &'a str,
}

struct Crate {
    json: Value,
    seen: BTreeSet<u64>,
    /// The number of items that were checked.
    items: usize,
    missing: BTreeSet<String>,
}

impl Crate {
    fn item(&self, id: &Value) -> Option<Value> {
        self.json["index"].get(id.to_string()).cloned()
    }

    fn need(&mut self, around: Around<'_>, name: &str, item: &Value) {
        self.items += 1;
        if examples(item).is_empty() && !mentions(around.examples, name) {
            let place = &item["span"];
            let file = place["filename"].as_str().unwrap_or("?");
            self.missing.insert(format!("{}::{name} ({file}:{})", around.path, place["begin"][0]));
        }
    }

    fn all(&mut self, around: Around<'_>, ids: &Value) {
        for id in ids.as_array().into_iter().flatten() {
            self.visit(around, id);
        }
    }

    fn visit(&mut self, around: Around<'_>, id: &Value) {
        let Some(item) = self.item(id) else { return };
        if !self.seen.insert(id.as_u64().expect("a number")) {
            return;
        }
        let (kind, inner) = item["inner"].as_object().and_then(|kinds| kinds.iter().next()).expect("a kind");
        let name = item["name"].as_str().unwrap_or_default();
        let (own, path) = (examples(&item), format!("{}::{name}", around.path));
        let all = format!("{}{own}", around.examples);
        let within = Around { path: &path, examples: &all };
        match kind.as_str() {
            "module" => self.all(within, &inner["items"]),
            "use" => {
                if inner["source"].as_str().is_some_and(|source| source.starts_with("dl_macros::")) {
                    self.need(around, inner["name"].as_str().expect("a name"), &item);
                }
                if let Some(target) = self.item(&inner["id"]) {
                    match &target["inner"]["module"] {
                        module if inner["is_glob"] == true => self.all(around, &module["items"]),
                        _ => self.visit(around, &inner["id"]),
                    }
                }
            }
            "trait" => {
                self.need(around, name, &item);
                let parts = inner["items"].as_array().into_iter().flatten();
                let parts: Vec<Value> = parts.filter_map(|id| self.item(id)).collect();
                // one example is enough for items that belong together
                let all: String = std::iter::once(all).chain(parts.iter().map(self::examples)).collect();
                let within = Around { path: &path, examples: &all };
                // required items occur in every implementation, provided ones do not
                for part in parts.iter().filter(|part| is_provided(part)) {
                    self.need(within, part["name"].as_str().expect("a name"), part);
                }
            }
            "struct" | "enum" | "union" => {
                self.need(around, name, &item);
                for id in inner["impls"].as_array().into_iter().flatten() {
                    let Some(block) = self.item(id) else { continue };
                    let block = &block["inner"]["impl"];
                    if block["trait"].is_null() {
                        self.all(within, &block["items"]);
                    }
                }
            }
            "proc_macro" if ELSEWHERE.contains(&name) => {}
            "function" | "macro" | "proc_macro" | "constant" | "static" | "type_alias" | "assoc_const"
                if item["visibility"] == "public" =>
            {
                self.need(around, name, &item);
            }
            _ => {}
        }
    }
}

#[test]
fn every_public_item_has_an_example() {
    let folder = documentation();
    let (mut items, mut missing) = (0, Vec::new());
    for name in CRATES {
        let json = read_to_string(folder.join(format!("{name}.json"))).expect("what rustdoc has written");
        let json: Value = serde_json::from_str(&json).expect("JSON");
        let root = json["root"].clone();
        let mut of_crate = Crate { json, seen: BTreeSet::new(), items: 0, missing: BTreeSet::new() };
        of_crate.visit(Around { path: "", examples: "" }, &root);
        items += of_crate.items;
        println!("{name}: {} items, {} without an example", of_crate.items, of_crate.missing.len());
        missing.extend(of_crate.missing);
    }
    assert!(items > 800, "only {items} items were found: has the format of rustdoc changed?");
    assert!(missing.is_empty(), "{} of {items} items have no example:\n{}", missing.len(), missing.join("\n"));
}
