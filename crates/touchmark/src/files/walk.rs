// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the files a command works on: named ones, and those in trees, in the order of their names.
//!
//! No library does this by open directories (see `place`), so that a directory swapped for a symbolic link in mid-run
//! leads nowhere else. Memory: the entries of the directories on the way down.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{io, vec};

use globset::GlobSet;
use rustix::fs::{AtFlags, Dir, FileType};

use super::container::is_detached_name;
use super::named::{self, Named};
use super::place::{Directory, Place, expected_regular, type_name};
use super::{pseudo, temporary};

/// What to work on.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    /// Files and directories named by the user, in this order.
    pub(crate) paths: Vec<PathBuf>,
    /// Go into directories.
    pub(crate) recursive: bool,
    /// Leave out what matches, by its path as shown or by its name alone; of a directory, all that is in it.
    pub(crate) exclude: GlobSet,
    /// Remove temporary files that killed runs left in the directories (a command that writes).
    pub(crate) tidy: bool,
}

/// One thing found.
#[derive(Debug)]
pub(crate) enum Found {
    /// A regular file as far as one can tell without opening it.
    File(Place),
    /// Left alone: a FIFO, a socket, a device, a pseudo file system in a tree, and why.
    Skipped(PathBuf, String),
    /// Cannot be looked at.
    Failed(PathBuf, io::Error),
}

impl Selection {
    /// Starts to look.
    pub(crate) fn walk(&self) -> Walk {
        Walk {
            named: named::distinct(&self.paths).into_iter(),
            reached: None,
            levels: Vec::new(),
            recursive: self.recursive,
            exclude: self.exclude.clone(),
            tidy: self.tidy,
        }
    }
}

/// The iterator over what is found.
pub(crate) struct Walk {
    named: vec::IntoIter<Named>,
    /// The directory of the last named file; the next one is often in the same.
    reached: Option<Arc<Directory>>,
    levels: Vec<Level>,
    recursive: bool,
    exclude: GlobSet,
    tidy: bool,
}

struct Level {
    directory: Arc<Directory>,
    device: u64,
    entries: Vec<Entry>,
    next: usize,
}

struct Entry {
    name: OsString,
    kind: FileType,
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let found = if self.levels.is_empty() { self.next_named()? } else { self.next_in_tree() };
            if found.is_some() {
                return found;
            }
        }
    }
}

impl Walk {
    /// `None` at the end of the list, `Some(None)` if there is nothing to report.
    fn next_named(&mut self) -> Option<Option<Found>> {
        let Named { path, found } = self.named.next()?;
        if self.excluded(&path, path.file_name()) {
            return Some(None);
        }
        let found = found.and_then(|(resolved, kind)| match kind {
            FileType::RegularFile => self.named_file(&path, &resolved).map(Some),
            FileType::Directory if self.recursive => self.enter(Directory::open(&path)?, None),
            FileType::Directory => Err(io::Error::other("is a directory (-r goes into it)")),
            // Not opened: opening a device can do things.
            other => Err(expected_regular(other)),
        });
        Some(found.unwrap_or_else(|error| Some(Found::Failed(path, error))))
    }

    fn named_file(&mut self, path: &Path, resolved: &Path) -> io::Result<Found> {
        let (Some(parent), Some(name)) = (resolved.parent(), resolved.file_name()) else {
            return Err(io::Error::other("expected the path of a file"));
        };
        let directory = match self.reached.take().filter(|reached| reached.path() == parent) {
            Some(reached) => reached,
            None => {
                if self.tidy {
                    temporary::tidy(parent);
                }
                Arc::new(Directory::reach(parent)?)
            }
        };
        self.reached = Some(Arc::clone(&directory));
        Ok(Found::File(Place::named(directory, name.to_owned(), path.to_owned())))
    }

