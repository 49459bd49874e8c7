//! The index of a model in several files: JSON with the file of each tensor, as the Python library
//! `transformers` writes it.

use super::metadata::UniqueMap;
use super::reader::TensorFile;
use super::writer::LONGEST_HEADER;
use super::{quoted, shortened};
use dl_core::{Error, Result, files};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;

#[derive(Deserialize)]
struct Index {
    /// The name of the file of each tensor.
    weight_map: UniqueMap<String>,
}

/// Opens all files of an index, which must lie beside it, and checks that each tensor is in its
/// file and in no other.
pub(super) fn open(path: &Path) -> Result<TensorFile> {
    let name = path.display().to_string();
    let file = read(path).and_then(|Index { weight_map: UniqueMap(weight_map) }| {
        let mut all =
            TensorFile { name: name.clone(), sources: Vec::new(), tensors: BTreeMap::new(), file_metadata: None };
        let mut shards: Vec<&String> = weight_map.values().collect();
        shards.sort();
        shards.dedup();
        for (number, shard) in shards.iter().enumerate() {
            if Path::new(shard).file_name() != Some(OsStr::new(shard)) || shard.contains(['/', '\\']) {
                return Err(Error::invalid(format!("{} is not the name of a file beside the index", quoted(shard))));
            }
            let one = TensorFile::open_one(&path.with_file_name(shard))?;
            if number > 0 && all.layout_and_kind() != one.layout_and_kind() {
                let shards = [shards[0], shard].map(|shard| quoted(shard));
                return Err(Error::invalid(format!("{} and {} have different layouts", shards[0], shards[1])));
            }
            all.file_metadata = one.file_metadata;
            for (tensor, (source, info)) in one.tensors {
                if weight_map.get(&tensor) != Some(shard) {
                    let names = [&tensor, *shard].map(|name| quoted(name));
                    return Err(Error::invalid(format!("{} is in {}, but not in the index", names[0], names[1])));
                }
                all.tensors.insert(tensor, (all.sources.len() + source, info));
            }
            all.sources.extend(one.sources);
        }
        match weight_map.iter().find(|(tensor, _)| !all.tensors.contains_key(*tensor)) {
            Some((tensor, shard)) => {
                let names = [tensor, shard].map(|name| quoted(name));
                Err(Error::invalid(format!("{} is not in {}, where the index has it", names[0], names[1])))
            }
            None => Ok(all),
        }
    });
    file.map_err(|error| error.context(name))
}

fn read(path: &Path) -> Result<Index> {
    let mut text = String::new();
    let file = files::open(path).map_err(Error::other)?;
    file.take(LONGEST_HEADER as u64 + 1).read_to_string(&mut text).map_err(Error::other)?;
    if text.len() > LONGEST_HEADER {
        return Err(Error::invalid(format!("the index has more than {LONGEST_HEADER} bytes")));
    }
    serde_json::from_str(&text).map_err(|error| Error::invalid(format!("index: {}", shortened(error))))
}

impl TensorFile {
    fn layout_and_kind(&self) -> Option<(crate::Layout, super::Kind)> {
        self.file_metadata().map(|metadata| (metadata.layout, metadata.kind))
    }
}
