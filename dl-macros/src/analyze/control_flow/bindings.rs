//! Resolves names to variables, and tracks the facts about the type of each variable.

use super::builder::Builder;
use super::{Flow, Var, Variable};
use crate::parse::node::{as_variable, strip_parens};
use crate::parse::plain_types::{is_arithmetic, is_layer, is_primitive, is_primitive_expr};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Expr, Ident, Item, Pat, Type, UnOp, UseTree};

/// Facts about the type of a variable. A fact that is not certain is false.
#[derive(Clone, Copy, Default)]
pub(super) struct TypeFacts {
    /// The type is primitive: a number, a `bool` or a `char`.
    pub(super) primitive: bool,
    /// The value is a shared reference, or a copy of a value behind one.
    pub(super) shared: bool,
    /// The variable occurs in a cast to a primitive type, so it is `Copy`.
    pub(super) cast: bool,
    /// The type is a layer or a weight, or a reference to one.
    pub(super) layer: bool,
    /// The value is made of numbers and extracted values.
    pub(super) value: bool,
}

impl TypeFacts {
    /// Adds the facts that follow from a type annotation.
    pub(super) fn with_type(self, ty: &Type) -> Self {
        let shared = matches!(ty, Type::Reference(ty) if ty.mutability.is_none());
        TypeFacts {
            primitive: self.primitive || is_primitive(ty),
            shared: self.shared || shared,
            layer: self.layer || is_layer(ty),
            ..self
        }
    }

    /// The facts about the variables that a pattern binds. Behind a shared reference they are
    /// shared references or copies.
    pub(super) fn through_pattern(self, pat: &Pat) -> Self {
        match pat {
            Pat::Type(pat) => self.with_type(&pat.ty).through_pattern(&pat.pat),
            Pat::Ident(_) => self,
            _ => TypeFacts { shared: self.shared, ..TypeFacts::default() },
        }
    }

    /// Whether a move out of the variable leaves it unchanged.
    pub(super) fn is_copyable(self) -> bool {
        self.primitive || self.shared || self.cast
    }
}

impl Builder {
    pub(super) fn lookup(&self, name: &Ident) -> Option<Var> {
        self.scope.iter().rev().find(|var| name == &self.control_flow.variables[var.0].name).copied()
    }

    pub(super) fn is_primitive_expr(&self, e: &Expr) -> bool {
        is_primitive_expr(e, &|name| self.lookup(name).is_some_and(|var| self.facts(var).primitive))
    }

    /// Whether an expression is made of numbers and extracted values, as far as the syntax shows.
    pub(super) fn is_value(&self, e: &Expr) -> bool {
        match strip_parens(e) {
            Expr::Unary(e) if matches!(e.op, UnOp::Not(_)) => self.lazy,
            Expr::Unary(e) if matches!(e.op, UnOp::Neg(_)) => self.is_value(&e.expr),
            Expr::Binary(e) if is_arithmetic(&e.op) => self.is_value(&e.left) && self.is_value(&e.right),
            e => {
                let is_value = |name| self.lookup(name).is_some_and(|var| self.facts(var).value);
                as_variable(e).is_some_and(is_value) || self.is_primitive_expr(e)
            }
        }
    }

    /// Whether the value of an expression is certainly a shared reference.
    pub(super) fn is_shared_reference(&self, e: &Expr) -> bool {
        match strip_parens(e) {
            Expr::Reference(e) => e.mutability.is_none(),
            e => as_variable(e).and_then(|name| self.lookup(name)).is_some_and(|var| self.facts(var).shared),
        }
    }

    /// The facts about the variables of a pattern that is matched against an expression.
    pub(super) fn scrutinee_facts(&self, e: &Expr) -> TypeFacts {
        TypeFacts { shared: self.is_shared_reference(e), ..TypeFacts::default() }
    }

    /// Whether an iterator expression yields shared references, as far as the syntax shows.
    pub(super) fn yields_shared_references(&self, e: &Expr) -> bool {
        match strip_parens(e) {
            Expr::MethodCall(e) if e.method == "iter" => e.args.is_empty(),
            Expr::MethodCall(e) => {
                ["enumerate", "rev", "zip"].iter().any(|method| e.method == method)
                    && e.args.iter().chain([&*e.receiver]).all(|e| self.yields_shared_references(e))
            }
            e => self.is_shared_reference(e),
        }
    }

    /// Notes a layer that is tested as if it were its value.
    pub(super) fn note_tested(&mut self, e: &Expr) {
        let layer = as_variable(e).filter(|name| self.lookup(name).is_some_and(|var| self.facts(var).layer));
        self.control_flow.tested_layers.extend(layer.cloned());
    }

    pub(super) fn facts(&self, var: Var) -> TypeFacts {
        self.control_flow.variables[var.0].facts
    }

