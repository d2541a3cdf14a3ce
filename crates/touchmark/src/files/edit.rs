// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes many files: side by side, in groups for the disk, hard links together, reported in order.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use touchmark_sign::cms::SignError;
use touchmark_sign::elf::ElfError;

use super::batch::Batch;
use super::container::Container;
use super::identity::Opened;
use super::ordered;
use super::place::Place;
use super::replace::{Change, ReplaceError};
use super::scan::{BUFFER, ScanError};
use super::walk::{Found, Selection};
use crate::stop::Stop;

/// Why a file, or one container of it, was not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    /// The file cannot be opened or read.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The file is no ELF file, or one that cannot take a signature.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// Only ELF files can hold a signature inside.
    #[error("expected an ELF file, found something else (--container xattr or detached takes any file)")]
    NotElf,
    /// What is put behind the kernel's own signature hides it.
    #[error(
        "it is a kernel module that carries the kernel's signature at its end, where a signature inside would hide it \
         (--container xattr or detached keeps it)"
    )]
    SignedModule,
    /// The file has names that this run did not find.
    #[error(
        "the file has {0} more name(s) (hard links) outside of what is signed here, and a new file would leave them \
         behind; name them too, or use --container xattr, which keeps links"
    )]
    LinkedElsewhere(u64),
    /// The kernel says that the content must stay.
    #[error("{0}")]
    Pinned(&'static str),
    /// The key does not sign.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// The new file cannot be made.
    #[error(transparent)]
    Replace(#[from] ReplaceError),
    /// The attribute cannot be set.
    #[error("{0}")]
    Attribute(io::Error),
    /// The file cannot be sealed.
    #[error("cannot seal it: {0}")]
    Seal(io::Error),
    /// The detached signature cannot be written.
    #[error("cannot write the detached signature: {0}")]
    Detached(io::Error),
}

/// What the work on one file gave.
#[derive(Debug, Default)]
pub(crate) struct Edited {
    /// The containers that were filled, or emptied, once the change is made.
    pub(crate) containers: Vec<Container>,
    /// What could not be done; if no container is named, nothing could.
    pub(crate) failures: Vec<(Option<Container>, EditError)>,
    /// What is still to be done.
    pub(crate) change: Option<Change>,
    /// The file, if its attribute was changed in place.
    pub(crate) touched: Option<File>,
    /// The file's size in bytes.
    pub(crate) size: u64,
    /// It is a kernel module with the kernel's own signature, which stays the last thing in it.
    pub(crate) signed_module: bool,
}

impl Edited {
    /// Does the work on a file of `size` bytes; an error means that nothing is done after all.
    pub(super) fn by(size: u64, work: impl FnOnce(&mut Self) -> Result<(), EditError>) -> Self {
        let mut edited = Self { size, ..Self::default() };
        if let Err(error) = work(&mut edited) {
            edited.give_up(error);
        }
        edited
    }

    /// Nothing is done after all.
    pub(super) fn give_up(&mut self, error: EditError) {
        self.failures.push((None, error));
        self.containers.clear();
        self.change = None;
    }

    /// Everything that failed, in words.
    pub(crate) fn reason(&self) -> Option<String> {
        let name = |(container, error): &(Option<Container>, EditError)| match container {
            Some(container) => format!("{container}: {error}"),
            None => error.to_string(),
        };
        let reasons: Vec<_> = self.failures.iter().map(name).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

/// What is reported of one name.
#[derive(Debug)]
pub(crate) enum Report<'a> {
    /// The work on it is over.
    Edited(PathBuf, &'a Edited),
    /// It was left alone, and why.
    Skipped(PathBuf, String),
    /// It could not be looked at.
    Failed(PathBuf, io::Error),
}

/// Which files, and how.
pub(crate) struct Run<'a> {
    /// The files.
    pub(crate) selection: &'a Selection,
    /// How many at a time.
    pub(crate) jobs: NonZeroUsize,
    /// When to stop.
    pub(crate) stop: &'a Stop,
}

/// What keeps its place in the order.
enum Waiting {
    Edited(Vec<Place>, Box<Edited>),
    Skipped(PathBuf, String),
    Failed(PathBuf, io::Error),
}

/// What became of one thing found.
enum Outcome {
    Ready(Waiting),
    /// One name of a file with several: `work` gets it with all its names at the end.
    Linked((u64, u64), Place),
}

/// The names of one file.
#[derive(Default)]
struct Names {
    places: Vec<Place>,
    /// Directory (device, inode) and name of each.
    seen: HashSet<(u64, u64, OsString)>,
}

impl Names {
    /// Adds a name, unless the same directory was reached by two ways (bind mounts): it would be counted twice.
    fn add(&mut self, place: Place) -> io::Result<()> {
        let directory = rustix::fs::fstat(place.directory())?;
        if self.seen.insert((directory.st_dev, directory.st_ino, place.name().to_owned())) {
            self.places.push(place);
        }
        Ok(())
    }
}

/// Does `work` on every file, makes the changes it asks for, and reports each name. Files with several names come last.
pub(crate) fn run(
    run: &Run<'_>,
    work: impl Fn(&Opened, &[Place], &mut [u8]) -> Edited + Sync,
    mut report: impl FnMut(Report<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let buffer = || vec![0; BUFFER];
    let mut batch = Batch::new();
    let mut linked = BTreeMap::<_, Names>::new();
    let found = run.selection.walk().take_while(|_| !run.stop.is_set());
    let look = |buffer: &mut Vec<u8>, found| match found {
        Found::Skipped(path, reason) => Outcome::Ready(Waiting::Skipped(path, reason)),
        Found::Failed(path, error) => Outcome::Ready(Waiting::Failed(path, error)),
        Found::File(place) => match Opened::open(&place) {
            Err(error) => Outcome::Ready(Waiting::Failed(place.path(), error)),
            Ok(opened) if opened.links() > 1 => Outcome::Linked(opened.identity().key(), place),
            Ok(opened) => {
                let places = vec![place];
                let edited = work(&opened, &places, buffer);
                Outcome::Ready(Waiting::Edited(places, Box::new(edited)))
            }
        },
    };
    ordered::run(run.jobs, found, buffer, look, |outcome| match outcome {
        Outcome::Ready(waiting) => add(&mut batch, waiting, &mut report),
        Outcome::Linked(key, place) => Ok(linked.entry(key).or_default().add(place)?),
    })?;
    let groups = linked.into_values().map(|names| names.places).take_while(|_| !run.stop.is_set());
    let look = |buffer: &mut Vec<u8>, places: Vec<Place>| match places.first().map(Opened::open) {
        Some(Ok(opened)) => {
            let edited = work(&opened, &places, buffer);
            Waiting::Edited(places, Box::new(edited))
        }
        Some(Err(error)) => {
            let mut edited = Edited::default();
            edited.give_up(ScanError::Open(error).into());
            Waiting::Edited(places, Box::new(edited))
        }
        None => Waiting::Edited(places, Box::default()),
    };
    ordered::run(run.jobs, groups, buffer, look, |waiting| add(&mut batch, waiting, &mut report))?;
    // What is not in place yet is dropped, and its temporary files with it.
    run.stop.check()?;
    commit(&mut batch, &mut report)?;
    Ok(batch.sync()?)
}

fn add(
    batch: &mut Batch<Waiting>,
    mut waiting: Waiting,
    report: &mut impl FnMut(Report<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut change = None;
    if let Waiting::Edited(_, edited) = &mut waiting {
        change = edited.change.take();
        if let Some(file) = edited.touched.take() {
            batch.wrote_to(&file)?;
        }
    }
    batch.add(waiting, change)?;
    if batch.is_full() { commit(batch, report) } else { Ok(()) }
}

fn commit(batch: &mut Batch<Waiting>, report: &mut impl FnMut(Report<'_>) -> anyhow::Result<()>) -> anyhow::Result<()> {
    for (waiting, outcome) in batch.commit() {
        match waiting {
            Waiting::Skipped(path, reason) => report(Report::Skipped(path, reason))?,
            Waiting::Failed(path, error) => report(Report::Failed(path, error))?,
            Waiting::Edited(places, mut edited) => {
                if let Err(error) = outcome {
                    edited.give_up(error.into());
                }
                places.iter().try_for_each(|place| report(Report::Edited(place.path(), &edited)))?;
            }
        }
    }
    Ok(())
}
