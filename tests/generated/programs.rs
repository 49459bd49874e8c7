//! Random programs, written by `tests/macro_programs.rs` (run it with `UPDATE_PROGRAMS=1` to write them anew).

#![allow(clippy::all, unused, reason = "nobody wrote these")]

use dl::prelude::*;

pub(super) const ALL: &[fn(Layer<f64>, Layer<f64>, Layer<f64>) -> Layer<f64>] = &[
program_0,
program_1,
program_2,
program_3,
program_4,
program_5,
program_6,
program_7,
program_8,
program_9,
program_10,
program_11,
program_12,
program_13,
program_14,
program_15,
program_16,
program_17,
program_18,
program_19,
program_20,
program_21,
program_22,
program_23,
program_24,
program_25,
program_26,
program_27,
program_28,
program_29,
program_30,
program_31,
program_32,
program_33,
program_34,
program_35,
program_36,
program_37,
program_38,
program_39,
program_40,
program_41,
program_42,
program_43,
program_44,
program_45,
program_46,
program_47,
program_48,
program_49,
program_50,
program_51,
program_52,
program_53,
program_54,
program_55,
program_56,
program_57,
program_58,
program_59,
program_60,
program_61,
program_62,
program_63,
program_64,
program_65,
program_66,
program_67,
program_68,
program_69,
program_70,
program_71,
program_72,
program_73,
program_74,
program_75,
program_76,
program_77,
program_78,
program_79,
program_80,
program_81,
program_82,
program_83,
program_84,
program_85,
program_86,
program_87,
program_88,
program_89,
program_90,
program_91,
program_92,
program_93,
program_94,
program_95,
program_96,
program_97,
program_98,
program_99,
program_100,
program_101,
program_102,
program_103,
program_104,
program_105,
program_106,
program_107,
program_108,
program_109,
program_110,
program_111,
program_112,
program_113,
program_114,
program_115,
program_116,
program_117,
program_118,
program_119,
program_120,
program_121,
program_122,
program_123,
program_124,
program_125,
program_126,
program_127,
program_128,
program_129,
program_130,
program_131,
program_132,
program_133,
program_134,
program_135,
program_136,
program_137,
program_138,
program_139,
program_140,
program_141,
program_142,
program_143,
program_144,
program_145,
program_146,
program_147,
program_148,
program_149,
program_150,
program_151,
program_152,
program_153,
program_154,
program_155,
program_156,
program_157,
program_158,
program_159,
program_160,
program_161,
program_162,
program_163,
program_164,
program_165,
program_166,
program_167,
program_168,
program_169,
program_170,
program_171,
program_172,
program_173,
program_174,
program_175,
program_176,
program_177,
program_178,
program_179,
program_180,
program_181,
program_182,
program_183,
program_184,
program_185,
program_186,
program_187,
program_188,
program_189,
program_190,
program_191,
program_192,
program_193,
program_194,
program_195,
program_196,
program_197,
program_198,
program_199,
];

