//! `#[differentiable]`: bang notation for `monadic-dl`.
//!
//! Use it through the root crate, as `dl::differentiable`. This crate does not depend on the
//! runtime: expansions name it by the path `::dl::bang` (`parse::crate_path`).
//!
//! The macro works in three steps, and a step never uses a later one.
//!
//! 1. `parse` reads the options, the signature (is the function *lazy*?) and the body. It opens
//!    macros of the standard library, so that their arguments are expressions.
//! 2. `analyze` decides how to rewrite the body: which extractions (`!x`) run together and where
//!    each group starts, which operands of operators are live-out and must be duplicated, and which
//!    branches depend on an extracted value. The result is data and changes nothing.
//! 3. `expand` rewrites the body accordingly and builds the function around it.
//!
//! `entry` runs the steps. `derive` holds the derives. Errors are collected in `diagnostics`, so
//! that all errors of a function are reported together. After an error the item still exists, with
//! an unreachable body.

#![forbid(unsafe_code)]

mod analyze;
mod derive;
mod diagnostics;
mod entry;
mod expand;
mod parse;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Lets a function extract the forward values of layers with `!`, and use layers in operators
/// without `clone()` or `&`.
///
/// ```text
/// #[differentiable]
/// fn gated_net(input: &NdLayer, net: &Net) -> NdLayer {
///     let scores = net.gate(input);
///     let (left, right) = !scores;              // both forwards, in parallel; plain f32s
///     if left > right {
///         scores.0 * net.left.of(input)         // only this side is ever computed
///     } else {
///         scores.1 * net.right.of(input)
///     }
/// }
/// ```
///
/// # Lazy functions
///
/// A function is *lazy* if its return type is a layer, a `Do`, or a tuple or an array of those, or
/// `impl …Expression`. The macro recognizes layers and `Do`s by the last segment of the type, which
/// must end in `Layer` or `Do`. For any other name, such as an alias, use
/// `#[differentiable(lazy)]`.
///
/// In a lazy function
///
/// - `!x` runs `x` forward and evaluates to its data, where `x` is a layer, a weight, a `Do`, or a
///   tuple, an array or a `Vec` of those. Members of a collection run in parallel, and so do
///   independent bangs of one statement. No gradient flows through a bang;
/// - `!flag` on a `bool`, an integer, or any other type that implements `Not` is still "not";
/// - an error propagated by `?` becomes the error of the layer;
/// - a body with a bang or a `?` runs again in every pass. Its parameters are stored: references by
///   [`ToOwned`], values by [`Clone`]; both must be `Send + Sync + 'static`;
/// - parameters of type `impl …Expression`, or of a type parameter with such a bound, are layers;
///   references to such are references to layers.
///
/// Every other function is *plain*: `!` and `?` have their usual meaning.
///
/// # What runs in parallel
///
/// The members of one bang run together: `!(x, y)`, `![x, y]`, `!xs` of a `Vec`. Several bangs form
/// a *join group*, and run together, if this changes nothing but the run time. The operands of
/// later members are hoisted to the first bang of the group; code before it is not moved. Operands
/// are always built in source order, and of several errors the leftmost is reported.
///
/// | | |
/// |---|---|
/// | `!x + !y`, `if !x > !y`, `f(!x, 3, !y)`, `match (!x, !y)` | together |
/// | `let a = !x; let k = 2.0; let b = !y;` | together |
/// | `c && !x > !y`, an arm, a guard, a branch, the body of a loop | together, when it is reached |
/// | `while !x < !y` | together, in each iteration |
/// | `println!("{} {}", !x, !y)`, and other macros of the standard library | together |
/// | `let a = !x; let b = !(y * a);` | in sequence: the second needs the first |
/// | `let a = !x; let k = g(); let b = !y;` | in sequence: a call, a method, an unlisted macro, an index, `?` or an assignment may have effects |
/// | `let a = !x; let b = !z.next();` after a use of `z` | in sequence: `next` may change a value that was read |
/// | `let a = !x + p.n; let b = !f(p);` where `p` is a local variable | in sequence: `f` may move `p`, or change the value behind it |
/// | `!x && !y` | in sequence: the second may not be needed |
/// | `!f(!x)` | in sequence; `f(…)` can only be the first of a join group |
/// | `v[!i] += !x` | in sequence: the evaluation order of the two sides depends on their types |
///
/// Each line has a file in `snapshots/` with its expansion.
///
/// # Whole blocks
///
/// On an `impl` block, a trait or a module, the attribute applies to each function in it. Functions
/// that are `const`, `async` or `extern`, and functions with a `#[differentiable]` of their own,
/// stay unchanged.
///
/// # Operators
///
/// In every annotated function, an operand of `+ - * / %` or of the unary `-` is duplicated instead
/// of moved if it is used later (a layer is cheap to clone). A field of a variable or of the result
/// of a call, such as `self.gate` or `net().gate`, is always duplicated, because it may be behind a
/// reference; its type must be `Clone`. Any other operand is moved, as usual in Rust.
///
/// # Options
///
/// - `crate = path`: the path of the crate `dl`, if it is not `::dl`.
/// - `compiled`: a call is one operation. The body has no `!` and no `?`. It runs for the first call
///   with some arguments; its operations are kept for later calls. Layers, weights and modules among
///   the arguments are operands; all other arguments must be numbers, texts, or implement `Hash`,
///   `Eq` and `Clone`. On an `impl` block it applies to each function that returns layers.
/// - `compiled(grouped)`: also, calls with the same weights that do not depend on one another run as
///   one, with their operands stacked along the first axis. Values and deltas are then equal to those
///   of single calls up to rounding.
/// - `lazy`: the return type is a layer under another name, or a struct with `#[derive(Layers)]`.
///
/// # What it records
///
/// A layer stores the chain of annotated functions that built it, each with the place of its call.
/// For that, `#[track_caller]` is added to every annotated function that takes or returns layers.
/// Errors show the chain. In a lazy body each `if`, `match`, `while` and `let … else` after a bang,
/// or with a bang in its condition, reports the arm it takes if the pass is recorded. A `while let`
/// reports its end also after a `break`.
///
/// # Limits
///
/// In closures, `async` blocks and nested items, `!` and `?` have their usual meaning. Inside a
/// macro that is not of the standard library, a bang is an error: extract the value before the
/// macro.
#[proc_macro_attribute]
pub fn differentiable(options: TokenStream, item: TokenStream) -> TokenStream {
    entry::differentiable(options.into(), item.into()).into()
}

