//! Prints costs as a table.

use super::{Costs, LineCost};
use crate::text;
use std::fmt;
use std::time::Duration;

/// The maximal number of columns of source text in a row.
const SOURCE: usize = 70;

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passes, all) = (text::counted(self.passes, "pass").replace("passs", "passes"), self.time());
        writeln!(f, "{passes} in {}, {} of work on all threads", text::time(self.elapsed), text::time(all))?;
        let mut rows = vec![Row::head()];
        let mut files: Vec<&str> = Vec::new();
        for line in &self.lines {
            if !files.contains(&line.file.as_str()) {
                files.push(&line.file);
            }
        }
        let of_file = |file: &str| self.lines.iter().filter(|line| line.file == file).collect::<Vec<_>>();
        for file in &files {
            rows.push(Row::title(&shown_file(file)));
            rows.extend(of_file(file).into_iter().map(|line| Row::line(line, all)));
        }
        if !self.runtime.is_empty() {
            rows.push(Row::title("not attributed to a line"));
        }
        let runtime = self.runtime.iter().map(|row| {
            let mut cells: [String; 7] = Default::default();
            (cells[1], cells[2], cells[6]) = (text::count(row.times), text::time(row.time), share(row.time, all));
            Row { title: None, cells, last: row.what.to_string() }
        });
        rows.extend(runtime);
        write_rows(f, &rows)?;
        self.write_branches(f)
    }
}

/// A title, or seven numbers followed by text.
struct Row {
    title: Option<String>,
    cells: [String; 7],
    last: String,
}

impl Row {
    fn head() -> Row {
        let cells = ["line", "evaluations", "forward", "deltas", "backward", "bytes", "share"].map(str::to_string);
        Row { title: None, cells, last: String::new() }
    }

    fn title(words: &str) -> Row {
        Row { title: Some(words.to_string()), cells: Default::default(), last: String::new() }
    }

    fn line(line: &LineCost, all: Duration) -> Row {
        let time = |time: Duration| if time.is_zero() { String::new() } else { text::time(time) };
        let count = |count: usize| if count == 0 { String::new() } else { text::count(count) };
        let cells = [
            line.line.to_string(),
            count(line.evaluations),
            time(line.forward),
            count(line.deltas),
            time(line.backward),
            text::bytes(line.bytes),
            share(line.time(), all),
        ];
        Row { title: None, cells, last: text::cut(line.source.as_deref().unwrap_or_default(), SOURCE) }
    }
}

/// Abbreviates the build path of the standard library.
fn shown_file(file: &str) -> String {
    match file.strip_prefix("/rustc/").and_then(|file| file.split_once("/library/")) {
        Some((_, file)) => format!("{file} of the standard library"),
        None => file.to_string(),
    }
}

fn share(part: Duration, all: Duration) -> String {
    if all.is_zero() { String::new() } else { format!("{:.1} %", 100.0 * part.as_secs_f64() / all.as_secs_f64()) }
}

fn write_rows(f: &mut fmt::Formatter<'_>, rows: &[Row]) -> fmt::Result {
    let mut widths = [0; 7];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(&row.cells) {
            *width = text::columns(cell).max(*width);
        }
    }
    for row in rows {
        if let Some(title) = &row.title {
            writeln!(f, "{title}")?;
            continue;
        }
        let mut line = String::new();
        for (cell, width) in row.cells.iter().zip(widths) {
            let padding = width - text::columns(cell) + 2;
            line.extend(std::iter::repeat_n(' ', padding));
            line.push_str(cell);
        }
        line.push_str("  ");
        line.push_str(&row.last);
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

impl Costs {
    fn write_branches(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for branch in &self.branches {
            let taken: usize = branch.arms.iter().map(|(_, taken)| taken).sum();
            writeln!(f, "{}:{}  {}", shown_file(&branch.file), branch.line, branch.condition)?;
            for (arm, count) in &branch.arms {
                let share = 100.0 * *count as f64 / taken.max(1) as f64;
                writeln!(f, "  {:>12}  {share:>5.1} %  {arm}", text::count(*count))?;
            }
        }
        Ok(())
    }
}
