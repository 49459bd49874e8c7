//! Atomic replacement of files: write to a temporary file, sync, rename. After a crash of the
//! program or the machine, the file has its old or its new content, never a part of it. The crates
//! that write checkpoints, tensors and pictures use it, and open their files with [`open`].

use crate::error::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

const TEMPORARY: &str = ".tmp";

/// Replaces the file at `path`: writes `content` to a temporary file in the same folder, with the
/// permissions of the old file, syncs it to disk and renames it. If `path` is a symbolic link, the
/// file that it points to is replaced, and the link is kept.
pub fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let with_context =
        |error: io::Error, what: &str| Error::other(error).context(format_args!("{}: {what}", path.display()));
    let failed = |error| with_context(error, "not written");
    let permissions = check_replaceable(path).map_err(failed)?;
    let target = resolve_links(path);
    let Some(name) = target.file_name() else {
        return Err(failed(io::Error::new(ErrorKind::InvalidInput, "the path does not end in a file name")));
    };
    let folder = folder_of(&target);
    let (file, temporary) = create_temporary(folder, name).map_err(failed)?;
    let written = write_content(&file, permissions, content).and_then(|()| fs::rename(&temporary, &target));
    // a child process that has been forked, but has not called exec yet, also holds the file and
    // its lock, so closing the file here would not release the lock
    let _ = file.unlock();
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(failed(error));
    }
    sync_folder(folder).map_err(|error| with_context(error, "written, but possibly not synced to disk"))
}

/// As [`write`], but creates the folder if it does not exist.
pub fn write_in_folder(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    create_folder(folder_of(path)).map_err(|error| Error::other(error).context(path.display()))?;
    write(path, content)
}

/// Opens a file for reading. A named pipe is refused: opening it waits, possibly for ever, until a
/// program opens it for writing. The other pipes (`/dev/stdin`) are open already, and have no path
/// of their own.
pub fn open(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    if std::os::unix::fs::FileTypeExt::is_fifo(&fs::metadata(path)?.file_type()) && path.canonicalize().is_ok() {
        let what = "this is a named pipe, not a regular file: copy its content to a file first";
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    File::open(path)
}

/// The permissions of an existing file; none if there is no file. It is an error if `path` is not a
/// regular file: a device or a pipe must not be replaced.
pub fn check_replaceable(path: &Path) -> io::Result<Option<Permissions>> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(Some(found.permissions())),
        Ok(_) => Err(io::Error::new(ErrorKind::InvalidInput, "this is not a regular file; it is left unchanged")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Resolves symbolic links; the file at the end need not exist. The links cannot form a cycle,
/// because `check_replaceable` has failed in that case.
fn resolve_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    while let Ok(next) = fs::read_link(&path) {
        path = folder_of(&path).join(next);
    }
    path
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a temporary file `.name.0.tmp`, which is locked while it is open. The lock distinguishes
/// a file that is being written from one that a killed program has left behind.
fn create_temporary(folder: &Path, name: &OsStr) -> io::Result<(File, PathBuf)> {
    let mut number = 0_u32;
    loop {
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{number}{TEMPORARY}"));
        let path = folder.join(temporary);
        match File::create_new(&path) {
            Ok(file) => {
                // without locks in the file system, only the removal of unfinished files is less
                // reliable
                let _ = file.try_lock();
                return Ok((file, path));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 10_000 => number += 1,
            Err(error) => return Err(error),
        }
    }
}

fn write_content(
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

/// Syncs the directory entries of a folder to disk. Does nothing where this is not supported: in a
/// folder without read permission, and on many network file systems.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    /// The error of such a file system: the folder is not open for writing.
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

/// Creates a folder and its parents, if they do not exist.
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

/// Whether this is the name of a temporary file of [`write`], for a file with a name that begins
/// with `start`.
pub fn is_unfinished(name: &str, start: &str) -> bool {
    name.strip_prefix('.').is_some_and(|name| name.starts_with(start) && name.ends_with(TEMPORARY))
}

/// Removes a temporary file of [`write`], unless it is locked, which means that its writer is
/// active.
pub fn remove_unfinished(path: &Path) -> io::Result<()> {
    // on NFS, only a file that is open for writing can be locked
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

    /// `/proc` does not support `sync_all`, as many network file systems do not.
    #[test]
    fn sync_folder_on_unsupported_file_system_succeeds() {
        let processes = Path::new("/proc");
        assert_eq!(std::fs::File::open(processes).unwrap().sync_all().unwrap_err().kind(), ErrorKind::InvalidInput);
        sync_folder(processes).unwrap();
        assert!(sync_folder(Path::new("/nowhere")).is_err());
    }
}
