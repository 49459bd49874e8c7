//! The control flow of a function, as far as its variables are concerned.
//!
//! ```text
//! // Input:  let y = x * x; if c { y } else { y + x }
//! // Output: Operand(x) Operand(x) Write(y) Read(c) Either { Read(y) | Operand(y) Operand(x) }
//! ```

mod names;

use crate::arguments;
use crate::attributes;
use crate::direct;
use crate::format;
use crate::known::{is_arithmetic, is_compound, is_primitive};
use crate::node::{NodeId, bare, is_place, variable};
use names::{Known, named};
use std::collections::HashSet;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, Ident, Label, Lifetime, Pat, Stmt, Type, UnOp};

/// A variable: one binding, not one name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Var(pub(crate) usize);

/// A loop or a labelled block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Target(usize);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Jump {
    Break(Target),
    Continue(Target),
}

#[derive(Debug)]
pub(crate) enum Flow {
    Read(Var),
    /// Read as an operand of an operator, which takes it.
    Operand(Var, NodeId),
    Write(Var),
    Either(Vec<Vec<Flow>>),
    Block(Target, Vec<Flow>),
    Loop(Target, Vec<Flow>),
    Jump(Jump),
    /// `return`.
    Leave,
}

pub(crate) struct Variable {
    name: String,
    known: Known,
    /// Something that may outlive the statement refers to it: it cannot be moved, although its name
    /// may not come up again.
    pub(crate) borrowed: bool,
    /// How many closures it is inside of.
    depth: usize,
}

/// What there is to know about the variables of a function.
pub(crate) struct Control {
    pub(crate) variables: Vec<Variable>,
    /// The function, and each closure and `async` block in it.
    pub(crate) roots: Vec<Vec<Flow>>,
    /// Operands that must be duplicated whatever is used later.
    pub(crate) always: HashSet<NodeId>,
    /// Operands of `!` that are plain: no bang.
    pub(crate) plain: HashSet<NodeId>,
    /// Names that stand for what can be given away and is still there, unchanged: numbers, shared
    /// references, and what is no variable.
    pub(crate) given: HashSet<NodeId>,
    /// Names that are used as values and are no variables of the function.
    pub(crate) free: Vec<Ident>,
}

/// Reads the control flow of a function. In a `lazy` one, `!` is a bang.
pub(crate) fn control<'a>(parameters: impl Iterator<Item = (&'a Pat, &'a Type)>, body: &Block, lazy: bool) -> Control {
    let control = Control {
        variables: Vec::new(),
        roots: Vec::new(),
        always: HashSet::new(),
        plain: HashSet::new(),
        given: HashSet::new(),
        free: Vec::new(),
    };
    let mut reader = Reader {
        control,
        flow: Vec::new(),
        scope: Vec::new(),
        items: Vec::new(),
        targets: Vec::new(),
        next: 0,
        depth: 0,
        lazy,
        bangs: 0,
        binding: false,
        held: Vec::new(),
    };
    for (pat, ty) in parameters {
        reader.bind(pat, Known::default().of_type(ty));
    }
    reader.visit_block(body);
    let flow = std::mem::take(&mut reader.flow);
    reader.control.roots.push(flow);
    reader.control
}

struct Reader {
    control: Control,
    flow: Vec<Flow>,
    scope: Vec<Var>,
    /// Functions, statics and what is imported, in the blocks that we are inside of.
    items: Vec<Ident>,
    targets: Vec<(Option<Lifetime>, Target, bool)>,
    next: usize,
    /// How many closures we are inside of.
    depth: usize,
    lazy: bool,
    /// How many bangs we are inside of.
    bangs: usize,
    /// Whether a borrow made here may last beyond the statement.
    binding: bool,
    /// What has been borrowed for the expressions that we are inside of: it stays so until the
    /// innermost of them is through.
    held: Vec<Var>,
}

impl Reader {
    /// The flow of a part that is read with `read`.
    fn part(&mut self, read: impl FnOnce(&mut Self)) -> Vec<Flow> {
        let outer = std::mem::take(&mut self.flow);
        let scope = self.scope.len();
        read(self);
        self.scope.truncate(scope);
        std::mem::replace(&mut self.flow, outer)
    }

