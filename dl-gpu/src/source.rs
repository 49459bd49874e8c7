//! The sources of kernels.

use crate::layout::{AXES, INSTRUCTIONS, NUMBERS, PLACES};
use dl_core::{Binary, DType, Unary};
use dl_nd::device::{Code, Comparison, Instruction};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
use std::fmt::Write;

/// The number of threads of a group.
pub(crate) const GROUP: usize = 64;

/// Codes of interpreted programs: that of the first binary operation and of the first comparison,
/// and those of the other instructions.
const BINARY: usize = 64;
const COMPARISON: usize = 128;
const LOAD: u32 = 136;
const NUMBER: u32 = 137;
const POSITION: u32 = 138;
const SELECT: u32 = 139;

const COMPARISONS: [Comparison; 8] = [
    Comparison::Less,
    Comparison::LessEqual,
    Comparison::Greater,
    Comparison::GreaterEqual,
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Both,
    Comparison::Either,
];

/// A dialect of C for devices.
#[derive(Clone, Copy)]
pub(crate) enum Dialect {
    OpenCl,
    Cuda,
}

/// The compiler and the device that sources are written for.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) dialect: Dialect,
    /// Whether the device has `f64`.
    pub(crate) double: bool,
}

/// The beginning of all sources: the words of the dialect, and for elements of this type the places,
/// the elementary functions and the pointwise operations.
fn prelude(dtype: DType, Target { dialect, double }: Target) -> String {
    let name = name_of(dtype);
    let words = match dialect {
        Dialect::OpenCl => include_str!("words/opencl.c"),
        Dialect::Cuda => include_str!("words/cuda.c"),
    };
    let mut text = format!(
        "#define DL_GROUP {GROUP}\n#define DL_AXES {AXES}\n#define DL_PLACES {PLACES}\n\
         #define DL_INSTRUCTIONS {INSTRUCTIONS}\n#define DL_NUMBERS {NUMBERS}\n{double}{words}\n#define T {name}\n",
        double = if double { "#define DL_DOUBLE\n" } else { "" },
    );
    if dtype == DType::I64 {
        return text + include_str!("elements.c");
    }
    let nan = if dtype == DType::F64 { "DL_DOUBLE_OF(0x7ff8000000000000ul)" } else { "DL_FLOAT(0x7fc00000u)" };
    let linear = 2.0 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    let _ = write!(
        text,
        "#define E(name) dl_##name##_{name}\n#define DL_NAN {nan}\n\
         #define GELU_LINEAR {linear:?}\n#define GELU_CUBIC {cubic:?}\n{elements}\n{elementary}\n{pointwise}\n",
        cubic = 0.044715 * linear,
        elements = include_str!("elements.c"),
        elementary = include_str!("elementary.c")
            .replace("#include FORMULAS", include_str!("formulas.c"))
            .replace("#include UNDEFINED", include_str!("undefined.c")),
        pointwise = include_str!("pointwise.c"),
    );
    text
}

fn name_of(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F64 => "double",
        _ => "long",
    }
}

/// The kernels for elements of this type that are built once.
pub(crate) fn library(dtype: DType, target: Target) -> String {
    let mut cases = String::new();
    let mut case = |code: usize, value: String| {
        let _ = write!(cases, "case {code}: value = {value}; break; ");
    };
    if dtype != DType::I64 {
        for (code, op) in Unary::ALL.iter().enumerate() {
            case(code, format!("dl_u_{}(values[left])", op.name()));
        }
        for (code, op) in Binary::ALL.iter().enumerate() {
            case(BINARY + code, format!("dl_b_{}(values[left], values[right])", op.name()));
        }
    }
    for (code, op) in COMPARISONS.iter().enumerate() {
        case(COMPARISON + code, format!("dl_c_{op:?}(values[left], values[right])"));
    }
    let codes = format!("#define DL_LOAD {LOAD}\n#define DL_POSITION {POSITION}\n#define DL_SELECT {SELECT}\n");
    let interpreter = include_str!("interpret.c").replace("DL_CASES", &cases);
    let text = [prelude(dtype, target), codes, interpreter].concat() + include_str!("collect.c");
    match dtype {
        DType::I64 => text + include_str!("check.c"),
        _ => {
            let orders = [include_str!("scan.c"), include_str!("sort.c"), include_str!("random.c")];
            let windows = [include_str!("pool.c"), include_str!("conv.c")];
            text + include_str!("kernels.c") + include_str!("lookup.c") + &orders.concat() + &windows.concat()
        }
    }
}

