//! Files that are there whole or not at all.

use dl_core::{Error, Result};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufWriter, Error as IoError, ErrorKind, IntoInnerError, Write};
use std::path::{Path, PathBuf};

/// Writes a file beside the one that is meant, and renames it when it is whole. Its folder is made if need be; a symbolic link stays, and so do the permissions of a file that is there.
pub(crate) fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    replace(path, content).map_err(|error| Error::other(error).context(path.display()))
}

fn replace(path: &Path, content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> std::io::Result<()> {
    let permissions = match fs::metadata(path) {
        Ok(found) if found.is_file() => Some(found.permissions()),
        Ok(_) => return Err(IoError::other("what is there is no ordinary file, and stays as it is")),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut path = path.to_owned();
    // links end somewhere, or there would be no metadata
    while let Ok(next) = fs::read_link(&path) {
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let (file, beside) = create_beside(&path, path.file_name().ok_or(ErrorKind::InvalidFilename)?)?;
    let written = (|| {
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        let mut file = BufWriter::new(file);
        content(&mut file)?;
        file.into_inner().map_err(IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&beside, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A new file, which nobody else writes.
fn create_beside(path: &Path, name: &OsStr) -> std::io::Result<(File, PathBuf)> {
    let mut number = 0_u32;
    loop {
        let mut name = name.to_os_string();
        name.push(format!(".{number}.part"));
        let beside = path.with_file_name(name);
        match File::create_new(&beside) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 10_000 => number += 1,
            file => return file.map(|file| (file, beside)),
        }
    }
}
