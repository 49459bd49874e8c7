//! `#[differentiable]`: bang notation for `monadic-dl`.
//!
//! Use it through the root crate, as `dl::differentiable`. This crate knows the runtime by path
//! only: what it generates names nothing but `::dl::bang`.
//!
//! The macro works in three steps, and a module is named after each thing they deal with.
//!
//! 1. **Parse.** `function` reads a function and decides whether it is *lazy* (its return type is a
//!    layer, a `Do`, or a tuple or array of those), `options` the arguments of the attribute,
//!    `arguments` opens macros of the standard library (`println!("{}", !x)`), so that their
//!    arguments are expressions like all others, `attributes` encloses what has attributes.
//! 2. **Plan.** `plan` finds the bangs and says which of them are joined and where each group
//!    starts; `flow` and `liveness` say which operands of operators must be duplicated because they
//!    are used later. A plan is data: it refers to expressions by their place in the tree (`node`)
//!    and changes nothing. `branches` finds what decides after a bang, as text in the words of the
//!    user (`source`).
//! 3. **Expand.** `operands`, `bangs`, `branches` and `body` rewrite the function as the plan says.
//!    Each rule shows its input and output.
//!
//! `whole` does this for each function of an `impl` block, a trait or a module; `direct` for a
//! block inside an ordinary function; `layers` derives what a struct needs to be returned, `module`
//! how its weights are found. `negations` explains a `!` that extracts nothing.
//!
//! Errors are collected in `diagnostics`, all of a function at once; after an error the item still
//! exists (`half_typed`).

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

