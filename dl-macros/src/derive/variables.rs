//! `#[derive(Variables)]`: lets derivatives be taken with respect to a struct of weights.
//!
//! ```text
//! // Input:  pub struct Net { pub hidden: NdWeight, output: NdWeight, #[variables(skip)] width: usize }
//! // Output: pub struct NetGradients {
//! //             pub hidden: <NdWeight as Variables>::Gradients,
//! //             output: <NdWeight as Variables>::Gradients,
//! //         }
//! //         impl Variables for Net {
//! //             type Gradients = NetGradients;
//! //             fn map(&self, each: &mut EachVariable<'_>) -> NetGradients {
//! //                 NetGradients { hidden: Variables::map(&self.hidden, each), … }
//! //             }
//! //         }
//! //         impl Variables for NetGradients { type Gradients = Self; … }
//! ```

use crate::derive::{mentions, mentions_struct};
use crate::parse::crate_path;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Data, DeriveInput, Error, Field, Fields, GenericArgument, GenericParam, Generics, Ident, Index, Lifetime, Member,
    Path, PathArguments, PathSegment, Token, Type, TypeParamBound, WherePredicate, parse_quote,
};

/// Expands the derive.
pub(crate) fn derive(item: TokenStream) -> TokenStream {
    syn::parse2::<DeriveInput>(item).and_then(|item| implementation(&item)).unwrap_or_else(Error::into_compile_error)
}

