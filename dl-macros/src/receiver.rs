//! `self` under another name: a lazy body runs after the method has returned, when there is no
//! `self` any more.
//!
//! ```text
//! // Input:  self.gate.of(input)
//! // Output: this.gate.of(input)
//! ```

use crate::diagnostics::Problems;
use crate::{arguments, format};
use proc_macro2::{Group, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::visit_mut::{self, VisitMut};
use syn::{Ident, LitStr, Macro};

/// The name that stands for `self` in a lazy body. Users cannot name it.
pub(crate) fn this(span: Span) -> Ident {
    Ident::new("this", Span::mixed_site().located_at(span))
}

/// Renames `self`, in tokens of macros too, but not in nested items, which have a `self` of their
/// own. Macros of the standard library are opened still: what is in their arguments is renamed as
/// everywhere.
pub(crate) fn rename(block: &mut syn::Block, has_receiver: bool, problems: &mut Problems) {
    Renamer { has_receiver, problems }.visit_block_mut(block);
}

struct Renamer<'a> {
    has_receiver: bool,
    problems: &'a mut Problems,
}

impl VisitMut for Renamer<'_> {
    fn visit_expr_path_mut(&mut self, path: &mut syn::ExprPath) {
        if path.path.is_ident("self") {
            let span = path.path.segments[0].ident.span();
            path.path = this(span).into();
        } else {
            visit_mut::visit_expr_path_mut(self, path);
        }
    }

    fn visit_macro_mut(&mut self, mac: &mut Macro) {
        let tokens = renamed(mac.tokens.clone());
        mac.tokens = if arguments::is_known(mac) {
            formatted(tokens, arguments::format_string(mac))
        } else {
            if self.has_receiver {
                self.check(mac, tokens.clone());
            }
            tokens
        };
    }

    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
}

impl Renamer<'_> {
    /// What looks like a format string with `self` in a macro that is not of the standard library.
    fn check(&mut self, mac: &Macro, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.check(mac, group.stream()),
                TokenTree::Literal(literal) if without_self(&literal).is_some() => {
                    let name = mac.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
                    self.problems.at(
                        literal,
                        format!(
                            "the body runs after the method has returned, when there is no `self` that a string of `{name}!` could name\n\
                             help: if this is a format string, name it before: `let text = format!(\"{{self}}\");`, and use `text` in the macro"
                        ),
                    );
                }
                _ => {}
            }
        }
    }
}

fn renamed(tokens: TokenStream) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Ident(name) if name == "self" => TokenTree::Ident(this(name.span())),
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), renamed(group.stream()));
                inner.set_span(group.span());
                TokenTree::Group(inner)
            }
            token => token,
        })
        .collect()
}

/// A format string can name `self`, but not the name that stands for it.
///
/// ```text
/// // Input:  "{self:?} {x}", x = x
/// // Output: "{self_:?} {x}", x = x, self_ = this
/// ```
fn formatted(tokens: TokenStream, place: Option<usize>) -> TokenStream {
    let mut named = None;
    let (mut current, mut comma) = (0, false);
    let mut tokens: TokenStream = tokens
        .into_iter()
        .map(|token| {
            comma = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ',');
            current += usize::from(comma);
            match token {
                TokenTree::Literal(literal) if place == Some(current) => {
                    let changed = without_self(&literal);
                    named = changed.is_some().then(|| literal.span()).or(named);
                    TokenTree::Literal(changed.unwrap_or(literal))
                }
                token => token,
            }
        })
        .collect();
    if let Some(span) = named {
        let this = this(span);
        let comma = (!comma).then(|| quote_spanned!(span=> ,));
        tokens.extend(quote_spanned!(span=> #comma self_ = #this));
    }
    tokens
}

fn without_self(literal: &Literal) -> Option<Literal> {
    let text: LitStr = syn::parse2(literal.to_token_stream()).ok()?;
    let mut changed = Literal::string(&format::without_self(&text.value(), "self_")?);
    changed.set_span(literal.span());
    Some(changed)
}
