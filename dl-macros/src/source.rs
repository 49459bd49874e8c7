//! Tokens as a user would have written them in one line.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// So many characters are shown.
const LONGEST: usize = 60;

/// These tokens as text, cut short.
pub(crate) fn text(tokens: impl ToTokens) -> String {
    let mut writer = Writer::default();
    writer.all(tokens.to_token_stream());
    cut(&writer.text)
}

pub(crate) fn cut(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    let start: String = text.chars().take(LONGEST - 1).collect();
    format!("{}…", start.trim_end())
}

/// What was written last, as far as the space after it depends on it.
#[derive(Clone, Copy, PartialEq, Default)]
enum Last {
    /// Nothing yet, or something that is not separated from what follows.
    #[default]
    Open,
    /// A name, a literal, a closing bracket.
    Value,
    /// A word that an expression follows.
    Keyword,
    /// `,` and the like.
    Separator,
    /// An operator with two sides.
    Operator,
}

#[derive(Default)]
struct Writer {
    text: String,
    last: Last,
    /// The operator that is being written.
    operator: String,
    /// Inside how many `::<…>`.
    generics: usize,
    /// Between the `|` of a closure.
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
                if punct.spacing() == Spacing::Alone || punct.as_char() == '\'' || !self.is_begun() {
                    let operator = std::mem::take(&mut self.operator);
                    self.operator(&operator);
                }
            }
        }
    }

    /// Whether an operator may go on.
    fn is_begun(&mut self) -> bool {
        const LONG: [&str; 12] = ["=", "!", "<", ">", "&", "|", "+", "-", "*", "/", ".", ":"];
        // `!`, `-` and `*` before an operand are operators of their own, whatever follows
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
    fn same(source: &str) {
        let tokens: TokenStream = source.parse().expect("it is Rust");
        assert_eq!(text(tokens), source);
    }

    #[test]
    fn as_it_was_written() {
        same("left > right");
        same("!x > self.limit && !y != 2.0");
        same("let Some(a) = !x && a > -!y");
        same("scores.0 * net.left.of(&input)");
        same("return y * !y");
        same("(a, [b, c], d[0])");
        same("n @ 1..=5 | 7");
        same("xs.iter().map(|x| x * 2.0).sum::<f64>()? - 1");
        same("Net { gate, depth: 3 }");
        same("*x <= -1 || !flag");
        same("f(|a, b| a + b, || 1)");
        same("println!(\"{}\", x)");
        same("&mut x as &dyn Any");
        same("z = z * 2.0");
        same("Vec::<Vec<f32>>::new()");
        same("'a'");
        same("break 'outer x");
    }

    #[test]
    fn cut_short() {
        let long = vec!["value"; 30].join(" + ");
        let tokens: TokenStream = long.parse().expect("it is Rust");
        let short = text(tokens);
        assert!(short.ends_with('…') && short.chars().count() <= LONGEST, "{short}");
    }
}
