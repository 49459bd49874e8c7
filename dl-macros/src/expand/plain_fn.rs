//! A function with a body that runs when it is called: a plain function, or a lazy one without `!`
//! and `?`.

use crate::expand::call_frame::CallFrame;
use crate::parse::crate_path;
use crate::parse::function::{Function, Parameter, ParameterKind, allowed_lints, mentions_impl};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{FnArg, Ident, Pat, Path, ReturnType, Token, parse_quote};

/// Converts the polymorphic parameters of a lazy function to layers, at the start of its body.
pub(crate) fn convert_parameters(function: &mut Function, parameters: &[Parameter], krate: &Path) {
    let layers: Vec<_> = parameters.iter().filter_map(|parameter| as_layer(parameter, krate)).collect();
    for input in &mut function.sig.inputs {
        // A `mut` of the parameter moves to the layer.
        if let FnArg::Typed(input) = input
            && let Pat::Ident(pat) = &mut *input.pat
            && layers.iter().any(|(_, name, _)| *name == pat.ident)
        {
            pat.mutability = None;
        }
    }
    for (i, (mutability, name, layer)) in layers.into_iter().enumerate() {
        let mutability = mutability.into_iter();
        function.block.stmts.insert(i, parse_quote!(let #(#mutability)* #name = #layer;));
    }
}

/// Builds the function, with a call frame around its body.
pub(crate) fn expand(function: Function, frame: CallFrame) -> TokenStream {
    let Function { attrs, vis, defaultness, sig, block } = function;
    let (lints, track_caller) = (allowed_lints(), frame.attribute());
    let output = match &sig.output {
        ReturnType::Type(_, ty) if mentions_impl(ty) => None,
        ReturnType::Type(arrow, ty) => Some(quote!(#arrow #ty)),
        ReturnType::Default => Some(quote_spanned!(Span::mixed_site()=> -> ())),
    };
    let body = frame.wrap(&output.unwrap_or_default(), block.to_token_stream());
    quote!(#(#attrs)* #track_caller #lints #vis #defaultness #sig #body)
}

/// The layer, or the reference to one, that replaces a polymorphic parameter: mutability, name and
/// value.
///
/// ```text
/// // Input:  a: impl Expression, b: &impl Expression
/// // Output: let a = ::dl::bang::layer(&a); let b = &::dl::bang::layer(&b);
/// ```
fn as_layer(parameter: &Parameter, krate: &Path) -> Option<(Option<Token![mut]>, Ident, TokenStream)> {
    match (&parameter.kind, &parameter.pat) {
        (ParameterKind::Expression, Pat::Ident(pat)) => {
            let (name, span) = (&pat.ident, pat.ident.span());
            let runtime = crate_path::runtime(krate, span);
            let reference = parameter.reference();
            Some((pat.mutability, name.clone(), quote_spanned!(span=> #reference #runtime::layer(&#name))))
        }
        _ => None,
    }
}
