//! The bodies of lazy functions: bangs, `?` and `return`.

use crate::branches::Branches;
use crate::function::Returned;
use crate::node::{NodeId, bare, is_place};
use crate::operands::{duplicated, module};
use crate::plan::Plan;
use proc_macro2::Span;
use quote::quote_spanned;
use std::collections::HashMap;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, Ident, Path, Stmt, UnOp, parse_quote_spanned};

/// Rewrites the body as planned.
pub(crate) fn expand(block: &mut Block, plan: &Plan, branches: &Branches, returned: &Returned, krate: &Path) {
    let mut pulled = Pulled { plan, operands: HashMap::new() };
    pulled.visit_block(block);
    let operands = pulled.operands;
    Expander { plan, branches, operands, returned, krate }.visit_block_mut(block);
}

/// Copies of the operands that are built earlier than they are written.
struct Pulled<'a> {
    plan: &'a Plan,
    operands: HashMap<NodeId, Expr>,
}

impl<'a> Visit<'a> for Pulled<'_> {
    fn visit_expr_unary(&mut self, e: &'a syn::ExprUnary) {
        let id = NodeId::of(&*e.expr);
        if self.plan.bangs.get(&id).is_some_and(|(_, position)| *position > 0) {
            self.operands.insert(id, (*e.expr).clone());
        }
        visit::visit_expr_unary(self, e);
    }
}

struct Expander<'a> {
    plan: &'a Plan,
    branches: &'a Branches,
    operands: HashMap<NodeId, Expr>,
    returned: &'a Returned,
    krate: &'a Path,
}

/// The variable that holds what a later member of a group extracted.
fn later(group: usize, position: usize) -> Ident {
    Ident::new(&format!("extracted_{group}_{position}"), Span::mixed_site())
}

