//! Join groups: the extractions (`!x`) that run together, and the place where each group starts.
//!
//! The operands of later members are hoisted to the first extraction of the group; code before it
//! is not moved. An extraction joins a group only if this changes nothing but the run time, which
//! depends on the code between the first extraction and the candidate:
//!
//! | between the first extraction and the candidate | joined? |
//! |---|---|
//! | literal, field, `&x`, tuple, array, struct, range, cast, `+ - * / %`, comparison, negation | yes |
//! | a name `x` | yes, unless `x` is in the may-write set of the candidate: `&mut x`, `x.m()`, a call of `x`, a macro, closure, block or assignment with `x`; or a move of `x` or a part of it, where `x` is not known to be a number, a shared reference or a constant |
//! | `let` | yes, unless a variable it binds is in the use set of the candidate |
//! | call, method, macro, index, `?`, assignment | no (scheduling barrier) |
//! | right side of `&&` and `\|\|`, branch, arm, guard, body of a loop, nested block | a region of its own |
//! | an operand that itself contains an extraction, `?`, `return`, `break`, `.await` | only as the first member of a group |

use crate::analyze::control_flow::ControlFlow;
use crate::analyze::opaque_macros;
use crate::analyze::operand_effects::OperandEffects;
use crate::diagnostics::Diagnostics;
use crate::parse::node::NodeId;
use crate::parse::plain_types::is_compound;
use crate::parse::{attributes, std_macros};
use std::collections::HashMap;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, Ident, Macro, UnOp};

/// The largest group, because the runtime joins tuples of up to 12 members.
const MAX_MEMBERS: usize = 12;

/// The extractions of a body and their groups. An extraction is identified by its operand.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) groups: Vec<JoinGroup>,
    /// The group of each extraction, and its position in the group.
    pub(crate) extractions: HashMap<NodeId, (usize, usize)>,
    /// Whether the body contains a `?`.
    pub(crate) has_try: bool,
}

pub(crate) struct JoinGroup {
    /// The insertion point: the statement, or the expression that is a region of its own, before
    /// which the variables for the results of later members are declared.
    pub(crate) insertion_point: NodeId,
    pub(crate) members: Vec<NodeId>,
}

impl Plan {
    /// Whether the body contains neither an extraction nor a `?`, so that it need not run again in
    /// each pass.
    pub(crate) fn is_empty(&self) -> bool {
        self.extractions.is_empty() && !self.has_try
    }

    /// The groups of more than one member with this insertion point.
    pub(crate) fn groups_at(&self, insertion_point: NodeId) -> impl Iterator<Item = usize> + '_ {
        let matches = move |group: &JoinGroup| group.insertion_point == insertion_point && group.members.len() > 1;
        self.groups.iter().enumerate().filter(move |(_, group)| matches(group)).map(|(number, _)| number)
    }
}

/// Plans the body of a lazy function.
pub(crate) fn plan(body: &Block, control_flow: &ControlFlow, diagnostics: &mut Diagnostics) -> Plan {
    let mut planner =
        Planner { plan: Plan::default(), control_flow, diagnostics, insertion_point: NodeId::of(body), open: None };
    planner.block(body);
    planner.plan
}

/// A group that may get more members, and the names between its first member and the current place.
struct OpenGroup {
    group: usize,
    read: Vec<Ident>,
    bound: Vec<Ident>,
}

struct Planner<'a> {
    plan: Plan,
    control_flow: &'a ControlFlow,
    diagnostics: &'a mut Diagnostics,
    insertion_point: NodeId,
    open: Option<OpenGroup>,
}

