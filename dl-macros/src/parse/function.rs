//! The annotated function: whether it is lazy, the kinds of its parameters, and the checks on its
//! signature.

use crate::diagnostics::Diagnostics;
use crate::parse::options::Options;
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
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
            let message = "`#[differentiable]` rewrites the body of a function, and this function has none\n\
                           help: put the attribute on the implementations";
            return Err(syn::Error::new_spanned(sig, message));
        }
        let content;
        let brace_token: token::Brace = braced!(content in input);
        // `#![…]` in the body means the same as `#[…]` before the function.
        let inner = content.call(Attribute::parse_inner)?;
        attrs.extend(inner.into_iter().map(|attribute| Attribute { style: syn::AttrStyle::Outer, ..attribute }));
        let stmts = content.call(Block::parse_within)?;
        Ok(Function { attrs, vis, defaultness, sig, block: Block { brace_token, stmts } })
    }
}

/// The return type of a lazy function.
pub(crate) enum LazyReturn {
    /// A type that the expansion can name: a layer, a `Do`, a tuple or an array of them.
    Named(Box<Type>),
    /// `impl …Expression`.
    Expression,
    /// The type of a `direct!` block, which the compiler infers.
    Inferred,
}

/// The return type if the function is lazy, `None` if it is plain.
pub(crate) fn lazy_return(sig: &Signature, options: &Options, in_type: bool) -> Option<LazyReturn> {
    // On a block, the option is for those of its functions that return layers.
    let is_said = options.lazy.is_some() || options.compiled.is_some() && !in_type;
    let ReturnType::Type(_, ty) = &sig.output else { return None };
    match &**ty {
        Type::ImplTrait(ty) => ty.bounds.iter().any(is_expression).then_some(LazyReturn::Expression),
        ty if is_said || is_lazy(ty) => Some(LazyReturn::Named(Box::new(ty.clone()))),
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

/// Whether the bound is a trait `…Expression`.
fn is_expression(bound: &TypeParamBound) -> bool {
    let TypeParamBound::Trait(bound) = bound else { return false };
    bound.path.segments.last().is_some_and(|segment| segment.ident.to_string().ends_with("Expression"))
}

/// Whether the bound is a trait `…Expression` or `Differentiable`.
fn is_differentiable(bound: &TypeParamBound) -> bool {
    let TypeParamBound::Trait(bound) = bound else { return false };
    is_expression(&TypeParamBound::Trait(bound.clone()))
        || bound.path.segments.last().is_some_and(|segment| segment.ident == "Differentiable")
}

/// A parameter, and how a lazy body stores it.
pub(crate) struct Parameter {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) pat: Pat,
    pub(crate) ty: Type,
    pub(crate) kind: ParameterKind,
}

impl Parameter {
    /// The `&` of its type.
    pub(crate) fn reference(&self) -> Option<Token![&]> {
        if let Type::Reference(ty) = &self.ty { Some(ty.and_token) } else { None }
    }
}

/// How a lazy body stores a parameter and passes it to each run.
pub(crate) enum ParameterKind {
    /// `self` or `&self`.
    Receiver { reference: bool },
    /// A value with a bound `…Expression` or `Differentiable`, or a reference to one. It is
    /// converted to a layer, or to a reference to a layer.
    Expression,
    /// `&T`: stored as `T::Owned` and borrowed by each run.
    Reference(Box<Type>),
    /// Any other type: stored, and cloned for each run.
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
                kind: ParameterKind::Receiver { reference: receiver.reference.is_some() },
            },
            FnArg::Typed(PatType { attrs, pat, ty, .. }) => {
                let kind = if has_expression_bound(ty, sig) {
                    ParameterKind::Expression
                } else {
                    match &**ty {
                        Type::Reference(ty)
                            if ty.lifetime.as_ref().is_none_or(|lifetime| lifetime.ident != "static") =>
                        {
                            ParameterKind::Reference(ty.elem.clone())
                        }
                        _ => ParameterKind::Value,
                    }
                };
                Parameter { attrs: attrs.clone(), pat: (**pat).clone(), ty: (**ty).clone(), kind }
            }
        })
        .collect()
}

