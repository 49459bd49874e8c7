//! Renames `self` in lazy bodies: they run after the method has returned, where `self` does not
//! exist.
//!
//! ```text
//! // Input:  self.gate.of(input)
//! // Output: this.gate.of(input)
//! ```

use crate::diagnostics::Diagnostics;
use crate::parse::{format_strings, std_macros};
use proc_macro2::{Group, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::visit_mut::{self, VisitMut};
use syn::{Ident, LitStr, Macro};

/// The name that replaces `self` in a lazy body. It is hygienic: source code cannot refer to it.
pub(crate) fn this(span: Span) -> Ident {
    Ident::new("this", Span::mixed_site().located_at(span))
}

/// Renames `self` in the block, including the tokens of macros, but not in nested items, which have
/// a `self` of their own. Macros of the standard library must still be open.
pub(crate) fn rename(block: &mut syn::Block, has_receiver: bool, diagnostics: &mut Diagnostics) {
    Renamer { has_receiver, diagnostics }.visit_block_mut(block);
}

struct Renamer<'a> {
    has_receiver: bool,
    diagnostics: &'a mut Diagnostics,
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
        mac.tokens = if std_macros::is_std_macro(mac) {
            rename_in_format_string(tokens, std_macros::format_string_index(mac))
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
    /// Reports each string with `{self}` in a macro that is not of the standard library: it may be
    /// a format string, and cannot be renamed safely.
    fn check(&mut self, mac: &Macro, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.check(mac, group.stream()),
                TokenTree::Literal(literal) if with_self_renamed(&literal).is_some() => {
                    let name = mac.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
                    self.diagnostics.at(
                        literal,
                        format!(
                            "a string of `{name}!` cannot capture `self` here: the body of a lazy method runs after the method has returned\n\
                             help: if this is a format string, format it before the macro, `let text = format!(\"{{self}}\");`, and use `text` in it"
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

/// Renames `self` in the format string of a macro. A format string cannot name a hygienic variable,
/// so a named argument passes it.
///
/// ```text
/// // Input:  "{self:?} {x}", x = x
/// // Output: "{self_:?} {x}", x = x, self_ = this
/// ```
fn rename_in_format_string(tokens: TokenStream, format_string: Option<usize>) -> TokenStream {
    let mut named = None;
    let (mut current, mut comma) = (0, false);
    let mut tokens: TokenStream = tokens
        .into_iter()
        .map(|token| {
            comma = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ',');
            current += usize::from(comma);
            match token {
                TokenTree::Literal(literal) if format_string == Some(current) => {
                    let changed = with_self_renamed(&literal);
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

fn with_self_renamed(literal: &Literal) -> Option<Literal> {
    let text: LitStr = syn::parse2(literal.to_token_stream()).ok()?;
    let mut changed = Literal::string(&format_strings::with_self_renamed(&text.value(), "self_")?);
    changed.set_span(literal.span());
    Some(changed)
}
