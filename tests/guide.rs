//! Consistency of the guide and the README with the code: chapters, expansions, messages, features.
//!
//! Their listings are doc tests of `dl::guide`.

use std::collections::BTreeSet;
use std::fs::{read_dir, read_to_string, write};
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

/// A code block of a chapter.
struct Block<'a> {
    /// The preceding line.
    before: &'a str,
    /// The info string after the backticks.
    words: &'a str,
    /// The index of its first line.
    first: usize,
    lines: Vec<&'a str>,
}

fn blocks(chapter: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut before, mut open) = (Vec::new(), "", None::<Block<'_>>);
    for (number, line) in chapter.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(words)) => open = Some(Block { before, words, first: number + 1, lines: Vec::new() }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.lines.push(line),
            (None, None) => {}
        }
        before = line;
    }
    assert!(open.is_none(), "a block of code has no end");
    blocks
}

/// The name that a line of code declares.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.find(|word| ["let", "fn", "struct", "enum", "trait", "impl", "use"].contains(word))?;
    words.find(|&word| word != "mut")
}

#[test]
fn visible_names_of_listings_are_declared_in_visible_lines() {
    let mut listings = 0;
    for chapter in files(&root().join("docs/src"), "md").into_iter().chain([root().join("README.md")]) {
        let text = text(&chapter);
        for block in blocks(&text).iter().filter(|block| block.words.starts_with("rust")) {
            let (hidden, seen): (Vec<&str>, Vec<&str>) = block.lines.iter().partition(|line| line.starts_with("# "));
            let seen = seen.join("\n");
            let is_seen = |name: &str| seen.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
            for name in hidden.into_iter().filter(|line| *line != "# use dl::prelude::*;").filter_map(declared) {
                let place = format!("{}:{}", chapter.display(), block.first + 1);
                assert!(
                    ["main", "_"].contains(&name) || !is_seen(name),
                    "{place}: `{name}` is declared in a hidden line"
                );
            }
            listings += 1;
        }
    }
    assert!(listings > 80, "{listings}");
}

#[test]
fn every_chapter_is_in_summary_and_doc_tests() {
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

/// The lines of `text` from the first to the last line of `shown`, with the indentation removed.
fn like(shown: &[&str], text: &str) -> Option<Vec<String>> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let (first, last) = (shown.first()?.trim(), shown.last()?.trim());
    let from = text.lines().position(|line| line.trim() == first)?;
    let lines: Vec<_> = text.lines().skip(from).collect();
    let left = indent(lines[0]);
    let until = lines.iter().position(|line| line.trim() == last && indent(line) == left)?;
    Some(lines[..=until].iter().map(|line| line.get(left..).unwrap_or("").to_owned()).collect())
}

/// A block after the line `<!-- expansion: name -->` must be part of `dl-macros/snapshots/name.rs`;
/// only such blocks are not compiled. `UPDATE_EXPECT=1` rewrites them.
#[test]
fn expansions_match_snapshots() {
    let mut checked = 0;
    for path in files(&root().join("docs/src"), "md").into_iter().chain([root().join("README.md")]) {
        let chapter = text(&path);
        let mut updated: Vec<_> = chapter.lines().map(str::to_owned).collect();
        for Block { before, words, first, lines } in blocks(&chapter).into_iter().rev() {
            let Some(name) = before.strip_prefix("<!-- expansion: ").and_then(|name| name.strip_suffix(" -->")) else {
                let skipped = words.contains("ignore") || words.contains("no_run");
                assert!(!skipped, "{}: a listing that is not compiled", path.display());
                continue;
            };
            let hidden = lines.iter().take_while(|line| line.starts_with("# ")).count();
            let real = like(&lines[hidden..], &text(format!("dl-macros/snapshots/{name}.rs")));
            let Some(real) = real else { panic!("{}: no such part of `{name}`", path.display()) };
            updated.splice(first + hidden..first + lines.len(), real);
            checked += 1;
        }
        let updated = updated.join("\n") + "\n";
        if updated != chapter && std::env::var_os("UPDATE_EXPECT").is_some() {
            write(&path, updated).expect("a chapter");
        } else {
            assert!(updated == chapter, "{}: differs from the snapshot", path.display());
        }
    }
    assert!(checked >= 6, "only {checked} expansions were found");
}

/// A message without the parts that depend on the program.
fn template(message: &str) -> String {
    let quoted = |(number, part): (usize, &str)| match number % 2 {
        1 if !part.starts_with("#[") && part != "!" && part != "?" => "…".to_owned(),
        _ => part.to_owned(),
    };
    message.split('`').enumerate().map(quoted).collect::<Vec<_>>().join("`")
}

#[test]
fn every_compiler_message_is_in_catalogue() {
    let mut messages = BTreeSet::new();
    for path in files(&root().join("tests/mistakes/tests/ui"), "stderr") {
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
        blocks(&chapter).iter().flat_map(|block| block.lines.iter().map(|line| template(line))).collect();
    let missing: Vec<_> = messages.difference(&catalogue).collect();
    let stale: Vec<_> = catalogue.difference(&messages).collect();
    assert!(missing.is_empty() && stale.is_empty(), "missing: {missing:#?}\nno longer said: {stale:#?}");
}

#[test]
fn every_example_is_in_gallery() {
    let gallery = text("docs/src/gallery.md");
    let mut seen = 0;
    for entry in read_dir(root().join("examples")).expect("the examples") {
        let path = entry.expect("an example").path();
        let name = path.file_stem().expect("a name").to_str().expect("text").to_owned();
        if name != "common" {
            assert!(gallery.contains(&format!("| `{name}`")), "docs/src/gallery.md has no row `{name}`");
            seen += 1;
        }
    }
    assert!(seen >= 17, "only {seen} examples were found");
}

/// The features of a manifest.
fn features(manifest: &str) -> Vec<String> {
    let section = manifest.split("\n[features]\n").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().expect("a section");
    section.lines().filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).collect()
}

#[test]
fn every_feature_is_in_documentation_of_its_crate() {
    let mut seen = 0;
    for folder in [
        "",
        "dl-core",
        "dl-data",
        "dl-macros",
        "dl-math",
        "dl-nd",
        "dl-nn",
        "dl-optim",
        "dl-parallel",
        "dl-train",
        "dl-view",
    ] {
        let documentation = text(Path::new(folder).join("src/lib.rs"));
        for feature in features(&text(Path::new(folder).join("Cargo.toml"))) {
            let row = format!("//! | `{feature}` |");
            assert!(documentation.contains(&row), "{folder}/src/lib.rs has no row `{row}` in its table of features");
            seen += 1;
        }
    }
    assert!(seen >= 9, "only {seen} features were found");
}
