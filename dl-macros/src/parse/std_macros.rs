//! Makes the arguments of macros of the standard library visible as expressions.
//!
//! `syn` represents a macro call as tokens. A macro of the standard library that takes a list of
//! expressions is *opened*: it becomes a call with the macro in the place of the function. After
//! expansion it is *closed*, that is, turned back into a macro call.
//!
//! ```text
//! // Input:  println!("{} {n}", !a, n = b + c)
//! // Opened: println!("{} {n}", $, n = $)(!a, b + c)
//! ```

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream, Parser};
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Expr, ExprCall, ExprMacro, Ident, LitStr, Macro, MacroDelimiter, Stmt, Token, parse_quote};

/// Opens all macros of the standard library in the block.
pub(crate) fn open(block: &mut syn::Block) {
    Opener.visit_block_mut(block);
}

/// Closes all opened macros in the block.
pub(crate) fn close(block: &mut syn::Block) {
    Closer.visit_block_mut(block);
}

/// A copy of the expression with its opened macros closed.
pub(crate) fn closed(e: &Expr) -> Expr {
    let mut e = e.clone();
    Closer.visit_expr_mut(&mut e);
    e
}

/// A copy of the statement with its opened macros closed.
pub(crate) fn closed_stmt(stmt: &Stmt) -> Stmt {
    let mut stmt = stmt.clone();
    Closer.visit_stmt_mut(&mut stmt);
    stmt
}

/// The macro, if the call is an opened one.
pub(crate) fn opened_macro(call: &ExprCall) -> Option<&Macro> {
    match &*call.func {
        Expr::Macro(e) if call.attrs.iter().any(is_mark) => Some(&e.mac),
        _ => None,
    }
}

/// The number of leading arguments that are always evaluated. An assertion evaluates its message
/// only if it fails; `debug_assert!` and the like may evaluate nothing.
pub(crate) fn always_evaluated(mac: &Macro) -> usize {
    match name(mac).as_str() {
        "debug_assert" | "debug_assert_eq" | "debug_assert_ne" => 0,
        "assert" | "matches" => 1,
        "assert_eq" | "assert_ne" => 2,
        _ => usize::MAX,
    }
}

/// The index of the argument that is the format string.
pub(crate) fn format_string_index(mac: &Macro) -> Option<usize> {
    match name(mac).as_str() {
        "dbg" | "vec" | "matches" => None,
        "write" | "writeln" | "assert" | "debug_assert" => Some(1),
        "assert_eq" | "assert_ne" | "debug_assert_eq" | "debug_assert_ne" => Some(2),
        _ => Some(0),
    }
}

/// Whether the macro moves its arguments. The others borrow them.
pub(crate) fn moves_arguments(mac: &Macro) -> bool {
    matches!(name(mac).as_str(), "vec" | "dbg")
}

