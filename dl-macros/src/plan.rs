//! Which bangs are joined, and where each group of them starts.
//!
//! The building of later operands is pulled forward to the place of the first bang of a group;
//! everything before it stays put. That is done only if nobody can tell the difference except by
//! the time it takes:
//!
//! | between the first bang and the candidate | joined? |
//! |---|---|
//! | literal, field, `&x`, tuple, array, struct, range, cast, `+ - * / %`, comparison, negation | yes |
//! | a name `x` | yes, unless the candidate may change `x`: `&mut x`, `x.m()`, a call of `x`, a macro, closure, block or assignment with `x`; or takes it or a part of it, and `x` is not surely a number, a shared reference or a constant |
//! | `let` | yes, unless the candidate mentions what it binds |
//! | call, method, macro, index, `?`, assignment | no |
//! | right side of `&&` and `\|\|`, branch, arm, guard, body of a loop, nested block | a context of its own |
//! | an operand that itself contains a bang, `?`, `return`, `break`, `.await` | only as the first of a group |

use crate::arguments;
use crate::attributes;
use crate::diagnostics::Problems;
use crate::flow::Control;
use crate::format;
use crate::known::is_compound;
use crate::node::NodeId;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{HashMap, HashSet};
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, Ident, Macro, UnOp};

/// The largest group: the runtime joins tuples.
const LARGEST: usize = 12;

/// What to do with each bang.
#[derive(Default)]
pub(crate) struct Plan {
    /// Groups of bangs; each bang is known by its operand.
    pub(crate) groups: Vec<Group>,
    /// The group of each bang, and its position there.
    pub(crate) bangs: HashMap<NodeId, (usize, usize)>,
    /// Whether there is a `?`.
    pub(crate) tries: bool,
}

pub(crate) struct Group {
    /// The statement, or the expression with a context of its own, before which the results of
    /// later members are declared.
    pub(crate) anchor: NodeId,
    pub(crate) members: Vec<NodeId>,
}

impl Plan {
    /// Whether the function has to be run anew in each pass.
    pub(crate) fn is_empty(&self) -> bool {
        self.bangs.is_empty() && !self.tries
    }

    /// The groups whose results are declared here.
    pub(crate) fn anchored(&self, anchor: NodeId) -> impl Iterator<Item = usize> + '_ {
        let joins = move |group: &Group| group.anchor == anchor && group.members.len() > 1;
        self.groups.iter().enumerate().filter(move |(_, group)| joins(group)).map(|(number, _)| number)
    }
}

/// Plans the body of a lazy function. Operands of `!` that are plain are no bangs.
pub(crate) fn plan(body: &Block, control: &Control, problems: &mut Problems) -> Plan {
    let mut planner = Planner { plan: Plan::default(), control, problems, anchor: NodeId::of(body), open: None };
    planner.block(body);
    planner.plan
}

/// A group that may still get members, and what has happened since its first.
struct Open {
    group: usize,
    read: Vec<Ident>,
    bound: Vec<Ident>,
}

struct Planner<'a> {
    plan: Plan,
    control: &'a Control,
    problems: &'a mut Problems,
    anchor: NodeId,
    open: Option<Open>,
}