/// An instruction of an interpreted program.
pub(crate) fn encoded(instruction: Instruction) -> u32 {
    let position = |found: Option<usize>| found.expect("the table has every operation") as u32;
    match instruction {
        Instruction::Load(operand) => LOAD | (operand as u32) << 8,
        Instruction::Number(number) => NUMBER | (number as u32) << 8,
        Instruction::Position(axis) => POSITION | (axis as u32) << 8,
        Instruction::Unary(op, x) => position(Unary::ALL.iter().position(|&other| other == op)) | (x as u32) << 8,
        Instruction::Binary(op, a, b) => {
            let code = position(Binary::ALL.iter().position(|&other| other == op));
            (code + BINARY as u32) | (a as u32) << 8 | (b as u32) << 16
        }
        Instruction::Compare(op, a, b) => {
            let code = position(COMPARISONS.iter().position(|&other| other == op));
            (code + COMPARISON as u32) | (a as u32) << 8 | (b as u32) << 16
        }
        Instruction::Select([mask, a, b]) => SELECT | (mask as u32) << 8 | (a as u32) << 16 | (b as u32) << 24,
    }
}

/// The kernel `dl_map` of a program. `formats` are those of its operands and results, and it has so
/// many numbers.
pub(crate) fn map(code: &Code, formats: &[i32], numbers: usize, target: Target) -> String {
    let mut text = prelude(code.element, target);
    let (places, numbers) = (formats.len(), numbers.max(1));
    let _ = write!(
        text,
        "typedef struct {{ Shape shape; Place places[{places}]; T numbers[{numbers}]; }} Geometry;\nDL_KERNEL dl_map("
    );
    for memory in 0..places {
        let _ = write!(text, "DL_GLOBAL T *m{memory}, ");
    }
    text += "DL_TABLE) {\nDL_GLOBAL const Geometry *g = DL_ARGUMENT(Geometry);\n";
    text += "ulong i = DL_INDEX;\nif (i >= g->shape.len) return;\n";
    let element = |place: usize| format!("m{place}, {}, dl_at(&g->shape, &g->places[{place}], i)", formats[place]);
    for (at, instruction) in code.instructions.iter().enumerate() {
        let value = match *instruction {
            Instruction::Load(x) => format!("dl_load({})", element(x)),
            Instruction::Number(number) => format!("g->numbers[{number}]"),
            Instruction::Position(axis) => format!("(T)dl_index(&g->shape, {axis}, i)"),
            Instruction::Unary(op, x) => format!("dl_u_{}(v{x})", op.name()),
            Instruction::Binary(op, a, b) => format!("dl_b_{}(v{a}, v{b})", op.name()),
            Instruction::Compare(op, a, b) => format!("dl_c_{op:?}(v{a}, v{b})"),
            Instruction::Select([mask, a, b]) => format!("v{mask} != ZERO ? v{a} : v{b}"),
        };
        let _ = writeln!(text, "T v{at} = {value};");
    }
    let operands = formats.len() - code.results.len();
    for (result, value) in code.results.iter().enumerate() {
        let _ = writeln!(text, "dl_store({}, v{value});", element(operands + result));
    }
    text + "}\n"
}

/// All kernels for CUDA, as texts with a name: the libraries, and programs with each operation of
/// the table.
pub(crate) fn of_cuda() -> Vec<(String, String)> {
    let target = Target { dialect: Dialect::Cuda, double: true };
    let types = [DType::F32, DType::F64, DType::I64];
    let mut texts: Vec<_> = types.map(|dtype| (format!("library_{}", name_of(dtype)), library(dtype, target))).into();
    for element in [DType::F32, DType::F64] {
        let unary = Unary::ALL.iter().map(|&op| (op.name(), vec![Instruction::Load(0), Instruction::Unary(op, 0)]));
        let two = |op| vec![Instruction::Load(0), Instruction::Load(1), Instruction::Binary(op, 0, 1)];
        let binary = Binary::ALL.iter().map(|&op| (op.name(), two(op)));
        for (name, instructions) in unary.chain(binary) {
            let code = Code { element, results: vec![instructions.len() - 1], instructions };
            let formats = vec![0; code.instructions.len()];
            texts.push((format!("{name}_{}", name_of(element)), map(&code, &formats, 0, target)));
        }
    }
    texts
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
        assert!(Unary::ALL.len() <= BINARY && Binary::ALL.len() <= COMPARISON - BINARY);
    }
}
