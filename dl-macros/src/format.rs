//! Names in format strings: `println!("{x}")` reads `x`.

use proc_macro2::{Literal, TokenStream, TokenTree};
use syn::Ident;

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

    /// The variables that this literal captures, if it is a format string: the names behind `{`, but not behind `{{`.
    pub(crate) fn captured(&self, literal: &Literal) -> Vec<Ident> {
        let text = literal.to_string();
        let (mut captured, mut rest) = (Vec::new(), &*text);
        while let Some(open) = rest.find('{') {
            rest = &rest[open + 1..];
            if let Some(after) = rest.strip_prefix('{') {
                rest = after;
                continue;
            }
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            if let Ok(mut name) = syn::parse_str::<Ident>(&rest[..end])
                && !self.named.contains(&name)
            {
                name.set_span(literal.span());
                captured.push(name);
            }
        }
        captured
    }
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
        assert_eq!(captured(r#""no name { here", 'c', 1.0"#), [""; 0]);
    }
}
