//! `self` under another name: a lazy body runs after the method has returned, when there is no `self` any more.
//!
//! ```text
//! // Input:  self.gate.of(input)
//! // Output: this.gate.of(input)
//! ```

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use syn::visit_mut::{self, VisitMut};
use syn::{Ident, Macro};

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
        mac.tokens = renamed(mac.tokens.clone());
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
