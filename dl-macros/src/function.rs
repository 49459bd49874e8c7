//! The annotated function: what it returns, and what its parameters are.

use crate::diagnostics::Problems;
use crate::options::Options;
use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, FnArg, GenericParam, Ident, Pat, PatType, ReturnType, Signature, Token, Type, TypeParamBound,
    Visibility, WherePredicate, braced, token,
};

/// A function or a method with a body.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) defaultness: Option<Token![default]>,
    pub(crate) sig: Signature,
    pub(crate) block: Block,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let defaultness = if input.peek(Token![default]) { Some(input.parse()?) } else { None };
        let sig = input.parse()?;
        if input.peek(Token![;]) {
            let message = "`#[differentiable]` rewrites the body of a function, and this one has none; put it on the implementations";
            return Err(syn::Error::new_spanned(sig, message));
        }
        let content;
        let brace_token: token::Brace = braced!(content in input);
        // `#![…]` in the body says the same as `#[…]` before the function.
        let inner = content.call(Attribute::parse_inner)?;
        attrs.extend(inner.into_iter().map(|attribute| Attribute { style: syn::AttrStyle::Outer, ..attribute }));
        let stmts = content.call(Block::parse_within)?;
        Ok(Function { attrs, vis, defaultness, sig, block: Block { brace_token, stmts } })
    }
}

/// What a lazy function returns.
pub(crate) enum Returned {
    /// A type that can be written down: a layer, a `Do`, a tuple or an array of them.
    Named(Box<Type>),
    /// `impl …Expression`.
    Expression,
    /// What the tail of a `direct!` block is.
    Inferred,
}

/// How a lazy function returns, or `None` for a plain one.
pub(crate) fn returned(sig: &Signature, options: &Options) -> Option<Returned> {
    let ReturnType::Type(_, ty) = &sig.output else { return None };
    match &**ty {
        Type::ImplTrait(ty) => ty.bounds.iter().any(is_expression).then_some(Returned::Expression),
        ty if options.lazy.is_some() || is_lazy(ty) => Some(Returned::Named(Box::new(ty.clone()))),
        _ => None,
    }
}

fn is_lazy(ty: &Type) -> bool {
    match ty {
        Type::Path(ty) => ty.path.segments.last().is_some_and(|segment| {
            let name = segment.ident.to_string();
            name.ends_with("Layer") || name.ends_with("Do")
        }),
        Type::Tuple(ty) => !ty.elems.is_empty() && ty.elems.iter().all(is_lazy),
        Type::Array(ty) => is_lazy(&ty.elem),
        Type::Paren(ty) => is_lazy(&ty.elem),
        Type::Group(ty) => is_lazy(&ty.elem),
        _ => false,
    }
}

/// `…Expression` or `Differentiable`.
fn is_expression(bound: &TypeParamBound) -> bool {
    let TypeParamBound::Trait(bound) = bound else { return false };
    bound.path.segments.last().is_some_and(|segment| segment.ident.to_string().ends_with("Expression"))
}

fn is_differentiable(bound: &TypeParamBound) -> bool {
    let TypeParamBound::Trait(bound) = bound else { return false };
    is_expression(&TypeParamBound::Trait(bound.clone()))
        || bound.path.segments.last().is_some_and(|segment| segment.ident == "Differentiable")
}

/// A parameter, and how a lazy body keeps it.
pub(crate) struct Parameter {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) pat: Pat,
    pub(crate) ty: Type,
    pub(crate) form: Form,
}

impl Parameter {
    /// The `&` of its type.
    pub(crate) fn reference(&self) -> Option<Token![&]> {
        if let Type::Reference(ty) = &self.ty { Some(ty.and_token) } else { None }
    }
}

pub(crate) enum Form {
    /// `self` or `&self`.
    Receiver { reference: bool },
    /// Anything differentiable, or a reference to it: used as a layer, or a reference to one.
    Expression,
    /// `&T`: kept as `T::Owned`, lent to the body.
    Reference(Box<Type>),
    /// Kept, and cloned for each run.
    Value,
}

/// The parameters of a function.
pub(crate) fn parameters(sig: &Signature) -> Vec<Parameter> {
    sig.inputs
        .iter()
        .map(|input| match input {
            FnArg::Receiver(receiver) => Parameter {
                attrs: Vec::new(),
                pat: Pat::Ident(syn::PatIdent {
                    attrs: Vec::new(),
                    by_ref: None,
                    mutability: if receiver.reference.is_none() { receiver.mutability } else { None },
                    ident: Ident::new("self", receiver.self_token.span),
                    subpat: None,
                }),
                ty: (*receiver.ty).clone(),
                form: Form::Receiver { reference: receiver.reference.is_some() },
            },
            FnArg::Typed(PatType { attrs, pat, ty, .. }) => {
                let form = if expression(ty, sig) {
                    Form::Expression
                } else {
                    match &**ty {
                        Type::Reference(ty)
                            if ty.lifetime.as_ref().is_none_or(|lifetime| lifetime.ident != "static") =>
                        {
                            Form::Reference(ty.elem.clone())
                        }
                        _ => Form::Value,
                    }
                };
                Parameter { attrs: attrs.clone(), pat: (**pat).clone(), ty: (**ty).clone(), form }
            }
        })
        .collect()
}

