//! The index of tensors in several files: JSON with the file of each tensor, as the Python library
//! `transformers` writes it for a model. That of a checkpoint of several ranks has a manifest, too.

use super::crc32::Crc32;
use super::metadata::{FilePart, UniqueMap};
use super::reader::TensorFile;
use super::writer::{LONGEST_HEADER, Written};
use super::{quoted, shortened};
use dl_core::{Error, Result, files};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;

#[derive(Deserialize, Serialize)]
struct Index {
    /// The name of the file of each tensor.
    weight_map: UniqueMap<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dl: Option<Manifest>,
}

/// The files of a checkpoint of several ranks.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    step: u64,
    /// One of each rank.
    parts: Vec<PartFile>,
    /// The checksum over the index without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crc32: Option<u32>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct PartFile {
    file: String,
    bytes: u64,
    crc32: u32,
}

impl Manifest {
    pub(crate) fn new(step: u64) -> Manifest {
        Manifest { step, parts: Vec::new(), crc32: None }
    }

    /// Adds the file of the next rank.
    pub(crate) fn add(&mut self, file: String, Written { bytes, crc32 }: Written) {
        self.parts.push(PartFile { file, bytes, crc32 });
    }

    /// Writes the index, given the file of each tensor.
    pub(crate) fn write(self, path: &Path, weight_map: BTreeMap<String, String>) -> Result<()> {
        let mut index = Index { weight_map: UniqueMap(weight_map), dl: Some(self) };
        let crc32 = index.checksum();
        index.dl.iter_mut().for_each(|manifest| manifest.crc32 = Some(crc32));
        files::write(path, |file| file.write_all(index.to_json().as_bytes()))
    }

    /// Checks that the file of a rank is the one that was saved for this manifest.
    fn check(&self, rank: usize, path: &Path, file: &TensorFile) -> Result<()> {
        let PartFile { file: name, bytes, crc32 } = &self.parts[rank];
        let refuse = |what: String| Err(Error::invalid(format!("{}: {what}", quoted(name))));
        let metadata = file.file_metadata();
        let Some(part) = metadata.and_then(|metadata| metadata.part) else {
            return refuse("it is not a part of a checkpoint".to_owned());
        };
        if part.step != self.step {
            return refuse(format!("it is a part of the checkpoint of step {}, not {}", part.step, self.step));
        }
        if (part.rank, part.ranks) != (rank, self.parts.len()) {
            let (ranks, expected) = (part.ranks, self.parts.len());
            return refuse(format!("it is the part of rank {} of {ranks}, not of {rank} of {expected}", part.rank));
        }
        let found = path.metadata().map_err(Error::other)?.len();
        if found != *bytes {
            return refuse(format!("it has {found} bytes, and the manifest says {bytes}"));
        }
        match metadata.and_then(|metadata| metadata.crc32) {
            Some(found) if found == *crc32 => Ok(()),
            _ => refuse("it is not the file that was saved for this manifest: the checksum differs".to_owned()),
        }
    }
}

impl Index {
    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers are JSON")
    }

    /// The checksum of an index whose manifest has none.
    fn checksum(&self) -> u32 {
        let mut crc = Crc32::new();
        crc.update(self.to_json().as_bytes());
        crc.finish()
    }

    /// Checks the manifest. Returns the names of all files: one of each rank, or those of the tensors.
    fn checked_files(&mut self) -> Result<Vec<String>> {
        let Some(expected) = self.dl.as_mut().map(|manifest| manifest.crc32.take()) else {
            let mut files: Vec<String> = self.weight_map.0.values().cloned().collect();
            files.sort();
            files.dedup();
            return Ok(files);
        };
        let found = self.checksum();
        if expected != Some(found) {
            return Err(Error::invalid("the checksum differs from that of the content: the manifest is damaged"));
        }
        self.dl.iter_mut().for_each(|manifest| manifest.crc32 = expected);
        Ok(self.dl.iter().flat_map(|manifest| &manifest.parts).map(|part| part.file.clone()).collect())
    }
}

/// Opens all files of an index, which must lie beside it, and checks that each tensor is in its
/// file and in no other.
pub(super) fn open(path: &Path) -> Result<TensorFile> {
    let name = path.display().to_string();
    let file = read(path).and_then(|mut index| {
        let files = index.checked_files()?;
        let Index { weight_map: UniqueMap(weight_map), dl: manifest } = index;
        let mut all =
            TensorFile { name: name.clone(), sources: Vec::new(), tensors: BTreeMap::new(), file_metadata: None };
        for (number, file) in files.iter().enumerate() {
            if Path::new(file).file_name() != Some(OsStr::new(file)) || file.contains(['/', '\\']) {
                return Err(Error::invalid(format!("{} is not the name of a file beside the index", quoted(file))));
            }
            let path = path.with_file_name(file);
            let mut one = TensorFile::open_one(&path)?;
            match &manifest {
                Some(manifest) => manifest.check(number, &path, &one)?,
                None if one.part().is_some() => {
                    return Err(Error::invalid("this is an index of the parts of a checkpoint without a manifest"));
                }
                None => {}
            }
            if let Some(metadata) = &mut one.file_metadata {
                metadata.part = None;
                metadata.crc32 = manifest.as_ref().and_then(|manifest| manifest.crc32);
            }
            if number > 0 && all.content_and_kind() != one.content_and_kind() {
                let files = [&files[0], file].map(|file| quoted(file));
                return Err(Error::invalid(format!("{} and {} have different layouts", files[0], files[1])));
            }
            all.file_metadata = one.file_metadata;
            for (tensor, (source, info)) in one.tensors {
                if weight_map.get(&tensor) != Some(file) {
                    let names = [&tensor, file].map(|name| quoted(name));
                    return Err(Error::invalid(format!("{} is in {}, but not in the index", names[0], names[1])));
                }
                all.tensors.insert(tensor, (all.sources.len() + source, info));
            }
            all.sources.extend(one.sources);
        }
        match weight_map.iter().find(|(tensor, _)| !all.tensors.contains_key(*tensor)) {
            Some((tensor, file)) => {
                let names = [tensor, file].map(|name| quoted(name));
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
    fn part(&self) -> Option<FilePart> {
        self.file_metadata().and_then(|metadata| metadata.part)
    }

    /// What must be equal in all files: the layout, the kind, the optimizers and the texts.
    fn content_and_kind(&self) -> Option<impl PartialEq + use<'_>> {
        let metadata = self.file_metadata()?;
        Some((metadata.layout, metadata.kind, &metadata.optimizers.0, &metadata.texts.0))
    }
}
