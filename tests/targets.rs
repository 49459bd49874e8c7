//! Every test file must be built: with `autotests = false`, cargo discovers no targets.

use std::fs::{read_dir, read_to_string};
use std::path::Path;

/// Test files and folders of a package that are neither targets of its manifest nor modules of a
/// target.
fn unused(package: &Path) -> Vec<String> {
    let Ok(entries) = read_dir(package.join("tests")) else { return Vec::new() };
    let manifest = read_to_string(package.join("Cargo.toml")).expect("a manifest");
    if !manifest.contains("\nautotests = false\n") {
        return Vec::new();
    }
    let paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let is_target = |path: &Path| manifest.contains(&format!("\n[[test]]\nname = \"{}\"\n", name(path)));
    let roots: String =
        paths.iter().filter(|path| is_target(path)).filter_map(|path| read_to_string(path).ok()).collect();
    let is_module = |path: &Path| roots.contains(&format!("\nmod {};\n", name(path)));
    let is_code = |path: &Path| {
        path.extension().is_some_and(|is| is == "rs")
            || ["main.rs", "mod.rs"].iter().any(|file| path.join(file).exists())
    };
    paths.iter().filter(|path| is_code(path) && !is_target(path) && !is_module(path)).map(|path| name(path)).collect()
}

#[test]
fn test_files_are_targets_or_modules_of_targets() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(unused(root), [""; 0]);
    for entry in read_dir(root).expect("the workspace") {
        let package = entry.expect("an entry").path();
        if package.join("Cargo.toml").exists() {
            assert_eq!(unused(&package), [""; 0], "{}: list them in `tests/all.rs`", package.display());
        }
    }
}
