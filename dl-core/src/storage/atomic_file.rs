//! Writing a file so that it is there whole or not at all, whenever the program or the machine
//! stops: for the crates around this one, which write checkpoints, tensors and pictures.

use crate::error::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

const TEMPORARY: &str = ".tmp";

/// Writes what `content` writes to a new file in the same folder, waits until the disk has it, and
/// lets it take the place of this one, with its permissions. A symbolic link stays, and the file
/// that it leads to is written.
pub fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let but = |error: io::Error, what: &str| Error::other(error).context(format_args!("{}: {what}", path.display()));
    let failed = |error| but(error, "not written");
    let permissions = check_replaceable(path).map_err(failed)?;
    let target = target(path);
    let Some(name) = target.file_name() else {
        return Err(failed(io::Error::new(ErrorKind::InvalidInput, "the path ends in no name of a file")));
    };
    let folder = folder_of(&target);
    let (file, temporary) = create_beside(folder, name).map_err(failed)?;
    let written = fill(&file, permissions, content).and_then(|()| fs::rename(&temporary, &target));
    // a program that is being started may have the file for a moment, and its lock with it
    let _ = file.unlock();
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(failed(error));
    }
    sync_folder(folder).map_err(|error| but(error, "written, but perhaps not on the disk yet"))
}

/// The same where the folder may have to be made.
pub fn write_in_folder(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    create_folder(folder_of(path)).map_err(|error| Error::other(error).context(path.display()))?;
    write(path, content)
}

/// The permissions of the file that is there. A device or a pipe is not to become a file.
pub fn check_replaceable(path: &Path) -> io::Result<Option<Permissions>> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(Some(found.permissions())),
        Ok(_) => Err(io::Error::new(ErrorKind::InvalidInput, "what is there is no ordinary file, and stays as it is")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where symbolic links lead to, although there may be no file yet. They end somewhere, or there
/// would be no metadata.
fn target(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    while let Ok(next) = fs::read_link(&path) {
        path = folder_of(&path).join(next);
    }
    path
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A new file `.name.0.tmp`, which is locked as long as it is open: so what a program that was
/// killed has left behind can be told from what is being written.
fn create_beside(folder: &Path, name: &OsStr) -> io::Result<(File, PathBuf)> {
    let mut number = 0_u32;
    loop {
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{number}{TEMPORARY}"));
        let path = folder.join(temporary);
        match File::create_new(&path) {
            Ok(file) => {
                // a file system without locks leaves more rubbish behind, and that is all
                let _ = file.try_lock();
                return Ok((file, path));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 10_000 => number += 1,
            Err(error) => return Err(error),
        }
    }
}

fn fill(
    file: &File,
    permissions: Option<Permissions>,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if let Some(permissions) = permissions
        && permissions != file.metadata()?.permissions()
    {
        file.set_permissions(permissions)?;
    }
    let mut writer = BufWriter::with_capacity(1 << 18, file);
    content(&mut writer)?;
    writer.flush()?;
    file.sync_all()
}

/// Waits until the disk knows the names in a folder, where that can be asked for: not of a folder
/// that may only be written to, nor of many network disks.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    /// What such a disk may say: the folder is not open for writing.
    const EBADF: i32 = 9;

    if !cfg!(unix) {
        // a folder cannot be opened as a file
        return Ok(());
    }
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error) if error.raw_os_error() == Some(EBADF) => Ok(()),
        Err(error) => match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::InvalidInput | ErrorKind::Unsupported => Ok(()),
            _ => Err(error),
        },
        Ok(()) => Ok(()),
    }
}

/// Makes a folder and those above it, if they are not there.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let parent = folder_of(folder);
    create_folder(parent)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    sync_folder(parent)
}

/// Whether a file of this name is one that `write` had not finished, for a file whose name starts
/// so.
pub fn is_unfinished(name: &str, start: &str) -> bool {
    name.strip_prefix('.').is_some_and(|name| name.starts_with(start) && name.ends_with(TEMPORARY))
}

/// Removes an unfinished file, unless somebody is writing it.
pub fn remove_unfinished(path: &Path) -> io::Result<()> {
    // on NFS only what is open for writing can be locked
    let file = File::options().write(true).open(path)?;
    match file.try_lock() {
        Ok(()) => fs::remove_file(path),
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(all(test, target_os = "linux", not(any(shuttle, loom))))]
mod tests {
    use super::sync_folder;
    use std::io::ErrorKind;
    use std::path::Path;

    /// The folder of the processes is on no disk, as many a folder on a network is on none that
    /// waits.
    #[test]
    fn a_folder_that_cannot_be_synced() {
        let processes = Path::new("/proc");
        assert_eq!(std::fs::File::open(processes).unwrap().sync_all().unwrap_err().kind(), ErrorKind::InvalidInput);
        sync_folder(processes).unwrap();
        assert!(sync_folder(Path::new("/nowhere")).is_err());
    }
}
