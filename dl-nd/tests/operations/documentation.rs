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
        let documented = operations.iter().find(|operation| operation.name == op.name).expect("it is documented");
        let cases = || cases.iter().filter(|case| case.op == op.name);
        let evaluations = cases().map(|case| {
            let operands: Vec<_> = case.inputs.iter().map(|input| Layer::constant(input.tensor::<f64>())).collect();
            let (_, counters) = f64::apply(&op, &case.args, &operands).predict().counted().wait().expect("a value");
            counters.evaluations
        });
        let one_kernel = evaluations.min() == Some(1) || CONVERTED.contains(&op.name);
        assert_eq!(documented.one_kernel, one_kernel, "{} is evaluated as one kernel, or is not", op.name);
        let gradients = cases().filter_map(|case| case.first.as_ref()).flat_map(|first| &first.gradients);
        let flows = gradients.flat_map(|gradient| &gradient.data).any(|&gradient| gradient != 0.0);
        assert_eq!(documented.gradient, flows, "a gradient flows through {}, or does not", op.name);
    }
}

/// `UPDATE_DOCUMENTATION=1 cargo test -p monadic-dl-nd --test operations` rewrites the file.
#[test]
fn catalog_file_matches_operation_table() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ops/catalog.md");
    let text = format!(
        "Every operation on tensors.\n\n\
         - *PyTorch* is the name that it has there. Values, gradients and second derivatives are compared with PyTorch's (`tests/operations`).\n\
         - *ranks*: how many axes the operands have, or what else they are; \"broadcast\" says that their shapes need not be the same.\n\
         - *gradient*: whether one flows through it.\n\
         - *one kernel*: whether it is evaluated as one. Those that are not are made of others.\n\n\
         A reduction `sum` is there over some axes as well: `sum_axis`, which drops them, and `sum_keepdim`, which keeps them. A loss `mse` with another\n\
         reduction than the mean is `mse_with`. `add`, `sub`, `mul`, `div` and `rem` are the operators `+ - * / %`. `t` reverses all\n\
         axes; of a batch of matrices, `transpose(-1, -2)` is what is wanted.\n\n{}",
        Operation::table()
    );
    if std::env::var_os("UPDATE_DOCUMENTATION").is_some() {
        std::fs::write(file, &text).expect("the table can be written");
    }
    assert_eq!(std::fs::read_to_string(file).expect("the table"), text, "UPDATE_DOCUMENTATION=1 writes the table anew");
}
