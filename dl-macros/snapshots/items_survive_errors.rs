// async fn f(x: &mut Layer<f64>) -> Layer<f64> {
//     x * !x
// }
::core::compile_error! {
    "a `#[differentiable]` function is not `async`: `!x` awaits already\nhelp: remove `async`, and return a `Layer` or a `Do`"
}
::core::compile_error! {
    "a lazy function cannot keep a `&mut`: its body runs later, and again in each pass\nhelp: take the value and return what it becomes, or change it before the layer is built"
}
#[allow(unused_variables, unused_mut)]
async fn f(x: &mut Layer<f64>) -> Layer<f64> {
    ::core::unreachable!()
}

// pub(crate) fn f(&self, x: &dyn Module) -> NdLayer {
//     !x
// }
::core::compile_error! {
    "`#[differentiable]` has no option `eager`; it has `compiled` (a call is one operation), `lazy` (the return type is an alias of a layer) and `crate = path` (where the crate `dl` is)"
}
::core::compile_error! {
    "a lazy function keeps its parameters, and a `dyn` value behind a reference cannot be cloned\nhelp: take `&impl Trait`, or an `Arc<dyn Trait + Send + Sync>`"
}
#[allow(unused_variables, unused_mut)]
pub(crate) fn f(&self, x: &dyn Module) -> NdLayer {
    ::core::unreachable!()
}

// struct Net {
//     weight: NdWeight,
// }
::core::compile_error! {
    "`#[differentiable]` applies to a function, an `impl` block, a trait or an inline module, not to this item"
}
struct Net {
    weight: NdWeight,
}