/// The body of a lazy function, inside an ordinary one.
///
/// ```text
/// fn losses(net: &Net, batches: &[Batch]) -> Vec<Layer<f64>> {
///     let limit = net.limit();
///     batches.iter().map(|batch| direct! {
///         let loss = net.loss(batch);
///         if !loss > limit { loss * 0.5 } else { loss }
///     }).collect()
/// }
/// ```
///
/// The block has the type of its last expression: a layer, a `Do`, or a tuple, an array or a struct
/// of those. Like the body of a lazy function, it runs again in every pass; `return` ends the
/// block, and an error propagated by `?` becomes its error.
///
/// The block clones the variables it uses when it is created, and values behind references with
/// [`ToOwned`]; the originals are not moved. These variables must be `Copy` instead, because they
/// are moved:
///
/// - a closure that is called in the block;
/// - a variable with a name that begins with an upper-case letter (rename it before the block);
/// - a variable that occurs only in a macro that is not of the standard library (write `let x = x;`
///   in the block first).
///
/// `direct! { crate = my::dl; … }` sets the path of the crate `dl`, if it is not `::dl`.
#[proc_macro]
pub fn direct(block: TokenStream) -> TokenStream {
    entry::direct(block.into()).into()
}

/// Lets a lazy function return a struct of layers.
///
/// ```text
/// #[derive(Clone, Layers)]
/// struct State {
///     h: NdLayer,
///     c: NdLayer,
/// }
///
/// #[differentiable(lazy)]
/// fn cell(x: &NdLayer, state: &State, net: &Cell) -> State { … }
/// ```
///
/// Every field must be a layer, a `Do`, or a tuple, an array or a struct of those. The body runs
/// once in a pass, whichever fields are evaluated. `#[layers(crate = path)]` sets the path of the
/// crate `dl`, if it is not `::dl`.
#[proc_macro_derive(Layers, attributes(layers))]
pub fn layers(item: TokenStream) -> TokenStream {
    derive::layers::derive(item.into()).into()
}

