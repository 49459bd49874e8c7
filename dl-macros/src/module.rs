//! `#[derive(Module)]`: the weights of a struct, found by the names of its fields.
//!
//! ```text
//! // Input:  struct Net { hidden: Linear, #[module(rename = "out")] output: Linear, #[module(skip)] cache: Cache }
//! // Output: impl Module for Net {
//! //             fn visit(&self, visitor: &mut Visitor) {
//! //                 Visitor::field::<Linear>(visitor, "hidden", &self.hidden);
//! //                 Visitor::field::<Linear>(visitor, "out", &self.output);
//! //             }
//! //         }
//! ```

use crate::diagnostics::Problems;
use crate::operands::module;
use crate::options;
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use std::collections::HashMap;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Field, Fields, Ident, Index, LitStr, Member, Path, Type, parse_quote};

/// The derive.
pub(crate) fn derive(item: TokenStream) -> TokenStream {
    let item = match syn::parse2::<DeriveInput>(item) {
        Ok(item) => item,
        Err(error) => return error.into_compile_error(),
    };
    let mut problems = Problems::default();
    let krate = crate_of(&item.attrs, &mut problems);
    let parts = match fields(&item) {
        Ok(fields) => parts(fields, &mut problems),
        Err(error) => {
            problems.add(error);
            Vec::new()
        }
    };
    // after an error the struct is a module still, with the parts that are right
    let implementation = implementation(&item, &krate, &parts);
    let errors = problems.into_tokens();
    quote!(#errors #implementation)
}

/// A field that is shown to the visitor.
struct Part<'a> {
    name: String,
    member: Member,
    ty: &'a Type,
}

fn crate_of(attributes: &[Attribute], problems: &mut Problems) -> Path {
    let mut krate: Path = parse_quote!(::dl);
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("module")) {
        let parsed = attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error(
                    "`#[module]` on a struct has one option: `crate = path` (where the crate `dl` is); `skip` and `rename` go on its fields",
                ));
            }
            krate = options::crate_path(meta.value()?)?;
            Ok(())
        });
        parsed.unwrap_or_else(|error| problems.add(error));
    }
    krate
}

fn fields(item: &DeriveInput) -> syn::Result<&Fields> {
    match &item.data {
        Data::Struct(data) => Ok(&data.fields),
        Data::Enum(data) => Err(syn::Error::new_spanned(
            data.enum_token,
            "`#[derive(Module)]` is for structs: the weights of an enum would change their names with its variant\n\
             help: a struct with an `Option` for each variant, or `impl Module` by hand",
        )),
        Data::Union(data) => Err(syn::Error::new_spanned(data.union_token, "`#[derive(Module)]` is for structs")),
    }
}

fn parts<'a>(fields: &'a Fields, problems: &mut Problems) -> Vec<Part<'a>> {
    let mut names: HashMap<String, Member> = HashMap::new();
    let mut parts = Vec::new();
    for (field, member) in fields.iter().zip(fields.members()) {
        let Settings { skip, rename } = Settings::of(field, problems);
        if skip {
            continue;
        }
        let name = match (&rename, &member) {
            (Some(name), _) => name.value(),
            (None, Member::Named(name)) => syn::ext::IdentExt::unraw(name).to_string(),
            (None, Member::Unnamed(index)) => index.index.to_string(),
        };
        if let Some(other) = names.insert(name.clone(), member.clone()) {
            let other = other.to_token_stream();
            let culprit = rename.map_or_else(|| member.to_token_stream(), ToTokens::into_token_stream);
            problems
                .at(culprit, format!("two fields have the name `{name}` in paths: the field `{other}` has it, too"));
        }
        parts.push(Part { name, member, ty: &field.ty });
    }
    parts
}

/// What `#[module(…)]` says of a field.
#[derive(Default)]
struct Settings {
    skip: bool,
    rename: Option<LitStr>,
}

impl Settings {
    fn of(field: &Field, problems: &mut Problems) -> Settings {
        let mut settings = Settings::default();
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("module")) {
            let parsed = attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("skip") {
                    settings.skip = true;
                } else if meta.path.is_ident("rename") {
                    settings.rename = Some(name_in_paths(meta.value()?.parse()?)?);
                } else {
                    return Err(meta.error(
                        "`#[module]` on a field has the options `skip` (it has no weights that matter) and `rename = \"…\"` (its name in paths)",
                    ));
                }
                Ok(())
            });
            parsed.unwrap_or_else(|error| problems.add(error));
        }
        if let (true, Some(name)) = (settings.skip, &settings.rename) {
            problems.at(name, "a field that is skipped has no name in paths: drop `skip` or `rename`");
        }
        settings
    }
}

fn name_in_paths(name: LitStr) -> syn::Result<LitStr> {
    match name.value() {
        text if text.is_empty() => Err(syn::Error::new_spanned(name, "a name in paths is not empty")),
        text if text.contains(['.', '*']) => Err(syn::Error::new_spanned(
            name,
            "a name in paths has no `.`, which joins names, and no `*`, which stands for any",
        )),
        _ => Ok(name),
    }
}

fn implementation(item: &DeriveInput, krate: &Path, parts: &[Part<'_>]) -> TokenStream {
    let bang = module(krate, Span::mixed_site());
    let visits = parts.iter().map(|Part { name, member, ty }| {
        // names of ours, at the place of the type
        let span = Span::mixed_site().located_at(ty.span());
        let here = module(krate, span);
        let member = match member {
            Member::Unnamed(index) => Member::Unnamed(Index { index: index.index, span }),
            named => named.clone(),
        };
        quote_spanned!(span=> #here::Visitor::field::<#ty>(visitor, #name, &self.#member);)
    });
    let name = &item.ident;
    let (generics, arguments, conditions) = item.generics.split_for_impl();
    let parameters: Vec<&Ident> = item.generics.type_params().map(|parameter| &parameter.ident).collect();
    // a field that holds the struct itself is a module if the others are
    let depends = |ty: &Type| parameters.iter().any(|parameter| mentions(ty, parameter));
    let recurs = |ty: &Type| mentions(ty, name) || mentions(ty, &Ident::new("Self", Span::call_site()));
    let needed = parts.iter().map(|part| part.ty).filter(|ty| depends(ty) && !recurs(ty));
    let needed: Vec<TokenStream> = needed.map(|ty| quote!(#ty: #bang::Module)).collect();
    let predicates: Vec<_> = conditions.iter().flat_map(|conditions| &conditions.predicates).collect();
    let conditions = if predicates.is_empty() && needed.is_empty() {
        TokenStream::new()
    } else {
        quote!(where #(#predicates,)* #(#needed,)*)
    };
    // a struct without modules in it does not look at the visitor
    let site = Span::mixed_site();
    let visitor = if parts.is_empty() { quote!(_) } else { quote_spanned!(site=> visitor) };
    quote_spanned! {site=>
        impl #generics #bang::Module for #name #arguments #conditions {
            fn visit(&self, #visitor: &mut #bang::Visitor) {
                #(#visits)*
            }
        }
    }
}

/// Whether this name stands anywhere in a type.
pub(crate) fn mentions(ty: &(impl ToTokens + ?Sized), name: &Ident) -> bool {
    fn any(tokens: TokenStream, name: &Ident) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(ident) => ident == *name,
            TokenTree::Group(group) => any(group.stream(), name),
            _ => false,
        })
    }
    any(ty.to_token_stream(), name)
}
