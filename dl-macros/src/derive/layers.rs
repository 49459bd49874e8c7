//! `#[derive(Layers)]`: lets a lazy function return a struct of layers.
//!
//! ```text
//! // Input:  struct State { h: NdLayer, c: NdLayer }
//! // Output: impl Lazy for State {
//! //             fn lazy<Body, Run>(body: Body) -> Self … {
//! //                 let decided = decide(body);
//! //                 State {
//! //                     h: part(&decided, |all: &Self| all.h.clone()),
//! //                     c: part(&decided, |all: &Self| all.c.clone()),
//! //                 }
//! //             }
//! //         }
//! ```

use crate::parse::crate_path;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Fields, Index, Member};

/// Expands the derive.
pub(crate) fn derive(item: TokenStream) -> TokenStream {
    syn::parse2::<DeriveInput>(item)
        .and_then(|item| implementation(&item))
        .unwrap_or_else(syn::Error::into_compile_error)
}

fn implementation(item: &DeriveInput) -> syn::Result<TokenStream> {
    let mut krate = crate_path::default();
    for attribute in item.attrs.iter().filter(|attribute| attribute.path().is_ident("layers")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("`#[layers]` has one option: `crate = path` (where the crate `dl` is)"));
            }
            krate = crate_path::parse(meta.value()?)?;
            Ok(())
        })?;
    }
    let fields = match &item.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(data) => {
            return Err(syn::Error::new_spanned(
                data.enum_token,
                "`#[derive(Layers)]` is for structs: the variant of an enum would have to be known before the body runs\n\
                 help: return a `Do` of the enum",
            ));
        }
        Data::Union(data) => {
            return Err(syn::Error::new_spanned(data.union_token, "`#[derive(Layers)]` is for structs"));
        }
    };
    if matches!(fields, Fields::Unit) || fields.is_empty() {
        return Err(syn::Error::new_spanned(
            &item.ident,
            "`#[derive(Layers)]` needs fields: each is a layer, or made of layers",
        ));
    }
    let site = Span::mixed_site();
    let runtime = crate_path::runtime(&krate, site);
    let member = |(i, field): (usize, &syn::Field)| match &field.ident {
        Some(name) => Member::Named(name.clone()),
        None => Member::Unnamed(Index { index: u32::try_from(i).unwrap_or(u32::MAX), span: field.ty.span() }),
    };
    let members: Vec<Member> = fields.iter().enumerate().map(member).collect();
    let types: Vec<&syn::Type> = fields.iter().map(|field| &field.ty).collect();
    let parts = fields.iter().zip(&members).map(|(field, member)| {
        let span = field.ty.span();
        let runtime_at_type = crate_path::runtime(&krate, span);
        let ty = &field.ty;
        quote_spanned!(span=> #member: #runtime_at_type::part::<_, #ty>(&decided, |all: &Self| ::core::clone::Clone::clone(&all.#member)))
    });
    let name = &item.ident;
    let (generics, arguments, conditions) = item.generics.split_for_impl();
    let predicates = conditions.map(|conditions| conditions.predicates.iter().collect::<Vec<_>>()).unwrap_or_default();
    let self_bounds = if item.generics.params.is_empty() {
        TokenStream::new()
    } else {
        quote!(Self: ::core::clone::Clone + ::core::marker::Send + ::core::marker::Sync + 'static,)
    };
    Ok(quote! {
        impl #generics #runtime::Lazy for #name #arguments where #(#predicates,)* #self_bounds {
            #[track_caller]
            fn lazy<Body, Run>(body: Body) -> Self
            where
                Body: ::core::ops::Fn() -> Run + ::core::marker::Send + ::core::marker::Sync + 'static,
                Run: ::core::future::Future<Output = ::core::result::Result<Self, #runtime::Error>>
                    + ::core::marker::Send
                    + 'static,
            {
                let decided = #runtime::decide(body);
                #name { #(#parts,)* }
            }
        }

        impl #generics #runtime::CompiledArgument for #name #arguments where #(#predicates,)* {
            fn add_to(&self, arguments: &mut #runtime::Arguments) {
                #(#runtime::argument(&self.#members).add_field_to(arguments);)*
            }
        }

        impl #generics #runtime::CompiledResult for #name #arguments where #(#predicates,)* {
            fn layers(&self, list: &mut #runtime::ResultLayers) {
                #(#runtime::result_of::<#types>().layers(&self.#members, list);)*
            }

            fn with_layers(list: &mut #runtime::ResultLayers) -> Self {
                #name { #(#members: #runtime::result_of::<#types>().with_layers(list),)* }
            }
        }
    })
}
