//! Keys of compiled functions: what decides which operations the body builds.

use crate::graph::node_ref::NodeRef;
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::any::{Any, TypeId};
use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};

/// A part of a key: keys are equal if all their parts are.
#[derive(PartialEq, Eq)]
pub(crate) enum KeyPart {
    Bits(u64),
    /// The type of an operand.
    Type(TypeId),
    Text(String),
    Argument(Box<dyn AnyArgument>),
}

/// A plain argument of any type.
pub(crate) trait AnyArgument: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn is_equal(&self, other: &dyn AnyArgument) -> bool;
}

impl<T: Eq + Send + Sync + 'static> AnyArgument for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_equal(&self, other: &dyn AnyArgument) -> bool {
        other.as_any().downcast_ref::<T>().is_some_and(|other| self == other)
    }
}

impl PartialEq for dyn AnyArgument {
    fn eq(&self, other: &dyn AnyArgument) -> bool {
        self.is_equal(other)
    }
}

impl Eq for dyn AnyArgument {}

/// Up to this many operands, a search is faster than a hash table.
const FEW: usize = 24;

/// The arguments of a call of a compiled function: the layers and weights among them, and a key of
/// all else.
pub struct Arguments {
    /// The type of the closure that lists them. It has the generic arguments of the function.
    pub(crate) instance: TypeId,
    pub(crate) operands: SmallVec<[NodeRef; 16]>,
    /// For each operand, whether it is a weight or a buffer.
    pub(crate) is_shared: SmallVec<[bool; 16]>,
    pub(crate) key: SmallVec<[KeyPart; 24]>,
    hash: FxHasher,
    /// The operands by identity, if there are more than a few.
    many: FxHashMap<usize, usize>,
    /// The reason that the call cannot be compiled.
    pub(crate) refused: Option<String>,
}

impl Arguments {
    /// No arguments yet.
    pub(crate) fn of(instance: TypeId) -> Arguments {
        Arguments {
            instance,
            operands: SmallVec::new(),
            is_shared: SmallVec::new(),
            key: SmallVec::new(),
            hash: FxHasher::default(),
            many: FxHashMap::default(),
            refused: None,
        }
    }

    /// Adds a layer; with `is_shared` a weight or a buffer. An operand that was added before is recognised: the key says which
    /// operands are the same.
    pub(crate) fn operand(&mut self, node: &NodeRef, is_shared: bool) {
        let identity = node.identity();
        let at = self.operands.len();
        let known = match at {
            0..FEW => self.operands.iter().position(|known| known.identity() == identity),
            _ => {
                let listed = self.many.len();
                let rest = self.operands[listed..].iter().enumerate();
                self.many.extend(rest.map(|(at, node)| (node.identity(), listed + at)));
                self.many.get(&identity).copied()
            }
        };
        match known {
            Some(at) => self.bits(at as u64),
            None => {
                let ty = (node.vtable.id)();
                ty.hash(&mut self.hash);
                self.key.push(KeyPart::Type(ty));
                self.operands.push(node.clone());
                self.is_shared.push(is_shared);
            }
        }
    }

    /// Adds a number, a length or a variant.
    pub(crate) fn bits(&mut self, bits: u64) {
        bits.hash(&mut self.hash);
        self.key.push(KeyPart::Bits(bits));
    }

    /// Adds a text.
    pub(crate) fn text(&mut self, text: &str) {
        text.hash(&mut self.hash);
        self.key.push(KeyPart::Text(text.to_owned()));
    }

    /// Adds a plain argument.
    pub fn plain<T: Hash + Eq + Clone + Send + Sync + 'static>(&mut self, argument: &T) {
        argument.hash(&mut self.hash);
        self.key.push(KeyPart::Argument(Box::new(argument.clone())));
    }

    /// Says that the call cannot be compiled, because of an argument of this type.
    pub(crate) fn refuse(&mut self, type_name: &str) {
        self.refused.get_or_insert_with(|| {
            format!("nothing is known of an argument or a field of type `{type_name}`: derive `Module`, or `Hash`, `Eq` and `Clone`")
        });
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash.finish()
    }
}

impl Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arguments").field("operands", &self.operands.len()).finish_non_exhaustive()
    }
}