    /// Binds the variables of a pattern.
    pub(super) fn bind(&mut self, pat: &Pat, facts: TypeFacts) {
        self.bind_conditional(pat, facts, false);
    }

    /// Binds the variables of a `let`. If it is `conditional` (`#[cfg]`), a name that is bound
    /// already keeps its variable, with only the facts that hold for both bindings.
    pub(super) fn bind_conditional(&mut self, pat: &Pat, facts: TypeFacts, conditional: bool) {
        struct Names<'a>(Vec<&'a Ident>);
        impl<'a> Visit<'a> for Names<'a> {
            fn visit_pat_ident(&mut self, pat: &'a syn::PatIdent) {
                self.0.push(&pat.ident);
                visit::visit_pat_ident(self, pat);
            }
            fn visit_expr(&mut self, _: &'a Expr) {}
        }
        let facts = facts.through_pattern(pat);
        let mut names = Names(Vec::new());
        names.visit_pat(pat);
        for name in names.0 {
            if conditional && let Some(before) = self.lookup(name) {
                let before = &mut self.control_flow.variables[before.0].facts;
                before.primitive &= facts.primitive;
                before.shared &= facts.shared;
                before.cast &= facts.cast;
                before.layer &= facts.layer;
                before.value &= facts.value;
                continue;
            }
            let var = Var(self.control_flow.variables.len());
            self.control_flow.variables.push(Variable {
                name: name.to_string(),
                facts,
                borrowed: false,
                closure_depth: self.closure_depth,
            });
            self.scope.push(var);
            self.flow.push(Flow::Write(var));
        }
    }

    /// The variable at the root of a place: `x` for `x.field[i]`.
    pub(super) fn root_variable(&self, place: &Expr) -> Option<Var> {
        let mut e = strip_parens(place);
        loop {
            e = match e {
                Expr::Field(e) => strip_parens(&e.base),
                Expr::Index(e) => strip_parens(&e.expr),
                _ => break,
            };
        }
        as_variable(e).and_then(|name| self.lookup(name))
    }

    /// Marks the root variable of a place as borrowed beyond the statement.
    pub(super) fn mark_borrowed(&mut self, place: &Expr) {
        if let Some(var) = self.root_variable(place) {
            self.control_flow.variables[var.0].borrowed = true;
        }
    }

    /// Reads all names in the tokens of a macro.
    pub(super) fn read_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(name) => self.read(&name),
                TokenTree::Group(group) => self.read_tokens(group.stream()),
                TokenTree::Literal(_) | TokenTree::Punct(_) => {}
            }
        }
    }

    /// Notes a name that is not bound in the body. Names of constants and types (by their first
    /// letter) and of items in the body are not variables.
    pub(super) fn note_free(&mut self, name: &Ident) {
        let text = name.to_string();
        if text.starts_with(|c: char| c.is_lowercase() || c == '_')
            && self.lookup(name).is_none()
            && !self.items.contains(name)
            && !self.control_flow.free_variables.contains(name)
        {
            self.control_flow.free_variables.push(name.clone());
        }
    }

    /// Reads the variables that a macro captures.
    pub(super) fn read_captured(&mut self, names: Vec<Ident>) {
        for name in names {
            self.read(&name);
            self.note_free(&name);
        }
    }

    pub(super) fn read(&mut self, name: &Ident) {
        if let Some(var) = self.lookup(name) {
            self.flow.push(Flow::Read(var));
        }
    }
}

/// Whether a pattern matches numbers: `0.0`, `1..=9`, `-1 | 1`.
pub(super) fn is_numeric(pat: &Pat) -> bool {
    match pat {
        Pat::Lit(_) | Pat::Range(_) => true,
        Pat::Or(pat) => pat.cases.iter().any(is_numeric),
        Pat::Paren(pat) => is_numeric(&pat.pat),
        Pat::Reference(pat) => is_numeric(&pat.pat),
        Pat::Ident(pat) => pat.subpat.as_ref().is_some_and(|(_, pat)| is_numeric(pat)),
        _ => false,
    }
}

/// The names of values that an item declares or imports.
pub(super) fn item_names(item: &Item) -> Vec<Ident> {
    fn imported(tree: &UseTree, names: &mut Vec<Ident>) {
        match tree {
            UseTree::Path(tree) => imported(&tree.tree, names),
            UseTree::Name(tree) => names.push(tree.ident.clone()),
            UseTree::Rename(tree) => names.push(tree.rename.clone()),
            UseTree::Group(tree) => tree.items.iter().for_each(|tree| imported(tree, names)),
            UseTree::Glob(_) => {}
        }
    }
    let mut names = Vec::new();
    match item {
        Item::Fn(item) => names.push(item.sig.ident.clone()),
        Item::Static(item) => names.push(item.ident.clone()),
        Item::Const(item) => names.push(item.ident.clone()),
        Item::Use(item) => imported(&item.tree, &mut names),
        _ => {}
    }
    names
}
