//! `#[derive(Module)]`: gives the weights of a struct the names of its fields.
//!
//! ```text
//! // Input:  struct Net { hidden: Linear, #[module(rename = "out")] output: Linear, #[module(skip)] cache: Cache }
//! // Output: impl Module for Net {
//! //             fn visit(&self, visitor: &mut Visitor) {
//! //                 Visitor::field::<Linear>(visitor, "hidden", &self.hidden);
//! //                 Visitor::field::<Linear>(visitor, "out", &self.output);
//! //             }
//! //             fn compiled_arguments(&self, arguments: &mut Arguments) {
//! //                 argument(&self.hidden).add_field_to(arguments);
//! //                 argument(&self.output).add_field_to(arguments);
//! //                 argument(&self.cache).add_field_to(arguments);
//! //             }
//! //         }
//! ```

use crate::derive::{mentions, mentions_struct};
use crate::diagnostics::Diagnostics;
use crate::parse::crate_path;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use std::collections::HashMap;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Field, Fields, Ident, Index, LitStr, Member, Path, Type};

/// Expands the derive.
pub(crate) fn derive(item: TokenStream) -> TokenStream {
    let item = match syn::parse2::<DeriveInput>(item) {
        Ok(item) => item,
        Err(error) => return error.into_compile_error(),
    };
    let mut diagnostics = Diagnostics::default();
    let krate = crate_of(&item.attrs, &mut diagnostics);
    let parts = match fields(&item) {
        Ok(fields) => parts(fields, &mut diagnostics),
        Err(error) => {
            diagnostics.add(error);
            Vec::new()
        }
    };
    // The implementation is emitted even after an error, with the valid parts, so that uses of the
    // struct cause no further errors.
    let implementation = implementation(&item, &krate, &parts);
    let errors = diagnostics.into_tokens();
    quote!(#errors #implementation)
}

/// A field that the visitor gets.
struct Part<'a> {
    name: String,
    /// Whether it is no part of the module, but may decide what a compiled function builds.
    skipped: bool,
    member: Member,
    ty: &'a Type,
    /// PyTorch's name, and whether it has the axes of the weights exchanged.
    torch: (Option<LitStr>, bool),
}

fn crate_of(attributes: &[Attribute], diagnostics: &mut Diagnostics) -> Path {
    let mut krate = crate_path::default();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("module")) {
        let parsed = attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error(
                    "`#[module]` on a struct has one option: `crate = path` (where the crate `dl` is); `skip`, `rename`, `torch` and `transposed` go on its fields",
                ));
            }
            krate = crate_path::parse(meta.value()?)?;
            Ok(())
        });
        parsed.unwrap_or_else(|error| diagnostics.add(error));
    }
    krate
}

fn fields(item: &DeriveInput) -> syn::Result<&Fields> {
    match &item.data {
        Data::Struct(data) => Ok(&data.fields),
        Data::Enum(data) => Err(syn::Error::new_spanned(
            data.enum_token,
            "`#[derive(Module)]` is for structs: the weights of an enum would change their names with its variant\n\
             help: use a struct with an `Option` for each variant, or implement `Module` by hand",
        )),
        Data::Union(data) => Err(syn::Error::new_spanned(data.union_token, "`#[derive(Module)]` is for structs")),
    }
}

fn parts<'a>(fields: &'a Fields, diagnostics: &mut Diagnostics) -> Vec<Part<'a>> {
    let mut names: HashMap<String, Member> = HashMap::new();
    let mut parts = Vec::new();
    for (field, member) in fields.iter().zip(fields.members()) {
        let Settings { skip, rename, torch, transposed } = Settings::of(field, diagnostics);
        let torch = (torch, transposed);
        let name = match (&rename, &member) {
            (Some(name), _) => name.value(),
            (None, Member::Named(name)) => syn::ext::IdentExt::unraw(name).to_string(),
            (None, Member::Unnamed(index)) => index.index.to_string(),
        };
        if skip {
            parts.push(Part { name, skipped: true, member, ty: &field.ty, torch });
            continue;
        }
        if let Some(other) = names.insert(name.clone(), member.clone()) {
            let other = other.to_token_stream();
            let culprit = rename.map_or_else(|| member.to_token_stream(), ToTokens::into_token_stream);
            diagnostics.at(
                culprit,
                format!("the name `{name}` is used twice in module paths: the field `{other}` has it, too"),
            );
        }
        parts.push(Part { name, skipped: false, member, ty: &field.ty, torch });
    }
    parts
}

/// The options of a field: `#[module(skip, rename = "…", torch = "…", transposed)]`.
#[derive(Default)]
struct Settings {
    skip: bool,
    rename: Option<LitStr>,
    torch: Option<LitStr>,
    transposed: bool,
}