fn implementation(item: &DeriveInput) -> syn::Result<TokenStream> {
    let Options { krate, gradients } = options(item)?;
    let fields = variables(item)?;
    let (name, visibility) = (&item.ident, &item.vis);
    let runtime = crate_path::runtime(&krate, Span::mixed_site());
    let own = with_bounds(item.generics.clone(), name, &fields, &runtime);
    let derivatives = with_bounds(generics_of_gradients(&item.generics, &fields), name, &fields, &runtime);
    let (generics, arguments, conditions) = own.split_for_impl();
    let (their_generics, their_arguments, their_conditions) = derivatives.split_for_impl();

    let types = fields.iter().map(|(member, field)| {
        let (ty, visibility) = (&field.ty, &field.vis);
        let declared = field.ident.as_ref().map(|name| quote!(#name:));
        let documentation = match member {
            Member::Named(member) => format!("The derivative with respect to `{member}`."),
            Member::Unnamed(member) => format!("The derivative with respect to field {}.", member.index),
        };
        quote_spanned!(ty.span()=> #[doc = #documentation] #visibility #declared <#ty as #runtime::Variables>::Gradients)
    });
    let (body, end) = match &item.data {
        Data::Struct(data) if matches!(data.fields, Fields::Unnamed(_)) => {
            (quote!((#(#types,)*) #their_conditions), Some(quote!(;)))
        }
        _ => (quote!(#their_conditions { #(#types,)* }), None),
    };
    let documentation = format!("The derivatives with respect to each part of a [`{name}`].");

    let each = Ident::new("each", Span::mixed_site());
    // In the struct of the gradients, the indices of a tuple struct do not count skipped fields.
    let map = |own: bool| {
        let parts = fields.iter().enumerate().map(|(place, (member, _))| {
            let theirs = match member {
                Member::Named(_) => member.clone(),
                Member::Unnamed(_) => Member::from(place),
            };
            let ours = if own { member.clone() } else { theirs.clone() };
            quote!(#theirs: #runtime::Variables::map(&self.#ours, #each))
        });
        quote! {
            fn map(&self, #each: &mut #runtime::EachVariable<'_>) -> Self::Gradients {
                #gradients { #(#parts,)* }
            }
        }
    };
    let (map_own, map_gradients) = (map(true), map(false));
    let clones = fields.iter().enumerate().map(|(place, (member, _))| {
        let member = if matches!(member, Member::Named(_)) { member.clone() } else { Member::from(place) };
        quote!(#member: ::core::clone::Clone::clone(&self.#member))
    });
    // `derive(Clone)` would put the bound on the parameters instead of the gradients.
    let predicates =
        their_conditions.map(|conditions| conditions.predicates.iter().collect::<Vec<_>>()).unwrap_or_default();
    let generic = fields
        .iter()
        .filter(|(_, field)| !item.generics.params.is_empty() && !may_recur(&field.ty, name))
        .map(|(_, field)| {
            let ty = &field.ty;
            quote!(<#ty as #runtime::Variables>::Gradients: ::core::clone::Clone)
        });
    let clonable = quote!(where #(#predicates,)* #(#generic,)*);
    // The type of a private field may occur in a bound.
    let private = (!item.generics.params.is_empty()).then(|| quote!(#[allow(private_bounds)]));
    Ok(quote! {
        #[doc = #documentation]
        #private
        #visibility struct #gradients #their_generics #body #end

        #private
        impl #their_generics ::core::clone::Clone for #gradients #their_arguments #clonable {
            fn clone(&self) -> Self {
                #gradients { #(#clones,)* }
            }
        }

        #private
        impl #generics #runtime::Variables for #name #arguments #conditions {
            type Gradients = #gradients #their_arguments;
            #map_own
        }

        #private
        impl #their_generics #runtime::Variables for #gradients #their_arguments #their_conditions {
            type Gradients = Self;
            #map_gradients
        }
    })
}

/// The generics of the struct of the gradients: without the parameters that only skipped fields
/// mention.
fn generics_of_gradients(generics: &Generics, fields: &[(Member, &Field)]) -> Generics {
    let (kept, dropped): (Vec<_>, Vec<_>) = generics.params.iter().cloned().partition(|parameter| match parameter {
        GenericParam::Type(parameter) => fields.iter().any(|(_, field)| mentions(&field.ty, &parameter.ident)),
        GenericParam::Lifetime(parameter) => {
            fields.iter().any(|(_, field)| mentions(&field.ty, &parameter.lifetime.ident))
        }
        GenericParam::Const(_) => true,
    });
    let mentions_dropped = |tokens: &dyn ToTokens| {
        dropped.iter().any(|parameter| match parameter {
            GenericParam::Type(parameter) => mentions(tokens, &parameter.ident),
            GenericParam::Lifetime(parameter) => mentions(tokens, &parameter.lifetime.ident),
            GenericParam::Const(_) => false,
        })
    };
    let mut generics = generics.clone();
    generics.params = kept.into_iter().collect();
    let bounds = |bounds: &mut Punctuated<TypeParamBound, Token![+]>| {
        *bounds = std::mem::take(bounds).into_iter().filter(|bound| !mentions_dropped(bound)).collect();
    };
    let lifetimes = |bounds: &mut Punctuated<Lifetime, Token![+]>| {
        *bounds = std::mem::take(bounds).into_iter().filter(|bound| !mentions_dropped(bound)).collect();
    };
    for parameter in &mut generics.params {
        match parameter {
            GenericParam::Type(parameter) => bounds(&mut parameter.bounds),
            GenericParam::Lifetime(parameter) => lifetimes(&mut parameter.bounds),
            GenericParam::Const(_) => {}
        }
    }
    if let Some(conditions) = &mut generics.where_clause {
        let predicates = std::mem::take(&mut conditions.predicates).into_iter();
        let kept = predicates.filter_map(|mut predicate| {
            let (dropped, empty) = match &mut predicate {
                WherePredicate::Type(predicate) => {
                    bounds(&mut predicate.bounds);
                    (mentions_dropped(&predicate.bounded_ty), predicate.bounds.is_empty())
                }
                WherePredicate::Lifetime(predicate) => {
                    lifetimes(&mut predicate.bounds);
                    (mentions_dropped(&predicate.lifetime), predicate.bounds.is_empty())
                }
                _ => (false, false),
            };
            (!dropped && !empty).then_some(predicate)
        });
        conditions.predicates = kept.collect();
    }
    generics
}

/// Whether the type contains a `Box` of a struct with type arguments. Such a struct may contain the
/// derived one, and the bounds of the two would depend on each other.
fn boxes_generic_struct(ty: &Type) -> bool {
    struct Boxes(bool);
    impl<'a> Visit<'a> for Boxes {
        fn visit_path_segment(&mut self, segment: &'a PathSegment) {
            if segment.ident == "Box"
                && let PathArguments::AngleBracketed(arguments) = &segment.arguments
                && let Some(GenericArgument::Type(Type::Path(held))) = arguments.args.first()
            {
                self.0 |= held.path.segments.last().is_some_and(|held| !held.arguments.is_none());
            }
            visit::visit_path_segment(self, segment);
        }
    }
    let mut found = Boxes(false);
    found.visit_type(ty);
    found.0
}

/// Whether a field of this type may contain the struct itself.
fn may_recur(ty: &Type, name: &Ident) -> bool {
    mentions_struct(ty, name) || boxes_generic_struct(ty)
}

/// Adds a bound `Variables` for each field with a type that mentions a parameter, unless the field
/// may contain the struct itself.
fn with_bounds(mut generics: Generics, name: &Ident, fields: &[(Member, &Field)], runtime: &TokenStream) -> Generics {
    let parameters: Vec<Ident> = generics.type_params().map(|parameter| parameter.ident.clone()).collect();
    let depends = |ty: &Type| parameters.iter().any(|parameter| mentions(ty, parameter));
    let needed = fields.iter().map(|(_, field)| &field.ty).filter(|ty| depends(ty) && !may_recur(ty, name));
    let needed: Vec<WherePredicate> = needed.map(|ty| parse_quote!(#ty: #runtime::Variables)).collect();
    if !needed.is_empty() {
        generics.make_where_clause().predicates.extend(needed);
    }
    generics
}

struct Options {
    /// The path of the crate `dl`.
    krate: Path,
    /// The name of the struct of the gradients.
    gradients: Ident,
}

fn options(item: &DeriveInput) -> syn::Result<Options> {
    let mut options = Options { krate: crate_path::default(), gradients: format_ident!("{}Gradients", item.ident) };
    for attribute in item.attrs.iter().filter(|attribute| attribute.path().is_ident("variables")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("crate") {
                options.krate = crate_path::parse(meta.value()?)?;
            } else if meta.path.is_ident("gradients") {
                options.gradients = meta.value()?.parse()?;
            } else {
                return Err(meta.error(
                    "`#[variables]` of a struct has two options: `crate = path` (where the crate `dl` is) and `gradients = Name` (of the struct \
                     of the derivatives)",
                ));
            }
            Ok(())
        })?;
    }
    Ok(options)
}

/// The fields that are not skipped.
fn variables(item: &DeriveInput) -> syn::Result<Vec<(Member, &Field)>> {
    let fields = match &item.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(data) => {
            return Err(Error::new_spanned(
                data.enum_token,
                "`#[derive(Variables)]` is for structs: the derivatives of an enum would have no fixed shape\nhelp: use a struct with an `Option` for each variant",
            ));
        }
        Data::Union(data) => {
            return Err(Error::new_spanned(data.union_token, "`#[derive(Variables)]` is for structs"));
        }
    };
    let (mut variables, mut refused) = (Vec::new(), Vec::new());
    for (place, field) in fields.iter().enumerate() {
        let mut skipped = false;
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("variables")) {
            attribute.parse_nested_meta(|meta| {
                skipped = meta.path.is_ident("skip");
                if skipped { Ok(()) } else { Err(meta.error("`#[variables]` of a field has one option: `skip`")) }
            })?;
        }
        if !skipped {
            if is_plain(&field.ty) {
                refused.push(Error::new_spanned(
                    &field.ty,
                    "there is no derivative with respect to a plain value\nhelp: `#[variables(skip)]` leaves the field out",
                ));
            }
            let unnamed = || Member::Unnamed(Index { index: place as u32, span: field.ty.span() });
            variables.push((field.ident.clone().map_or_else(unnamed, Member::Named), field));
        }
    }
    if let Some(error) = refused.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    }) {
        return Err(error);
    }
    if variables.is_empty() {
        return Err(Error::new_spanned(
            &item.ident,
            "`#[derive(Variables)]` needs fields: each is a weight or a layer, or made of such",
        ));
    }
    Ok(variables)
}

/// Whether the type is, by its name, not a variable. The compiler would report that once for each
/// bound in the expansion.
fn is_plain(ty: &Type) -> bool {
    const PLAIN: [&str; 17] = [
        "bool", "char", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32",
        "f64", "String",
    ];
    matches!(ty, Type::Path(path) if path.path.get_ident().is_some_and(|name| PLAIN.iter().any(|plain| name == plain)))
}
