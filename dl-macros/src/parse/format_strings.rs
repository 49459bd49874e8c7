//! The variables that format strings capture: `println!("{x}")` reads `x`.

use crate::parse::std_macros;
use proc_macro2::{Literal, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Ident, LitStr, Macro};

/// The variables that the format strings of a macro capture. Any string literal in a macro that is
/// not of the standard library counts as a format string.
pub(crate) fn captured(mac: &Macro) -> Vec<Ident> {
    let index = std_macros::is_std_macro(mac).then(|| std_macros::format_string_index(mac));
    let mut captured = Vec::new();
    collect(&mac.tokens, index, &mut captured);
    captured
}

/// Collects the captured names. `format_string` is `None` if any literal may be a format string;
/// otherwise it holds the index of the argument that is one, if there is any.
fn collect(tokens: &TokenStream, format_string: Option<Option<usize>>, captured: &mut Vec<Ident>) {
    let named = named_arguments(tokens);
    let mut current = 0;
    for token in tokens.clone() {
        match token {
            TokenTree::Group(group) => collect(&group.stream(), None, captured),
            TokenTree::Punct(punct) if punct.as_char() == ',' => current += 1,
            TokenTree::Literal(literal) if format_string.is_none_or(|index| index == Some(current)) => {
                captured.extend(names(&literal).into_iter().filter(|name| !named.contains(name)));
            }
            _ => {}
        }
    }
}

/// The names that named arguments define: `name = …`.
fn named_arguments(tokens: &TokenStream) -> Vec<Ident> {
    let (mut named, mut tokens) = (Vec::new(), tokens.clone().into_iter().peekable());
    let mut before = None;
    while let Some(token) = tokens.next() {
        let is_assigned = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '=')
            && !matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == '=');
        if let (true, Some(TokenTree::Ident(name))) = (is_assigned, before) {
            named.push(name);
        }
        before = Some(token);
    }
    named
}

/// The names in a format string: after `{` (but not after `{{`), and before the `$` of a width or a
/// precision.
fn names(literal: &Literal) -> Vec<Ident> {
    let text = syn::parse2::<LitStr>(literal.to_token_stream()).map(|text| text.value()).unwrap_or_default();
    let mut names = Vec::new();
    for placeholder in placeholders(&text) {
        let (name, format) = placeholder.split_once(':').unwrap_or((placeholder, ""));
        let (sized, _) = format.rsplit_once('$').unwrap_or_default();
        // The `0` of `{:0width$}` is a flag, not a part of the name.
        let sizes = sized.split('$').map(|size| {
            let begin = size.rfind(|c: char| !(c.is_alphanumeric() || c == '_'));
            let name = begin.map_or(size, |begin| &size[begin..]);
            name.trim_start_matches(|c: char| !c.is_alphabetic() && c != '_')
        });
        names.extend([name.trim()].into_iter().chain(sizes).filter_map(|name| match name {
            "self" => Some(Ident::new(name, literal.span())),
            name => syn::parse_str(name).ok().map(|mut name: Ident| {
                name.set_span(literal.span());
                name
            }),
        }));
    }
    names
}

/// The contents of the braces of a format string.
fn placeholders(text: &str) -> Vec<&str> {
    let (mut placeholders, mut rest) = (Vec::new(), text);
    while let Some((_, after)) = rest.split_once('{') {
        rest = match after.strip_prefix('{') {
            Some(after) => after,
            None => {
                let (placeholder, after) = after.split_once('}').unwrap_or_default();
                placeholders.push(placeholder);
                after
            }
        };
    }
    placeholders
}

/// The format string with `self` replaced by another name. Returns `None` if it does not capture
/// `self`.
pub(crate) fn with_self_renamed(text: &str, name: &str) -> Option<String> {
    let (mut changed, mut found, mut rest) = (String::new(), false, text);
    while let Some((before, after)) = rest.split_once('{') {
        changed.extend([before, "{"]);
        rest = match (after.strip_prefix('{'), after.strip_prefix("self")) {
            (Some(after), _) => {
                changed.push('{');
                after
            }
            (_, Some(after)) if after.starts_with(['}', ':']) => {
                found = true;
                changed.push_str(name);
                after
            }
            _ => after,
        };
    }
    changed.push_str(rest);
    found.then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(mac: &str) -> Vec<String> {
        super::captured(&syn::parse_str(mac).expect("a macro")).iter().map(Ident::to_string).collect()
    }

    #[test]
    fn captured_names_include_widths_and_exclude_named_arguments() {
        assert_eq!(captured(r#"print!("{x} {y:.3} {0} {} {{z}} {{{w}}} {self:?}")"#), ["x", "y", "w", "self"]);
        assert_eq!(captured(r#"print!("{loss:.3} {x}", loss = 1.0)"#), ["x"]);
        assert_eq!(captured(r#"assert!(a == b, "{b}")"#), ["b"]);
        assert_eq!(
            captured(r#"print!("{:width$} {x:>0pad$.digits$} {:.*} {1:a<2$} {y:_^w$?} {:$<5}")"#),
            ["width", "x", "pad", "digits", "y", "w"]
        );
        assert_eq!(captured(r#"print!("\u{b1} {x}")"#), ["x"]);
        assert_eq!(captured(r#"print!(r"{y}")"#), ["y"]);
        assert_eq!(captured(r#"print!("no name { here")"#), [""; 0]);
    }

    #[test]
    fn string_arguments_of_std_macros_capture_nothing() {
        assert_eq!(captured(r#"assert_eq!(text, "{x}", "{y}")"#), ["y"]);
        assert_eq!(captured(r#"print!("{x}", "{y}")"#), ["x"]);
        assert_eq!(captured(r#"vec!["{x}"]"#), [""; 0]);
        assert_eq!(captured(r#"matches!(text, "{x}" | "{y}")"#), [""; 0]);
        assert_eq!(captured(r#"info!(target: "{x}", b"{z}", ("{y}"))"#), ["x", "y"]);
    }

    #[test]
    fn self_in_format_string_is_renamed_but_not_in_escaped_braces() {
        assert_eq!(
            with_self_renamed("{self} {{self}} {self:>9} {selfish} self", "it").unwrap(),
            "{it} {{self}} {it:>9} {selfish} self"
        );
        assert_eq!(with_self_renamed("{{self}} {myself}", "it"), None);
    }
}
