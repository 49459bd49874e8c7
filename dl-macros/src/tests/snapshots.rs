//! The expansions of examples: one file in `snapshots/` for each rule, named after it.
//!
//! `UPDATE_EXPECT=1 cargo test -p monadic-dl-macros` rewrites the files.

use expect_test::expect_file;
use proc_macro2::TokenStream;
use std::fmt::Write;
use syn::visit::{self, Visit};
use syn::visit_mut::VisitMut;
use syn::{Block, Expr, Pat, Stmt};

/// The part of an expansion that a snapshot shows.
#[derive(PartialEq)]
enum Shown {
    /// The whole expansion.
    Whole,
    /// The signature of each function with its rewritten body, without the call frame and the code
    /// that stores the parameters.
    Body,
}

/// Expands examples and compares the result with the file of the rule. An example may begin with the
/// options of the attribute or the name of another macro, followed by `|`.
fn check(rule: &str, shown: &Shown, examples: &[&str]) {
    let mut text = String::new();
    for example in examples {
        let (options, item) = match example.split_once('|') {
            Some((options, item)) if options.len() < 40 && !options.contains("fn ") => (options, item),
            _ => ("", *example),
        };
        let item: TokenStream = item.parse().expect("the example is Rust");
        let options: TokenStream = options.parse().expect("the options are Rust");
        let expanded = match options.to_string().as_str() {
            "direct" => crate::entry::direct(item.clone()),
            "Layers" => {
                let implementation = crate::derive::layers::derive(item.clone());
                quote::quote!(#item #implementation)
            }
            "Variables" => crate::derive::variables::derive(item.clone()),
            "Module" => {
                let implementation = crate::derive::module::derive(item.clone());
                quote::quote!(#item #implementation)
            }
            "remote" => crate::derive::remote::remote(TokenStream::new(), item.clone()),
            "remote crate" => crate::derive::remote::remote(quote::quote!(crate = my::dl), item.clone()),
            _ => crate::entry::differentiable(options, item.clone()),
        };
        let expanded = if syn::parse2::<Block>(expanded.clone()).is_ok() {
            quote::quote!(fn around() #expanded)
        } else {
            expanded
        };
        let output = match syn::parse2::<syn::File>(expanded.clone()) {
            Ok(mut file) => {
                if *shown == Shown::Body {
                    BodyOnly.visit_file_mut(&mut file);
                }
                prettyplease::unparse(&file)
            }
            Err(error) => panic!("the expansion is no Rust: {error}\n{expanded}"),
        };
        let input = match syn::parse2::<syn::File>(item.clone()) {
            Ok(file) => prettyplease::unparse(&file),
            Err(_) => item.to_string(),
        };
        let output = without_allowed_lints(&output);
        for line in input.lines() {
            writeln!(text, "// {line}").unwrap();
        }
        writeln!(text, "{output}").unwrap();
    }
    expect_file![format!("../../snapshots/{rule}.rs")].assert_eq(&text);
}

/// The text without `#[allow(…)]` over several lines, which every expanded function has.
fn without_allowed_lints(text: &str) -> String {
    let mut lines = Vec::new();
    let mut skipping = false;
    for line in text.lines() {
        skipping |= line.trim() == "#[allow(";
        if !skipping {
            lines.push(line);
        }
        skipping &= line.trim() != ")]";
    }
    lines.join("\n") + "\n"
}

/// Reduces each top-level function to its rewritten body.
struct BodyOnly;

impl VisitMut for BodyOnly {
    fn visit_item_fn_mut(&mut self, function: &mut syn::ItemFn) {
        function.attrs.retain(|attribute| !attribute.path().is_ident("track_caller"));
        let mut finder = Finder { future: None, frame: None };
        finder.visit_block(&function.block);
        if let Some(future) = finder.future {
            function.block.stmts = future.stmts.iter().flat_map(body_of_future).collect();
        } else if let Some(frame) = finder.frame {
            *function.block = frame;
        }
    }
}

/// The statements to show for a statement of the future: the table of branches, and the body.
fn body_of_future(stmt: &Stmt) -> Vec<Stmt> {
    let Stmt::Local(local) = stmt else { return Vec::new() };
    let pat = if let Pat::Type(pat) = &local.pat { &pat.pat } else { &local.pat };
    match (pat, local.init.as_ref().map(|init| &*init.expr)) {
        (Pat::Ident(pat), _) if pat.ident == "branches" => vec![stmt.clone()],
        (Pat::Ident(pat), Some(Expr::Block(body))) if pat.ident == "tail" => body.block.stmts.clone(),
        _ => Vec::new(),
    }
}

/// Finds the first `async` block, and the block of the closure in the first call of `run`.
struct Finder {
    future: Option<Block>,
    frame: Option<Block>,
}

impl<'a> Visit<'a> for Finder {
    fn visit_expr_async(&mut self, e: &'a syn::ExprAsync) {
        self.future.get_or_insert_with(|| e.block.clone());
    }

    fn visit_expr_method_call(&mut self, e: &'a syn::ExprMethodCall) {
        if e.method == "run"
            && let Some(Expr::Closure(closure)) = e.args.first()
            && let Expr::Block(body) = &*closure.body
        {
            self.frame.get_or_insert_with(|| body.block.clone());
        }
        visit::visit_expr_method_call(self, e);
    }
}

macro_rules! rules {
    ($shown:ident; $($name:ident: $($example:literal),+;)*) => {
        $(#[test] fn $name() { check(stringify!($name), &Shown::$shown, &[$($example),+]); })*
    };
}

rules! {
    Whole;
    bang_of_a_place: "fn f(x: &Layer<f32>) -> Layer<f32> { let v = !x; x * v }";
    gated_net: "fn gated_net(input: &NdLayer, net: &Net) -> NdLayer { let scores = net.gate(input); let (left, right) = !scores; if left > right { scores.0 * net.left.of(input) } else { scores.1 * net.right.of(input) } }";
    joined_lets: "fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> { let a = !x; let b = !y; x * a * b }";
    joined_not_across_a_call: "fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> { let a = !x; let k = g(); let b = !y; x * a * b * k }";
    while_condition: "fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> { let mut z = x; while !z < !y { z = z * 2.0; } z }";
    question_mark: "fn f(text: &str, x: Layer<f32>) -> Layer<f32> { let n: f32 = text.parse()?; x * n }";
    early_return: "fn f(x: &Layer<f32>) -> Layer<f32> { if !x < 0.0 { return -x; } x * 2.0 }";
    receiver: "fn of(&self, x: &Layer<f32>) -> Layer<f32> { if !x > self.limit { self.weight * x } else { x * 2.0 } }",
        "fn of(self, x: &Layer<f32>) -> Layer<f32> { println!(\"{}\", self.limit); if !x > self.limit { self.weight * x } else { x * 2.0 } }";
    parameters: "fn f((a, b): (Layer<f32>, f32), mut n: usize, names: &[String], _: u8) -> Layer<f32> { n += 1; a * (!a + b) * n as f32 * names.len() as f32 }";
    polymorphic: "fn f(a: impl NdExpression, b: &impl NdExpression) -> NdLayer { a * b }",
        "fn f(xs: &[impl Scorer + Clone], x: &Layer<f32>) -> Layer<f32> { x * !x * xs.len() as f32 }",
        "fn f<A: NdExpression, B>(a: A, b: &B) -> NdLayer where B: Expression { if !a > 0.0 { a * b } else { a } }";
    opaque_result: "fn f(a: impl Expression) -> impl Expression { if !a > 0.0 { return a; } a * 2.0 }";
    tuple_result: "fn cell(h: &NdLayer, c: &NdLayer) -> (NdLayer, NdLayer) { if !h > !c { (h * c, c.clone()) } else { (h.clone(), c * h) } }";
    computation_result: "fn f(x: &Layer<f32>) -> Do<f32> { let v = !x; Do::now(v * 2.0) }";
    operands_used_later: "fn square(x: &Layer<f32>, y: f32) -> Layer<f32> { let difference = x - y; difference * difference }";
    options: "crate = my::dl, lazy|fn f(x: &Score) -> Score { let v = !x; x * v }";
    items_survive_errors: "async fn f(x: &mut Layer<f64>) -> Layer<f64> { x * !x }",
        "eager|pub(crate) fn f(&self, x: &dyn Module) -> NdLayer { !x }",
        "struct Net { weight: NdWeight }";
    compiled_functions: "compiled|fn f(x: &NdLayer, layer: impl NdExpression, n: usize) -> (NdLayer, NdLayer) { if n > 1 { return (x * layer, x.clone()); } (x.clone(), x * x) }",
        "compiled|impl Net { fn new() -> Net { Net } fn of(&self, x: &NdLayer) -> NdLayer { x * self.weight } }",
        "compiled(grouped)|fn f(x: &NdLayer, w: &NdWeight) -> NdLayer { x.matmul(w) }",
        "compiled|fn f(x: &NdLayer, (a, b): (f64, f64)) -> NdLayer { x * !x }";
    plain_functions: "fn f(flag: bool, text: &str) -> Result<u8, Error> { if !flag { return Ok(1); } let n: u8 = text.parse()?; Ok(n + !n) }";
    whole_blocks: "impl Module for Net { const fn size() -> usize { !0 } fn of(&self, x: &Layer<f32>) -> Layer<f32> { x * !x } #[differentiable(lazy)] fn own(&self) -> Score { !x } }",
        "crate = deep|mod nets { struct Net; fn f(x: Layer<f32>) -> Layer<f32> { x * !x } fn g(n: usize) -> usize { !n } trait Module { fn size(&self) -> usize; fn of(&self, x: Layer<f32>) -> Layer<f32> { x * x } } }";
    direct_blocks: "direct|if !x > limit { x * scale(k) } else { return y.layer(); }",
        "direct|crate = my::dl; let v = !self.weight; format!(\"{v} {name}\").parse()?";
    structs_of_variables: "Variables|pub struct Net { pub hidden: NdWeight, output: NdWeight, #[variables(skip)] width: usize }",
        "Variables|struct Acting<L: Into<F>, F: Fn(f64) -> f64, const N: usize> where F: Clone { parts: [L; N], first: L, #[variables(skip)] act: F }",
        "Variables|#[variables(crate = my::dl, gradients = Slopes)] struct Pair<T: Trainable>(Weight<T>, #[variables(skip)] u8, [Weight<T>; 2]) where T: Copy;";
    remote_blocks: "remote|impl Block for Expert { fn of(&self, x: &NdLayer) -> NdLayer { self.0.of(x) } }",
        "remote crate|impl nn::Block<Ix2, f64> for nets::Expert { fn of(&self, x: &NdLayer<Ix2, f64>) -> NdLayer<Ix2, f64> { self.0.of(x) } }",
        "remote|impl<A: Element> Block<Ix2, A> for Expert<A> { fn of(&self, x: &NdLayer<Ix2, A>) -> NdLayer<Ix2, A> { self.0.of(x) } }",
        "remote|impl Expert { fn of(&self, x: &NdLayer) -> NdLayer { self.0.of(x) } }";
    structs_of_layers: "Layers|struct State { h: NdLayer, c: NdLayer }", "Layers|struct Pair<T: Data>(Layer<T>, [Layer<T>; 2]) where T: Copy;";
    modules: "Module|struct Net { encoder: Vec<Linear>, #[module(rename = \"head\")] output: Linear, dropout: f64, #[module(skip)] cache: Cache }",
        "Module|#[module(crate = my::dl)] struct Tree<M: Clone, const N: usize>([Linear; N], M, Option<Box<Tree<M, N>>>) where M: Send;",
        "Module|struct Block { #[module(torch = \"self_attn\")] attention: Linear, #[module(transposed, rename = \"w\")] weight: Weight<f64>, #[module(torch = \"{1}_l{0}\", transposed)] cells: Vec<Cell> }",
        "Module|struct Relu;", "Module|struct Twice { r#in: Linear, #[module(rename = \"in\")] out: Linear, #[module(hide)] more: Linear }";
}

rules! {
    Body;
    bang_of_a_value: "fn f(net: &Net) -> NdLayer { let v = !net.gate(); net.of(v) }";
    bang_of_a_tuple: "fn f(x: Layer<f32>, w: &Weight<f32>) -> Layer<f32> { let (a, b, c) = !(x + w, 2.0, w); a + b + c + w }";
    statements_with_attributes: "fn f(x: &Layer<f64>, y: &Layer<f64>) -> Layer<f64> { let v = !x; #[cfg(any())] return x * !y; #[cfg(test)] let w = !y; #[cfg(test)] note(w)?; #[cfg(debug_assertions)] println!(\"{}\", !y); x * v }";
    bang_of_an_array: "fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> { let [a, b] = ![x, y]; let [c, d] = ![x, x + y]; x * a * b * c * d }";
    bang_as_a_statement: "fn f(x: Layer<f32>) -> Layer<f32> { !x; x }";
    not_of_a_primitive: "fn f(x: Layer<f32>, flag: bool, n: u8) -> Layer<f32> { if !flag && !(n > 3) { x } else { x * 2.0 } }";
    bang_in_a_bang: "fn f(x: Layer<f32>, net: Net) -> Layer<f32> { let v = !net.of(!x); x * v }";
    joined_in_an_expression: "fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> { if !x > !y { x } else { y } }";
    joined_in_a_scrutinee: "fn f(x: Layer<bool>, y: Layer<bool>, z: Layer<f32>) -> Layer<f32> { match (!x, !y) { (true, false) => z, _ => -z } }";
    joined_arguments: "fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> { g(!x, 3, !(x + y)) }";
    joined_not_when_operand_depends: "fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> { let a = !x; let b = !(y * a); x * b }";
    joined_in_a_right_side: "fn f(x: Layer<f32>, y: Layer<f32>, c: bool) -> Layer<f32> { if c && !x > !y { x } else { y } }";
    joined_in_an_arm: "fn f(x: Layer<f32>, y: Layer<f32>, n: u8) -> Layer<f32> { match n { 0 if !x < !y => g(!x + !y), _ => y } }";
    joined_not_in_a_compound_assignment: "fn f(mut v: Vec<f32>, x: Layer<f32>, y: Layer<f32>) -> Layer<f32> { v[!x as usize] += !y; x * v[0] }";
    joined_not_when_value_may_change: "fn f(x: Layer<f32>, mut z: Chain) -> Layer<f32> { let a = !x + z.first; let b = !z.next(); x * a * b }";
    joined_not_when_operand_is_moved: "fn f(x: Layer<f32>, y: &Layer<f32>, point: Point) -> Layer<f32> { let a = !x + point.n; let b = !near(y, point); let c = !far(y, b) * y; let d = !near(y, Point::new(1.0, 2.0)); x * a * c * d }";
    joined_not_on_the_right_of_and: "fn f(x: Do<bool>, y: Do<bool>, z: Layer<f32>) -> Layer<f32> { if !x && !y { z } else { z * 2.0 } }";
    joined_across_code_without_effects: "fn f(x: Layer<f32>, y: Layer<f32>, p: Point) -> Layer<f32> { let a = !x; let k = 2.0; let r = (&p.x, [k, p.y as f32]); let b = !y; x * (a + b + k + *r.0) }";
    let_else: "fn f(x: Do<Option<f32>>, y: Layer<f32>) -> Layer<f32> { let Some(a) = !x else { return y * !y; }; y * a }";
    labelled_breaks: "fn f(x: Layer<f32>) -> Layer<f32> { let y = 'found: loop { for i in 0..3 { if !x > 1.0 { break 'found 2.0 * x * i as f32; } continue; } }; y + x }";
    while_let: "fn f(x: &Chain) -> Layer<f32> { let mut z = x.clone(); while let Some(next) = !z.next() { z = next; } z.value() }";
    if_let_chain: "fn f(x: Do<Option<f32>>, y: Layer<f32>) -> Layer<f32> { if let Some(a) = !x && a > !y { y * a } else { y } }";
    operands_in_branches: "fn f(x: Layer<f32>, y: Layer<f32>, c: bool) -> Layer<f32> { if c { x * y } else { x + x } }";
    operands_in_loops: "fn f(x: Layer<f32>, n: usize) -> Layer<f32> { let mut y = x; for _ in 0..n { y = y * y + y; } y }",
        "fn f(x: Layer<f32>, n: usize) -> Layer<f32> { let mut y = x + 1.0; loop { y = y * x; if n > 3 { break; } } y }";
    operands_that_are_fields: "fn f(s: (Layer<f32>, Layer<f32>)) -> Layer<f32> { s.0 * s.1 + s.0 }";
    operands_with_live_borrows: "fn f(h: Layer<f32>, k: Layer<f32>) -> Vec<f32> { let all = vec![&h]; println!(\"{k:?} {:?}\", k * 2.0); let k = select((&k, 1.0), k * 3.0); len(&k) + k * all.len() as f32 }",
        "fn f(h: Layer<f32>) -> Vec<f32> { h.matmul(h * 0.5) }",
        "fn f(h: Layer<f32>) -> Vec<f32> { g(|x| x + &h, h * 0.5) }",
        "fn f(h: Layer<f32>) -> Vec<f32> { g(len(&h), h * 0.5) }";
    operands_that_are_borrowed: "fn f(x: Layer<f32>) -> Layer<f32> { let r = &x; let y = x * 2.0; y + r }";
    operands_in_closures: "fn f(xs: &[f32], w: Weight<f32>) -> Layer<f32> { xs.iter().map(|x| x * w).sum() }";
    operands_that_are_primitive: "fn f(x: f32, n: usize) -> f32 { let y = x * 2.0; let z = y * y + x; z + n as f32 * z - -y }";
    arguments_of_macros: "fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> { println!(\"{} {n}\", !x, n = !y); assert!(!x > 0.0, \"{}\", !y); let v = vec![!x; 3]; g(v) }",
        "fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> { let z = x * 2.0; println!(\"{x:?}\"); z * y }";
    nested_functions_keep_not: "fn f(x: Layer<f32>) -> Layer<f32> { let no = |b: bool| !b; fn not(b: bool) -> bool { !b } if no(!x > 0.0) { x } else { x * 2.0 } }";
    self_in_format_strings: "fn f(&self, x: &Layer<f32>) -> Layer<f32> { println!(\"{self:?} {}\", !x,); panic!(\"{self}\") }";
    negations_that_extract_nothing: "fn f(xs: &[Layer<f32>], x: Layer<f32>) -> Layer<f32> { if xs.iter().any(|x| !x.ready() || !x.is_empty()) { x } else { x * 2.0 } }",
        "fn f(x: &Layer<f32>, flag: bool) -> bool { !flag && !x }";
}