/// Lets a derivative be taken with respect to a struct of weights or layers.
///
/// ```text
/// #[derive(Variables)]
/// struct Net {
///     hidden: NdWeight,
///     output: NdWeight,
///     #[variables(skip)]
///     width: usize,
/// }
///
/// let NetGradients { hidden, output } = loss.gradients(&net);
/// ```
///
/// Every field must be a weight, a layer, or a tuple, an array, a `Vec` or a struct of those,
/// unless it is skipped. The derivatives are a struct with the same fields. Its name is that of the
/// struct with the suffix `Gradients`; `#[variables(gradients = Name)]` sets another one.
///
/// For a field with a type that mentions a type parameter, the implementation requires that this
/// type is a variable. Fields that may contain the struct itself are exempt: fields that name it,
/// and fields with a `Box` of a struct with type arguments. Their requirements must be bounds of
/// the struct.
///
/// `#[variables(crate = path)]` sets the path of the crate `dl`, if it is not `::dl`.
#[proc_macro_derive(Variables, attributes(variables))]
pub fn variables(item: TokenStream) -> TokenStream {
    derive::variables::derive(item.into()).into()
}

/// Lets an `impl Block` be evaluated on other ranks: registers it by name, in the feature `dist` as
/// `dl::dist::remote`.
///
/// ```text
/// #[dl::dist::remote]
/// impl Block for Expert {
///     fn of(&self, x: &NdLayer) -> NdLayer {
///         self.output.of(self.hidden.of(x).relu())
///     }
/// }
/// ```
///
/// The types must be known: an `impl` with type parameters cannot be registered.
/// `#[remote(crate = path)]` sets the path of the crate `dl`, if it is not `::dl`.
#[proc_macro_attribute]
pub fn remote(options: TokenStream, item: TokenStream) -> TokenStream {
    derive::remote::remote(options.into(), item.into()).into()
}

/// Implements the trait `Module`: gives the weights and buffers of a struct the names of its
/// fields.
///
/// ```text
/// #[derive(Clone, Module)]
/// struct Net {
///     encoder: Vec<Linear>,                 // encoder.0.weight, encoder.0.bias, …
///     #[module(rename = "head")]
///     classifier: Linear,                   // head.weight, head.bias
///     dropout: f64,                         // a plain number: no weights
///     #[module(skip)]
///     cache: Cache,                         // no module: left out
/// }
/// ```
///
/// Every field must be a weight, a buffer, a struct with this derive, a plain number, `bool` or
/// string, or a `Vec`, an array, a tuple, an `Option`, a `Box` or an `Arc` of such. Any other field
/// is an error, unless it is skipped. The names of a tuple struct are the indices of its fields.
///
/// Where PyTorch names or lays out a part otherwise, the field says so, for files of PyTorch:
///
/// ```text
/// #[derive(Clone, Module)]
/// struct Block {
///     #[module(torch = "self_attn")]
///     attention: Attention,                 // attention.weight here, self_attn.weight there
///     #[module(transposed)]
///     weight: NdWeight<Ix2>,                // [in, out] here, [out, in] there
///     #[module(torch = "{1}_l{0}")]
///     cells: Vec<LstmCell>,                 // cells.0.weight_ih here, weight_ih_l0 there
/// }
/// ```
///
/// For a field with a type that mentions a type parameter, the implementation requires that this
/// type is a module. Fields that contain the struct itself are exempt.
///
/// `#[module(crate = path)]` on the struct sets the path of the crate `dl`, if it is not `::dl`.
#[proc_macro_derive(Module, attributes(module))]
pub fn module(item: TokenStream) -> TokenStream {
    derive::module::derive(item.into()).into()
}
