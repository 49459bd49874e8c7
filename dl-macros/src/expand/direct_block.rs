//! `direct! { … }`: the body of a lazy function, inside an ordinary one.

use crate::analyze::{branches, control_flow, joins, liveness};
use crate::diagnostics::Diagnostics;
use crate::expand::{branch_trace, duplicate, extract, not_hints, receiver};
use crate::parse::function::{LazyReturn, allowed_lints};
use crate::parse::{attributes, crate_path, std_macros};
use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::{Block, Ident, Index, Pat, Path, Type, parse_quote};

/// Expands the block.
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
pub(crate) fn expand(krate: &Path, mut block: Block, diagnostics: &mut Diagnostics) -> TokenStream {
    std_macros::open(&mut block);
    attributes::enclose(&mut block);
    // The free variables of the block are captured from the function around it. They act as its
    // parameters.
    let captured: Vec<Ident> = control_flow::build(std::iter::empty(), &block, true).free_variables;
    let parameters: Vec<(Pat, Type)> =
        captured.iter().map(|name| (parameter(name), Type::Infer(parse_quote!(_)))).collect();
    let control_flow = control_flow::build(parameters.iter().map(|(pat, ty)| (pat, ty)), &block, true);
    let plan = joins::plan(&block, &control_flow, diagnostics);
    let branches = branches::find(&block, &plan);
    duplicate::duplicate(&mut block, &liveness::live_out_operands(&control_flow), krate);
    not_hints::add_hints(&mut block, true, &control_flow.primitive_negations, krate);
    extract::expand(&mut block, &plan, &branches, &control_flow.value_results, &LazyReturn::Inferred, krate);
    receiver::rename(&mut block, captured.iter().any(|name| name == "self"), diagnostics);
    std_macros::close(&mut block);

    let site = Span::mixed_site();
    let runtime = crate_path::runtime(krate, site);
    let (kept, tail) = (Ident::new("kept", site), Ident::new("tail", site));
    let keep = captured.iter().map(|name| {
        let span = name.span();
        let runtime = crate_path::runtime(krate, span);
        quote_spanned!(span=> #runtime::capture(&#name).keep())
    });
    let take = captured.iter().enumerate().map(|(i, name)| {
        let index = Index { index: u32::try_from(i).unwrap_or(u32::MAX), span: site };
        let name = if name == "self" { receiver::this(name.span()) } else { name.clone() };
        quote_spanned!(site=> let #name = #kept.#index.take();)
    });
    let lints = allowed_lints();
    let branches = branch_trace::declaration(&branches, krate);
    let statements = &block;
    quote_spanned!(site=> {
        let #kept = #runtime::keep((#(#keep,)*));
        #lints
        let made = #runtime::lazy::<_, _, _>(move || {
            let #kept = ::core::clone::Clone::clone(&#kept);
            async move {
                #(#take)*
                #branches
                let #tail = #statements;
                #[allow(unreachable_code)]
                return ::core::result::Result::Ok::<_, #runtime::Error>(#tail);
            }
        });
        made
    })
}

fn parameter(name: &Ident) -> Pat {
    Pat::Ident(syn::PatIdent { attrs: Vec::new(), by_ref: None, mutability: None, ident: name.clone(), subpat: None })
}
