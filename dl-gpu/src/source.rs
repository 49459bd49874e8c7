//! The sources of kernels.

use crate::layout::{AXES, INSTRUCTIONS, NUMBERS, PLACES};
use dl_core::{Binary, DType, Unary};
use dl_nd::device::{Code, Instruction};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
use std::fmt::Write;

/// The number of threads of a group.
pub(crate) const GROUP: usize = 64;

/// The first code of binary operations, and those of loads and numbers, of interpreted programs.
const BINARY: usize = 64;
const LOAD: u32 = 128;
const NUMBER: u32 = 129;

/// What all sources begin with: the words of the dialect, the elementary functions and the pointwise
/// operations for elements of this type. `double` says whether the device has `f64`.
fn prelude(dtype: DType, double: bool) -> String {
    let elementary = include_str!("elementary.c").replace("#include FORMULAS", include_str!("formulas.c"));
    let name = name_of(dtype);
    let nan = if dtype == DType::F64 { "DL_DOUBLE_OF(0x7ff8000000000000ul)" } else { "DL_FLOAT(0x7fc00000u)" };
    let linear = 2.0 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    let double = if double { "#define DL_DOUBLE\n" } else { "" };
    format!(
        "#define DL_GROUP {GROUP}\n#define DL_AXES {AXES}\n#define DL_PLACES {PLACES}\n\
         #define DL_INSTRUCTIONS {INSTRUCTIONS}\n#define DL_NUMBERS {NUMBERS}\n{double}{words}\n{elementary}\n\
         #define T {name}\n#define E(name) dl_##name##_{name}\n#define DL_NAN {nan}\n\
         #define GELU_LINEAR {linear:?}\n#define GELU_CUBIC {cubic:?}\n{pointwise}\n",
        words = include_str!("words.c"),
        cubic = 0.044715 * linear,
        pointwise = include_str!("pointwise.c"),
    )
}

fn name_of(dtype: DType) -> &'static str {
    if dtype == DType::F64 { "double" } else { "float" }
}

/// The kernels for elements of this type that are built once.
pub(crate) fn library(dtype: DType, double: bool) -> String {
    let mut cases = String::new();
    for (code, op) in Unary::ALL.iter().enumerate() {
        let _ = write!(cases, "case {code}: value = dl_u_{}(values[left]); break; ", op.name());
    }
    for (code, op) in Binary::ALL.iter().enumerate() {
        let name = op.name();
        let _ = write!(cases, "case {}: value = dl_b_{name}(values[left], values[right]); break; ", BINARY + code);
    }
    let kernels = include_str!("kernels.c").replace("DL_CASES", &cases);
    [&prelude(dtype, double), &kernels, include_str!("cast.c")].concat()
}

/// An instruction of an interpreted program.
pub(crate) fn encoded(instruction: Instruction) -> u32 {
    let position = |found: Option<usize>| found.expect("the table has every operation") as u32;
    match instruction {
        Instruction::Load(operand) => LOAD | (operand as u32) << 8,
        Instruction::Number(number) => NUMBER | (number as u32) << 8,
        Instruction::Unary(op, x) => position(Unary::ALL.iter().position(|&other| other == op)) | (x as u32) << 8,
        Instruction::Binary(op, a, b) => {
            let code = position(Binary::ALL.iter().position(|&other| other == op));
            (code + BINARY as u32) | (a as u32) << 8 | (b as u32) << 16
        }
    }
}

/// The kernel `dl_map` of a program with this number of operands. Its geometry has room for `places`
/// tensors and is an argument by value, or in memory if it is large.
pub(crate) fn map(code: &Code, operands: usize, places: usize, by_value: bool, dtype: DType, double: bool) -> String {
    let mut text = prelude(dtype, double);
    let _ = write!(
        text,
        "typedef struct {{ Shape shape; T numbers[{places}]; Place places[{places}]; }} Geometry;\nDL_KERNEL dl_map("
    );
    for memory in 0..operands + code.results.len() {
        let _ = write!(text, "DL_GLOBAL T *m{memory}, ");
    }
    text += match by_value {
        true => "Geometry g) {\n",
        false => {
            "DL_GLOBAL const char *memory, ulong start) {\n\
             Geometry g = *(DL_GLOBAL const Geometry *)(memory + start);\n"
        }
    };
    text += "ulong i = DL_INDEX;\nif (i >= g.shape.len) return;\n";
    for (at, instruction) in code.instructions.iter().enumerate() {
        let _ = match *instruction {
            Instruction::Load(x) => writeln!(text, "T v{at} = m{x}[dl_at(&g.shape, &g.places[{x}], i)];"),
            Instruction::Number(number) => writeln!(text, "T v{at} = g.numbers[{number}];"),
            Instruction::Unary(op, x) => writeln!(text, "T v{at} = dl_u_{}(v{x});", op.name()),
            Instruction::Binary(op, a, b) => writeln!(text, "T v{at} = dl_b_{}(v{a}, v{b});", op.name()),
        };
    }
    for (result, value) in code.results.iter().enumerate() {
        let to = operands + result;
        let _ = writeln!(text, "m{to}[dl_at(&g.shape, &g.places[{to}], i)] = dl_stored(v{value});");
    }
    text + "}\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointwise_source_has_every_operation_of_table() {
        let source = include_str!("pointwise.c");
        let has = |kind: &str, letter: &str, name: &str| {
            source.contains(&format!("\n{kind}({name}, ")) || source.contains(&format!("T dl_{letter}_{name}("))
        };
        let unary = Unary::ALL.iter().filter(|op| !has("unary", "u", op.name())).map(|op| op.name());
        let binary = Binary::ALL.iter().filter(|op| !has("binary", "b", op.name())).map(|op| op.name());
        assert_eq!(unary.chain(binary).collect::<Vec<_>>(), [""; 0]);
        assert!(Unary::ALL.len() <= BINARY && Binary::ALL.len() <= LOAD as usize - BINARY);
    }
}
