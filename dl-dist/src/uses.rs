//! How the delta of a placed module is made of the deltas of calls.

use dl_core::parts::Wire;
use dl_core::{Error, Result};

/// The delta of the weights of a placed module, as an expression that its owner evaluates. It has
/// the structure of the sum in the program of the caller, so the bits are those of one process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Uses {
    /// The delta that one request for derivatives of one call has computed.
    Call {
        call: u64,
        back: u64,
    },
    Times(f64, Box<Uses>),
    Sum(Vec<Uses>),
}

/// The uses of placed modules, each by its number.
pub(crate) type UsesByModule = Vec<(u64, Uses)>;

/// The sum of the uses, for each module in their order.
pub(crate) fn sum(terms: impl IntoIterator<Item = (u64, Uses)>) -> UsesByModule {
    let mut all: Vec<(u64, Vec<Uses>)> = Vec::new();
    for (module, uses) in terms {
        match all.iter_mut().find(|(known, _)| *known == module) {
            Some((_, terms)) => terms.push(uses),
            None => all.push((module, vec![uses])),
        }
    }
    let only = |mut terms: Vec<Uses>| if terms.len() == 1 { terms.swap_remove(0) } else { Uses::Sum(terms) };
    all.into_iter().map(|(module, terms)| (module, only(terms))).collect()
}

/// How deep sums may be nested: a reader must not use up its stack.
const MAX_DEPTH: u32 = 256;

impl Wire for Uses {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Uses::Call { call, back } => (0_u8, *call, *back).write(to),
            Uses::Times(factor, uses) => {
                (1_u8, *factor).write(to);
                uses.write(to);
            }
            Uses::Sum(terms) => {
                2_u8.write(to);
                terms.write(to);
            }
        }
    }

    fn read(from: &mut &[u8]) -> Result<Self> {
        read(from, 0)
    }
}

fn read(from: &mut &[u8], depth: u32) -> Result<Uses> {
    if depth > MAX_DEPTH {
        return Err(Error::invalid(format!(
            "the calls of a module on another rank are nested more than {MAX_DEPTH} times"
        )));
    }
    Ok(match u8::read(from)? {
        0 => Uses::Call { call: Wire::read(from)?, back: Wire::read(from)? },
        1 => Uses::Times(Wire::read(from)?, Box::new(read(from, depth + 1)?)),
        2 => {
            // Memory is taken for terms that are there only.
            let terms = usize::read(from)?;
            Uses::Sum((0..terms).map(|_| read(from, depth + 1)).collect::<Result<_>>()?)
        }
        other => return Err(Error::invalid(format!("{other} is no sum of calls"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_keeps_order_and_structure() {
        let call = |call| Uses::Call { call, back: call + 10 };
        let all = sum([(7, call(1)), (3, call(2)), (7, Uses::Times(0.5, Box::new(call(3)))), (7, call(4))]);
        let seven = Uses::Sum(vec![call(1), Uses::Times(0.5, Box::new(call(3))), call(4)]);
        assert_eq!(all, [(7, seven), (3, call(2))]);
        assert_eq!(UsesByModule::from_bytes(&all.to_bytes()).unwrap(), all);
    }

    #[test]
    fn damaged_or_deep_sum_is_error() {
        let bytes = sum([(7, Uses::Sum(vec![Uses::Call { call: 1, back: 2 }]))]).to_bytes();
        (0..bytes.len()).for_each(|end| assert!(UsesByModule::from_bytes(&bytes[..end]).is_err()));
        let deep = (0..=MAX_DEPTH).fold(Uses::Call { call: 1, back: 2 }, |uses, _| Uses::Times(1.0, Box::new(uses)));
        assert!(Uses::from_bytes(&deep.to_bytes()).unwrap_err().to_string().contains("nested more than 256 times"));
        let mut huge = vec![2];
        huge.extend(u64::MAX.to_le_bytes());
        assert!(Uses::from_bytes(&huge).is_err());
    }
}
