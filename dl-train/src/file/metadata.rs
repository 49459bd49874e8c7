//! The metadata that this crate stores in a file, as JSON under the key `dl`, and maps that reject
//! duplicate keys.

use super::crc32::Crc32;
use crate::layout::Layout;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// The version of the metadata and of the tensor names.
pub(crate) const FORMAT: u32 = 1;

/// The metadata key.
pub(crate) const KEY: &str = "dl";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Weights,
    Checkpoint,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileMetadata {
    pub(crate) format: u32,
    pub(crate) kind: Kind,
    #[serde(default, skip_serializing_if = "Layout::is_native")]
    pub(crate) layout: Layout,
    /// The kind of each optimizer, by name.
    #[serde(default, skip_serializing_if = "UniqueMap::is_empty")]
    pub(crate) optimizers: UniqueMap<String>,
    /// The texts of the user, by name.
    #[serde(default, skip_serializing_if = "UniqueMap::is_empty")]
    pub(crate) texts: UniqueMap<String>,
    /// Which one of several files it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) part: Option<FilePart>,
    /// The checksum over the bytes of all tensors, then the descriptions ([`checksum_line`]) of all tensors
    /// in the order of their names, then this metadata without the checksum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) crc32: Option<u32>,
}

/// One of the files of a checkpoint of several ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FilePart {
    pub(crate) step: u64,
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
}

/// The version alone, parsed before the rest.
#[derive(Deserialize)]
pub(crate) struct Version {
    pub(crate) format: u32,
}

impl FileMetadata {
    pub(crate) fn new(kind: Kind) -> Self {
        FileMetadata {
            format: FORMAT,
            kind,
            layout: Layout::Native,
            optimizers: UniqueMap::default(),
            texts: UniqueMap::default(),
            part: None,
            crc32: None,
        }
    }

    /// The checksum of a file with this metadata. `bytes` is the running checksum over the bytes of
    /// the tensors, `infos` are their descriptions.
    pub(crate) fn checksum(&self, mut bytes: Crc32, infos: impl IntoIterator<Item = String>) -> u32 {
        infos.into_iter().for_each(|info| bytes.update(info.as_bytes()));
        bytes.update(FileMetadata { crc32: None, ..self.clone() }.to_json().as_bytes());
        bytes.finish()
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("maps of strings are JSON")
    }
}

/// The description of a tensor that enters the checksum.
pub(crate) fn checksum_line(name: &str, tensor: &safetensors::tensor::TensorInfo) -> String {
    let (start, end) = tensor.data_offsets;
    format!("{name}\0{}\0{:?}\0{start}\0{end}\n", tensor.dtype, tensor.shape)
}

/// A map that rejects duplicate keys when deserialized.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct UniqueMap<V>(pub(crate) BTreeMap<String, V>);

impl<V> Default for UniqueMap<V> {
    fn default() -> Self {
        UniqueMap(BTreeMap::new())
    }
}

impl<V> UniqueMap<V> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for UniqueMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for MapVisitor<V> {
            type Value = UniqueMap<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<UniqueMap<V>, A::Error> {
                let mut map = BTreeMap::new();
                while let Some((key, value)) = access.next_entry::<String, V>()? {
                    if map.contains_key(&key) {
                        return Err(A::Error::custom(format_args!("duplicate name {}", super::quoted(&key))));
                    }
                    map.insert(key, value);
                }
                Ok(UniqueMap(map))
            }
        }

        deserializer.deserialize_map(MapVisitor(PhantomData))
    }
}
