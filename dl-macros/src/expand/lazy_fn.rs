//! A lazy function: its parameters are stored, and its body runs again in each pass.

use crate::analyze::branches::Branches;
use crate::expand::call_frame::CallFrame;
use crate::expand::{branch_trace, receiver};
use crate::parse::crate_path;
use crate::parse::function::{Function, LazyReturn, Parameter, ParameterKind, allowed_lints, mentions_impl};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{FnArg, Ident, Index, Pat, Path};

/// Builds the function around a rewritten body.
///
/// ```text
/// // Input:  fn f(x: &Layer<f32>, n: usize) -> Layer<f32> { body }
/// // Output: fn f(x: &Layer<f32>, n: usize) -> Layer<f32> { // in a call frame
/// //             let kept = keep((keep_reference(x), keep_value(n)));
/// //             lazy(move || {
/// //                 let kept = kept.clone();
/// //                 async move {
/// //                     let x: &Layer<f32> = lend(&kept.0);
/// //                     let n: usize = kept.1.take();
/// //                     let tail: Layer<f32> = { body };
/// //                     return Ok(tail); // with `#[allow(unreachable_code)]`
/// //                 }
/// //             })
/// //         }
/// ```
pub(crate) fn expand(
    function: Function,
    parameters: Vec<Parameter>,
    returned: &LazyReturn,
    branches: &Branches,
    frame: CallFrame,
    krate: &Path,
) -> TokenStream {
    let Function { attrs, vis, defaultness, mut sig, block } = function;
    let site = Span::mixed_site();
    let (kept, tail) = (Ident::new("kept", site), Ident::new("tail", site));
    let mut keep = Vec::new();
    let mut lend = Vec::new();
    for (i, parameter) in parameters.iter().enumerate() {
        let argument = argument(&mut sig.inputs[i], i);
        if matches!(parameter.pat, Pat::Wild(_)) {
            continue;
        }
        let index = Index { index: u32::try_from(keep.len()).unwrap_or(u32::MAX), span: site };
        let (kept, lent) = keep_and_lend(parameter, &argument, &quote_spanned!(site=> #kept.#index), krate);
        keep.push(kept);
        let attrs = &parameter.attrs;
        lend.push(quote!(#(#attrs)* #lent));
    }
    let runtime = crate_path::runtime(krate, site);
    // Errors about the return type are reported at the name of the function.
    let name_span = sig.ident.span();
    let runtime_at_name = crate_path::runtime(krate, name_span);
    let (call, body) = match returned {
        LazyReturn::Named(ty) => {
            let call = quote_spanned!(name_span=> #runtime_at_name::lazy::<#ty, _, _>);
            let body = quote_spanned!(site=>
                let #tail: #ty = #block;
                #[allow(unreachable_code)]
                return ::core::result::Result::Ok::<#ty, #runtime::Error>(#tail);
            );
            (call, body)
        }
        LazyReturn::Expression => {
            let call = quote_spanned!(name_span=> #runtime_at_name::lazy::<#runtime_at_name::Layer<_>, _, _>);
            let body = quote_spanned!(site=>
                let #tail = #block;
                #[allow(unreachable_code)]
                return ::core::result::Result::Ok::<_, #runtime::Error>(#runtime::layer(&#tail));
            );
            (call, body)
        }
        LazyReturn::Inferred => unreachable!("a function has an explicit return type"),
    };
    let branches = branch_trace::declaration(branches, krate);
    let (lints, track_caller) = (allowed_lints(), frame.attribute());
    let work = quote_spanned!(site=>
        move || {
            let #kept = ::core::clone::Clone::clone(&#kept);
            async move {
                #(#lend)*
                #branches
                #body
            }
        }
    );
    let run = quote_spanned!(name_span=> #call(#work));
    let shared = quote_spanned!(site=> let #kept = #runtime::keep((#(#keep,)*)););
    let body = frame.wrap(&TokenStream::new(), quote!({ #shared #run }));
    quote!(#(#attrs)* #track_caller #lints #vis #defaultness #sig #body)
}

/// Reduces a parameter of the outer function to a name, and returns the name. Its pattern and `mut`
/// move to the body.
fn argument(input: &mut FnArg, i: usize) -> TokenStream {
    match input {
        FnArg::Receiver(receiver) => {
            if receiver.reference.is_none() {
                receiver.mutability = None;
            }
            let token = receiver.self_token;
            quote!(#token)
        }
        FnArg::Typed(input) => {
            let name = match &*input.pat {
                Pat::Ident(pat) if pat.subpat.is_none() => pat.ident.clone(),
                Pat::Wild(_) => return TokenStream::new(),
                _ => Ident::new(&format!("argument_{i}"), Span::mixed_site()),
            };
            *input.pat = Pat::Ident(syn::PatIdent {
                attrs: Vec::new(),
                by_ref: None,
                mutability: None,
                ident: name.clone(),
                subpat: None,
            });
            quote!(#name)
        }
    }
}

/// The expression that stores a parameter, and the statement that passes it to a run.
fn keep_and_lend(
    parameter: &Parameter,
    argument: &TokenStream,
    place: &TokenStream,
    krate: &Path,
) -> (TokenStream, TokenStream) {
    let Parameter { pat, ty, kind, .. } = parameter;
    let span = ty.span();
    let runtime = crate_path::runtime(krate, span);
    let opaque = mentions_impl(ty);
    match kind {
        ParameterKind::Receiver { reference } => {
            let this = receiver::this(pat.span());
            let span = pat.span();
            let runtime = crate_path::runtime(krate, span);
            if *reference {
                (
                    quote_spanned!(span=> #runtime::keep_reference(#argument)),
                    quote_spanned!(span=> let #this: &Self = #runtime::lend::<_, Self>(&#place);),
                )
            } else {
                let mutability = if let Pat::Ident(pat) = pat { pat.mutability } else { None };
                (
                    quote_spanned!(span=> #runtime::keep_value(#argument)),
                    quote_spanned!(span=> let #mutability #this: #ty = #place.take();),
                )
            }
        }
        ParameterKind::Expression => {
            let span = argument.span();
            let runtime = crate_path::runtime(krate, span);
            let lent = match parameter.reference() {
                Some(_) => quote_spanned!(span=> &#place),
                None => quote_spanned!(span=> ::core::clone::Clone::clone(&#place)),
            };
            (quote_spanned!(span=> #runtime::layer(&#argument)), quote_spanned!(span=> let #pat = #lent;))
        }
        ParameterKind::Reference(_) if opaque => {
            (quote_spanned!(span=> #runtime::keep_lent(#argument)), quote_spanned!(span=> let #pat = #place.take();))
        }
        ParameterKind::Reference(elem) => (
            quote_spanned!(span=> #runtime::keep_reference::<#elem, _>(#argument)),
            quote_spanned!(span=> let #pat: &#elem = #runtime::lend::<_, #elem>(&#place);),
        ),
        ParameterKind::Value => {
            let annotation = (!opaque).then(|| quote_spanned!(span=> : #ty));
            (
                quote_spanned!(span=> #runtime::keep_value(#argument)),
                quote_spanned!(span=> let #pat #annotation = #place.take();),
            )
        }
    }
}
