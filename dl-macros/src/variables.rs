//! `#[derive(Variables)]`: a struct of weights is what a derivative can be taken with respect to.
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

use crate::module::mentions;
use crate::operands::module;
use crate::options;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Data, DeriveInput, Error, Field, Fields, GenericArgument, GenericParam, Generics, Ident, Index, Lifetime, Member,
    Path, PathArguments, PathSegment, Token, Type, TypeParamBound, WherePredicate, parse_quote,
};

/// The derive.
pub(crate) fn derive(item: TokenStream) -> TokenStream {
    syn::parse2::<DeriveInput>(item).and_then(|item| implementation(&item)).unwrap_or_else(Error::into_compile_error)
}

fn implementation(item: &DeriveInput) -> syn::Result<TokenStream> {
    let Options { krate, gradients } = options(item)?;
    let fields = variables(item)?;
    let (name, visibility) = (&item.ident, &item.vis);
    let bang = module(&krate, Span::mixed_site());
    let own = with_parts(item.generics.clone(), name, &fields, &bang);
    let derivatives = with_parts(mentioned(&item.generics, &fields), name, &fields, &bang);
    let (generics, arguments, conditions) = own.split_for_impl();
    let (their_generics, their_arguments, their_conditions) = derivatives.split_for_impl();

    let types = fields.iter().map(|(member, field)| {
        let (ty, visibility) = (&field.ty, &field.vis);
        let declared = field.ident.as_ref().map(|name| quote!(#name:));
        let documentation = match member {
            Member::Named(member) => format!("The derivative with respect to `{member}`."),
            Member::Unnamed(member) => format!("The derivative with respect to field {}.", member.index),
        };
        quote_spanned!(ty.span()=> #[doc = #documentation] #visibility #declared <#ty as #bang::Variables>::Gradients)
    });
    let (body, end) = match &item.data {
        Data::Struct(data) if matches!(data.fields, Fields::Unnamed(_)) => {
            (quote!((#(#types,)*) #their_conditions), Some(quote!(;)))
        }
        _ => (quote!(#their_conditions { #(#types,)* }), None),
    };
    let documentation = format!("The derivatives with respect to each part of a [`{name}`].");

    let each = Ident::new("each", Span::mixed_site());
    // in the derivatives the fields that are left out are not counted
    let map = |own: bool| {
        let parts = fields.iter().enumerate().map(|(place, (member, _))| {
            let theirs = match member {
                Member::Named(_) => member.clone(),
                Member::Unnamed(_) => Member::from(place),
            };
            let ours = if own { member.clone() } else { theirs.clone() };
            quote!(#theirs: #bang::Variables::map(&self.#ours, #each))
        });
        quote! {
            fn map(&self, #each: &mut #bang::EachVariable<'_>) -> Self::Gradients {
                #gradients { #(#parts,)* }
            }
        }
    };
    let (map_own, map_gradients) = (map(true), map(false));
    let clones = fields.iter().enumerate().map(|(place, (member, _))| {
        let member = if matches!(member, Member::Named(_)) { member.clone() } else { Member::from(place) };
        quote!(#member: ::core::clone::Clone::clone(&self.#member))
    });
    // a derive would ask it of the parameters, not of the derivatives
    let predicates =
        their_conditions.map(|conditions| conditions.predicates.iter().collect::<Vec<_>>()).unwrap_or_default();
    let generic = fields.iter().filter(|(_, field)| !item.generics.params.is_empty() && !recurs(&field.ty, name)).map(
        |(_, field)| {
            let ty = &field.ty;
            quote!(<#ty as #bang::Variables>::Gradients: ::core::clone::Clone)
        },
    );
    let clonable = quote!(where #(#predicates,)* #(#generic,)*);
    // a field of a type that others do not see may be a condition
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
        impl #generics #bang::Variables for #name #arguments #conditions {
            type Gradients = #gradients #their_arguments;
            #map_own
        }

        #private
        impl #their_generics #bang::Variables for #gradients #their_arguments #their_conditions {
            type Gradients = Self;
            #map_gradients
        }
    })
}

/// The parameters that the derivatives have: only fields that are left out may mention the others.
fn mentioned(generics: &Generics, fields: &[(Member, &Field)]) -> Generics {
    let (kept, left_out): (Vec<_>, Vec<_>) = generics.params.iter().cloned().partition(|parameter| match parameter {
        GenericParam::Type(parameter) => fields.iter().any(|(_, field)| mentions(&field.ty, &parameter.ident)),
        GenericParam::Lifetime(parameter) => {
            fields.iter().any(|(_, field)| mentions(&field.ty, &parameter.lifetime.ident))
        }
        GenericParam::Const(_) => true,
    });
    let is_left_out = |tokens: &dyn ToTokens| {
        left_out.iter().any(|parameter| match parameter {
            GenericParam::Type(parameter) => mentions(tokens, &parameter.ident),
            GenericParam::Lifetime(parameter) => mentions(tokens, &parameter.lifetime.ident),
            GenericParam::Const(_) => false,
        })
    };
    let mut generics = generics.clone();
    generics.params = kept.into_iter().collect();
    let bounds = |bounds: &mut Punctuated<TypeParamBound, Token![+]>| {
        *bounds = std::mem::take(bounds).into_iter().filter(|bound| !is_left_out(bound)).collect();
    };
    let lifetimes = |bounds: &mut Punctuated<Lifetime, Token![+]>| {
        *bounds = std::mem::take(bounds).into_iter().filter(|bound| !is_left_out(bound)).collect();
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
            let (left_out, empty) = match &mut predicate {
                WherePredicate::Type(predicate) => {
                    bounds(&mut predicate.bounds);
                    (is_left_out(&predicate.bounded_ty), predicate.bounds.is_empty())
                }
                WherePredicate::Lifetime(predicate) => {
                    lifetimes(&mut predicate.bounds);
                    (is_left_out(&predicate.lifetime), predicate.bounds.is_empty())
                }
                _ => (false, false),
            };
            (!left_out && !empty).then_some(predicate)
        });
        conditions.predicates = kept.collect();
    }
    generics
}

/// Whether a struct with parameters is in a box: so it may hold the one that it is in, and their
/// conditions would need each other.
fn boxes(ty: &Type) -> bool {
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

/// Whether a field of this type may hold the struct itself.
fn recurs(ty: &Type, name: &Ident) -> bool {
    mentions(ty, name) || mentions(ty, &Ident::new("Self", Span::call_site())) || boxes(ty)
}

/// With the condition that each field whose type mentions a parameter is a variable, unless it may
/// hold the struct itself.
fn with_parts(mut generics: Generics, name: &Ident, fields: &[(Member, &Field)], bang: &TokenStream) -> Generics {
    let parameters: Vec<Ident> = generics.type_params().map(|parameter| parameter.ident.clone()).collect();
    let depends = |ty: &Type| parameters.iter().any(|parameter| mentions(ty, parameter));
    let needed = fields.iter().map(|(_, field)| &field.ty).filter(|ty| depends(ty) && !recurs(ty, name));
    let needed: Vec<WherePredicate> = needed.map(|ty| parse_quote!(#ty: #bang::Variables)).collect();
    if !needed.is_empty() {
        generics.make_where_clause().predicates.extend(needed);
    }
    generics
}

struct Options {
    /// Where the crate `dl` is.
    krate: Path,
    /// The name of the struct of the derivatives.
    gradients: Ident,
}

fn options(item: &DeriveInput) -> syn::Result<Options> {
    let mut options = Options { krate: parse_quote!(::dl), gradients: format_ident!("{}Gradients", item.ident) };
    for attribute in item.attrs.iter().filter(|attribute| attribute.path().is_ident("variables")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("crate") {
                options.krate = options::crate_path(meta.value()?)?;
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

/// The fields that are not left out.
fn variables(item: &DeriveInput) -> syn::Result<Vec<(Member, &Field)>> {
    let fields = match &item.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(data) => {
            return Err(Error::new_spanned(
                data.enum_token,
                "`#[derive(Variables)]` is for structs: the derivatives have one shape\nhelp: derive it for a struct with an `Option` for each variant",
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

/// Whether this is, by its name, a type that is no variable: the compiler would say so at each
/// mention.
fn is_plain(ty: &Type) -> bool {
    const PLAIN: [&str; 17] = [
        "bool", "char", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32",
        "f64", "String",
    ];
    matches!(ty, Type::Path(path) if path.path.get_ident().is_some_and(|name| PLAIN.iter().any(|plain| name == plain)))
}
