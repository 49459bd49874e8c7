//! A function that says that it is being run, so that what it builds knows its way from the caller.
//!
//! ```text
//! // Input:  fn of(&self, x: &Layer<f32>) -> Layer<f32> { body }
//! // Output: #[track_caller]
//! //         fn of(&self, x: &Layer<f32>) -> Layer<f32> {
//! //             ::dl::bang::method::<Self>("of").run(move || -> Layer<f32> { body })
//! //         }
//! ```
//!
//! In a function with `#[track_caller]`, what it calls would be told the place of the caller, too.
//! A closure ends that: operators are where they are written.

use crate::body::mentions_impl;
use crate::function::{Function, Returned};
use crate::negations;
use crate::operands::module;
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Attribute, Path, ReturnType, Signature};

/// How a function says so.
pub(crate) enum Inside {
    /// It has nothing to do with layers, or cannot.
    Silent,
    /// By this expression, in a function that is told by whom it is called.
    Tracked(TokenStream),
    /// The same in a function whose author has asked for that.
    AlreadyTracked(TokenStream),
}

impl Inside {
    pub(crate) fn of(function: &Function, returned: Option<&Returned>, in_type: bool, krate: &Path) -> Inside {
        let Function { attrs, sig, .. } = function;
        let opaque = matches!(&sig.output, ReturnType::Type(_, ty) if mentions_impl(ty));
        let about_layers = returned.is_some() || negations::mentions_layers(sig) && !opaque;
        if !about_layers || attrs.iter().any(|attribute| is(attribute, "target_feature")) {
            return Inside::Silent;
        }
        let site = Span::mixed_site();
        let bang = module(krate, site);
        let name = sig.ident.to_string();
        let name = name.trim_start_matches("r#");
        let inside = if in_type || mentions_self(sig) {
            quote_spanned!(site=> #bang::method::<Self>(#name))
        } else {
            quote_spanned!(site=> #bang::function(::core::module_path!(), #name))
        };
        if attrs.iter().any(|attribute| is(attribute, "track_caller")) {
            Inside::AlreadyTracked(inside)
        } else {
            Inside::Tracked(inside)
        }
    }

    /// The attribute of the function.
    pub(crate) fn tracked(&self) -> Option<TokenStream> {
        matches!(self, Inside::Tracked(_)).then(|| quote!(#[track_caller]))
    }

    /// The block of the function, from what was its block.
    pub(crate) fn run(&self, output: &TokenStream, block: TokenStream) -> TokenStream {
        let site = Span::mixed_site();
        match self {
            Inside::Silent => block,
            Inside::Tracked(inside) => quote_spanned!(site=> { #inside.run(move || #output #block) }),
            Inside::AlreadyTracked(inside) => quote_spanned!(site=> { let _inside = #inside; #block }),
        }
    }
}

fn is(attribute: &Attribute, name: &str) -> bool {
    attribute.path().is_ident(name)
}

/// Whether the function is surely that of a type.
fn mentions_self(sig: &Signature) -> bool {
    fn any(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(name) => name == "self" || name == "Self",
            TokenTree::Group(group) => any(group.stream()),
            TokenTree::Punct(_) | TokenTree::Literal(_) => false,
        })
    }
    any(sig.to_token_stream())
}