impl Expander<'_> {
    /// Begins to extract an operand. What it needs on the way is dropped before anything is
    /// awaited.
    ///
    /// ```text
    /// // Input:  x         Output: ::dl::bang::place(&x).start()
    /// // Input:  f(x)      Output: ::dl::bang::value(f(x)).start()
    /// // Input:  (x, 2.0)  Output: ::dl::bang::value((&x, ::dl::bang::Literal(2.0))).start()
    /// ```
    fn start(&self, operand: &Expr) -> Expr {
        let span = operand.span();
        let bang = module(self.krate, span);
        let operand = bare(operand);
        if is_place(operand) {
            parse_quote_spanned!(span=> #bang::place(&#operand).start())
        } else {
            let operand = self.members(operand);
            parse_quote_spanned!(span=> #bang::value(#operand).start())
        }
    }

    /// A tuple or an array under a bang borrows its members, and literals stay what they are.
    fn members(&self, operand: &Expr) -> Expr {
        let span = operand.span();
        let bang = module(self.krate, span);
        let mut operand = operand.clone();
        match &mut operand {
            Expr::Tuple(tuple) => {
                for member in &mut tuple.elems {
                    *member = match bare(member) {
                        Expr::Lit(literal) => parse_quote_spanned!(literal.span()=> #bang::Literal(#literal)),
                        place if is_place(place) => parse_quote_spanned!(place.span()=> &#place),
                        other => self.members(other),
                    };
                }
            }
            Expr::Array(array) => {
                let borrow = array.elems.iter().all(is_place);
                for member in &mut array.elems {
                    *member = match bare(member) {
                        place if is_place(place) && borrow => parse_quote_spanned!(place.span()=> &#place),
                        place if is_place(place) => duplicated(place.clone(), self.krate),
                        other => self.members(other),
                    };
                }
            }
            _ => {}
        }
        operand
    }

    /// The data of one operand.
    ///
    /// ```text
    /// // Input:  !x
    /// // Output: { let start = ::dl::bang::place(&x).start(); let value = start.await?; value }
    /// ```
    fn alone(&self, span: Span, operand: &Expr) -> Expr {
        let start = self.start(operand);
        let name = Ident::new("start", Span::mixed_site().located_at(span));
        let value = Ident::new("value", Span::mixed_site().located_at(span));
        parse_quote_spanned!(span=> { let #name = #start; let #value = #name.await?; #value })
    }

    /// The data of the first of a group. It runs the others as well, whose results are kept in
    /// variables.
    ///
    /// ```text
    /// // Input:  !x + !y
    /// // Output: let later;
    /// //         {
    /// //             let start_0 = start(x);
    /// //             let start_1 = start(y);
    /// //             let (first, second) = join((start_0, start_1)).await?;
    /// //             later = second;
    /// //             first
    /// //         } + later
    /// ```
    fn first(&self, span: Span, operand: &Expr, group: usize) -> Expr {
        let bang = module(self.krate, span);
        let members = &self.plan.groups[group].members;
        let mut starts = vec![self.start(operand)];
        starts.extend(members[1..].iter().map(|member| self.start(&self.operands[member])));
        // One statement each: what one operand needs on the way is dropped before the next is
        // built.
        let names: Vec<Ident> =
            (0..members.len()).map(|position| Ident::new(&format!("start_{position}"), Span::mixed_site())).collect();
        let first = Ident::new("first", Span::mixed_site().located_at(span));
        let results: Vec<Ident> =
            (1..members.len()).map(|position| Ident::new(&format!("result_{position}"), Span::mixed_site())).collect();
        let variables = (1..members.len()).map(|position| later(group, position));
        parse_quote_spanned!(span=> {
            #(let #names = #starts;)*
            let (#first, #(#results),*) = #bang::join((#(#names),*)).await?;
            #(#variables = #results;)*
            #first
        })
    }

    fn declarations(&self, anchor: NodeId) -> Vec<Stmt> {
        let mut declared = Vec::new();
        for group in self.plan.anchored(anchor) {
            for position in 1..self.plan.groups[group].members.len() {
                let variable = later(group, position);
                declared.push(parse_quote_spanned!(Span::mixed_site()=> let #variable;));
            }
        }
        declared
    }

    /// A `return` ends the run, not the function.
    ///
    /// ```text
    /// // Input:  return x
    /// // Output: { let returned: Layer<f32> = x; return Ok(returned) }
    /// ```
    fn returns(&self, e: &syn::ExprReturn) -> Expr {
        let span = e.return_token.span;
        let bang = module(self.krate, span);
        let name = Ident::new("returned", Span::mixed_site());
        match (&e.expr, self.returned) {
            (Some(value), Returned::Named(ty)) => parse_quote_spanned!(span=> {
                let #name: #ty = #value;
                return ::core::result::Result::Ok(#name)
            }),
            (Some(value), Returned::Expression) => {
                parse_quote_spanned!(span=> return ::core::result::Result::Ok(#bang::layer(&#value)))
            }
            (Some(value), Returned::Inferred) => {
                parse_quote_spanned!(span=> return ::core::result::Result::Ok(#value))
            }
            (None, Returned::Named(ty)) => {
                parse_quote_spanned!(span=> return ::core::result::Result::Ok::<#ty, #bang::Error>(()))
            }
            (None, _) => parse_quote_spanned!(span=> return ::core::result::Result::Ok(())),
        }
    }
}

impl VisitMut for Expander<'_> {
    fn visit_block_mut(&mut self, block: &mut Block) {
        let anchors: Vec<NodeId> = block.stmts.iter().map(NodeId::of).collect();
        let mut told = Vec::new();
        for stmt in &mut block.stmts {
            self.visit_stmt_mut(stmt);
            told.push(match stmt {
                Stmt::Local(local) => self.branches.tell_local(NodeId::of(local), local, self.krate),
                _ => None,
            });
        }
        if told.iter().any(Option::is_some) || anchors.iter().any(|anchor| self.plan.anchored(*anchor).next().is_some())
        {
            let stmts = std::mem::take(&mut block.stmts);
            for ((anchor, stmt), told) in anchors.into_iter().zip(stmts).zip(told) {
                block.stmts.extend(self.declarations(anchor));
                block.stmts.push(stmt);
                block.stmts.extend(told);
            }
        }
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let anchor = NodeId::of(expr);
        match expr {
            // They keep Rust's `!` and `?`.
            Expr::Closure(_) | Expr::Async(_) | Expr::Const(_) => return,
            Expr::Unary(e) if matches!(e.op, UnOp::Not(_)) => {
                let id = NodeId::of(&*e.expr);
                self.visit_expr_mut(&mut e.expr);
                if let Some((group, position)) = self.plan.bangs.get(&id) {
                    let span = e.op.span();
                    *expr = match (position, self.plan.groups[*group].members.len()) {
                        (0, 1) => self.alone(span, &e.expr),
                        (0, _) => self.first(span, &e.expr, *group),
                        (position, _) => {
                            let mut variable = later(*group, *position);
                            variable.set_span(variable.span().located_at(span));
                            parse_quote_spanned!(span=> #variable)
                        }
                    };
                }
            }
            // Input:  e?
            // Output: ::dl::bang::attempt(e)?
            Expr::Try(e) => {
                self.visit_expr_mut(&mut e.expr);
                let bang = module(self.krate, e.expr.span());
                let (operand, question) = (&e.expr, e.question_token);
                let call = quote_spanned!(e.expr.span()=> #bang::attempt(#operand));
                *expr = parse_quote_spanned!(question.span()=> #call #question);
            }
            Expr::Return(e) => {
                if let Some(value) = &mut e.expr {
                    self.visit_expr_mut(value);
                }
                *expr = self.returns(e);
            }
            Expr::If(_) | Expr::Match(_) | Expr::While(_) => {
                visit_mut::visit_expr_mut(self, expr);
                self.branches.tell(anchor, expr, self.krate);
            }
            _ => visit_mut::visit_expr_mut(self, expr),
        }
        let declared = self.declarations(anchor);
        if !declared.is_empty() {
            let mut block: syn::ExprBlock = parse_quote_spanned!(expr.span()=> { #(#declared)* });
            block.block.stmts.push(Stmt::Expr(std::mem::replace(expr, Expr::PLACEHOLDER), None));
            *expr = Expr::Block(block);
        }
    }

    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
    fn visit_type_mut(&mut self, _: &mut syn::Type) {}
}
