//! Element types of files and of weights, and conversions between them.

use dl_core::{DType, Error, Numbers, Result};
use half::{bf16, f16};
use safetensors::Dtype;

/// The element type of a file that represents `dtype` exactly.
pub(crate) fn file_dtype(dtype: DType) -> Result<Dtype> {
    Ok(match dtype {
        DType::Bool => Dtype::BOOL,
        DType::U8 => Dtype::U8,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::U64 => Dtype::U64,
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        other => return Err(Error::invalid(format!("safetensors has no element type {other}"))),
    })
}

/// The element type that a type of a file represents exactly.
pub(crate) fn dtype_of(found: Dtype) -> Result<DType> {
    let all = [DType::Bool, DType::U8, DType::I32, DType::I64, DType::U64, DType::F32, DType::F64];
    let same = all.into_iter().find(|&dtype| file_dtype(dtype).is_ok_and(|same| same == found));
    same.ok_or_else(|| Error::invalid(format!("there is no element type for {found} of a file")))
}

/// Whether elements of type `found` can be read as `wanted`: if the types are equal, if `found` is
/// half precision, or, with `convert`, from single to double precision and back.
pub(crate) fn is_readable_as(found: Dtype, wanted: DType, convert: bool) -> bool {
    match (found, wanted) {
        (Dtype::F16 | Dtype::BF16, DType::F32 | DType::F64) => true,
        (Dtype::F32, DType::F64) | (Dtype::F64, DType::F32) => convert,
        _ => file_dtype(wanted).is_ok_and(|same| same == found),
    }
}

/// Whether elements of type `found` are multiplied by a scale to represent floating-point numbers.
pub(crate) fn is_quantized(found: Dtype, wanted: DType) -> bool {
    matches!((found, wanted), (Dtype::I8 | Dtype::U8, DType::F32 | DType::F64))
}

/// Decodes elements of type `found` as `wanted`. Each is exact, except `F64` to `F32`, which rounds
/// to nearest.
pub(crate) fn decode(found: Dtype, bytes: &[u8], wanted: DType) -> Result<Numbers> {
    fn each<const N: usize, A>(bytes: &[u8], read: impl Fn([u8; N]) -> A) -> Vec<A> {
        bytes.as_chunks::<N>().0.iter().map(|&number| read(number)).collect()
    }
    Ok(match (found, wanted) {
        (Dtype::F16, DType::F32) => Numbers::F32(each(bytes, |x| f16::from_le_bytes(x).to_f32())),
        (Dtype::F16, DType::F64) => Numbers::F64(each(bytes, |x| f16::from_le_bytes(x).to_f64())),
        (Dtype::BF16, DType::F32) => Numbers::F32(each(bytes, |x| bf16::from_le_bytes(x).to_f32())),
        (Dtype::BF16, DType::F64) => Numbers::F64(each(bytes, |x| bf16::from_le_bytes(x).to_f64())),
        (Dtype::F32, DType::F64) => Numbers::F64(each(bytes, |x| f32::from_le_bytes(x).into())),
        (Dtype::I8, DType::F64) => Numbers::F64(each(bytes, |x| i8::from_le_bytes(x).into())),
        (Dtype::U8, DType::F64) => Numbers::F64(each(bytes, |x| u8::from_le_bytes(x).into())),
        (Dtype::F64, DType::F32) => Numbers::F32(each(bytes, |x| f64::from_le_bytes(x) as f32)),
        _ => Numbers::from_le_bytes(wanted, bytes)?,
    })
}

/// The index and value of the first NaN, or with `infinite_too` of the first element that is not
/// finite.
pub(crate) fn find_non_finite(numbers: &Numbers, infinite_too: bool) -> Option<(usize, f64)> {
    let bad = |x: f64| x.is_nan() || infinite_too && x.is_infinite();
    match numbers {
        Numbers::F32(row) => row.iter().map(|&x| x.into()).enumerate().find(|&(_, x)| bad(x)),
        Numbers::F64(row) => row.iter().copied().enumerate().find(|&(_, x)| bad(x)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::decode;
    use dl_core::{DType, Numbers, Result};
    use safetensors::Dtype;

    /// Every half-precision number, against its definition by sign, exponent and fraction.
    #[test]
    fn half_precision_numbers_are_decoded_exactly() -> Result<()> {
        for (dtype, exponent_bits) in [(Dtype::F16, 5_i32), (Dtype::BF16, 8)] {
            let fraction_bits = 15 - exponent_bits;
            let bias = (1 << (exponent_bits - 1)) - 1;
            for bits in 0..=u16::MAX {
                let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
                let exponent = i32::from(bits & 0x7FFF) >> fraction_bits;
                let fraction = f64::from(bits & ((1 << fraction_bits) - 1)) / 2_f64.powi(fraction_bits);
                let expected = if exponent == (1 << exponent_bits) - 1 {
                    if fraction == 0.0 { sign * f64::INFINITY } else { f64::NAN }
                } else if exponent == 0 {
                    sign * fraction * 2_f64.powi(1 - bias)
                } else {
                    sign * (1.0 + fraction) * 2_f64.powi(exponent - bias)
                };
                let Numbers::F64(wide) = decode(dtype, &bits.to_le_bytes(), DType::F64)? else { unreachable!() };
                let Numbers::F32(narrow) = decode(dtype, &bits.to_le_bytes(), DType::F32)? else { unreachable!() };
                for found in [wide[0], narrow[0].into()] {
                    assert!(found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(), "{bits:#x}");
                }
            }
        }
        Ok(())
    }
}
