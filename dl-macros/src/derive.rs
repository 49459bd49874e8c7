//! The derives `Layers`, `Module` and `Variables`, and the attribute `remote`.

pub(crate) mod layers;
pub(crate) mod module;
pub(crate) mod remote;
pub(crate) mod variables;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Ident, Type};

/// Whether a name occurs anywhere in a type.
fn mentions(ty: &(impl ToTokens + ?Sized), name: &Ident) -> bool {
    fn any(tokens: TokenStream, name: &Ident) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(ident) => ident == *name,
            TokenTree::Group(group) => any(group.stream(), name),
            _ => false,
        })
    }
    any(ty.to_token_stream(), name)
}

/// Whether a type names the struct, by its name or as `Self`.
fn mentions_struct(ty: &Type, name: &Ident) -> bool {
    mentions(ty, name) || mentions(ty, &Ident::new("Self", Span::call_site()))
}
