//! The path of the crate `dl`, as an option names it and as expansions spell it.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::parse::ParseStream;
use syn::{Path, parse_quote};

/// The path that is used without an option `crate`.
pub(crate) fn default() -> Path {
    parse_quote!(::dl)
}

/// Parses the value of an option `crate = path`.
pub(crate) fn parse(input: ParseStream<'_>) -> syn::Result<Path> {
    if input.peek(syn::Lit) {
        return Err(input.error("the crate is a path without quotes, like `crate = my::dl`"));
    }
    input.call(Path::parse_mod_style)
}

/// The runtime module that expansions use.
///
/// All tokens get the given span, normally that of the source expression: `#[track_caller]` then
/// reports the place of that expression.
pub(crate) fn runtime(krate: &Path, span: Span) -> TokenStream {
    let krate: TokenStream = krate
        .to_token_stream()
        .into_iter()
        .map(|mut token: TokenTree| {
            token.set_span(span);
            token
        })
        .collect();
    quote_spanned!(span=> #krate::bang)
}