    fn next_in_tree(&mut self) -> Option<Found> {
        let level = self.levels.last_mut()?;
        let Some(entry) = level.entries.get_mut(level.next) else {
            self.levels.pop();
            return None;
        };
        level.next += 1;
        // The entry's name stays: `detached` looks for it.
        let (name, mut kind) = (entry.name.clone(), entry.kind);
        let (directory, device) = (Arc::clone(&level.directory), level.device);
        let path = directory.path().join(&name);
        if self.excluded(&path, Some(&name)) {
            return None;
        }
        if kind == FileType::Unknown {
            match rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => kind = FileType::from_raw_mode(stat.st_mode),
                Err(errno) => return Some(Found::Failed(path, errno.into())),
            }
        }
        match kind {
            FileType::RegularFile => self.regular(directory, name),
            FileType::Directory => directory
                .enter(&name)
                .and_then(|inner| self.enter(inner, Some(device)))
                .unwrap_or_else(|error| Some(Found::Failed(path, error))),
            // What it points to is found under its own name, if it is in the tree.
            FileType::Symlink => None,
            other => Some(Found::Skipped(path, format!("is a {}", type_name(other)))),
        }
    }

    fn regular(&self, directory: Arc<Directory>, name: OsString) -> Option<Found> {
        if self.tidy && temporary::is_ours(&name) && temporary::remove_stale(&directory, &name) {
            return None;
        }
        // Belongs to the file beside it. Alone it is a file like any other, or a name would hide it from `verify`.
        if let Some(signed) = is_detached_name(&name) {
            let entries = self.levels.last().map_or(&[][..], |level| &level.entries);
            if entries.binary_search_by(|entry| entry.name.as_os_str().cmp(signed)).is_ok() {
                return None;
            }
        }
        Some(Found::File(Place::new(directory, name)))
    }

    /// Goes into a directory; `parent` is the device of the one it was found in.
    fn enter(&mut self, directory: Directory, parent: Option<u64>) -> io::Result<Option<Found>> {
        let device = rustix::fs::fstat(&directory)?.st_dev;
        if parent != Some(device) {
            if let Some(name) = pseudo::name(&directory)? {
                return Ok(Some(Found::Skipped(
                    directory.path().to_owned(),
                    format!("is on {name}, which holds no files"),
                )));
            }
        }
        let entries = entries(&directory)?;
        self.levels.push(Level { directory: Arc::new(directory), device, entries, next: 0 });
        Ok(None)
    }

    fn excluded(&self, path: &Path, name: Option<&OsStr>) -> bool {
        !self.exclude.is_empty()
            && (self.exclude.is_match(path) || name.is_some_and(|name| self.exclude.is_match(name)))
    }
}

fn entries(directory: &Directory) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            entries.push(Entry { name: OsString::from_vec(name.to_vec()), kind: entry.file_type() });
        }
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn selection(paths: &[PathBuf]) -> Selection {
        Selection { paths: paths.to_vec(), recursive: true, exclude: GlobSet::empty(), tidy: false }
    }

    fn names(selection: &Selection, base: &Path) -> Vec<String> {
        let relative = |path: &Path| path.strip_prefix(base).unwrap_or(path).display().to_string();
        selection
            .walk()
            .map(|found| match found {
                Found::File(place) => relative(&place.path()),
                Found::Skipped(path, reason) => format!("{}: {reason}", relative(&path)),
                Found::Failed(path, error) => format!("{}: {error}", relative(&path)),
            })
            .collect()
    }

    #[test]
    fn a_tree_in_order() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        for directory in ["b/c", "a", "z"] {
            fs::create_dir_all(path(directory)).unwrap();
        }
        for file in ["b/c/2", "b/c/10", "b/x", "a/.hidden", "a/f", "a/f.touchmark", "a/alone.touchmark", "z/skip.me"] {
            fs::write(path(file), "").unwrap();
        }
        symlink(base.path(), path("b/loop")).unwrap();
        symlink("nowhere", path("b/dangling")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("b/fifo"), rustix::fs::Mode::RUSR).unwrap();
        let mut selection = selection(&[base.path().to_owned()]);
        let glob = |text| globset::GlobSetBuilder::new().add(globset::Glob::new(text).unwrap()).build().unwrap();
        selection.exclude = glob("*.me");
        let all = ["a/.hidden", "a/alone.touchmark", "a/f", "b/c/10", "b/c/2", "b/fifo: is a FIFO", "b/x"];
        assert_eq!(names(&selection, base.path()), all);
        selection.exclude = glob("**/b");
        assert_eq!(names(&selection, base.path()), ["a/.hidden", "a/alone.touchmark", "a/f", "z/skip.me"]);
    }

    #[test]
    fn nothing_twice_and_no_pseudo_files() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("d")).unwrap();
        fs::write(base.path().join("d/f"), "").unwrap();
        let named = ["d/f", "d", "d/", "d/f"].map(|name| base.path().join(name));
        assert_eq!(names(&selection(&named), base.path()), ["d/f"]);
        let proc = selection(&[PathBuf::from("/proc/self")]);
        assert_eq!(names(&proc, Path::new("/")), ["proc/self: is on proc, which holds no files"]);
    }

    #[test]
    fn directories_need_recursion() {
        let base = tempfile::tempdir().unwrap();
        let mut selection = selection(&[base.path().to_owned(), base.path().join("absent")]);
        selection.recursive = false;
        let found = names(&selection, base.path());
        assert_eq!(found[0], ": is a directory (-r goes into it)");
        assert!(found[1].starts_with("absent: No such file"), "{found:?}");
    }
}
