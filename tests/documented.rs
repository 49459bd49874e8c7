//! Every public item has an example: in its own documentation, or, for what belongs to a trait, in that of the trait.
//!
//! The items are those that rustdoc finds, so what macros write and what is re-exported counts as well. Its JSON output is not stable: rustdoc alone is told
//! that it may, so that nothing else is built anew.

#![cfg(unix)]

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{Permissions, create_dir_all, read_to_string, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// Documented elsewhere: the macros have their examples where they are re-exported, since they need the library.
const ELSEWHERE: [&str; 5] = ["Layers", "Module", "Variables", "differentiable", "direct"];

const CRATES: [&str; 7] = ["dl", "dl_core", "dl_data", "dl_macros", "dl_nd", "dl_nn", "dl_train"];

/// Where rustdoc has written what it knows of all crates.
fn documentation() -> PathBuf {
    let tmp = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let rustdoc = tmp.join("rustdoc");
    write(&rustdoc, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n").expect("a file");
    set_permissions(&rustdoc, Permissions::from_mode(0o755)).expect("a program");
    create_dir_all(&tmp).expect("a folder");
    let target = tmp.parent().expect("the target folder");
    let status = Command::new(env!("CARGO"))
        .args(["doc", "--workspace", "--no-deps", "--all-features", "--quiet", "--target-dir"])
        .arg(target)
        .env("RUSTDOC", rustdoc)
        .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json --cap-lints allow")
        .status()
        .expect("cargo runs");
    assert!(status.success(), "rustdoc failed");
    target.join("doc")
}

struct Crate {
    name: &'static str,
    json: Value,
    seen: BTreeSet<u64>,
    /// How many items were looked at.
    items: usize,
    missing: BTreeSet<String>,
}

fn has_example(item: &Value) -> bool {
    let docs = item["docs"].as_str().unwrap_or_default();
    let mut fences = docs.lines().filter_map(|line| line.trim_start().strip_prefix("```"));
    // of each pair of fences, the first says what is in between
    std::iter::from_fn(|| {
        let opening = fences.next()?;
        fences.next()?;
        Some(opening)
    })
    .any(|words| {
        let words: Vec<_> = words.split(',').map(str::trim).collect();
        !words.iter().any(|word| ["text", "ignore", "sh", "toml", "no_run"].contains(word))
    })
}

impl Crate {
    fn item(&self, id: &Value) -> Option<Value> {
        self.json["index"].get(id.to_string()).cloned()
    }

    /// An item that is needed at this path.
    fn need(&mut self, path: &str, item: &Value, example: bool) {
        self.items += 1;
        if !example {
            let place = &item["span"];
            let place = format!("{}:{}", place["filename"].as_str().unwrap_or("?"), place["begin"][0]);
            self.missing.insert(format!("{path} ({place})"));
        }
    }

    fn all(&mut self, path: &str, ids: &Value) {
        for id in ids.as_array().into_iter().flatten() {
            self.visit(path, id);
        }
    }

    fn visit(&mut self, path: &str, id: &Value) {
        let Some(item) = self.item(id) else { return };
        if !self.seen.insert(id.as_u64().expect("a number")) {
            return;
        }
        let (kind, inner) = item["inner"].as_object().and_then(|kinds| kinds.iter().next()).expect("a kind");
        let path = match item["name"].as_str() {
            Some(name) if kind != "use" => format!("{path}::{name}"),
            _ => path.to_owned(),
        };
        match kind.as_str() {
            "module" => self.all(&path, &inner["items"]),
            "use" => {
                let source = inner["source"].as_str().unwrap_or_default();
                if source.starts_with("dl_macros::") {
                    self.need(&format!("{path}::{}", inner["name"]), &item, has_example(&item));
                }
                if let Some(target) = self.item(&inner["id"]) {
                    match &target["inner"]["module"] {
                        Value::Null => self.visit(&path, &inner["id"]),
                        module => self.all(&path, &module["items"]),
                    }
                }
            }
            "trait" => {
                let example = has_example(&item);
                self.need(&path, &item, example);
                for id in inner["items"].as_array().into_iter().flatten() {
                    if let Some(part) = self.item(id) {
                        let path = format!("{path}::{}", part["name"].as_str().unwrap_or("?"));
                        self.need(&path, &part, example || has_example(&part));
                    }
                }
            }
            "struct" | "enum" | "union" => {
                self.need(&path, &item, has_example(&item));
                for id in inner["impls"].as_array().into_iter().flatten() {
                    let Some(block) = self.item(id) else { continue };
                    let block = &block["inner"]["impl"];
                    if block["trait"].is_null() {
                        self.all(&path, &block["items"]);
                    }
                }
            }
            "proc_macro" if ELSEWHERE.contains(&item["name"].as_str().unwrap_or_default()) => {}
            "function" | "macro" | "proc_macro" | "constant" | "static" | "type_alias" | "assoc_const" => {
                if item["visibility"] == "public" {
                    self.need(&path, &item, has_example(&item));
                }
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
        let mut of_crate = Crate { name, json, seen: BTreeSet::new(), items: 0, missing: BTreeSet::new() };
        of_crate.visit("", &root);
        items += of_crate.items;
        println!("{}: {} items, {} without an example", of_crate.name, of_crate.items, of_crate.missing.len());
        missing.extend(of_crate.missing);
    }
    assert!(items > 800, "only {items} items were found: has the format of rustdoc changed?");
    assert!(missing.is_empty(), "{} of {items} items have no example:\n{}", missing.len(), missing.join("\n"));
}
