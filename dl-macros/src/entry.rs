//! The entry points: from the tokens of an annotated item to the tokens of its expansion.

use crate::analyze::joins::Plan;
use crate::analyze::{branches, control_flow, joins, liveness};
use crate::diagnostics::Diagnostics;
use crate::expand::call_frame::CallFrame;
use crate::expand::{compiled_fn, direct_block, duplicate, extract, lazy_fn, not_hints, plain_fn, receiver};
use crate::parse;
use crate::parse::function::{self, Function};
use crate::parse::options::Options;
use crate::parse::{attributes, item_block, std_macros};
use proc_macro2::{TokenStream, TokenTree};
use quote::quote;

/// Expands `#[differentiable]` on any item.
pub(crate) fn differentiable(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let options = Options::parse(options, &mut diagnostics);
    let expanded = match keyword_of_other_item(&item) {
        None => differentiable_function(item, &options, false),
        Some(keyword) => {
            let rewrite = |function, in_type| differentiable_function(function, &options, in_type);
            let rewritten = item_block::rewrite_functions(item.clone(), &rewrite);
            match (&rewritten, &options.lazy) {
                (None, _) => {
                    let message = "`#[differentiable]` applies to a function, an `impl` block, a trait or an inline module, not to this item";
                    diagnostics.at(keyword, message);
                }
                (Some(_), Some(lazy)) => {
                    let message = "`lazy` applies to one function, not to a block of functions\n\
                                   help: write `#[differentiable(lazy)]` on that function";
                    diagnostics.at(lazy, message);
                }
                (Some(_), None) => {}
            }
            rewritten.unwrap_or(item)
        }
    };
    let errors = diagnostics.into_tokens();
    quote!(#errors #expanded)
}

/// Expands one function. `in_type` says that it is in an `impl` block or a trait; otherwise that is
/// unknown.
fn differentiable_function(item: TokenStream, options: &Options, in_type: bool) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let function = match syn::parse2::<Function>(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            // The source may be incomplete, in an editor. The compiler recovers from its tokens.
            let error = error.into_compile_error();
            return quote!(#error #item);
        }
    };
    function::check(&function.sig, &mut diagnostics);
    let stub = function::stub(&function);
    let expanded = rewrite_function(function, options, in_type, &mut diagnostics);
    if !diagnostics.is_empty() {
        let errors = diagnostics.into_tokens();
        return quote!(#errors #stub);
    }
    expanded
}

/// Expands `direct! { … }`.
pub(crate) fn direct(tokens: TokenStream) -> TokenStream {
    match parse::direct_block::parse(tokens) {
        Ok((krate, block)) => {
            let mut diagnostics = Diagnostics::default();
            let expanded = direct_block::expand(&krate, block, &mut diagnostics);
            let errors = diagnostics.into_tokens();
            if errors.is_empty() { expanded } else { quote!({ #errors ::core::unreachable!() }) }
        }
        Err(error) => error.into_compile_error(),
    }
}

/// The keyword of the item, if it is no function.
fn keyword_of_other_item(item: &TokenStream) -> Option<TokenTree> {
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

/// Runs all steps on a function: parse, analyze, expand.
fn rewrite_function(
    mut function: Function,
    options: &Options,
    in_type: bool,
    diagnostics: &mut Diagnostics,
) -> TokenStream {
    let krate = &options.krate;
    let parameters = function::parameters(&function.sig);
    let returned = function::lazy_return(&function.sig, options, in_type);
    let frame = CallFrame::of(&function, returned.as_ref(), in_type, krate);

    std_macros::open(&mut function.block);
    attributes::enclose(&mut function.block);
    let control_flow =
        control_flow::build(parameters.iter().map(|p| (&p.pat, &p.ty)), &function.block, returned.is_some());
    for layer in &control_flow.tested_layers {
        let is_tensor = parameters.iter().any(|p| function::is_tensor(p, layer));
        let (what, value) = match &returned {
            Some(_) if is_tensor => (
                "tensor",
                format!(
                    "`{layer}.greater(0.0)` is a mask, for `where_`; to decide, write `!{layer}.sum() > 0.0`, for instance"
                ),
            ),
            Some(_) => ("layer or a weight", format!("write `!{layer}`")),
            None => (
                "layer or a weight",
                format!("`{layer}.predict().wait()?` is the value of a layer, and `{layer}.value()` that of a weight"),
            ),
        };
        diagnostics.at(layer, format!("`{layer}` is a {what}, and has no value yet to decide by\nhelp: {value}"));
    }
    let plan = match &returned {
        Some(_) => joins::plan(&function.block, &control_flow, diagnostics),
        None => Plan::default(),
    };
    let branches = branches::find(&function.block, &plan);
    duplicate::duplicate(&mut function.block, &liveness::live_out_operands(&control_flow), krate);
    if returned.is_some() || function::mentions_layers(&function.sig) {
        not_hints::add_hints(&mut function.block, returned.is_some(), &control_flow.primitive_negations, krate);
    }

    if let Some(compiled) = &options.compiled {
        let opaque = matches!(&returned, Some(function::LazyReturn::Expression));
        let why = match &returned {
            Some(_) if !plan.is_empty() => Some(
                "a compiled function does not decide by values: its body has a `!` or a `?`\n\
                 help: decide in a function without `compiled`, which calls compiled ones",
            ),
            None if !in_type => Some("a compiled function returns layers: a `Layer`, or a tuple or an array of those"),
            _ if opaque => Some("a compiled function names the type that it returns, a `Layer` for instance"),
            _ => None,
        };
        if let Some(why) = why {
            diagnostics.at(if in_type { function.sig.ident.clone() } else { compiled.clone() }, why);
        }
    }

    match returned {
        Some(returned) if !plan.is_empty() => {
            function::check_lazy_parameters(&function.sig, &parameters, diagnostics);
            extract::expand(&mut function.block, &plan, &branches, &control_flow.value_results, &returned, krate);
            receiver::rename(&mut function.block, function.sig.receiver().is_some(), diagnostics);
            std_macros::close(&mut function.block);
            lazy_fn::expand(function, parameters, &returned, &branches, frame, krate)
        }
        Some(_) => {
            std_macros::close(&mut function.block);
            if options.compiled.is_some() {
                compiled_fn::expand(&mut function, &parameters, options.is_grouped, krate, diagnostics);
            }
            plain_fn::convert_parameters(&mut function, &parameters, krate);
            plain_fn::expand(function, frame)
        }
        None => {
            std_macros::close(&mut function.block);
            plain_fn::expand(function, frame)
        }
    }
}
