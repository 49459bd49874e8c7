//! Files that are there whole or not at all.

use dl_core::{Error, Result};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes a file beside the one that is meant, and renames it when it is whole. Its folder is made if need be.
pub(crate) fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    let write = || -> std::io::Result<()> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        let mut name = path.file_name().ok_or(std::io::ErrorKind::InvalidFilename)?.to_os_string();
        name.push(format!(".{}.part", std::process::id()));
        let beside = path.with_file_name(name);
        let written = (|| {
            let mut file = BufWriter::new(File::create(&beside)?);
            content(&mut file)?;
            file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
            fs::rename(&beside, path)
        })();
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written
    };
    write().map_err(|error| Error::other(error).context(path.display()))
}
