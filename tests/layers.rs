//! The layers of each crate: a folder may use the folders below it, and none above.

use std::collections::BTreeSet;
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// The folders (or files) in `src` of each crate with layers, from the lowest up.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "dl-core",
        &["error", "graph", "storage", "record", "exec", "autodiff", "plan", "step", "api", "module", "macro_support"],
    ),
    ("dl-macros", &["diagnostics", "parse", "analyze", "expand", "derive", "entry"]),
    (
        "dl-parallel",
        &[
            "sync",
            "panic_payload",
            "thread_number",
            "thresholds",
            "backoff",
            "concurrency",
            "injector",
            "fork_join",
            "memory",
            "model",
        ],
    ),
    ("dl-nd", &["device", "tensor", "init", "fusion", "gemm", "kernels", "ops", "io", "instances"]),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code of a file without its test module, which comes last and may use everything.
fn without_tests(source: &str) -> &str {
    let ends = ["#[cfg(test)]\nmod ", "#[cfg(all(test", "#[cfg(test)]\npub(super) mod "];
    &source[..ends.iter().filter_map(|end| source.find(end)).min().unwrap_or(source.len())]
}

/// The modules that this code names in paths from the root of its crate, alone or in a group.
fn used(source: &str) -> BTreeSet<String> {
    let name = |path: &str| path.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let code: Vec<&str> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join(" ");
    let paths = code.split("crate::").skip(1).flat_map(|rest| match rest.strip_prefix('{') {
        Some(group) => group.split(';').next().unwrap_or(group).split(',').map(name).collect::<Vec<String>>(),
        None => vec![name(rest)],
    });
    paths.collect()
}

/// Every use of a layer by one below it: crate, file, layer.
fn upward() -> BTreeSet<(String, String, String)> {
    let mut upward = BTreeSet::new();
    for &(package, layers) in LAYERS {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join(package).join("src");
        let mut files = Vec::new();
        sources(&src, &mut files);
        for file in files {
            let path = file.strip_prefix(&src).expect("it is in there").to_string_lossy().replace('\\', "/");
            let folder = path.split('/').next().expect("a name").trim_end_matches(".rs");
            let Some(own) = layers.iter().position(|&layer| layer == folder) else { continue };
            let source = read_to_string(&file).expect("a source file");
            for used in used(without_tests(&source)) {
                if layers.iter().position(|&layer| layer == used).is_some_and(|other| other > own) {
                    upward.insert((package.to_owned(), path.clone(), used));
                }
            }
        }
    }
    upward
}

#[test]
fn folders_use_only_folders_below() {
    let upward = upward();
    assert!(upward.is_empty(), "these files use a layer above their own: {upward:#?}");
}

#[test]
fn listed_layers_exist() {
    for (package, layers) in LAYERS {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join(package).join("src");
        for layer in *layers {
            assert!(src.join(layer).is_dir() || src.join(format!("{layer}.rs")).exists(), "{package}: {layer}");
        }
    }
}
