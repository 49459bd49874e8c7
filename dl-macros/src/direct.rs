//! `direct! { … }`: the body of a lazy function, inside an ordinary one.

use crate::diagnostics::Problems;
use crate::function::Returned;
use crate::operands::module;
use crate::{
    arguments, attributes, bangs, body, branches, flow, liveness, negations, operands, options, plan, receiver,
};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::{ParseStream, Parser};
use syn::{Block, Ident, Index, Macro, Pat, Path, Token, Type, parse_quote};

/// The macro.
///
/// ```text
/// // Input:  direct! { if !x > limit { x * 2.0 } else { x } }
/// // Output: {
/// //             let kept = keep((capture(&x).keep(), capture(&limit).keep()));
/// //             lazy(move || {
/// //                 let kept = kept.clone();
/// //                 async move {
/// //                     let x = kept.0.take();
/// //                     let limit = kept.1.take();
/// //                     let tail = { body };
/// //                     return Ok(tail);
/// //                 }
/// //             })
/// //         }
/// ```
pub(crate) fn direct(tokens: TokenStream) -> TokenStream {
    match parse.parse2(tokens) {
        Ok((krate, block)) => {
            let mut problems = Problems::default();
            let expanded = expand(&krate, block, &mut problems);
            let errors = problems.into_tokens();
            if errors.is_empty() { expanded } else { quote!({ #errors ::core::unreachable!() }) }
        }
        Err(error) => error.into_compile_error(),
    }
}

/// What a `direct!` captures, if the macro is one.
pub(crate) fn captured(mac: &Macro) -> Option<Vec<Ident>> {
    let named = mac.path.segments.last().is_some_and(|segment| segment.ident == "direct");
    let (_, mut block) = named.then(|| parse.parse2(mac.tokens.clone()).ok()).flatten()?;
    arguments::open(&mut block);
    attributes::enclose(&mut block);
    Some(flow::control(std::iter::empty(), &block, true).free)
}

fn parse(input: ParseStream<'_>) -> syn::Result<(Path, Block)> {
    let mut krate = parse_quote!(::dl);
    if input.peek(Token![crate]) && input.peek2(Token![=]) {
        input.parse::<Token![crate]>()?;
        input.parse::<Token![=]>()?;
        krate = options::crate_path(input)?;
        input.parse::<Token![;]>()?;
    }
    Ok((krate, Block { brace_token: syn::token::Brace::default(), stmts: input.call(Block::parse_within)? }))
}

fn expand(krate: &Path, mut block: Block, problems: &mut Problems) -> TokenStream {
    arguments::open(&mut block);
    attributes::enclose(&mut block);
    // Whatever is used and not made here is a variable of the function around the block: a
    // parameter, so to say.
    let captured: Vec<Ident> = flow::control(std::iter::empty(), &block, true).free;
    let parameters: Vec<(Pat, Type)> =
        captured.iter().map(|name| (parameter(name), Type::Infer(parse_quote!(_)))).collect();
    let control = flow::control(parameters.iter().map(|(pat, ty)| (pat, ty)), &block, true);
    let plan = plan::plan(&block, &control, problems);
    let branches = branches::find(&block, &plan);
    operands::duplicate(&mut block, &liveness::used_later(&control), krate);
    negations::explain(&mut block, true, &control.plain, krate);
    bangs::expand(&mut block, &plan, &branches, &Returned::Inferred, krate);
    receiver::rename(&mut block, captured.iter().any(|name| name == "self"), problems);
    arguments::close(&mut block);

    let site = Span::mixed_site();
    let bang = module(krate, site);
    let (kept, tail) = (Ident::new("kept", site), Ident::new("tail", site));
    let keep = captured.iter().map(|name| {
        let span = name.span();
        let bang = module(krate, span);
        quote_spanned!(span=> #bang::capture(&#name).keep())
    });
    let take = captured.iter().enumerate().map(|(i, name)| {
        let index = Index { index: u32::try_from(i).unwrap_or(u32::MAX), span: site };
        let name = if name == "self" { receiver::this(name.span()) } else { name.clone() };
        quote_spanned!(site=> let #name = #kept.#index.take();)
    });
    let silenced = body::silenced();
    let branches = branches.declared(krate);
    let statements = &block;
    quote_spanned!(site=> {
        let #kept = #bang::keep((#(#keep,)*));
        #silenced
        let made = #bang::lazy::<_, _, _>(move || {
            let #kept = ::core::clone::Clone::clone(&#kept);
            async move {
                #(#take)*
                #branches
                let #tail = #statements;
                #[allow(unreachable_code)]
                return ::core::result::Result::Ok::<_, #bang::Error>(#tail);
            }
        });
        made
    })
}

fn parameter(name: &Ident) -> Pat {
    Pat::Ident(syn::PatIdent { attrs: Vec::new(), by_ref: None, mutability: None, ident: name.clone(), subpat: None })
}
