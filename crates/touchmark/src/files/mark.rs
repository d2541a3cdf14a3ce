// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signs one file: makes all that is to be put in place, and puts nothing there yet, but for the attribute of a file
//! whose bytes stay.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use touchmark_sign::certificate::Certificate;
use touchmark_sign::cms::{self, SignError};
use touchmark_sign::digest::{Digest, Hasher};
use touchmark_sign::elf::embed::Plan;
use touchmark_sign::elf::embedded::Embedded;
use touchmark_sign::elf::{Patch, is_elf};
use touchmark_sign::key::Signer;
use touchmark_sign::statement::{Kind, Statement};

use super::container::{Container, detached_place, write_attribute};
use super::edit::{EditError, Edited};
use super::identity::{Identity, Opened};
use super::module;
use super::place::Place;
use super::replace::{Change, Draft, ReplaceError};
use super::scan::{ScanError, Source, read_some, scan};
use super::temporary::Temporary;
use crate::stop::Stop;

/// How files are signed.
pub(crate) struct Marker<'a> {
    /// The key.
    pub(crate) signer: &'a dyn Signer,
    /// Its certificate.
    pub(crate) certificate: &'a Certificate,
    /// Where signatures go; empty: inside and in the attribute for ELF files, in the attribute for others and for signed
    /// kernel modules.
    pub(crate) containers: &'a [Container],
    /// Only find out what would be done.
    pub(crate) dry_run: bool,
    /// When to stop.
    pub(crate) stop: &'a Stop,
}

