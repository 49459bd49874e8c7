//! Checks the table of operations in the documentation.

use crate::case::Case;
use crate::registry::{self, Scalar};
use dl_core::{Differentiable, Layer};
use dl_nd::operations::Operation;

/// Operations with results that the registry converts to numbers or to a dynamic rank. The
/// conversion adds one or two evaluations.
const CONVERTED: [&str; 15] = [
    "argmax",
    "argmin",
    "at",
    "diag",
    "diagonal",
    "equal",
    "flatten",
    "flatten_rows",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "linear",
    "linear_relu",
    "not_equal",
];

#[test]
fn catalog_kernel_and_gradient_columns_match_measurement() {
    let (cases, operations) = (Case::all(), Operation::all());
    for op in registry::all() {
        let documented =
            operations.iter().find(|operation| operation.name == op.name).expect("the operation is documented");
        let cases = || cases.iter().filter(|case| case.op == op.name);
        let evaluations = cases().map(|case| {
            let operands: Vec<_> = case.inputs.iter().map(|input| Layer::constant(input.tensor::<f64>())).collect();
            let (_, counters) = f64::apply(&op, &case.args, &operands).predict().counted().wait().expect("a value");
            counters.evaluations
        });
        let one_kernel = evaluations.min() == Some(1) || CONVERTED.contains(&op.name);
        assert_eq!(documented.one_kernel, one_kernel, "{}: one kernel", op.name);
        let gradients = cases().filter_map(|case| case.first.as_ref()).flat_map(|first| &first.gradients);
        let flows = gradients.flat_map(|gradient| &gradient.data).any(|&gradient| gradient != 0.0);
        assert_eq!(documented.gradient, flows, "{}: gradient", op.name);
    }
}

/// `UPDATE_DOCUMENTATION=1 cargo test -p monadic-dl-nd --test operations` rewrites the file.
#[test]
fn catalog_file_matches_operation_table() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ops/catalog.md");
    let text = format!(
        "Every operation on tensors.\n\n\
         - *PyTorch*: its name in PyTorch, with which values and derivatives are compared (`tests/operations`).\n\
         - *ranks*: the ranks of the operands, or their types; with \"broadcast\", the shapes may differ.\n\
         - *gradient*: whether the operation has a gradient.\n\
         - *one kernel*: whether it is evaluated as one kernel; the others are composed of operations.\n\n\
         A reduction `sum` also has forms over some axes: `sum_axis` removes the axes, and `sum_keepdim`\n\
         keeps them with length 1. `mse_with` is the loss `mse` with another reduction than the mean. `add`,\n\
         `sub`, `mul`, `div` and `rem` are the operators `+ - * / %`. `t` reverses all axes; to transpose each\n\
         matrix of a batch, use `transpose(-1, -2)`.\n\n\
         {}",
        Operation::table()
    );
    if std::env::var_os("UPDATE_DOCUMENTATION").is_some() {
        std::fs::write(file, &text).expect("the table can be written");
    }
    assert_eq!(std::fs::read_to_string(file).expect("the table"), text, "UPDATE_DOCUMENTATION=1 rewrites the table");
}
