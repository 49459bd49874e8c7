//! What a file of ours says of itself, as JSON under the key `dl` of the metadata; and maps in
//! which no key comes twice.

use super::crc32::Crc32;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// The version of what stands in a head and how tensors are named.
pub(crate) const FORMAT: u32 = 1;

/// The key in the metadata. The only one: the library writes them in random order.
pub(crate) const KEY: &str = "dl";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Weights,
    Checkpoint,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    pub(crate) format: u32,
    pub(crate) kind: Kind,
    /// The kinds of the optimizers, by their names.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) optimizers: Map<String>,
    /// What the user has to say.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) texts: Map<String>,
    /// Of all bytes of all tensors; then of a line for each of them (`info`) in the order of their
    /// names; then of this head without its checksum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) crc32: Option<u32>,
}

/// The first thing to look at.
#[derive(Deserialize)]
pub(crate) struct Version {
    pub(crate) format: u32,
}

impl Head {
    pub(crate) fn new(kind: Kind) -> Self {
        Head { format: FORMAT, kind, optimizers: Map::default(), texts: Map::default(), crc32: None }
    }

    /// The checksum of a file with this head, whose tensors have these bytes and are described by
    /// these lines.
    pub(crate) fn checksum(&self, mut bytes: Crc32, infos: impl IntoIterator<Item = String>) -> u32 {
        infos.into_iter().for_each(|info| bytes.update(info.as_bytes()));
        bytes.update(Head { crc32: None, ..self.clone() }.to_json().as_bytes());
        bytes.finish()
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("maps of strings are JSON")
    }
}

/// What the checksum sees of the description of a tensor.
pub(crate) fn info(name: &str, tensor: &safetensors::tensor::TensorInfo) -> String {
    let (start, end) = tensor.data_offsets;
    format!("{name}\0{}\0{:?}\0{start}\0{end}\n", tensor.dtype, tensor.shape)
}

/// A map that is read only if no key comes twice.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Map<V>(pub(crate) BTreeMap<String, V>);

impl<V> Default for Map<V> {
    fn default() -> Self {
        Map(BTreeMap::new())
    }
}

impl<V> Map<V> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Map<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for Once<V> {
            type Value = Map<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Map<V>, A::Error> {
                let mut map = BTreeMap::new();
                while let Some((key, value)) = access.next_entry::<String, V>()? {
                    if map.contains_key(&key) {
                        return Err(A::Error::custom(format_args!("the name {} comes twice", super::quoted(&key))));
                    }
                    map.insert(key, value);
                }
                Ok(Map(map))
            }
        }

        deserializer.deserialize_map(Once(PhantomData))
    }
}