impl Planner<'_> {
    /// Nothing that comes later may be pulled forward over this.
    fn barrier(&mut self) {
        self.open = None;
    }

    /// An expression with a context of its own.
    fn region(&mut self, e: &Expr) {
        self.barrier();
        let outer = std::mem::replace(&mut self.anchor, NodeId::of(e));
        self.visit_expr(e);
        self.anchor = outer;
        self.barrier();
    }

    fn block(&mut self, block: &Block) {
        self.barrier();
        let outer = self.anchor;
        for stmt in &block.stmts {
            self.anchor = NodeId::of(stmt);
            self.visit_stmt(stmt);
        }
        self.anchor = outer;
        self.barrier();
    }

    /// A condition that is evaluated again and again, or that has a `let`: a context of its own, in
    /// as many parts as needed.
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

    fn bang(&mut self, operand: &Expr) {
        let id = NodeId::of(operand);
        let found = Operand::inspect(operand, self.control);
        if found.suspends {
            self.visit_expr(operand);
        } else {
            self.macros(operand);
            if let Some(open) = &mut self.open
                && self.plan.groups[open.group].members.len() < LARGEST
                && !open.bound.iter().any(|name| found.mentioned.contains(name))
                && !open.read.iter().any(|name| found.disturbed.contains(name))
            {
                let members = &mut self.plan.groups[open.group].members;
                self.plan.bangs.insert(id, (open.group, members.len()));
                members.push(id);
                return;
            }
        }
        let group = self.plan.groups.len();
        self.plan.groups.push(Group { anchor: self.anchor, members: vec![id] });
        self.plan.bangs.insert(id, (group, 0));
        self.open = Some(Open { group, read: Vec::new(), bound: Vec::new() });
    }

    /// Looks for bangs where they cannot be understood.
    fn macros(&mut self, e: &Expr) {
        struct Macros<'a>(&'a mut Problems);
        impl<'a> Visit<'a> for Macros<'_> {
            fn visit_macro(&mut self, mac: &'a Macro) {
                foreign(mac, self.0);
            }
            fn visit_expr_call(&mut self, e: &'a syn::ExprCall) {
                match arguments::opened(e) {
                    Some(_) => e.args.iter().for_each(|arg| self.visit_expr(arg)),
                    None => visit::visit_expr_call(self, e),
                }
            }
            fn visit_item(&mut self, _: &'a syn::Item) {}
        }
        Macros(self.problems).visit_expr(e);
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
            match attributes::conditional(&local.attrs) {
                true => self.region(&init.expr),
                false => self.visit_expr(&init.expr),
            }
            if let Some((_, otherwise)) = &init.diverge {
                self.region(otherwise);
            }
        }
        if let Some(open) = &mut self.open {
            let mut names = Names(Vec::new());
            names.visit_pat(&local.pat);
            open.bound.extend(names.0);
        }
    }

    fn visit_field_value(&mut self, field: &'a syn::FieldValue) {
        match attributes::conditional(&field.attrs) {
            true => self.region(&field.expr),
            false => self.visit_expr(&field.expr),
        }
    }

    fn visit_stmt_macro(&mut self, stmt: &'a syn::StmtMacro) {
        self.visit_macro(&stmt.mac);
    }

    fn visit_macro(&mut self, mac: &'a Macro) {
        foreign(mac, self.problems);
        self.barrier();
    }

    fn visit_expr_unary(&mut self, e: &'a syn::ExprUnary) {
        match e.op {
            UnOp::Not(_) if !self.control.plain.contains(&NodeId::of(&*e.expr)) => self.bang(&e.expr),
            _ => self.visit_expr(&e.expr),
        }
    }

    fn visit_expr_binary(&mut self, e: &'a syn::ExprBinary) {
        if matches!(e.op, BinOp::And(_) | BinOp::Or(_)) {
            self.visit_expr(&e.left);
            self.condition(&e.right);
        } else if is_compound(&e.op) {
            // Which side comes first depends on the types.
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
        match arguments::opened(e) {
            Some(mac) => {
                let always = arguments::always_evaluated(mac);
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
        self.plan.tries = true;
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
        match attributes::inside(e) {
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

/// The names in a pattern.
struct Names(Vec<Ident>);

impl<'a> Visit<'a> for Names {
    fn visit_pat_ident(&mut self, pat: &'a syn::PatIdent) {
        self.0.push(pat.ident.clone());
        visit::visit_pat_ident(self, pat);
    }
}

/// What the operand of a bang does.
struct Operand<'a> {
    control: &'a Control,
    /// It contains a bang, `?`, `return`, `break` or `.await`.
    suspends: bool,
    mentioned: HashSet<Ident>,
    /// The names whose variables it may change.
    disturbed: HashSet<Ident>,
    /// How many constructs we are inside of where any mention counts as a change.
    inside: usize,
    /// How many closures we are inside of.
    closures: usize,
    /// Whether a name here gives its value away.
    taken: bool,
}

impl<'c> Operand<'c> {
    fn inspect(e: &Expr, control: &'c Control) -> Operand<'c> {
        let mut operand = Operand {
            control,
            suspends: false,
            mentioned: HashSet::new(),
            disturbed: HashSet::new(),
            inside: 0,
            closures: 0,
            taken: false,
        };
        operand.visit_expr(e);
        operand
    }

    fn within(&mut self, visit: impl FnOnce(&mut Self)) {
        self.inside += 1;
        visit(self);
        self.inside -= 1;
    }

    fn taken<'a>(&mut self, args: impl IntoIterator<Item = &'a Expr>) {
        let outer = std::mem::replace(&mut self.taken, true);
        args.into_iter().for_each(|arg| self.visit_expr(arg));
        self.taken = outer;
    }

    fn suspends(&mut self) {
        self.suspends |= self.closures == 0;
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(name) => self.name(&name),
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(_) | TokenTree::Punct(_) => {}
            }
        }
    }

    fn name(&mut self, name: &Ident) {
        self.mentioned.insert(name.clone());
        if self.inside > 0 {
            self.disturbed.insert(name.clone());
        }
    }
}

impl<'a> Visit<'a> for Operand<'_> {
    fn visit_item(&mut self, _: &'a syn::Item) {}
    fn visit_type(&mut self, _: &'a syn::Type) {}

    fn visit_expr(&mut self, e: &'a Expr) {
        let outer = self.taken;
        self.taken &= match e {
            Expr::Path(_) | Expr::Paren(_) | Expr::Group(_) | Expr::Tuple(_) | Expr::Array(_) => true,
            Expr::Struct(_) | Expr::Match(_) => true,
            // a `&mut` can be there
            Expr::Field(_) | Expr::Index(_) => true,
            Expr::Unary(e) => matches!(e.op, UnOp::Deref(_)),
            _ => false,
        };
        visit::visit_expr(self, e);
        self.taken = outer;
    }

    fn visit_expr_path(&mut self, e: &'a syn::ExprPath) {
        if let Some(name) = e.path.get_ident() {
            self.name(name);
            if self.taken && !self.control.given.contains(&NodeId::of(e)) {
                self.disturbed.insert(name.clone());
            }
        }
    }

    fn visit_macro(&mut self, mac: &'a Macro) {
        self.within(|operand| {
            operand.tokens(mac.tokens.clone());
            format::captured(mac).iter().for_each(|name| operand.name(name));
        });
    }

    fn visit_expr_unary(&mut self, e: &'a syn::ExprUnary) {
        if matches!(e.op, UnOp::Not(_)) && !self.control.plain.contains(&NodeId::of(&*e.expr)) {
            self.suspends();
        }
        self.visit_expr(&e.expr);
    }

    fn visit_expr_try(&mut self, e: &'a syn::ExprTry) {
        self.suspends();
        self.visit_expr(&e.expr);
    }

    fn visit_expr_await(&mut self, e: &'a syn::ExprAwait) {
        self.suspends();
        self.visit_expr(&e.base);
    }

    fn visit_expr_return(&mut self, _: &'a syn::ExprReturn) {
        self.suspends();
    }

    fn visit_expr_break(&mut self, _: &'a syn::ExprBreak) {
        self.suspends();
    }

    fn visit_expr_continue(&mut self, _: &'a syn::ExprContinue) {
        self.suspends();
    }

    fn visit_expr_reference(&mut self, e: &'a syn::ExprReference) {
        if e.mutability.is_some() {
            self.within(|operand| operand.visit_expr(&e.expr));
        } else {
            self.visit_expr(&e.expr);
        }
    }

    fn visit_expr_method_call(&mut self, e: &'a syn::ExprMethodCall) {
        self.within(|operand| operand.visit_expr(&e.receiver));
        self.taken(&e.args);
    }

    fn visit_expr_call(&mut self, e: &'a syn::ExprCall) {
        self.within(|operand| operand.visit_expr(&e.func));
        match arguments::opened(e) {
            Some(mac) if !arguments::takes(mac) => e.args.iter().for_each(|arg| self.visit_expr(arg)),
            _ => self.taken(&e.args),
        }
    }

    fn visit_expr_index(&mut self, e: &'a syn::ExprIndex) {
        self.visit_expr(&e.expr);
        let outer = std::mem::replace(&mut self.taken, false);
        self.visit_expr(&e.index);
        self.taken = outer;
    }

    fn visit_expr_closure(&mut self, e: &'a syn::ExprClosure) {
        self.closures += 1;
        self.within(|operand| operand.visit_expr(&e.body));
        self.closures -= 1;
    }

    fn visit_block(&mut self, block: &'a Block) {
        self.within(|operand| visit::visit_block(operand, block));
    }

    fn visit_expr_assign(&mut self, e: &'a syn::ExprAssign) {
        self.within(|operand| visit::visit_expr_assign(operand, e));
    }
}

/// A macro that we cannot look into: a bang in it is an error, rather than a `!` that means
/// something else.
fn foreign(mac: &Macro, problems: &mut Problems) {
    // It knows what a bang is.
    if mac.path.segments.last().is_some_and(|segment| segment.ident == "direct") {
        return;
    }
    let mut previous: Option<TokenTree> = None;
    let mut tokens = mac.tokens.clone().into_iter().peekable();
    while let Some(token) = tokens.next() {
        if let TokenTree::Punct(punct) = &token
            && punct.as_char() == '!'
        {
            let operand = match tokens.peek() {
                Some(TokenTree::Ident(_)) => true,
                Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Parenthesis,
                _ => false,
            };
            let after = matches!(&previous, Some(TokenTree::Ident(_) | TokenTree::Literal(_) | TokenTree::Group(_)));
            if operand && !after {
                let name = mac.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
                problems.at(
                    token.clone(),
                    format!(
                        "`!` cannot be understood inside `{name}!`, whose arguments only it knows\n\
                         help: take the value before: `let value = !…;`, and use `value` in the macro"
                    ),
                );
            }
        }
        if let TokenTree::Group(group) = &token {
            foreign(&Macro { tokens: group.stream(), ..mac.clone() }, problems);
        }
        previous = Some(token);
    }
}
