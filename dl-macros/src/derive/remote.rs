//! `#[remote]`: registers a block for calls of other ranks.
//!
//! ```text
//! // Input:  impl Block<Ix2, f64> for Expert { … }
//! // Output: impl Block<Ix2, f64> for Expert { … }
//! //         impl RemoteBlock<Ix2, f64> for Expert {
//! //             const NAME: &'static str = "my_net::Expert as Block<Ix2, f64>";
//! //             fn of_caller(&self, x: …) -> … {
//! //                 <Self as Block<Ix2, f64>>::of(self, x) // errors have the line of `fn of`
//! //             }
//! //         }
//! //         submit! { <Expert as RemoteBlock<Ix2, f64>>::FUNCTION }
//! ```

use crate::diagnostics::Diagnostics;
use crate::parse::crate_path;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{FnArg, ImplItem, ItemImpl, Path, Token};

/// Expands the attribute.
pub(crate) fn remote(options: TokenStream, item: TokenStream) -> TokenStream {
    let parsed = options_of.parse2(options).and_then(|krate| Ok((krate, syn::parse2::<ItemImpl>(item.clone())?)));
    match parsed {
        Ok((krate, block)) => {
            let registered = registered(&krate, &block).unwrap_or_else(Diagnostics::into_tokens);
            quote!(#item #registered)
        }
        Err(error) => {
            let error = error.into_compile_error();
            quote!(#item #error)
        }
    }
}

/// The path of the crate `dl`.
fn options_of(input: ParseStream<'_>) -> syn::Result<Path> {
    if input.is_empty() {
        return Ok(crate_path::default());
    }
    let option = input.parse::<Token![crate]>();
    option.map_err(|error| {
        syn::Error::new(error.span(), "`#[remote]` has one option: `crate = path` (where the crate `dl` is)")
    })?;
    input.parse::<Token![=]>()?;
    crate_path::parse(input)
}

fn registered(krate: &Path, block: &ItemImpl) -> Result<TokenStream, Diagnostics> {
    let mut diagnostics = Diagnostics::default();
    let path = block.trait_.as_ref().map(|(_, path, _)| path);
    let last = path.and_then(|path| path.segments.last()).filter(|last| last.ident == "Block");
    if last.is_none() {
        let place = path.map_or_else(|| block.self_ty.to_token_stream(), ToTokens::to_token_stream);
        diagnostics.at(place, "`#[remote]` is for `impl Block for …`: other ranks call a module as a block");
    }
    if !block.generics.params.is_empty() {
        diagnostics.at(
            &block.generics,
            "a block with parameters cannot be registered: other ranks find it by its name, so all types must be known\n\
             help: write an `impl` for each type, or a struct that contains it",
        );
    }
    let Some(last) = last.filter(|_| diagnostics.is_empty()) else { return Err(diagnostics) };
    let (ty, arguments) = (&block.self_ty, &last.arguments);
    let name = format!("{} as Block{}", text(ty), text(arguments));
    let functions = block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(function) => Some(&function.sig),
        _ => None,
    });
    let of = functions.clone().find(|signature| signature.ident == "of");
    let call = of.map(|signature| {
        let (inputs, output) = (&signature.inputs, &signature.output);
        let argument = inputs.iter().find_map(|argument| match argument {
            FnArg::Typed(argument) => Some(&argument.ty),
            FnArg::Receiver(_) => None,
        });
        quote_spanned! {signature.ident.span()=>
            fn of_caller(&self, x: #argument) #output {
                <Self as #path>::of(self, x)
            }
        }
    });
    let checks = functions.flat_map(|signature| &signature.inputs).filter_map(|argument| match argument {
        FnArg::Typed(argument) => {
            let ty = &argument.ty;
            Some(quote_spanned!(ty.span()=> argument::<#ty>();))
        }
        FnArg::Receiver(_) => None,
    });
    Ok(quote! {
        const _: () = {
            #[allow(dead_code, clippy::extra_unused_type_parameters, reason = "it checks types")]
            fn arguments_can_be_sent() {
                fn argument<T: #krate::dist::RemoteArgument>() {}
                #(#checks)*
            }
        };

        impl #krate::dist::RemoteBlock #arguments for #ty {
            const NAME: &'static str = ::core::concat!(::core::module_path!(), "::", #name);

            #call
        }

        #krate::dist::submit! { <#ty as #krate::dist::RemoteBlock #arguments>::FUNCTION }
    })
}

/// The tokens without blanks, except after commas.
fn text(tokens: impl ToTokens) -> String {
    tokens.to_token_stream().to_string().replace(' ', "").replace(',', ", ")
}