fn mark() -> Attribute {
    parse_quote!(#[opened])
}

pub(crate) fn is_mark(attribute: &Attribute) -> bool {
    attribute.path().is_ident("opened")
}

fn name(mac: &Macro) -> String {
    mac.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default()
}

/// Whether the macro is one of the standard library that can be opened.
pub(crate) fn is_std_macro(mac: &Macro) -> bool {
    const KNOWN: [&str; 21] = [
        "print",
        "println",
        "eprint",
        "eprintln",
        "format",
        "format_args",
        "write",
        "writeln",
        "panic",
        "todo",
        "unimplemented",
        "unreachable",
        "assert",
        "assert_eq",
        "assert_ne",
        "debug_assert",
        "debug_assert_eq",
        "debug_assert_ne",
        "dbg",
        "vec",
        "matches",
    ];
    let root = mac.path.segments.first().map(|segment| segment.ident.to_string()).unwrap_or_default();
    let of_std = mac.path.segments.len() == 1 || matches!(root.as_str(), "std" | "core" | "alloc");
    of_std && KNOWN.contains(&name(mac).as_str())
}

/// The arguments, and the tokens of the macro with each argument replaced by `$`.
fn split_arguments(mac: &Macro) -> Option<(Vec<Expr>, TokenStream)> {
    let mut exprs = Vec::new();
    let list = |input: ParseStream<'_>| {
        let mut rest = TokenStream::new();
        while !input.is_empty() {
            if input.peek(LitStr) && (input.peek2(Token![,]) || input.peek2(syn::parse::End)) {
                input.parse::<LitStr>()?.to_tokens(&mut rest);
            } else {
                if input.peek(Ident) && input.peek2(Token![=]) && !input.peek2(Token![==]) {
                    input.parse::<Ident>()?.to_tokens(&mut rest);
                    input.parse::<Token![=]>()?.to_tokens(&mut rest);
                }
                exprs.push(input.parse::<Expr>()?);
                rest.extend(quote!($));
            }
            if input.peek(Token![;]) {
                input.parse::<Token![;]>()?.to_tokens(&mut rest);
            } else if !input.is_empty() {
                input.parse::<Token![,]>()?.to_tokens(&mut rest);
            }
        }
        Ok(rest)
    };
    let scrutinee = |input: ParseStream<'_>| {
        let first = Expr::parse(input)?;
        let pattern: TokenStream = input.parse()?;
        Ok((vec![first], quote!($ #pattern)))
    };
    if !is_std_macro(mac) {
        return None;
    }
    if name(mac) == "matches" {
        return Parser::parse2(scrutinee, mac.tokens.clone()).ok();
    }
    let rest = Parser::parse2(list, mac.tokens.clone()).ok()?;
    Some((exprs, rest))
}

struct Opener;

impl Opener {
    fn open(mac: &Macro, attrs: &[Attribute]) -> Option<Expr> {
        let (args, tokens) = split_arguments(mac)?;
        let mac = Macro { tokens, ..mac.clone() };
        let mut attrs = attrs.to_vec();
        attrs.push(mark());
        Some(Expr::Call(ExprCall {
            attrs,
            func: Box::new(Expr::Macro(ExprMacro { attrs: Vec::new(), mac })),
            paren_token: syn::token::Paren::default(),
            args: args.into_iter().collect(),
        }))
    }
}

impl VisitMut for Opener {
    fn visit_stmt_mut(&mut self, stmt: &mut Stmt) {
        if let Stmt::Macro(e) = stmt
            && (e.semi_token.is_some() || !matches!(e.mac.delimiter, MacroDelimiter::Brace(_)))
            && let Some(opened) = Self::open(&e.mac, &e.attrs)
        {
            *stmt = Stmt::Expr(opened, e.semi_token);
        }
        visit_mut::visit_stmt_mut(self, stmt);
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Expr::Macro(e) = expr
            && let Some(opened) = Self::open(&e.mac, &e.attrs)
        {
            *expr = opened;
        }
        match expr {
            // Only the arguments: the macro of an opened call must not be opened again.
            Expr::Call(call) if opened_macro(call).is_some() => {
                call.args.iter_mut().for_each(|arg| self.visit_expr_mut(arg))
            }
            expr => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
    fn visit_type_mut(&mut self, _: &mut syn::Type) {}
}

struct Closer;

impl VisitMut for Closer {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        visit_mut::visit_expr_mut(self, expr);
        if let Expr::Call(call) = expr
            && let Some(mac) = opened_macro(call)
        {
            let mut args = call.args.iter();
            let mut tokens = TokenStream::new();
            for token in mac.tokens.clone() {
                match token {
                    TokenTree::Punct(punct) if punct.as_char() == '$' => args.next().to_tokens(&mut tokens),
                    token => token.to_tokens(&mut tokens),
                }
            }
            let mac = Macro { tokens, ..mac.clone() };
            let attrs = call.attrs.iter().filter(|attribute| !is_mark(attribute)).cloned().collect();
            *expr = Expr::Macro(ExprMacro { attrs, mac });
        }
    }

    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
}
