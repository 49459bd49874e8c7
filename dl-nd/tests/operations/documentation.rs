//! Checks the table of operations in the documentation.

use crate::case::Case;
use crate::registry::{self, Scalar};
use dl_core::{Binary, Differentiable, Layer, Unary};
use dl_nd::operations::Operation;

/// Operations with results that the registry converts to numbers or to a dynamic rank. The
/// conversion adds one or two evaluations.
const CONVERTED: [&str; 17] = [
    "argmax",
    "argmin",
    "argsort",
    "at",
    "ctc",
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

/// Rows whose column "kinks" names a point without a case from PyTorch: its results there are NaN, a
/// tie has no order there, or the tests are in `tests/tensors`.
const OTHERWISE_CHECKED: [&str; 7] = ["bce_with_logits", "ctc", "gelu", "gelu_tanh", "logcumsumexp", "nll", "silu"];

/// "topk" finds what "sort" does.
#[test]
fn every_operation_with_kinks_has_cases_from_pytorch_there() {
    let cases = Case::all();
    for operation in Operation::all() {
        let (name, has_cases) = (operation.name, cases.iter().any(|case| case.kink && case.op == operation.name));
        let is_checked = has_cases || OTHERWISE_CHECKED.contains(&name) || name == "topk";
        assert!(operation.kinks() == "–" || is_checked, "`{name}` has the kinks {:?}", operation.kinks());
        assert!(!(has_cases && OTHERWISE_CHECKED.contains(&name)), "`{name}` is checked against PyTorch");
    }
}

/// The methods of the traits `…Ops` and the public functions of a source file.
fn public_operations(source: &str) -> Vec<String> {
    let mut inside: Option<&str> = None;
    let mut found = Vec::new();
    for line in source.lines() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        let name = |rest: &str| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
        if code.starts_with("pub trait ") && name(&code["pub trait ".len()..]).is_some_and(|name| name.ends_with("Ops"))
        {
            inside = Some(indent);
        } else if code == "}" && inside == Some(indent) {
            inside = None;
        } else if let Some(rest) =
            code.strip_prefix("fn ").filter(|_| inside.is_some_and(|at| indent.len() == at.len() + 4))
        {
            found.extend(name(rest));
        } else if let Some(rest) = line.strip_prefix("pub fn ") {
            found.extend(name(rest));
        }
    }
    // names that a macro makes are those of a table
    found.retain(|name| !name.is_empty());
    found
}

#[test]
fn every_public_operation_has_a_row() {
    // helpers of `dl-nn`; transfers to and from devices, which the tests of devices use
    const OTHERS: [&str; 4] = ["same_shape", "along_last", "to_device", "to_host"];
    let operations = Operation::all();
    let known = |name: &str| operations.iter().any(|operation| operation.name == name);
    let (mut folders, mut missing, mut count) =
        (vec![concat!(env!("CARGO_MANIFEST_DIR"), "/src/ops").into()], vec![], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir::<std::path::PathBuf>(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                for name in public_operations(&std::fs::read_to_string(&path).expect("a text")) {
                    count += 1;
                    let forms = ["", "_axis", "_keepdim", "_with"];
                    let has_row = forms.iter().any(|form| name.strip_suffix(form).is_some_and(known));
                    if !has_row && !OTHERS.contains(&name.as_str()) {
                        missing.push(name);
                    }
                }
            }
        }
    }
    assert!(count > 100, "{count} operations were found");
    assert_eq!(missing, [""; 0], "operations without a row");
}

/// The file of the catalog.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ops/catalog.md");

/// The operations without a ratio: PyTorch does not have them, or they do nothing there.
const NOT_MEASURED: [&str; 4] = ["dense", "to_dyn", "to_rank", "to_tensor"];

/// The cell of an operation in the column "speed" of a catalog.
fn speed<'a>(catalog: &'a str, name: &str) -> Option<&'a str> {
    let start = format!("| `{name}` |");
    // the last column
    catalog.lines().find(|line| line.starts_with(&start))?.split('|').nth(7).map(str::trim)
}

