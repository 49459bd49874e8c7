//! A function with the option `compiled`: its body builds layers for the first call with some
//! arguments, and later calls are one operation.
//!
//! ```text
//! // Input:  fn of(&self, x: &NdLayer) -> NdLayer { body }
//! // Output: fn of(&self, x: &NdLayer) -> NdLayer {
//! //             static FUNCTION: CompiledFunction = CompiledFunction::new("of");
//! //             let arguments = FUNCTION.arguments(|arguments| {
//! //                 argument(self).add_to(arguments);
//! //                 argument(x).add_to(arguments);
//! //             });
//! //             FUNCTION.call(arguments, move || -> NdLayer { body })
//! //         }
//! ```

use crate::diagnostics::Diagnostics;
use crate::parse::crate_path;
use crate::parse::function::{Function, Parameter, ParameterKind};
use proc_macro2::Span;
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::{Ident, Pat, Path, ReturnType, Type, parse_quote_spanned};

/// Replaces the body by a call of its plan.
pub(crate) fn expand(
    function: &mut Function,
    parameters: &[Parameter],
    is_grouped: bool,
    krate: &Path,
    diagnostics: &mut Diagnostics,
) {
    let site = Span::mixed_site();
    let runtime = crate_path::runtime(krate, site);
    let mut added = Vec::new();
    for parameter in parameters {
        let Pat::Ident(name) = &parameter.pat else {
            diagnostics.at(
                &parameter.pat,
                "a parameter of a compiled function has a name\n\
                 help: take the value apart in the body: `let (a, b) = pair;`",
            );
            continue;
        };
        let (name, is_reference) = (&name.ident, matches!(&parameter.ty, Type::Reference(_)));
        let is_layer = matches!(parameter.kind, ParameterKind::Expression);
        let span = Span::mixed_site().located_at(parameter.ty.span());
        let runtime = crate_path::runtime(krate, span);
        added.push(match is_reference && !is_layer {
            true => quote_spanned!(span=> #runtime::argument(#name).add_to(arguments);),
            false => quote_spanned!(span=> #runtime::argument(&#name).add_to(arguments);),
        });
    }
    let name = function.sig.ident.to_string();
    let name = name.trim_start_matches("r#");
    let ReturnType::Type(_, output) = &function.sig.output else { return };
    let new = Ident::new(if is_grouped { "grouped" } else { "new" }, site);
    let place = site.located_at(function.sig.ident.span());
    let body = &function.block;
    function.block = parse_quote_spanned! {place=> {
        static FUNCTION: #runtime::CompiledFunction = #runtime::CompiledFunction::#new(#name);
        let arguments = FUNCTION.arguments(|arguments: &mut #runtime::Arguments| {
            #(#added)*
        });
        FUNCTION.call(arguments, move || -> #output #body)
    }};
}
