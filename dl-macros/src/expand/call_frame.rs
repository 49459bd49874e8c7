//! Wraps the body of a function in a call frame, so that layers built in it know the chain of calls
//! that led to them. Error messages show this chain.
//!
//! ```text
//! // Input:  fn of(&self, x: &Layer<f32>) -> Layer<f32> { body }
//! // Output: #[track_caller]
//! //         fn of(&self, x: &Layer<f32>) -> Layer<f32> {
//! //             ::dl::bang::method::<Self>("of").run(move || -> Layer<f32> { body })
//! //         }
//! ```
//!
//! `#[track_caller]` gives the frame the place of the call. Operators in the body would inherit
//! that place; the closure prevents this, so they report their own.

use crate::parse::crate_path;
use crate::parse::function::{Function, LazyReturn, mentions_impl, mentions_layers};
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Path, ReturnType, Signature};

/// The call frame of a function. `Tracked` and `AlreadyTracked` hold the expression that creates
/// it.
pub(crate) enum CallFrame {
    /// No frame: the function does not use layers, or cannot have `#[track_caller]`.
    None,
    /// The expansion adds `#[track_caller]`.
    Tracked(TokenStream),
    /// The source has `#[track_caller]` already. The body then runs without a closure.
    AlreadyTracked(TokenStream),
}

impl CallFrame {
    pub(crate) fn of(function: &Function, returned: Option<&LazyReturn>, in_type: bool, krate: &Path) -> CallFrame {
        let Function { attrs, sig, .. } = function;
        let opaque = matches!(&sig.output, ReturnType::Type(_, ty) if mentions_impl(ty));
        let uses_layers = returned.is_some() || mentions_layers(sig) && !opaque;
        if !uses_layers || attrs.iter().any(|attribute| attribute.path().is_ident("target_feature")) {
            return CallFrame::None;
        }
        let site = Span::mixed_site();
        let runtime = crate_path::runtime(krate, site);
        let name = sig.ident.to_string();
        let name = name.trim_start_matches("r#");
        let frame = if in_type || mentions_self(sig) {
            quote_spanned!(site=> #runtime::method::<Self>(#name))
        } else {
            quote_spanned!(site=> #runtime::function(::core::module_path!(), #name))
        };
        if attrs.iter().any(|attribute| attribute.path().is_ident("track_caller")) {
            CallFrame::AlreadyTracked(frame)
        } else {
            CallFrame::Tracked(frame)
        }
    }

    /// The attribute to add to the function.
    pub(crate) fn attribute(&self) -> Option<TokenStream> {
        matches!(self, CallFrame::Tracked(_)).then(|| quote!(#[track_caller]))
    }

    /// The block of the function, with the frame around `block`.
    pub(crate) fn wrap(&self, output: &TokenStream, block: TokenStream) -> TokenStream {
        let site = Span::mixed_site();
        match self {
            CallFrame::None => block,
            CallFrame::Tracked(frame) => quote_spanned!(site=> { #frame.run(move || #output #block) }),
            CallFrame::AlreadyTracked(frame) => quote_spanned!(site=> { let _inside = #frame; #block }),
        }
    }
}

/// Whether the signature shows that the function belongs to a type.
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