/// Whether a parameter is `impl …Expression`, or of a type parameter with such a bound, or a
/// reference to one.
fn expression(ty: &Type, sig: &Signature) -> bool {
    match ty {
        Type::Reference(ty) if ty.mutability.is_none() => expression(&ty.elem, sig),
        Type::ImplTrait(ty) => ty.bounds.iter().any(is_differentiable),
        Type::Path(ty) => ty.path.get_ident().is_some_and(|name| {
            let inline = sig.generics.params.iter().any(|param| match param {
                GenericParam::Type(param) => param.ident == *name && param.bounds.iter().any(is_differentiable),
                _ => false,
            });
            let mut predicates = sig.generics.where_clause.iter().flat_map(|clause| &clause.predicates);
            inline
                || predicates.any(|predicate| match predicate {
                    WherePredicate::Type(predicate) => {
                        matches!(&predicate.bounded_ty, Type::Path(ty) if ty.path.is_ident(name))
                            && predicate.bounds.iter().any(is_differentiable)
                    }
                    _ => false,
                })
        }),
        _ => false,
    }
}

/// What no annotated function may be.
pub(crate) fn check(sig: &Signature, problems: &mut Problems) {
    if let Some(token) = &sig.asyncness {
        problems.at(
            token,
            "a `#[differentiable]` function is not `async`: `!x` awaits already\n\
             help: remove `async`, and return a `Layer` or a `Do`",
        );
    }
    if let Some(token) = &sig.constness {
        problems.at(
            token,
            "a `#[differentiable]` function cannot be `const`: layers are built at run time\nhelp: remove `const`",
        );
    }
    if let Some(abi) = &sig.abi {
        problems.at(
            abi,
            "a `#[differentiable]` function cannot be `extern`: other languages know no layers\nhelp: remove `extern`",
        );
    }
}

/// What a body that is run anew in each pass cannot keep.
pub(crate) fn check_kept(sig: &Signature, parameters: &[Parameter], problems: &mut Problems) {
    for parameter in parameters {
        match (&parameter.form, &parameter.ty) {
            (_, Type::Reference(ty)) if ty.mutability.is_some() => problems.at(
                ty,
                "a lazy function cannot keep a `&mut`: its body runs later, and again in each pass\n\
                 help: take the value and return what it becomes, or change it before the layer is built",
            ),
            (Form::Receiver { .. }, _) => {}
            (Form::Reference(elem), _) => match &**elem {
                Type::TraitObject(_) => problems.at(
                    &parameter.ty,
                    "a lazy function keeps its parameters, and a `dyn` value behind a reference cannot be copied to be kept\n\
                     help: take `&impl Trait`, or an `Arc<dyn Trait + Send + Sync>`",
                ),
                elem => check_owned(elem, &parameter.ty, problems),
            },
            (Form::Value, ty) => check_owned(ty, ty, problems),
            (Form::Expression, _) => {}
        }
    }
    if let Some(variadic) = &sig.variadic {
        problems.at(variadic, "a lazy function cannot keep variadic arguments");
    }
}

/// What is kept may not borrow.
fn check_owned(ty: &Type, whole: &Type, problems: &mut Problems) {
    struct Borrows(bool);
    impl<'a> Visit<'a> for Borrows {
        fn visit_type_reference(&mut self, ty: &'a syn::TypeReference) {
            let is_static = ty.lifetime.as_ref().is_some_and(|lifetime| lifetime.ident == "static");
            self.0 |= !is_static;
            visit::visit_type_reference(self, ty);
        }
        fn visit_lifetime(&mut self, lifetime: &'a syn::Lifetime) {
            self.0 |= lifetime.ident != "static";
        }
        // The arguments of a function are not part of it.
        fn visit_parenthesized_generic_arguments(&mut self, _: &'a syn::ParenthesizedGenericArguments) {}
        fn visit_type_bare_fn(&mut self, _: &'a syn::TypeBareFn) {}
    }
    let mut borrows = Borrows(false);
    borrows.visit_type(ty);
    if borrows.0 {
        let text = ty.to_token_stream().to_string().replace(" :: ", "::").replace("& ", "&").replace(" <", "<");
        problems.at(
            whole,
            format!(
                "a lazy function keeps its parameters, and `{}` borrows what it does not own\n\
                 help: take owned values (layers and weights are cheap to clone), or a reference to something that owns them, \
                 like `&[Layer<f32>]`",
                text.replace(" >", ">").replace("< ", "<")
            ),
        );
    }
}

/// The item as it was but for its body: enough for the rest of the crate.
pub(crate) fn stub(function: &Function) -> TokenStream {
    let Function { attrs, vis, defaultness, sig, block } = function;
    // No value at all is of an unknown type: there the body must stay.
    if matches!(&sig.output, ReturnType::Type(_, ty) if matches!(**ty, Type::ImplTrait(_))) {
        return quote::quote!(#(#attrs)* #vis #defaultness #sig #block);
    }
    let span = Span::mixed_site();
    quote::quote_spanned!(span=> #(#attrs)* #[allow(unused_variables, unused_mut)] #vis #defaultness #sig { ::core::unreachable!() })
}
