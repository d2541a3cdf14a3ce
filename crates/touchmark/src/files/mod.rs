// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files on disk: found, opened, read, checked, signed, replaced.

mod attributes;
mod batch;
pub(crate) mod check;
pub(crate) mod container;
pub(crate) mod edit;
pub(crate) mod identity;
pub(crate) mod mark;
mod module;
mod named;
pub(crate) mod ordered;
pub(crate) mod place;
mod pseudo;
mod replace;
pub(crate) mod scan;
pub(crate) mod seal;
pub(crate) mod signatures;
mod temporary;
pub(crate) mod unmark;
pub(crate) mod walk;

use std::io::Read;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use anyhow::Context;
use globset::GlobSet;
use touchmark_enforce::Approval;
use touchmark_sign::digest::{Digest, Hasher};

use crate::authority::Authority;
use crate::stop::Stop;

/// Checks the signature embedded in an open file, which needs no path: the approval of the whole file's digest if a
/// signature that counts holds, `None` if there is none or it does not hold, an error if the file cannot be read.
///
/// Reads by offset; the descriptor's position stays as it is. The caller must see to it that the file does not change
/// after this: the digest is that of the bytes that were read.
pub(crate) fn check_embedded(file: BorrowedFd<'_>, authority: &Authority) -> anyhow::Result<Option<Approval>> {
    check::check_embedded(file, authority, &mut vec![0; scan::BUFFER])
}

/// Checks every signature of one file, as `touchmark verify` does. A symbolic link stands for what it points to.
pub(crate) fn check_path(path: &Path, authority: &Authority) -> anyhow::Result<check::Checked> {
    let check = || {
        let place = place::Place::resolve(path).map_err(scan::ScanError::Open)?;
        check::check(&place, authority, &mut vec![0; scan::BUFFER], &Stop::default())
    };
    check().with_context(|| path.display().to_string())
}

/// The SHA-256 of a file's content.
pub(crate) fn digest(path: &Path) -> anyhow::Result<Digest> {
    let read = || -> std::io::Result<Digest> {
        let mut file = std::fs::File::open(path)?;
        let (mut hasher, mut buffer) = (Hasher::new(), vec![0; scan::BUFFER]);
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(hasher.finish()),
                count => hasher.update(&buffer[..count]),
            }
        }
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

/// All regular files that the paths name or, with `recursive`, hold.
pub(crate) fn walk_all(paths: &[PathBuf], recursive: bool) -> impl Iterator<Item = anyhow::Result<PathBuf>> {
    let selection = walk::Selection { paths: paths.to_vec(), recursive, exclude: GlobSet::empty(), tidy: false };
    selection.walk().filter_map(|found| match found {
        walk::Found::File(place) => Some(Ok(place.path())),
        walk::Found::Skipped(..) => None,
        walk::Found::Failed(path, error) => Some(Err(error).with_context(|| path.display().to_string())),
    })
}

/// Lets the process open as many files as the system allows: deep trees keep a directory open on each level.
pub(crate) fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Refused: then the old limit holds, and a file that cannot be opened is named.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
