//! Formats tokens as source text in one line.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// Longer text is truncated to this number of characters.
const MAX_CHARS: usize = 60;

/// The text of the tokens, truncated.
pub(crate) fn text(tokens: impl ToTokens) -> String {
    let mut writer = Writer::default();
    writer.all(tokens.to_token_stream());
    truncate(&writer.text)
}

pub(crate) fn truncate(text: &str) -> String {
    if text.chars().count() <= MAX_CHARS {
        return text.to_owned();
    }
    let start: String = text.chars().take(MAX_CHARS - 1).collect();
    format!("{}…", start.trim_end())
}

/// The kind of the last token that was written. It decides about the space before the next one.
#[derive(Clone, Copy, PartialEq, Default)]
enum Last {
    /// The start of the text, or a token without a space after it.
    #[default]
    Open,
    /// A name, a literal, a closing bracket.
    Value,
    /// A keyword before an expression.
    Keyword,
    /// `,`, `;` or `:`.
    Separator,
    /// A binary operator.
    Operator,
}

#[derive(Default)]
struct Writer {
    text: String,
    last: Last,
    /// The characters of the operator that is being read.
    operator: String,
    /// The nesting depth of `::<…>`.
    generics: usize,
    /// Whether the position is between the two `|` of a closure.
    closure: bool,
}

const KEYWORDS: [&str; 12] =
    ["return", "if", "match", "in", "let", "else", "while", "mut", "ref", "move", "break", "as"];

impl Writer {
    fn all(&mut self, tokens: TokenStream) {
        for token in tokens {
            self.token(token);
        }
    }

    fn put(&mut self, text: &str, space: bool, last: Last) {
        if space && !self.text.is_empty() && !self.text.ends_with([' ', '(', '[']) {
            self.text.push(' ');
        }
        self.text.push_str(text);
        self.last = last;
    }

    fn token(&mut self, token: TokenTree) {
        match token {
            TokenTree::Ident(name) => {
                let name = name.to_string();
                let last = if KEYWORDS.contains(&name.as_str()) { Last::Keyword } else { Last::Value };
                self.put(&name, self.last != Last::Open, last);
            }
            TokenTree::Literal(literal) => self.put(&literal.to_string(), self.last != Last::Open, Last::Value),
            TokenTree::Group(group) => self.group(&group),
            TokenTree::Punct(punct) => {
                self.operator.push(punct.as_char());
                if punct.spacing() == Spacing::Alone || punct.as_char() == '\'' || !self.is_prefix() {
                    let operator = std::mem::take(&mut self.operator);
                    self.operator(&operator);
                }
            }
        }
    }

    /// Whether `operator` may be the start of a longer operator.
    fn is_prefix(&mut self) -> bool {
        const LONG: [&str; 12] = ["=", "!", "<", ">", "&", "|", "+", "-", "*", "/", ".", ":"];
        // A unary `!`, `-` or `*` is complete, whatever the next character is.
        let unary = self.last != Last::Value && matches!(self.operator.as_str(), "!" | "-" | "*");
        !unary && (LONG.contains(&self.operator.as_str()) || self.operator == "..")
    }

    fn operator(&mut self, operator: &str) {
        let after_value = self.last == Last::Value;
        let separated = self.last != Last::Open;
        match operator {
            "," | ";" => self.put(operator, false, Last::Separator),
            ":" => self.put(operator, false, Last::Separator),
            "." | "::" | ".." | "..=" | "?" | "'" => {
                let begins = !after_value && separated;
                let last = if operator == "?" { Last::Value } else { Last::Open };
                self.put(operator, begins, last);
            }
            "<" if self.generics > 0 || self.text.ends_with("::") => {
                self.generics += 1;
                self.put(operator, false, Last::Open);
            }
            ">" | ">>" if self.generics > 0 => {
                self.generics = self.generics.saturating_sub(operator.len());
                self.put(operator, false, Last::Value);
            }
            "|" if self.closure => {
                self.closure = false;
                self.put(operator, false, Last::Separator);
            }
            "|" if !after_value => {
                self.closure = true;
                self.put(operator, separated, Last::Open);
            }
            "||" if !after_value => self.put(operator, separated, Last::Separator),
            "!" if after_value => self.put(operator, false, Last::Open),
            "!" | "-" | "*" | "&" | "&&" | "#" if !after_value => self.put(operator, separated, Last::Open),
            _ => self.put(operator, true, Last::Operator),
        }
    }

    fn group(&mut self, group: &proc_macro2::Group) {
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::None => return self.all(group.stream()),
        };
        let generics = std::mem::take(&mut self.generics);
        if open == "{" {
            let space = self.last != Last::Open;
            self.put(open, space, Last::Separator);
            self.all(group.stream());
            self.put(close, !group.stream().is_empty(), Last::Value);
        } else {
            let called = matches!(self.last, Last::Value | Last::Open);
            self.put(open, !called, Last::Open);
            self.all(group.stream());
            self.put(close, false, Last::Value);
        }
        self.generics = generics;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_text_is_unchanged(source: &str) {
        let tokens: TokenStream = source.parse().expect("it is Rust");
        assert_eq!(text(tokens), source);
    }

    #[test]
    fn text_of_tokens_matches_source() {
        assert_text_is_unchanged("left > right");
        assert_text_is_unchanged("!x > self.limit && !y != 2.0");
        assert_text_is_unchanged("let Some(a) = !x && a > -!y");
        assert_text_is_unchanged("scores.0 * net.left.of(&input)");
        assert_text_is_unchanged("return y * !y");
        assert_text_is_unchanged("(a, [b, c], d[0])");
        assert_text_is_unchanged("n @ 1..=5 | 7");
        assert_text_is_unchanged("xs.iter().map(|x| x * 2.0).sum::<f64>()? - 1");
        assert_text_is_unchanged("Net { gate, depth: 3 }");
        assert_text_is_unchanged("*x <= -1 || !flag");
        assert_text_is_unchanged("f(|a, b| a + b, || 1)");
        assert_text_is_unchanged("println!(\"{}\", x)");
        assert_text_is_unchanged("&mut x as &dyn Any");
        assert_text_is_unchanged("z = z * 2.0");
        assert_text_is_unchanged("Vec::<Vec<f32>>::new()");
        assert_text_is_unchanged("'a'");
        assert_text_is_unchanged("break 'outer x");
    }

    #[test]
    fn text_longer_than_limit_is_truncated() {
        let long = vec!["value"; 30].join(" + ");
        let tokens: TokenStream = long.parse().expect("it is Rust");
        let short = text(tokens);
        assert!(short.ends_with('…') && short.chars().count() <= MAX_CHARS, "{short}");
    }
}