#[differentiable]
fn program_0(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = x2.clone();
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_1(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(!x0) > !Layer::constant(-1.0_f64) {
if !x1 < -3.5 {
return Layer::constant(!x0 - !x1);
}
let mut left1 = 1;
while left1 > 0 && !x1 > 0.0 {
x1 = x1 * 0.5;
x1 = Layer::constant(!(x0 + x0));
x0 = (x2 + (Layer::constant(-1.75_f64) + Layer::constant(0.0_f64)));
left1 -= 1;
}
if !x0 < -3.0 {
return x2.clone();
}
} else {
x0 = (Layer::constant(!Layer::constant(0.75_f64) - !x1) - Layer::constant(!x1 - !x0));
if !(Layer::constant(-1.25_f64) - Layer::constant(1.5_f64)) > !(x1 * Layer::constant(-0.25_f64)) {
if !x2 < -4.0 {
return x2.clone();
}
match (!(Layer::constant(0.0_f64) + x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
if !x1 < -1.5 {
return Layer::constant(1.0_f64);
}
if !x1 < -4.5 {
return (x2 + x0);
}
match (!(-x1)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
if !Layer::constant(-1.5_f64) > !x1 {
x2 = (Layer::constant(!Layer::constant(1.5_f64) - !x1) + (-Layer::constant(-1.5_f64)));
x0 = x0.clone();
x1 = ((x2 + x0) - Layer::constant(!x0));
} else {
x2 = (Layer::constant(-2.0_f64) - Layer::constant(!Layer::constant(-1.25_f64)));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_2(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(!x1 - !Layer::constant(-0.75_f64)) > !Layer::constant(!x0 - !Layer::constant(-0.25_f64)) {
if !(Layer::constant(0.5_f64) + Layer::constant(0.25_f64)) > !Layer::constant(1.25_f64) {
x1 = (Layer::constant(!Layer::constant(-1.0_f64)) + Layer::constant(0.5_f64));
x0 = (-Layer::constant(!x0 - !x2));
} else {
x2 = ((x2 + Layer::constant(-1.75_f64)) - (Layer::constant(-1.5_f64) * x2));
x0 = ((Layer::constant(-2.0_f64) - x2) + x1);
}
match (!(-x2)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
x1 = (x2 * x1);
x1 = ((Layer::constant(1.25_f64) + x2) * (x0 + x0));
let mut left1 = 1;
while left1 > 0 && !x2 > -1.0 {
x2 = x2 * 0.5;
x0 = Layer::constant(!x1);
left1 -= 1;
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_3(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
let mut left0 = 2;
while left0 > 0 && !x2 > 2.0 {
x2 = x2 * 0.5;
if !x0 < -3.5 {
return x2.clone();
}
left0 -= 1;
}
for _ in 0..1 {
if !x1 > !(Layer::constant(-0.75_f64) * x1) {
x1 = x0.clone();
if !x1 < -3.5 {
return Layer::constant(!x1 - !Layer::constant(0.25_f64));
}
match (!Layer::constant(!Layer::constant(2.0_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
x2 = (Layer::constant(!x2 - !x2) * Layer::constant(!x2));
x0 = (-Layer::constant(!x2 - !x2));
x2 = Layer::constant(!(Layer::constant(-0.25_f64) + x1) - !x1);
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_4(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(Layer::constant(-1.5_f64) + Layer::constant(-0.25_f64)) > !Layer::constant(-1.5_f64) {
if !(Layer::constant(1.25_f64) + x0) > !(Layer::constant(-0.5_f64) + x2) {
x2 = Layer::constant(-0.25_f64);
x0 = Layer::constant(!x2 - !x1);
x0 = Layer::constant(-0.25_f64);
} else {
if !x2 < -3.0 {
return Layer::constant(!x1);
}
}
if !x1 > !(-x0) {
if !x1 < -3.0 {
return (x1 - x1);
}
x0 = (x0 + x2);
match (!(x0 * x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
x2 = (-(x2 * x1));
x1 = (Layer::constant(-1.75_f64) + (x1 + Layer::constant(1.75_f64)));
}
x1 = Layer::constant(!(x0 + x1));
} else {
if !Layer::constant(!x1) > !(x0 * Layer::constant(1.0_f64)) {
match (!(x1 + x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
match (!Layer::constant(1.25_f64)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x2 = ((x0 * x2) + (x1 * x0));
} else {
x2 = (Layer::constant(1.0_f64) + x1);
x0 = ((x0 + x2) * Layer::constant(0.5_f64));
match (!x2).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
}
for _ in 0..2 {
x0 = Layer::constant(!(x0 + x0) - !Layer::constant(!x1 - !x1));
}
if !(-x1) > !Layer::constant(!x2 - !x1) {
x1 = Layer::constant(0.5_f64);
} else {
if !x2 < -4.5 {
return Layer::constant(0.0_f64);
}
x2 = Layer::constant(1.75_f64);
}
}
if !x0 < -1.5 {
return (Layer::constant(-0.75_f64) + x0);
}
let mut left0 = 3;
while left0 > 0 && !x1 > -2.0 {
x1 = x1 * 0.5;
let mut left1 = 3;
while left1 > 0 && !x0 > 0.0 {
x0 = x0 * 0.5;
x2 = Layer::constant(2.0_f64);
left1 -= 1;
}
x0 = x2.clone();
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_5(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..0 {
x0 = Layer::constant(-0.5_f64);
x1 = (Layer::constant(1.5_f64) - (Layer::constant(-1.25_f64) - x0));
}
for _ in 0..2 {
x0 = Layer::constant(-2.0_f64);
let mut left1 = 1;
while left1 > 0 && !x0 > -0.5 {
x0 = x0 * 0.5;
x2 = Layer::constant(!Layer::constant(!Layer::constant(-1.25_f64) - !x0) - !(x1 + x1));
x0 = (-x2);
x1 = Layer::constant(-2.0_f64);
left1 -= 1;
}
if !Layer::constant(!x2 - !x2) > !(x2 * x1) {
x0 = ((x1 + Layer::constant(-1.0_f64)) - (Layer::constant(-1.75_f64) + Layer::constant(-1.75_f64)));
if !x0 < -2.5 {
return (Layer::constant(-1.25_f64) + x2);
}
} else {
if !x1 < -1.0 {
return (-x0);
}
x1 = x0.clone();
x1 = Layer::constant(!Layer::constant(!x1));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_6(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x0 < -1.0 {
return (x1 - x1);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_7(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(-1.25_f64) > !(-Layer::constant(-1.25_f64)) {
if !x1 < -1.5 {
return x2.clone();
}
if !x0 < -1.5 {
return Layer::constant(!x0 - !x2);
}
} else {
x2 = Layer::constant(-1.5_f64);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_8(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
let mut left0 = 3;
while left0 > 0 && !x0 > -2.0 {
x0 = x0 * 0.5;
if !x2 < -2.0 {
return x2.clone();
}
match (!Layer::constant(1.0_f64)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
match (!(x2 - Layer::constant(0.25_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
left0 -= 1;
}
if !Layer::constant(-1.75_f64) > !(x2 * x1) {
if !(-x2) > !(x2 + x1) {
if !x1 < -2.0 {
return (x0 + x1);
}
match (!(x1 - x0)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x0 = (-Layer::constant(1.75_f64));
} else {
x0 = (-(Layer::constant(-2.0_f64) - x0));
x1 = ((-Layer::constant(1.25_f64)) * Layer::constant(!x1));
match (!x2).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
if !Layer::constant(!x2 - !x0) > !(x2 + Layer::constant(-0.5_f64)) {
x1 = Layer::constant(!(Layer::constant(-1.25_f64) + Layer::constant(-0.25_f64)) - !(x0 + x2));
x2 = Layer::constant(-1.5_f64);
x0 = (Layer::constant(1.5_f64) - x2);
} else {
x0 = x0.clone();
x1 = Layer::constant(!x1);
}
x0 = (-(x1 + Layer::constant(-0.75_f64)));
} else {
x0 = x0.clone();
x1 = x1.clone();
for _ in 0..2 {
if !x0 < -1.0 {
return x2.clone();
}
}
}
if !x2 < -3.0 {
return Layer::constant(-1.25_f64);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_9(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x1 = x0.clone();
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_10(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!(-x0)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_11(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..1 {
x1 = ((-Layer::constant(-1.5_f64)) - x2);
if !x0 < -4.0 {
return (x0 * x2);
}
x2 = Layer::constant(-0.5_f64);
}
x0 = Layer::constant(-2.0_f64);
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_12(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x1 < -4.5 {
return (Layer::constant(-0.5_f64) + x2);
}
x0 = Layer::constant(!Layer::constant(0.0_f64));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_13(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x2 * Layer::constant(2.0_f64)) > !(-x2) {
for _ in 0..2 {
x0 = (Layer::constant(!x1 - !x1) - (x0 - x2));
x0 = ((x2 + Layer::constant(-0.25_f64)) + x0);
if !x0 < -5.0 {
return Layer::constant(!x2);
}
}
if !(x0 + x2) > !Layer::constant(!x1 - !x1) {
x2 = Layer::constant(-2.0_f64);
x2 = ((Layer::constant(0.5_f64) + x0) + Layer::constant(0.0_f64));
x0 = Layer::constant(!(x1 + x1));
} else {
match (!(x1 - x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x0 = (x1 + (x0 + Layer::constant(0.75_f64)));
}
} else {
if !x0 < -1.0 {
return (Layer::constant(0.5_f64) - x0);
}
x2 = (-x2);
x1 = x1.clone();
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_14(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!Layer::constant(2.0_f64)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_15(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!(x2 + Layer::constant(-1.0_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
for _ in 0..1 {
x1 = ((x1 + x2) + x1);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_16(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x0 - x2) > !Layer::constant(-0.5_f64) {
if !Layer::constant(!Layer::constant(-2.0_f64) - !Layer::constant(-1.5_f64)) > !(-Layer::constant(-0.25_f64)) {
x0 = ((Layer::constant(-1.0_f64) + x0) * Layer::constant(-1.75_f64));
match (!(x1 - x2)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
if !x0 < -2.0 {
return (x1 + x2);
}
x1 = (-(-x1));
}
} else {
match (!(x2 * x1)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_17(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x1 = (x1 - (x0 * x0));
if !Layer::constant(!x0) > !(x1 + Layer::constant(-0.5_f64)) {
match (!(x2 - Layer::constant(2.0_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
let mut left1 = 1;
while left1 > 0 && !x1 > -1.5 {
x1 = x1 * 0.5;
if !x0 < -1.5 {
return (Layer::constant(-0.25_f64) * Layer::constant(-1.25_f64));
}
x2 = x2.clone();
left1 -= 1;
}
} else {
if !(Layer::constant(2.0_f64) + x1) > !(-x1) {
x2 = Layer::constant(!Layer::constant(!x1) - !x1);
} else {
x0 = ((Layer::constant(-1.75_f64) - x1) + Layer::constant(!Layer::constant(-0.25_f64) - !x1));
x2 = (Layer::constant(!x0 - !x1) - x2);
if !x0 < -3.5 {
return (x0 * x2);
}
}
x2 = ((-x0) + (Layer::constant(0.0_f64) - x2));
}
if !x1 < -4.5 {
return (-x0);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_18(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(!x1) > !x1 {
match (!Layer::constant(!Layer::constant(-0.25_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
for _ in 0..1 {
x2 = (-(x1 + x2));
if !x1 < -5.0 {
return Layer::constant(!x1 - !x2);
}
x2 = x2.clone();
}
}
for _ in 0..0 {
if !x1 > !x2 {
if !x1 < -1.5 {
return (Layer::constant(-1.5_f64) * x2);
}
} else {
x2 = Layer::constant(!Layer::constant(!x2 - !x2));
if !x2 < -3.5 {
return Layer::constant(!Layer::constant(-0.25_f64) - !x0);
}
}
x2 = (x0 + (-x0));
if !x2 < -4.5 {
return Layer::constant(!Layer::constant(-1.5_f64) - !x0);
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_19(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = (Layer::constant(!x2 - !x0) * Layer::constant(!Layer::constant(1.0_f64)));
x2 = x1.clone();
x2 = Layer::constant(-0.5_f64);
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_20(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = (x1 * (Layer::constant(-1.5_f64) + Layer::constant(-1.25_f64)));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_21(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x2 < -3.5 {
return Layer::constant(!x1);
}
if !x2 > !x2 {
if !x2 < -2.0 {
return Layer::constant(!Layer::constant(2.0_f64) - !x0);
}
if !(Layer::constant(-1.75_f64) + x1) > !(Layer::constant(1.25_f64) + x2) {
x1 = ((Layer::constant(0.25_f64) - Layer::constant(-1.0_f64)) + Layer::constant(!x2 - !Layer::constant(1.0_f64)));
if !x1 < -5.0 {
return (x2 * x1);
}
} else {
if !x2 < -3.5 {
return Layer::constant(!Layer::constant(-0.5_f64) - !x0);
}
}
for _ in 0..2 {
x1 = (-Layer::constant(!x2 - !x1));
}
} else {
if !(-x0) > !(x1 - x2) {
x2 = (Layer::constant(0.75_f64) + (x2 + Layer::constant(-1.25_f64)));
x2 = Layer::constant(2.0_f64);
} else {
match (!(x2 * x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x1 = (Layer::constant(0.75_f64) - Layer::constant(0.25_f64));
x2 = x2.clone();
}
x1 = Layer::constant(!(x1 + x2) - !x0);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_22(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = (Layer::constant(!Layer::constant(-0.5_f64) - !x1) + x2);
x2 = Layer::constant(-1.0_f64);
if !(Layer::constant(-0.5_f64) * Layer::constant(-0.25_f64)) > !Layer::constant(!x2 - !Layer::constant(0.0_f64)) {
if !x2 < -1.0 {
return (x0 * Layer::constant(1.5_f64));
}
match (!x1).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
let mut left1 = 3;
while left1 > 0 && !x1 > -2.0 {
x1 = x1 * 0.5;
x2 = Layer::constant(!(x1 - x0));
match (!x2).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
left1 -= 1;
}
x2 = x2.clone();
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_23(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = Layer::constant(1.25_f64);
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_24(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(!Layer::constant(-1.5_f64) - !x0) > !(Layer::constant(-1.0_f64) * x2) {
if !(Layer::constant(2.0_f64) + Layer::constant(0.25_f64)) > !Layer::constant(!x2) {
x2 = x1.clone();
x1 = (-(Layer::constant(0.5_f64) - Layer::constant(-1.0_f64)));
match (!x0).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
x2 = (x2 * Layer::constant(!x0 - !x1));
x2 = x2.clone();
}
match (!(x0 + x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
if !x2 < -5.0 {
return (Layer::constant(1.75_f64) * Layer::constant(0.75_f64));
}
x0 = Layer::constant(1.75_f64);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_25(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x2 > !Layer::constant(1.5_f64) {
x1 = (x0 + x0);
let mut left1 = 2;
while left1 > 0 && !x2 > -1.0 {
x2 = x2 * 0.5;
x1 = (Layer::constant(!x2) + (x1 + x2));
match (!(x2 * x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x2 = ((Layer::constant(-2.0_f64) + x2) + Layer::constant(!Layer::constant(-1.75_f64) - !x1));
left1 -= 1;
}
if !(Layer::constant(1.25_f64) + x1) > !Layer::constant(0.25_f64) {
match (!(Layer::constant(1.75_f64) + x2)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
match (!(Layer::constant(1.5_f64) - x1)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
if !x1 < -3.0 {
return x1.clone();
}
x2 = Layer::constant(!(x2 - Layer::constant(-1.0_f64)));
x0 = Layer::constant(-0.5_f64);
}
} else {
let mut left1 = 3;
while left1 > 0 && !x2 > -1.5 {
x2 = x2 * 0.5;
if !x0 < -1.5 {
return Layer::constant(!Layer::constant(1.5_f64));
}
x0 = Layer::constant(1.5_f64);
left1 -= 1;
}
}
x2 = (Layer::constant(1.5_f64) - (x0 + Layer::constant(0.5_f64)));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_26(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = ((-x1) + x1);
x2 = (x1 + (x2 + Layer::constant(0.5_f64)));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_27(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(-Layer::constant(1.0_f64)) > !(x0 - Layer::constant(-1.25_f64)) {
match (!(x0 - x2)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x1 = x2.clone();
for _ in 0..1 {
match (!(-Layer::constant(-1.5_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
} else {
if !Layer::constant(0.25_f64) > !(-x1) {
x1 = (-(x1 - Layer::constant(-1.25_f64)));
x2 = (x2 + (x2 * x2));
} else {
if !x0 < -1.5 {
return (Layer::constant(0.25_f64) + x2);
}
match (!(x0 - Layer::constant(0.0_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
for _ in 0..0 {
match (!(-x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_28(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!Layer::constant(!Layer::constant(-0.25_f64) - !Layer::constant(1.5_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x0 = Layer::constant(0.25_f64);
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_29(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = Layer::constant(!(-Layer::constant(0.75_f64)));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_30(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x1 < -1.0 {
return Layer::constant(!x2);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_31(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = x1.clone();
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_32(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(!Layer::constant(-1.25_f64) - !x1) > !(Layer::constant(0.75_f64) - x1) {
let mut left1 = 1;
while left1 > 0 && !x1 > -2.0 {
x1 = x1 * 0.5;
x2 = (-Layer::constant(!x0));
match (!(Layer::constant(-0.5_f64) * x1)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
left1 -= 1;
}
} else {
if !Layer::constant(0.0_f64) > !(Layer::constant(0.5_f64) - x2) {
match (!Layer::constant(2.0_f64)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x2 = x2.clone();
} else {
match (!x0).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
match (!(x0 + Layer::constant(0.25_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_33(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
let mut left0 = 3;
while left0 > 0 && !x1 > -1.5 {
x1 = x1 * 0.5;
if !Layer::constant(!x2 - !Layer::constant(1.0_f64)) > !x1 {
x1 = ((x1 + x1) - Layer::constant(!Layer::constant(0.5_f64) - !x0));
} else {
x1 = x2.clone();
match (!(x1 - Layer::constant(-0.5_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x2 = x1.clone();
}
let mut left1 = 3;
while left1 > 0 && !x2 > 2.0 {
x2 = x2 * 0.5;
x2 = (Layer::constant(!x0) + Layer::constant(!x0 - !x2));
left1 -= 1;
}
x1 = (Layer::constant(!x1 - !Layer::constant(-1.5_f64)) + (-x2));
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_34(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = Layer::constant(!Layer::constant(!x2) - !Layer::constant(!Layer::constant(0.0_f64) - !x1));
if !x1 < -1.5 {
return (x2 + x0);
}
x2 = (-(x1 + x0));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_35(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..2 {
if !(x0 * Layer::constant(-1.0_f64)) > !Layer::constant(-0.25_f64) {
x2 = ((x2 + Layer::constant(1.0_f64)) + (x1 + x0));
x0 = ((x0 + Layer::constant(-1.0_f64)) + Layer::constant(!x2));
} else {
match (!Layer::constant(!x0)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x2 = ((x0 + x2) + Layer::constant(0.0_f64));
x1 = x2.clone();
}
match (!(x2 + Layer::constant(0.0_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
if !(x1 + Layer::constant(-2.0_f64)) > !(x1 + x0) {
x1 = Layer::constant(!Layer::constant(!x0) - !(x2 * Layer::constant(0.75_f64)));
} else {
x1 = (-(x2 + x1));
x2 = (-(x0 - Layer::constant(-0.25_f64)));
x2 = (-Layer::constant(!x2 - !Layer::constant(-1.0_f64)));
}
}
if !Layer::constant(!Layer::constant(1.75_f64) - !Layer::constant(-1.0_f64)) > !(Layer::constant(-0.5_f64) + Layer::constant(1.25_f64)) {
x0 = ((x0 + Layer::constant(0.5_f64)) * (-Layer::constant(-1.5_f64)));
x0 = Layer::constant(!(x2 + x1) - !(-x0));
if !(x1 + x2) > !Layer::constant(!Layer::constant(1.5_f64)) {
x2 = (Layer::constant(2.0_f64) - (x2 + x1));
} else {
x0 = ((x2 + x1) + (x1 - x0));
x0 = Layer::constant(!Layer::constant(1.0_f64) - !Layer::constant(!Layer::constant(0.0_f64) - !x0));
x1 = (-(Layer::constant(2.0_f64) + Layer::constant(2.0_f64)));
}
} else {
if !x1 < -1.0 {
return (Layer::constant(-1.5_f64) - x1);
}
for _ in 0..0 {
if !x0 < -1.5 {
return Layer::constant(!x2 - !x2);
}
x0 = Layer::constant(1.25_f64);
if !x2 < -5.0 {
return Layer::constant(!Layer::constant(0.0_f64) - !x1);
}
}
if !x2 < -4.5 {
return Layer::constant(!x2 - !x1);
}
}
x0 = (-(x1 + x2));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_36(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = ((Layer::constant(0.0_f64) + Layer::constant(0.75_f64)) * Layer::constant(!x0));
x2 = ((Layer::constant(-2.0_f64) * Layer::constant(-0.75_f64)) + (Layer::constant(0.25_f64) + x2));
if !(x0 + x0) > !Layer::constant(-1.75_f64) {
if !(x0 + x1) > !x0 {
x2 = x2.clone();
if !x1 < -1.5 {
return Layer::constant(!Layer::constant(1.0_f64));
}
} else {
if !x1 < -1.0 {
return (x0 - x2);
}
if !x2 < -2.5 {
return Layer::constant(1.0_f64);
}
x1 = Layer::constant(!Layer::constant(0.25_f64));
}
} else {
let mut left1 = 1;
while left1 > 0 && !x2 > -0.5 {
x2 = x2 * 0.5;
x2 = (Layer::constant(!Layer::constant(-1.0_f64) - !x0) + x0);
left1 -= 1;
}
x1 = ((x2 * x2) + (Layer::constant(-2.0_f64) - x2));
if !Layer::constant(!x2) > !x2 {
x0 = ((x0 * Layer::constant(1.0_f64)) * (x0 + x1));
if !x1 < -5.0 {
return Layer::constant(!Layer::constant(-1.75_f64) - !Layer::constant(-2.0_f64));
}
match (!x1).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
x0 = Layer::constant(!(-Layer::constant(0.75_f64)));
x1 = (-Layer::constant(0.5_f64));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_37(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x1 - x1) > !Layer::constant(!Layer::constant(-0.25_f64) - !x1) {
if !Layer::constant(!Layer::constant(0.25_f64)) > !(x0 - Layer::constant(1.75_f64)) {
match (!(x1 + x2)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
match (!Layer::constant(-1.25_f64)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
x0 = Layer::constant(-2.0_f64);
if !x1 < -2.5 {
return (-x1);
}
x2 = Layer::constant(!(x2 * Layer::constant(2.0_f64)));
}
x1 = ((x2 * x2) - (x0 * x1));
match (!x0).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
match (!(x1 + x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
match (!Layer::constant(!x1)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_38(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(Layer::constant(-1.75_f64) - Layer::constant(2.0_f64)) > !(x2 * x1) {
x0 = ((Layer::constant(-0.25_f64) + Layer::constant(1.25_f64)) * Layer::constant(!x0));
let mut left1 = 1;
while left1 > 0 && !x2 > 1.0 {
x2 = x2 * 0.5;
x1 = (Layer::constant(!Layer::constant(-1.25_f64)) - Layer::constant(!x2));
x0 = (Layer::constant(1.5_f64) + (x2 + x2));
left1 -= 1;
}
} else {
x1 = (Layer::constant(!x1) * (Layer::constant(-1.75_f64) + x2));
}
if !x2 < -2.0 {
return x2.clone();
}
match (!Layer::constant(-1.5_f64)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_39(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x2 + Layer::constant(1.5_f64)) > !x2 {
if !Layer::constant(-0.5_f64) > !(x2 + x0) {
x2 = x0.clone();
} else {
x2 = Layer::constant(1.25_f64);
x1 = ((x2 + Layer::constant(-1.0_f64)) * Layer::constant(!x0));
}
x2 = ((Layer::constant(1.0_f64) + Layer::constant(-0.25_f64)) + (x2 - x1));
if !x0 < -4.0 {
return Layer::constant(!x1);
}
} else {
if !x0 > !Layer::constant(-1.0_f64) {
if !x1 < -4.5 {
return Layer::constant(1.25_f64);
}
} else {
x2 = Layer::constant(!x2);
x2 = x2.clone();
}
x0 = ((x2 + x2) - x2);
}
x1 = ((x2 * x1) + (x0 - Layer::constant(-1.75_f64)));
x2 = x0.clone();
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_40(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(Layer::constant(-1.75_f64) - x2) > !x0 {
match (!(x1 * Layer::constant(-2.0_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
if !x2 < -2.0 {
return (x0 - x2);
}
let mut left1 = 3;
while left1 > 0 && !x2 > -1.5 {
x2 = x2 * 0.5;
x1 = (-Layer::constant(!x1));
x1 = ((x1 - Layer::constant(0.25_f64)) * (x2 * x2));
left1 -= 1;
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_41(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x0 < -5.0 {
return (x1 + x1);
}
x0 = Layer::constant(!x2);
match (!x2).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_42(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(-x1) > !(x2 + x0) {
x2 = ((Layer::constant(-2.0_f64) - x0) * x1);
if !Layer::constant(!x0) > !x0 {
if !x0 < -1.5 {
return (Layer::constant(-0.5_f64) + x0);
}
if !x2 < -4.0 {
return (-Layer::constant(1.75_f64));
}
} else {
x2 = x2.clone();
}
if !(-x1) > !(-x1) {
if !x0 < -4.0 {
return (Layer::constant(-0.75_f64) - x2);
}
} else {
x2 = (Layer::constant(1.0_f64) + Layer::constant(!x2 - !x0));
x2 = (-(Layer::constant(-1.25_f64) - Layer::constant(0.5_f64)));
}
} else {
x1 = ((Layer::constant(-0.5_f64) - x1) + Layer::constant(!Layer::constant(2.0_f64)));
if !(x2 + x0) > !(x1 - x0) {
if !x0 < -4.0 {
return Layer::constant(0.75_f64);
}
x0 = x0.clone();
match (!Layer::constant(1.5_f64)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
match (!(Layer::constant(-1.0_f64) + x1)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
}
x0 = Layer::constant(-1.5_f64);
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_43(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = Layer::constant(!Layer::constant(!x0 - !x1));
for _ in 0..0 {
for _ in 0..1 {
x1 = x1.clone();
match (!x0).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x0 = x1.clone();
}
if !Layer::constant(!x1 - !x0) > !x1 {
x0 = x2.clone();
} else {
match (!x2).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x2 = Layer::constant(!(x0 + x1) - !Layer::constant(1.0_f64));
x1 = (-(-Layer::constant(2.0_f64)));
}
let mut left1 = 1;
while left1 > 0 && !x1 > 1.5 {
x1 = x1 * 0.5;
if !x1 < -4.0 {
return Layer::constant(!x2);
}
left1 -= 1;
}
}
x2 = (Layer::constant(!x1) - (x1 + x1));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_44(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(!Layer::constant(-1.5_f64)) > !Layer::constant(!Layer::constant(0.5_f64) - !Layer::constant(-1.25_f64)) {
x2 = Layer::constant(!Layer::constant(-0.5_f64) - !Layer::constant(-1.5_f64));
let mut left1 = 2;
while left1 > 0 && !x1 > -1.5 {
x1 = x1 * 0.5;
x2 = x0.clone();
left1 -= 1;
}
} else {
x0 = Layer::constant(1.75_f64);
}
if !Layer::constant(!x1 - !x1) > !Layer::constant(-2.0_f64) {
if !Layer::constant(!x2 - !x0) > !Layer::constant(0.25_f64) {
match (!Layer::constant(!x2)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x1 = Layer::constant(-2.0_f64);
} else {
x1 = (Layer::constant(!x0) * Layer::constant(!x0));
match (!(x2 + Layer::constant(-1.0_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
if !x2 < -4.5 {
return (x0 - x2);
}
}
if !Layer::constant(!Layer::constant(1.5_f64) - !x1) > !x0 {
match (!x1).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
match (!(x1 * x2)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x1 = Layer::constant(-2.0_f64);
} else {
match (!(x2 - x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
if !x0 < -2.5 {
return x1.clone();
}
}
} else {
if !(x1 - Layer::constant(-1.25_f64)) > !(x2 * x1) {
x2 = (-Layer::constant(1.25_f64));
x1 = x2.clone();
} else {
if !x1 < -3.5 {
return Layer::constant(1.5_f64);
}
if !x2 < -1.5 {
return Layer::constant(!Layer::constant(2.0_f64) - !Layer::constant(-0.75_f64));
}
if !x1 < -3.0 {
return Layer::constant(!x2);
}
}
x1 = x1.clone();
x0 = Layer::constant(!Layer::constant(!x0 - !x0));
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_45(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x1 - Layer::constant(-1.5_f64)) > !Layer::constant(1.0_f64) {
for _ in 0..2 {
x2 = ((x2 - x0) * Layer::constant(-0.5_f64));
x2 = ((-x2) + Layer::constant(-0.25_f64));
}
} else {
match (!(Layer::constant(0.0_f64) - x1)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
for _ in 0..2 {
x2 = ((x0 + x2) + Layer::constant(-0.25_f64));
}
}
for _ in 0..0 {
if !x0 > !(x0 * Layer::constant(0.5_f64)) {
x2 = x2.clone();
} else {
x1 = Layer::constant(1.75_f64);
}
}
if !Layer::constant(!x2) > !x2 {
match (!Layer::constant(1.0_f64)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
x2 = Layer::constant(!(-x0) - !x0);
if !Layer::constant(!x1) > !Layer::constant(-1.0_f64) {
x1 = Layer::constant(!x0 - !Layer::constant(!x2));
x0 = Layer::constant(!Layer::constant(2.0_f64));
} else {
if !x1 < -2.0 {
return (-x1);
}
x0 = Layer::constant(!(x1 + x2));
}
match (!(Layer::constant(0.75_f64) + x1)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_46(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = (-(x0 - x0));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_47(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x0 > !Layer::constant(0.75_f64) {
if !(-Layer::constant(0.0_f64)) > !(x0 + Layer::constant(-0.5_f64)) {
x2 = (x2 + Layer::constant(!Layer::constant(0.75_f64) - !x2));
x1 = Layer::constant(!(Layer::constant(-0.25_f64) + Layer::constant(1.0_f64)));
x2 = Layer::constant(!x0 - !x2);
} else {
match (!(-x2)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
for _ in 0..2 {
x0 = x0.clone();
if !x1 < -1.5 {
return Layer::constant(!x1 - !x1);
}
if !x1 < -4.5 {
return Layer::constant(-0.25_f64);
}
}
} else {
let mut left1 = 3;
while left1 > 0 && !x0 > -1.0 {
x0 = x0 * 0.5;
match (!(x2 * x1)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x0 = Layer::constant(!x0);
left1 -= 1;
}
let mut left1 = 3;
while left1 > 0 && !x2 > -1.0 {
x2 = x2 * 0.5;
x1 = (Layer::constant(!x1 - !x2) - (x2 * Layer::constant(-1.0_f64)));
if !x2 < -2.0 {
return x1.clone();
}
left1 -= 1;
}
}
let mut left0 = 2;
while left0 > 0 && !x0 > -1.5 {
x0 = x0 * 0.5;
if !x2 < -2.5 {
return x2.clone();
}
x2 = (Layer::constant(!x1) - Layer::constant(-0.25_f64));
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_48(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = (-(Layer::constant(-2.0_f64) + x1));
x1 = x2.clone();
x1 = ((-x2) - (x2 + x2));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_49(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = (x1 + (-x0));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_50(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = Layer::constant(1.75_f64);
x0 = (x0 * Layer::constant(!Layer::constant(0.75_f64)));
for _ in 0..0 {
if !x2 > !Layer::constant(!Layer::constant(0.0_f64) - !x1) {
x1 = (-x2);
match (!(-x1)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x1 = ((x0 + Layer::constant(-1.25_f64)) + x1);
} else {
match (!(x2 - Layer::constant(-0.25_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
if !x1 < -1.5 {
return (x2 * x1);
}
}
x2 = x1.clone();
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_51(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x0 + x2) > !x2 {
if !x2 < -3.5 {
return (Layer::constant(2.0_f64) - Layer::constant(-0.25_f64));
}
match (!x1).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
if !(x1 + x0) > !(x1 - x1) {
if !x2 < -4.5 {
return Layer::constant(-0.25_f64);
}
x1 = ((x1 + Layer::constant(-1.0_f64)) + (x2 + x2));
} else {
if !x1 < -4.5 {
return (x2 + x0);
}
x2 = x0.clone();
if !x2 < -1.5 {
return (x2 + x1);
}
}
for _ in 0..2 {
if !x1 < -4.0 {
return (Layer::constant(1.75_f64) - x1);
}
match (!(x0 + Layer::constant(-0.25_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
}
for _ in 0..2 {
x0 = ((-x0) - Layer::constant(0.75_f64));
x1 = Layer::constant(!Layer::constant(!x0 - !Layer::constant(0.0_f64)) - !Layer::constant(!Layer::constant(0.5_f64)));
}
}
if !(x1 + Layer::constant(0.75_f64)) > !(-x2) {
match (!(-Layer::constant(1.25_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
if !Layer::constant(-0.5_f64) > !x2 {
match (!Layer::constant(!x0)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x0 = x0.clone();
match (!(x2 - Layer::constant(0.75_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
x0 = Layer::constant(!(x2 + x2));
x2 = x0.clone();
x0 = (-(x0 + x0));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_52(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x1 = ((x1 - x2) - Layer::constant(!x2));
if !(x2 + x2) > !(x1 - x1) {
match (!x1).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x0 = (x0 * x1);
} else {
for _ in 0..0 {
x2 = x1.clone();
match (!x1).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_53(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
let mut left0 = 2;
while left0 > 0 && !x1 > 1.0 {
x1 = x1 * 0.5;
if !x0 > !x0 {
x1 = (x0 - x0);
x0 = ((x0 + Layer::constant(-1.25_f64)) + Layer::constant(-1.5_f64));
} else {
if !x1 < -3.0 {
return (Layer::constant(1.0_f64) + Layer::constant(1.75_f64));
}
}
if !Layer::constant(-0.5_f64) > !(Layer::constant(-1.75_f64) * x0) {
x2 = Layer::constant(-1.0_f64);
x0 = x0.clone();
} else {
if !x2 < -2.5 {
return (Layer::constant(-0.75_f64) + x2);
}
match (!(-x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x0 = (x2 * x2);
}
x2 = (-x2);
left0 -= 1;
}
if !(Layer::constant(-2.0_f64) - Layer::constant(1.0_f64)) > !x2 {
x2 = x0.clone();
} else {
if !Layer::constant(!x1) > !Layer::constant(!x1) {
match (!(x0 - x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
match (!Layer::constant(-1.0_f64)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
match (!(x0 * Layer::constant(0.5_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
match (!x1).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_54(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = Layer::constant(!(x0 - x0));
let mut left0 = 2;
while left0 > 0 && !x2 > -1.5 {
x2 = x2 * 0.5;
for _ in 0..2 {
x2 = x0.clone();
}
if !x2 < -2.5 {
return Layer::constant(1.5_f64);
}
x0 = (-Layer::constant(!Layer::constant(1.25_f64)));
left0 -= 1;
}
x0 = ((x2 + Layer::constant(-2.0_f64)) + x0);
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_55(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(!x2 - !Layer::constant(-1.0_f64)) > !Layer::constant(-1.75_f64) {
if !Layer::constant(!Layer::constant(-0.75_f64)) > !Layer::constant(0.0_f64) {
x0 = Layer::constant(0.0_f64);
match (!x0).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
match (!x1).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x2 = (Layer::constant(0.0_f64) + (x1 + Layer::constant(2.0_f64)));
}
if !Layer::constant(-1.25_f64) > !Layer::constant(!Layer::constant(-1.75_f64)) {
x1 = Layer::constant(-0.25_f64);
x0 = Layer::constant(-1.5_f64);
} else {
match (!Layer::constant(!x1)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
} else {
match (!(x1 + x0)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
if !x0 > !x2 {
match (!Layer::constant(!x0 - !x2)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
x0 = x1.clone();
match (!(x0 + x1)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
match (!x1).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
}
match (!(x0 * Layer::constant(0.25_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x2 = ((x1 + x0) + x0);
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_56(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..0 {
x0 = (x2 + (-x1));
if !x0 < -2.0 {
return Layer::constant(-0.25_f64);
}
if !(x2 + x1) > !x1 {
x2 = (-(x1 + x1));
} else {
x2 = x2.clone();
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_57(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!(-Layer::constant(0.25_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_58(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!(-x1)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
for _ in 0..0 {
let mut left1 = 3;
while left1 > 0 && !x0 > -1.5 {
x0 = x0 * 0.5;
x2 = (-x2);
left1 -= 1;
}
x2 = (Layer::constant(!Layer::constant(0.0_f64)) * (x1 + Layer::constant(-1.0_f64)));
}
if !x2 < -1.0 {
return (Layer::constant(1.0_f64) + x2);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_59(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!x1).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
if !(x1 * x2) > !(x2 + Layer::constant(-1.75_f64)) {
x2 = ((-x2) * x1);
if !x2 < -4.0 {
return x0.clone();
}
} else {
let mut left1 = 1;
while left1 > 0 && !x0 > -1.5 {
x0 = x0 * 0.5;
x1 = Layer::constant(!Layer::constant(!x1 - !x0) - !Layer::constant(!x2 - !x1));
left1 -= 1;
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_60(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x0 < -4.5 {
return (x2 * Layer::constant(-0.25_f64));
}
x1 = (x1 * x2);
for _ in 0..1 {
let mut left1 = 3;
while left1 > 0 && !x1 > -2.0 {
x1 = x1 * 0.5;
x2 = Layer::constant(!(Layer::constant(1.75_f64) - x0));
left1 -= 1;
}
for _ in 0..0 {
if !x1 < -1.0 {
return Layer::constant(!Layer::constant(-0.25_f64) - !x2);
}
}
if !Layer::constant(!x2) > !x0 {
x1 = x0.clone();
x2 = ((x1 * x2) + (x0 - x0));
} else {
if !x1 < -4.5 {
return x2.clone();
}
if !x2 < -4.0 {
return Layer::constant(-1.25_f64);
}
x2 = (Layer::constant(0.0_f64) * (x2 * x0));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_61(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x1 = Layer::constant(!(x1 + x0));
match (!(x1 + x1)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
let mut left0 = 1;
while left0 > 0 && !x0 > -0.5 {
x0 = x0 * 0.5;
if !x2 < -5.0 {
return (x0 * x0);
}
if !x0 < -2.5 {
return Layer::constant(!Layer::constant(2.0_f64) - !Layer::constant(1.0_f64));
}
if !x2 > !(x1 * x0) {
x0 = Layer::constant(!(x0 * x0));
} else {
x0 = ((x2 + x1) * (x1 + x1));
x1 = (x1 + (x1 - Layer::constant(-1.25_f64)));
}
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_62(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = ((Layer::constant(-0.5_f64) + Layer::constant(-1.25_f64)) + (Layer::constant(0.75_f64) + x1));
x1 = Layer::constant(!(Layer::constant(1.75_f64) + Layer::constant(1.25_f64)));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_63(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(0.5_f64) > !(x0 - x2) {
x2 = Layer::constant(1.0_f64);
if !(x2 * x1) > !Layer::constant(!x2) {
match (!(x0 + x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x1 = ((Layer::constant(0.25_f64) + x0) + x2);
match (!Layer::constant(!Layer::constant(1.75_f64) - !x1)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
x0 = ((x0 - x0) + x1);
match (!x1).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
if !x2 < -4.0 {
return Layer::constant(!Layer::constant(-1.75_f64));
}
}
let mut left1 = 3;
while left1 > 0 && !x0 > -0.5 {
x0 = x0 * 0.5;
if !x0 < -4.5 {
return x2.clone();
}
left1 -= 1;
}
} else {
x1 = Layer::constant(!Layer::constant(0.25_f64));
x0 = (Layer::constant(-0.75_f64) + (x2 - x0));
let mut left1 = 2;
while left1 > 0 && !x2 > -2.0 {
x2 = x2 * 0.5;
x1 = x2.clone();
left1 -= 1;
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_64(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x0 < -4.5 {
return x2.clone();
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_65(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(!x2) > !x2 {
x2 = Layer::constant(!x0);
x1 = (-(-Layer::constant(-1.0_f64)));
} else {
if !x2 < -4.0 {
return (-x2);
}
}
match (!(-x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_66(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
let mut left0 = 2;
while left0 > 0 && !x1 > -1.5 {
x1 = x1 * 0.5;
if !x2 < -1.5 {
return (Layer::constant(0.5_f64) + x0);
}
left0 -= 1;
}
let mut left0 = 2;
while left0 > 0 && !x0 > -2.0 {
x0 = x0 * 0.5;
match (!x2).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
if !(-x2) > !(x0 - Layer::constant(1.75_f64)) {
x0 = x1.clone();
x2 = Layer::constant(!(x1 + x0) - !Layer::constant(!x0 - !Layer::constant(-2.0_f64)));
x1 = (Layer::constant(!x2) + (x2 + x2));
} else {
x0 = (-(x1 + x2));
x0 = x0.clone();
}
left0 -= 1;
}
for _ in 0..0 {
match (!(Layer::constant(0.25_f64) + x1)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_67(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(Layer::constant(1.75_f64) * x1) > !(Layer::constant(1.0_f64) * x0) {
x2 = ((Layer::constant(1.0_f64) + x1) + x2);
for _ in 0..0 {
match (!Layer::constant(!x2)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
}
match (!(x1 + x1)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
for _ in 0..0 {
x0 = Layer::constant(!x0);
if !x1 < -4.0 {
return x0.clone();
}
}
if !x2 > !(x1 - x2) {
x0 = (-x1);
} else {
x1 = ((-x1) - Layer::constant(!Layer::constant(0.0_f64)));
x2 = (-Layer::constant(-1.0_f64));
match (!(x0 * x2)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
if !(x2 + Layer::constant(-0.75_f64)) > !(Layer::constant(1.75_f64) - x2) {
x0 = (x1 - (x0 - x1));
x0 = Layer::constant(1.75_f64);
} else {
x1 = x0.clone();
x2 = Layer::constant(!(Layer::constant(1.0_f64) * x2) - !(-x1));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_68(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!x1).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_69(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(!Layer::constant(1.25_f64) - !Layer::constant(0.5_f64)) > !(Layer::constant(1.0_f64) + x1) {
if !(-x0) > !x1 {
x0 = Layer::constant(!x0);
x1 = Layer::constant(!Layer::constant(1.5_f64));
x1 = Layer::constant(!(Layer::constant(-0.75_f64) * x2));
} else {
if !x1 < -1.0 {
return (-x0);
}
match (!x0).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x2 = x1.clone();
}
match (!x2).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
let mut left1 = 2;
while left1 > 0 && !x1 > 1.5 {
x1 = x1 * 0.5;
match (!(x2 + x2)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
left1 -= 1;
}
if !Layer::constant(0.5_f64) > !x2 {
x0 = Layer::constant(!x1);
match (!x2).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
x2 = Layer::constant(!Layer::constant(0.0_f64) - !(Layer::constant(0.0_f64) - x0));
}
}
x2 = x1.clone();
match (!x0).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_70(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = (Layer::constant(!Layer::constant(-1.0_f64)) * Layer::constant(!Layer::constant(1.75_f64)));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_71(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..0 {
let mut left1 = 1;
while left1 > 0 && !x2 > 2.0 {
x2 = x2 * 0.5;
if !x0 < -3.0 {
return x1.clone();
}
left1 -= 1;
}
if !(Layer::constant(0.5_f64) + Layer::constant(-2.0_f64)) > !(Layer::constant(0.5_f64) + x2) {
x1 = ((Layer::constant(0.25_f64) + x1) + x1);
} else {
match (!x1).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x2 = Layer::constant(!x1);
}
}
x0 = Layer::constant(!(x0 - Layer::constant(-1.0_f64)) - !x0);
if !x1 < -1.0 {
return (Layer::constant(-1.25_f64) + x2);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_72(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = ((x2 + Layer::constant(-1.25_f64)) * (x0 + x2));
x2 = x1.clone();
match (!x2).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_73(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x1 < -2.5 {
return (x1 - Layer::constant(-1.5_f64));
}
if !x1 < -1.0 {
return (-x2);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_74(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..2 {
if !x2 > !(Layer::constant(-0.75_f64) - Layer::constant(1.25_f64)) {
x0 = (Layer::constant(!Layer::constant(-0.5_f64) - !Layer::constant(-1.5_f64)) * x2);
} else {
x0 = (Layer::constant(!Layer::constant(-1.5_f64) - !Layer::constant(-0.25_f64)) + (x1 * Layer::constant(-1.75_f64)));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_75(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x1 > !Layer::constant(!x1 - !x0) {
if !x1 < -3.5 {
return (x0 - Layer::constant(0.75_f64));
}
let mut left1 = 2;
while left1 > 0 && !x0 > 1.5 {
x0 = x0 * 0.5;
if !x1 < -1.0 {
return (x1 - Layer::constant(1.75_f64));
}
x2 = ((-x1) + x2);
left1 -= 1;
}
} else {
match (!Layer::constant(-1.75_f64)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x2 = x2.clone();
x1 = ((x1 - Layer::constant(1.0_f64)) + Layer::constant(!x1 - !Layer::constant(-2.0_f64)));
}
for _ in 0..2 {
for _ in 0..0 {
x0 = x2.clone();
x0 = ((x1 + x0) + (Layer::constant(2.0_f64) + x1));
x1 = x0.clone();
}
if !x2 > !(Layer::constant(1.75_f64) - Layer::constant(-1.75_f64)) {
match (!(x0 + x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x1 = ((Layer::constant(0.5_f64) + Layer::constant(0.5_f64)) + (x1 + x1));
x2 = ((x0 + x1) + Layer::constant(-1.5_f64));
} else {
x0 = Layer::constant(!(x0 - x2));
if !x2 < -4.0 {
return Layer::constant(!Layer::constant(-1.0_f64) - !x0);
}
}
if !(x1 * Layer::constant(2.0_f64)) > !Layer::constant(!Layer::constant(0.5_f64)) {
x2 = Layer::constant(1.5_f64);
x2 = Layer::constant(-0.25_f64);
} else {
x0 = x1.clone();
if !x0 < -3.0 {
return (x0 - x1);
}
}
}
match (!Layer::constant(!x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_76(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
let mut left0 = 2;
while left0 > 0 && !x0 > -2.0 {
x0 = x0 * 0.5;
if !x1 > !(Layer::constant(-0.25_f64) - Layer::constant(1.75_f64)) {
if !x0 < -4.5 {
return (x2 - x1);
}
} else {
x0 = x2.clone();
x1 = (-Layer::constant(!x0));
x0 = Layer::constant(!Layer::constant(!Layer::constant(1.75_f64) - !x0) - !Layer::constant(-0.75_f64));
}
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_77(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x1 < -5.0 {
return Layer::constant(1.75_f64);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_78(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!x1).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
if !(x2 + x2) > !(x1 - x1) {
x2 = Layer::constant(0.25_f64);
} else {
if !Layer::constant(1.5_f64) > !(-x2) {
match (!(x0 - x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x1 = (-Layer::constant(!x2 - !x0));
x0 = (Layer::constant(-2.0_f64) * Layer::constant(!x1 - !x0));
} else {
x0 = Layer::constant(-1.25_f64);
if !x0 < -4.0 {
return Layer::constant(!x0);
}
}
let mut left1 = 2;
while left1 > 0 && !x0 > -0.5 {
x0 = x0 * 0.5;
match (!(Layer::constant(1.25_f64) * Layer::constant(-1.0_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x2 = (Layer::constant(!x1) * x1);
left1 -= 1;
}
let mut left1 = 3;
while left1 > 0 && !x0 > 1.5 {
x0 = x0 * 0.5;
match (!(x1 + x2)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
left1 -= 1;
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_79(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = (-Layer::constant(!Layer::constant(0.25_f64) - !x0));
x2 = x0.clone();
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_80(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = Layer::constant(-1.0_f64);
if !x2 > !(x1 * Layer::constant(-1.5_f64)) {
if !x1 < -3.5 {
return Layer::constant(!Layer::constant(1.5_f64));
}
if !(Layer::constant(-0.5_f64) + x0) > !Layer::constant(!Layer::constant(1.0_f64) - !x1) {
x0 = Layer::constant(!(x1 - x2));
x0 = (Layer::constant(1.25_f64) * Layer::constant(1.0_f64));
} else {
x2 = (x1 + (x1 + x0));
x2 = x1.clone();
x2 = Layer::constant(!(x1 + x2) - !x0);
}
if !Layer::constant(!Layer::constant(1.25_f64) - !x1) > !Layer::constant(!Layer::constant(0.0_f64)) {
x0 = Layer::constant(-1.75_f64);
} else {
x0 = Layer::constant(0.75_f64);
x2 = x1.clone();
x0 = x2.clone();
}
} else {
if !(x2 + x0) > !Layer::constant(-1.5_f64) {
x2 = x0.clone();
x0 = (-(-x0));
} else {
x0 = ((x1 + x0) + (-x1));
x1 = Layer::constant(!Layer::constant(!x0) - !x0);
x0 = (-x1);
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_81(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!(Layer::constant(-2.0_f64) * x2)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x1 = ((x1 + x0) + (Layer::constant(-1.5_f64) + x2));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_82(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!x2).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_83(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = Layer::constant(!(x2 * x2));
match (!(x1 - Layer::constant(1.25_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_84(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = x1.clone();
x1 = (Layer::constant(!Layer::constant(1.25_f64) - !x1) + (x0 - Layer::constant(2.0_f64)));
x1 = Layer::constant(!Layer::constant(!x1 - !x2) - !Layer::constant(!x2 - !Layer::constant(1.75_f64)));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_85(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x1 = Layer::constant(!Layer::constant(-0.25_f64));
let mut left0 = 2;
while left0 > 0 && !x2 > 0.0 {
x2 = x2 * 0.5;
x0 = Layer::constant(!x0 - !(Layer::constant(-1.25_f64) - Layer::constant(0.25_f64)));
if !x2 < -3.5 {
return Layer::constant(-1.75_f64);
}
left0 -= 1;
}
if !Layer::constant(1.0_f64) > !x1 {
if !(x0 + x0) > !Layer::constant(-1.0_f64) {
match (!Layer::constant(-1.0_f64)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
x1 = Layer::constant(!Layer::constant(!x0) - !x2);
match (!(Layer::constant(-0.25_f64) * x1)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x0 = ((x0 + Layer::constant(0.25_f64)) + Layer::constant(-0.25_f64));
}
match (!(Layer::constant(-1.5_f64) + Layer::constant(-0.75_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
let mut left1 = 2;
while left1 > 0 && !x2 > 0.0 {
x2 = x2 * 0.5;
match (!(x0 - x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x1 = ((x1 + x1) * Layer::constant(-1.25_f64));
x0 = (Layer::constant(!x2) * (-x0));
left1 -= 1;
}
} else {
if !(Layer::constant(1.5_f64) * Layer::constant(1.75_f64)) > !Layer::constant(!Layer::constant(1.5_f64)) {
x0 = ((x1 * Layer::constant(-0.75_f64)) * Layer::constant(!Layer::constant(1.75_f64)));
match (!x2).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
x1 = Layer::constant(-1.75_f64);
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_86(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
let mut left0 = 2;
while left0 > 0 && !x0 > -1.0 {
x0 = x0 * 0.5;
if !x0 < -2.5 {
return Layer::constant(!x0);
}
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_87(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!(Layer::constant(0.25_f64) - Layer::constant(-1.25_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
if !Layer::constant(!x0 - !Layer::constant(1.0_f64)) > !Layer::constant(1.5_f64) {
x1 = Layer::constant(!(-x0) - !Layer::constant(0.0_f64));
} else {
match (!(x2 + Layer::constant(-1.25_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x2 = (Layer::constant(-2.0_f64) + (x2 + x0));
if !Layer::constant(0.5_f64) > !(-Layer::constant(-1.0_f64)) {
if !x0 < -2.0 {
return Layer::constant(!Layer::constant(1.0_f64));
}
x2 = x0.clone();
match (!(Layer::constant(-1.75_f64) * x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
match (!(x0 - Layer::constant(-1.75_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_88(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!x2).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x1 = (-(x0 + x0));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_89(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!Layer::constant(!Layer::constant(0.0_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
if !x1 < -2.0 {
return x0.clone();
}
let mut left0 = 2;
while left0 > 0 && !x2 > 0.5 {
x2 = x2 * 0.5;
x1 = (x1 + (-x2));
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_90(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = Layer::constant(1.0_f64);
x2 = Layer::constant(-2.0_f64);
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_91(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x1 > !(Layer::constant(-1.75_f64) + x0) {
for _ in 0..0 {
x0 = x0.clone();
x2 = Layer::constant(!(x2 * Layer::constant(-1.0_f64)));
x2 = Layer::constant(!Layer::constant(0.0_f64) - !(x1 - x0));
}
match (!(Layer::constant(-1.25_f64) * x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
if !x1 > !(Layer::constant(-2.0_f64) * x0) {
x0 = x1.clone();
x2 = Layer::constant(!(-x0));
x0 = Layer::constant(-1.25_f64);
} else {
if !x2 < -1.5 {
return Layer::constant(!x0);
}
}
} else {
for _ in 0..1 {
x0 = x1.clone();
x2 = x1.clone();
if !x2 < -1.0 {
return x1.clone();
}
}
match (!(Layer::constant(1.75_f64) + Layer::constant(0.5_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_92(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = Layer::constant(!(x1 + x2) - !(x2 - x0));
let mut left0 = 1;
while left0 > 0 && !x0 > 1.5 {
x0 = x0 * 0.5;
let mut left1 = 2;
while left1 > 0 && !x1 > 0.0 {
x1 = x1 * 0.5;
x2 = (x1 + (x0 + Layer::constant(0.0_f64)));
x2 = ((Layer::constant(0.75_f64) + x1) + (x1 * x1));
left1 -= 1;
}
if !Layer::constant(-1.5_f64) > !Layer::constant(!x0) {
x1 = (Layer::constant(!x1 - !x2) - (Layer::constant(1.75_f64) * Layer::constant(-1.75_f64)));
x0 = Layer::constant(!(x1 - Layer::constant(1.0_f64)));
if !x1 < -1.5 {
return (x0 + Layer::constant(-0.25_f64));
}
} else {
x0 = x0.clone();
}
left0 -= 1;
}
x1 = x2.clone();
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_93(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x1 = Layer::constant(0.75_f64);
for _ in 0..2 {
if !(-x2) > !(-x0) {
x0 = (x2 - (x1 * x1));
x0 = ((-x1) - (x2 - Layer::constant(1.25_f64)));
x1 = x2.clone();
} else {
if !x2 < -4.5 {
return Layer::constant(!x2);
}
}
x2 = (Layer::constant(!x1 - !Layer::constant(-0.25_f64)) + (Layer::constant(2.0_f64) + Layer::constant(-2.0_f64)));
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_94(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!Layer::constant(!x1 - !x2)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
if !Layer::constant(!x2 - !x0) > !(x0 + Layer::constant(-1.0_f64)) {
if !(-Layer::constant(-0.5_f64)) > !Layer::constant(0.0_f64) {
match (!x0).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x2 = x2.clone();
} else {
x0 = x2.clone();
x2 = ((Layer::constant(1.0_f64) - Layer::constant(1.25_f64)) - Layer::constant(!x2 - !x0));
}
if !(Layer::constant(2.0_f64) + Layer::constant(1.75_f64)) > !(-x2) {
x2 = x0.clone();
x1 = ((x2 * Layer::constant(1.0_f64)) * (x1 * x2));
x2 = Layer::constant(!(Layer::constant(1.0_f64) + Layer::constant(1.25_f64)) - !(x2 + x2));
} else {
x0 = x1.clone();
}
} else {
if !(x0 + x2) > !(x1 + x1) {
x2 = Layer::constant(-0.5_f64);
} else {
x2 = Layer::constant(!(x0 * x2));
x1 = (Layer::constant(!x2 - !Layer::constant(1.75_f64)) + (-x2));
}
}
if !(x1 + x0) > !x2 {
match (!Layer::constant(0.25_f64)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
x0 = Layer::constant(!x0 - !Layer::constant(!x1 - !x1));
for _ in 0..1 {
x0 = Layer::constant(!Layer::constant(!x1));
match (!(x1 * Layer::constant(1.75_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x0 = Layer::constant(-0.75_f64);
}
x0 = Layer::constant(0.25_f64);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_95(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x0 + x0) > !(x1 + x2) {
x1 = Layer::constant(!Layer::constant(!x1 - !x0) - !(x0 + x1));
} else {
match (!x1).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x2 = (Layer::constant(!x1 - !Layer::constant(-1.75_f64)) * (x2 + x0));
}
if !(Layer::constant(-1.25_f64) - Layer::constant(-0.25_f64)) > !(x1 + Layer::constant(0.25_f64)) {
if !x2 < -4.5 {
return Layer::constant(!Layer::constant(-1.25_f64));
}
if !(x0 + x2) > !Layer::constant(!Layer::constant(1.25_f64) - !Layer::constant(1.75_f64)) {
if !x1 < -1.5 {
return x0.clone();
}
x0 = (x0 - (x0 + Layer::constant(1.0_f64)));
} else {
x1 = (Layer::constant(!Layer::constant(-1.25_f64) - !x0) + Layer::constant(-2.0_f64));
x1 = x1.clone();
}
match (!(Layer::constant(-0.25_f64) * x2)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
if !Layer::constant(!x0 - !x0) > !(x2 - x1) {
x1 = x0.clone();
x1 = (x2 + Layer::constant(!x0));
x0 = x0.clone();
} else {
if !x2 < -3.5 {
return Layer::constant(-2.0_f64);
}
x0 = Layer::constant(!x0);
}
x2 = Layer::constant(!(-x2) - !x0);
for _ in 0..2 {
x0 = (x2 + Layer::constant(0.5_f64));
}
}
x0 = Layer::constant(1.5_f64);
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_96(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = ((Layer::constant(-1.25_f64) - Layer::constant(0.25_f64)) - (Layer::constant(-1.0_f64) * Layer::constant(1.0_f64)));
if !Layer::constant(!x0 - !x1) > !(x2 + x2) {
if !x0 > !x1 {
x2 = Layer::constant(!(Layer::constant(0.5_f64) + Layer::constant(1.5_f64)));
match (!x1).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x0 = Layer::constant(-0.5_f64);
} else {
match (!(-Layer::constant(1.25_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
if !x2 < -1.5 {
return (x2 + Layer::constant(-1.25_f64));
}
}
x0 = Layer::constant(!(Layer::constant(0.5_f64) - Layer::constant(0.0_f64)));
for _ in 0..0 {
if !x2 < -1.5 {
return (x1 - x2);
}
x0 = ((x2 + Layer::constant(-1.0_f64)) * Layer::constant(!Layer::constant(0.75_f64)));
x1 = Layer::constant(!(x0 + x1) - !(x0 - x1));
}
} else {
x0 = Layer::constant(!(-Layer::constant(-1.0_f64)) - !Layer::constant(1.5_f64));
x1 = (Layer::constant(!x0) * x1);
let mut left1 = 2;
while left1 > 0 && !x2 > 1.5 {
x2 = x2 * 0.5;
x2 = x0.clone();
left1 -= 1;
}
}
if !x1 < -3.0 {
return Layer::constant(!x2 - !Layer::constant(0.75_f64));
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_97(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(-Layer::constant(-0.75_f64)) > !(x2 + Layer::constant(0.5_f64)) {
if !(x1 + x1) > !(x2 + x1) {
x2 = ((Layer::constant(-1.0_f64) * Layer::constant(-0.25_f64)) - Layer::constant(1.0_f64));
x0 = x2.clone();
} else {
match (!x2).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x2 = Layer::constant(0.25_f64);
}
if !x1 < -1.0 {
return Layer::constant(!x1);
}
} else {
x1 = (Layer::constant(1.0_f64) + Layer::constant(!Layer::constant(-1.0_f64) - !x1));
x2 = (Layer::constant(!x0) * Layer::constant(!Layer::constant(0.0_f64) - !x0));
}
x1 = (Layer::constant(-1.25_f64) - x1);
if !(Layer::constant(-1.25_f64) - x0) > !(x1 + x0) {
let mut left1 = 3;
while left1 > 0 && !x0 > 0.5 {
x0 = x0 * 0.5;
x2 = Layer::constant(!x2);
if !x2 < -3.0 {
return (-x0);
}
x1 = (x0 - Layer::constant(!x0 - !x1));
left1 -= 1;
}
x1 = Layer::constant(0.75_f64);
let mut left1 = 3;
while left1 > 0 && !x2 > -2.0 {
x2 = x2 * 0.5;
match (!Layer::constant(!x1 - !x1)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x0 = (-(-x0));
left1 -= 1;
}
} else {
x0 = (-(-Layer::constant(-0.25_f64)));
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_98(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x1 < -1.5 {
return (Layer::constant(0.5_f64) - Layer::constant(-0.75_f64));
}
x1 = (-Layer::constant(-0.75_f64));
if !(x2 - x1) > !(x0 + Layer::constant(0.0_f64)) {
let mut left1 = 1;
while left1 > 0 && !x2 > 0.0 {
x2 = x2 * 0.5;
x2 = (Layer::constant(!x2 - !x2) + (Layer::constant(1.75_f64) + x1));
left1 -= 1;
}
match (!Layer::constant(1.5_f64)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
if !(x0 + x2) > !Layer::constant(!Layer::constant(-1.0_f64)) {
x0 = (-x0);
x2 = ((-x1) + (x1 * x1));
x1 = Layer::constant(!Layer::constant(-0.5_f64) - !(x2 - Layer::constant(-1.75_f64)));
} else {
x2 = ((x2 + x2) + Layer::constant(-1.75_f64));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_99(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(-x2) > !(x1 * Layer::constant(-1.0_f64)) {
if !Layer::constant(!x1) > !(x0 - Layer::constant(1.75_f64)) {
x1 = (Layer::constant(!x0) + x0);
x1 = Layer::constant(!Layer::constant(!Layer::constant(1.5_f64)));
x0 = (Layer::constant(!Layer::constant(0.75_f64) - !x2) + Layer::constant(-2.0_f64));
} else {
match (!Layer::constant(!Layer::constant(-1.5_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
}
} else {
if !Layer::constant(!x2) > !Layer::constant(2.0_f64) {
x1 = ((Layer::constant(0.0_f64) - x2) + (Layer::constant(1.25_f64) * Layer::constant(1.5_f64)));
x0 = Layer::constant(!x0 - !Layer::constant(-2.0_f64));
} else {
x1 = (-(-Layer::constant(-1.75_f64)));
x2 = Layer::constant(!Layer::constant(!x1) - !(x1 - x2));
}
x1 = Layer::constant(-1.0_f64);
if !x1 < -2.5 {
return (x1 - x2);
}
}
let mut left0 = 2;
while left0 > 0 && !x1 > 0.5 {
x1 = x1 * 0.5;
match (!x0).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
for _ in 0..2 {
match (!x2).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
match (!(x2 * Layer::constant(-2.0_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x0 = ((x0 + Layer::constant(-1.0_f64)) + Layer::constant(!x2));
}
if !x2 > !(x0 + x0) {
x1 = x0.clone();
} else {
x0 = x2.clone();
x1 = Layer::constant(!x2);
}
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_100(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x1 < -1.5 {
return (-x1);
}
x1 = x2.clone();
let mut left0 = 1;
while left0 > 0 && !x1 > -1.5 {
x1 = x1 * 0.5;
x1 = ((x1 + x2) + (-Layer::constant(-1.5_f64)));
if !(-Layer::constant(0.0_f64)) > !(x0 * x0) {
x2 = Layer::constant(!(-x2) - !(-x1));
x1 = Layer::constant(!(-x0));
} else {
x1 = x1.clone();
}
x0 = ((Layer::constant(2.0_f64) + x2) + x0);
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_101(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(Layer::constant(-1.5_f64) + Layer::constant(0.25_f64)) > !x0 {
x0 = Layer::constant(0.0_f64);
x2 = x0.clone();
if !(-x0) > !(x0 + Layer::constant(0.0_f64)) {
x0 = Layer::constant(!(x1 + x0) - !x2);
} else {
match (!Layer::constant(!Layer::constant(0.25_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
}
} else {
if !(Layer::constant(0.25_f64) + x2) > !Layer::constant(!x2) {
if !x1 < -4.5 {
return (x0 - x2);
}
} else {
x2 = x1.clone();
x0 = x2.clone();
match (!(-Layer::constant(1.25_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_102(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(!Layer::constant(0.5_f64)) > !x1 {
if !(Layer::constant(0.25_f64) + x0) > !x1 {
x2 = ((-x2) + x1);
} else {
match (!x2).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x1 = (x0 + (x0 * x2));
}
} else {
for _ in 0..1 {
x2 = x1.clone();
}
}
if !(x1 + x1) > !(x1 - Layer::constant(0.25_f64)) {
if !(x2 + x0) > !(x2 - x1) {
match (!(x1 + Layer::constant(-0.25_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
x1 = (Layer::constant(!Layer::constant(0.25_f64) - !x0) + Layer::constant(!x0));
match (!Layer::constant(-1.25_f64)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x2 = x1.clone();
}
} else {
for _ in 0..1 {
if !x2 < -4.5 {
return Layer::constant(!x0 - !Layer::constant(1.25_f64));
}
}
match (!(Layer::constant(-0.25_f64) + Layer::constant(-1.75_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_103(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(-x0) > !(x2 + x1) {
if !Layer::constant(0.5_f64) > !x0 {
x0 = Layer::constant(0.5_f64);
x1 = (-(x0 + Layer::constant(2.0_f64)));
} else {
x1 = Layer::constant(!Layer::constant(-2.0_f64));
match (!x1).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x1 = x2.clone();
}
} else {
if !Layer::constant(!Layer::constant(-0.25_f64) - !x2) > !Layer::constant(1.25_f64) {
x0 = x0.clone();
x2 = ((Layer::constant(1.0_f64) + Layer::constant(1.25_f64)) + (-x1));
} else {
x2 = Layer::constant(!Layer::constant(-1.0_f64) - !(-x2));
x1 = (Layer::constant(!x1 - !Layer::constant(1.5_f64)) * (x0 - Layer::constant(0.5_f64)));
}
let mut left1 = 1;
while left1 > 0 && !x1 > 1.0 {
x1 = x1 * 0.5;
match (!(x1 + x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x1 = x1.clone();
left1 -= 1;
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_104(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(-x2) > !x1 {
if !Layer::constant(!Layer::constant(0.75_f64)) > !(x0 + x0) {
x0 = (x2 + (-x2));
} else {
match (!Layer::constant(!x1 - !Layer::constant(0.75_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x1 = Layer::constant(!(Layer::constant(0.5_f64) + x0));
}
let mut left1 = 1;
while left1 > 0 && !x2 > 0.5 {
x2 = x2 * 0.5;
if !x0 < -3.5 {
return (x0 * Layer::constant(0.25_f64));
}
x0 = x2.clone();
left1 -= 1;
}
} else {
let mut left1 = 1;
while left1 > 0 && !x1 > -0.5 {
x1 = x1 * 0.5;
match (!x2).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x0 = (x0 * Layer::constant(!x0 - !Layer::constant(-1.25_f64)));
x1 = Layer::constant(2.0_f64);
left1 -= 1;
}
}
let mut left0 = 2;
while left0 > 0 && !x0 > 1.0 {
x0 = x0 * 0.5;
x2 = Layer::constant(!x1 - !Layer::constant(!x1 - !Layer::constant(-1.25_f64)));
x2 = Layer::constant(!(-x1));
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_105(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..1 {
x0 = ((x0 - Layer::constant(-1.75_f64)) * x0);
}
match (!Layer::constant(!x2 - !x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
let mut left0 = 2;
while left0 > 0 && !x0 > 0.5 {
x0 = x0 * 0.5;
if !x2 < -3.0 {
return (x0 * x2);
}
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_106(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = Layer::constant(!(x0 + Layer::constant(-1.75_f64)) - !(x1 * x1));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_107(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
let mut left0 = 2;
while left0 > 0 && !x2 > 1.0 {
x2 = x2 * 0.5;
if !x0 > !(x0 - Layer::constant(1.75_f64)) {
x2 = Layer::constant(!(x1 - x0));
if !x2 < -2.0 {
return x0.clone();
}
} else {
match (!Layer::constant(-1.0_f64)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
left0 -= 1;
}
x1 = Layer::constant(!(x2 + x0));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_108(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(-0.75_f64) > !(Layer::constant(1.5_f64) * x1) {
x2 = Layer::constant(!(x1 - x0) - !Layer::constant(!Layer::constant(-0.75_f64) - !x0));
if !Layer::constant(0.25_f64) > !x0 {
match (!(-x0)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x2 = x2.clone();
if !x0 < -2.5 {
return (-Layer::constant(-0.25_f64));
}
} else {
if !x1 < -2.0 {
return (-Layer::constant(0.25_f64));
}
x0 = ((x0 + x0) * Layer::constant(-1.75_f64));
match (!(Layer::constant(-0.25_f64) - x2)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
} else {
if !(x2 + x1) > !x0 {
match (!(x2 - Layer::constant(0.0_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x1 = ((Layer::constant(0.75_f64) - x1) + Layer::constant(!x2 - !x2));
} else {
x2 = (-(-x2));
x1 = ((x1 + x2) - Layer::constant(!x2 - !x1));
}
x2 = x1.clone();
if !x1 < -3.5 {
return Layer::constant(!x0 - !x1);
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_109(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..2 {
x2 = Layer::constant(!Layer::constant(!Layer::constant(0.25_f64)) - !x1);
if !x1 < -5.0 {
return x0.clone();
}
}
if !(x1 - x2) > !x2 {
if !Layer::constant(!Layer::constant(2.0_f64)) > !x2 {
x2 = ((x2 * x1) + (x1 + x1));
x1 = ((Layer::constant(1.75_f64) - x2) + x1);
if !x0 < -3.0 {
return Layer::constant(0.5_f64);
}
} else {
x2 = Layer::constant(!(x2 - x1));
}
} else {
let mut left1 = 2;
while left1 > 0 && !x0 > 0.0 {
x0 = x0 * 0.5;
match (!(Layer::constant(-0.5_f64) * Layer::constant(-0.25_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x0 = Layer::constant(!Layer::constant(1.75_f64) - !(-Layer::constant(1.5_f64)));
left1 -= 1;
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_110(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!Layer::constant(!x2 - !Layer::constant(1.25_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_111(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x1 < -1.0 {
return x0.clone();
}
x2 = Layer::constant(!(Layer::constant(-1.0_f64) * x1));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_112(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x1 - x2) > !x2 {
x0 = x1.clone();
} else {
if !Layer::constant(-1.5_f64) > !Layer::constant(!Layer::constant(-1.75_f64)) {
x2 = (Layer::constant(!Layer::constant(0.5_f64) - !x2) * Layer::constant(-0.75_f64));
match (!Layer::constant(!x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
if !x1 < -4.0 {
return x2.clone();
}
} else {
match (!x0).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
match (!Layer::constant(!Layer::constant(0.0_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x2 = ((x2 + Layer::constant(0.0_f64)) * (x0 + Layer::constant(1.0_f64)));
}
if !x0 < -3.0 {
return Layer::constant(!x2 - !x1);
}
if !x1 > !(x0 - x1) {
if !x1 < -2.5 {
return (Layer::constant(0.5_f64) * x2);
}
} else {
x1 = x2.clone();
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_113(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = (x1 * (x2 + x0));
match (!Layer::constant(2.0_f64)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_114(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = (-(x2 + x1));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_115(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..0 {
if !Layer::constant(!x2) > !Layer::constant(!x2) {
x1 = ((x0 - x1) * (x1 + x1));
if !x1 < -3.0 {
return (x0 - x0);
}
x2 = (-x1);
} else {
x1 = Layer::constant(!x1 - !(x0 + Layer::constant(2.0_f64)));
}
match (!Layer::constant(-1.75_f64)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_116(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..0 {
if !(-Layer::constant(1.0_f64)) > !x2 {
x1 = x1.clone();
x1 = Layer::constant(!x1 - !Layer::constant(!Layer::constant(-1.0_f64)));
} else {
if !x0 < -4.5 {
return Layer::constant(!x2 - !x0);
}
match (!x2).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_117(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x0 < -3.0 {
return x1.clone();
}
if !(x1 - Layer::constant(0.25_f64)) > !(-x2) {
x2 = (Layer::constant(!x1) + Layer::constant(!x1));
if !Layer::constant(!Layer::constant(-1.25_f64) - !x1) > !(x0 * x2) {
x1 = (Layer::constant(!Layer::constant(0.25_f64)) + x1);
x2 = x0.clone();
} else {
x1 = (-x2);
x0 = Layer::constant(!(x0 * x2) - !x1);
x0 = (Layer::constant(!x1) - (Layer::constant(0.25_f64) + x2));
}
} else {
if !x2 > !Layer::constant(!Layer::constant(0.25_f64)) {
x2 = (Layer::constant(0.5_f64) + (x0 - Layer::constant(-0.5_f64)));
} else {
x1 = Layer::constant(-2.0_f64);
x2 = (x1 * Layer::constant(!Layer::constant(0.0_f64)));
}
x2 = ((Layer::constant(-2.0_f64) + x0) + (Layer::constant(-0.25_f64) + Layer::constant(1.25_f64)));
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_118(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = ((Layer::constant(0.0_f64) * Layer::constant(1.75_f64)) + x1);
match (!(x1 + Layer::constant(-1.0_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_119(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x1 > !x0 {
if !x0 < -3.0 {
return x1.clone();
}
if !(-Layer::constant(-0.5_f64)) > !(Layer::constant(0.75_f64) * Layer::constant(-0.75_f64)) {
if !x0 < -1.0 {
return Layer::constant(!Layer::constant(-2.0_f64));
}
x1 = (x1 - (Layer::constant(-0.25_f64) + x2));
x1 = x2.clone();
} else {
match (!Layer::constant(!Layer::constant(-2.0_f64) - !x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
x0 = Layer::constant(!(x2 + Layer::constant(-1.5_f64)));
} else {
for _ in 0..0 {
if !x1 < -3.0 {
return (Layer::constant(-1.25_f64) + x1);
}
x0 = ((-x0) + (x0 - Layer::constant(-2.0_f64)));
match (!(-x1)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
}
if !Layer::constant(!Layer::constant(2.0_f64) - !Layer::constant(1.0_f64)) > !(x0 + Layer::constant(2.0_f64)) {
x2 = (-(Layer::constant(-2.0_f64) + x1));
} else {
x2 = Layer::constant(!(x1 * x2));
}
}
if !(-x2) > !Layer::constant(!x2) {
if !x1 < -2.0 {
return x1.clone();
}
} else {
for _ in 0..1 {
x1 = ((x0 * x1) * (-x1));
}
for _ in 0..1 {
x1 = (-Layer::constant(-2.0_f64));
x1 = ((-Layer::constant(1.25_f64)) + Layer::constant(!x2 - !x1));
x0 = ((x0 + x2) + (Layer::constant(-1.5_f64) * x0));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_120(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(0.0_f64) > !Layer::constant(1.0_f64) {
x1 = Layer::constant(-0.25_f64);
} else {
if !x0 < -2.0 {
return Layer::constant(!x2);
}
for _ in 0..0 {
x0 = Layer::constant(!x0);
if !x1 < -4.5 {
return (x1 * x0);
}
x1 = (Layer::constant(1.5_f64) + (x2 + Layer::constant(0.75_f64)));
}
x0 = (-x0);
}
x2 = (Layer::constant(!Layer::constant(0.75_f64)) - Layer::constant(!Layer::constant(1.75_f64)));
if !(-x2) > !Layer::constant(!x1 - !x2) {
let mut left1 = 2;
while left1 > 0 && !x0 > 0.5 {
x0 = x0 * 0.5;
match (!(x0 * x0)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
if !x0 < -4.0 {
return Layer::constant(!x2);
}
left1 -= 1;
}
match (!(x1 * Layer::constant(0.25_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
if !x0 > !(x0 + x0) {
x0 = ((Layer::constant(-1.5_f64) + x1) * Layer::constant(!x0 - !x2));
} else {
x2 = ((x2 + Layer::constant(-1.5_f64)) + Layer::constant(!x2 - !x0));
}
for _ in 0..2 {
match (!Layer::constant(!Layer::constant(0.5_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x1 = Layer::constant(!Layer::constant(!x2 - !x1));
x2 = Layer::constant(!x1);
}
if !(-Layer::constant(-0.25_f64)) > !(Layer::constant(-0.5_f64) - x2) {
x0 = ((x0 * x1) * Layer::constant(!Layer::constant(0.0_f64)));
x0 = Layer::constant(!x0);
x0 = (-x2);
} else {
x2 = (-(x0 + Layer::constant(-0.5_f64)));
x0 = x0.clone();
x1 = Layer::constant(0.25_f64);
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_121(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x1 = Layer::constant(!(Layer::constant(0.75_f64) * x1) - !(x0 * Layer::constant(-0.5_f64)));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_122(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..0 {
x1 = x1.clone();
x1 = Layer::constant(!(x1 + Layer::constant(-1.0_f64)));
}
if !(x2 * Layer::constant(1.5_f64)) > !(x0 + x0) {
match (!Layer::constant(!Layer::constant(0.0_f64) - !x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
if !x2 < -3.0 {
return Layer::constant(!x2 - !Layer::constant(2.0_f64));
}
x1 = x1.clone();
for _ in 0..2 {
x1 = ((Layer::constant(0.5_f64) + Layer::constant(-0.5_f64)) + (x1 + x1));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_123(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x1 = (-x1);
if !(-x0) > !(Layer::constant(-2.0_f64) - x1) {
if !x1 > !(-Layer::constant(-1.75_f64)) {
x0 = Layer::constant(-0.75_f64);
x1 = (-Layer::constant(-1.5_f64));
if !x1 < -5.0 {
return x0.clone();
}
} else {
if !x1 < -3.5 {
return (x1 * x1);
}
}
} else {
if !Layer::constant(!x0) > !(x0 - x2) {
if !x2 < -4.5 {
return Layer::constant(!x2);
}
x1 = ((x2 * x0) + (Layer::constant(0.25_f64) * Layer::constant(-0.75_f64)));
} else {
x1 = x1.clone();
}
if !x2 > !(Layer::constant(-1.5_f64) - x2) {
x2 = x0.clone();
} else {
x2 = ((-x0) + Layer::constant(!x1));
x2 = ((-x0) * (x0 + x1));
}
}
if !(x2 + x2) > !(Layer::constant(0.0_f64) - x0) {
if !x1 < -1.5 {
return (x1 * x1);
}
x2 = (Layer::constant(!x2 - !Layer::constant(-1.75_f64)) + (-x1));
} else {
for _ in 0..0 {
match (!(Layer::constant(0.0_f64) + x1)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x0 = (x0 + (x2 + x2));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_124(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(-Layer::constant(-2.0_f64)) > !Layer::constant(-1.0_f64) {
x2 = (x0 + Layer::constant(!Layer::constant(-1.25_f64) - !x2));
} else {
x2 = Layer::constant(-1.0_f64);
x1 = (-(Layer::constant(1.5_f64) + Layer::constant(-1.0_f64)));
}
if !(x1 - Layer::constant(-0.25_f64)) > !(Layer::constant(-1.5_f64) + x0) {
let mut left1 = 3;
while left1 > 0 && !x2 > 1.5 {
x2 = x2 * 0.5;
x2 = Layer::constant(!(Layer::constant(1.5_f64) * x0) - !(x1 + x0));
x0 = ((x1 + Layer::constant(0.75_f64)) + x1);
left1 -= 1;
}
x0 = x2.clone();
} else {
if !Layer::constant(-0.75_f64) > !(x0 + Layer::constant(0.25_f64)) {
x1 = Layer::constant(-1.0_f64);
x1 = (Layer::constant(!x1 - !x0) - Layer::constant(-1.0_f64));
match (!(x1 * x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
match (!(x2 * x1)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
match (!Layer::constant(!x2 - !x2)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x2 = ((x0 + x2) + Layer::constant(!Layer::constant(1.75_f64)));
}
if !(-x2) > !Layer::constant(!x1) {
x2 = (Layer::constant(!x1) - (Layer::constant(0.75_f64) * Layer::constant(-0.5_f64)));
x2 = Layer::constant(-0.5_f64);
} else {
x0 = ((x1 + x1) - Layer::constant(!Layer::constant(-0.5_f64) - !Layer::constant(0.25_f64)));
match (!Layer::constant(!Layer::constant(0.0_f64) - !x2)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x1 = x1.clone();
}
}
x2 = Layer::constant(1.5_f64);
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_125(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x2 < -3.5 {
return Layer::constant(!Layer::constant(0.25_f64) - !x0);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_126(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = ((Layer::constant(1.75_f64) * Layer::constant(-1.0_f64)) * (x1 + x2));
if !x1 < -1.0 {
return (x1 - Layer::constant(1.5_f64));
}
if !(Layer::constant(-1.5_f64) - x1) > !Layer::constant(1.75_f64) {
for _ in 0..1 {
x0 = ((Layer::constant(1.25_f64) + Layer::constant(1.5_f64)) - (x0 + x2));
x2 = x1.clone();
}
match (!Layer::constant(!x1)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
x1 = ((Layer::constant(-0.5_f64) + x1) + (Layer::constant(1.75_f64) + x1));
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_127(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x1 = Layer::constant(!Layer::constant(-1.0_f64));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_128(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x2 + Layer::constant(0.0_f64)) > !(x2 * Layer::constant(-0.75_f64)) {
match (!x1).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
let mut left1 = 2;
while left1 > 0 && !x2 > -2.0 {
x2 = x2 * 0.5;
x2 = (Layer::constant(!x0 - !x2) + (x1 - x2));
if !x0 < -5.0 {
return x0.clone();
}
x1 = Layer::constant(-0.25_f64);
left1 -= 1;
}
if !(x0 + x2) > !Layer::constant(1.5_f64) {
x2 = Layer::constant(-1.0_f64);
} else {
if !x2 < -3.5 {
return (x0 - x2);
}
x0 = Layer::constant(1.25_f64);
x0 = x0.clone();
}
} else {
x2 = ((x1 + Layer::constant(0.25_f64)) - x1);
if !x0 < -1.5 {
return x2.clone();
}
}
if !(x0 - x0) > !(x2 - x0) {
let mut left1 = 1;
while left1 > 0 && !x2 > -1.0 {
x2 = x2 * 0.5;
x2 = Layer::constant(!(x0 * Layer::constant(0.5_f64)));
left1 -= 1;
}
if !Layer::constant(1.5_f64) > !Layer::constant(!x1) {
match (!Layer::constant(!Layer::constant(1.75_f64) - !x2)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
x0 = ((Layer::constant(1.5_f64) * x2) + (x1 + Layer::constant(0.0_f64)));
x2 = Layer::constant(!(x2 - x2));
if !x2 < -2.0 {
return (-Layer::constant(1.5_f64));
}
}
x1 = (x1 * Layer::constant(!x1));
} else {
for _ in 0..0 {
x0 = (-Layer::constant(!x0));
x2 = ((x1 - Layer::constant(-1.5_f64)) + Layer::constant(!x0));
}
x0 = Layer::constant(!x2 - !Layer::constant(-0.25_f64));
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_129(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..0 {
if !(x1 - x0) > !(x2 * x1) {
x2 = x2.clone();
if !x1 < -4.5 {
return (-Layer::constant(2.0_f64));
}
x0 = Layer::constant(2.0_f64);
} else {
x0 = ((Layer::constant(1.75_f64) * Layer::constant(1.25_f64)) * (x1 - Layer::constant(-0.25_f64)));
x0 = x0.clone();
x0 = x1.clone();
}
if !Layer::constant(!Layer::constant(-2.0_f64) - !x0) > !(x0 + x0) {
x2 = (-(x0 + x0));
match (!x2).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
if !x0 < -3.5 {
return Layer::constant(!x0);
}
if !x1 < -3.0 {
return Layer::constant(1.75_f64);
}
}
}
if !Layer::constant(2.0_f64) > !(x2 + x2) {
for _ in 0..1 {
x1 = Layer::constant(-1.75_f64);
x0 = ((x2 * Layer::constant(1.0_f64)) * x1);
x2 = Layer::constant(!x1);
}
let mut left1 = 1;
while left1 > 0 && !x1 > -2.0 {
x1 = x1 * 0.5;
if !x1 < -1.0 {
return (x0 + x0);
}
x2 = x2.clone();
left1 -= 1;
}
match (!(x2 - x1)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
x1 = (-(Layer::constant(-1.5_f64) + x2));
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_130(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!x0).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x0 = (Layer::constant(!x0) + (x1 + x1));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_131(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x1 = Layer::constant(!(x1 + x0) - !(x1 + x2));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_132(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!Layer::constant(!x1)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x2 = ((-x2) + (x1 + x0));
if !x2 > !x1 {
if !x1 < -4.0 {
return Layer::constant(!x1 - !Layer::constant(0.0_f64));
}
if !x1 < -3.0 {
return (x1 + Layer::constant(0.0_f64));
}
let mut left1 = 2;
while left1 > 0 && !x0 > 1.0 {
x0 = x0 * 0.5;
x1 = (Layer::constant(-0.75_f64) + Layer::constant(!x0 - !x1));
match (!(x1 + x1)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
left1 -= 1;
}
} else {
x2 = x2.clone();
x1 = (Layer::constant(0.5_f64) + (-x1));
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_133(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..1 {
match (!(Layer::constant(0.25_f64) * x0)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
if !Layer::constant(0.25_f64) > !x0 {
match (!x2).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
if !x2 < -3.0 {
return (Layer::constant(-0.5_f64) + x2);
}
} else {
x0 = ((-x0) + Layer::constant(!x1 - !x2));
x2 = Layer::constant(0.25_f64);
match (!Layer::constant(!Layer::constant(1.0_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_134(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x1 = ((x1 * Layer::constant(-1.5_f64)) * (Layer::constant(-1.5_f64) - x0));
if !(Layer::constant(1.75_f64) + x1) > !(Layer::constant(1.5_f64) * x1) {
if !(Layer::constant(0.5_f64) - x0) > !Layer::constant(-1.5_f64) {
x1 = ((x2 - x0) * (x2 + x0));
x2 = Layer::constant(-0.5_f64);
} else {
x2 = Layer::constant(!Layer::constant(!x1));
}
if !x1 < -4.5 {
return x0.clone();
}
} else {
x2 = ((x1 * x0) + Layer::constant(1.0_f64));
let mut left1 = 1;
while left1 > 0 && !x2 > 0.5 {
x2 = x2 * 0.5;
x0 = (-(-x1));
x1 = (x2 * x0);
left1 -= 1;
}
}
if !Layer::constant(!Layer::constant(1.0_f64)) > !(-Layer::constant(-0.5_f64)) {
x0 = (Layer::constant(!Layer::constant(1.75_f64) - !Layer::constant(0.5_f64)) + x0);
x0 = (Layer::constant(!Layer::constant(1.25_f64)) * Layer::constant(1.75_f64));
} else {
if !(x1 + Layer::constant(0.75_f64)) > !x0 {
x0 = (-Layer::constant(2.0_f64));
match (!x1).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
match (!(-x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x0 = ((Layer::constant(0.25_f64) - x1) - Layer::constant(-1.5_f64));
x0 = x2.clone();
}
if !(x1 * x0) > !(-Layer::constant(-1.5_f64)) {
if !x1 < -3.5 {
return Layer::constant(!x2);
}
if !x2 < -3.5 {
return (x0 + x0);
}
} else {
x2 = x2.clone();
x0 = Layer::constant(!(x0 * x2) - !Layer::constant(!x1));
}
let mut left1 = 3;
while left1 > 0 && !x2 > 2.0 {
x2 = x2 * 0.5;
if !x1 < -5.0 {
return Layer::constant(!x1);
}
match (!(Layer::constant(-1.5_f64) + x2)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x1 = Layer::constant(!(x1 * x0) - !(Layer::constant(1.0_f64) + x2));
left1 -= 1;
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_135(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!Layer::constant(-1.25_f64)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_136(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!(-x2)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x1 = ((x0 - x2) + Layer::constant(!x0 - !x2));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_137(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
let mut left0 = 2;
while left0 > 0 && !x0 > 2.0 {
x0 = x0 * 0.5;
x1 = ((x1 - Layer::constant(0.5_f64)) - (-x2));
if !x2 < -3.5 {
return Layer::constant(0.5_f64);
}
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_138(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x2 < -5.0 {
return x2.clone();
}
if !x2 > !(Layer::constant(-1.0_f64) + Layer::constant(-2.0_f64)) {
if !x2 < -4.0 {
return (x1 - x1);
}
if !x1 < -3.0 {
return (x2 - x0);
}
if !x0 > !(Layer::constant(0.0_f64) + x1) {
x0 = x2.clone();
} else {
if !x2 < -3.0 {
return (Layer::constant(-0.5_f64) * Layer::constant(0.0_f64));
}
if !x0 < -2.5 {
return x0.clone();
}
}
} else {
x2 = (x2 * Layer::constant(!x2));
for _ in 0..2 {
if !x2 < -3.5 {
return Layer::constant(-1.0_f64);
}
if !x2 < -4.0 {
return Layer::constant(-0.75_f64);
}
if !x0 < -4.5 {
return Layer::constant(!x0);
}
}
for _ in 0..0 {
match (!Layer::constant(1.25_f64)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
match (!Layer::constant(0.25_f64)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_139(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = (x1 + (Layer::constant(-1.5_f64) - Layer::constant(-1.0_f64)));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_140(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = Layer::constant(0.25_f64);
let mut left0 = 1;
while left0 > 0 && !x0 > -2.0 {
x0 = x0 * 0.5;
x0 = Layer::constant(2.0_f64);
if !(x1 + x2) > !Layer::constant(1.75_f64) {
x0 = x1.clone();
match (!(x1 - x1)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
x2 = x0.clone();
match (!(x2 * Layer::constant(-1.25_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x2 = Layer::constant(-1.75_f64);
}
x1 = ((x2 * x0) - Layer::constant(-0.25_f64));
left0 -= 1;
}
let mut left0 = 1;
while left0 > 0 && !x1 > 1.0 {
x1 = x1 * 0.5;
for _ in 0..0 {
x0 = Layer::constant(!x0);
}
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_141(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x0 - x2) > !Layer::constant(!Layer::constant(-1.75_f64) - !x0) {
for _ in 0..0 {
x1 = ((Layer::constant(0.0_f64) + x0) + Layer::constant(!x2 - !Layer::constant(0.0_f64)));
x1 = (x1 - (Layer::constant(1.0_f64) * x0));
}
match (!Layer::constant(!x2 - !x0)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
match (!Layer::constant(!x2)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
for _ in 0..1 {
x1 = Layer::constant(!(-x2));
match (!Layer::constant(!x2 - !Layer::constant(-0.75_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
match (!Layer::constant(1.0_f64)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
}
let mut left0 = 2;
while left0 > 0 && !x1 > 1.5 {
x1 = x1 * 0.5;
let mut left1 = 1;
while left1 > 0 && !x0 > 0.0 {
x0 = x0 * 0.5;
x0 = (Layer::constant(!Layer::constant(1.25_f64) - !x1) - (-x1));
x2 = Layer::constant(!x0 - !(x1 + Layer::constant(0.0_f64)));
x2 = ((x0 * x0) - x2);
left1 -= 1;
}
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_142(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = Layer::constant(1.5_f64);
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_143(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = x2.clone();
let mut left0 = 1;
while left0 > 0 && !x2 > 1.0 {
x2 = x2 * 0.5;
x2 = Layer::constant(!(Layer::constant(1.5_f64) + x0));
if !x0 < -5.0 {
return (x0 + x1);
}
x0 = Layer::constant(!x0);
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_144(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = x1.clone();
if !Layer::constant(!x0) > !(x2 - x0) {
if !x0 < -3.0 {
return x2.clone();
}
x0 = (Layer::constant(!x1) * (Layer::constant(-1.75_f64) + Layer::constant(-0.5_f64)));
} else {
x0 = Layer::constant(!(Layer::constant(-0.5_f64) * x0) - !(Layer::constant(1.0_f64) - x1));
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_145(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = (Layer::constant(-1.25_f64) - Layer::constant(!x1));
for _ in 0..1 {
if !Layer::constant(0.5_f64) > !(Layer::constant(-1.25_f64) - x2) {
x1 = Layer::constant(!Layer::constant(-0.25_f64));
} else {
x0 = (Layer::constant(1.5_f64) + x1);
x1 = Layer::constant(-0.25_f64);
}
for _ in 0..0 {
if !x1 < -3.5 {
return (x0 + x2);
}
x1 = (x1 * Layer::constant(!Layer::constant(1.25_f64) - !x2));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_146(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x0 < -5.0 {
return (x0 + x1);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_147(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = x2.clone();
for _ in 0..1 {
x0 = (x1 - Layer::constant(!Layer::constant(-0.5_f64)));
x2 = Layer::constant(!Layer::constant(-1.25_f64));
if !(-Layer::constant(-1.5_f64)) > !Layer::constant(!Layer::constant(1.75_f64) - !x2) {
if !x0 < -2.5 {
return Layer::constant(!x2);
}
} else {
x2 = Layer::constant(-1.0_f64);
x1 = Layer::constant(!Layer::constant(1.25_f64) - !(Layer::constant(1.75_f64) - Layer::constant(1.5_f64)));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_148(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = Layer::constant(1.0_f64);
match (!(-x2)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x1 = Layer::constant(1.75_f64);
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_149(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x1 = ((Layer::constant(1.25_f64) + Layer::constant(0.25_f64)) * x2);
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_150(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = Layer::constant(!(x0 * x1) - !(x2 * x0));
if !Layer::constant(!x2 - !x0) > !(-Layer::constant(-1.0_f64)) {
x0 = Layer::constant(!x2 - !Layer::constant(!x2 - !x0));
} else {
let mut left1 = 1;
while left1 > 0 && !x1 > -1.0 {
x1 = x1 * 0.5;
if !x0 < -3.5 {
return (Layer::constant(0.0_f64) - x2);
}
left1 -= 1;
}
}
if !Layer::constant(!Layer::constant(1.0_f64)) > !Layer::constant(-1.75_f64) {
if !x1 > !(x2 * x2) {
x0 = x0.clone();
} else {
x1 = x0.clone();
}
x1 = (x2 + (x0 + x1));
} else {
x2 = Layer::constant(!(x1 * x2) - !Layer::constant(!x0));
if !(-x0) > !Layer::constant(!x1) {
x0 = Layer::constant(!(Layer::constant(0.75_f64) * x0));
if !x0 < -3.0 {
return x0.clone();
}
match (!x2).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
match (!Layer::constant(!Layer::constant(0.75_f64) - !Layer::constant(0.25_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
}
if !x2 < -4.5 {
return (x2 - Layer::constant(-0.5_f64));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_151(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
let mut left0 = 1;
while left0 > 0 && !x1 > -0.5 {
x1 = x1 * 0.5;
let mut left1 = 2;
while left1 > 0 && !x2 > 0.5 {
x2 = x2 * 0.5;
match (!Layer::constant(-1.0_f64)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
if !x2 < -3.0 {
return x0.clone();
}
x0 = (x2 + (Layer::constant(0.75_f64) * Layer::constant(1.75_f64)));
left1 -= 1;
}
if !x0 < -2.0 {
return (Layer::constant(-0.75_f64) + x0);
}
x1 = ((Layer::constant(0.25_f64) + x1) + Layer::constant(-0.25_f64));
left0 -= 1;
}
if !Layer::constant(!x2) > !Layer::constant(!Layer::constant(1.0_f64) - !Layer::constant(-0.5_f64)) {
for _ in 0..1 {
x2 = (-Layer::constant(!x1));
}
} else {
if !(-x1) > !(x2 + x0) {
match (!(-x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
match (!x0).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
if !x0 < -4.5 {
return (Layer::constant(1.25_f64) + x0);
}
} else {
x0 = ((-x0) + Layer::constant(!Layer::constant(0.25_f64)));
}
x1 = ((x0 * x1) + Layer::constant(-0.5_f64));
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_152(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = x2.clone();
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_153(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x0 < -3.0 {
return x1.clone();
}
if !(x1 - x1) > !Layer::constant(-0.75_f64) {
x0 = x2.clone();
} else {
if !(x0 + x1) > !x1 {
if !x0 < -4.5 {
return (x0 + x0);
}
} else {
x2 = Layer::constant(-1.25_f64);
match (!Layer::constant(!x0 - !x0)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x1 = Layer::constant(!(x2 + Layer::constant(-0.25_f64)));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_154(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x2 < -4.5 {
return x0.clone();
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_155(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = Layer::constant(-1.0_f64);
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_156(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!(Layer::constant(-0.25_f64) + x1)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_157(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = x2.clone();
if !(Layer::constant(-1.5_f64) - x1) > !(-x0) {
if !(x2 * x0) > !x0 {
match (!(Layer::constant(-0.5_f64) - x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x0 = Layer::constant(0.25_f64);
} else {
x1 = x2.clone();
}
for _ in 0..1 {
x2 = ((x1 * x0) - (Layer::constant(0.5_f64) + x2));
}
} else {
for _ in 0..0 {
if !x2 < -1.5 {
return Layer::constant(0.75_f64);
}
match (!Layer::constant(0.25_f64)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x1 = (Layer::constant(1.25_f64) + (x2 - x1));
}
let mut left1 = 3;
while left1 > 0 && !x1 > 0.0 {
x1 = x1 * 0.5;
match (!x0).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x1 = (Layer::constant(!Layer::constant(-1.25_f64) - !x1) - (Layer::constant(0.75_f64) + x0));
match (!(x0 - Layer::constant(1.0_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
left1 -= 1;
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_158(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = x2.clone();
x1 = (-(x1 + Layer::constant(0.75_f64)));
for _ in 0..0 {
if !(x1 - Layer::constant(0.0_f64)) > !x2 {
if !x0 < -5.0 {
return x0.clone();
}
if !x1 < -5.0 {
return Layer::constant(-1.5_f64);
}
} else {
x2 = (-x0);
x0 = x0.clone();
}
if !x1 < -3.5 {
return (Layer::constant(0.5_f64) + x2);
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_159(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..2 {
if !x1 > !(x1 * x0) {
x2 = x0.clone();
} else {
x0 = (Layer::constant(-1.5_f64) * x1);
x2 = ((x2 - Layer::constant(-0.5_f64)) + (x1 * x2));
}
}
let mut left0 = 2;
while left0 > 0 && !x1 > 0.5 {
x1 = x1 * 0.5;
let mut left1 = 2;
while left1 > 0 && !x1 > -2.0 {
x1 = x1 * 0.5;
if !x2 < -4.0 {
return (-x1);
}
left1 -= 1;
}
if !x0 < -4.0 {
return (-Layer::constant(-1.0_f64));
}
if !Layer::constant(2.0_f64) > !(x0 + x0) {
if !x0 < -2.5 {
return Layer::constant(!x0);
}
x1 = x1.clone();
x2 = (x0 + (Layer::constant(1.75_f64) - Layer::constant(-0.5_f64)));
} else {
match (!Layer::constant(-1.75_f64)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
if !x1 < -5.0 {
return (Layer::constant(0.75_f64) + Layer::constant(-1.75_f64));
}
if !x2 < -3.0 {
return Layer::constant(!Layer::constant(1.0_f64));
}
}
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_160(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = ((Layer::constant(-1.75_f64) - x1) + (-Layer::constant(-0.25_f64)));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_161(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(1.25_f64) > !(-x0) {
x1 = x2.clone();
} else {
if !x1 < -1.0 {
return (x0 + x0);
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_162(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(!x0) > !(x2 - x2) {
if !(x0 - Layer::constant(-1.5_f64)) > !(x1 + Layer::constant(-1.5_f64)) {
if !x0 < -5.0 {
return (x0 * x1);
}
x1 = x2.clone();
if !x0 < -4.0 {
return (x0 - x1);
}
} else {
if !x1 < -4.0 {
return Layer::constant(!x2);
}
if !x1 < -3.5 {
return Layer::constant(!x0);
}
match (!Layer::constant(-1.75_f64)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
}
if !(x1 * x0) > !(x1 * Layer::constant(-0.5_f64)) {
x0 = (Layer::constant(1.0_f64) + (-Layer::constant(-1.75_f64)));
x1 = (Layer::constant(!Layer::constant(1.75_f64)) + Layer::constant(!x1 - !x0));
x0 = (x2 - (-x1));
} else {
match (!(-Layer::constant(-1.5_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
if !x1 < -2.0 {
return Layer::constant(!x0 - !Layer::constant(-1.25_f64));
}
}
for _ in 0..2 {
x2 = (-(-x1));
match (!(x0 - Layer::constant(1.25_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
match (!x0).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
} else {
if !Layer::constant(!x1) > !(x0 + Layer::constant(-0.25_f64)) {
x1 = Layer::constant(!Layer::constant(!x1 - !x2));
x1 = Layer::constant(-2.0_f64);
} else {
match (!Layer::constant(0.75_f64)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
let mut left1 = 1;
while left1 > 0 && !x1 > 2.0 {
x1 = x1 * 0.5;
x2 = x0.clone();
x1 = x1.clone();
x0 = x1.clone();
left1 -= 1;
}
}
if !(x1 - x0) > !(Layer::constant(1.0_f64) * x1) {
for _ in 0..0 {
x2 = ((x1 + Layer::constant(-1.25_f64)) + x1);
x0 = ((x0 - Layer::constant(2.0_f64)) + (Layer::constant(1.25_f64) - Layer::constant(1.25_f64)));
if !x2 < -3.0 {
return (x1 + x0);
}
}
} else {
if !Layer::constant(-0.5_f64) > !(x0 + Layer::constant(2.0_f64)) {
x1 = ((-x1) * (x1 + x2));
x2 = x0.clone();
} else {
if !x2 < -2.0 {
return x2.clone();
}
match (!(x1 + x1)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
}
x1 = x1.clone();
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_163(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..2 {
match (!(x0 * x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
if !Layer::constant(!x2 - !Layer::constant(0.75_f64)) > !x0 {
x2 = Layer::constant(2.0_f64);
if !x2 < -1.5 {
return (x0 + x2);
}
} else {
match (!(Layer::constant(0.5_f64) - x2)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
match (!(x1 + x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_164(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x0 * x0) > !Layer::constant(!x1 - !x2) {
x1 = (-(x1 - x2));
x0 = (x1 + (x2 * x2));
} else {
x1 = (Layer::constant(-2.0_f64) + (x0 + x1));
for _ in 0..0 {
x1 = Layer::constant(!Layer::constant(-0.25_f64));
if !x1 < -3.5 {
return (Layer::constant(1.25_f64) - x0);
}
match (!(x1 * x1)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
if !(Layer::constant(-0.25_f64) + x2) > !Layer::constant(!x2) {
match (!Layer::constant(!x0 - !x1)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x2 = (-(Layer::constant(0.75_f64) * x0));
} else {
match (!Layer::constant(!x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x2 = Layer::constant(-1.5_f64);
x0 = ((-x2) + (x2 + x0));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_165(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!Layer::constant(!Layer::constant(1.5_f64) - !x1)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x2 = (x1 + (-x1));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_166(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x0 > !(Layer::constant(0.75_f64) + Layer::constant(-1.25_f64)) {
let mut left1 = 3;
while left1 > 0 && !x2 > 0.5 {
x2 = x2 * 0.5;
if !x0 < -3.5 {
return (x2 * x1);
}
if !x0 < -1.5 {
return Layer::constant(!x2);
}
x0 = Layer::constant(-1.5_f64);
left1 -= 1;
}
if !Layer::constant(!Layer::constant(-1.0_f64) - !Layer::constant(-1.5_f64)) > !(x0 * Layer::constant(-2.0_f64)) {
if !x1 < -1.0 {
return Layer::constant(-1.75_f64);
}
} else {
match (!(x0 - x2)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
}
match (!Layer::constant(!x2)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
if !x0 < -3.5 {
return (x0 + x1);
}
}
if !x0 < -4.0 {
return x0.clone();
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_167(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(-1.5_f64) > !(x2 + x0) {
if !x0 > !Layer::constant(!x0 - !x0) {
x0 = Layer::constant(!(-x2));
if !x1 < -5.0 {
return (-x1);
}
x2 = (x0 + (x1 + Layer::constant(0.5_f64)));
} else {
x1 = x2.clone();
x2 = (Layer::constant(-0.5_f64) * Layer::constant(1.5_f64));
}
if !(Layer::constant(1.0_f64) + Layer::constant(-0.25_f64)) > !(-x0) {
x1 = ((Layer::constant(2.0_f64) + Layer::constant(-0.25_f64)) - (x2 - x2));
} else {
x0 = ((x0 - x2) * (-x0));
x2 = ((-Layer::constant(0.5_f64)) - x1);
}
if !(x0 + x1) > !Layer::constant(!x2) {
x2 = ((Layer::constant(1.75_f64) + x1) - (x2 + x0));
x0 = (Layer::constant(-1.0_f64) + (-x2));
x2 = ((-x1) - (-Layer::constant(1.5_f64)));
} else {
match (!Layer::constant(!x0)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
if !x2 < -1.5 {
return x1.clone();
}
}
} else {
match (!x0).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
match (!(x0 + x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
if !x1 > !(x1 - x1) {
if !x2 < -2.5 {
return Layer::constant(!x2);
}
x1 = (x1 + Layer::constant(!x1 - !x1));
} else {
x1 = ((-x2) + x1);
}
}
x2 = (Layer::constant(!x0) + (-x1));
for _ in 0..1 {
match (!Layer::constant(!x1)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_168(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = Layer::constant(!Layer::constant(!Layer::constant(-1.25_f64) - !Layer::constant(-1.25_f64)));
if !x2 < -3.0 {
return (Layer::constant(0.25_f64) - x1);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_169(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..2 {
match (!x2).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
}
let mut left0 = 1;
while left0 > 0 && !x2 > 0.0 {
x2 = x2 * 0.5;
if !x1 < -4.0 {
return (Layer::constant(1.5_f64) + x0);
}
left0 -= 1;
}
if !x1 < -2.0 {
return Layer::constant(!x1 - !x2);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_170(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(!x2) > !Layer::constant(!Layer::constant(-2.0_f64) - !Layer::constant(-0.5_f64)) {
x0 = (Layer::constant(2.0_f64) + (-Layer::constant(0.75_f64)));
if !x0 < -3.0 {
return Layer::constant(!x1 - !Layer::constant(2.0_f64));
}
} else {
if !(x1 + x0) > !(x0 - x0) {
match (!Layer::constant(!Layer::constant(-1.5_f64) - !x2)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
x0 = x0.clone();
if !x2 < -1.5 {
return Layer::constant(!Layer::constant(1.0_f64) - !x0);
}
x1 = Layer::constant(!(x0 + x0) - !(x1 + x2));
}
if !Layer::constant(!x0) > !(x2 + x0) {
x1 = (Layer::constant(1.75_f64) - Layer::constant(-0.5_f64));
x1 = x0.clone();
match (!(x1 + x1)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
x0 = Layer::constant(!(-Layer::constant(-0.25_f64)) - !(x0 + Layer::constant(2.0_f64)));
}
if !Layer::constant(!x0) > !(-Layer::constant(-1.5_f64)) {
x2 = (x0 - x0);
x0 = Layer::constant(1.75_f64);
x2 = ((Layer::constant(1.25_f64) + Layer::constant(-2.0_f64)) + Layer::constant(!x1 - !x2));
} else {
match (!Layer::constant(!Layer::constant(0.25_f64) - !x2)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
if !x0 < -4.5 {
return (-Layer::constant(1.0_f64));
}
x1 = (-Layer::constant(0.0_f64));
}
}
if !x1 < -2.5 {
return Layer::constant(!x1);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_171(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(!Layer::constant(0.25_f64) - !x0) > !x0 {
x1 = x1.clone();
if !(x2 - Layer::constant(1.5_f64)) > !(Layer::constant(0.0_f64) + Layer::constant(1.25_f64)) {
x1 = Layer::constant(!Layer::constant(!x1 - !x1));
x0 = x2.clone();
x2 = Layer::constant(!Layer::constant(!x1 - !x1));
} else {
x1 = (Layer::constant(0.75_f64) + Layer::constant(-2.0_f64));
if !x0 < -4.5 {
return (Layer::constant(0.5_f64) + Layer::constant(1.25_f64));
}
}
if !Layer::constant(!Layer::constant(-0.25_f64)) > !(x2 + x0) {
x2 = Layer::constant(!Layer::constant(!x0));
} else {
if !x0 < -4.0 {
return x0.clone();
}
if !x0 < -4.5 {
return (x1 * Layer::constant(2.0_f64));
}
}
} else {
match (!(Layer::constant(-0.5_f64) - x1)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
if !Layer::constant(!Layer::constant(-1.0_f64)) > !(Layer::constant(1.75_f64) + x1) {
match (!(Layer::constant(-2.0_f64) - Layer::constant(0.5_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x2 = (Layer::constant(!x0 - !x1) - (-x0));
} else {
if !x1 < -3.0 {
return (-Layer::constant(1.75_f64));
}
x1 = ((x2 + Layer::constant(0.5_f64)) - (x0 * x0));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_172(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!(x2 * x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_173(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x0 = Layer::constant(!x1 - !(Layer::constant(1.75_f64) + x2));
if !(Layer::constant(0.75_f64) * x0) > !(Layer::constant(-0.5_f64) + Layer::constant(-0.25_f64)) {
if !x1 > !(Layer::constant(1.75_f64) * Layer::constant(-0.25_f64)) {
x2 = ((x2 + x0) * x0);
x1 = ((x1 * Layer::constant(-0.5_f64)) - (Layer::constant(-2.0_f64) * x0));
match (!(Layer::constant(-0.75_f64) + x0)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
if !x1 < -4.5 {
return Layer::constant(!x2);
}
x1 = ((Layer::constant(1.75_f64) * Layer::constant(-1.75_f64)) + (x0 * x1));
}
} else {
if !x1 > !Layer::constant(!x2) {
x1 = x1.clone();
x2 = (Layer::constant(!x1) - (x0 - x1));
if !x1 < -3.5 {
return (x1 * Layer::constant(0.0_f64));
}
} else {
x2 = ((x1 - x1) + (Layer::constant(-2.0_f64) + Layer::constant(0.75_f64)));
}
x1 = ((Layer::constant(-1.75_f64) * x2) + x1);
let mut left1 = 1;
while left1 > 0 && !x2 > -2.0 {
x2 = x2 * 0.5;
x1 = x0.clone();
x1 = (-(Layer::constant(-0.5_f64) + x2));
if !x0 < -1.0 {
return (x2 + Layer::constant(1.5_f64));
}
left1 -= 1;
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_174(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(!x1) > !Layer::constant(1.75_f64) {
x2 = (-(x1 + x2));
if !(x0 + Layer::constant(-0.5_f64)) > !Layer::constant(!x1) {
x0 = x1.clone();
match (!(Layer::constant(-1.75_f64) + x2)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
match (!(x1 + x0)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
x2 = (Layer::constant(!x0) + (x1 + x0));
} else {
x2 = Layer::constant(-0.75_f64);
}
x1 = (Layer::constant(!x2) + x0);
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_175(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..0 {
x0 = (-(-x0));
}
x1 = ((x1 + x0) + Layer::constant(!x2 - !x2));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_176(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x1 = (-(x1 - x0));
match (!(-Layer::constant(-1.0_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
if !Layer::constant(!Layer::constant(-1.75_f64)) > !Layer::constant(0.75_f64) {
if !x0 < -5.0 {
return Layer::constant(!x0 - !x0);
}
if !Layer::constant(0.5_f64) > !(Layer::constant(1.0_f64) + Layer::constant(0.0_f64)) {
match (!(x0 + x1)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
match (!(-x2)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
match (!x0).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x0 = Layer::constant(-1.5_f64);
}
} else {
x0 = (Layer::constant(0.25_f64) + Layer::constant(1.25_f64));
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_177(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x2 * x1) > !(-x0) {
x2 = x1.clone();
if !Layer::constant(1.0_f64) > !(x1 + x1) {
x1 = Layer::constant(!x0 - !x1);
} else {
match (!(Layer::constant(-1.75_f64) * x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x0 = x0.clone();
}
} else {
if !Layer::constant(0.5_f64) > !x2 {
x1 = ((x0 + x1) + Layer::constant(!x0 - !Layer::constant(1.25_f64)));
if !x2 < -3.0 {
return x2.clone();
}
x0 = Layer::constant(!(Layer::constant(1.25_f64) * x0) - !Layer::constant(!x2));
} else {
if !x0 < -3.0 {
return (x2 + Layer::constant(2.0_f64));
}
x0 = Layer::constant(!x2 - !Layer::constant(!x0));
}
if !x1 > !Layer::constant(-0.25_f64) {
x0 = x2.clone();
} else {
if !x1 < -5.0 {
return Layer::constant(!Layer::constant(1.75_f64) - !Layer::constant(-0.5_f64));
}
x0 = ((x0 * x1) * (x1 + Layer::constant(-2.0_f64)));
}
}
x0 = ((x0 * Layer::constant(1.5_f64)) - x2);
x1 = (x0 - (Layer::constant(1.25_f64) * x0));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_178(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x2 * x2) > !(-Layer::constant(-2.0_f64)) {
x2 = (Layer::constant(2.0_f64) * Layer::constant(!Layer::constant(-1.75_f64) - !Layer::constant(-1.25_f64)));
if !Layer::constant(-0.25_f64) > !Layer::constant(-0.75_f64) {
x1 = Layer::constant(-0.25_f64);
x0 = ((-x1) + (Layer::constant(2.0_f64) + x1));
x0 = (-Layer::constant(-0.75_f64));
} else {
x1 = ((x2 * Layer::constant(-0.5_f64)) + (Layer::constant(-0.75_f64) + x1));
if !x0 < -1.0 {
return Layer::constant(!x1 - !Layer::constant(0.5_f64));
}
}
} else {
for _ in 0..2 {
if !x1 < -3.0 {
return Layer::constant(!x2 - !x2);
}
}
for _ in 0..0 {
match (!x0).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x1 = (x0 * Layer::constant(!Layer::constant(2.0_f64)));
}
}
x2 = (Layer::constant(0.25_f64) + Layer::constant(!x0 - !x1));
if !(-x2) > !(x2 + Layer::constant(1.75_f64)) {
x0 = x0.clone();
if !Layer::constant(!Layer::constant(1.5_f64)) > !Layer::constant(-0.5_f64) {
if !x0 < -4.0 {
return x1.clone();
}
} else {
if !x0 < -3.5 {
return Layer::constant(!x2 - !x1);
}
match (!(x0 + x1)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
}
if !x2 < -2.0 {
return (x1 - x0);
}
} else {
x2 = Layer::constant(!(-x2));
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_179(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
let mut left0 = 2;
while left0 > 0 && !x0 > 1.0 {
x0 = x0 * 0.5;
let mut left1 = 3;
while left1 > 0 && !x1 > 2.0 {
x1 = x1 * 0.5;
x2 = x0.clone();
left1 -= 1;
}
left0 -= 1;
}
for _ in 0..0 {
if !Layer::constant(-0.75_f64) > !Layer::constant(1.75_f64) {
x0 = x0.clone();
x1 = (-x1);
} else {
if !x0 < -5.0 {
return (x0 * x2);
}
x2 = ((x1 - x1) * (x1 + Layer::constant(1.75_f64)));
}
if !Layer::constant(1.75_f64) > !Layer::constant(!x2 - !x0) {
x0 = ((-x2) + Layer::constant(!Layer::constant(-0.75_f64)));
if !x0 < -4.0 {
return (Layer::constant(0.25_f64) * Layer::constant(-0.25_f64));
}
x0 = ((-Layer::constant(2.0_f64)) + x1);
} else {
x2 = (Layer::constant(!Layer::constant(0.5_f64)) + Layer::constant(!x2));
}
x1 = (-x2);
}
if !x0 < -2.0 {
return (x0 + x1);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_180(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
let mut left0 = 2;
while left0 > 0 && !x0 > -2.0 {
x0 = x0 * 0.5;
let mut left1 = 1;
while left1 > 0 && !x0 > 2.0 {
x0 = x0 * 0.5;
x0 = x1.clone();
x2 = x0.clone();
if !x2 < -1.5 {
return (x0 + x0);
}
left1 -= 1;
}
if !Layer::constant(0.0_f64) > !Layer::constant(-2.0_f64) {
if !x1 < -4.5 {
return (Layer::constant(-1.5_f64) - x0);
}
x0 = (-Layer::constant(1.25_f64));
if !x1 < -2.0 {
return (x2 + x1);
}
} else {
x2 = (Layer::constant(0.25_f64) + Layer::constant(!x2 - !Layer::constant(-1.5_f64)));
}
match (!Layer::constant(-0.5_f64)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_181(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x2 - Layer::constant(0.5_f64)) > !Layer::constant(!x0 - !x1) {
if !(Layer::constant(-1.5_f64) + Layer::constant(2.0_f64)) > !(-x0) {
x1 = (-Layer::constant(!Layer::constant(0.25_f64)));
x0 = (Layer::constant(-1.5_f64) + (-Layer::constant(1.5_f64)));
} else {
if !x0 < -2.5 {
return Layer::constant(!Layer::constant(-2.0_f64) - !Layer::constant(1.0_f64));
}
x2 = Layer::constant(!(Layer::constant(0.75_f64) * x0) - !(-x2));
}
let mut left1 = 3;
while left1 > 0 && !x0 > -0.5 {
x0 = x0 * 0.5;
x1 = ((x1 + x1) - (x1 * Layer::constant(1.25_f64)));
x1 = Layer::constant(0.5_f64);
left1 -= 1;
}
} else {
if !Layer::constant(!x0) > !x2 {
x1 = Layer::constant(!(Layer::constant(0.25_f64) - x2) - !Layer::constant(!x2));
} else {
match (!(x1 - x2)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
if !x0 < -4.5 {
return (x2 + x2);
}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_182(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x1 = (-(Layer::constant(1.5_f64) - x2));
x2 = ((Layer::constant(1.5_f64) * x1) + x0);
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_183(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = (Layer::constant(!x1) * Layer::constant(!x0));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_184(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..1 {
if !x2 > !x2 {
match (!Layer::constant(!Layer::constant(-2.0_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x0 = Layer::constant(!x0);
} else {
x2 = x1.clone();
}
if !(x1 + Layer::constant(-1.75_f64)) > !(x1 + x0) {
x1 = Layer::constant(!(x1 + x0) - !x2);
match (!(x0 + x2)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
if !x2 < -5.0 {
return (-x1);
}
match (!(x2 - Layer::constant(0.75_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
x0 = (-(Layer::constant(1.5_f64) * Layer::constant(0.75_f64)));
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_185(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x1 = x0.clone();
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_186(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
for _ in 0..1 {
if !Layer::constant(-1.75_f64) > !(x0 + x2) {
x0 = (x0 + Layer::constant(!x2 - !Layer::constant(0.25_f64)));
x0 = (Layer::constant(!x2) + (Layer::constant(-0.25_f64) - Layer::constant(2.0_f64)));
} else {
x0 = ((-x2) + x2);
x0 = (Layer::constant(2.0_f64) * (Layer::constant(-0.75_f64) - Layer::constant(0.0_f64)));
}
let mut left1 = 3;
while left1 > 0 && !x0 > 1.0 {
x0 = x0 * 0.5;
x1 = ((Layer::constant(1.5_f64) + Layer::constant(0.0_f64)) - (Layer::constant(0.75_f64) - x0));
x1 = ((-x1) + (x0 * x0));
left1 -= 1;
}
}
if !Layer::constant(0.0_f64) > !x1 {
x0 = Layer::constant(!Layer::constant(!Layer::constant(-1.5_f64) - !Layer::constant(1.75_f64)));
if !(x1 + Layer::constant(-2.0_f64)) > !(-Layer::constant(-0.5_f64)) {
x0 = Layer::constant(-1.25_f64);
} else {
x0 = x2.clone();
x1 = x2.clone();
}
} else {
if !x2 > !(x1 - x0) {
x2 = (Layer::constant(!Layer::constant(0.5_f64) - !x0) * (-Layer::constant(1.5_f64)));
x0 = x2.clone();
match (!(x2 * x0)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
} else {
x2 = x2.clone();
x1 = x2.clone();
}
}
match (!(x0 + Layer::constant(2.0_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_187(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = (Layer::constant(0.0_f64) - Layer::constant(!x0));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_188(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(-x1) > !(x1 * x1) {
let mut left1 = 2;
while left1 > 0 && !x0 > -0.5 {
x0 = x0 * 0.5;
x1 = ((x0 - x2) - (x2 * Layer::constant(0.0_f64)));
x1 = x1.clone();
x2 = (-(x1 * Layer::constant(-0.25_f64)));
left1 -= 1;
}
for _ in 0..1 {
x0 = (Layer::constant(!x1) - x0);
x0 = (x2 * (-x1));
}
if !(-x0) > !x1 {
x2 = (Layer::constant(!Layer::constant(1.75_f64) - !x0) + x1);
x2 = x0.clone();
} else {
x2 = (x0 + (-x2));
x0 = x1.clone();
if !x1 < -1.0 {
return (Layer::constant(1.5_f64) + Layer::constant(1.25_f64));
}
}
} else {
for _ in 0..0 {
x0 = Layer::constant(0.0_f64);
match (!x0).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
x1 = x0.clone();
}
if !x1 > !Layer::constant(-1.25_f64) {
x0 = Layer::constant(!x1);
x0 = (-Layer::constant(0.5_f64));
} else {
x2 = ((x1 + x2) - (Layer::constant(-0.75_f64) * x1));
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_189(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
let mut left0 = 3;
while left0 > 0 && !x0 > 0.5 {
x0 = x0 * 0.5;
x0 = x0.clone();
left0 -= 1;
}
let mut left0 = 3;
while left0 > 0 && !x0 > 1.0 {
x0 = x0 * 0.5;
x0 = x0.clone();
x2 = x0.clone();
left0 -= 1;
}
let mut left0 = 3;
while left0 > 0 && !x1 > -2.0 {
x1 = x1 * 0.5;
x0 = Layer::constant(!(x2 - x2) - !Layer::constant(!Layer::constant(-1.25_f64) - !Layer::constant(-1.25_f64)));
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_190(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !x1 > !(x2 * x0) {
match (!(Layer::constant(1.0_f64) - x1)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
let mut left1 = 1;
while left1 > 0 && !x0 > 2.0 {
x0 = x0 * 0.5;
x0 = x2.clone();
x2 = x2.clone();
x2 = (Layer::constant(-1.25_f64) * (x2 + x0));
left1 -= 1;
}
} else {
let mut left1 = 2;
while left1 > 0 && !x0 > 1.5 {
x0 = x0 * 0.5;
x1 = x0.clone();
left1 -= 1;
}
x2 = ((Layer::constant(2.0_f64) * x1) + Layer::constant(-0.5_f64));
x0 = ((x0 + x1) + x1);
}
let mut left0 = 1;
while left0 > 0 && !x2 > -0.5 {
x2 = x2 * 0.5;
if !x0 < -3.0 {
return (x0 - Layer::constant(0.0_f64));
}
left0 -= 1;
}
if !(-Layer::constant(-1.5_f64)) > !(Layer::constant(0.75_f64) + x0) {
x0 = Layer::constant(0.25_f64);
if !Layer::constant(!x0 - !Layer::constant(1.25_f64)) > !x2 {
x0 = (x1 - x2);
match (!(x2 * x1)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
x0 = (x0 + (x1 - x2));
x0 = (x0 * Layer::constant(!x0));
}
if !(x0 - x0) > !(Layer::constant(0.0_f64) * x1) {
x1 = ((x2 + x1) + Layer::constant(-1.0_f64));
x1 = (-(x2 * Layer::constant(2.0_f64)));
if !x2 < -5.0 {
return (-Layer::constant(0.75_f64));
}
} else {
x2 = (Layer::constant(!x1 - !x0) + (x2 + x0));
x2 = ((x0 - x0) * Layer::constant(!Layer::constant(-0.5_f64)));
}
} else {
x1 = x1.clone();
x0 = Layer::constant(1.5_f64);
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_191(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x1 + x0) > !(-x0) {
let mut left1 = 2;
while left1 > 0 && !x0 > 2.0 {
x0 = x0 * 0.5;
match (!x1).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x1 = (x2 + Layer::constant(!Layer::constant(-2.0_f64)));
if !x0 < -2.5 {
return (-Layer::constant(1.75_f64));
}
left1 -= 1;
}
let mut left1 = 3;
while left1 > 0 && !x1 > 2.0 {
x1 = x1 * 0.5;
if !x2 < -2.5 {
return x1.clone();
}
match (!(x1 * x0)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
left1 -= 1;
}
match (!(x2 - Layer::constant(-0.5_f64))).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
} else {
for _ in 0..2 {
x2 = x1.clone();
}
let mut left1 = 2;
while left1 > 0 && !x2 > 1.5 {
x2 = x2 * 0.5;
match (!(x2 - x1)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
left1 -= 1;
}
x0 = Layer::constant(1.0_f64);
}
match (!(x1 + x1)).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
match (!(x0 + Layer::constant(-0.25_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_192(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !Layer::constant(-1.5_f64) > !(x0 * Layer::constant(0.5_f64)) {
if !(x1 + Layer::constant(2.0_f64)) > !(-Layer::constant(0.75_f64)) {
match (!Layer::constant(!Layer::constant(-1.5_f64) - !x2)).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
match (!Layer::constant(-1.75_f64)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x1 = Layer::constant(1.0_f64);
} else {
match (!(Layer::constant(-1.75_f64) * x0)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
} else {
x2 = (-(-x1));
if !x0 < -5.0 {
return Layer::constant(!x0);
}
for _ in 0..2 {
x1 = (-x0);
match (!Layer::constant(-1.75_f64)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_193(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(-x1) > !Layer::constant(!Layer::constant(-0.75_f64)) {
if !x1 > !(x1 + x1) {
x2 = x1.clone();
x2 = (-x1);
} else {
x1 = (Layer::constant(!x2) * (x2 + x0));
match (!Layer::constant(!Layer::constant(0.5_f64) - !x1)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
match (!Layer::constant(!Layer::constant(-2.0_f64))).floor() as i64 {
0 => x0 = x0.clone(),
1 | -1 => x0 = x1 * x2,
n if n % 2 == 0 => x0 = x0 + 1.0,
_ => {}
}
}
} else {
let mut left1 = 3;
while left1 > 0 && !x1 > 2.0 {
x1 = x1 * 0.5;
x0 = Layer::constant(!(-x1));
left1 -= 1;
}
x2 = x2.clone();
}
x1 = (-Layer::constant(!x0 - !x0));
match (!x0).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_194(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
let mut left0 = 2;
while left0 > 0 && !x1 > 1.5 {
x1 = x1 * 0.5;
if !(x0 + x2) > !x1 {
x2 = Layer::constant(0.25_f64);
x0 = Layer::constant(!x1 - !Layer::constant(-1.0_f64));
match (!x2).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
x0 = Layer::constant(!x1);
}
left0 -= 1;
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_195(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = ((Layer::constant(2.0_f64) + x2) - Layer::constant(!x0 - !x1));
x0 = ((Layer::constant(1.25_f64) * x2) - Layer::constant(!x1));
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_196(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x0 + x0) > !Layer::constant(-0.75_f64) {
if !Layer::constant(1.5_f64) > !Layer::constant(!x2) {
match (!Layer::constant(1.0_f64)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
match (!Layer::constant(!Layer::constant(1.0_f64))).floor() as i64 {
0 => x2 = x0.clone(),
1 | -1 => x2 = x1 * x2,
n if n % 2 == 0 => x2 = x2 + 1.0,
_ => {}
}
} else {
x1 = Layer::constant(1.5_f64);
}
} else {
x1 = Layer::constant(!(-x1));
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_197(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
x2 = x1.clone();
x0 = x1.clone();
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_198(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
match (!Layer::constant(1.75_f64)).floor() as i64 {
0 => x1 = x0.clone(),
1 | -1 => x1 = x1 * x2,
n if n % 2 == 0 => x1 = x1 + 1.0,
_ => {}
}
x1 = ((-x0) - (Layer::constant(1.75_f64) + x0));
for _ in 0..1 {
x1 = (x1 - (Layer::constant(-1.25_f64) - x2));
}
x0 + x1 * 2.0 + x2
}

#[differentiable]
fn program_199(mut x0: Layer<f64>, mut x1: Layer<f64>, mut x2: Layer<f64>) -> Layer<f64> {
if !(x2 + Layer::constant(0.0_f64)) > !(x1 - x1) {
x0 = x0.clone();
} else {
if !x0 < -3.0 {
return (Layer::constant(-2.0_f64) - x0);
}
}
x2 = Layer::constant(-1.75_f64);
x0 + x1 * 2.0 + x2
}
