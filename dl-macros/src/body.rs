//! The whole: an annotated function in, an ordinary one out.

use crate::branches::Branches;
use crate::diagnostics::Problems;
use crate::function::{self, Form, Function, Parameter, Returned};
use crate::inside::Inside;
use crate::operands::module;
use crate::options::Options;
use crate::{arguments, attributes, bangs, branches, flow, liveness, negations, operands, plan, receiver, whole};
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{FnArg, Ident, Index, Pat, Path, ReturnType, Token, Type, parse_quote};

/// Lints that are about how code is written, and that would speak of code which nobody wrote.
pub(crate) fn silenced() -> TokenStream {
    quote!(#[allow(
        unused_parens,
        clippy::blocks_in_conditions,
        clippy::needless_borrow,
        clippy::needless_late_init,
        clippy::needless_return,
        clippy::let_and_return,
        clippy::question_mark,
        clippy::redundant_clone,
        clippy::unit_arg
    )])
}

/// The attribute.
pub(crate) fn differentiable(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut problems = Problems::default();
    let options = Options::parse(options, &mut problems);
    let expanded = match other_item(&item) {
        None => function(item, &options, false),
        Some(keyword) => whole::expand(item.clone(), &options, &mut problems).unwrap_or_else(|| {
            let message = "`#[differentiable]` goes on a function, or on an `impl` block, a trait or a module full of them, not on this";
            problems.at(keyword, message);
            item
        }),
    };
    let errors = problems.into_tokens();
    quote!(#errors #expanded)
}

/// One function; `in_type` says that it is known to be that of a type.
pub(crate) fn function(item: TokenStream, options: &Options, in_type: bool) -> TokenStream {
    let mut problems = Problems::default();
    let function = match syn::parse2::<Function>(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            // Half-typed: the compiler, or the editor, recovers from the same tokens.
            let error = error.into_compile_error();
            return quote!(#error #item);
        }
    };
    function::check(&function.sig, &mut problems);
    let stub = function::stub(&function);
    let expanded = expand(function, options, in_type, &mut problems);
    if problems.any() {
        let errors = problems.into_tokens();
        return quote!(#errors #stub);
    }
    expanded
}

/// What the item is, if it is no function.
fn other_item(item: &TokenStream) -> Option<TokenTree> {
    let mut keywords = item.clone().into_iter().filter(|token| match token {
        TokenTree::Ident(word) => {
            ["fn", "struct", "enum", "union", "trait", "impl", "mod", "static", "type", "use", "macro_rules"]
                .iter()
                .any(|k| word == k)
        }
        _ => false,
    });
    keywords.next().filter(|word| word.to_string() != "fn")
}

fn expand(mut function: Function, options: &Options, in_type: bool, problems: &mut Problems) -> TokenStream {
    let krate = &options.krate;
    let parameters = function::parameters(&function.sig);
    let returned = function::returned(&function.sig, options);
    let inside = Inside::of(&function, returned.as_ref(), in_type, krate);

    arguments::open(&mut function.block);
    attributes::enclose(&mut function.block);
    let control = flow::control(parameters.iter().map(|p| (&p.pat, &p.ty)), &function.block, returned.is_some());
    let plan = match &returned {
        Some(_) => plan::plan(&function.block, &control, problems),
        None => plan::Plan::default(),
    };
    let branches = branches::find(&function.block, &plan);
    operands::duplicate(&mut function.block, &liveness::used_later(&control), krate);
    if returned.is_some() || negations::mentions_layers(&function.sig) {
        negations::explain(&mut function.block, returned.is_some(), &control.plain, krate);
    }

    match returned {
        Some(returned) if !plan.is_empty() => {
            function::check_kept(&function.sig, &parameters, problems);
            bangs::expand(&mut function.block, &plan, &branches, &returned, krate);
            receiver::rename(&mut function.block, function.sig.receiver().is_some(), problems);
            arguments::close(&mut function.block);
            lazy(function, parameters, &returned, &branches, inside, krate)
        }
        Some(_) => {
            arguments::close(&mut function.block);
            let layers: Vec<_> = parameters.iter().filter_map(|parameter| as_layer(parameter, krate)).collect();
            for input in &mut function.sig.inputs {
                // the layer is what may be changed
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
            ordinary(function, inside)
        }
        None => {
            arguments::close(&mut function.block);
            ordinary(function, inside)
        }
    }
}

/// A function that builds layers at once, or that has nothing to do with layers.
fn ordinary(function: Function, inside: Inside) -> TokenStream {
    let Function { attrs, vis, defaultness, sig, block } = function;
    let (silenced, tracked) = (silenced(), inside.tracked());
    let output = match &sig.output {
        ReturnType::Type(_, ty) if mentions_impl(ty) => None,
        ReturnType::Type(arrow, ty) => Some(quote!(#arrow #ty)),
        ReturnType::Default => Some(quote_spanned!(Span::mixed_site()=> -> ())),
    };
    let body = inside.run(&output.unwrap_or_default(), block.to_token_stream());
    quote!(#(#attrs)* #tracked #silenced #vis #defaultness #sig #body)
}

/// A polymorphic parameter is used as a layer, or as a reference to one.
///
/// ```text
/// // Input:  a: impl Expression, b: &impl Expression
/// // Output: let a = ::dl::bang::layer(&a); let b = &::dl::bang::layer(&b);
/// ```
fn as_layer(parameter: &Parameter, krate: &Path) -> Option<(Option<Token![mut]>, Ident, TokenStream)> {
    match (&parameter.form, &parameter.pat) {
        (Form::Expression, Pat::Ident(pat)) => {
            let (name, span) = (&pat.ident, pat.ident.span());
            let bang = module(krate, span);
            let reference = parameter.reference();
            Some((pat.mutability, name.clone(), quote_spanned!(span=> #reference #bang::layer(&#name))))
        }
        _ => None,
    }
}

/// A body that runs anew in each pass.
///
/// ```text
/// // Input:  fn f(x: &Layer<f32>, n: usize) -> Layer<f32> { body }
/// // Output: fn f(x: &Layer<f32>, n: usize) -> Layer<f32> { // as `inside` says
/// //             let kept = keep((keep_reference(x), keep_value(n)));
/// //             lazy(move || {
/// //                 let kept = kept.clone();
/// //                 async move {
/// //                     let x: &Layer<f32> = lend(&kept.0);
/// //                     let n: usize = kept.1.take();
/// //                     let tail: Layer<f32> = { body };
/// //                     return Ok(tail); // with an attribute that allows it to be unreachable
/// //                 }
/// //             })
/// //         }
/// ```
fn lazy(
    function: Function,
    parameters: Vec<Parameter>,
    returned: &Returned,
    branches: &Branches,
    inside: Inside,
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
        let (kept, lent) = kept_and_lent(parameter, &argument, &quote_spanned!(site=> #kept.#index), krate);
        keep.push(kept);
        let attrs = &parameter.attrs;
        lend.push(quote!(#(#attrs)* #lent));
    }
    let bang = module(krate, site);
    let named = module(krate, sig.ident.span());
    let name = sig.ident.span();
    let start = match returned {
        Returned::Named(ty) => {
            let call = quote_spanned!(name=> #named::lazy::<#ty, _, _>);
            let stmts = &block;
            let body = quote_spanned!(site=>
                let #tail: #ty = #stmts;
                #[allow(unreachable_code)]
                return ::core::result::Result::Ok::<#ty, #bang::Error>(#tail);
            );
            (call, body)
        }
        Returned::Expression => {
            let stmts = &block;
            let body = quote_spanned!(site=>
                let #tail = #stmts;
                #[allow(unreachable_code)]
                return ::core::result::Result::Ok::<_, #bang::Error>(#bang::layer(&#tail));
            );
            (quote_spanned!(name=> #named::lazy::<#named::Layer<_>, _, _>), body)
        }
        Returned::Inferred => unreachable!("a function says what it returns"),
    };
    let (call, body) = start;
    let branches = branches.declared(krate);
    let (silenced, tracked) = (silenced(), inside.tracked());
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
    let run = quote_spanned!(name=> #call(#work));
    let shared = quote_spanned!(site=> let #kept = #bang::keep((#(#keep,)*)););
    let body = inside.run(&TokenStream::new(), quote!({ #shared #run }));
    quote!(#(#attrs)* #tracked #silenced #vis #defaultness #sig #body)
}

/// The name by which the outer function knows a parameter. Patterns and `mut` belong to the body.
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

/// How a parameter is kept, and how each run gets it.
fn kept_and_lent(
    parameter: &Parameter,
    argument: &TokenStream,
    place: &TokenStream,
    krate: &Path,
) -> (TokenStream, TokenStream) {
    let Parameter { pat, ty, form, .. } = parameter;
    let span = ty.span();
    let bang = module(krate, span);
    let opaque = mentions_impl(ty);
    match form {
        Form::Receiver { reference } => {
            let this = receiver::this(pat.span());
            let span = pat.span();
            let bang = module(krate, span);
            if *reference {
                (
                    quote_spanned!(span=> #bang::keep_reference(#argument)),
                    quote_spanned!(span=> let #this: &Self = #bang::lend::<_, Self>(&#place);),
                )
            } else {
                let mutability = if let Pat::Ident(pat) = pat { pat.mutability } else { None };
                (
                    quote_spanned!(span=> #bang::keep_value(#argument)),
                    quote_spanned!(span=> let #mutability #this: #ty = #place.take();),
                )
            }
        }
        Form::Expression => {
            let span = argument.span();
            let bang = module(krate, span);
            let lent = match parameter.reference() {
                Some(_) => quote_spanned!(span=> &#place),
                None => quote_spanned!(span=> ::core::clone::Clone::clone(&#place)),
            };
            (quote_spanned!(span=> #bang::layer(&#argument)), quote_spanned!(span=> let #pat = #lent;))
        }
        Form::Reference(_) if opaque => {
            (quote_spanned!(span=> #bang::keep_lent(#argument)), quote_spanned!(span=> let #pat = #place.take();))
        }
        Form::Reference(elem) => (
            quote_spanned!(span=> #bang::keep_reference::<#elem, _>(#argument)),
            quote_spanned!(span=> let #pat: &#elem = #bang::lend::<_, #elem>(&#place);),
        ),
        Form::Value => {
            let annotation = (!opaque).then(|| quote_spanned!(span=> : #ty));
            (
                quote_spanned!(span=> #bang::keep_value(#argument)),
                quote_spanned!(span=> let #pat #annotation = #place.take();),
            )
        }
    }
}

/// `impl Trait` cannot be written in a body.
pub(crate) fn mentions_impl(ty: &Type) -> bool {
    struct Finder(bool);
    impl<'a> syn::visit::Visit<'a> for Finder {
        fn visit_type_impl_trait(&mut self, _: &'a syn::TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut finder = Finder(false);
    syn::visit::Visit::visit_type(&mut finder, ty);
    finder.0
}
