//! The guide and the README say what is so: chapters, expansions, messages, features.
//!
//! Their listings are doc tests of `dl::guide`.

use std::collections::BTreeSet;
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|is| is == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The blocks of code of a chapter: what stands on the line before, the words after the backticks, the lines.
fn blocks(chapter: &str) -> Vec<(&str, &str, Vec<&str>)> {
    let (mut blocks, mut before, mut open) = (Vec::new(), "", None);
    for line in chapter.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(words)) => open = Some((before, words, Vec::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some((_, _, lines)), None) => lines.push(line),
            (None, None) => {}
        }
        before = line;
    }
    assert!(open.is_none(), "a block of code has no end");
    blocks
}

#[test]
fn every_chapter_is_in_the_summary_and_in_the_documentation() {
    let summary = text("docs/src/SUMMARY.md");
    let listed: Vec<_> =
        summary.split("](").skip(1).map(|link| link.split(".md)").next().expect("a chapter")).collect();
    let source = text("src/guide.rs");
    let modules = source.split("chapters! {").nth(1).expect("the chapters").trim_end().trim_end_matches('}');
    let modules: Vec<_> = std::iter::once("introduction").chain(modules.split_whitespace()).collect();
    assert_eq!(listed, modules);
    let there: BTreeSet<_> = files(&root().join("docs/src"), "md")
        .iter()
        .map(|path| path.file_stem().expect("a name").to_str().expect("text").to_owned())
        .filter(|name| name != "SUMMARY")
        .collect();
    assert_eq!(there, listed.iter().map(|&name| name.to_owned()).collect());
}

/// A block after the line `<!-- expansion: name -->` is part of `dl-macros/snapshots/name.rs`; only such a block is not compiled.
#[test]
fn expansions_are_the_real_ones() {
    let mut checked = 0;
    for path in files(&root().join("docs/src"), "md").into_iter().chain([root().join("README.md")]) {
        let chapter = text(&path);
        for (before, words, lines) in blocks(&chapter) {
            let Some(name) = before.strip_prefix("<!-- expansion: ").and_then(|name| name.strip_suffix(" -->")) else {
                let skipped = words.contains("ignore") || words.contains("no_run");
                assert!(!skipped || path.ends_with("README.md"), "{}: a listing that does not run", path.display());
                continue;
            };
            let snapshot = text(format!("dl-macros/snapshots/{name}.rs"));
            let snapshot: Vec<_> = snapshot.lines().map(str::trim).collect();
            let shown: Vec<_> = lines.iter().filter(|line| !line.starts_with("# ")).map(|line| line.trim()).collect();
            assert!(
                snapshot.windows(shown.len()).any(|part| part == shown),
                "{}: this is not what `{name}` expands to:\n{}",
                path.display(),
                lines.join("\n")
            );
            checked += 1;
        }
    }
    assert!(checked >= 6, "only {checked} expansions were found");
}

/// A message with what depends on the program left out.
fn template(message: &str) -> String {
    let quoted = |(number, part): (usize, &str)| match number % 2 {
        1 if !part.starts_with("#[") && part != "!" && part != "?" => "…".to_owned(),
        _ => part.to_owned(),
    };
    message.split('`').enumerate().map(quoted).collect::<Vec<_>>().join("`")
}

#[test]
fn every_message_of_the_compiler_is_in_the_catalogue() {
    let mut messages = BTreeSet::new();
    for path in files(&root().join("tests/ui"), "stderr") {
        let stderr = text(path);
        let of_line = |line: &str| {
            let rest = line.strip_prefix("error")?;
            let rest = if rest.starts_with('[') { rest.split_once(']')?.1 } else { rest };
            Some(template(rest.strip_prefix(": ")?))
        };
        messages.extend(stderr.lines().filter_map(of_line));
    }
    let chapter = text("docs/src/compile_errors.md");
    let catalogue: BTreeSet<_> =
        blocks(&chapter).iter().flat_map(|(_, _, lines)| lines.iter().map(|line| template(line))).collect();
    let missing: Vec<_> = messages.difference(&catalogue).collect();
    let stale: Vec<_> = catalogue.difference(&messages).collect();
    assert!(missing.is_empty() && stale.is_empty(), "missing: {missing:#?}\nno longer said: {stale:#?}");
}

/// The features of a manifest.
fn features(manifest: &str) -> Vec<String> {
    let section = manifest.split("\n[features]\n").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().expect("a section");
    section.lines().filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).collect()
}

#[test]
fn every_feature_is_in_the_documentation_of_its_crate() {
    let mut seen = 0;
    for folder in ["", "dl-core", "dl-data", "dl-macros", "dl-nd", "dl-nn", "dl-train"] {
        let documentation = text(Path::new(folder).join("src/lib.rs"));
        for feature in features(&text(Path::new(folder).join("Cargo.toml"))) {
            let row = format!("//! | `{feature}` |");
            assert!(documentation.contains(&row), "{folder}/src/lib.rs has no row `{row}` in its table of features");
            seen += 1;
        }
    }
    assert!(seen >= 9, "only {seen} features were found");
}