/// Lets a function get at the forward values of layers with `!`, and use layers in operators
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
/// A function is *lazy* if its return type says so: the last segment of the type ends in `Layer` or
/// `Do`, or it is a tuple or an array of those, or `impl …Expression`. `#[differentiable(lazy)]`
/// says it for any other name, such as an alias.
///
/// In a lazy function
///
/// - `!x` runs `x` forward and is its data: of a layer, a weight, a `Do`, or a tuple, an array, a
///   `Vec` of those, whose members run in parallel. Bangs of one statement that do not depend on
///   each other run in parallel, too. No gradient flows through a bang;
/// - `!flag` on a `bool`, an integer, or anything else that implements `Not` is still "not";
/// - a failure met by `?` becomes the error of the layer;
/// - if there is a bang or a `?`, the body becomes a recipe that runs anew in every pass. Its
///   parameters are kept: references by [`ToOwned`], values by [`Clone`]; both must be
///   `Send + Sync + 'static`;
/// - parameters of type `impl …Expression`, or of a type parameter with such a bound, are layers;
///   references to such are references to layers.
///
/// Every other function is *plain*: `!` and `?` have their usual meaning.
///
/// # What runs in parallel
///
/// The members of one bang run together: `!(x, y)`, `![x, y]`, `!xs` of a `Vec`. So do several
/// bangs, when nobody could tell except by the time it takes: the building of a later operand is
/// pulled forward to the place of the first bang, and what stands before that stays put. Operands
/// are always built in the written order, and of several errors the leftmost is reported.
///
/// | | |
/// |---|---|
/// | `!x + !y`, `if !x > !y`, `f(!x, 3, !y)`, `match (!x, !y)` | together |
/// | `let a = !x; let k = 2.0; let b = !y;` | together |
/// | `c && !x > !y`, an arm, a guard, a branch, the body of a loop | together, when it gets there |
/// | `while !x < !y` | together, in each round anew |
/// | `println!("{} {}", !x, !y)`, and other macros of the standard library | together |
/// | `let a = !x; let b = !(y * a);` | one after the other: the second needs the first |
/// | `let a = !x; let k = g(); let b = !y;` | one after the other: a call, a method, an unlisted macro, an index, `?` or an assignment may have effects |
/// | `let a = !x; let b = !z.next();` after a mention of `z` | one after the other: `next` may change what was read |
/// | `let a = !x + p.n; let b = !f(p);` with a `p` of the function's own | one after the other: `f` takes `p`, or may change what it refers to |
/// | `!x && !y` | one after the other: the second may not be needed |
/// | `!f(!x)` | one after the other; `f(…)` can be only the first of its group |
/// | `v[!i] += !x` | one after the other: which side comes first depends on the types |
///
/// Each line is a file in `snapshots/`, with what it becomes.
///
/// # Whole blocks
///
/// On an `impl` block, a trait or a module, the attribute stands for one on each function in it.
/// Functions that are `const`, `async` or `extern`, and those with a `#[differentiable]` of their
/// own, are left as they are.
///
/// # Operators
///
/// In every annotated function, the operands of `+ - * / %` and of the unary `-` are not moved when
/// they are used later: they are duplicated (a layer is cheap to clone). So are those that belong
/// to something else: `self.gate`, or `net().gate`, as the call may only lend it; they must be
/// `Clone`. Any other operand is moved, as always.
///
/// # Options
///
/// - `crate = path`: where the crate `dl` is found, if not at `::dl`.
/// - `lazy`: the return type is a layer under another name, or a struct with `#[derive(Layers)]`.
///
/// # What it tells
///
/// A layer keeps the chain of annotated functions in which it was written, each with the place of
/// its call (`#[track_caller]` is written for that, on every annotated function that takes or
/// returns layers). Errors show it. In a lazy body each `if`, `match`, `while` and `let … else`
/// that stands after a bang, or has one in its condition, says which way it goes on, if the pass is
/// recorded. A `while let` says that it ended also when a `break` ended it.
///
/// # What it does not do
///
/// Closures, `async` blocks and items nested in the function keep Rust's `!` and `?`. Inside a
/// macro that is not of the standard library, a bang is an error: take the value before.
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
/// The block is what its last expression is: a layer, a `Do`, or a tuple, an array or a struct of
/// those. As in a lazy function, it is a recipe that runs anew in every pass; `return` ends the
/// block, and a failure met by `?` becomes its error.
///
/// The variables it uses are copied when it is built, as `clone()` does, and what is behind a
/// reference with [`ToOwned`]; the originals stay where they are. A closure that is called in the
/// block is moved into it and must be `Copy`. So must a variable whose name begins with an
/// upper-case letter (give it another one before the block), and one that nothing in the block
/// mentions but a macro that is not of the standard library (write `let x = x;` first).
///
/// `direct! { crate = my::dl; … }` says where the crate `dl` is found, if not at `::dl`.
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
/// Every field is a layer, a `Do`, or a tuple, an array or a struct of those. The body runs once in
/// a pass, whichever field is asked for. `#[layers(crate = path)]` says where the crate `dl` is
/// found, if not at `::dl`.
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
/// Every field is a weight, a layer, or a tuple, an array, a `Vec` or a struct of those, unless it
/// is left out. The derivatives are a struct of the same fields, whose name ends in `Gradients`, or
/// is what `#[variables(gradients = Name)]` says.
///
/// A field whose type mentions a type parameter must be a variable, whatever the parameter is: this
/// becomes a condition of the implementation, except for fields that may hold the struct itself:
/// those that name it, and those with a struct of parameters in a `Box`. What they need, the bounds
/// of the struct say.
///
/// `#[variables(crate = path)]` says where the crate `dl`
/// is found, if not at `::dl`.
#[proc_macro_derive(Variables, attributes(variables))]
pub fn variables(item: TokenStream) -> TokenStream {
    derive::variables::derive(item.into()).into()
}

/// Lets the weights and buffers of a struct be found by the names of its fields: the trait
/// `Module`.
///
/// ```text
/// #[derive(Clone, Module)]
/// struct Net {
///     encoder: Vec<Linear>,                 // encoder.0.weight, encoder.0.bias, …
///     #[module(rename = "head")]
///     classifier: Linear,                   // head.weight, head.bias
///     dropout: f64,                         // a plain number: nothing to find
///     #[module(skip)]
///     cache: Cache,                         // no module: left out
/// }
/// ```
///
/// Every field is a weight, a buffer, a struct with this derive, a plain number, `bool` or string,
/// or a `Vec`, an array, a tuple, an `Option`, a `Box` or an `Arc` of such. Any other field is an
/// error, unless it is skipped. The names of a tuple struct are the numbers of its fields.
///
/// A field whose type mentions a type parameter must be a module, whatever the parameter is: this
/// becomes a condition of the implementation, except for fields that hold the struct itself.
///
/// `#[module(crate = path)]` on the struct says where the crate `dl` is found, if not at `::dl`.
#[proc_macro_derive(Module, attributes(module))]
pub fn module(item: TokenStream) -> TokenStream {
    derive::module::derive(item.into()).into()
}
