//! Names in format strings: `println!("{x}")` reads `x`.

use proc_macro2::{Literal, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Ident, LitStr};

/// What a macro does with names by its format strings.
#[derive(Default)]
pub(crate) struct Names {
    /// What its arguments define: `name = …`.
    named: Vec<Ident>,
}

impl Names {
    /// Those of a macro with these tokens.
    pub(crate) fn of(tokens: &TokenStream) -> Names {
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
        Names { named }
    }

    /// The variables that this literal captures, if it is a format string: the names behind `{`, but not behind `{{`, and those of a
    /// width or a precision, which stand before `$`.
    pub(crate) fn captured(&self, literal: &Literal) -> Vec<Ident> {
        let text = syn::parse2::<LitStr>(literal.to_token_stream()).map(|text| text.value()).unwrap_or_default();
        let mut captured = Vec::new();
        for place in places(&text) {
            let (name, format) = place.split_once(':').unwrap_or((place, ""));
            let (sized, _) = format.rsplit_once('$').unwrap_or_default();
            // `{:0width$}` is as wide as `width` says, with zeros in front
            let sizes = sized.split('$').map(|size| {
                let begin = size.rfind(|c: char| !(c.is_alphanumeric() || c == '_'));
                let name = begin.map_or(size, |begin| &size[begin..]);
                name.trim_start_matches(|c: char| !c.is_alphabetic() && c != '_')
            });
            for name in [name.trim()].into_iter().chain(sizes) {
                if let Ok(mut name) = syn::parse_str::<Ident>(name)
                    && !self.named.contains(&name)
                {
                    name.set_span(literal.span());
                    captured.push(name);
                }
            }
        }
        captured
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(tokens: &str) -> Vec<String> {
        let tokens: TokenStream = tokens.parse().expect("tokens");
        let names = Names::of(&tokens);
        let literals = tokens.into_iter().filter_map(|token| match token {
            TokenTree::Literal(literal) => Some(literal),
            _ => None,
        });
        literals.flat_map(|literal| names.captured(&literal)).map(|name| name.to_string()).collect()
    }

    #[test]
    fn names_that_are_captured() {
        assert_eq!(captured(r#""{x} {y:.3} {0} {} {{z}} {{{w}}}""#), ["x", "y", "w"]);
        assert_eq!(captured(r#""{loss:.3} {x}", loss = 1.0"#), ["x"]);
        assert_eq!(captured(r#"a == b, "{b}""#), ["b"]);
        assert_eq!(
            captured(r#""{:width$} {x:>0pad$.digits$} {:.*} {1:a<2$} {y:_^w$?} {:$<5}""#),
            ["width", "x", "pad", "digits", "y", "w"]
        );
        assert_eq!(captured(r#""\u{b1} {x}", r"{y}", b"{z}""#), ["x", "y"]);
        assert_eq!(captured(r#""no name { here", 'c', 1.0"#), [""; 0]);
    }
}