    /// Reads what may be compiled out.
    fn perhaps(&mut self, conditional: bool, read: impl FnOnce(&mut Self)) {
        if conditional {
            let part = self.part(read);
            self.flow.push(Flow::Either(vec![part, Vec::new()]));
        } else {
            read(self);
        }
    }

    fn jump_target(
        &mut self,
        label: Option<&Label>,
        is_loop: bool,
        read: impl FnOnce(&mut Self, Target),
    ) -> (Target, Vec<Flow>) {
        let target = Target(self.next);
        self.next += 1;
        self.targets.push((label.map(|label| label.name.clone()), target, is_loop));
        let body = self.part(|reader| read(reader, target));
        self.targets.pop();
        (target, body)
    }

    fn target(&self, label: Option<&Lifetime>) -> Option<Target> {
        let mut targets = self.targets.iter().rev();
        match label {
            Some(label) => targets.find(|(name, ..)| name.as_ref() == Some(label)),
            None => targets.find(|(_, _, is_loop)| *is_loop),
        }
        .map(|(_, target, _)| *target)
    }

    /// Reads a part whose borrows may last.
    fn binding(&mut self, binding: bool, read: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.binding, binding);
        read(self);
        self.binding = outer;
    }

    /// An expression that uses what its parts borrow, and so reads it after them. What is made of
    /// it may go on to borrow that.
    ///
    /// ```text
    /// // Input:  f(&h, h * 2.0)
    /// // Output: Read(h) Operand(h) Read(h)
    /// ```
    fn using(&mut self, goes_on: bool, read: impl FnOnce(&mut Self)) {
        let before = self.held.len();
        read(self);
        self.flow.extend(self.held[before..].iter().copied().map(Flow::Read));
        if !goes_on {
            self.held.truncate(before);
        }
    }

    /// An operand of an operator.
    fn operand(&mut self, operand: &Expr) {
        let id = NodeId::of(operand);
        let var = match variable(operand) {
            Some(name) => self.lookup(name),
            None => {
                if is_place(operand) && !matches!(bare(operand), Expr::Path(_)) {
                    self.control.always.insert(id);
                }
                return self.visit_expr(operand);
            }
        };
        let Some(var) = var else { return self.visit_expr(operand) };
        let variable = &self.control.variables[var.0];
        if variable.known.plain {
            self.flow.push(Flow::Read(var));
        } else if variable.depth < self.depth || self.bangs > 0 {
            // A closure may run again; what is built for a bang may be built earlier than it is
            // written.
            self.control.always.insert(id);
            self.flow.push(Flow::Read(var));
        } else {
            self.flow.push(Flow::Operand(var, id));
        }
    }

    /// A closure or an `async` block: a flow of its own, and a read of everything it captures.
    fn capture(&mut self, moves: bool, read: impl FnOnce(&mut Self)) {
        let (targets, bangs) = (std::mem::take(&mut self.targets), std::mem::take(&mut self.bangs));
        self.depth += 1;
        let (lazy, binding) = (std::mem::replace(&mut self.lazy, false), std::mem::replace(&mut self.binding, false));
        let held = std::mem::take(&mut self.held);
        let body = self.part(read);
        (self.lazy, self.binding, self.held) = (lazy, binding, held);
        self.depth -= 1;
        (self.targets, self.bangs) = (targets, bangs);
        let mut captured = Vec::new();
        collect(&body, &mut captured);
        captured.retain(|var| self.control.variables[var.0].depth <= self.depth);
        for var in captured {
            self.control.variables[var.0].borrowed |= self.binding && !moves;
            self.held.extend((!moves).then_some(var));
            self.flow.push(Flow::Read(var));
        }
        self.control.roots.push(body);
    }

    fn assign(&mut self, left: &Expr) {
        match bare(left) {
            Expr::Tuple(left) => left.elems.iter().for_each(|e| self.assign(e)),
            Expr::Array(left) => left.elems.iter().for_each(|e| self.assign(e)),
            Expr::Path(_) => {
                if let Some(var) = variable(left).and_then(|name| self.lookup(name)) {
                    self.flow.push(Flow::Write(var));
                }
            }
            left => self.visit_expr(left),
        }
    }
}

