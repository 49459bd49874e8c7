//! Rewrites the bodies of lazy functions: extractions (`!x`), `?` and `return`.

use crate::analyze::branches::Branches;
use crate::analyze::joins::Plan;
use crate::expand::branch_trace;
use crate::expand::duplicate::duplicated;
use crate::parse::crate_path;
use crate::parse::function::LazyReturn;
use crate::parse::node::{NodeId, is_place, strip_parens};
use proc_macro2::Span;
use quote::quote_spanned;
use std::collections::{HashMap, HashSet};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, Ident, Path, Stmt, UnOp, parse_quote_spanned};

/// Rewrites the body according to the plan.
pub(crate) fn expand(
    block: &mut Block,
    plan: &Plan,
    branches: &Branches,
    value_results: &HashSet<NodeId>,
    returned: &LazyReturn,
    krate: &Path,
) {
    let mut hoisted = HoistedOperands { plan, operands: HashMap::new() };
    hoisted.visit_block(block);
    let hoisted = hoisted.operands;
    Expander { plan, branches, value_results, hoisted, returned, krate }.visit_block_mut(block);
}

/// Clones of the operands that are hoisted to the first member of their group.
struct HoistedOperands<'a> {
    plan: &'a Plan,
    operands: HashMap<NodeId, Expr>,
}

impl<'a> Visit<'a> for HoistedOperands<'_> {
    fn visit_expr_unary(&mut self, e: &'a syn::ExprUnary) {
        let id = NodeId::of(&*e.expr);
        if self.plan.extractions.get(&id).is_some_and(|(_, position)| *position > 0) {
            self.operands.insert(id, (*e.expr).clone());
        }
        visit::visit_expr_unary(self, e);
    }
}

struct Expander<'a> {
    plan: &'a Plan,
    branches: &'a Branches,
    /// Results that are values by their syntax.
    value_results: &'a HashSet<NodeId>,
    hoisted: HashMap<NodeId, Expr>,
    returned: &'a LazyReturn,
    krate: &'a Path,
}

/// The variable for the result of a later member of a group.
fn result_variable(group: usize, position: usize) -> Ident {
    Ident::new(&format!("extracted_{group}_{position}"), Span::mixed_site())
}