impl Planner<'_> {
    /// A scheduling barrier: no later operand may be hoisted over this place.
    fn barrier(&mut self) {
        self.open = None;
    }

    /// Visits an expression that is a region of its own: no group extends into it or out of it.
    fn region(&mut self, e: &Expr) {
        self.barrier();
        let outer = std::mem::replace(&mut self.insertion_point, NodeId::of(e));
        self.visit_expr(e);
        self.insertion_point = outer;
        self.barrier();
    }

    fn block(&mut self, block: &Block) {
        self.barrier();
        let outer = self.insertion_point;
        for stmt in &block.stmts {
            self.insertion_point = NodeId::of(stmt);
            self.visit_stmt(stmt);
        }
        self.insertion_point = outer;
        self.barrier();
    }

    /// Visits a condition that is evaluated repeatedly or contains a `let`. Each operand of `&&` is
    /// a region.
    fn condition(&mut self, e: &Expr) {
        match e {
            Expr::Let(e) => self.region(&e.expr),
            Expr::Binary(e) if matches!(e.op, BinOp::And(_)) => {
                self.condition(&e.left);
                self.condition(&e.right);
            }
            e => self.region(e),
        }
    }

    /// Adds an extraction to the open group, or starts a new group with it.
    fn extraction(&mut self, operand: &Expr) {
        let id = NodeId::of(operand);
        let effects = OperandEffects::of(operand, self.control_flow);
        if effects.suspends {
            self.visit_expr(operand);
        } else {
            self.check_macros(operand);
            if let Some(open) = &mut self.open
                && self.plan.groups[open.group].members.len() < MAX_MEMBERS
                && !open.bound.iter().any(|name| effects.use_set.contains(name))
                && !open.read.iter().any(|name| effects.may_write.contains(name))
            {
                let members = &mut self.plan.groups[open.group].members;
                self.plan.extractions.insert(id, (open.group, members.len()));
                members.push(id);
                return;
            }
        }
        let group = self.plan.groups.len();
        self.plan.groups.push(JoinGroup { insertion_point: self.insertion_point, members: vec![id] });
        self.plan.extractions.insert(id, (group, 0));
        self.open = Some(OpenGroup { group, read: Vec::new(), bound: Vec::new() });
    }

    /// Rejects extractions inside opaque macros of an operand that is not visited otherwise.
    fn check_macros(&mut self, e: &Expr) {
        struct Macros<'a>(&'a mut Diagnostics);
        impl<'a> Visit<'a> for Macros<'_> {
            fn visit_macro(&mut self, mac: &'a Macro) {
                opaque_macros::check(mac, self.0);
            }
            fn visit_expr_call(&mut self, e: &'a syn::ExprCall) {
                match std_macros::opened_macro(e) {
                    Some(_) => e.args.iter().for_each(|arg| self.visit_expr(arg)),
                    None => visit::visit_expr_call(self, e),
                }
            }
            fn visit_item(&mut self, _: &'a syn::Item) {}
        }
        Macros(self.diagnostics).visit_expr(e);
    }
}

