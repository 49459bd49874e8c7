//! The attribute on an `impl` block, a trait or a module: it applies to each function inside.
//!
//! Functions that cannot be annotated (`const`, `async`, `extern`, without a body) and functions
//! with a `#[differentiable]` of their own stay unchanged.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Attribute, ImplItem, Item, Signature, TraitItem};

/// Replaces each function of the block by `rewrite(function, in_type)`; `in_type` is true for the
/// functions of an `impl` block or a trait. Returns `None` if the item is no such block.
pub(crate) fn rewrite_functions(
    item: TokenStream,
    rewrite: &dyn Fn(TokenStream, bool) -> TokenStream,
) -> Option<TokenStream> {
    let mut item = syn::parse2::<Item>(item).ok()?;
    if !matches!(item, Item::Impl(_) | Item::Trait(_) | Item::Mod(syn::ItemMod { content: Some(_), .. })) {
        return None;
    }
    rewrite_item(&mut item, rewrite);
    Some(item.into_token_stream())
}

fn rewrite_item(item: &mut Item, rewrite: &dyn Fn(TokenStream, bool) -> TokenStream) {
    match item {
        Item::Impl(item) if !is_annotated(&item.attrs) => {
            for inner in &mut item.items {
                if let ImplItem::Fn(function) = inner
                    && can_be_annotated(&function.attrs, &function.sig)
                {
                    *inner = ImplItem::Verbatim(rewrite(function.to_token_stream(), true));
                }
            }
        }
        Item::Trait(item) if !is_annotated(&item.attrs) => {
            for inner in &mut item.items {
                if let TraitItem::Fn(function) = inner
                    && function.default.is_some()
                    && can_be_annotated(&function.attrs, &function.sig)
                {
                    *inner = TraitItem::Verbatim(rewrite(function.to_token_stream(), true));
                }
            }
        }
        Item::Mod(item) if !is_annotated(&item.attrs) => {
            item.content.iter_mut().flat_map(|(_, items)| items).for_each(|item| rewrite_item(item, rewrite))
        }
        Item::Fn(function) if can_be_annotated(&function.attrs, &function.sig) => {
            *item = Item::Verbatim(rewrite(function.to_token_stream(), false));
        }
        _ => {}
    }
}

/// Whether one of the attributes is `#[differentiable]`.
pub(crate) fn is_annotated(attrs: &[Attribute]) -> bool {
    attrs
        .iter()
        .any(|attribute| attribute.path().segments.last().is_some_and(|segment| segment.ident == "differentiable"))
}

fn can_be_annotated(attrs: &[Attribute], sig: &Signature) -> bool {
    !is_annotated(attrs) && sig.constness.is_none() && sig.asyncness.is_none() && sig.abi.is_none()
}
