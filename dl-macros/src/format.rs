//! Names in format strings: `println!("{x}")` reads `x`.

use crate::arguments;
use proc_macro2::{Literal, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Ident, LitStr, Macro};

/// The variables that the format strings of a macro capture. In one that is not of the standard
/// library, any string may be one.
pub(crate) fn captured(mac: &Macro) -> Vec<Ident> {
    let place = arguments::is_known(mac).then(|| arguments::format_string(mac));
    let mut captured = Vec::new();
    collect(&mac.tokens, place, &mut captured);
    captured
}

/// The same of tokens whose format string, if that is known, is the argument at this place.
fn collect(tokens: &TokenStream, place: Option<Option<usize>>, captured: &mut Vec<Ident>) {
    let named = named(tokens);
    let mut current = 0;
    for token in tokens.clone() {
        match token {
            TokenTree::Group(group) => collect(&group.stream(), None, captured),
            TokenTree::Punct(punct) if punct.as_char() == ',' => current += 1,
            TokenTree::Literal(literal) if place.is_none_or(|place| place == Some(current)) => {
                captured.extend(names(&literal).into_iter().filter(|name| !named.contains(name)));
            }
            _ => {}
        }
    }
}

/// What the arguments define: `name = …`.
fn named(tokens: &TokenStream) -> Vec<Ident> {
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

/// The names in a format string: those behind `{`, but not behind `{{`, and those of a width or a
/// precision, which stand before `$`.
fn names(literal: &Literal) -> Vec<Ident> {
    let text = syn::parse2::<LitStr>(literal.to_token_stream()).map(|text| text.value()).unwrap_or_default();
    let mut names = Vec::new();
    for place in places(&text) {
        let (name, format) = place.split_once(':').unwrap_or((place, ""));
        let (sized, _) = format.rsplit_once('$').unwrap_or_default();
        // `{:0width$}` is as wide as `width` says, with zeros in front
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

/// What stands in the braces of a format string.
fn places(text: &str) -> Vec<&str> {
    let (mut places, mut rest) = (Vec::new(), text);
    while let Some((_, after)) = rest.split_once('{') {
        rest = match after.strip_prefix('{') {
            Some(after) => after,
            None => {
                let (place, after) = after.split_once('}').unwrap_or_default();
                places.push(place);
                after
            }
        };
    }
    places
}

/// A format string that names `self`, with another name there.
pub(crate) fn without_self(text: &str, name: &str) -> Option<String> {
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
    fn names_that_are_captured() {
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
    fn strings_that_are_no_format_strings() {
        assert_eq!(captured(r#"assert_eq!(text, "{x}", "{y}")"#), ["y"]);
        assert_eq!(captured(r#"print!("{x}", "{y}")"#), ["x"]);
        assert_eq!(captured(r#"vec!["{x}"]"#), [""; 0]);
        assert_eq!(captured(r#"matches!(text, "{x}" | "{y}")"#), [""; 0]);
        assert_eq!(captured(r#"info!(target: "{x}", b"{z}", ("{y}"))"#), ["x", "y"]);
    }

    #[test]
    fn another_name_for_self() {
        assert_eq!(
            without_self("{self} {{self}} {self:>9} {selfish} self", "it").unwrap(),
            "{it} {{self}} {it:>9} {selfish} self"
        );
        assert_eq!(without_self("{{self}} {myself}", "it"), None);
    }
}