/// The variables that a flow reads.
fn collect(flow: &[Flow], into: &mut Vec<Var>) {
    for step in flow {
        match step {
            Flow::Read(var) | Flow::Operand(var, _) | Flow::Write(var) => into.push(*var),
            Flow::Either(ways) => ways.iter().for_each(|way| collect(way, into)),
            Flow::Block(_, body) | Flow::Loop(_, body) => collect(body, into),
            Flow::Jump(_) | Flow::Leave => {}
        }
    }
}

impl<'a> Visit<'a> for Reader {
    fn visit_item(&mut self, _: &'a syn::Item) {}
    fn visit_type(&mut self, _: &'a Type) {}
    fn visit_expr_const(&mut self, _: &'a syn::ExprConst) {}

    fn visit_expr_repeat(&mut self, e: &'a syn::ExprRepeat) {
        self.visit_expr(&e.expr);
    }

    fn visit_expr_path(&mut self, e: &'a syn::ExprPath) {
        if let Some(name) = e.path.get_ident() {
            self.read(name);
            self.free(name);
            if self.lookup(name).is_none_or(|var| self.known(var).is_given()) {
                self.control.given.insert(NodeId::of(e));
            }
        }
    }

    fn visit_macro(&mut self, mac: &'a syn::Macro) {
        let captured = direct::captured(mac);
        if captured.is_none() {
            self.tokens(mac.tokens.clone());
        }
        self.captured(captured.unwrap_or_else(|| format::captured(mac)));
    }

    fn visit_block(&mut self, block: &'a Block) {
        let (scope, items) = (self.scope.len(), self.items.len());
        for stmt in &block.stmts {
            if let Stmt::Item(item) = stmt {
                self.items.extend(named(item));
            }
        }
        let last = block.stmts.len().saturating_sub(1);
        for (i, stmt) in block.stmts.iter().enumerate() {
            let conditional = matches!(stmt, Stmt::Expr(Expr::Block(e), None) if attributes::conditional(&e.attrs));
            let tail = i == last && matches!(stmt, Stmt::Expr(_, None));
            let held = self.held.len();
            self.binding(self.binding && (tail || conditional), |reader| reader.visit_stmt(stmt));
            if !tail {
                self.held.truncate(held);
            }
        }
        self.scope.truncate(scope);
        self.items.truncate(items);
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        let conditional = attributes::conditional(&local.attrs);
        let mut known = Known::default();
        self.perhaps(conditional, |reader| {
            let Some(init) = &local.init else { return };
            reader.binding(true, |reader| reader.visit_expr(&init.expr));
            let plain = !matches!(local.pat, Pat::Type(_)) && reader.is_plain(&init.expr);
            known = Known { plain, ..reader.matched(&init.expr) };
            if let Some((_, otherwise)) = &init.diverge {
                let otherwise = reader.part(|reader| reader.visit_expr(otherwise));
                reader.flow.push(Flow::Either(vec![otherwise, Vec::new()]));
            }
        });
        self.bind_perhaps(&local.pat, known, conditional);
    }

    fn visit_field_value(&mut self, field: &'a syn::FieldValue) {
        self.perhaps(attributes::conditional(&field.attrs), |reader| reader.visit_expr(&field.expr));
    }

    fn visit_expr_let(&mut self, e: &'a syn::ExprLet) {
        if is_place(&e.expr) {
            self.borrow(&e.expr);
        }
        self.binding(true, |reader| reader.visit_expr(&e.expr));
        let known = self.matched(&e.expr);
        self.bind(&e.pat, known);
    }

    fn visit_expr_cast(&mut self, e: &'a syn::ExprCast) {
        self.visit_expr(&e.expr);
        if is_primitive(&e.ty)
            && let Some(var) = variable(&e.expr).and_then(|name| self.lookup(name))
        {
            self.control.variables[var.0].known.cast = true;
        }
    }

    fn visit_expr_binary(&mut self, e: &'a syn::ExprBinary) {
        if matches!(e.op, BinOp::And(_) | BinOp::Or(_)) {
            self.visit_expr(&e.left);
            // What a `let` binds on the right is still in scope after it.
            let outer = std::mem::take(&mut self.flow);
            self.visit_expr(&e.right);
            let right = std::mem::replace(&mut self.flow, outer);
            self.flow.push(Flow::Either(vec![right, Vec::new()]));
            return;
        }
        self.using(false, |reader| {
            if is_arithmetic(&e.op) {
                reader.operand(&e.left);
                reader.operand(&e.right);
            } else if is_compound(&e.op) {
                reader.operand(&e.right);
                reader.visit_expr(&e.left);
            } else {
                reader.visit_expr(&e.left);
                // a comparison borrows what it compares
                let left = variable(&e.left).and_then(|name| reader.lookup(name));
                reader.held.extend(left);
                reader.visit_expr(&e.right);
            }
        });
    }

    fn visit_expr_unary(&mut self, e: &'a syn::ExprUnary) {
        match e.op {
            UnOp::Neg(_) => self.using(false, |reader| reader.operand(&e.expr)),
            UnOp::Not(_) if self.is_plain(&e.expr) => {
                self.control.plain.insert(NodeId::of(&*e.expr));
                self.visit_expr(&e.expr);
            }
            UnOp::Not(_) if self.lazy => {
                self.bangs += 1;
                self.visit_expr(&e.expr);
                self.bangs -= 1;
            }
            _ => self.visit_expr(&e.expr),
        }
    }

    fn visit_expr_assign(&mut self, e: &'a syn::ExprAssign) {
        self.binding(true, |reader| reader.visit_expr(&e.right));
        self.assign(&e.left);
    }

    fn visit_expr_reference(&mut self, e: &'a syn::ExprReference) {
        if self.binding {
            self.borrow(&e.expr);
        }
        self.visit_expr(&e.expr);
        let owner = self.owner(&e.expr);
        self.held.extend(owner);
    }

    fn visit_expr_tuple(&mut self, e: &'a syn::ExprTuple) {
        self.using(true, |reader| visit::visit_expr_tuple(reader, e));
    }

    fn visit_expr_array(&mut self, e: &'a syn::ExprArray) {
        self.using(true, |reader| visit::visit_expr_array(reader, e));
    }

    fn visit_expr_struct(&mut self, e: &'a syn::ExprStruct) {
        self.using(true, |reader| visit::visit_expr_struct(reader, e));
    }

    fn visit_expr_method_call(&mut self, e: &'a syn::ExprMethodCall) {
        if self.binding && is_place(&e.receiver) {
            self.borrow(&e.receiver);
        }
        self.using(false, |reader| {
            reader.visit_expr(&e.receiver);
            let receiver = variable(&e.receiver).and_then(|name| reader.lookup(name));
            reader.held.extend(receiver);
            // `v.push(&x)` keeps the reference.
            reader.binding(true, |reader| e.args.iter().for_each(|arg| reader.visit_expr(arg)));
        });
    }

    fn visit_expr_call(&mut self, e: &'a syn::ExprCall) {
        if let Some(mac) = arguments::opened(e) {
            let takes = arguments::takes(mac);
            self.using(takes, |reader| {
                reader.binding(reader.binding && takes, |reader| {
                    for arg in &e.args {
                        reader.visit_expr(arg);
                        let borrowed = if takes { None } else { reader.owner(arg) };
                        reader.held.extend(borrowed);
                    }
                });
                // what a format string captures comes after its arguments, of which only a guard is
                // still among the tokens
                match arguments::format_string(mac) {
                    Some(_) => reader.captured(format::captured(mac)),
                    None => reader.visit_macro(mac),
                }
            });
        } else if let Some(name) = variable(&e.func) {
            // Most often a function, which nothing has to be done for.
            self.read(name);
            let makes = name.to_string().starts_with(char::is_uppercase);
            self.using(makes, |reader| e.args.iter().for_each(|arg| reader.visit_expr(arg)));
        } else {
            self.using(false, |reader| visit::visit_expr_call(reader, e));
        }
    }

    fn visit_expr_closure(&mut self, e: &'a syn::ExprClosure) {
        self.capture(e.capture.is_some(), |reader| {
            for pat in &e.inputs {
                reader.bind(pat, Known::default());
            }
            reader.visit_expr(&e.body);
        });
    }

    fn visit_expr_async(&mut self, e: &'a syn::ExprAsync) {
        self.capture(e.capture.is_some(), |reader| reader.visit_block(&e.block));
    }

    fn visit_expr_if(&mut self, e: &'a syn::ExprIf) {
        let scope = self.scope.len();
        self.visit_expr(&e.cond);
        let then = self.part(|reader| reader.visit_block(&e.then_branch));
        self.scope.truncate(scope);
        let otherwise = self.part(|reader| {
            if let Some((_, otherwise)) = &e.else_branch {
                reader.visit_expr(otherwise);
            }
        });
        self.flow.push(Flow::Either(vec![then, otherwise]));
    }

    fn visit_expr_match(&mut self, e: &'a syn::ExprMatch) {
        if is_place(&e.expr) {
            self.borrow(&e.expr);
        }
        self.binding(true, |reader| reader.visit_expr(&e.expr));
        // When a guard says no, any other arm may follow: so all guards come before all bodies.
        let mut bodies = Vec::new();
        let known = self.matched(&e.expr);
        for arm in &e.arms {
            let scope = self.scope.len();
            self.bind(&arm.pat, known);
            if let Some((_, guard)) = &arm.guard {
                self.visit_expr(guard);
            }
            bodies.push(self.part(|reader| reader.visit_expr(&arm.body)));
            self.scope.truncate(scope);
        }
        self.flow.push(Flow::Either(bodies));
    }

    fn visit_expr_block(&mut self, e: &'a syn::ExprBlock) {
        self.perhaps(attributes::conditional(&e.attrs), |reader| {
            let (target, body) = reader.jump_target(e.label.as_ref(), false, |reader, _| reader.visit_block(&e.block));
            reader.flow.push(Flow::Block(target, body));
        });
    }

    fn visit_expr_loop(&mut self, e: &'a syn::ExprLoop) {
        let (target, body) = self.jump_target(e.label.as_ref(), true, |reader, _| reader.visit_block(&e.body));
        self.flow.push(Flow::Loop(target, body));
    }

    fn visit_expr_while(&mut self, e: &'a syn::ExprWhile) {
        let (target, body) = self.jump_target(e.label.as_ref(), true, |reader, target| {
            reader.visit_expr(&e.cond);
            reader.flow.push(Flow::Either(vec![vec![Flow::Jump(Jump::Break(target))], Vec::new()]));
            reader.visit_block(&e.body);
        });
        self.flow.push(Flow::Loop(target, body));
    }

    fn visit_expr_for_loop(&mut self, e: &'a syn::ExprForLoop) {
        self.binding(true, |reader| reader.visit_expr(&e.expr));
        let plain = matches!(bare(&e.expr), Expr::Range(range)
            if range.start.iter().chain(&range.end).all(|end| self.is_plain(end)));
        let known = Known { plain, shared: self.lends(&e.expr), cast: false };
        let (target, body) = self.jump_target(e.label.as_ref(), true, |reader, target| {
            reader.flow.push(Flow::Either(vec![vec![Flow::Jump(Jump::Break(target))], Vec::new()]));
            reader.bind(&e.pat, known);
            reader.visit_block(&e.body);
        });
        self.flow.push(Flow::Loop(target, body));
    }

    fn visit_expr_break(&mut self, e: &'a syn::ExprBreak) {
        visit::visit_expr_break(self, e);
        self.flow.push(self.target(e.label.as_ref()).map_or(Flow::Leave, |target| Flow::Jump(Jump::Break(target))));
    }

    fn visit_expr_continue(&mut self, e: &'a syn::ExprContinue) {
        self.flow.push(self.target(e.label.as_ref()).map_or(Flow::Leave, |target| Flow::Jump(Jump::Continue(target))));
    }

    fn visit_expr_return(&mut self, e: &'a syn::ExprReturn) {
        visit::visit_expr_return(self, e);
        self.flow.push(Flow::Leave);
    }
}