/// `benches/peers/run.sh operations` measures an operation only if both programs have a row for it,
/// and `benches/peers/run.sh catalog` writes the result into this column.
#[test]
fn every_operation_was_measured_beside_pytorch() {
    let catalog = std::fs::read_to_string(FILE).expect("the table");
    for Operation { name, gradient, .. } in Operation::all() {
        let speed = speed(&catalog, name).unwrap_or_default();
        let ratios = || speed.split(", ").flat_map(|range| range.split('–')).map(str::parse::<f64>);
        let is_measured = ratios().all(|ratio| ratio.is_ok()) && speed.split(", ").count() == 1 + usize::from(gradient);
        assert_eq!(is_measured, !NOT_MEASURED.contains(&name), "`{name}` has the speed {speed:?}");
    }
}

/// Both programs that measure the operations name each of them.
#[test]
fn every_operation_has_benchmark_rows() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/");
    let of_tables: Vec<&str> =
        Unary::ALL.iter().map(|op| op.name()).chain(Binary::ALL.iter().map(|op| op.name())).collect();
    for (file, has_tables) in [("operations.rs", true), ("peers/python/operations.py", false)] {
        let program = std::fs::read_to_string(format!("{folder}{file}")).expect("the program");
        let words: Vec<&str> = program.split(|c: char| !c.is_alphanumeric() && !"_{}".contains(c)).collect();
        let names = Operation::all().into_iter().map(|operation| operation.name);
        let missing = names.filter(|name| !NOT_MEASURED.contains(name)).filter(|name| {
            let by_axes = name.replace(['1', '2', '3'], "{n}");
            let by_mode = || name.starts_with("upsample_") && words.contains(&name.trim_start_matches("upsample_"));
            let from_table = has_tables && of_tables.contains(name);
            !(words.contains(name) || words.contains(&by_axes.as_str()) || by_mode() || from_table)
        });
        assert_eq!(missing.collect::<Vec<_>>(), [""; 0], "operations without a row in {file}");
    }
}

/// `UPDATE_DOCUMENTATION=1 cargo test -p monadic-dl-nd --test operations` rewrites the file, but for
/// the measured column "speed".
#[test]
fn catalog_file_matches_operation_table() {
    let file = std::fs::read_to_string(FILE).expect("the table");
    let table: String = Operation::table()
        .lines()
        .enumerate()
        .map(|(number, row)| match (number, row.split('`').nth(1)) {
            (0, _) => format!("{row} speed |\n"),
            (1, _) => format!("{row}---|\n"),
            (_, name) => format!("{row} {} |\n", name.and_then(|name| speed(&file, name)).unwrap_or("–")),
        })
        .collect();
    let text = format!(
        "Every operation on tensors.\n\n\
         - *PyTorch*: its name in PyTorch, with which values and derivatives are compared (`tests/operations`).\n\
         - *ranks*: the ranks of the operands, or their types; with \"broadcast\", the shapes may differ.\n\
         - *gradient*: whether the operation has a gradient.\n\
         - *kinks*: the derivative where it jumps, is infinite or has a choice. It is that of PyTorch, or PyTorch's is\n  \
           in parentheses. A delta of exactly 0 gives 0 there (guide, *Derivatives of derivatives*).\n\
         - *one kernel*: whether it is evaluated as one kernel; the others are composed of operations.\n\
         - *speed*: PyTorch's time over ours, for the value and, after the comma, for a value and its gradient\n  \
           together, on two threads. Most operands are 2048×2048 `f32`. Of several rows (axes, exponents, sizes),\n  \
           the lowest and the highest. `benches/peers/run.sh operations` measures it; `benches/log` has the rows,\n  \
           the processor, and the reasons for low ones.\n\n\
         A reduction `sum` also has forms over some axes: `sum_axis` removes the axes, and `sum_keepdim`\n\
         keeps them with length 1. `mse_with` is the loss `mse` with another reduction than the mean. `add`,\n\
         `sub`, `mul`, `div` and `rem` are the operators `+ - * / %`. `t` reverses all axes; to transpose each\n\
         matrix of a batch, use `transpose(-1, -2)`.\n\n\
         {table}"
    );
    if std::env::var_os("UPDATE_DOCUMENTATION").is_some() {
        std::fs::write(FILE, &text).expect("the table can be written");
    }
    assert_eq!(std::fs::read_to_string(FILE).expect("the table"), text, "UPDATE_DOCUMENTATION=1 rewrites the table");
}