impl Settings {
    fn of(field: &Field, diagnostics: &mut Diagnostics) -> Settings {
        let mut settings = Settings::default();
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("module")) {
            let parsed = attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("skip") {
                    settings.skip = true;
                } else if meta.path.is_ident("rename") {
                    settings.rename = Some(check_name(meta.value()?.parse()?)?);
                } else if meta.path.is_ident("torch") {
                    settings.torch = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("transposed") {
                    settings.transposed = true;
                } else {
                    return Err(meta.error(
                        "`#[module]` on a field has the options `skip` (leave the field out), `rename = \"…\"` (its name in module paths), `torch = \"…\"` (its name in PyTorch) and `transposed` (PyTorch has the last two axes of its weights exchanged)",
                    ));
                }
                Ok(())
            });
            parsed.unwrap_or_else(|error| diagnostics.add(error));
        }
        for (option, name) in [("rename", &settings.rename), ("torch", &settings.torch)] {
            if let (true, Some(name)) = (settings.skip, name) {
                let text = format!("a skipped field has no name in module paths: remove `skip` or `{option}`");
                diagnostics.at(name, text);
            }
        }
        settings
    }
}

/// Checks a name from `rename`.
fn check_name(name: LitStr) -> syn::Result<LitStr> {
    match name.value() {
        text if text.is_empty() => Err(syn::Error::new_spanned(name, "a name in module paths cannot be empty")),
        text if text.contains(['.', '*']) => Err(syn::Error::new_spanned(
            name,
            "a name in module paths cannot contain `.` (the separator) or `*` (the wildcard)",
        )),
        _ => Ok(name),
    }
}

fn implementation(item: &DeriveInput, krate: &Path, parts: &[Part<'_>]) -> TokenStream {
    let runtime = crate_path::runtime(krate, Span::mixed_site());
    let spans = |Part { member, ty, .. }: &Part<'_>| {
        // Hygienic names with the location of the type, where errors are reported.
        let span = Span::mixed_site().located_at(ty.span());
        let runtime_at_type = crate_path::runtime(krate, span);
        let member = match member {
            Member::Unnamed(index) => Member::Unnamed(Index { index: index.index, span }),
            named => named.clone(),
        };
        (span, runtime_at_type, member)
    };
    let visits = parts.iter().filter(|part| !part.skipped).map(|part| {
        let ((span, runtime, member), Part { name, ty, torch, .. }) = (spans(part), part);
        let torch = match torch {
            (None, false) => {
                return quote_spanned!(span=> #runtime::Visitor::field::<#ty>(visitor, #name, &self.#member););
            }
            (name, transposed) => {
                let named = name.iter().map(|name| quote!(.named(#name)));
                let transposed = transposed.then(|| quote!(.transposed()));
                quote_spanned!(span=> #runtime::Torch::same() #(#named)* #transposed)
            }
        };
        quote_spanned!(span=> #runtime::Visitor::field_in_torch::<#ty>(visitor, #name, #torch, &self.#member);)
    });
    let arguments_of_fields = parts.iter().map(|part| {
        let (span, runtime, member) = spans(part);
        quote_spanned!(span=> #runtime::argument(&self.#member).add_field_to(arguments);)
    });
    let name = &item.ident;
    let (generics, arguments, conditions) = item.generics.split_for_impl();
    let parameters: Vec<&Ident> = item.generics.type_params().map(|parameter| &parameter.ident).collect();
    let depends = |ty: &Type| parameters.iter().any(|parameter| mentions(ty, parameter));
    // A recursive field needs no bound: it is a module if the others are.
    let needed = parts
        .iter()
        .filter(|part| !part.skipped)
        .map(|part| part.ty)
        .filter(|ty| depends(ty) && !mentions_struct(ty, name));
    let needed: Vec<TokenStream> = needed.map(|ty| quote!(#ty: #runtime::Module)).collect();
    let predicates: Vec<_> = conditions.iter().flat_map(|conditions| &conditions.predicates).collect();
    let conditions = if predicates.is_empty() && needed.is_empty() {
        TokenStream::new()
    } else {
        quote!(where #(#predicates,)* #(#needed,)*)
    };
    // Without parts, the visitor is unused.
    let site = Span::mixed_site();
    let visitor = if parts.iter().all(|part| part.skipped) { quote!(_) } else { quote_spanned!(site=> visitor) };
    let arguments_name = if parts.is_empty() { quote!(_) } else { quote_spanned!(site=> arguments) };
    quote_spanned! {site=>
        impl #generics #runtime::Module for #name #arguments #conditions {
            fn visit(&self, #visitor: &mut #runtime::Visitor) {
                #(#visits)*
            }

            fn compiled_arguments(&self, #arguments_name: &mut #runtime::Arguments) {
                #(#arguments_of_fields)*
            }
        }
    }
}
