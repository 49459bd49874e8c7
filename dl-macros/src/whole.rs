//! A whole `impl` block, trait or module under one attribute: each function in it as if it were
//! annotated itself.
//!
//! Functions that cannot be annotated (`const`, `async`, `extern`, without a body) and those that
//! have an attribute of their own are left as they are.

use crate::body;
use crate::diagnostics::Problems;
use crate::options::Options;
use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Attribute, ImplItem, Item, Signature, TraitItem};

/// Expands the item, or says that it is something else.
pub(crate) fn expand(item: TokenStream, options: &Options, problems: &mut Problems) -> Option<TokenStream> {
    let mut item = syn::parse2::<Item>(item).ok()?;
    if !matches!(item, Item::Impl(_) | Item::Trait(_) | Item::Mod(syn::ItemMod { content: Some(_), .. })) {
        return None;
    }
    if let Some(lazy) = &options.lazy {
        problems.at(lazy, "`lazy` is about one function\nhelp: write `#[differentiable(lazy)]` on that function");
    }
    inside(&mut item, options);
    Some(item.into_token_stream())
}

fn inside(item: &mut Item, options: &Options) {
    match item {
        Item::Impl(item) if !annotated(&item.attrs) => {
            for inner in &mut item.items {
                if let ImplItem::Fn(function) = inner
                    && can_be_annotated(&function.attrs, &function.sig)
                {
                    *inner = ImplItem::Verbatim(body::function(function.to_token_stream(), options, true));
                }
            }
        }
        Item::Trait(item) if !annotated(&item.attrs) => {
            for inner in &mut item.items {
                if let TraitItem::Fn(function) = inner
                    && function.default.is_some()
                    && can_be_annotated(&function.attrs, &function.sig)
                {
                    *inner = TraitItem::Verbatim(body::function(function.to_token_stream(), options, true));
                }
            }
        }
        Item::Mod(item) if !annotated(&item.attrs) => {
            item.content.iter_mut().flat_map(|(_, items)| items).for_each(|item| inside(item, options))
        }
        Item::Fn(function) if can_be_annotated(&function.attrs, &function.sig) => {
            *item = Item::Verbatim(body::function(function.to_token_stream(), options, false));
        }
        _ => {}
    }
}

/// Whether there is a `#[differentiable]`.
pub(crate) fn annotated(attrs: &[Attribute]) -> bool {
    attrs
        .iter()
        .any(|attribute| attribute.path().segments.last().is_some_and(|segment| segment.ident == "differentiable"))
}

fn can_be_annotated(attrs: &[Attribute], sig: &Signature) -> bool {
    !annotated(attrs) && sig.constness.is_none() && sig.asyncness.is_none() && sig.abi.is_none()
}