impl Marker<'_> {
    /// Signs a file of which these are all the names that were found.
    pub(crate) fn mark(&self, opened: &Opened, places: &[Place], buffer: &mut [u8]) -> Edited {
        Edited::by(opened.size(), |edited| self.try_mark(opened, places, buffer, edited))
    }

    fn try_mark(
        &self,
        opened: &Opened,
        places: &[Place],
        buffer: &mut [u8],
        edited: &mut Edited,
    ) -> Result<(), EditError> {
        let Some(first) = places.first() else { return Ok(()) };
        let read = read_some(opened.file.as_fd(), &mut buffer[..4096], 0, opened.size()).map_err(ScanError::Read)?;
        let head = buffer.get(..read).unwrap_or_default().to_vec();
        let source = Source::new(opened.file.as_fd(), opened.size(), &head).map_err(ScanError::Read)?;
        edited.signed_module = module::is_signed(&source, opened.size()).map_err(ScanError::Read)?;
        let wanted = match self.containers {
            [] if is_elf(&head) && !edited.signed_module => &[Container::Embedded, Container::Xattr],
            [] => &[Container::Xattr][..],
            named => named,
        };
        let mut content = None;
        if wanted.contains(&Container::Embedded) {
            let plan =
                if edited.signed_module { Err(EditError::SignedModule) } else { self.plan(opened, places, &source) };
            match plan {
                Ok(plan) => content = Some(plan),
                Err(error) => edited.failures.push((Some(Container::Embedded), error)),
            }
        }
        if self.dry_run {
            let failed = |container| edited.failures.iter().any(|(found, _)| *found == Some(container));
            edited.containers = wanted.iter().copied().filter(|container| !failed(*container)).collect();
            return Ok(());
        }
        let rewritten = match content {
            Some(new) => self.rewrite(opened, first, &new, wanted, buffer, edited)?,
            None => self.keep(opened, first, wanted, buffer, edited)?,
        };
        self.detach(opened, places, wanted, &rewritten, edited);
        edited.containers.sort_unstable();
        if let Some(change) = &mut edited.change {
            change.places = places.to_vec();
        }
        Ok(())
    }

    /// Embeds a signature in a new file; the other signatures are over the new file.
    fn rewrite(
        &self,
        opened: &Opened,
        place: &Place,
        new: &NewContent,
        wanted: &[Container],
        buffer: &mut [u8],
        edited: &mut Edited,
    ) -> Result<WholeSignature, EditError> {
        let mut hasher = Hasher::new();
        let mut draft = Draft::begin(opened, place)?;
        draft.copy(new.plan.original_len, &new.patches, buffer, self.stop, |piece| hasher.update(piece))?;
        hasher.update(&new.plan.appended);
        let der = self.sign(Kind::ElfContent, hasher.clone().finish())?;
        let signature = new.plan.finish(&der)?;
        hasher.update(&signature);
        draft.append(&[&new.plan.appended[..], &signature].concat())?;
        let whole = WholeSignature::new(self, hasher.finish(), wanted)?;
        let attribute = whole.der.as_deref().filter(|_| wanted.contains(&Container::Xattr));
        let (content, signed) = draft.finish(attribute)?;
        edited.containers.push(Container::Embedded);
        match signed {
            Ok(()) if attribute.is_some() => edited.containers.push(Container::Xattr),
            Ok(()) => {}
            Err(error) => edited.failures.push((Some(Container::Xattr), EditError::Attribute(error))),
        }
        edited.change =
            Some(Change { places: Vec::new(), content: Some(content), detached: Vec::new(), drop_detached: true });
        Ok(whole)
    }

    /// Signs the file as it is.
    fn keep(
        &self,
        opened: &Opened,
        place: &Place,
        wanted: &[Container],
        buffer: &mut [u8],
        edited: &mut Edited,
    ) -> Result<WholeSignature, EditError> {
        if wanted.iter().all(|container| *container == Container::Embedded) {
            return Ok(WholeSignature { der: None });
        }
        let scan = scan(opened.file.as_fd(), opened.size(), buffer, self.stop)?;
        let whole = WholeSignature::new(self, scan.whole, wanted)?;
        let found = place.stat().map_err(ScanError::Open)?;
        if Identity::from(&found) != opened.identity() {
            return Err(ReplaceError::Changed.into());
        }
        if let Some(der) = whole.der.as_deref().filter(|_| wanted.contains(&Container::Xattr)) {
            match write_attribute(&opened.file, der) {
                Ok(()) => {
                    edited.containers.push(Container::Xattr);
                    edited.touched = opened.file.try_clone().ok();
                }
                Err(error) => edited.failures.push((Some(Container::Xattr), EditError::Attribute(error))),
            }
        }
        Ok(whole)
    }

    /// Writes detached signatures, for every name one.
    fn detach(
        &self,
        opened: &Opened,
        places: &[Place],
        wanted: &[Container],
        whole: &WholeSignature,
        edited: &mut Edited,
    ) {
        let Some(der) = whole.der.as_deref().filter(|_| wanted.contains(&Container::Detached)) else { return };
        let write = |place: &Place| -> io::Result<Temporary> {
            let temporary = Temporary::beside(&detached_place(place))?;
            temporary.file().write_all_at(der, 0)?;
            // Readable by whoever can read the file.
            let mode = rustix::fs::Mode::from_raw_mode(u32::from(opened.stat.stx_mode) & 0o444 | 0o200);
            rustix::fs::fchmod(temporary.file(), mode)?;
            Ok(temporary)
        };
        match places.iter().map(write).collect() {
            Ok(detached) => {
                let change = edited.change.get_or_insert_with(Change::default);
                change.detached = detached;
                change.drop_detached = false;
                edited.containers.push(Container::Detached);
            }
            Err(error) => edited.failures.push((Some(Container::Detached), EditError::Detached(error))),
        }
    }

    /// What the new file is to consist of.
    fn plan(&self, opened: &Opened, places: &[Place], source: &Source<'_>) -> Result<NewContent, EditError> {
        if !is_elf(source.head) {
            return Err(EditError::NotElf);
        }
        if let Some(reason) = opened.pinned() {
            return Err(EditError::Pinned(reason));
        }
        match opened.links().saturating_sub(places.len() as u64) {
            0 => {}
            elsewhere => return Err(EditError::LinkedElsewhere(elsewhere)),
        }
        let capacity = self.capacity()?;
        Ok(match Embedded::find(source, opened.size())? {
            // Signed before: the signature is taken off first. Both patch the ELF header; the later patches count.
            Some(old) => {
                let plan = Plan::new(&old.original(source), old.original_len, capacity)?;
                NewContent { patches: [&old.restore[..], &plan.patches].concat(), plan }
            }
            None => {
                let plan = Plan::new(source, opened.size(), capacity)?;
                NewContent { patches: plan.patches.clone(), plan }
            }
        })
    }

    /// How much room a signature needs.
    fn capacity(&self) -> Result<u32, SignError> {
        let length = cms::max_len(self.certificate)?;
        u32::try_from(length).map_err(|_| SignError::TooLong(length))
    }

    fn sign(&self, kind: Kind, digest: Digest) -> Result<Vec<u8>, SignError> {
        cms::sign(&Statement::new(kind, digest), self.signer, self.certificate)
    }
}

struct NewContent {
    /// What changes in the part of the old file that stays.
    patches: Vec<Patch>,
    plan: Plan,
}

/// The signature over the whole file, if a container wants it.
struct WholeSignature {
    der: Option<Vec<u8>>,
}

impl WholeSignature {
    fn new(marker: &Marker<'_>, whole: Digest, wanted: &[Container]) -> Result<Self, SignError> {
        let needed = wanted.iter().any(|container| *container != Container::Embedded);
        Ok(Self { der: needed.then(|| marker.sign(Kind::File, whole)).transpose()? })
    }
}
