//! Text metrics, line breaking, and the formatting of quantities.

use std::time::Duration;

/// The width of a column relative to the font size: an upper bound for monospaced fonts, and for
/// running text in proportional fonts.
const COLUMN: f64 = 0.62;

/// The maximal width of a line in pixels, in a font of this size.
pub(crate) fn width(line: &str, size: f64) -> f64 {
    columns(line) as f64 * COLUMN * size
}

/// The number of columns of a line in a monospaced font.
pub(crate) fn columns(line: &str) -> usize {
    line.chars().map(columns_of).sum()
}

/// CJK characters and pictographs take two columns.
fn columns_of(char: char) -> usize {
    match u32::from(char) {
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe4f => 2,
        0xff00..=0xff60 | 0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// The text on one line of at most `max_columns` columns, with an ellipsis where it is cut.
pub(crate) fn cut(text: &str, max_columns: usize) -> String {
    let text = one_line(text);
    if columns(&text) <= max_columns {
        return text;
    }
    let mut used = 1;
    let fits = |char: &char| {
        used += columns_of(*char);
        used <= max_columns
    };
    let start: String = text.chars().take_while(fits).collect();
    format!("{}…", start.trim_end())
}

/// The text in lines of at most `columns_each` columns, broken at spaces where possible. The last
/// of `max_lines` lines is cut.
pub(crate) fn wrapped(text: &str, columns_each: usize, max_lines: usize) -> Vec<String> {
    let (mut lines, text) = (Vec::new(), one_line(text));
    let mut rest = text.as_str();
    while !rest.is_empty() && lines.len() + 1 < max_lines && columns(rest) > columns_each {
        let mut used = 0;
        let full = rest.char_indices().find(|&(_, char)| {
            used += columns_of(char);
            used > columns_each
        });
        let full = full.map_or(rest.len(), |(place, _)| place);
        // Prefer to split a word to a line that is more than half empty.
        let space = rest[..full].rfind(' ').filter(|&space| columns(&rest[..space]) * 2 >= columns_each);
        let end = if rest[full..].starts_with(' ') { full } else { space.unwrap_or(full) };
        lines.push(rest[..end].trim_end().to_string());
        rest = rest[end..].trim_start();
    }
    if !rest.is_empty() || lines.is_empty() {
        lines.push(cut(rest, columns_each));
    }
    lines
}

fn one_line(text: &str) -> String {
    text.split(|char: char| char.is_whitespace() || char.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// A time with three significant digits, such as `12.3 µs`.
pub(crate) fn time(time: Duration) -> String {
    let nanos = time.as_nanos() as f64;
    match nanos {
        ..1e3 => format!("{nanos} ns"),
        ..1e6 => format!("{} µs", digits(nanos / 1e3)),
        ..1e9 => format!("{} ms", digits(nanos / 1e6)),
        _ => format!("{} s", digits(nanos / 1e9)),
    }
}

/// A size with three significant digits, such as `4.10 kB`, where 1 kB is 1000 bytes.
pub(crate) fn bytes(bytes: usize) -> String {
    let count = bytes as f64;
    match count {
        ..1e3 => format!("{bytes} B"),
        ..1e6 => format!("{} kB", digits(count / 1e3)),
        ..1e9 => format!("{} MB", digits(count / 1e6)),
        _ => format!("{} GB", digits(count / 1e9)),
    }
}

fn digits(number: f64) -> String {
    match number {
        ..10.0 => format!("{number:.2}"),
        ..100.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// A number with thousands separators, such as `10,000`.
pub(crate) fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun, such as `3 operations`.
pub(crate) fn counted(number: usize, one: &str) -> String {
    format!("{} {one}{}", count(number), if number == 1 { "" } else { "s" })
}

/// The file name and the line, without folders.
pub(crate) fn short_place(file: &str, line: u32) -> String {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    format!("{name}:{line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_text_breaks_at_spaces_and_ends_with_ellipsis() {
        assert_eq!(wrapped("left > right", 20, 2), ["left > right"]);
        assert_eq!(wrapped("scores.0 * net.left.of(input)", 16, 3), ["scores.0 *", "net.left.of(inpu", "t)"]);
        assert_eq!(wrapped("one two three four", 8, 2), ["one two", "three f…"]);
        assert_eq!(wrapped("", 8, 2), [""]);
        assert_eq!(wrapped("a\n  b\u{0}c", 80, 2), ["a b c"]);
        assert_eq!(wrapped("漢字漢字", 4, 5), ["漢字", "漢字"]);
        for text in ["aaaa bbbb cccc dddd", "ééééé ééééé", "漢字 漢字漢字 x"] {
            for columns_each in 2..12 {
                assert!(wrapped(text, columns_each, 3).iter().all(|line| columns(line) <= columns_each), "{text}");
            }
        }
    }

    #[test]
    fn quantities_have_three_significant_digits() {
        assert_eq!(time(Duration::from_nanos(999)), "999 ns");
        assert_eq!(time(Duration::from_nanos(12_345)), "12.3 µs");
        assert_eq!(time(Duration::from_micros(1_234)), "1.23 ms");
        assert_eq!(time(Duration::from_secs(100)), "100 s");
        assert_eq!((bytes(8), bytes(4096), bytes(12_300_000)), ("8 B".into(), "4.10 kB".into(), "12.3 MB".into()));
        assert_eq!((count(7), count(1000), count(1_234_567)), ("7".into(), "1,000".into(), "1,234,567".into()));
        assert_eq!((counted(1, "operation"), counted(2, "operation")), ("1 operation".into(), "2 operations".into()));
    }
}