impl Expander<'_> {
    /// Starts the extraction of an operand. Temporaries of the operand are dropped at the end of
    /// the statement, before the extraction is awaited.
    ///
    /// ```text
    /// // Input:  x         Output: ::dl::bang::place(&x).start()
    /// // Input:  f(x)      Output: ::dl::bang::value(f(x)).start()
    /// // Input:  (x, 2.0)  Output: ::dl::bang::value((&x, ::dl::bang::Literal(2.0))).start()
    /// ```
    fn start(&self, operand: &Expr) -> Expr {
        let span = operand.span();
        let runtime = crate_path::runtime(self.krate, span);
        let operand = strip_parens(operand);
        if is_place(operand) {
            parse_quote_spanned!(span=> #runtime::place(&#operand).start())
        } else {
            let operand = self.members(operand);
            parse_quote_spanned!(span=> #runtime::value(#operand).start())
        }
    }

    /// Borrows the members of a tuple or an array under a `!`, and marks literals as plain values.
    fn members(&self, operand: &Expr) -> Expr {
        let span = operand.span();
        let runtime = crate_path::runtime(self.krate, span);
        let mut operand = operand.clone();
        match &mut operand {
            Expr::Tuple(tuple) => {
                for member in &mut tuple.elems {
                    *member = match strip_parens(member) {
                        Expr::Lit(literal) => parse_quote_spanned!(literal.span()=> #runtime::Literal(#literal)),
                        place if is_place(place) => parse_quote_spanned!(place.span()=> &#place),
                        other => self.members(other),
                    };
                }
            }
            Expr::Array(array) => {
                let borrow = array.elems.iter().all(is_place);
                for member in &mut array.elems {
                    *member = match strip_parens(member) {
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

    /// Extracts one operand.
    ///
    /// ```text
    /// // Input:  !x
    /// // Output: { let start = ::dl::bang::place(&x).start(); let value = start.await?; value }
    /// ```
    fn extract_one(&self, span: Span, operand: &Expr) -> Expr {
        let start = self.start(operand);
        let name = Ident::new("start", Span::mixed_site().located_at(span));
        let value = Ident::new("value", Span::mixed_site().located_at(span));
        parse_quote_spanned!(span=> { let #name = #start; let #value = #name.await?; #value })
    }

    /// Extracts all members of a group. The value is that of the first member; the others are
    /// assigned to variables that are declared at the insertion point.
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
    fn extract_group(&self, span: Span, operand: &Expr, group: usize) -> Expr {
        let runtime = crate_path::runtime(self.krate, span);
        let members = &self.plan.groups[group].members;
        let mut starts = vec![self.start(operand)];
        starts.extend(members[1..].iter().map(|member| self.start(&self.hoisted[member])));
        // One statement for each operand: its temporaries are dropped before the next is built.
        let names: Vec<Ident> =
            (0..members.len()).map(|position| Ident::new(&format!("start_{position}"), Span::mixed_site())).collect();
        let first = Ident::new("first", Span::mixed_site().located_at(span));
        let results: Vec<Ident> =
            (1..members.len()).map(|position| Ident::new(&format!("result_{position}"), Span::mixed_site())).collect();
        let variables = (1..members.len()).map(|position| result_variable(group, position));
        parse_quote_spanned!(span=> {
            #(let #names = #starts;)*
            let (#first, #(#results),*) = #runtime::join((#(#names),*)).await?;
            #(#variables = #results;)*
            #first
        })
    }

    /// Declares the result variables of the groups with this insertion point.
    fn declarations(&self, insertion_point: NodeId) -> Vec<Stmt> {
        let mut declared = Vec::new();
        for group in self.plan.groups_at(insertion_point) {
            for position in 1..self.plan.groups[group].members.len() {
                let variable = result_variable(group, position);
                declared.push(parse_quote_spanned!(Span::mixed_site()=> let #variable;));
            }
        }
        declared
    }

    /// A `return` ends this run of the body.
    ///
    /// ```text
    /// // Input:  return x
    /// // Output: { let returned: Layer<f32> = x; return Ok(returned) }
    /// ```
    fn returns(&self, e: &syn::ExprReturn) -> Expr {
        let span = e.return_token.span;
        let runtime = crate_path::runtime(self.krate, span);
        let name = Ident::new("returned", Span::mixed_site());
        match (&e.expr, self.returned) {
            (Some(value), LazyReturn::Named(ty)) => parse_quote_spanned!(span=> {
                let #name: #ty = #value;
                return ::core::result::Result::Ok(#name)
            }),
            (Some(value), LazyReturn::Expression) => {
                parse_quote_spanned!(span=> return ::core::result::Result::Ok(#runtime::layer(&#value)))
            }
            (Some(value), LazyReturn::Inferred) => {
                parse_quote_spanned!(span=> return ::core::result::Result::Ok(#value))
            }
            (None, LazyReturn::Named(ty)) => {
                parse_quote_spanned!(span=> return ::core::result::Result::Ok::<#ty, #runtime::Error>(()))
            }
            (None, _) => parse_quote_spanned!(span=> return ::core::result::Result::Ok(())),
        }
    }
}

impl VisitMut for Expander<'_> {
    fn visit_block_mut(&mut self, block: &mut Block) {
        let insertion_points: Vec<NodeId> = block.stmts.iter().map(NodeId::of).collect();
        let mut traces = Vec::new();
        for stmt in &mut block.stmts {
            self.visit_stmt_mut(stmt);
            traces.push(match stmt {
                Stmt::Local(local) => {
                    branch_trace::instrument_let_else(self.branches, NodeId::of(local), local, self.krate)
                }
                _ => None,
            });
        }
        if traces.iter().any(Option::is_some)
            || insertion_points.iter().any(|point| self.plan.groups_at(*point).next().is_some())
        {
            let stmts = std::mem::take(&mut block.stmts);
            for ((insertion_point, stmt), trace) in insertion_points.into_iter().zip(stmts).zip(traces) {
                block.stmts.extend(self.declarations(insertion_point));
                block.stmts.push(stmt);
                block.stmts.extend(trace);
            }
        }
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let id_before = NodeId::of(expr);
        match expr {
            // `!` and `?` keep their meaning in Rust here.
            Expr::Closure(_) | Expr::Async(_) | Expr::Const(_) => return,
            Expr::Unary(e) if matches!(e.op, UnOp::Not(_)) => {
                let id = NodeId::of(&*e.expr);
                self.visit_expr_mut(&mut e.expr);
                if let Some((group, position)) = self.plan.extractions.get(&id) {
                    let span = e.op.span();
                    *expr = match (position, self.plan.groups[*group].members.len()) {
                        (0, 1) => self.extract_one(span, &e.expr),
                        (0, _) => self.extract_group(span, &e.expr, *group),
                        (position, _) => {
                            let mut variable = result_variable(*group, *position);
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
                let runtime = crate_path::runtime(self.krate, e.expr.span());
                let (operand, question) = (&e.expr, e.question_token);
                let call = quote_spanned!(e.expr.span()=> #runtime::attempt(#operand));
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
                branch_trace::instrument(self.branches, id_before, expr, self.krate);
            }
            _ => visit_mut::visit_expr_mut(self, expr),
        }
        // Input:  y * 2.0
        // Output: ::dl::bang::returned::<Layer<f32>, _>(y * 2.0)
        if let (true, LazyReturn::Named(ty)) = (self.value_results.contains(&id_before), self.returned) {
            let span = expr.span();
            let runtime = crate_path::runtime(self.krate, span);
            *expr = parse_quote_spanned!(span=> #runtime::returned::<#ty, _>(#expr));
        }
        let declared = self.declarations(id_before);
        if !declared.is_empty() {
            let mut block: syn::ExprBlock = parse_quote_spanned!(expr.span()=> { #(#declared)* });
            block.block.stmts.push(Stmt::Expr(std::mem::replace(expr, Expr::PLACEHOLDER), None));
            *expr = Expr::Block(block);
        }
    }

    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
    fn visit_type_mut(&mut self, _: &mut syn::Type) {}
}