impl<'a> Visit<'a> for Planner<'_> {
    fn visit_item(&mut self, _: &'a syn::Item) {}
    fn visit_type(&mut self, _: &'a syn::Type) {}
    fn visit_pat(&mut self, _: &'a syn::Pat) {}
    fn visit_expr_const(&mut self, _: &'a syn::ExprConst) {}

    fn visit_expr_repeat(&mut self, e: &'a syn::ExprRepeat) {
        self.visit_expr(&e.expr);
    }

    fn visit_expr_path(&mut self, e: &'a syn::ExprPath) {
        if let (Some(open), Some(name)) = (&mut self.open, e.path.get_ident()) {
            open.read.push(name.clone());
        }
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        if let Some(init) = &local.init {
            match attributes::is_conditional(&local.attrs) {
                true => self.region(&init.expr),
                false => self.visit_expr(&init.expr),
            }
            if let Some((_, otherwise)) = &init.diverge {
                self.region(otherwise);
            }
        }
        if let Some(open) = &mut self.open {
            let mut names = BoundNames(Vec::new());
            names.visit_pat(&local.pat);
            open.bound.extend(names.0);
        }
    }

    fn visit_field_value(&mut self, field: &'a syn::FieldValue) {
        match attributes::is_conditional(&field.attrs) {
            true => self.region(&field.expr),
            false => self.visit_expr(&field.expr),
        }
    }

    fn visit_stmt_macro(&mut self, stmt: &'a syn::StmtMacro) {
        self.visit_macro(&stmt.mac);
    }

    fn visit_macro(&mut self, mac: &'a Macro) {
        opaque_macros::check(mac, self.diagnostics);
        self.barrier();
    }

    fn visit_expr_unary(&mut self, e: &'a syn::ExprUnary) {
        match e.op {
            UnOp::Not(_) if !self.control_flow.primitive_negations.contains(&NodeId::of(&*e.expr)) => {
                self.extraction(&e.expr)
            }
            _ => self.visit_expr(&e.expr),
        }
    }

    fn visit_expr_binary(&mut self, e: &'a syn::ExprBinary) {
        if matches!(e.op, BinOp::And(_) | BinOp::Or(_)) {
            self.visit_expr(&e.left);
            self.condition(&e.right);
        } else if is_compound(&e.op) {
            // The evaluation order of the two sides depends on their types.
            self.barrier();
            self.region(&e.right);
            self.region(&e.left);
        } else {
            visit::visit_expr_binary(self, e);
        }
    }

    fn visit_expr_reference(&mut self, e: &'a syn::ExprReference) {
        self.visit_expr(&e.expr);
        if e.mutability.is_some() {
            self.barrier();
        }
    }

    fn visit_expr_assign(&mut self, e: &'a syn::ExprAssign) {
        self.visit_expr(&e.right);
        self.barrier();
        self.visit_expr(&e.left);
        self.barrier();
    }

    fn visit_expr_call(&mut self, e: &'a syn::ExprCall) {
        match std_macros::opened_macro(e) {
            Some(mac) => {
                let always = std_macros::always_evaluated(mac);
                for arg in e.args.iter().take(always) {
                    self.visit_expr(arg);
                }
                for arg in e.args.iter().skip(always) {
                    self.region(arg);
                }
            }
            None => visit::visit_expr_call(self, e),
        }
        self.barrier();
    }

    fn visit_expr_method_call(&mut self, e: &'a syn::ExprMethodCall) {
        self.visit_expr(&e.receiver);
        e.args.iter().for_each(|arg| self.visit_expr(arg));
        self.barrier();
    }

    fn visit_expr_index(&mut self, e: &'a syn::ExprIndex) {
        visit::visit_expr_index(self, e);
        self.barrier();
    }

    fn visit_expr_try(&mut self, e: &'a syn::ExprTry) {
        self.plan.has_try = true;
        self.visit_expr(&e.expr);
        self.barrier();
    }

    fn visit_expr_await(&mut self, e: &'a syn::ExprAwait) {
        self.visit_expr(&e.base);
        self.barrier();
    }

    fn visit_expr_return(&mut self, e: &'a syn::ExprReturn) {
        visit::visit_expr_return(self, e);
        self.barrier();
    }

    fn visit_expr_break(&mut self, e: &'a syn::ExprBreak) {
        visit::visit_expr_break(self, e);
        self.barrier();
    }

    fn visit_expr_continue(&mut self, _: &'a syn::ExprContinue) {
        self.barrier();
    }

    fn visit_expr_closure(&mut self, _: &'a syn::ExprClosure) {
        self.barrier();
    }

    fn visit_expr_async(&mut self, _: &'a syn::ExprAsync) {
        self.barrier();
    }

    fn visit_block(&mut self, block: &'a Block) {
        self.block(block);
    }

    fn visit_expr_block(&mut self, e: &'a syn::ExprBlock) {
        match attributes::enclosed_expr(e) {
            Some(inner) => self.visit_expr(inner),
            None => self.block(&e.block),
        }
    }

    fn visit_expr_let(&mut self, e: &'a syn::ExprLet) {
        self.region(&e.expr);
    }

    fn visit_expr_if(&mut self, e: &'a syn::ExprIf) {
        match &*e.cond {
            Expr::Let(_) => self.condition(&e.cond),
            Expr::Binary(cond) if matches!(cond.op, BinOp::And(_)) => self.condition(&e.cond),
            cond => self.visit_expr(cond),
        }
        self.block(&e.then_branch);
        if let Some((_, otherwise)) = &e.else_branch {
            self.region(otherwise);
        }
    }

    fn visit_expr_match(&mut self, e: &'a syn::ExprMatch) {
        self.visit_expr(&e.expr);
        self.barrier();
        for arm in &e.arms {
            if let Some((_, guard)) = &arm.guard {
                self.condition(guard);
            }
            self.region(&arm.body);
        }
        self.barrier();
    }

    fn visit_expr_while(&mut self, e: &'a syn::ExprWhile) {
        self.condition(&e.cond);
        self.block(&e.body);
    }

    fn visit_expr_for_loop(&mut self, e: &'a syn::ExprForLoop) {
        self.visit_expr(&e.expr);
        self.block(&e.body);
    }
}

/// The names that a pattern binds.
struct BoundNames(Vec<Ident>);

impl<'a> Visit<'a> for BoundNames {
    fn visit_pat_ident(&mut self, pat: &'a syn::PatIdent) {
        self.0.push(pat.ident.clone());
        visit::visit_pat_ident(self, pat);
    }
}
