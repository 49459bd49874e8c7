//! `self` under another name: a lazy body runs after the method has returned, when there is no `self` any more.
//!
//! ```text
//! // Input:  self.gate.of(input)
//! // Output: this.gate.of(input)
//! ```

use crate::arguments;
use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::visit_mut::{self, VisitMut};
use syn::{Ident, LitStr, Macro};

/// The name that stands for `self` in a lazy body. Users cannot name it.
pub(crate) fn this(span: Span) -> Ident {
    Ident::new("this", Span::mixed_site().located_at(span))
}

/// Renames `self`, in tokens of macros too, but not in nested items, which have a `self` of their own.
pub(crate) fn rename(block: &mut syn::Block) {
    Renamer.visit_block_mut(block);
}

struct Renamer;

impl VisitMut for Renamer {
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
        mac.tokens = if arguments::is_list(mac) { formatted(tokens) } else { tokens };
    }

    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
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
fn formatted(tokens: TokenStream) -> TokenStream {
    let mut named = None;
    let mut comma = false;
    let mut tokens: TokenStream = tokens
        .into_iter()
        .map(|token| {
            comma = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ',');
            let text = syn::parse2::<LitStr>(token.to_token_stream()).map(|text| text.value()).unwrap_or_default();
            if !(text.contains("{self}") || text.contains("{self:")) {
                return token;
            }
            named = Some(token.span());
            let text = text.replace("{self}", "{self_}").replace("{self:", "{self_:");
            let mut literal = proc_macro2::Literal::string(&text);
            literal.set_span(token.span());
            TokenTree::Literal(literal)
        })
        .collect();
    if let Some(span) = named {
        let this = this(span);
        let comma = (!comma).then(|| quote_spanned!(span=> ,));
        tokens.extend(quote_spanned!(span=> #comma self_ = #this));
    }
    tokens
}
