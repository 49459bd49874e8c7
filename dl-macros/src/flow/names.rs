//! Names: which variable a name is, and what is known of it.

use super::{Flow, Reader, Var, Variable};
use crate::known::{is_plain, is_primitive};
use crate::node::{bare, variable};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Expr, Ident, Item, Pat, Type, UseTree};

/// What is known of the type of a variable.
#[derive(Clone, Copy, Default)]
pub(super) struct Known {
    /// It is a number or a `bool`.
    pub(super) plain: bool,
    /// It is a shared reference, or a copy of something behind one.
    pub(super) shared: bool,
    /// It is cast to a number, which takes only what can be copied.
    pub(super) cast: bool,
}

impl Known {
    /// What the type says, too.
    pub(super) fn of_type(self, ty: &Type) -> Self {
        let shared = matches!(ty, Type::Reference(ty) if ty.mutability.is_none());
        Known { plain: self.plain || is_primitive(ty), shared: self.shared || shared, ..self }
    }

    /// What is known of what a pattern binds: behind a shared reference that is a reference again,
    /// or a copy.
    pub(super) fn of_bound(self, pat: &Pat) -> Self {
        match pat {
            Pat::Type(pat) => self.of_type(&pat.ty).of_bound(&pat.pat),
            Pat::Ident(_) => self,
            _ => Known { shared: self.shared, ..Known::default() },
        }
    }

    pub(super) fn is_given(self) -> bool {
        self.plain || self.shared || self.cast
    }
}

impl Reader {
    pub(super) fn lookup(&self, name: &Ident) -> Option<Var> {
        self.scope.iter().rev().find(|var| name == &self.control.variables[var.0].name).copied()
    }

    pub(super) fn is_plain(&self, e: &Expr) -> bool {
        is_plain(e, &|name| self.lookup(name).is_some_and(|var| self.known(var).plain))
    }

    /// Whether the value of an expression is surely a shared reference.
    pub(super) fn is_shared(&self, e: &Expr) -> bool {
        match bare(e) {
            Expr::Reference(e) => e.mutability.is_none(),
            e => variable(e).and_then(|name| self.lookup(name)).is_some_and(|var| self.known(var).shared),
        }
    }

    /// What is known of what a pattern finds in an expression.
    pub(super) fn matched(&self, e: &Expr) -> Known {
        Known { shared: self.is_shared(e), ..Known::default() }
    }

    /// Whether what an expression goes through are shared references, by its looks.
    pub(super) fn lends(&self, e: &Expr) -> bool {
        match bare(e) {
            Expr::MethodCall(e) if e.method == "iter" => e.args.is_empty(),
            Expr::MethodCall(e) => {
                ["enumerate", "rev", "zip"].iter().any(|method| e.method == method)
                    && e.args.iter().chain([&*e.receiver]).all(|e| self.lends(e))
            }
            e => self.is_shared(e),
        }
    }

    pub(super) fn known(&self, var: Var) -> Known {
        self.control.variables[var.0].known
    }

    /// The variables that a pattern binds.
    pub(super) fn bind(&mut self, pat: &Pat, known: Known) {
        self.bind_perhaps(pat, known, false);
    }

    /// The same of a `let`, which may be compiled out: then its names mean what they did before.
    pub(super) fn bind_perhaps(&mut self, pat: &Pat, known: Known, conditional: bool) {
        struct Names<'a>(Vec<&'a Ident>);
        impl<'a> Visit<'a> for Names<'a> {
            fn visit_pat_ident(&mut self, pat: &'a syn::PatIdent) {
                self.0.push(&pat.ident);
                visit::visit_pat_ident(self, pat);
            }
            fn visit_expr(&mut self, _: &'a Expr) {}
        }
        let known = known.of_bound(pat);
        let mut names = Names(Vec::new());
        names.visit_pat(pat);
        for name in names.0 {
            if conditional && let Some(before) = self.lookup(name) {
                let before = &mut self.control.variables[before.0].known;
                before.plain &= known.plain;
                before.shared &= known.shared;
                before.cast &= known.cast;
                continue;
            }
            let var = Var(self.control.variables.len());
            self.control.variables.push(Variable { name: name.to_string(), known, borrowed: false, depth: self.depth });
            self.scope.push(var);
            self.flow.push(Flow::Write(var));
        }
    }

    /// The variable that a place belongs to.
    pub(super) fn owner(&self, place: &Expr) -> Option<Var> {
        let mut e = bare(place);
        loop {
            e = match e {
                Expr::Field(e) => bare(&e.base),
                Expr::Index(e) => bare(&e.expr),
                _ => break,
            };
        }
        variable(e).and_then(|name| self.lookup(name))
    }

    /// Marks the variable that a place belongs to.
    pub(super) fn borrow(&mut self, place: &Expr) {
        if let Some(var) = self.owner(place) {
            self.control.variables[var.0].borrowed = true;
        }
    }

    /// Names in the tokens of a macro.
    pub(super) fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(name) => self.read(&name),
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(_) | TokenTree::Punct(_) => {}
            }
        }
    }

    /// A name that is no variable of the function may be one of the function around it. Constants
    /// and types are not meant, nor are items of the function.
    pub(super) fn free(&mut self, name: &Ident) {
        let text = name.to_string();
        if text.starts_with(|c: char| c.is_lowercase() || c == '_')
            && self.lookup(name).is_none()
            && !self.items.contains(name)
            && !self.control.free.contains(name)
        {
            self.control.free.push(name.clone());
        }
    }

    pub(super) fn captured(&mut self, names: Vec<Ident>) {
        for name in names {
            self.read(&name);
            self.free(&name);
        }
    }

    pub(super) fn read(&mut self, name: &Ident) {
        if let Some(var) = self.lookup(name) {
            self.flow.push(Flow::Read(var));
        }
    }
}

/// The names of values that an item makes known.
pub(super) fn named(item: &Item) -> Vec<Ident> {
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