/// Whether the type is `impl …Expression`, a type parameter with such a bound, or a reference to
/// one of these.
fn has_expression_bound(ty: &Type, sig: &Signature) -> bool {
    match ty {
        Type::Reference(ty) if ty.mutability.is_none() => has_expression_bound(&ty.elem, sig),
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

/// Rejects `async`, `const` and `extern` functions.
pub(crate) fn check(sig: &Signature, diagnostics: &mut Diagnostics) {
    if let Some(token) = &sig.asyncness {
        diagnostics.at(
            token,
            "a `#[differentiable]` function is not `async`: `!x` awaits already\n\
             help: remove `async`, and return a `Layer` or a `Do`",
        );
    }
    if let Some(token) = &sig.constness {
        diagnostics.at(
            token,
            "a `#[differentiable]` function cannot be `const`: layers are built at run time\nhelp: remove `const`",
        );
    }
    if let Some(abi) = &sig.abi {
        diagnostics.at(
            abi,
            "a `#[differentiable]` function cannot be `extern`: layers cannot be passed to other languages\nhelp: remove `extern`",
        );
    }
}

/// Rejects parameters that a lazy body cannot store: it runs again in each pass, after the function
/// has returned.
pub(crate) fn check_lazy_parameters(sig: &Signature, parameters: &[Parameter], diagnostics: &mut Diagnostics) {
    for parameter in parameters {
        match (&parameter.kind, &parameter.ty) {
            (_, Type::Reference(ty)) if ty.mutability.is_some() => diagnostics.at(
                ty,
                "a lazy function cannot keep a `&mut`: its body runs later, and again in each pass\n\
                 help: take the value and return what it becomes, or change it before the layer is built",
            ),
            (ParameterKind::Receiver { .. }, _) => {}
            (ParameterKind::Reference(elem), _) => match &**elem {
                Type::TraitObject(_) => diagnostics.at(
                    &parameter.ty,
                    "a lazy function keeps its parameters, and a `dyn` value behind a reference cannot be cloned\n\
                     help: take `&impl Trait`, or an `Arc<dyn Trait + Send + Sync>`",
                ),
                elem => check_owned(elem, &parameter.ty, diagnostics),
            },
            (ParameterKind::Value, ty) => check_owned(ty, ty, diagnostics),
            (ParameterKind::Expression, _) => {}
        }
    }
    if let Some(variadic) = &sig.variadic {
        diagnostics.at(variadic, "a lazy function cannot keep variadic arguments");
    }
}

/// Rejects a stored type that contains a reference or a lifetime other than `'static`.
fn check_owned(ty: &Type, whole: &Type, diagnostics: &mut Diagnostics) {
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
        // A function type does not contain values of its argument types.
        fn visit_parenthesized_generic_arguments(&mut self, _: &'a syn::ParenthesizedGenericArguments) {}
        fn visit_type_bare_fn(&mut self, _: &'a syn::TypeBareFn) {}
    }
    let mut borrows = Borrows(false);
    borrows.visit_type(ty);
    if borrows.0 {
        let text = ty.to_token_stream().to_string().replace(" :: ", "::").replace("& ", "&").replace(" <", "<");
        diagnostics.at(
            whole,
            format!(
                "a lazy function keeps its parameters, and `{}` contains borrowed data\n\
                 help: take owned values (layers and weights are cheap to clone), or a reference to something that owns them, \
                 like `&[Layer<f32>]`",
                text.replace(" >", ">").replace("< ", "<")
            ),
        );
    }
}

/// The item with its body replaced by `unreachable!()`.
///
/// It stands in for the expansion after an error, so that other code that uses the function causes
/// no further errors.
pub(crate) fn stub(function: &Function) -> TokenStream {
    let Function { attrs, vis, defaultness, sig, block } = function;
    // With `impl Trait` the compiler infers the type from the body, so the body must stay.
    if matches!(&sig.output, ReturnType::Type(_, ty) if matches!(**ty, Type::ImplTrait(_))) {
        return quote!(#(#attrs)* #vis #defaultness #sig #block);
    }
    let span = Span::mixed_site();
    quote::quote_spanned!(span=> #(#attrs)* #[allow(unused_variables, unused_mut)] #vis #defaultness #sig { ::core::unreachable!() })
}

/// Lints about code style, which must not fire on generated code.
pub(crate) fn allowed_lints() -> TokenStream {
    quote!(#[allow(
        unused_parens,
        clippy::blocks_in_conditions,
        clippy::needless_borrow,
        clippy::needless_late_init,
        clippy::needless_return,
        clippy::let_and_return,
        clippy::question_mark,
        clippy::redundant_clone,
        clippy::unit_arg
    )])
}

/// Whether the type contains `impl Trait`, which cannot be written inside a body.
pub(crate) fn mentions_impl(ty: &Type) -> bool {
    struct Finder(bool);
    impl<'a> Visit<'a> for Finder {
        fn visit_type_impl_trait(&mut self, _: &'a syn::TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut finder = Finder(false);
    finder.visit_type(ty);
    finder.0
}

/// Whether this is the parameter `name`, of a type that mentions tensors.
pub(crate) fn is_tensor(parameter: &Parameter, name: &Ident) -> bool {
    let mut ty = parameter.ty.to_token_stream().into_iter();
    matches!(&parameter.pat, Pat::Ident(pat) if pat.ident == *name)
        && ty.any(|token| matches!(token, TokenTree::Ident(word) if word.to_string().starts_with("Nd")))
}

/// Whether a parameter type or a `where` clause names a layer, a weight, a `Do` or an expression.
pub(crate) fn mentions_layers(sig: &Signature) -> bool {
    fn any(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(name) => {
                let name = name.to_string();
                ["Layer", "Weight", "Expression", "Differentiable"].iter().any(|end| name.ends_with(end))
                    || name == "Do"
            }
            TokenTree::Group(group) => any(group.stream()),
            TokenTree::Punct(_) | TokenTree::Literal(_) => false,
        })
    }
    any(sig.inputs.to_token_stream()) || any(sig.generics.where_clause.to_token_stream())
}
