// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paths that the user named: what they stand for, and each file only once.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

/// A named path.
pub(super) struct Named {
    /// As the user wrote it.
    pub(super) path: PathBuf,
    /// Where it is without any symbolic link, and its type.
    pub(super) found: io::Result<(PathBuf, FileType)>,
}

/// The paths without those that an earlier one stands for, or that lie in a directory that is also named.
pub(super) fn distinct(paths: &[PathBuf]) -> Vec<Named> {
    let mut parents = HashMap::new();
    let named: Vec<_> =
        paths.iter().map(|path| Named { path: path.clone(), found: resolve(path, &mut parents) }).collect();
    let directories: HashSet<PathBuf> = named
        .iter()
        .filter_map(|named| named.found.as_ref().ok())
        .filter(|(_, kind)| *kind == FileType::Directory)
        .map(|(path, _)| path.clone())
        .collect();
    let mut seen = HashSet::new();
    named
        .into_iter()
        .filter(|named| match &named.found {
            Ok((path, _)) => {
                !path.ancestors().skip(1).any(|above| directories.contains(above)) && seen.insert(path.clone())
            }
            Err(_) => true,
        })
        .collect()
}

/// `parents` keeps the directories resolved so far.
fn resolve(path: &Path, parents: &mut HashMap<PathBuf, PathBuf>) -> io::Result<(PathBuf, FileType)> {
    let kind = FileType::from_raw_mode(rustix::fs::lstat(path)?.st_mode);
    let (Some(parent), Some(name), false) = (path.parent(), path.file_name(), kind == FileType::Symlink) else {
        return Ok((path.canonicalize()?, FileType::from_raw_mode(rustix::fs::stat(path)?.st_mode)));
    };
    if let Some(resolved) = parents.get(parent) {
        return Ok((resolved.join(name), kind));
    }
    let here = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let resolved = here.canonicalize()?;
    let whole = resolved.join(name);
    parents.insert(parent.to_owned(), resolved);
    Ok((whole, kind))
}
